"""Stopping: statuses, what the callback hears, interrupts, and the clock, in every linear engine."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time

import numpy as np
import pytest

from odmlib.solvers.control import (
    STOPPED,
    TIME_LIMIT,
    Control,
    Progress,
    StallDetector,
    relative_gap,
    steps_to_come,
)
from odmlib.solvers.kernel.working_set import WorkingSetTuning
from odmlib.solvers.linear.auto import LinearTuning
from tests.reference_linear import random_problem
from tests.solvers.linear.linear_case import ENGINES, Case, check_result

SMALL_BLOCKS = WorkingSetTuning(block_rows=16)  # many iterations, not one
TUNINGS = {"blocks": SMALL_BLOCKS, "auto": LinearTuning(blocks=SMALL_BLOCKS)}


@pytest.fixture(params=list(ENGINES))
def engine(request):
    return request.param


def solve(case, engine, tol, **limits):
    tuning = {"tuning": TUNINGS[engine]} if engine in TUNINGS else {}
    return case.solve(engine, tol, **limits, **tuning)


@pytest.fixture
def case():
    return Case(*random_problem(n=150, d=6, seed=20), C=2.0)


def test_relative_gap():
    assert relative_gap(0.1, 0.05) == 0.5
    assert relative_gap(0.0, 0.0) == 0.0
    assert relative_gap(0.0, 1e-300) == math.inf
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
        result = solve(case, engine, 1e-15, max_iter=limit)
        assert (result.status, result.iterations) == ("max_iter", limit)
        check_result(case, result)


@pytest.mark.parametrize("engine", ["dcd", "svrg"])
def test_max_iter_between_two_certificates(case, engine):
    """dcd does not compute the gap after every sweep; its result must have it all the same."""
    for limit in (11, 13, 17):
        result = solve(case, engine, 1e-15, max_iter=limit)
        assert (result.status, result.iterations) == ("max_iter", limit)
        check_result(case, result)


def test_callback_hears_every_iteration(case, engine):
    told: list[Progress] = []
    result = solve(case, engine, 1e-3, callback=told.append)
    assert [progress.iteration for progress in told] == list(range(result.iterations + 1))
    assert all(earlier.seconds <= later.seconds for earlier, later in itertools.pairwise(told))
    assert result.primal == pytest.approx(told[-1].primal, rel=1e-10)  # the result includes rounding
    assert result.gap == pytest.approx(told[-1].gap, abs=1e-10)
    assert all(progress.gap >= 0 for progress in told)


def test_callback_stops(case, engine):
    result = solve(case, engine, 1e-15, callback=lambda progress: progress.iteration >= 1)
    assert (result.status, result.iterations) == ("stopped", 1)
    check_result(case, result)


@pytest.mark.parametrize("engine", ["dcd", "svrg"])
def test_callback_stops_between_two_certificates(case, engine):
    result = solve(case, engine, 1e-15, callback=lambda progress: progress.iteration >= 13)
    assert (result.status, result.iterations) == ("stopped", 13)
    check_result(case, result)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_exception_in_the_callback_comes_out(case, engine, error):
    def callback(progress):
        if progress.iteration == 1:
            raise error("enough")

    with pytest.raises(error, match="enough"):
        solve(case, engine, 1e-15, callback=callback)


def test_time_limit(engine):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 50)) * np.logspace(-2, 2, 50)
    y = np.where(rng.random(4000) > 0.5, 1.0, -1.0)
    case = Case(X, y, C=1e3)
    # a slow callback makes the run long enough on any machine
    result = solve(case, engine, 1e-16, time_limit=0.02, callback=lambda progress: time.sleep(0.03))
    assert result.status == "time_limit"
    assert np.isfinite(result.primal) and result.gap > 0


def test_a_tolerance_out_of_reach_ends(case):
    """Newton cannot reach a gap of exactly 0 here; it must notice and stop."""
    result = case.solve("newton", 1e-300)
    assert result.status in ("stalled", "converged")
    assert result.gap < 1e-12
    check_result(case, result)


# ---- parts of a run, stalls, forecasts


def test_a_part_has_the_runs_clock_and_limits_of_its_own():
    run = Control(1e-3, max_iter=7, time_limit=1e9, callback=lambda progress: None)
    part = run.part(tol=0.1, max_iter=2)
    assert (part.tol, part.max_iter, part.time_limit, part.callback) == (0.1, 2, 1e9, None)
    assert part.started == run.started
    assert (run.part().tol, run.part().max_iter) == (1e-3, None)
    assert (run.left(5), run.left(9), run.left(9, least=1), Control().left(5)) == (2, 0, 1, None)


def test_a_part_ends_with_its_run_and_for_reasons_of_its_own():
    over = []
    part = Control(1e-3).part(over=lambda: over[0] if over else None)
    inner = part.part()
    assert part.out_of_time() is inner.out_of_time() is None
    over.append(STOPPED)
    assert part.out_of_time() == inner.out_of_time() == STOPPED
    assert Control(1e-3, time_limit=0.0).part().part().out_of_time() == TIME_LIMIT


def test_a_part_tells_its_progress_in_the_runs_words():
    heard = []
    run = Control(1e-3, callback=heard.append)
    told = run.told(lambda progress: dataclasses.replace(progress, stage="part", iteration=100))
    run.part(callback=told).step(1, 5.0, 1.0, 10)
    assert [(progress.stage, progress.iteration, progress.primal) for progress in heard] == [
        ("part", 100, 5.0)
    ]
    assert Control(1e-3).told(lambda progress: progress) is None


def test_a_run_stalls_when_neither_bound_nor_gap_moves():
    stall = StallDetector(3)
    assert not stall.stalled(0, -5.0, 9.0)
    assert not stall.stalled(2, -5.0, 9.0)
    assert not stall.stalled(3, -4.0, 9.0)  # the bound has risen
    assert not stall.stalled(5, -4.0, 7.0)  # the gap has fallen to less than 0.8 of it
    assert not stall.stalled(7, -4.0, 6.9)  # a little is no progress
    assert stall.stalled(8, -4.0, 6.9)
    stall.restart(8)
    assert not stall.stalled(10, -4.0, 6.9)


@pytest.mark.parametrize(
    ("now", "expected"), [(1e-2, 10.0), (1e-1, 40.0), (1e-3, 0.0), (1.0, math.inf), (2.0, math.inf)]
)
def test_the_forecast_is_exact_for_a_geometric_fall(now, expected):
    """From 1 to `now` in 20 steps; the target is 1e-3."""
    assert steps_to_come(20, 1.0, now, 1e-3) == pytest.approx(expected)
    assert steps_to_come(20, 1.0, math.nan, 1e-3) == math.inf
