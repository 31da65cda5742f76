"""SVRG on pairs of rows for ODM^L: the lazy steps are the plain ones, their mean is the gradient, and the gap
holds against the interior-point method."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import odmlib
from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.losses.loss import MeanVarianceLoss
from odmlib.solvers.control import Control, Resources, WarmStart
from odmlib.solvers.linear._svrg import PairLoop
from odmlib.solvers.linear.interior import solve_interior
from odmlib.solvers.linear.svrg_pairs import solve_pair_svrg
from odmlib.solvers.problem import LinearProblem
from tests.reference_linear import random_problem
from tests.solvers.linear.test_svrg import splitmix

WEIGHTS = [(0.7, 0.4, 1.0), (0.0, 0.5, 1.0), (2.0, 0.0, 1.0), (0.0, 0.0, 1.0), (1.0, 1.0, 0.0)]


def problem_of(n=150, d=4, weights=WEIGHTS[0], C=0.3, seed=0):
    X, y = random_problem(n=n, d=d, seed=seed)
    costs = C * np.random.default_rng(seed).uniform(0.2, 2, n)
    costs[:3] = 0  # rows without weight take no part
    rows, loss = Rows(Dataset.from_any(X), 1.0), MeanVarianceLoss(*weights)
    return LinearProblem(rows, y.astype(float), costs, loss), X


def objective(problem, X, w):
    """P, in other words than the solver's."""
    loss, c = problem.loss, problem.costs
    z = problem.y * (np.c_[X, np.ones(len(X))] @ w)
    spread = c.sum() * np.average((z - np.average(z, weights=c)) ** 2, weights=c)
    return 0.5 * w @ w + loss.variance * spread + c @ (loss.hinge * np.maximum(0, 1 - z) - loss.mean * z)


def test_lazy_steps_are_the_plain_steps_and_their_mean_is_the_gradient():
    problem, X = problem_of(n=9)
    X, y, c, loss = np.c_[X, np.ones(9)], problem.y, problem.costs, problem.loss
    width, eta = 0.5, 0.01

    def estimate(w, i, j):
        """The paper's two-row gradient with a ramp for the indicator, without w itself."""
        z = y * (X @ w)
        ramp = np.clip(0.5 + (1 - z[i]) / width, 0, 1)
        mean = 9 * c[j] * z[j] / c.sum()
        slope = 2 * loss.variance * (z[i] - mean) - loss.mean - loss.hinge * ramp
        return 9 * c[i] * slope * y[i] * X[i]

    snapshot = np.linspace(-0.5, 0.5, X.shape[1])
    pairs = list(itertools.product(range(9), repeat=2))
    mu = np.mean([estimate(snapshot, i, j) for i, j in pairs], axis=0)
    z = y * (X @ snapshot)
    p = loss.hinge * c * np.clip(0.5 + (1 - z) / width, 0, 1)
    slopes = 2 * loss.variance * c * (z - np.average(z, weights=c)) - loss.mean * c - p
    np.testing.assert_allclose(mu, X.T @ (y * slopes), rtol=1e-12)

    lazy, plain, words = snapshot.copy(), snapshot.copy(), splitmix(4)
    loop = PairLoop(problem.rows, loss, y, c, 4)
    loop.begin_pairs(lazy, mu, z, eta, width)
    loop.advance(60)
    loop.end_stage()
    for _ in range(60):
        i, j = next(words) % 9, next(words) % 9
        plain = plain - eta * (plain + mu + estimate(plain, i, j) - estimate(snapshot, i, j))
    np.testing.assert_allclose(lazy, plain, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_the_gap_holds(weights, C):
    problem, X = problem_of(weights=weights, C=C)
    best = solve_interior(problem, Control(1e-9), Resources())
    result = solve_pair_svrg(problem, Control(1e-4), Resources())
    assert result.status == "converged" and result.gap <= 1e-4
    assert result.primal == pytest.approx(objective(problem, X, result.weights), rel=1e-10)
    assert result.dual <= best.primal + 1e-9 * abs(best.primal)
    assert best.dual - 1e-9 * abs(best.primal) <= result.primal
    early = solve_pair_svrg(problem, Control(1e-4, max_iter=2), Resources())
    assert early.dual <= best.primal + 1e-9 * abs(best.primal)
    cold = solve_pair_svrg(problem, Control(1e-2), Resources())
    warm = solve_pair_svrg(problem, Control(1e-2), Resources(), WarmStart(result.weights))
    assert warm.iterations < cold.iterations


def test_limits():
    problem, _ = problem_of()
    assert solve_pair_svrg(problem, Control(1e-12, max_iter=2), Resources()).status == "max_iter"
    assert solve_pair_svrg(problem, Control(1e-12, time_limit=1e-9), Resources()).status == "time_limit"
    stopped = solve_pair_svrg(problem, Control(1e-12, callback=lambda progress: True), Resources())
    assert stopped.status == "stopped"


def test_as_a_machine():
    X, y = random_problem(n=300, d=5, seed=3)
    given = {"machine": "odml", "kernel": "linear", "C": 0.1}
    model, exact = odmlib.train(X, y, solver="svrg", **given), odmlib.train(X, y, **given)
    assert model.report["solver"] == "svrg" and model.report["gap"] <= 1e-3
    assert model.report["primal"] == pytest.approx(exact.report["primal"], rel=2e-3)
    with pytest.raises(odmlib.ParameterError, match="one of auto, dcd, interior-point for machine svm"):
        odmlib.train(X, y, machine="svm", kernel="linear", solver="svrg")
