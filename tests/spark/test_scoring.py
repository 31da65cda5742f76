"""Decision values of DataFrames: both ways give what the model gives, and tell what is wrong with a row."""

import numpy as np
import pytest

import odmlib

from .conftest import frame

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.errors import PySparkException
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql.types import StructType

from odmlib.spark import ODMClassificationModel
from odmlib.spark.scoring import ScoringTuning, with_scores

rng = np.random.default_rng(0)
X = np.where(rng.random((40, 5)) < 0.5, rng.normal(size=(40, 5)), 0.0)
Y = np.where(X.sum(axis=1) > 0, 1.0, -1.0)
IN_JAVA, IN_BATCHES = ScoringTuning(), ScoringTuning(sum_features=0)


@pytest.fixture(scope="module")
def machines():
    return {kernel: odmlib.train(X, Y, kernel=kernel) for kernel in ("linear", "rbf")}


@pytest.fixture(scope="module")
def vectors(spark):
    """Dense and sparse ones, also with nothing stored."""
    sparse = [Vectors.sparse(5, np.flatnonzero(x).tolist(), x[x != 0].tolist()) for x in X]
    mixed = [
        vector if k % 2 else Vectors.dense(x) for k, (x, vector) in enumerate(zip(X, sparse, strict=True))
    ]
    rows = [(one,) for one in (*mixed, Vectors.sparse(5, [], []))]
    return spark.createDataFrame(rows, StructType().add("features", VectorUDT()))


def scores_of(data, model, tuning):
    return [row.s for row in with_scores(data, "features", "s", model, tuning).collect()]


@pytest.mark.parametrize(
    ("kernel", "tuning"), [("linear", IN_JAVA), ("linear", IN_BATCHES), ("rbf", IN_JAVA)]
)
def test_scores_are_those_of_the_model(spark, machines, vectors, kernel, tuning):
    expected = machines[kernel].decision_function(np.vstack([X, np.zeros(5)]))
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    try:
        found = scores_of(vectors, machines[kernel], tuning)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("kernel", "tuning"), [("linear", IN_JAVA), ("linear", IN_BATCHES), ("rbf", IN_JAVA)]
)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (None, "a row has no features (null)"),
        (Vectors.dense([1.0, 2.0]), "a row has 2 features, the model was trained with 5"),
        (Vectors.sparse(6, [1], [2.0]), "a row has 6 features, the model was trained with 5"),
        (Vectors.sparse(5, [1], [float("nan")]), "a row's features hold NaN or infinity"),
    ],
)
def test_a_wrong_row_is_one_line(spark, machines, kernel, tuning, wrong, message):
    schema = StructType().add("features", VectorUDT())
    data = spark.createDataFrame([(Vectors.dense(X[0]),), (wrong,)], schema)
    with pytest.raises(PySparkException) as caught:
        scores_of(data, machines[kernel], tuning)
    told = [line for line in str(caught.value).splitlines() if message in line]
    assert told and "Traceback" not in str(caught.value)


def test_width_in_the_metadata_is_told_before_anything_runs(spark, machines):
    data = frame(spark, X[:2, :3], Y[:2]).withMetadata("features", {"ml_attr": {"num_attrs": 3}})
    with pytest.raises(odmlib.ParameterError, match="a row has 3 features, the model was trained with 5"):
        ODMClassificationModel(machines["linear"]).transform(data)


def test_java_scores_linear_machines_alone(machines, vectors, capsys):
    """Rows that Java can score are not handed to Python."""
    plans = {}
    for name, tuning in (("java", IN_JAVA), ("batches", IN_BATCHES)):
        with_scores(vectors, "features", "s", machines["linear"], tuning).explain()
        plans[name] = capsys.readouterr().out
    assert "Python" not in plans["java"]
    assert "ArrowEvalPython" in plans["batches"]


@pytest.mark.parametrize("way", ["java", "batches", "pandas"])
def test_more_classes_have_a_score_each(spark, vectors, monkeypatch, way):
    codes = np.arange(len(X)) % 3
    model = odmlib.train(X, codes, kernel="linear", multiclass="ovr")
    if way == "pandas":  # as pyspark before 4.1
        monkeypatch.delattr("odmlib.spark.scoring.F.arrow_udf")
    found = scores_of(vectors, model, IN_JAVA if way == "java" else IN_BATCHES)
    expected = model.decision_function(np.vstack([X, np.zeros(5)]))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
