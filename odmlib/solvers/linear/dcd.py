"""Dual coordinate descent for linear machines.

    min_a  1/2 |w(a)|^2 + sum_i conj_i(a_i),   w(a) = sum_i a_i y_i x_i   (docs/internals/mathematics.md)

One sweep visits the active rows in random order and minimises exactly over one a_i at a time while w is
kept up to date: O(nonzeros of the row) per visit. Good for small C and for very sparse, wide data; for
large C use Newton's method.

Shrinking puts rows aside that rest (strictly inside the loss-free band; SVM: at either bound); they come back
when the active rows seem done or when a certificate finds one of them with a gap of its own. Convergence is
claimed on the relative duality gap over all rows, with w rebuilt from a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Places
from odmlib._core.vectors import inner
from odmlib.losses.sums import value_and_gap
from odmlib.solvers.control import (
    CONVERGED,
    MAX_ITER,
    Control,
    Resources,
    SolverResult,
    WarmStart,
    relative_gap,
    steps_to_come,
)
from odmlib.solvers.linear._dcd import Sweeper
from odmlib.solvers.margin_mean import MovingMean
from odmlib.solvers.problem import LinearProblem


@dataclass(frozen=True)
class DcdTuning:
    max_sweeps: int = 10_000
    patience: float = math.inf  # give up (status max_iter) when more sweeps than that are to come
    first_forecast: int = 20  # sweeps before the rate of descent is judged
    slice_nonzeros: int = 5_000_000  # some tens of milliseconds between two looks at the clock
    # the next certificate comes when the gap, at its rate, should be small enough, and at the latest after
    # so many times the sweeps until now. 1.2 without a look at the gap spent a third of the time on them
    check_growth: float = 1.5
    early_checks: int = 5  # sweeps with a certificate each, before that
    mean_sweeps: int = 5  # between two looks at ODM^L's margin mean


TUNING = DcdTuning()


def solve_dcd(
    problem: LinearProblem,
    control: Control,
    resources: Resources,
    start: WarmStart | None = None,
    tuning: DcdTuning = TUNING,
    *,
    shrinking: bool = True,
    margin_mean: MovingMean | None = None,
) -> SolverResult:
    """Train a linear machine from the start's duals; `margin_mean` is ODM^L's."""
    rows, threads = problem.rows, resources.threads
    known = None if start is None else start.duals
    duals = np.zeros(rows.n_rows) if known is None else known.copy()
    weights = problem.weights_of(duals, threads)
    parts = problem.loss, problem.y, problem.costs
    sweeper = Sweeper(rows, *parts, duals, weights, resources.seed, problem.targets)
    sweep, next_check, slack = 0, 1, -1.0
    limit = tuning.max_sweeps if control.max_iter is None else control.max_iter
    certificate = _Certificate(problem, sweeper, threads, margin_mean)
    status = control.step(sweep, certificate.primal, certificate.gap, tuning.max_sweeps)
    seen = [(sweep, certificate.relative)]
    while status is None:
        sweeper.begin_sweep()
        while (violation := sweeper.advance(tuning.slice_nonzeros, slack)) < 0:
            if (status := control.out_of_time()) is not None:
                break
        sweep += 1
        # the active rows seem done: look at all of them before going on
        settled = violation <= 1e-12 or (slack >= 0 and violation <= 0.1 * slack)
        slack = violation if shrinking and violation >= 0 else -1.0
        if status is None and sweep < next_check and not settled and sweep < limit:
            status = control.step(sweep, certificate.primal, math.inf, tuning.max_sweeps)
            if status is None:
                continue
            # stopped by the callback or the clock: the result still needs its certificate
        certificate = _Certificate(problem, sweeper, threads, margin_mean)
        if status is None:
            status = control.step(sweep, certificate.primal, certificate.gap, tuning.max_sweeps)
        seen.append((sweep, certificate.relative))
        earlier, gap_then = max(pair for pair in seen if pair[0] <= sweep / 2)
        to_come = steps_to_come(sweep - earlier, gap_then, certificate.relative, control.tol)
        if status is None and sweep >= tuning.first_forecast and to_come > tuning.patience:
            status = MAX_ITER
        next_check = sweep + 1
        if margin_mean is not None:
            next_check += tuning.mean_sweeps - 1 if sweep > tuning.early_checks else 0
        elif sweep > tuning.early_checks:
            next_check = max(next_check, int(sweep + min(to_come, (tuning.check_growth - 1) * sweep)))
        if margin_mean is not None and status is None:
            margin_mean.move(certificate.fixed_gap)
        if settled or certificate.misses(sweeper.rows_aside()):
            sweeper.restore()
    if status == MAX_ITER and certificate.relative <= control.tol:
        status = CONVERGED
    moved = {} if margin_mean is None else margin_mean.details()
    found = {"weights": sweeper.weights, "duals": duals, "margins": certificate.margins}
    found["details"] = {"active_rows": sweeper.n_active, **moved}
    return SolverResult.at(status, certificate.primal, certificate.gap, sweep, "dcd", **found)


class _Certificate:
    """Primal value and duality gap on all rows, after w was rebuilt from a."""

    def __init__(
        self, problem: LinearProblem, sweeper: Sweeper, threads: int, margin_mean: MovingMean | None
    ):
        w = sweeper.weights
        w[:] = problem.weights_of(sweeper.duals, threads)
        self.problem, self.duals = problem, sweeper.duals
        self.margins = problem.margins(w, threads)
        loss_total, self.gap = problem.losses_and_gap(self.duals, self.margins, threads)
        self.primal, self.fixed_gap = 0.5 * inner(w, w) + loss_total, self.gap
        if margin_mean is not None:
            self.primal, self.gap = margin_mean.measure(self.duals, self.margins, 0.5 * inner(w, w))

    @property
    def relative(self) -> float:
        return relative_gap(self.primal, self.gap)

    def misses(self, rows_aside: Places) -> bool:
        """Whether a row that was put aside has a part in the gap after all."""
        duals, margins, costs = (x[rows_aside] for x in (self.duals, self.margins, self.problem.costs))
        return value_and_gap(self.problem.loss, duals, margins, costs)[1] > 0
