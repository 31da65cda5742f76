"""Problems with a target per row, in every engine, against a quadratic program and against each other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss
from odmlib.solvers.control import CONVERGED, Control, Resources, WarmStart
from odmlib.solvers.kernel.block_steps import WorkingSetTuning
from odmlib.solvers.kernel.working_set import solve_working_set
from odmlib.solvers.linear.auto import solve_linear
from odmlib.solvers.problem import KernelProblem, LinearProblem, best_multiple

RESOURCES = Resources(threads=1, cache_bytes=10**7)


def regression(m=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d))
    targets = 3 * np.sin(X @ rng.standard_normal(d)) + 0.3 * rng.standard_normal(m) + 5
    return X, targets, rng.uniform(0.5, 2, m)


def quadratic_program(X, t, costs, eps, nu):
    """min 1/2 |w|^2 + sum cost (p^2 + nu q^2) over w, p >= t - eps - Xw, q >= Xw - t - eps, p and q >= 0."""
    m, d = X.shape
    scale = np.concatenate([np.ones(d), 2 * costs, 2 * nu * costs])
    eye, nothing = np.eye(m), np.zeros((m, m))
    below = LinearConstraint(np.hstack([X, eye, nothing]), t - eps, np.inf)
    above = LinearConstraint(np.hstack([-X, nothing, eye]), -t - eps, np.inf)
    bounds = [(None, None)] * d + [(0, None)] * (2 * m)
    start = np.concatenate([np.zeros(d), np.abs(t), np.abs(t)])
    found = minimize(
        lambda v: 0.5 * (scale * v) @ v,
        start,
        jac=lambda v: scale * v,
        bounds=bounds,
        constraints=[below, above],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert found.status in (0, 8)  # 8: no step lowers the objective any more
    return found.x[:d], found.fun


@pytest.mark.parametrize("solver", ["newton", "dcd", "blocks", "svrg", "auto"])
@pytest.mark.parametrize(("eps", "nu"), [(0.0, 1.0), (0.3, 1.0), (0.3, 0.25), (8.0, 0.5)])
def test_linear_solvers_against_a_quadratic_program(solver, eps, nu):
    X, t, costs = regression(m=14, d=3)
    weights, value = quadratic_program(X, t, costs, eps, nu)
    problem = LinearProblem(Rows(Dataset.from_any(X)), np.ones(14), costs, BandLoss(eps, nu, 0.0), t)
    result = solve_linear(problem, Control(tol=1e-11), RESOURCES, solver=solver)
    assert result.status == CONVERGED
    assert result.weights == pytest.approx(weights, abs=1e-4)
    assert result.primal == pytest.approx(value, rel=1e-6)
    assert result.margins == pytest.approx(X @ result.weights - t, abs=1e-12)


@pytest.mark.parametrize("nu", [1.0, 0.3])
def test_the_working_set_finds_what_newton_finds(nu):
    X, t, costs = regression()
    loss, ones = BandLoss(0.5, nu, 0.0), np.ones(len(t))
    linear = LinearProblem(Rows(Dataset.from_any(X), 1.0), ones, costs, loss, t)
    expected = solve_linear(linear, Control(tol=1e-12), RESOURCES, solver="newton")
    kernel = Kernel(KernelFormula("linear", bias=1.0), Dataset.from_any(X), 1)
    problem = KernelProblem(kernel, ones, costs, loss, t)
    for tuning in (WorkingSetTuning(), WorkingSetTuning(block_rows=7)):
        result = solve_working_set(problem, Control(tol=1e-9), RESOURCES, tuning=tuning)
        assert result.status == CONVERGED
        assert result.primal == pytest.approx(expected.primal, rel=1e-6)
        assert result.margins == pytest.approx(expected.margins, abs=1e-3)
        assert X.T @ result.duals == pytest.approx(expected.weights[:-1], abs=1e-3)


def test_rows_that_are_left_out_come_back_with_their_targets():
    """Shrinking keeps the dual value of the rows left out, targets and all: the run ends as without it."""
    X, t, costs = regression(m=400, d=2, seed=3)
    kernel = Kernel(KernelFormula("rbf", gamma=2.0), Dataset.from_any(X), 1)
    problem = KernelProblem(kernel, np.ones(400), 1e3 * costs, BandLoss(0.2, 1.0, 0.0), t)
    little = Resources(threads=1, cache_bytes=150 * 400 * 8)
    tuning = WorkingSetTuning(block_rows=20, quiet_iterations=3, shrink_from=0.01)
    control = Control(tol=1e-5)
    without = solve_working_set(problem, control, little, tuning=tuning, shrinking=False)
    result = solve_working_set(problem, control, little, tuning=tuning)
    assert result.status == without.status == CONVERGED
    assert result.details["shrinkings"] > 0
    assert result.primal == pytest.approx(without.primal, rel=1e-5)


def test_a_start_from_duals_knows_the_targets():
    X, t, costs = regression()
    problem = LinearProblem(Rows(Dataset.from_any(X)), np.ones(60), costs, BandLoss(0.1, 1.0, 0.0), t)
    best = solve_linear(problem, Control(tol=1e-12), RESOURCES, solver="blocks")
    assert problem.start_duals(best.weights) == pytest.approx(best.duals, rel=1e-4, abs=1e-6)
    square = best.weights @ best.weights
    half = best_multiple(problem.loss, costs, 0.5 * best.duals, 0.25 * square, targets=t)
    assert half == pytest.approx(2, rel=1e-6)
    again = solve_linear(problem, Control(tol=1e-9), RESOURCES, WarmStart(best.weights), solver="dcd")
    assert again.status == CONVERGED
    assert again.iterations <= 2


def test_targets_of_another_length_are_refused():
    X, t, costs = regression()
    rows, ones = Rows(Dataset.from_any(X)), np.ones(60)
    for solver in ("newton", "dcd", "blocks", "svrg"):
        problem = LinearProblem(rows, ones, costs, BandLoss(0.1, 1.0, 0.0), t[:-1])
        with pytest.raises(ValueError, match=r"60 rows, but 59 targets|shapes|broadcast"):
            solve_linear(problem, Control(), RESOURCES, solver=solver)
