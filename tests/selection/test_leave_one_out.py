"""Leave-one-out from one fit against true refits, through the public face."""

from __future__ import annotations

import numpy as np
import pytest

import odmlib
from odmlib.data.problem import Problem
from odmlib.model.schemes import winners
from tests.real_data import real_set

LOOSE = 0.15  # how far a margin may be off where other rows change sides


def three_clouds(m: int = 45, seed: int = 0):
    random = np.random.default_rng(seed)
    codes = np.arange(m) % 3
    X = random.normal(size=(m, 2)) + 1.6 * np.array([[1, 0], [-1, 0.5], [0, -1.5]])[codes]
    return X, np.array(["a", "b", "c"])[codes]


def refit_scores(X, y, labels, **options):
    """Decision values of every row under a machine trained on the others, in the order of `labels`."""
    scores = []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        given = {name: value[rest] if name == "sample_weight" else value for name, value in options.items()}
        if options.get("kernel") == "precomputed":
            model = odmlib.train(X[np.ix_(rest, rest)], y[rest], **given)
            scores.append(model.decision_function(X[[i]][:, rest])[0])
        else:
            model = odmlib.train(X[rest], y[rest], **given)
            scores.append(model.decision_function(X[[i]])[0])
        if len(labels) == 2 and model.labels[0] != labels[0]:
            scores[-1] = -scores[-1]
        elif len(labels) > 2:
            assert model.labels.tolist() == labels.tolist()
    return np.array(scores)


@pytest.mark.parametrize("options", [
    {"kernel": "linear", "C": 0.5},
    {"kernel": "linear", "C": 2, "bias": -1, "nu": 0, "theta": 0},
    {"kernel": "rbf", "gamma": 0.5, "C": 0.3, "class_weight": {"a": 3}},
    {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1, "C": 0.1},
])  # fmt: skip
def test_two_classes(options):
    X, y = three_clouds()
    X, y = X[y != "c"], y[y != "c"]
    weights = 1 + np.arange(len(y)) % 2
    options = options | {"tol": 1e-9, "sample_weight": weights}
    result = odmlib.leave_one_out(X, y, **options)
    expected = refit_scores(X, y, result.model.labels, **options)
    close = np.isclose(result.scores, expected, atol=1e-5)
    assert close.mean() > 0.3
    assert np.abs(result.scores - expected).mean() < 0.05
    truth = result.model.labels_for(expected) != y
    assert abs(result.errors - truth.sum()) <= 1
    assert result.accuracy == 1 - result.errors / len(y)
    assert (result.predicted != y).sum() == result.errors
    assert truth.sum() <= result.bound


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_many_classes(kernel, multiclass):
    X, y = three_clouds()
    y[:3] = ["a", "b", "c"]
    options = {"kernel": kernel, "multiclass": multiclass, "C": 0.5, "gamma": 0.5, "tol": 1e-9}
    result = odmlib.leave_one_out(X, y, **options)
    assert result.scores.shape == (45, 3)
    rows = np.arange(3, 45)  # without the first rows, the order of the labels would change
    labels = result.model.labels
    expected = np.full((45, 3), np.nan)
    for i in rows:
        rest = np.arange(45) != i
        expected[i] = odmlib.train(X[rest], y[rest], **options).decision_function(X[[i]])[0]
    assert np.abs(result.scores - expected)[rows].mean() < 0.05
    assert np.isclose(result.scores, expected, atol=1e-5)[rows].mean() > 0.3
    predicted = labels[winners(multiclass, expected[rows], 3)]
    assert (predicted == result.predicted[rows]).mean() > 0.95
    assert (predicted != y[rows]).sum() <= result.bound < 45


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_precomputed_and_shifted_kernels(multiclass):
    """The sigmoid kernel is not positive semidefinite; its matrix given by hand is trained alike."""
    X, y = three_clouds(60, seed=3)
    options = {"C": 0.5, "tol": 1e-9, "multiclass": multiclass}
    direct = odmlib.leave_one_out(X, y, kernel="sigmoid", gamma=0.7, coef0=-1, **options)
    given = odmlib.leave_one_out(np.tanh(0.7 * X @ X.T - 1), y, kernel="precomputed", **options)
    np.testing.assert_allclose(direct.scores, given.scores, atol=1e-4)
    assert direct.bound is None and given.bound is None  # a refit would choose another shift


def test_a_shift_is_the_one_of_training():
    X, y = three_clouds(40, seed=4)
    X, y = X[y != "c"], y[y != "c"]
    options = {"kernel": "precomputed", "C": 0.4, "tol": 1e-9, "theta": 0.1}
    K = np.tanh(0.7 * X @ X.T - 1)
    K += np.eye(len(y)) * 0.3
    result = odmlib.leave_one_out(K, y, **options)
    assert result.model.report["details"]["shift"] > 0.1
    # refits need the shift of the whole set: given by hand, and taken away again for the row left out
    shifted = K + result.model.report["details"]["shift"] * np.eye(len(y))
    expected = refit_scores(shifted, y, result.model.labels, **options)
    assert np.isclose(result.scores, expected, atol=1e-5).mean() > 0.3
    assert np.abs(result.scores - expected).mean() < 0.05


def test_only_machines_with_a_band_have_it():
    X, y = three_clouds()
    with pytest.raises(
        odmlib.ParameterError, match=r"for machine odml, odm, odmr .* found svm; cross-validate"
    ):
        odmlib.leave_one_out(X, y, machine="svm")


def test_an_unfinished_fit_is_warned_of():
    X, y = three_clouds()
    with pytest.warns(odmlib.ConvergenceWarning):
        odmlib.leave_one_out(X, y, time_limit=1e-9)


def test_too_large_is_said():
    X, y = three_clouds(600)
    with pytest.raises(odmlib.ParameterError, match=r"needs \d+ MB .* cache_mb allows 0; allow more"):
        odmlib.leave_one_out(X, y, cache_mb=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["heart_scale", "ionosphere", "fourclass"])
def test_real_sets(name):
    """Error counts of true refits; the bound is above."""
    X, y = real_set(name)
    rows = np.random.default_rng(0).permutation(len(y))[:200]
    X, y = X[rows], y[rows]
    result = odmlib.leave_one_out(X, y, tol=1e-3)
    gamma = result.model.formula.gamma
    expected = refit_scores(X, y, result.model.labels, gamma=gamma, tol=1e-6)
    errors = np.count_nonzero(result.model.labels_for(expected) != y)
    assert abs(result.errors - errors) <= 2
    assert errors <= result.bound < 200


def test_from_a_model_that_is_there():
    from odmlib.options import TrainOptions
    from odmlib.selection.leave_one_out import leave_one_out_of

    X, y = three_clouds()
    model = odmlib.train(X, y, gamma=0.5)
    result = leave_one_out_of(model, Problem.from_arrays(X, y), TrainOptions(gamma=0.5))
    assert result.scores.tolist() == odmlib.leave_one_out(X, y, gamma=0.5).scores.tolist()


def test_rows_of_which_the_others_say_nothing():
    """Rows so far apart that every kernel value between them is 0: rounding must not decide for them."""
    X, y = 100.0 * np.arange(40.0)[:, None], np.array([1, 2, 2, 2] * 10)
    result = odmlib.leave_one_out(X, y, gamma=1.0, C=3.0)
    refits = [odmlib.train(np.delete(X, i, 0), np.delete(y, i), gamma=1.0, C=3.0) for i in range(1, 40, 13)]
    for model, i in zip(refits, range(1, 40, 13), strict=True):
        assert model.predict(X[i : i + 1])[0] == result.predicted[i] == 2
    assert result.accuracy == 0.75 and not result.scores.any()
