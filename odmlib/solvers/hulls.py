"""What the solvers of KM-OMD hand back, and the two thresholds that belong to it. The problem: _hulls.pyx.

    theta_midpoint = 1/2 <v, v_+ + v_->                 half way between the two nearest points of the hulls
    theta_kkt      = (rho_+ - rho_-) / (2 (1-lambda))   bias of the L2-loss SVM with C = (1-lambda) / lambda

The machine's function is (<v, phi(x)> - theta) / |v|; the SVM's is t (<v, phi(x)> - theta_kkt) with
t = 2 (1-lambda) / L.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.vectors import inner
from odmlib.solvers._hulls import Hulls
from odmlib.solvers.control import Control

Floats = NDArray[np.float64]

NOT_SEPARABLE = "not separable"  # a status: lambda = 0, and the hulls of the two classes meet
LENGTH_STEPS = 40
LEAST_SPREAD = 1e-6  # for lambda = 0, where gamma cannot be told from margins
NOTHING_LEFT = 1e-12  # of the largest kernel value: |v|^2 of hulls that meet


@dataclass
class HullPoint:
    """A point gamma with its scores s, and the certificate: `gap` is (objective - bound) / objective."""

    lam: float
    gamma: Floats
    scores: Floats
    objective: float
    norm_squared: float  # |v|^2
    bound: float  # of the optimum, from below
    rho: tuple[float, float]
    status: str = ""
    iterations: int = 0
    solver: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        return relative_gap(self.objective, self.bound)

    def midpoint(self, y: Floats, shift: float = 0.0) -> float:
        """theta_midpoint as new rows see it: without the shift of kernels/shift.py."""
        return 0.5 * inner(self.gamma, self.scores - shift * y * self.gamma)

    def kkt(self) -> float:
        """theta_kkt; at lambda = 1, where the SVM's C is 0, it is infinite unless the classes balance."""
        difference = self.rho[0] - self.rho[1]
        if self.lam == 1:
            return math.copysign(math.inf, difference) if difference else 0.5 * inner(self.gamma, self.scores)
        return difference / (2 * (1 - self.lam))


def measure(hulls: Hulls, gamma: Floats, scores: Floats, lam: float, bound: float = -math.inf) -> HullPoint:
    """Where a point stands; `bound` is a lower bound known before."""
    objective, norm_squared, lower, rho = hulls.measure(gamma, scores, lam)
    return HullPoint(lam, gamma, scores, objective, norm_squared, max(bound, lower), rho)


def relative_gap(objective: float, bound: float) -> float:
    """Relative to the objective itself, which may be far below 1; below 0 by rounding only."""
    if not objective > 0:
        return math.inf if math.isnan(objective) else 1.0
    return min(1.0, max(0.0, objective - bound) / objective)


def report(control: Control, iteration: int, point: HullPoint, max_iter: int) -> str | None:
    """Control.step for a gap that is relative to the objective: Control divides by max(1, objective)."""
    return control.step(iteration, point.objective, point.gap * max(1.0, abs(point.objective)), max_iter)


def best_length(hulls: Hulls, margins: Floats, lam: float) -> float:
    """How long v is if its direction is that of a function with these margins, of unit norm: |v|.

    With v = t u, |u| = 1, the bound D is largest where t = sum_i gamma_i margin_i for the gamma that belongs
    to t; the difference of the two falls as t grows.
    """
    signs = np.ones(len(margins))
    signs[hulls.rows[hulls.n_positive :]] = -1.0
    scores = signs * margins  # of rows without weight: never used

    def excess(t: float) -> float:
        return inner(hulls.spread(t * scores, lam), margins) - t

    if not excess(0.0) > 0:
        return 0.0
    low, high = 0.0, max(1e-300, float(np.abs(margins).max()))
    for _ in range(LENGTH_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return 0.5 * (low + high)


def start_gamma(hulls: Hulls, y: Floats, margins: Floats, lam: float) -> Floats:
    """A point to begin from that margins under another machine suggest; KM-OMD's own lead to its optimum."""
    lam = max(lam, LEAST_SPREAD)
    return hulls.spread(best_length(hulls, margins, lam) * y * margins, lam)
