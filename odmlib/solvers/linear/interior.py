"""Primal-dual interior-point method for linear machines with a hinge: SVM and ODM^L.

With row costs c_i and the loss's weights v (variance), u (mean), h (hinge), b_i = h c_i:

    min_{w,g}  P = 1/2 |w|^2 + sum_i c_i [ v (z_i - g)^2 - u z_i ] + sum_i b_i max(0, 1 - z_i),   z = Y X w

g = sum c_i z_i / sum c_i =: mean of z always (ODM^L's centre), so V(z) = v sum c_i (z_i - mean z)^2. The
hinge is b_i xi_i with slack_i = z_i - 1 + xi_i >= 0 and xi_i >= 0, multipliers p_i and b_i - p_i:

    p_i slack_i = mu,  (b_i - p_i) xi_i = mu,  w = X'Y a,  a_i = p_i + u c_i - 2 v c_i (z_i - g),   mu -> 0.

Newton on these equations, everything but w eliminated, leaves one system of the size of w per step,

    [ I + X' diag(D) X + S ] dw = right-hand side,   D_i = 1 / (slack_i / p_i + xi_i / (b_i - p_i)),
    S = 2 v ( X' diag(c) X - q q' / sum c ),   q = X'Y c,

solved twice with one factor (predictor and corrector, as Mehrotra's). Their number hardly depends on C.

Certificate: b max(0, 1-z) >= p (1-z) for 0 <= p <= b gives, for any such p and any z (those of the present
w),

    D = sum_i p_i - V(z) - 1/2 |X'Y a|^2  <=  min P,

because with e_i = a_i - u c_i - p_i (whose sum is 0) the supremum over z', g of - sum e_i z'_i - v sum c_i
(z'_i - g)^2 is sum e_i^2 / (4 v c_i) = V(z). The largest D and the smallest P met are kept: both hold for the
problem itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Floats
from odmlib._core.vectors import inner
from odmlib.losses.loss import MeanVarianceLoss
from odmlib.solvers.control import STALLED, Control, Resources, SolverResult, StallDetector, WarmStart
from odmlib.solvers.linalg.dense import PositiveFactor
from odmlib.solvers.problem import LinearProblem


@dataclass(frozen=True)
class InteriorTuning:
    max_steps: int = 200
    to_the_border: float = 0.995  # part of the way to the border that a step may go
    max_failures: int = 8  # steps without any progress of the gap
    smallest_step: float = 1e-10


TUNING = InteriorTuning()


def solve_interior(
    problem: LinearProblem,
    control: Control,
    resources: Resources,
    start: WarmStart | None = None,
    tuning: InteriorTuning = TUNING,
) -> SolverResult:
    """Train a linear machine from the start's weights; its bound is a known lower bound of P."""
    start = start or WarmStart()
    state = _State(problem, resources.threads, start.weights, tuning)
    best_primal, best_weights, best_margins = math.inf, state.w, state.z
    iteration, bound, duals = start.iterations, start.bound, start.duals
    # of its own point: a bound known before may be better than the first of these for some time
    stall = StallDetector(tuning.max_failures, least=math.inf, gap_part=1.0)
    stall.restart(iteration)
    while True:
        primal, dual = state.certificate()
        if primal < best_primal:
            best_primal, best_weights, best_margins = primal, state.w.copy(), state.z.copy()
        if dual > bound:
            bound, duals = dual, state.a.copy()
        gap = max(0.0, best_primal - bound)  # below 0 by rounding only
        status = control.step(iteration, best_primal, gap, start.iterations + tuning.max_steps)
        if status is None and (stall.stalled(iteration, dual, primal - dual) or not state.step()):
            status = control.out_of_time() or STALLED
        if status is not None:
            break
        iteration += 1
    found = {"weights": best_weights, "margins": best_margins, "duals": duals}
    details = {"centre": state.mean_of(best_margins)} if state.v > 0 else {}
    return SolverResult.at(status, best_primal, gap, iteration, "interior-point", details=details, **found)


class _State:
    """The point, all its parts, and one step from it. Rows without cost have no part in anything."""

    def __init__(self, problem: LinearProblem, threads: int, start: Floats | None, tuning: InteriorTuning):
        rows, y, costs, loss = problem.rows, problem.y, problem.costs, problem.loss
        if not isinstance(loss, MeanVarianceLoss):
            raise TypeError("the interior-point method is for losses with a hinge")
        self.rows, self.y, self.c, self.threads, self.tuning = rows, y, costs, threads, tuning
        self.v, self.u = loss.variance, loss.mean
        self.b = loss.hinge * costs
        self.hinged = self.b > 0
        self.n_pairs = 2 * int(np.count_nonzero(self.hinged))
        self.total = float(costs.sum())
        self.w = np.zeros(rows.n_columns) if start is None else start.copy()
        self.z = y * rows.product(self.w, threads)
        self.fixed = self._fixed_part()
        self._centre_rows()

    def mean_of(self, z: Floats) -> float:
        return inner(self.c, z) / self.total if self.total > 0 else 0.0

    def _fixed_part(self) -> Floats:
        """I + S"""
        matrix = np.eye(self.rows.n_columns)
        if self.v > 0 and self.total > 0:
            q = self.rows.transposed_product(self.y * self.c, self.threads)
            matrix += 2 * self.v * (self.rows.gram(self.c, self.threads) - np.outer(q, q) / self.total)
        return matrix

    def _centre_rows(self) -> None:
        """p, slack and xi of every row such that both products equal mu, for the margins at hand."""
        b, short = self.b, 1 - self.z
        # mu of the size of the losses
        mu = max(1e-3, float(np.abs(short).mean()) if len(short) else 1.0) * max(float(b.mean()), 1e-300) / 2
        root = np.hypot(short * b, 2 * mu)
        self.p = np.where(self.hinged, 2 * mu * b / (root + 2 * mu - short * b), 0.0)
        self.p = np.minimum(self.p, b * (1 - 1e-12))
        self.xi = np.where(self.hinged, mu / np.where(self.hinged, b - self.p, 1.0), 1.0)
        self.slack = np.where(self.hinged, self.z - 1 + self.xi, 1.0)
        low = self.hinged & (self.slack <= 1e-3 * self.xi)  # lost to rounding
        self.slack[low] = 1e-3 * self.xi[low]
        self.xi[low] = self.slack[low] + short[low]

    def certificate(self) -> tuple[float, float]:
        """P(w) and the D of the head of this file; w's margins are those kept."""
        spread = self.z - self.mean_of(self.z)
        variance = self.v * inner(self.c, np.square(spread))
        self.a = self.p + self.c * (self.u - 2 * self.v * spread)
        self.image = self.rows.transposed_product(self.y * self.a, self.threads)
        primal = 0.5 * inner(self.w, self.w) + variance - self.u * inner(self.c, self.z)
        primal += inner(self.b, np.maximum(0, 1 - self.z))
        return primal, float(self.p.sum()) - variance - 0.5 * inner(self.image, self.image)

    def step(self) -> bool:
        """Predictor and corrector; false when the arithmetic allows no step."""
        p, q = self.p, np.where(self.hinged, self.b - self.p, 1.0)
        ratio = np.where(self.hinged, p, 1.0)
        if not (q.min(initial=1.0) > 0 and ratio.min(initial=1.0) > 0):  # at the border, by rounding
            return False
        weights = np.where(self.hinged, 1 / (self.slack / ratio + self.xi / q), 0.0)
        factor = PositiveFactor.of(self.fixed + self.rows.gram(weights, self.threads))
        if factor is None:
            return False
        residual = self.image - self.w

        def direction(first: Floats, second: Floats) -> tuple[Floats, ...]:
            """Newton's step for p slack + ... = first, (b-p) xi + ... = second (right-hand sides)."""
            shift = np.where(self.hinged, weights * (first / ratio - second / q), 0.0)
            right = residual + self.rows.transposed_product(self.y * shift, self.threads)
            dw = factor.solve(right)
            dz = self.y * self.rows.product(dw, self.threads)
            dp = shift - weights * dz
            dxi = np.where(self.hinged, (second + self.xi * dp) / q, 0.0)
            return dw, dp, dxi, np.where(self.hinged, dz + dxi, 0.0)

        first, second = -p * self.slack, -q * self.xi
        mu = -float(first[self.hinged].sum() + second[self.hinged].sum()) / max(1, self.n_pairs)
        dw, dp, dxi, dslack = direction(first, second)
        length = self._length(dp, dxi, dslack, 1.0)
        if self.n_pairs:
            reached = (p + length * dp) * (self.slack + length * dslack)
            reached = reached + (q - length * dp) * (self.xi + length * dxi)
            sigma = (float(reached[self.hinged].sum()) / self.n_pairs / mu) ** 3 if mu > 0 else 0.0
            target = min(1.0, sigma) * mu
            dw, dp, dxi, dslack = direction(first + target - dp * dslack, second + target + dp * dxi)
            length = self._length(dp, dxi, dslack, self.tuning.to_the_border)
        if not (length > self.tuning.smallest_step and np.isfinite(dw).all()):
            return False
        self.w += length * dw
        self.z = self.y * self.rows.product(self.w, self.threads)
        self.p = p + length * dp
        self.xi = self.xi + length * dxi
        self.slack = self.slack + length * dslack
        return True

    def _length(self, dp: Floats, dxi: Floats, dslack: Floats, part: float) -> float:
        """The longest step, at most 1, that goes no further than `part` of the way to the border."""
        limit = 1.0
        pairs = (self.p, dp), (self.b - self.p, -dp), (self.xi, dxi), (self.slack, dslack)
        for value, change in pairs:
            falling = self.hinged & (change < 0)
            if falling.any():
                limit = min(limit, part * float((value[falling] / -change[falling]).min()))
        return limit
