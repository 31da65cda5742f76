"""Kernel machines on Spark, over landmarks and by levels, against training on one machine."""

import pickle

import numpy as np
import pytest

import odmlib
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.solvers.distributed.landmarks import NystromTuning, nystrom_features

from .conftest import fails_once, frame, standardised

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.ml.linalg import Vectors

from odmlib.spark import ODMClassificationModel, ODMClassifier
from odmlib.spark import training as spark_training
from odmlib.spark.blocks import RowBlock, joined
from odmlib.spark.engine import Spread
from odmlib.spark.landmarks import find_landmarks
from odmlib.spark.levels import LevelRun, first_positions, positions_of

X, Y = standardised()
GAMMA, C, TOL = 0.02, 0.1, 1e-3
NYSTROM = {"kernel": "rbf", "gamma": GAMMA, "C": C, "tol": TOL, "approx": "nystrom", "rank": 40}
LEVELS = {"kernel": "rbf", "gamma": GAMMA, "C": 10.0, "tol": TOL, "partitions": 4}


@pytest.fixture(scope="module")
def data(spark):
    return frame(spark, X, Y).cache()


@pytest.fixture(scope="module")
def nystrom(data):
    return ODMClassifier(**NYSTROM).fit(data)


@pytest.fixture(scope="module")
def levels(data):
    return ODMClassifier(**LEVELS).fit(data)


def one_machine(**options):
    return odmlib.train(X, Y, machine="sodm", **options)


def assert_agrees(model, reference):
    """Both lie within the distance of the optimum that their certificates allow; k(x, x) = 1."""
    report, other = model.report, reference.report
    assert report["status"] == "converged"
    assert report["gap"] <= TOL
    assert report["primal"] == pytest.approx(other["primal"], rel=TOL)
    allowed = sum(np.sqrt(2 * r["gap"] * r["primal"]) for r in (report, other))
    difference = model.odm.decision_function(X) - reference.decision_function(X)
    assert np.abs(difference).max() <= allowed
    assert report["margin"]["mean"] == pytest.approx(other["margin"]["mean"], abs=0.01)


def test_nystrom_equals_one_machine(nystrom, data):
    reference = one_machine(**NYSTROM)
    assert_agrees(nystrom, reference)
    np.testing.assert_array_equal(
        nystrom.odm.function.vectors.to_dense(), reference.function.vectors.to_dense()
    )
    for entry in ("rank", "trace_error"):
        assert nystrom.report["approximation"][entry] == pytest.approx(
            reference.report["approximation"][entry], rel=1e-10
        )
    rows = nystrom.transform(data).collect()
    scores = nystrom.odm.decision_function(X)
    np.testing.assert_allclose([row.rawPrediction[1] for row in rows], scores, rtol=1e-12, atol=1e-12)
    assert [row.prediction for row in rows] == np.where(scores > 0, 1.0, -1.0).tolist()
    assert nystrom.numSupportVectors == 40
    assert nystrom.predict(Vectors.dense(X[0])) == rows[0].prediction
    right = sum(nystrom.report["details"]["right"])
    assert right == (np.where(scores > 0, 1.0, -1.0) == Y).sum()
    with pytest.raises(odmlib.ParameterError, match="kernel rbf has no coefficients"):
        nystrom.coefficients  # noqa: B018


def test_landmarks_from_a_sample_are_those_of_one_machine(spark):
    tuning, formula = NystromTuning(sample_rows=100), KernelFormula("rbf", gamma=GAMMA)
    parts = np.array_split(np.arange(len(Y)), 3)

    def block_of(task):
        rows = parts[task]
        yield task, RowBlock(task, Dataset.from_any(X[rows]), Y[rows], np.ones(len(rows)))

    blocks = Spread.of_tasks(spark, 3, block_of)
    whole = joined([block.summary for _, block in blocks.collect()], files=False)
    found = find_landmarks(blocks, whole, formula, 20, 3, tuning)
    one = nystrom_features(Kernel(formula, Dataset.from_any(X)), 20, 3, tuning=tuning)
    assert (one.landmarks != nystrom_features(Kernel(formula, Dataset.from_any(X)), 20, 3).landmarks).any()
    np.testing.assert_array_equal(found.rows.to_dense(), X[one.landmarks])


def test_nystrom_is_saved_and_loaded(nystrom, tmp_path):
    nystrom.save(str(tmp_path / "model"))
    again = ODMClassificationModel.load(str(tmp_path / "model"))
    assert again.odm.decision_function(X).tobytes() == nystrom.odm.decision_function(X).tobytes()
    assert (again.getKernel(), again.gap) == ("rbf", nystrom.gap)
    (file,) = (tmp_path / "model").glob("odmlib-model/part-*")
    assert odmlib.load_model(file).formula.gamma == GAMMA


def test_nystrom_with_tasks_that_fail_and_without_rows_on_the_driver(data, nystrom, monkeypatch):
    sizes, collect, features = [], Spread.collect, spark_training.feature_blocks

    def measured(self):
        found = collect(self)
        sizes.append(len(pickle.dumps(found)))
        return found

    monkeypatch.setattr(Spread, "collect", measured)
    monkeypatch.setattr(spark_training, "feature_blocks", lambda *a: features(*a).through(fails_once))
    again = ODMClassifier(**NYSTROM).fit(data)
    assert again.odm.to_bytes().split(b"SV\n")[-1] == nystrom.odm.to_bytes().split(b"SV\n")[-1]
    assert again.gap == nystrom.gap
    landmarks = 40 * (X.shape[1] * 12 + 40 * 8)  # with the triangle between them
    assert max(sizes) < landmarks + 5000  # all rows are 136,560 bytes, their features 182,080


def test_levels_equal_one_machine(levels):
    assert_agrees(levels, one_machine(**LEVELS))
    assert [level["partitions"] for level in levels.report["levels"]] == [4, 2, 1]
    assert levels.report["levels"][-1]["full_gap"] == levels.gap
    assert levels.numSupportVectors == levels.report["support_vectors"] > 100


def test_levels_with_tasks_that_fail(data, levels, monkeypatch):
    deal = LevelRun.deal

    def failing(self, plan):
        pieces, n_landmarks = deal(self, plan)
        return pieces.through(fails_once), n_landmarks

    monkeypatch.setattr(LevelRun, "deal", failing)
    again = ODMClassifier(**LEVELS).fit(data)
    assert again.odm.decision_function(X).tobytes() == levels.odm.decision_function(X).tobytes()
    assert again.gap == levels.gap


def test_stop_level_has_the_gap_of_its_average_on_all_rows(data):
    with pytest.warns(odmlib.ConvergenceWarning, match="ended at level 1, as asked"):
        model = ODMClassifier(**LEVELS, stopLevel=1).fit(data)
    report, function = model.report, model.odm.function
    # the objective and the dual, from the whole kernel matrix
    squares = (X * X).sum(axis=1)
    kernel = np.exp(-GAMMA * (squares[:, None] + squares - 2 * X @ X.T))
    duals = np.zeros(len(Y))
    duals[function.rows] = function.terms.to_dense()[:, 0] * Y[function.rows]
    theta, nu = 0.2, 0.5
    A = (1 - theta) ** 2 / (2 * LEVELS["C"])
    B = A / nu
    margins = Y * (kernel @ (Y * duals))
    norm = 0.5 * duals @ margins
    low, high = np.maximum(0, 1 - theta - margins), np.maximum(0, margins - 1 - theta)
    primal = norm + (low**2).sum() / (2 * A) + (high**2).sum() / (2 * B)
    dual = norm + A / 2 * (np.maximum(0, duals) ** 2).sum() + B / 2 * (np.maximum(0, -duals) ** 2).sum()
    dual += theta * np.abs(duals).sum() - duals.sum()
    assert report["primal"] == pytest.approx(primal, rel=1e-9)
    assert report["gap"] == pytest.approx((primal + dual) / primal, rel=1e-6)
    assert report["status"] == "early"
    reference = pytest.warns(odmlib.ConvergenceWarning)
    with reference:
        other = one_machine(**LEVELS, stop_level=1)
    assert report["primal"] == pytest.approx(other.report["primal"], rel=0.1)  # other parts, as good


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stratified", "class", "random"])
def test_every_partitioner_and_poly(data, kind):
    options = {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": GAMMA, "C": 0.1, "levels": 2}
    model = ODMClassifier(**options, partition=kind, seed=4).fit(data)
    reference = one_machine(**options)
    assert model.report["primal"] == pytest.approx(reference.report["primal"], rel=2e-3)
    assert model.report["parameters"]["bias"] == 1.0


@pytest.mark.slow
def test_cascade_does_not_look_again(data):
    with pytest.warns(odmlib.ConvergenceWarning, match="cascade does not look again"):
        model = ODMClassifier(**LEVELS, partition="cascade").fit(data)
    assert [level["partitions"] for level in model.report["levels"]] == [4, 2, 1]


def test_a_deal_spreads_every_key_at_every_level():
    rng = np.random.default_rng(0)
    keys = {number: rng.integers(0, 5, size) for number, size in ((0, 40), (2, 0), (1, 33), (3, 60))}
    first_rows = {0: 0, 2: 40, 1: 40, 3: 73}
    counts = {number: np.bincount(some, minlength=5) for number, some in keys.items()}
    starts = first_positions(counts, first_rows)
    positions = {number: positions_of(some, starts[number], 7 + number) for number, some in keys.items()}
    together = np.concatenate(list(positions.values()))
    assert sorted(together.tolist()) == list(range(133))
    of_key = np.concatenate(list(keys.values()))
    assert (np.diff(of_key[np.argsort(together)]) >= 0).all()  # ordered by key
    for n_parts in (8, 4, 2):
        parts = together % n_parts
        for chosen in (parts, *(parts[of_key == key] for key in range(5))):
            sizes = np.bincount(chosen, minlength=n_parts)
            assert sizes.max() - sizes.min() <= 1
    again = positions_of(keys[3], starts[3], 10)
    assert again.tolist() == positions[3].tolist()
