"""The Spark estimator against training on one machine, and as a part of pyspark.ml."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import odmlib

from .conftest import ROOT, fails_once, frame, standardised

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import LinearSVCModel, OneVsRest
from pyspark.ml.evaluation import BinaryClassificationEvaluator, MulticlassClassificationEvaluator
from pyspark.ml.feature import StandardScaler
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import Vectors
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import functions as F

from odmlib.spark import ODMClassificationModel, ODMClassifier
from odmlib.spark import linear as spark_linear
from odmlib.spark.engine import Spread

X, Y = standardised()
TOL = 1e-4
C = 0.003


@pytest.fixture(scope="module")
def model(spark):
    """The machine on all rows."""
    return fitted(frame(spark, X, Y))


def fitted(data, **options):
    return ODMClassifier(**({"tol": TOL, "C": C} | options)).fit(data)


def weights_of(model):
    return np.append(model.coefficients.array, model.intercept)


def assert_agrees(model, reference):
    """Both lie within the distance of the optimum that their certificates allow, and these are met."""
    report, other = model.report, reference.report
    assert report["status"] == "converged"
    assert report["gap"] <= TOL
    assert report["primal"] == pytest.approx(other["primal"], abs=TOL * max(1, other["primal"]))
    function = reference.function
    weights = np.zeros(reference.n_features)
    weights[function.columns] = function.weights[:, 0]
    expected = np.append(weights, function.bias * function.bias_weights[0])
    allowed = sum(np.sqrt(2 * r["gap"] * max(1, r["primal"])) for r in (report, other))
    assert np.linalg.norm(weights_of(model) - expected) <= allowed
    for part, value in other["margin"].get("quantiles", {}).items():
        assert report["margin"]["quantiles"][part] == pytest.approx(value, abs=0.05)
    assert report["margin"]["mean"] == pytest.approx(other["margin"]["mean"], abs=0.01)
    assert report["margin"]["variance"] == pytest.approx(other["margin"]["variance"], abs=0.01)


def test_equals_training_on_one_machine(model):
    assert_agrees(model, odmlib.train(X, Y, kernel="linear", C=C, tol=1e-6))
    assert model.numFeatures == X.shape[1]


def test_weights_sparse_rows_and_labels_0_and_1(spark):
    weights = 0.5 + np.arange(len(Y)) % 3
    thin = np.where(np.abs(X) > 0.5, X, 0.0)
    data = frame(spark, thin, (Y > 0).astype(float), weights, sparse=True)
    options = {"nu": 0.3, "theta": 0.1}
    reference = odmlib.train(thin, Y, kernel="linear", C=C, tol=1e-6, sample_weight=weights, **options)
    assert_agrees(fitted(data, weightCol="weight", **options), reference)


def test_arrays_and_numbers_are_features_too(spark, model):
    data = frame(spark, X, Y)
    array, one = vector_to_array("features"), vector_to_array("features")[27]
    arrays = data.select(array.alias("features"), "label")
    again = fitted(arrays)
    assert weights_of(again).tobytes() == weights_of(model).tobytes()
    found = [[row.prediction for row in again.transform(some).collect()] for some in (data, arrays)]
    assert found[0] == found[1]
    of_one = fitted(data.select(one.cast("float").alias("x"), "label"), featuresCol="x", tol=0.01)
    reference = odmlib.train(X[:, 27:28].astype(np.float32), Y, kernel="linear", C=C, tol=0.01)
    assert of_one.report["primal"] == pytest.approx(reference.report["primal"], rel=0.02)
    with pytest.raises(odmlib.ParameterError, match="NaN or infinity"):
        fitted(arrays.withColumn("features", F.array(F.lit(None).cast("double"))))


@pytest.mark.timeout(900)
def test_on_spark_connect(model, tmp_path):
    """In a process of its own: classic and Connect sessions do not mix."""
    pytest.importorskip("grpc", reason="'pyspark[connect]' is not installed")
    command = [sys.executable, Path(__file__).with_name("connect.py")]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    found = json.loads(result.stdout.splitlines()[-1])
    assert np.linalg.norm(weights_of(model) - found["weights"]) <= 2 * np.sqrt(2 * TOL)
    assert found["gap"] <= TOL and found["loaded"] == found["weights"] == found["in_stage"]
    assert found["right"] > 540
    assert found["java"] == "toLinearSVC needs a classic session of Spark, found Spark Connect"
    reference = odmlib.train(X, Y, machine="sodm", gamma=0.02, C=0.1, approx="nystrom", rank=20)
    assert found["kernel"] == pytest.approx(reference.report["primal"], rel=2e-3)
    assert found["kernel_right"] > 540
    rows, labels = odmlib.read_data(tmp_path / "rows")
    function = odmlib.load_model(tmp_path / "m")
    assert (function.predict(rows) == labels).sum() > 540


def test_regularisation_as_in_spark_and_no_intercept(spark):
    model = ODMClassifier(tol=TOL, regParam=0.5, fitIntercept=False).fit(frame(spark, X, Y))
    assert_agrees(model, odmlib.train(X, Y, kernel="linear", lambda_=2.0, bias=-1, tol=1e-6))
    assert model.intercept == 0


def test_standardization_as_linear_svc_has_it(spark):
    raw = odmlib.read_data(ROOT / "data" / "wdbc.txt")[0].toarray()
    raw = np.c_[raw, np.full(len(raw), 7.0)]  # a column that never changes
    model = fitted(frame(spark, raw, Y), standardization=True, maxBlockSizeInMB=0.05)
    deviations = raw.std(axis=0, ddof=1)
    scaled = np.divide(raw, deviations, out=np.zeros_like(raw), where=deviations > 0)
    reference = odmlib.train(scaled, Y, kernel="linear", C=C, tol=1e-6)
    assert model.report["primal"] == pytest.approx(reference.report["primal"], rel=TOL)
    assert model.report["details"]["blocks"] > 2
    scores = raw @ model.coefficients.array + model.intercept
    allowed = sum(np.sqrt(2 * r["gap"] * r["primal"]) for r in (model.report, reference.report))
    norms = np.sqrt((scaled**2).sum(axis=1) + 1)
    assert (np.abs(scores - reference.decision_function(scaled)) <= allowed * norms).all()
    assert model.coefficients[30] == 0


def test_every_parameter_of_linear_svc_is_known():
    import inspect

    from pyspark.ml.classification import LinearSVC

    theirs = set(inspect.signature(LinearSVC.__init__).parameters)
    assert theirs <= set(inspect.signature(ODMClassifier.__init__).parameters)


def test_every_parameter_has_a_setter_and_a_getter():
    machine = ODMClassifier()
    for param in machine.params:
        name = param.name[0].upper() + param.name[1:]
        if machine.isDefined(param):
            value = machine.getOrDefault(param)
            assert getattr(machine, f"set{name}")(value) is machine
            assert getattr(machine, f"get{name}")() == value
        assert callable(getattr(machine, f"set{name}")) and callable(getattr(machine, f"get{name}"))
    found = ODMClassificationModel()
    for name in ("FeaturesCol", "PredictionCol", "RawPredictionCol"):
        assert getattr(getattr(found, f"set{name}")("x"), f"get{name}")() == "x"


def test_progress_is_logged(spark, caplog):
    with caplog.at_level("INFO", logger="odmlib.spark"):
        fitted(frame(spark, X[:60], Y[:60]), C=1e-3, tol=0.1)
    assert "round 0: objective" in caplog.text and "gap" in caplog.text


def test_columns_and_labels(spark, model):
    data = frame(spark, X[:60], Y[:60])
    rows = model.transform(data).collect()
    scores = X[:60] @ model.coefficients.array + model.intercept
    np.testing.assert_allclose([row.rawPrediction[1] for row in rows], scores, rtol=1e-12, atol=1e-12)
    assert all(row.rawPrediction[0] == -row.rawPrediction[1] for row in rows)
    assert [row.prediction for row in rows] == np.where(scores > 0, 1.0, -1.0).tolist()
    np.testing.assert_allclose(model.odm.decision_function(X[:60]), scores, rtol=1e-12, atol=1e-12)
    first = Vectors.dense(X[0])
    assert model.predictRaw(first)[1] == pytest.approx(scores[0])
    assert model.predict(first) == rows[0].prediction
    # other names, label 0, a threshold that nothing reaches, no raw column
    named = frame(spark, X[:60], Y[:60] > 0).toDF("f", "l", "w")
    other = ODMClassifier(
        featuresCol="f", labelCol="l", predictionCol="p", rawPredictionCol="", tol=0.1, C=1e-3, threshold=1e9
    ).fit(named)
    found = other.transform(named)
    assert found.columns == ["f", "l", "w", "p"]
    assert {row.p for row in found.collect()} == {0.0}


def test_output_columns_have_metadata_and_replace_nothing(spark, model):
    data = frame(spark, X[:60], Y[:60] > 0)
    found = fitted(data, C=1e-3, tol=0.1).transform(data).schema
    assert found["rawPrediction"].metadata == {"ml_attr": {"num_attrs": 2}}
    assert found["prediction"].metadata == {"ml_attr": {"type": "nominal", "num_vals": 2}}
    assert "ml_attr" not in model.transform(data).schema["prediction"].metadata  # labels -1 and +1
    for name, parameter in (("rawPrediction", "rawPredictionCol"), ("prediction", "predictionCol")):
        with pytest.raises(odmlib.ParameterError, match=f"'{name}' already; give another {parameter}"):
            model.transform(data.withColumnRenamed("weight", name))


def test_spark_itself_scores_what_it_is_handed(spark, model, tmp_path):
    data = frame(spark, X, (Y > 0).astype(float))
    ours = fitted(data, predictionCol="p").setThreshold(0.2)
    ours.toLinearSVC().save(str(tmp_path / "svc"))
    java = LinearSVCModel.load(str(tmp_path / "svc"))
    assert (java.coefficients, java.intercept) == (ours.coefficients, ours.intercept)
    found, expected = ([tuple(row) for row in one.transform(data).collect()] for one in (java, ours))
    assert [row[-1] for row in found] == [row[-1] for row in expected]  # column p
    raw, known = (np.array([row[-2].toArray() for row in rows]) for rows in (found, expected))
    np.testing.assert_allclose(raw, known, rtol=1e-12, atol=1e-14)
    with pytest.raises(odmlib.ParameterError, match="predicts labels 0 and 1, found -1, 1"):
        model.toLinearSVC()


def test_tasks_that_fail_and_run_again_change_nothing(spark, model, monkeypatch):
    rounds, tree_sum = [], spark_linear.tree_sum

    def sum_of_failing(parts, numbers, depth):
        rounds.append(depth)
        if len(rounds) <= 3:  # the start, and two gradients
            parts = parts.through(fails_once)
        return tree_sum(parts, numbers, depth)

    monkeypatch.setattr(spark_linear, "tree_sum", sum_of_failing)
    again = fitted(frame(spark, X, Y))
    assert len(rounds) >= 3
    assert weights_of(again).tobytes() == weights_of(model).tobytes()
    assert again.report["gap"] == model.report["gap"]


def test_seed_and_partitions_change_the_start_only(spark, model):
    others = [fitted(frame(spark, X, Y), seed=5), fitted(frame(spark, X, Y, partitions=5))]
    for other in others:
        assert_agrees(other, model.odm)
    assert len({weights_of(one).tobytes() for one in (model, *others)}) == 3


def test_no_rows_reach_the_driver(spark, monkeypatch):
    data = frame(spark, X, Y)
    sizes, collect = [], Spread.collect

    def measured(self):
        found = collect(self)
        sizes.append(len(pickle.dumps(found)))
        return found

    monkeypatch.setattr(Spread, "collect", measured)
    fitted(data, tol=0.05)
    assert len(sizes) > 3
    # a vector and a Hessian per partition; at the end some points of the margin distribution; all rows
    # are 136,560 bytes
    columns = X.shape[1] + 1
    assert max(sizes[:-1]) < 3 * (columns + 2) * columns * 8 + 1500
    assert sizes[-1] < 16 * len(Y) + 1500


def test_pipeline_is_saved_and_loaded(spark, tmp_path):
    raw, labels = odmlib.read_data(
        b"".join(b"%d 1:%d 2:%d\n" % (k % 2, k, 7 * k % 5 + 3 * (k % 2)) for k in range(40))
    )
    data = frame(spark, raw.toarray(), labels)
    scaler = StandardScaler(inputCol="features", outputCol="scaled", withMean=True)
    machine = ODMClassifier(featuresCol="scaled", tol=TOL, C=0.01, nu=0.25, seed=3)
    Pipeline(stages=[scaler, machine]).save(str(tmp_path / "pipeline"))
    pipeline = Pipeline.load(str(tmp_path / "pipeline"))
    loaded = pipeline.getStages()[1]
    assert loaded.explainParams() == machine.explainParams()
    model = pipeline.fit(data)
    model.save(str(tmp_path / "model"))
    again = PipelineModel.load(str(tmp_path / "model"))
    before, after = model.stages[1], again.stages[1]
    assert isinstance(after, ODMClassificationModel)
    np.testing.assert_array_equal(weights_of(after), weights_of(before))
    assert after.gap == before.gap <= TOL
    assert after.getNu() == 0.25
    predicted = [[row.prediction for row in one.transform(data).collect()] for one in (model, again)]
    assert predicted[0] == predicted[1]
    # the file inside is a model file of odmlib
    (file,) = (tmp_path / "model" / "stages").glob("1_*/odmlib-model/part-*")
    np.testing.assert_array_equal(odmlib.load_model(file).function.weights, before.odm.function.weights)


def test_cross_validation(spark):
    data = frame(spark, X[:120], Y[:120] > 0, partitions=2)
    machine = ODMClassifier(tol=0.01)
    grid = ParamGridBuilder().addGrid(machine.C, [1e-7, 0.003]).build()
    search = CrossValidator(
        estimator=machine,
        estimatorParamMaps=grid,
        evaluator=BinaryClassificationEvaluator(),
        numFolds=2,
        seed=1,
    ).fit(data)
    assert search.bestModel.getC() in (1e-7, 0.003)
    assert search.avgMetrics[1] > 0.95


def three_classes(labels=(0, 1, 2)):
    rng = np.random.default_rng(3)
    codes = np.arange(90) % 3
    rows = rng.normal(size=(90, 4)) + 2 * np.eye(3, 4)[codes]
    return rows, np.array(labels, dtype=float)[codes]


@pytest.mark.parametrize("engine", ["jobs", "barrier"])
def test_more_classes_in_one_pass(spark, tmp_path, engine):
    """Each class against the rest, as odmlib trains them; a round serves all of them."""
    rows, labels = three_classes((7, 3, 5))
    data = frame(spark, rows, labels)
    model = fitted(data, C=1.0, engine=engine)
    found = model.transform(data).collect()
    scores = np.array([row.rawPrediction.array for row in found])
    for k, label in enumerate((3.0, 5.0, 7.0)):
        alone = odmlib.train(rows, np.where(labels == label, 1, -1), kernel="linear", C=1.0, tol=1e-8)
        allowed = np.sqrt(2 * TOL * alone.report["primal"]) * np.sqrt((rows**2).sum(axis=1) + 1)
        assert (np.abs(scores[:, k] - alone.decision_function(rows)) <= 1.01 * allowed).all()
    assert model.gap <= TOL and model.numClasses == 3
    assert [row.prediction for row in found] == np.array([3.0, 5.0, 7.0])[scores.argmax(axis=1)].tolist()
    assert model.report["scheme"] == "ovr"
    right = np.array([3.0, 5.0, 7.0])[scores.argmax(axis=1)] == labels
    assert model.report["details"]["right"] == [int(right[labels == k].sum()) for k in (3, 5, 7)]
    assert model.predict(Vectors.dense(rows[0])) == found[0].prediction
    np.testing.assert_allclose(
        rows @ model.coefficientMatrix.toArray().T + model.interceptVector.array,
        scores,
        rtol=1e-10,
        atol=1e-12,
    )
    with pytest.raises(odmlib.ParameterError, match="coefficients is for two classes"):
        model.coefficients  # noqa: B018
    model.save(str(tmp_path / "m"))
    again = ODMClassificationModel.load(str(tmp_path / "m"))
    assert [row.prediction for row in again.transform(data).collect()] == [row.prediction for row in found]


def test_more_classes_take_the_rounds_of_the_longest(spark, monkeypatch):
    rows, labels = three_classes()
    data, rounds, tree_sum = frame(spark, rows, labels), [], spark_linear.tree_sum

    def counted(*arguments):
        rounds.append(1)
        return tree_sum(*arguments)

    monkeypatch.setattr(spark_linear, "tree_sum", counted)
    model = fitted(data, C=1.0)
    longest = max(point["iteration"] for point in model.report["trace"])
    assert longest + 2 <= len(rounds) < model.report["iterations"] + 2 * 3


def test_more_classes_over_landmarks(spark):
    rows, labels = three_classes()
    data = frame(spark, rows, labels)
    model = fitted(data, kernel="rbf", gamma=0.3, C=1.0, approx="nystrom", rank=20)
    reference = odmlib.train(
        rows, labels, machine="sodm", gamma=0.3, C=1.0, approx="nystrom", rank=20, multiclass="ovr"
    )
    assert model.report["primal"] == pytest.approx(reference.report["primal"], rel=2e-3)
    found = model.transform(data)
    assert found.filter("prediction = label").count() > 75
    assert found.schema["prediction"].metadata == {"ml_attr": {"type": "nominal", "num_vals": 3}}
    with pytest.raises(odmlib.ParameterError, match="by levels are for two classes, found 3"):
        fitted(data, kernel="rbf", gamma=0.3)
    with pytest.raises(odmlib.ParameterError, match="solver dsvrg is for two classes, found 3"):
        fitted(data, engine="barrier", solver="dsvrg")


def test_any_two_labels_are_classes(spark):
    """The larger one is the positive one."""
    data = frame(spark, X[:60], np.where(Y[:60] > 0, 2.0, 1.0))
    model = fitted(data, C=1e-3, tol=0.1)
    assert model.odm.labels.tolist() == [2, 1]
    assert {row.prediction for row in model.transform(data).collect()} <= {1.0, 2.0}


@pytest.mark.slow
def test_more_classes_by_one_vs_rest(spark):
    rows, labels = odmlib.read_data(
        b"".join(
            b"%d 1:%d 2:%d\n" % (k % 3, 5 * (k % 3 == 1) + k % 2, 5 * (k % 3 == 2) + k % 4 / 2)
            for k in range(30)
        )
    )
    data = frame(spark, rows.toarray(), labels, partitions=1)
    model = OneVsRest(classifier=ODMClassifier(tol=0.05, C=0.01)).fit(data)
    evaluator = MulticlassClassificationEvaluator(metricName="accuracy")
    assert evaluator.evaluate(model.transform(data)) > 0.9


def test_training_begins_from_a_model_and_tells_how_it_went(spark, model):
    data = frame(spark, X, Y)
    summary = model.summary
    assert model.hasSummary and len(summary.objectiveHistory) == len(summary.gapHistory) >= 2
    assert summary.objectiveHistory[-1] == model.report["primal"]
    assert summary.gapHistory[-1] == model.gap <= TOL
    assert summary.totalIterations == model.report["iterations"] >= 1
    again = fitted(data, initialModel=model)
    assert again.summary.totalIterations == 0
    np.testing.assert_allclose(weights_of(again), weights_of(model), rtol=1e-12)
    machine = ODMClassifier(tol=TOL, C=C).setInitialModel(model)
    assert machine.getInitialModel() is model
    with pytest.raises(odmlib.ParameterError, match="the model to start from has 30 features"):
        machine.fit(frame(spark, X[:, :3], Y))
    with pytest.raises(odmlib.ParameterError, match="with the labels of the data"):
        machine.fit(frame(spark, X, Y > 0))


@pytest.mark.parametrize("engine", ["jobs", "barrier"])
def test_validation_ends_training_early(spark, engine):
    """Rows to validate with are not trained on, and the point of their least loss is the model."""
    held = np.arange(len(Y)) % 4 == 0
    data = frame(spark, X, Y, held).withColumn("held", F.col("weight") > 0)
    options = {"C": 1.0, "tol": 1e-8, "validationIndicatorCol": "held", "engine": engine}
    early = fitted(data, validationTol=0.05, **options)
    found = early.summary.validationHistory
    assert early.report["status"] == "early" and early.report["rows"] == (~held).sum()
    assert len(found) == len(early.summary.objectiveHistory) >= 2
    best = early.summary.objectiveHistory[int(np.argmin(found))]
    reference = odmlib.train(X[~held], Y[~held], kernel="linear", C=1.0, tol=1e-8)
    assert early.report["primal"] == best >= reference.report["primal"] * (1 - 1e-7)
    late = fitted(data, validationTol=0.0, **options)
    assert late.report["status"] in ("early", "converged")
    assert min(late.summary.validationHistory) <= min(found)
    # the mean loss itself, of the machine that is the model
    margins = Y[held] * (X[held] @ early.coefficients.array + early.intercept)
    below, above = np.maximum(0.8 - margins, 0), np.maximum(margins - 1.2, 0)
    loss = (below**2 + 0.5 * above**2) / 0.8**2
    assert loss.mean() == pytest.approx(min(found), rel=1e-6)


def test_what_validation_is_not_for(spark):
    data = frame(spark, X[:8], Y[:8]).withColumn("held", F.lit(True))
    with pytest.raises(odmlib.ParameterError, match="the data have no rows"):
        fitted(data, validationIndicatorCol="held")
    with pytest.raises(odmlib.ParameterError, match="must hold true and false"):
        fitted(data, validationIndicatorCol="weight")
    with pytest.raises(odmlib.ParameterError, match="not available for kernels by levels"):
        fitted(data, validationIndicatorCol="held", kernel="rbf")


def test_limit_of_rounds_is_told(spark):
    with pytest.warns(odmlib.ConvergenceWarning, match="limit of 1 iterations"):
        model = fitted(frame(spark, X[:50], Y[:50]), C=10.0, maxIter=1, tol=1e-9)
    assert model.report["status"] == "max_iter"
    assert model.gap > 1e-9


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 1, 1, 1], "all rows have the same label (1); at least two classes are needed"),
        ([0, 1, np.nan, 1], "a label is missing or not a number"),
        ([0, 1, np.inf, 1], "a label is inf"),
    ],
)
def test_wrong_labels(spark, y, message):
    with pytest.raises(odmlib.ParameterError) as caught:
        fitted(frame(spark, X[:4], y, partitions=2))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_wrong_rows(spark):
    good = frame(spark, X[:4], [0, 1, 0, 1], partitions=2)
    with pytest.raises(odmlib.ParameterError, match="no rows"):
        fitted(good.filter("label > 5"))
    with pytest.raises(odmlib.ParameterError, match="a row weight is -1"):
        fitted(frame(spark, X[:4], [0, 1, 0, 1], [1, 1, 1, -1], partitions=2), weightCol="weight")
    with pytest.raises(odmlib.ParameterError, match="no weight is left for label 0"):
        fitted(frame(spark, X[:4], [0, 1, 0, 1], [0, 1, 0, 1], partitions=2), weightCol="weight")
    mixed = [(Vectors.dense([1.0]), 1.0), (Vectors.dense([1.0, 2.0]), 0.0)]
    for partitions in (1, 2):  # within a block, and between two
        data = spark.sparkContext.parallelize(mixed, partitions).toDF(["features", "label"])
        with pytest.raises(odmlib.ParameterError, match="different numbers of features: 1 and 2"):
            fitted(data)
    with pytest.raises(odmlib.ParameterError, match=r"no column 'x' \(featuresCol\)"):
        fitted(good, featuresCol="x")
    with pytest.raises(odmlib.ParameterError, match="must hold vectors, arrays of numbers or numbers, found"):
        fitted(good.withColumn("t", F.lit("x")), featuresCol="t")
    with pytest.raises(odmlib.ParameterError, match=r"must hold numbers, found vector"):
        fitted(good, labelCol="features")


def test_wrong_parameters():
    for options, message in (
        ({"C": 1.0, "regParam": 0.1}, "give one of them"),
        ({"regParam": 0.0}, "regParam must be > 0"),
        ({"C": -1.0}, "C "),
        ({"theta": 1.0}, "theta"),
        ({"bias": 0.0}, "fitIntercept=False"),
        ({"aggregationDepth": 0}, "aggregationDepth must be at least 1"),
        ({"kernel": "sigmoid"}, "on Spark the kernel must be linear, rbf or poly, found sigmoid"),
        ({"kernel": "poly", "coef0": -1.0}, "coef0 below 0"),
        ({"kernel": "gauss"}, "kernel must be one of"),
        ({"kernel": "rbf", "partition": "dc"}, "on Spark the partition must be one of"),
        ({"kernel": "rbf", "rank": 5}, "rank needs approx"),
        ({"approx": "nystrom"}, "nystrom is for kernels rbf and poly, found linear"),
        ({"kernel": "rbf", "approx": "fourier"}, "approx must be one of nystrom"),
        ({"kernel": "rbf", "approx": "nystrom", "stopLevel": 1}, "stop_level has no meaning"),
        ({"gamma": 0.5}, "gamma has no meaning with kernel linear"),
        ({"kernel": "rbf", "standardization": True}, "standardization is for kernel linear"),
        ({"maxBlockSizeInMB": -1.0}, "maxBlockSizeInMB must be from 0"),
        ({"kernel": "rbf", "gamma": -1.0}, "gamma must be above 0"),
    ):
        with pytest.raises(odmlib.ParameterError, match=message):
            ODMClassifier(**options).train_options()
    with pytest.raises(odmlib.ParameterError, match="initialModel is for kernel linear"):
        ODMClassifier(kernel="rbf", initialModel=ODMClassificationModel()).train_options()
    with pytest.raises(odmlib.ParameterError, match="empty"):
        ODMClassificationModel().coefficients  # noqa: B018


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_on_a_cluster_of_processes(tmp_path):
    """Executors in processes of their own, as on several machines, that get odmlib as an archive."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not on the PATH")
    package = Path(odmlib.__file__).resolve().parent
    archive = shutil.make_archive(str(tmp_path / "odmlib"), "zip", package.parent, package.name)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        [sys.executable, Path(__file__).with_name("cluster.py"), package.parent, archive],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment | {"SPARK_WORKER_DIR": str(tmp_path / "work")},
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    found = json.loads(result.stdout.splitlines()[-1])
    assert all("/odm/odmlib/" in place for place in found["places"])
    assert found["weights"] == found["again"]
    assert found["lost"] and found["in_stage"] == [found["weights"]] * 2
    function = odmlib.train(X, Y, kernel="linear", C=C, tol=1e-6).function
    expected = np.append(function.weights[:, 0], function.bias_weights[0])
    assert found["gap"] <= TOL
    assert np.linalg.norm(expected - found["weights"]) <= 2 * np.sqrt(2 * TOL)
    assert found["right"] > 540
    rbf = {"machine": "sodm", "gamma": 0.02, "C": 0.1}
    for (gap, primal), options in zip(
        found["kernels"], ({"approx": "nystrom", "rank": 20}, {"partitions": 2}), strict=True
    ):
        reference = odmlib.train(X, Y, **rbf, **options)
        assert gap <= 1e-3
        assert primal == pytest.approx(reference.report["primal"], rel=2e-3)
