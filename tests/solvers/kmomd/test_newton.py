"""KM-OMD's linear solver against the kernel solver's problem in plain numpy, and its own certificate."""

import numpy as np
import pytest

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.solvers.control import Control, Resources, WarmStart
from odmlib.solvers.kmomd.geometry import KmomdProblem
from odmlib.solvers.kmomd.newton import KmomdNewtonTuning, solve_kmomd_newton
from odmlib.solvers.linear.newton import NewtonTuning
from tests.reference_kmomd import objective, solve_by_pairs, tight_bound


def problem(seed, m=40, d=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d))
    y = np.where(X[:, 0] + 0.7 * rng.standard_normal(m) > 0.4, 1.0, -1.0)
    return X, y


def solve(X, y, lam, weights=None, tol=1e-10, max_iter=None, start=None, explicit=None):
    weights = np.ones(len(y)) if weights is None else weights
    return solve_kmomd_newton(
        KmomdProblem(Rows(Dataset.from_any(X)), y, weights, lam),
        Control(tol, max_iter),
        Resources(),
        WarmStart(weights=start),
        KmomdNewtonTuning(NewtonTuning(explicit=explicit)),
    )


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("lam", [1.0, 0.95, 0.5, 0.2])
def test_agrees_with_slow_reference(lam, weighted, explicit):
    X, y = problem(0)
    weights = np.random.default_rng(1).uniform(0.3, 3, len(y)) if weighted else np.ones(len(y))
    K = X @ X.T
    point = solve(X, y, lam, weights, explicit=explicit)
    v = point.v
    assert point.status == "converged"
    if lam < 1:
        assert (point.details["cg_steps"] == 0) == explicit
    assert point.objective == pytest.approx(objective(K, y, lam, point.gamma, weights), rel=1e-10)
    best = objective(K, y, lam, solve_by_pairs(K, y, lam, weights, violation=1e-7), weights)
    assert point.objective == pytest.approx(best, rel=1e-8)
    assert v == pytest.approx(X.T @ (y * point.gamma), abs=1e-12)
    assert point.scores == pytest.approx(X @ v, abs=1e-12)
    assert point.gamma[y > 0].sum() == pytest.approx(1)
    assert point.gamma[y < 0].sum() == pytest.approx(1)
    if lam < 1:
        assert tight_bound(K, y, lam, point.gamma, weights) <= best * (1 + 1e-12)


@pytest.mark.parametrize("lam", [0.5, 0.01])
def test_weight_0_is_absence_and_start_helps(lam):
    X, y = problem(2)
    weights = np.ones(len(y))
    weights[::4] = 0
    point = solve(X, y, lam, weights)
    v = point.v
    kept = weights > 0
    alone_v = solve(X[kept], y[kept], lam).v
    assert not point.gamma[~kept].any()
    assert v == pytest.approx(alone_v, abs=1e-6)
    again = solve(X, y, lam, weights, tol=1e-6, start=v / np.linalg.norm(v))
    assert again.iterations <= 1
    assert again.objective == pytest.approx(point.objective, rel=1e-6)
    useless = solve(X, y, lam, weights, start=-v)
    assert useless.objective == pytest.approx(point.objective, rel=1e-8)


def test_zero_rows_and_limits():
    X, y = problem(3)
    X[:10] = 0
    point = solve(X, y, 0.2)
    assert point.status == "converged"
    stopped = solve(X, y, 0.2, tol=1e-12, max_iter=1)
    assert (stopped.status, stopped.iterations) == ("max_iter", 1)
    assert stopped.gap > 1e-6
    nothing = solve(np.zeros((6, 2)), np.array([1.0, 1, 1, -1, -1, -1]), 0.2)
    assert nothing.status == "converged"
    assert not nothing.v.any()
