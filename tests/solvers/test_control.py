"""Stopping: statuses, what the callback hears, interrupts, and the clock, in every linear engine."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest

from odmlib.solvers import linear_blocks
from odmlib.solvers.control import Control, Progress, relative_gap
from tests.reference_linear import random_problem
from tests.solvers.linear_case import ENGINES, Case, check_result


@pytest.fixture(params=list(ENGINES))
def engine(request, monkeypatch):
    monkeypatch.setattr(linear_blocks, "BLOCK_ROWS", 16)  # many iterations, not one
    return request.param


@pytest.fixture
def case():
    return Case(*random_problem(n=150, d=6, seed=20), C=2.0)


def test_relative_gap():
    assert relative_gap(0.1, 0.05) == 0.05  # below 1 the gap counts as it is
    assert relative_gap(-4.0, 1.0) == 0.25
    assert relative_gap(3.0, math.inf) == math.inf


def test_step_decides_in_this_order():
    control = Control(tol=1e-3, max_iter=5, callback=lambda progress: True)
    assert control.step(1, 1.0, 1e-4, 100) == "converged"  # even if the callback wishes to stop
    assert control.step(1, math.nan, 0.0, 100) == "stalled"  # nothing that is no number has converged
    assert control.step(1, math.inf, 0.0, 100) == "stalled"
    assert control.step(5, 1.0, 1.0, 100) == "stopped"
    control = Control(tol=1e-3, max_iter=5, time_limit=1e-9)
    assert control.step(5, 1.0, 1.0, 100) == "max_iter"
    assert control.step(4, 1.0, 1.0, 100) == "time_limit"
    assert Control().step(100, 1.0, 1.0, 100) == "max_iter"  # the solver's own limit
    assert Control().step(99, 1.0, 1.0, 100) is None


def test_max_iter(case, engine):
    for limit in (1, 2):
        result = case.solve(engine, 1e-15, max_iter=limit)
        assert (result.status, result.iterations) == ("max_iter", limit)
        check_result(case, result)


@pytest.mark.parametrize("engine", ["dcd", "svrg"])
def test_max_iter_between_two_certificates(case, engine):
    """dcd does not compute the gap after every sweep; its result must have it all the same."""
    for limit in (11, 13, 17):
        result = case.solve(engine, 1e-15, max_iter=limit)
        assert (result.status, result.iterations) == ("max_iter", limit)
        check_result(case, result)


def test_callback_hears_every_iteration(case, engine):
    told: list[Progress] = []
    result = case.solve(engine, 1e-3, callback=told.append)
    assert [progress.iteration for progress in told] == list(range(result.iterations + 1))
    assert all(earlier.seconds <= later.seconds for earlier, later in itertools.pairwise(told))
    assert told[-1].primal == result.primal and told[-1].gap == result.gap
    assert all(progress.gap >= 0 for progress in told)


def test_callback_stops(case, engine):
    result = case.solve(engine, 1e-15, callback=lambda progress: progress.iteration >= 1)
    assert (result.status, result.iterations) == ("stopped", 1)
    check_result(case, result)


@pytest.mark.parametrize("engine", ["dcd", "svrg"])
def test_callback_stops_between_two_certificates(case, engine):
    result = case.solve(engine, 1e-15, callback=lambda progress: progress.iteration >= 13)
    assert (result.status, result.iterations) == ("stopped", 13)
    check_result(case, result)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_exception_in_the_callback_comes_out(case, engine, error):
    def callback(progress):
        if progress.iteration == 1:
            raise error("enough")

    with pytest.raises(error, match="enough"):
        case.solve(engine, 1e-15, callback=callback)


def test_time_limit(engine):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 50)) * np.logspace(-2, 2, 50)
    y = np.where(rng.random(4000) > 0.5, 1.0, -1.0)
    case = Case(X, y, C=1e3)
    # a slow callback makes the run long enough on any machine
    started = time.perf_counter()
    result = case.solve(engine, 1e-16, time_limit=0.02, callback=lambda progress: time.sleep(0.03))
    assert result.status == "time_limit"
    assert time.perf_counter() - started < 5
    assert np.isfinite(result.primal) and result.gap > 0


def test_a_tolerance_out_of_reach_ends(case):
    """Newton cannot reach a gap of exactly 0 here; it must notice and stop."""
    result = case.solve("newton", 1e-300)
    assert result.status in ("stalled", "converged")
    assert result.gap < 1e-12
    check_result(case, result)
