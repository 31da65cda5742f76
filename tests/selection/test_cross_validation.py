from __future__ import annotations

import numpy as np
import pytest

import odmlib
from odmlib.data.folds import stratified_folds
from odmlib.data.problem import Problem
from odmlib.options import TrainOptions
from odmlib.selection.cross_validation import cross_validate
from odmlib.selection.fold_training import cross_scores, of_whole_set

random = np.random.default_rng(5)
X = random.normal(size=(40, 3))
Y = np.where(X[:, 0] + 0.5 * random.normal(size=40) > 0, "yes", "no")


def test_every_row_is_predicted_by_a_machine_that_did_not_see_it():
    problem = Problem.from_arrays(X, Y)
    result = cross_validate(problem, TrainOptions(kernel="linear", seed=2, tol=1e-8), 4)
    folds = stratified_folds(problem.codes, 4, 2)
    for fold in range(4):
        model = odmlib.train(X[folds != fold], Y[folds != fold], kernel="linear", tol=1e-8)
        predicted = problem.labels[result.predicted[folds == fold]]
        assert predicted.tolist() == model.predict(X[folds == fold]).tolist()
    assert result.accuracy == np.mean(problem.labels[result.predicted] == Y)
    assert (result.n_folds, result.unfinished) == (4, 0)


def test_seed_and_progress():
    problem = Problem.from_arrays(X, Y)
    told: list[int] = []
    options = TrainOptions(kernel="linear", seed=1)
    first = cross_validate(problem, options, 5, told.append)
    assert told == [1, 2, 3, 4, 5]
    assert (first.predicted == cross_validate(problem, options, 5).predicted).all()


def test_settings_are_those_of_the_whole_set():
    """gamma from the data and C from lambda do not change with the fold."""
    problem = Problem.from_arrays(X, Y)
    options = of_whole_set(problem, TrainOptions(kernel="rbf", lambda_=80))
    assert (options.gamma, options.C, options.lambda_) == (pytest.approx(1 / (3 * X.var())), 2.0, None)
    found = cross_scores(problem, TrainOptions(kernel="rbf", lambda_=80), 5, "binary")
    np.testing.assert_array_equal(found, cross_scores(problem, options, 5, "binary"))


def test_a_training_part_of_one_class_predicts_it():
    problem = Problem.from_arrays(X[:6], ["a"] * 5 + ["b"])
    result = cross_validate(problem, TrainOptions(kernel="linear"), 6)
    assert result.n_folds == 6
    assert result.predicted[5] == 0


def test_rows_without_weight_are_no_class():
    problem = Problem.from_arrays(X[:6], ["a", "a", "a", "b", "b", "b"], [1, 1, 1, 1, 0, 0])
    result = cross_validate(problem, TrainOptions(kernel="linear"), 6)
    assert result.predicted[3] == 0  # the only b with weight was left out


def test_precomputed_kernel():
    pytest.importorskip("odmlib.solvers.kernel.working_set")
    K = np.exp(-0.7 * ((X[:, None] - X[None]) ** 2).sum(2))
    direct = cross_validate(Problem.from_arrays(X, Y), TrainOptions(kernel="rbf", gamma=0.7, tol=1e-8), 5)
    matrix = cross_validate(Problem.from_arrays(K, Y), TrainOptions(kernel="precomputed", tol=1e-8), 5)
    assert (direct.predicted == matrix.predicted).all()


def test_results_are_shown_in_a_line():
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    results = odmlib.cross_validate(X, y, folds=3), odmlib.leave_one_out(X, y)
    results += (odmlib.grid_search(X, y, log2c=(0, 4, 2), log2g=None, folds=3),)
    results += (odmlib.leave_one_out(X, X[:, 0], machine="odmr"),)
    for result in results:
        assert len(repr(result)) < 300 and "array" not in repr(result)
