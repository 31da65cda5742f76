"""Working-set method for kernel machines: the loop. The mathematics is at the head of _working_set.pyx.

Each iteration takes the rows that promise most, together with a part of the last block, solves them exactly
enough, and updates all scores. The stopping test is the relative duality gap on all rows. Rows that rest may
be left out for a while (shrinking.py). The gap in the end counts the errors of the scores (certificate.py).
Where these are too large for the tolerance, or the rows few, the scores are computed anew in float64.
Where rows of float32 turn out to be too coarse, the run goes on with float64.
"""

from __future__ import annotations

import math

import numpy as np

from odmlib.solvers.control import (
    CONVERGED,
    MAX_ITER,
    STALLED,
    Control,
    Resources,
    SolverResult,
    StallDetector,
    WarmStart,
    relative_gap,
)
from odmlib.solvers.kernel._working_set import WorkingSet
from odmlib.solvers.kernel.block_steps import TUNING, WorkingSetTuning
from odmlib.solvers.kernel.precision import EXACT_ROWS
from odmlib.solvers.kernel.shrinking import ShrinkingProblem
from odmlib.solvers.margin_mean import MovingMean
from odmlib.solvers.problem import KernelProblem

__all__ = ["TUNING", "WorkingSetTuning", "solve_working_set"]


class _BestPoint:
    """The point of smallest gap so far, and whether the run has left every bound behind."""

    def __init__(self, slack: float, n_rows: int) -> None:
        self.slack = slack
        self.least_primal = math.inf
        self.gap, self.primal = math.inf, 0.0
        self.duals, self.scores = np.zeros((2, n_rows))

    def keep(self, gap: float, primal: float, state: WorkingSet) -> None:
        if gap < self.gap:
            self.gap, self.primal = gap, primal
            self.duals, self.scores = state.duals.copy(), state.scores.copy()

    def diverged(self, primal: float, gap: float) -> bool:
        """With a positive semidefinite kernel no dual value lies above any primal value."""
        dual = primal - gap
        if not (math.isfinite(primal) and math.isfinite(dual)):
            return True
        self.least_primal = min(self.least_primal, primal)
        return dual > self.least_primal + self.slack * abs(self.least_primal)


def solve_working_set(
    problem: KernelProblem,
    control: Control,
    resources: Resources,
    start: WarmStart | None = None,
    tuning: WorkingSetTuning = TUNING,
    *,
    shrinking: bool = True,
    margin_mean: MovingMean | None = None,
) -> SolverResult:
    """Minimise 1/2 a'Qa - t'a + sum conj_i(a_i) over the signed duals a; Q_ij = y_i y_j k_ij, y = +-1.

    Begins at the start's duals; nothing is computed for them where it has their scores, too. At most
    `cache_bytes` are spent on kernel rows; a shared cache is used where its rows are exact enough.
    `margin_mean` is ODM^L's: its gap is the one that counts, and none of its rows ever rests.
    """
    run = ShrinkingProblem(problem, resources, tuning, control.tol)
    m = problem.kernel.n_rows
    shrinking = shrinking and problem.kernel.formula.name != "precomputed"
    status = None
    if start is not None and start.duals is not None:
        status = run.start(start.duals, start.scores, control)
    own_limit = max(10_000, 100 * m)
    best, stall = _BestPoint(tuning.duality_slack, m), StallDetector(tuning.stall_iterations)
    iteration = looks = 0
    unseen = 0.0  # by which the last certificate was wider than the gap that the run had seen

    def measure() -> tuple[float, float, float, float]:
        """(primal, gap), and the dual value and the gap for the mean as it is"""
        primal, gap = run.now.measure()
        fixed = primal - gap, gap
        if margin_mean is None:
            return primal, gap, *fixed
        margins = run.problem.y * run.now.state.scores
        return *margin_mean.measure(run.now.state.duals, margins, run.now.half_square()), *fixed

    def certified() -> tuple[float, float]:
        """(primal, gap) that hold for all scores within their errors"""
        primal, gap, *_ = measure()
        raised, lowered = run.rounding()
        return primal + raised, gap + raised + lowered

    while True:
        state, whole = run.now.state, run.now.rows is None
        primal, gap, dual, fixed_gap = measure()
        if whole:
            best.keep(gap, primal, state)
        if (margin_mean is None or math.isfinite(gap)) and best.diverged(primal, gap):
            # where the kernel is not positive semidefinite there may be no minimum: the best point seen
            run.return_to(best.duals, best.scores)
            status, gap, primal = STALLED, best.gap, best.primal
            break
        status = control.step(iteration, primal, gap + unseen if whole else math.inf, own_limit) or status
        if status is None and stall.stalled(iteration, dual, gap):
            status = STALLED
        target = control.target(primal)
        if whole and status == CONVERGED and run.now.past.untidy:
            status = run.now.tidy(control)
            if status is None:
                continue
        if whole and status is not None:
            seen = gap
            # a converged point has been tidied, if need be; the best one may not have been
            if status != CONVERGED and relative_gap(best.primal, best.gap) < relative_gap(primal, gap):
                run.return_to(best.duals, best.scores)
                seen = best.gap
            # few rows are as exact as they can be for no more time; of many, the objective should be right to
            # more digits than the tolerance asks for
            exact = m <= EXACT_ROWS and run.certify(status, control)
            if not exact:
                run.take_known()
                primal, gap = certified()
                rough = sum(run.rounding()) > tuning.rounding_part * control.target(primal)
                exact = m > EXACT_ROWS and rough and run.certify(status, control)
            if exact:
                primal, gap = certified()
            if gap <= control.target(primal):
                status = CONVERGED if status in (CONVERGED, MAX_ITER, STALLED) else status
            elif exact and status in (CONVERGED, STALLED):
                del state
                unseen = gap - seen
                looks += 1
                if status == CONVERGED and unseen < tuning.unseen * target and looks <= tuning.looks:
                    status = None
                elif run.use_float64():
                    stall.restart(iteration)
                    if margin_mean is not None:
                        margin_mean.restart()
                    status, unseen, looks = None, 0.0, 0
                if status is None:
                    best = _BestPoint(tuning.duality_slack, m)  # points of exact scores
                    continue
                status = STALLED
            break
        if status is not None or (not whole and gap <= tuning.shrunk_tolerance * target):
            del state  # its cache must be gone before the next one fills
            run.restore()
            continue
        if margin_mean is not None and margin_mean.move(fixed_gap):
            run.now.measure()  # what each row can gain is another matter now
            stall.bound = -math.inf  # so is the dual value
        run.now.note(gap)
        left_out = run.now.rows_to_leave_out(target) if shrinking else None
        if left_out is not None:
            del state
            run.shrink(left_out)
            continue
        status = run.now.improve(target, control)
        if status is None:
            iteration += 1
    last = run.now
    run.close()
    moved = {} if margin_mean is None else margin_mean.details()
    sizes = {"cache_rows": last.cache.capacity, "block_rows": last.size, "float64": run.float64}
    found = {"duals": last.state.duals, "margins": run.problem.margins_of(last.state.scores)}
    details = {**run.counts, **sizes, **moved}
    return SolverResult.at(status, primal, gap, iteration, "working-set", details=details, **found)
