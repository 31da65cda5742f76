"""ONNX graphs: onnx checks them, onnxruntime runs them, and answers are those of the model."""

from __future__ import annotations

import json

import numpy as np
import pytest

import odmlib
from odmlib.data.dataset import Dataset
from odmlib.data.reading import read_dataset
from odmlib.data.scaling import Scaling
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.model.functions import KernelFunction, RoutedFunction

from ...real_data import real_path
from ..examples import make_model
from .trained import DATA, REAL, REGRESSIONS, TRAINED, size_of_terms, trained, trained_regression

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from odmlib.model.export.onnx_graph import (  # noqa: E402
    DEFAULT_OPSET,
    OLDEST_OPSET,
    onnx_model,
    save_onnx,
)

TOLERANCES = {"float64": 1e-12, "float32": 1e-5}


def answers_of(proto, rows: np.ndarray) -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    dtype = {"tensor(double)": np.float64, "tensor(float)": np.float32}[session.get_inputs()[0].type]
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": rows.astype(dtype)}), strict=True))


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("precision", list(TOLERANCES))
@pytest.mark.parametrize("name", REGRESSIONS)
def test_predictions_of_a_regression(name, precision, outputs):
    model, rows = trained_regression(name, outputs)
    answers = answers_of(onnx_model(model, precision), rows.to_dense())
    assert list(answers) == ["prediction"]
    assert answers["prediction"].dtype == precision
    expected = model.predict(rows).reshape(rows.n_rows, outputs)
    difference = np.abs(answers["prediction"] - expected).max()
    assert difference <= TOLERANCES[precision] * size_of_terms(model, rows)


def assert_same(model, rows: Dataset, answers: dict[str, np.ndarray], precision: str) -> None:
    scores, tolerance = model.function.scores(rows, 1), TOLERANCES[precision]
    assert answers["scores"].dtype == precision
    assert np.abs(answers["scores"] - scores).max() <= tolerance * size_of_terms(model, rows)
    same = answers["label"] == model.predict(rows)
    assert same.all() if precision == "float64" else same.mean() > 0.999
    assert ("probabilities" in answers) == ("probability_slopes" in model.extras)
    if "probabilities" in answers:
        p = answers["probabilities"]
        assert np.abs(p - model.predict_proba(rows)).max() <= max(10 * tolerance, 1e-9)  # of the coupling
        assert np.array_equal(model.labels[p.argmax(axis=1)], answers["label"])


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("name", TRAINED)
def test_answers_are_those_of_the_model(name, precision):
    model, rows = trained(name)
    assert_same(model, rows, answers_of(onnx_model(model, precision), rows.to_dense()), precision)


@pytest.mark.parametrize("kind", ["linear", "rbf", "poly ovo", "sigmoid", "rbf joint", "linear ovo"])
def test_probabilities_that_disagree_with_the_label(kind):
    """Offsets that would let another class be the most probable one."""
    model = make_model(kind)
    rows = Dataset.from_any(np.random.default_rng(1).normal(size=(200, 6)))
    against = -2 * np.sign(np.median(model.function.scores(rows, 1)))
    outputs = model.n_outputs
    model = make_model(
        kind,
        extras={
            "probability_slopes": tuple(np.linspace(0.05, 0.2, outputs)),
            "probability_offsets": tuple(np.linspace(against, 3, outputs)),
        },
    )
    disagree = model.probabilities_for(model.function.scores(rows, 1))
    assert (np.sort(disagree)[:, -1] - np.sort(disagree)[:, -2] < 1e-9).any()
    assert_same(model, rows, answers_of(onnx_model(model), rows.to_dense()), "float64")


@pytest.mark.parametrize("opset", [OLDEST_OPSET, DEFAULT_OPSET, onnx.defs.onnx_opset_version()])
def test_opsets(opset):
    """onnx checks the newest, too, which onnxruntime does not run yet."""
    model, rows = trained("one-vs-one, rbf")
    proto = onnx_model(model, opset=opset)
    assert proto.opset_import[0].version == opset
    onnx.checker.check_model(proto, full_check=True)
    if opset <= DEFAULT_OPSET:
        assert_same(model, rows, answers_of(proto, rows.to_dense()), "float64")


def test_onnx_reference_implementation_agrees():
    """A second implementation of the operators, that of onnx itself."""
    from onnx.reference import ReferenceEvaluator

    model, rows = trained("mcodm")
    proto = onnx_model(model, opset=onnx.defs.onnx_opset_version())
    results = ReferenceEvaluator(proto).run(None, {"X": rows.to_dense()})
    names = [output.name for output in proto.graph.output]
    assert_same(model, rows, dict(zip(names, results, strict=True)), "float64")


@pytest.mark.parametrize("precision", TOLERANCES)
def test_scaling_is_built_in(precision):
    rows, y = read_dataset(DATA / "wdbc.train.txt")
    scaling = Scaling.fit(rows)
    kept = np.arange(len(scaling.columns)) != 4
    scaling = Scaling(scaling.columns[kept], scaling.minimum[kept], scaling.maximum[kept], -1.0, 0.5)
    model = odmlib.train(scaling.apply(rows), y, threads=1)
    new = read_dataset(DATA / "wdbc.test.txt")[0]
    answers = answers_of(onnx_model(model, precision, scaling), new.to_dense())
    assert_same(model, scaling.apply(new).with_features(model.n_features), answers, precision)


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        (np.array([3.0, -1.0]), np.int64),
        (np.array([0.5, -1.0]), np.float64),
        (np.array(["ja", 'n"ein\n']), object),
        (np.array([True, False]), np.bool_),
        (np.array([2**63, 1], dtype=np.uint64), np.float64),
        (np.array(["a", 1], dtype=object), object),
    ],
)
def test_labels_of_all_types(labels, dtype):
    model = make_model("linear", labels=labels)
    proto = onnx_model(model)
    rows = np.array([[-100.0, 0, 0, 0, 0, 0], [100.0, 0, 0, 0, 0, 0]])
    label = answers_of(proto, rows)["label"]
    assert label.dtype == dtype
    assert [str(text) for text in label] == [
        str(dtype(text) if dtype is not object else text) for text in model.predict(rows)
    ]
    props = {entry.key: entry.value for entry in proto.metadata_props}
    assert len(json.loads(props["labels"])) == 2


def test_a_model_that_holds_nothing():
    empty = Dataset.from_any(np.zeros((0, 6)))
    model = make_model("rbf", function=KernelFunction(KernelFormula("rbf"), empty, np.zeros(0), [0.5]))
    answers = answers_of(onnx_model(model), np.ones((3, 6)))
    assert (answers["scores"] == -0.5).all()


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (make_model("precomputed"), {}, "precomputed kernel cannot become an ONNX graph"),
        (make_model("linear", labels=np.array(["\ud800", "a"])), {}, "no Unicode text"),
        (make_model("linear", n_features=2**31 - 1), {}, "dense rows of 1 to"),
        (make_model("linear ovo", labels=np.arange(200.0), n_features=1 << 20), {}, "below 2 GB"),
        (make_model("linear"), {"opset": 17}, "opset must be from 18 to"),
        (make_model("linear"), {"opset": 999}, "opset must be from 18 to"),
        (make_model("linear"), {"precision": "float16"}, "precision must be one of float64, float32"),
        (make_model("rbf"), {"precision": "float32"}, None),
    ],
)
def test_what_cannot_become_onnx_is_refused(model, options, message, tmp_path):
    if message is None:
        save_onnx(model, tmp_path / "m.onnx", **options)
        return
    with pytest.raises(ParameterError, match=message):
        save_onnx(model, tmp_path / "m.onnx", **options)
    assert list(tmp_path.iterdir()) == []


def test_regions_are_refused():
    one = make_model("rbf").function
    routed = RoutedFunction(one.formula, one.vectors, np.ones((3, 4)), np.zeros(4))
    with pytest.raises(ParameterError, match="several regions"):
        onnx_model(make_model("rbf", function=routed))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", REAL)
def test_real_test_sets(name):
    """Every row of six real test sets."""
    rows, y = read_dataset(real_path(name))
    model = odmlib.train(rows, y, tol=0.01, **REAL[name])
    test = read_dataset(real_path(f"{name}.t"))[0].with_features(model.n_features)
    for precision in TOLERANCES:
        proto = onnx_model(model, precision)
        parts = [
            answers_of(proto, test.part(first, min(first + 2000, test.n_rows)).to_dense())
            for first in range(0, test.n_rows, 2000)
        ]
        answers = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        assert_same(model, test, answers, precision)
