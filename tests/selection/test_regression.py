"""Validation of regression: folds along C against single folds, left-out rows against a new training."""

from __future__ import annotations

import numpy as np
import pytest

import odmlib
from odmlib.machines.training import make_problem, make_settings
from odmlib.model.regression import regression_measures
from odmlib.selection.cross_validation import cross_validate_targets
from odmlib.svmutil import svm_predict, svm_train


def some(m=70, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 3))
    return X, np.cos(X[:, 0]) + X[:, 1] + 0.2 * rng.standard_normal(m) + 2


def mean_squared_error(X, t, options, folds=4):
    settings = make_settings({"machine": "odmr", "tol": 1e-7, **options})
    return cross_validate_targets(make_problem(X, t, settings), settings, folds).measures.mean_squared_error


@pytest.mark.parametrize("options", [{"kernel": "linear"}, {"gamma": 0.3}, {"gamma": 0.3, "bias": 1.0}])
@pytest.mark.parametrize("outputs", [1, 2])
def test_the_grid_finds_what_folds_find_one_by_one(options, outputs):
    X, t = some()
    t = t if outputs == 1 else np.stack([t, X[:, 2] * t], axis=1)
    options = {"tol": 1e-7, **options}
    result = odmlib.grid_search(X, t, machine="odmr", log2c=(-3, 3, 2), folds=4, **options)
    assert len(result.points) == 4
    for point in result.points:
        expected = mean_squared_error(X, t, options | {"C": point.parameters["C"]})
        assert point.rate == pytest.approx(expected, rel=1e-4)
    assert result.best.rate == min(point.rate for point in result.points)
    assert result.report()["best"]["rate"] == result.best.rate


@pytest.mark.parametrize(
    "options", [{"kernel": "linear"}, {"gamma": 0.3}, {"kernel": "sigmoid", "gamma": 0.1}]
)
def test_the_grid_by_leave_one_out(options):
    X, t = some(40)
    result = odmlib.grid_search(X, t, machine="odmr", log2c=(-2, 2, 2), loo=True, tol=1e-7, **options)
    for point in result.points:
        found = odmlib.leave_one_out(X, t, machine="odmr", C=point.parameters["C"], tol=1e-7, **options)
        assert point.rate == pytest.approx(found.measures.mean_squared_error, rel=1e-3)


@pytest.mark.parametrize(
    "options", [{"kernel": "linear"}, {"gamma": 0.3, "bias": 3.0}, {"gamma": 0.3, "nu": 0.4}]
)
@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_leave_one_out_is_training_without_the_row(options, epsilon):
    X, t = some(40)
    options = {"machine": "odmr", "epsilon": epsilon, "tol": 1e-10, **options}
    found = odmlib.leave_one_out(X, t, **options)
    centre = 0.0
    if "bias" not in options and options.get("kernel") != "linear":  # the mean of all rows is kept
        centre, options = t.mean(), options | {"bias": -1}
    expected = []
    for row in range(40):
        others = np.arange(40) != row
        model = odmlib.train(X[others], t[others] - centre, **options)
        expected.append(model.predict(X[[row]])[0] + centre)
    # rows that cross an edge of the band when another one is left out are not followed
    assert found.predicted[:, 0] == pytest.approx(
        expected, abs=1e-4 if epsilon == 0 and "nu" not in options else 0.05
    )


def test_measures_are_those_of_svmutil(capsys):
    X, t = some()
    model = svm_train(t.tolist(), X.tolist(), "-s 7 -q -c 3")
    labels, (_, error, correlation), values = svm_predict(t.tolist(), X.tolist(), model)
    found = regression_measures(np.array(labels), t)
    assert tuple(found) == pytest.approx((error, correlation))
    assert capsys.readouterr().out.splitlines() == list(found.lines(behind=" (regression)"))
    assert [value[0] for value in values] == labels
    assert svm_train(t.tolist(), X.tolist(), "-s 7 -v 4") == pytest.approx(
        mean_squared_error(X, t, {"tol": 1e-3}), rel=1e-6
    )
    assert "Cross Validation Mean squared error = " in capsys.readouterr().out
    assert np.isnan(regression_measures(np.ones(3), np.arange(3.0)).squared_correlation)


def test_intervals_hold_as_many_targets_as_promised():
    inside, width = [], []
    for seed in range(10):
        X, t = some(80, seed)
        new, targets = some(300, 100 + seed)
        model = odmlib.leave_one_out(X, t, machine="odmr", C=3, gamma=0.3).model
        ends = model.predict_interval(new, 0.8)
        inside.append(np.mean((ends[:, 0] <= targets) & (targets <= ends[:, 1])))
        width.append(np.diff(model.predict_interval(new[:1], 0.5))[0, 0])
        again = odmlib.load_model(model.to_bytes())
        assert np.array_equal(again.predict_interval(new, 0.8), ends)
        assert width[-1] < ends[0, 1] - ends[0, 0]
    assert np.mean(inside) == pytest.approx(0.8, abs=0.03)


def test_cross_validation_in_python_measures_targets():
    X, t = some()
    found = odmlib.cross_validate(X, t, folds=4, machine="odmr", tol=1e-7)
    assert found.measures.mean_squared_error == mean_squared_error(X, t, {})
    assert found.n_folds == 4 and found.predicted.shape == (70, 1)
    assert "array" not in repr(found)
