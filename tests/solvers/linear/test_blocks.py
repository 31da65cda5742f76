"""The block method on linear machines, and when `auto` hands over to it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from odmlib.solvers.kernel.working_set import WorkingSetTuning
from odmlib.solvers.linear.auto import LinearTuning
from odmlib.solvers.linear.newton import NewtonTuning
from tests.reference_linear import random_problem
from tests.solvers.linear.linear_case import Case, check_result

SMALL_BLOCKS = WorkingSetTuning(block_rows=16)  # much smaller than the problem, so that many are needed


def solve_by_blocks(case, tol, **options):
    return case.solve("blocks", tol, tuning=SMALL_BLOCKS, **options)


def badly_conditioned(n=150, d=400, seed=70):
    """Few rows, many columns of very different size: like counts of words."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.1) * 30 ** rng.random(d)
    return X, np.where(rng.random(n) < 0.4, 1.0, -1.0)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize(("nu", "theta"), [(1.0, 0.2), (0.0, 0.0), (0.5, 0.6)])
def test_many_small_blocks_reach_the_reference(C, nu, theta):
    case = Case(*random_problem(n=120, d=6, seed=71), C=C, nu=nu, theta=theta)
    result = solve_by_blocks(case, 1e-9)
    assert result.status == "converged" and result.solver == "blocks"
    assert result.iterations > 3
    check_result(case, result)
    np.testing.assert_allclose(result.weights, case.reference.X.T @ (case.y * result.duals), atol=1e-12)


def test_a_start_is_used():
    case = Case(*random_problem(n=120, d=6, seed=72), C=1.0)
    cold = solve_by_blocks(case, 1e-8)
    again = solve_by_blocks(case, 1e-7, duals=cold.duals)
    assert cold.iterations > 0 and again.iterations == 0
    assert again.status == "converged"


def test_the_answer_does_not_depend_on_threads():
    case = Case(*badly_conditioned(), C=1.0)
    one, three = (solve_by_blocks(case, 1e-6, threads=threads) for threads in (1, 3))
    assert one.iterations == three.iterations
    assert (one.duals == three.duals).all() and (one.weights == three.weights).all()


def test_auto_ends_with_blocks_where_the_others_are_slow():
    tuning = LinearTuning(sweeps=30, cg_steps=10, newton=NewtonTuning(explicit=False))
    case = Case(*badly_conditioned(), C=100.0)
    result = case.solve("auto", 1e-8, tuning=tuning)
    assert (result.status, result.solver) == ("converged", "blocks")
    check_result(case, result)
    few = dataclasses.replace(tuning, block_method_rows=10)
    assert case.solve("auto", 1e-6, tuning=few).solver == "newton"


def test_limits_are_obeyed():
    case = Case(*badly_conditioned(), C=100.0)
    result = solve_by_blocks(case, 1e-10, max_iter=3)
    assert (result.status, result.iterations) == ("max_iter", 3)
    check_result(case, result)
    stopped = solve_by_blocks(case, 1e-10, callback=lambda progress: progress.iteration == 2)
    assert (stopped.status, stopped.iterations) == ("stopped", 2)
    check_result(case, stopped)
    late = solve_by_blocks(case, 1e-10, time_limit=1e-9)
    assert late.status == "time_limit"
