"""Pipelines with our estimators become ONNX graphs by skl2onnx."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from odmlib.errors import ParameterError
from odmlib.sklearn import KMOMDClassifier, LinearODM, MultiClassODM, ODMClassifier, SVMClassifier
from odmlib.sklearn.onnx import register_converters

skl2onnx = pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")

ESTIMATORS = [
    ODMClassifier(),
    ODMClassifier(probability=True),
    LinearODM(probability=True),
    MultiClassODM(probability=True),
    KMOMDClassifier(),
    SVMClassifier(kernel="poly"),
]


@pytest.fixture(autouse=True)
def registered():
    register_converters()


def graph_of(pipeline, X, **options):
    proto = skl2onnx.to_onnx(pipeline, X[:1], options={"zipmap": False} | options, target_opset=22)
    return onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: str(estimator)[:40])
def test_pipelines(estimator, load, precision):
    X, y = load(return_X_y=True)
    names = np.array(["one", "two", "three"])[y] if estimator.probability else y
    pipeline = make_pipeline(StandardScaler(), estimator).fit(X, names)
    label, values = graph_of(pipeline, X.astype(precision)).run(None, {"X": X.astype(precision)})
    expected = pipeline.predict_proba(X) if estimator.probability else pipeline.decision_function(X)
    if expected.ndim == 1:
        expected = np.column_stack([-expected, expected])
    assert values.dtype == precision and values.shape == expected.shape
    tolerance = {"float64": 1e-9 if estimator.probability else 1e-12, "float32": 5e-5}[precision]
    assert np.abs(values - expected).max() <= tolerance * max(1.0, np.abs(expected).max())
    same = label == pipeline.predict(X)
    assert same.all() if precision == "float64" else same.mean() > 0.99


def test_raw_scores_and_zipmap():
    X, y = load_iris(return_X_y=True)
    machine = ODMClassifier(probability=True).fit(X, y)
    values = graph_of(machine, X, raw_scores=True).run(None, {"X": X})[1]
    assert values == pytest.approx(machine.decision_function(X), rel=1e-10)
    X = X.astype(np.float32)  # the operator that makes dictionaries knows no doubles
    proto = skl2onnx.to_onnx(machine, X[:1], target_opset=22)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    first = session.run(None, {"X": X})[1][0]
    assert first == pytest.approx(dict(enumerate(machine.predict_proba(X)[0])), abs=1e-4)


def test_what_cannot_be_converted():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ParameterError, match="precomputed"):
        skl2onnx.to_onnx(ODMClassifier(kernel="precomputed").fit(X @ X.T, y), (X @ X.T)[:1], target_opset=22)
    machine = LinearODM().fit(X, y)
    with pytest.raises(ParameterError, match="target_opset must be 18 or more"):
        skl2onnx.to_onnx(machine, X[:1], target_opset=15)
