"""Dual coordinate descent: shrinking, starts, the dual side of the result."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib.solvers.problem import best_multiple
from tests.reference_linear import random_problem
from tests.solvers.linear.linear_case import Case, check_result


def dual_value(case, duals):
    """D(a) by its formula."""
    reference = case.reference
    w = reference.X.T @ (reference.y * duals)
    side = np.where(duals > 0, reference.costs, reference.nu * reference.costs)
    quadratic = np.divide(duals**2, 4 * side, out=np.zeros_like(duals), where=duals != 0)
    return -0.5 * w @ w - np.sum(-duals + reference.theta * abs(duals) + quadratic)


@pytest.mark.parametrize("shrinking", [True, False])
def test_the_dual_side_fits_the_primal(shrinking):
    case = Case(*random_problem(seed=40), C=0.7)
    result = case.solve("dcd", 1e-12, shrinking=shrinking)
    assert result.status == "converged"
    np.testing.assert_allclose(result.weights, case.reference.X.T @ (case.y * result.duals), atol=1e-12)
    assert dual_value(case, result.duals) == pytest.approx(result.dual, rel=1e-10)
    np.testing.assert_allclose(result.duals, case.reference.duals(result.weights), atol=1e-4)
    check_result(case, result)


@pytest.mark.parametrize(("nu", "theta"), [(0.0, 0.0), (0.5, 0.6), (1.0, 0.9), (0.0, 0.5)])
@pytest.mark.parametrize("C", [0.001, 0.1])
def test_shrinking_changes_the_way_but_not_the_optimum(nu, theta, C):
    case = Case(*random_problem(n=200, d=4, seed=41), C=C, nu=nu, theta=theta)
    plain, shrunk = (case.solve("dcd", 1e-10, shrinking=shrinking) for shrinking in (False, True))
    assert plain.status == shrunk.status == "converged"
    np.testing.assert_allclose(plain.weights, shrunk.weights, atol=1e-4)
    assert plain.primal == pytest.approx(shrunk.primal, rel=1e-9)


def test_shrinking_puts_rows_aside():
    X, y = random_problem(n=2000, d=4, seed=42, noise=0.0)
    case = Case(X, y, C=1.0, nu=0.0, theta=0.0)  # the squared hinge of separable rows: most have no loss
    aside = case.solve("dcd", 1e-15, max_iter=60).details["active_rows"]
    assert aside < 1500


def test_rows_put_aside_too_early_come_back():
    """The first sweeps see margins far from the final ones; the certificate is on all rows."""
    for seed in range(10):
        X, y = random_problem(n=300, d=3, seed=seed, noise=1.0)
        case = Case(X * np.array([10.0, 1.0, 0.1]), y, C=1e-3, theta=0.9, nu=0.5)
        result = case.solve("dcd", 1e-8)
        assert result.status == "converged"
        check_result(case, result)


def test_starts_from_given_duals():
    case = Case(*random_problem(n=200, d=6, seed=43), C=0.5)
    cold = case.solve("dcd", 1e-8)
    again = case.solve("dcd", 1e-8, duals=cold.duals)
    assert again.iterations == 0
    np.testing.assert_allclose(again.weights, cold.weights, atol=1e-12)
    near = case.solve("dcd", 1e-8, duals=0.999 * cold.duals)
    assert near.iterations < cold.iterations
    check_result(case, near)


def test_starts_from_weights_through_auto():
    case = Case(*random_problem(n=200, d=6, seed=44), C=0.5)
    w = case.optimum()[0]
    cold = case.solve("auto", 1e-8, solver="dcd")
    warm = case.solve("auto", 1e-8, solver="dcd", weights=w)
    assert (cold.solver, warm.solver) == ("dcd", "dcd")
    assert warm.iterations == 0 < cold.iterations


def test_the_best_multiple_is_the_best():
    case = Case(*random_problem(n=100, d=4, seed=45), C=20.0)
    duals = case.problem.duals_of(np.full(100, 0.3)) * np.linspace(0.1, 1, 100)
    w = case.problem.weights_of(duals)
    t = best_multiple(case.loss, case.costs, duals, w @ w)
    assert t > 0
    best = t * duals
    for other in (0.0, 0.5 * t, 0.99 * t, 1.01 * t, 2 * t, 1.0):
        assert dual_value(case, best) >= dual_value(case, other * duals)


def test_no_multiple_of_forbidden_duals():
    case = Case(*random_problem(n=10, d=2, seed=46), nu=0.0)
    assert best_multiple(case.loss, case.costs, np.full(10, -1.0), 1.0) == 0
