"""Novelty detection: the problem against ridge regression, the promise against new rows."""

from __future__ import annotations

import numpy as np
import pytest

import odmlib
from odmlib.errors import ParameterError


def blob(m, seed=0, d=3):
    return np.random.default_rng(seed).standard_normal((m, d))


def test_theta_0_is_ridge_regression_of_1():
    ridge = pytest.importorskip("sklearn.kernel_ridge")
    X, C = blob(60), 2.0
    theirs = ridge.KernelRidge(alpha=1 / (2 * C), kernel="rbf", gamma=0.3).fit(X, np.ones(60))
    model = odmlib.train(X, machine="odmo", C=C, gamma=0.3, tol=1e-12)
    scores = model.decision_function(X) + model.function.offsets
    assert scores == pytest.approx(theirs.predict(X), abs=1e-6)


def test_the_problem_is_that_of_odm_with_one_class():
    X = blob(60)
    model = odmlib.train(X, machine="odmo", kernel="linear", theta=0.3, C=5, tol=1e-12)
    weights, z = np.append(model.function.weights[:, 0], model.function.bias_weights), model.training_margins
    slack = np.maximum(0, 0.7 - z) - np.maximum(0, z - 1.3)
    expected = 2 * 5 / 0.7**2 * np.column_stack([X, np.ones(60)]).T @ slack
    assert weights == pytest.approx(expected, abs=1e-6)  # w = sum_i a_i x_i


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("options", [{}, {"theta": 0.2}, {"C": 30, "gamma": 0.2}])
def test_false_alarms_are_as_promised(nu, options):
    alarms = []
    for seed in range(12):
        model = odmlib.train(blob(150, seed), machine="odmo", nu=nu, **options)
        alarms.append(np.mean(model.predict(blob(300, 1000 + seed)) == -1))
    error = np.std(alarms) / np.sqrt(len(alarms) - 1)
    assert abs(np.mean(alarms) - nu) <= 3 * error + 1 / 151


def test_p_values_are_conformal():
    X = blob(40)
    model = odmlib.train(X, machine="odmo", nu=0.2)
    new = np.concatenate([blob(200, 5), 4 * blob(50, 6)])
    p = model.p_values(new)
    assert set(np.round(p * 41).tolist()) <= set(range(1, 42))
    assert np.array_equal(p > 0.2, model.predict(new) == 1)
    assert p[200:].mean() < 0.1 < p[:200].mean()
    values = model.decision_function(new)
    order = np.argsort(values)
    assert (np.diff(p[order]) >= 0).all()


def test_many_rows_keep_few_levels_and_p_values_stay_safe():
    X = blob(2500, d=2)
    model = odmlib.train(X, machine="odmo", kernel="linear", nu=0.05)
    scores = np.array(model.lists["conformal_scores"])
    assert len(scores) == 1000
    p = model.p_values(blob(2500, 9, d=2))
    for level in (0.01, 0.05, 0.5):
        assert np.mean(p <= level) <= level + 0.02


def test_so_few_rows_that_nu_cannot_be_kept():
    model = odmlib.train(blob(5), machine="odmo", nu=0.01)
    assert model.report["novelty"]["false_alarms"] == pytest.approx(1 / 6)
    assert model.p_values(np.full((1, 3), 100.0))[0] == pytest.approx(1 / 6)


def test_rows_without_weight_do_not_count():
    X = np.concatenate([blob(50), 30 + blob(50, 2)])
    weights = np.repeat([1.0, 0.0], 50)
    model = odmlib.train(X, machine="odmo", sample_weight=weights, gamma=0.3)
    alone = odmlib.train(X[:50], machine="odmo", gamma=0.3)
    assert model.predict(X[:50]) == pytest.approx(alone.predict(X[:50]))
    assert (model.predict(X[50:]) == -1).all()


def test_folds_take_over_where_memory_is_short():
    X = blob(300)
    model = odmlib.train(X, machine="odmo", cache_mb=0.5)
    assert model.report["novelty"]["source"] == "10 folds"
    whole = odmlib.train(X, machine="odmo")
    assert whole.report["novelty"]["source"] == "leave-one-out"
    assert model.report["novelty"]["threshold"] == pytest.approx(
        whole.report["novelty"]["threshold"], abs=0.05
    )


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_a_model_file_keeps_threshold_and_p_values(kernel):
    X = blob(60)
    model = odmlib.train(X, machine="odmo", kernel=kernel)
    again = odmlib.load_model(model.to_bytes())
    assert np.array_equal(again.p_values(X), model.p_values(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.to_bytes() == model.to_bytes()
    with pytest.raises(ParameterError, match="holds no p-values"):
        odmlib.train(X, X[:, 0] > 0).p_values(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nu": 0}, r"nu must be above 0 and below 1, found 0"),
        ({"probability": True}, "tells no classes apart"),
        ({"class_weight": {1: 2}}, "tells no classes apart"),
    ],
)
def test_what_has_no_meaning_is_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        odmlib.train(blob(20), machine="odmo", **options)


def test_nothing_can_be_searched():
    with pytest.raises(ParameterError, match="learns from one class"):
        odmlib.grid_search(blob(20), np.ones(20), machine="odmo")
    with pytest.raises(ParameterError, match="needs two or more"):
        odmlib.train(blob(1), machine="odmo")


def test_partitions_find_the_machine_of_all_rows():
    X = blob(600)
    whole = odmlib.train(X, machine="odmo", tol=1e-8)
    parts = odmlib.train(X, machine="odmo", tol=1e-8, partitions=4)
    assert [level["partitions"] for level in parts.report["levels"]] == [4, 2, 1]
    assert parts.report["primal"] == pytest.approx(whole.report["primal"], rel=2e-8)
    assert parts.decision_function(X) == pytest.approx(whole.decision_function(X), abs=1e-3)


def test_all_rows_as_landmarks_are_the_whole_machine():
    X = blob(120)
    whole = odmlib.train(X, machine="odmo", tol=1e-10, gamma=1.0)
    nystrom = odmlib.train(X, machine="odmo", tol=1e-10, gamma=1.0, approx="nystrom", rank=120)
    assert nystrom.report["primal"] == pytest.approx(whole.report["primal"], rel=1e-6)
    assert nystrom.report["novelty"]["source"] == "10 folds"


@pytest.mark.parametrize(("rank", "source"), [(6, "leave-one-out"), (80, "10 folds")])
def test_false_alarms_of_landmarks_are_as_promised(rank, source):
    """With heavy tails landmarks are the rows that look novel, which leave-one-out must not trust."""
    alarms = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows, new = rng.standard_t(3, (600, 6)), rng.standard_t(3, (2000, 6))
        model = odmlib.train(rows, machine="odmo", nu=0.1, approx="nystrom", rank=rank)
        assert model.report["novelty"]["source"] == source
        alarms.append(np.mean(model.predict(new) == -1))
    error = np.std(alarms) / np.sqrt(len(alarms) - 1)
    assert abs(np.mean(alarms) - 0.1) <= 3 * error + 1 / 601


def test_left_out_scores_of_landmarks_are_those_of_refits():
    """Without a row that is no landmark, the same landmarks are chosen."""
    from odmlib.machines.training import make_problem, make_settings, train_problem
    from odmlib.selection.leave_one_out import left_out_scores

    X = blob(60, d=2)
    given = {"machine": "odmo", "approx": "nystrom", "rank": 8, "gamma": 0.5, "tol": 1e-12, "theta": 0.0}
    options = make_settings(given)
    problem = make_problem(X, None, options)
    model = train_problem(problem, options)
    scores = left_out_scores(model, problem, options)[:, 0]
    landmarks = {tuple(row) for row in model.function.vectors.to_dense().tolist()}
    others = [i for i in range(60) if tuple(X[i].tolist()) not in landmarks]
    assert len(others) == 52
    for i in others[::10]:
        rest = train_problem(make_problem(np.delete(X, i, axis=0), None, options), options)
        refit = rest.function.scores(odmlib.Dataset.from_any(X[i : i + 1]), 1)[0, 0]
        assert scores[i] == pytest.approx(refit, abs=1e-8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"approx": "nystrom", "kernel": "linear"}, "nystrom is for kernels rbf and poly"),
        ({"rank": 5}, "rank needs approx"),
        ({"approx": "nystrom", "levels": 2}, "levels has no meaning with approx"),
        ({"partition": "cascade"}, "cascade does not solve the whole problem, which odmo needs"),
        ({"stop_level": 1}, "stop_level is for machine sodm"),
        ({"levels": 1, "kernel": "linear"}, "levels has no meaning with kernel linear"),
        ({"partitions": 64}, "are too many: there are 40 rows"),
    ],
)
def test_contradictions_about_partitions_and_landmarks(options, message):
    with pytest.raises(ParameterError, match=message):
        odmlib.train(blob(40), machine="odmo", **options)
