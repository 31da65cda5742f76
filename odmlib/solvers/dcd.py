"""Dual coordinate descent for linear machines.

    min_a  1/2 |w(a)|^2 + sum_i conj_i(a_i),   w(a) = sum_i a_i y_i x_i   (spec/odm.md section 2)

One sweep visits the active rows in random order and minimises exactly over one a_i at a time while w is
kept up to date: O(nonzeros of the row) per visit. Good for small C and for very sparse, wide data; for
large C use Newton's method.

Shrinking puts rows aside that rest (strictly inside the loss-free band; SVM: at either bound); they come back
when the active rows seem done or when a certificate finds one of them with a gap of its own. Convergence is
claimed on the relative duality gap over all rows, with w rebuilt from a.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib._core.vectors import inner
from odmlib.losses.loss import MarginLoss
from odmlib.losses.sums import slopes_and_curvatures, value_and_gap
from odmlib.solvers._dcd import Sweeper
from odmlib.solvers.centre import MovingCentre
from odmlib.solvers.control import CONVERGED, MAX_ITER, Control, SolverResult, relative_gap

Floats = NDArray[np.float64]

MAX_SWEEPS = 10_000
SLICE_NONZEROS = 5_000_000  # some tens of milliseconds between two looks at the clock
CHECK_GROWTH = 1.2  # sweeps between two certificates grow in this ratio
EARLY_CHECKS = 5
FIRST_FORECAST = 20  # sweeps before the rate of descent is judged
CENTRE_SWEEPS = 5  # between two looks at ODM^L's centre


def solve_dcd(
    rows: Rows,
    y: Floats,
    costs: Floats,
    loss: MarginLoss,
    control: Control,
    *,
    shrinking: bool = True,
    threads: int = 1,
    seed: int = 0,
    start: Floats | None = None,
    max_sweeps: int = MAX_SWEEPS,
    patience: float = math.inf,
    centre: MovingCentre | None = None,
) -> SolverResult:
    """Train a linear machine; `start` are dual variables to begin from, `centre` is ODM^L's.

    `patience`: give up (status max_iter) when more sweeps than that are to come at the present rate.
    """
    duals = np.zeros(rows.n_rows) if start is None else start.copy()
    sweeper = Sweeper(rows, loss, y, costs, duals, rows.transposed_product(y * duals, threads), seed)
    sweep, next_check, slack = 0, 1, -1.0
    limit = max_sweeps if control.max_iter is None else control.max_iter
    certificate = _certify(sweeper, rows, y, costs, loss, threads, centre)
    status = control.step(sweep, certificate.primal, certificate.gap, max_sweeps)
    forecast = _Forecast(control.tol)
    while status is None:
        sweeper.begin_sweep()
        while (violation := sweeper.advance(SLICE_NONZEROS, slack)) < 0:
            if (status := control.out_of_time()) is not None:
                break
        sweep += 1
        # the active rows seem done: look at all of them before going on
        settled = violation <= 1e-12 or (slack >= 0 and violation <= 0.1 * slack)
        slack = violation if shrinking and violation >= 0 else -1.0
        if status is None and sweep < next_check and not settled and sweep < limit:
            status = control.step(sweep, certificate.primal, math.inf, max_sweeps)
            if status is None:
                continue
            # stopped by the callback or the clock: the result still needs its certificate
        growing = int(sweep * CHECK_GROWTH) if centre is None else sweep + CENTRE_SWEEPS
        next_check = max(sweep + 1, growing) if sweep > EARLY_CHECKS else sweep + 1
        certificate = _certify(sweeper, rows, y, costs, loss, threads, centre)
        if status is None:
            status = control.step(sweep, certificate.primal, certificate.gap, max_sweeps)
        if status is None and forecast.to_come(sweep, certificate) > patience:
            status = MAX_ITER
        if centre is not None and status is None:
            centre.move(certificate.fixed_gap)
        if settled or certificate.misses(sweeper.rows_aside()):
            sweeper.restore()
    if status == MAX_ITER and relative_gap(certificate.primal, certificate.gap) <= control.tol:
        status = CONVERGED
    return SolverResult(
        status,
        certificate.primal,
        certificate.primal - certificate.gap,
        relative_gap(certificate.primal, certificate.gap),
        sweep,
        "dcd",
        sweeper.weights,
        duals,
        certificate.margins,
        {
            "active_rows": sweeper.n_active,
            **({} if centre is None else {"centre": centre.mean, "moves": centre.moves}),
        },
    )


class _Forecast:
    """How many sweeps are still to come if the gap goes on falling as it did over the last half of them."""

    def __init__(self, tol: float):
        self.tol = tol
        self.seen: list[tuple[int, float]] = []

    def to_come(self, sweep: int, certificate: _certify) -> float:
        gap = relative_gap(certificate.primal, certificate.gap)
        self.seen.append((sweep, gap))
        if sweep < FIRST_FORECAST:
            return 0.0
        earlier, gap_then = max(pair for pair in self.seen if pair[0] <= sweep / 2)
        if not gap < gap_then:
            return math.inf
        return (sweep - earlier) * math.log(gap / self.tol) / math.log(gap_then / gap)


class _certify:
    """Primal value and duality gap on all rows, after w was rebuilt from a."""

    def __init__(
        self,
        sweeper: Sweeper,
        rows: Rows,
        y: Floats,
        costs: Floats,
        loss: MarginLoss,
        threads: int,
        centre: MovingCentre | None,
    ):
        w = sweeper.weights
        w[:] = rows.transposed_product(y * sweeper.duals, threads)
        self.loss, self.costs, self.duals = loss, costs, sweeper.duals
        self.margins = y * rows.product(w, threads)
        loss_total, self.gap = value_and_gap(loss, sweeper.duals, self.margins, costs, threads)
        self.primal, self.fixed_gap = 0.5 * inner(w, w) + loss_total, self.gap
        if centre is not None:
            self.primal, self.gap = centre.measure(self.duals, self.margins, 0.5 * inner(w, w))

    def misses(self, rows_aside: NDArray[np.int64]) -> bool:
        """Whether a row that was put aside has a part in the gap after all."""
        duals, margins, costs = (x[rows_aside] for x in (self.duals, self.margins, self.costs))
        return value_and_gap(self.loss, duals, margins, costs)[1] > 0


def duals_from_margins(margins: Floats, costs: Floats, loss: MarginLoss, threads: int) -> Floats:
    """The dual variables that margins suggest: a_i = -loss_i'(z_i), exact at the optimum."""
    return -slopes_and_curvatures(loss, margins, costs, threads)[1]


def best_multiple(
    rows: Rows, y: Floats, costs: Floats, loss: MarginLoss, duals: Floats, threads: int
) -> Floats:
    """t a with the t >= 0 of largest D(t a): a start that is never worse than 0.

    sum_i conj_i(t a_i) is taken as a quadratic in t through 0, which it is for ODM; for SVM t may be at most
    1.
    """
    w = rows.transposed_product(y * duals, threads)
    whole, half = (_conjugates(t * duals, costs, loss, threads) for t in (1.0, 0.5))
    slope, bend = 4 * half - whole, 4 * whole - 8 * half + inner(w, w)
    if not (math.isfinite(whole) and slope < 0 < bend):
        return np.zeros_like(duals)
    multiple = -slope / bend
    if not (loss.smooth or math.isfinite(_conjugates(multiple * duals, costs, loss, threads))):
        multiple = 1.0
    return multiple * duals


def _conjugates(duals: Floats, costs: Floats, loss: MarginLoss, threads: int) -> float:
    """sum_i conj_i(a_i): at margin 0 the gap's summands are loss_i(0) + conj_i(a_i)."""
    losses, total = value_and_gap(loss, duals, np.zeros_like(duals), costs, threads)
    return total - losses
