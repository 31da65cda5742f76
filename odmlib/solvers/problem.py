"""The problems that solvers solve: rows or a kernel, signs, costs and a loss, with the verbs they share.

    min_f  1/2 |f|^2 + sum_i loss_i(z_i),   z_i = y_i f(x_i) - t_i

The dual has one signed multiplier a_i per row; a_i = -loss_i'(z_i) at the optimum, and the gap of a row is
loss_i(z_i) + conj_i(a_i) + a_i z_i >= 0. In classification the targets t_i are 0 (None). In regression all
signs are +1, and z_i is the residual of row i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from odmlib._core.arrays import Floats, Places
from odmlib._core.vectors import inner
from odmlib.losses.loss import MarginLoss
from odmlib.losses.sums import evaluate, slopes_and_curvatures, value_and_gap

if TYPE_CHECKING:
    from odmlib._core.rows import Rows
    from odmlib.kernels.kernel import Kernel


class MarginProblem:
    """What both kinds of problems have: signs, costs and the loss of a margin."""

    y: Floats
    costs: Floats
    loss: MarginLoss
    targets: Floats | None

    def margins_of(self, scores: Floats) -> Floats:
        """z of all rows, from their scores f(x)."""
        return self.y * scores if self.targets is None else self.y * scores - self.targets

    def losses_and_gap(self, duals: Floats, margins: Floats, threads: int = 1) -> tuple[float, float]:
        """The sum of the losses, and the duality gap for f made of the duals."""
        return value_and_gap(self.loss, duals, margins, self.costs, threads)

    def slopes_and_curvatures(self, margins: Floats, threads: int = 1) -> tuple[float, Floats, Floats]:
        """The sum of the losses, and both derivatives of each."""
        return slopes_and_curvatures(self.loss, margins, self.costs, threads)

    def duals_of(self, margins: Floats, threads: int = 1) -> Floats:
        """The dual variables that margins suggest: exact at the optimum."""
        return -self.slopes_and_curvatures(margins, threads)[1]


@dataclass(frozen=True)
class LinearProblem(MarginProblem):
    """f(x) = <w, x>, one weight per column."""

    rows: Rows
    y: Floats
    costs: Floats
    loss: MarginLoss
    targets: Floats | None = None

    def margins(self, w: Floats, threads: int = 1) -> Floats:
        return self.margins_of(self.rows.product(w, threads))

    def weights_of(self, duals: Floats, threads: int = 1) -> Floats:
        """w = sum_i a_i y_i x_i"""
        return self.rows.transposed_product(self.y * duals, threads)

    def evaluate(
        self, w: Floats, margins: Floats, curvatures: Floats, threads: int = 1
    ) -> tuple[float, Floats]:
        """(sum of the losses, its gradient in w), in one pass; fills margin and curvature of every row."""
        parts = self.rows, self.y, self.costs, self.loss
        return evaluate(*parts, w, margins, curvatures, threads, self.targets)

    def start_duals(self, weights: Floats, threads: int = 1) -> Floats:
        """Duals that weights suggest, times the number that makes the best start of them."""
        duals = self.duals_of(self.margins(weights, threads), threads)
        w = self.weights_of(duals, threads)
        return best_multiple(self.loss, self.costs, duals, inner(w, w), threads, self.targets) * duals


@dataclass(frozen=True)
class KernelProblem(MarginProblem):
    """f(x) = sum_i a_i y_i k(x_i, x)"""

    kernel: Kernel
    y: Floats
    costs: Floats
    loss: MarginLoss
    targets: Floats | None = None

    def restricted(self, rows: Places) -> KernelProblem:
        """The same problem on some of the rows."""
        targets = None if self.targets is None else self.targets[rows]
        kernel = self.kernel.restricted(rows)
        return KernelProblem(kernel, self.y[rows], self.costs[rows], self.loss, targets)


def conjugates(
    loss: MarginLoss, costs: Floats, duals: Floats, threads: int = 1, targets: Floats | None = None
) -> float:
    """sum_i conj_i(a_i) - a_i t_i: at margin 0 a row's gap is its loss and its conjugate."""
    losses, total = value_and_gap(loss, duals, np.zeros_like(duals), costs, threads)
    return total - losses - (0.0 if targets is None else inner(duals, targets))


def best_multiple(
    loss: MarginLoss,
    costs: Floats,
    duals: Floats,
    square: float,
    threads: int = 1,
    targets: Floats | None = None,
) -> float:
    """The t >= 0 with the largest dual value of t a; `square` is |f|^2 for the duals a.

    The conjugates are taken as a quadratic in t through 0, which they are for ODM and, as far as they are
    finite, for SVM. 0 where nothing is known: a start made of it is never worse than none.
    """
    most = 1.0
    if not loss.smooth:
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(duals > 0, costs / duals, np.inf)
        # a little less: rounding must not leave the conjugate's domain
        most = (1 - 2.0**-50) * float(np.nanmin(room, initial=np.inf))
    if not (math.isfinite(most) and most > 0 and square > 0):
        return 0.0
    whole, half = (conjugates(loss, costs, t * most * duals, threads, targets) for t in (1.0, 0.5))
    slope, curvature = 4 * half - whole, 4 * whole - 8 * half + most**2 * square
    if not (math.isfinite(whole) and slope < 0 < curvature):
        return 0.0
    t = -slope / curvature
    return most * (t if loss.smooth else min(t, 1.0))
