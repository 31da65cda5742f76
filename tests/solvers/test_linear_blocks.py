"""The block method on linear machines, and when `auto` hands over to it."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib.solvers import linear, linear_blocks
from tests.reference_linear import random_problem
from tests.solvers.linear_case import Case, check_result


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks much smaller than the problem, so that many are needed."""
    monkeypatch.setattr(linear_blocks, "BLOCK_ROWS", 16)


def badly_conditioned(n=150, d=400, seed=70):
    """Few rows, many columns of very different size: like counts of words."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.1) * 30 ** rng.random(d)
    return X, np.where(rng.random(n) < 0.4, 1.0, -1.0)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize(("nu", "theta"), [(1.0, 0.2), (0.0, 0.0), (0.5, 0.6)])
def test_many_small_blocks_reach_the_reference(small_blocks, C, nu, theta):
    case = Case(*random_problem(n=120, d=6, seed=71), C=C, nu=nu, theta=theta)
    result = case.solve("blocks", 1e-9)
    assert result.status == "converged" and result.solver == "blocks"
    assert result.iterations > 3
    check_result(case, result)
    np.testing.assert_allclose(result.weights, case.reference.X.T @ (case.y * result.duals), atol=1e-12)


def test_a_start_is_used(small_blocks):
    case = Case(*random_problem(n=120, d=6, seed=72), C=1.0)
    cold = case.solve("blocks", 1e-8)
    again = case.solve("blocks", 1e-7, start=cold.duals)
    assert cold.iterations > 0 and again.iterations == 0
    assert again.status == "converged"


def test_the_answer_does_not_depend_on_threads(small_blocks):
    case = Case(*badly_conditioned(), C=1.0)
    one, three = (case.solve("blocks", 1e-6, threads=threads) for threads in (1, 3))
    assert one.iterations == three.iterations
    assert (one.duals == three.duals).all() and (one.weights == three.weights).all()


def test_auto_ends_with_blocks_where_the_others_are_slow(monkeypatch):
    monkeypatch.setattr(linear, "prefers_explicit_hessian", lambda rows: False)
    monkeypatch.setattr(linear, "PATIENCE", 30)
    monkeypatch.setattr(linear, "CG_PATIENCE", 10)
    case = Case(*badly_conditioned(), C=100.0)
    result = case.solve("auto", 1e-8)
    assert (result.status, result.solver) == ("converged", "blocks")
    check_result(case, result)
    monkeypatch.setattr(linear, "MAX_BLOCK_ROWS", 10)
    assert case.solve("auto", 1e-6).solver == "newton"


def test_limits_are_obeyed(small_blocks):
    case = Case(*badly_conditioned(), C=100.0)
    result = case.solve("blocks", 1e-10, max_iter=3)
    assert (result.status, result.iterations) == ("max_iter", 3)
    check_result(case, result)
    stopped = case.solve("blocks", 1e-10, callback=lambda progress: progress.iteration == 2)
    assert (stopped.status, stopped.iterations) == ("stopped", 2)
    check_result(case, stopped)
    late = case.solve("blocks", 1e-10, time_limit=1e-9)
    assert late.status == "time_limit"
