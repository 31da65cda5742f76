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

import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib._core.vectors import inner
from odmlib.losses.loss import MarginLoss
from odmlib.losses.sums import slopes_and_curvatures
from odmlib.solvers._svrg import InnerLoop
from odmlib.solvers.control import STALLED, Control, SolverResult, relative_gap

Floats = NDArray[np.float64]

MAX_STAGES = 1000
SLICE_NONZEROS = 2_000_000
SMALLEST_STEP = 1e-12  # in units of the first step size


def solve_svrg(
    rows: Rows,
    y: Floats,
    costs: Floats,
    loss: MarginLoss,
    control: Control,
    *,
    threads: int = 1,
    seed: int = 0,
    start: Floats | None = None,
) -> SolverResult:
    """Train a linear machine; `start` are weights to begin from."""
    m = rows.n_rows
    snapshot = np.zeros(rows.n_columns) if start is None else start.copy()
    # the steepest curvature of a row's loss is below its band
    steepest = np.array([loss.evaluate("curvature", -1e300, 1.0)]) * costs
    first_eta = eta = 1.0 / (1.0 + m * float(np.max(steepest * rows.squared_norms(), initial=0.0)))
    inner = InnerLoop(rows, loss, y, costs, seed)
    slice_rows = max(1, int(SLICE_NONZEROS / (1 + rows.n_nonzeros / max(1, m))))
    stage = 0
    state = _State(rows, y, costs, loss, snapshot, threads)
    while (status := control.step(stage, state.primal, state.gap, MAX_STAGES)) is None:
        w = state.w.copy()
        inner.begin_stage(w, state.mu, state.slopes, eta)
        for done in range(0, m, slice_rows):
            inner.advance(min(slice_rows, m - done))
            if (status := control.out_of_time()) is not None:
                break
        inner.end_stage()
        stage += 1
        candidate = _State(rows, y, costs, loss, w, threads)
        if candidate.primal < state.primal:
            state = candidate
        else:
            eta /= 2  # also for a candidate that is not finite
            if eta < SMALLEST_STEP * first_eta:
                status = status or STALLED
        if status is not None:
            break
    return SolverResult(
        status,
        state.primal,
        state.primal - state.gap,
        relative_gap(state.primal, state.gap),
        stage,
        "svrg",
        state.w,
        None,
        state.margins,
        {"eta": eta},
    )


class _State:
    """Everything known at a snapshot."""

    def __init__(self, rows: Rows, y: Floats, costs: Floats, loss: MarginLoss, w: Floats, threads: int):
        self.w = w
        self.margins = y * rows.product(w, threads)
        loss_total, self.slopes, _ = slopes_and_curvatures(loss, self.margins, costs, threads)
        self.mu = rows.transposed_product(y * self.slopes, threads)
        self.primal = 0.5 * inner(w, w) + loss_total
        self.gap = 0.5 * inner(w + self.mu, w + self.mu)
