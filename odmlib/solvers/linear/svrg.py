"""SVRG for linear machines, the ODM paper's solver for large data.

P(w) is the mean over i of f_i(w) = 1/2 |w|^2 + m loss_i(z_i). A stage takes the full gradient
mu = sum_i loss_i'(z_i) y_i x_i of the losses at a snapshot, then m steps

    w <- w - eta ( w + mu + m [loss_i'(z_i(w)) - loss_i'(z_i(snapshot))] y_i x_i ),   i drawn uniformly,

and its last iterate is the next snapshot. The regulariser's gradient w is exact, not sampled. With
L = 1 + m max_i curvature_i |x_i|^2 the step starts at eta = 1 / L; a stage that does not lower P is
taken back and eta halved. Certificate: 1/2 |grad P|^2 at the snapshot, as in newton.py.

Its rate suffers when C m |x|^2 is large beside m: on one machine `auto` never chooses it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Floats
from odmlib._core.vectors import inner
from odmlib.solvers.control import STALLED, Control, Resources, SolverResult, WarmStart
from odmlib.solvers.linear._svrg import InnerLoop
from odmlib.solvers.problem import LinearProblem


@dataclass(frozen=True)
class SvrgTuning:
    max_stages: int = 1000
    slice_nonzeros: int = 2_000_000  # between two looks at the clock: some tens of milliseconds
    smallest_step: float = 1e-12  # in units of the first step size


TUNING = SvrgTuning()


def solve_svrg(
    problem: LinearProblem,
    control: Control,
    resources: Resources,
    start: WarmStart | None = None,
    tuning: SvrgTuning = TUNING,
) -> SolverResult:
    """Train a linear machine from the start's weights."""
    rows, costs, threads = problem.rows, problem.costs, resources.threads
    m = rows.n_rows
    known = None if start is None else start.weights
    snapshot = np.zeros(rows.n_columns) if known is None else known.copy()
    steepest = problem.loss.largest_curvature() * costs
    first_eta = eta = 1.0 / (1.0 + m * float(np.max(steepest * rows.squared_norms(), initial=0.0)))
    loop = InnerLoop(rows, problem.loss, problem.y, costs, resources.seed, problem.targets)
    slice_rows = max(1, int(tuning.slice_nonzeros / (1 + rows.n_nonzeros / max(1, m))))
    stage = 0
    state = _State(problem, snapshot, threads)
    while (status := control.step(stage, state.primal, state.gap, tuning.max_stages)) is None:
        w = state.w.copy()
        loop.begin_stage(w, state.mu, state.slopes, eta)
        for done in range(0, m, slice_rows):
            loop.advance(min(slice_rows, m - done))
            if (status := control.out_of_time()) is not None:
                break
        loop.end_stage()
        stage += 1
        candidate = _State(problem, w, threads)
        if candidate.primal < state.primal:
            state = candidate
        else:
            eta /= 2  # also for a candidate that is not finite
            if eta < tuning.smallest_step * first_eta:
                status = status or STALLED
        if status is not None:
            break
    found = {"weights": state.w, "margins": state.margins, "details": {"eta": eta}}
    return SolverResult.at(status, state.primal, state.gap, stage, "svrg", **found)


class _State:
    """Everything known at a snapshot."""

    def __init__(self, problem: LinearProblem, w: Floats, threads: int):
        self.w = w
        self.margins = problem.margins(w, threads)
        loss_total, self.slopes, _ = problem.slopes_and_curvatures(self.margins, threads)
        self.mu = problem.weights_of(self.slopes, threads)
        self.primal = 0.5 * inner(w, w) + loss_total
        self.gap = 0.5 * inner(w + self.mu, w + self.mu)
