"""SVRG for linear ODM^L: the ODM paper's stochastic gradient of two rows (its Theorem 1), with a certificate.

With row costs c_i and the loss's weights v (variance), u (mean), h (hinge), b_i = h c_i and margins z:

    P(w) = 1/2 |w|^2 + v sum_i c_i (z_i - mean z)^2 - u sum_i c_i z_i + sum_i b_i max(0, 1 - z_i)

Rows i and j are drawn independently. m y_i x_i [ 2 v c_i (z_i - m c_j z_j / sum c) - u c_i - b_i r(z_i) ] has
the gradient of everything but 1/2 |w|^2 as its mean, where r(z) is 1 below the kink and 0 above it. A stage
takes the full gradient at a snapshot and then m steps along it, corrected by the difference of this estimate
at w and at the snapshot (svrg.py).

At a kink this difference does not vanish, and the steps would not converge. So r is a ramp of some width
around the kink, r(z) = clip(1/2 + (1 - z) / width, 0, 1), which makes the hinge smooth; width -> 0 is the
paper's.

Certificate, of P itself (interior.py) with p_i = b_i r(z_i) and w_a = sum_i a_i y_i x_i:

    P - D = 1/2 |w - w_a|^2 + sum_i [ b_i max(0, 1 - z_i) - p_i (1 - z_i) ],
    a_i = p_i + u c_i - 2 v c_i (z_i - mean z)

w - w_a is the gradient of the smooth problem. Where the second part, which the ramp causes, is the larger
one, the width is halved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Floats
from odmlib._core.vectors import inner
from odmlib.losses.loss import MeanVarianceLoss
from odmlib.solvers.control import STALLED, Control, Resources, SolverResult, WarmStart
from odmlib.solvers.linear._svrg import PairLoop
from odmlib.solvers.problem import LinearProblem


@dataclass(frozen=True)
class PairTuning:
    max_stages: int = 20_000
    first_width: float = 1.0
    slice_nonzeros: int = 2_000_000  # between two looks at the clock: some tens of milliseconds
    smallest_step: float = 1e-12  # in units of the first step size


TUNING = PairTuning()


def solve_pair_svrg(
    problem: LinearProblem,
    control: Control,
    resources: Resources,
    start: WarmStart | None = None,
    tuning: PairTuning = TUNING,
) -> SolverResult:
    """Train a linear machine from the start's weights."""
    rows, costs, loss, threads = problem.rows, problem.costs, problem.loss, resources.threads
    if not isinstance(loss, MeanVarianceLoss):
        raise TypeError("steps on pairs of rows are for losses with a hinge")
    m, squares = rows.n_rows, rows.squared_norms()
    known = None if start is None else start.weights
    width, part, stage = tuning.first_width, 1.0, 0
    loop = PairLoop(rows, loss, problem.y, costs, resources.seed)
    slice_rows = max(1, int(tuning.slice_nonzeros / (1 + 2 * rows.n_nonzeros / max(1, m))))
    state = _State(problem, np.zeros(rows.n_columns) if known is None else known.copy(), width, threads)
    best = bound = state  # of the smallest primal and of the largest dual value
    while True:
        while state.from_gradient < state.from_ramp:
            bound, width = max(bound, state, key=_dual), width / 2
            state = _State(problem, state.w, width, threads)
        best, bound = min(best, state, key=_primal), max(bound, state, key=_dual)
        gap = max(0.0, best.primal - bound.dual)
        if (status := control.step(stage, best.primal, gap, tuning.max_stages)) is not None:
            break
        curvature = (loss.hinge / width + 2 * loss.variance) * costs
        steepest = 1 + m * float(np.max(curvature * squares, initial=0.0))
        w = state.w.copy()
        loop.begin_pairs(w, state.slope, state.margins, part / steepest, width)
        for done in range(0, m, slice_rows):
            loop.advance(min(slice_rows, m - done))
            if (status := control.out_of_time()) is not None:
                break
        loop.end_stage()
        stage += 1
        candidate = _State(problem, w, width, threads)
        if candidate.smooth < state.smooth:
            state = candidate
        else:
            part /= 2  # also for a candidate that is not finite
            if part < tuning.smallest_step:
                status = status or STALLED
        if status is not None:
            best, bound = min(best, state, key=_primal), max(bound, state, key=_dual)
            gap = max(0.0, best.primal - bound.dual)
            break
    found = {"weights": best.w, "margins": best.margins, "duals": bound.duals}
    details = {"width": width, "eta_part": part}
    return SolverResult.at(status, best.primal, gap, stage, "svrg", details=details, **found)


def _primal(state: _State) -> float:
    return state.primal


def _dual(state: _State) -> float:
    return state.dual


class _State:
    """Everything known at a snapshot, with a ramp of some width."""

    def __init__(self, problem: LinearProblem, w: Floats, width: float, threads: int):
        loss, c = problem.loss, problem.costs
        assert isinstance(loss, MeanVarianceLoss)
        self.w, self.margins = w, problem.margins(w, threads)
        z, short, total = self.margins, 1 - self.margins, float(c.sum())
        away = z - (inner(c, z) / total if total > 0 else 0.0)
        b, ramp = loss.hinge * c, np.clip(0.5 + short / width, 0, 1)
        self.duals = b * ramp + loss.mean * c - 2 * loss.variance * c * away
        self.slope = -problem.weights_of(self.duals, threads)  # gradient of all but 1/2 |w|^2
        rest = 0.5 * inner(w, w) + loss.variance * inner(c, away * away) - loss.mean * inner(c, z)
        self.primal = rest + inner(b, np.maximum(short, 0))
        self.from_gradient = 0.5 * inner(w + self.slope, w + self.slope)
        self.from_ramp = inner(b, np.maximum(short, 0) - ramp * short)
        self.dual = self.primal - self.from_gradient - self.from_ramp
        # the hinge whose slope is the ramp
        bend = np.maximum(short, 0)
        bend = np.where(np.abs(short) < width / 2, (short + width / 2) ** 2 / (2 * width), bend)
        self.smooth = rest + inner(b, bend)
        if not math.isfinite(self.smooth):
            self.smooth = math.inf
