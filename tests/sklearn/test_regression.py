"""The estimators of regression and of novelty detection beside their relatives of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, LeaveOneOut, cross_val_predict

from odmlib.sklearn import LinearODMRegressor, ODMRegressor, OneClassODM


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X[:120] / X.std(axis=0), y[:120]


def test_ridge(diabetes):
    X, y = diabetes
    theirs = Ridge(alpha=1 / 6, fit_intercept=False).fit(X, y)
    ours = LinearODMRegressor(C=3, epsilon=0, bias=-1, tol=1e-12).fit(X, y)
    assert ours.coef_ == pytest.approx(theirs.coef_, abs=1e-6)
    assert ours.intercept_ == 0
    assert ours.margins_ == pytest.approx(ours.predict(X) - y, abs=1e-9)


def test_coefficients_predict(diabetes):
    X, y = diabetes
    machine = LinearODMRegressor().fit(X, y)
    assert machine.predict(X) == pytest.approx(X @ machine.coef_ + machine.intercept_)
    both = LinearODMRegressor().fit(X, np.stack([y, -y], axis=1))
    assert both.coef_.shape == (2, 10)
    assert both.predict(X) == pytest.approx(X @ both.coef_.T + both.intercept_)


@pytest.mark.parametrize("make", [LinearODMRegressor, ODMRegressor])
def test_leave_one_out(diabetes, make):
    X, y = diabetes
    machine = make(leave_one_out=True, C=0.1, epsilon=0, tol=1e-9)
    if make is ODMRegressor:  # the mean of y would be another one without a row
        machine.set_params(bias=5.0, gamma=0.02)
    expected = cross_val_predict(clone(machine).set_params(leave_one_out=False), X, y, cv=LeaveOneOut())
    machine.fit(X, y)
    assert machine.loo_predictions_ == pytest.approx(expected, abs=0.02)
    assert machine.loo_score_ == pytest.approx(1 - np.mean((expected - y) ** 2) / y.var(), abs=1e-4)


def test_grid_search_and_warm_start(diabetes):
    X, y = diabetes
    search = GridSearchCV(ODMRegressor(), {"C": [0.1, 1, 10], "epsilon": [0, 10]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.1
    machine = ODMRegressor(warm_start=True, tol=1e-8).fit(X, y)
    first = machine.predict(X)
    assert machine.fit(X, y).predict(X) == pytest.approx(first, abs=1e-2)
    assert machine.fit(X, np.stack([y, y], axis=1)).predict(X).shape == (120, 2)


def test_novelties():
    X, y = load_iris(return_X_y=True)
    detector = OneClassODM(nu=0.05, gamma=0.5).fit(X[y == 0])
    assert (detector.predict(X[y > 0]) == -1).all()
    assert np.mean(detector.predict(X[y == 0]) == -1) <= 0.06
    values = detector.decision_function(X)
    assert values == pytest.approx(detector.score_samples(X) - detector.offset_)
    assert np.array_equal(detector.p_values(X) > 0.05, detector.predict(X) == 1)
    assert np.array_equal(detector.fit_predict(X[y == 0]), detector.predict(X[y == 0]))
    assert detector.get_params()["theta"] == 0
