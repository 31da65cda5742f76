"""KM-OMD's problem, its points and the two thresholds that belong to one. The formulas: _geometry.pyx.

    theta_midpoint = 1/2 <v, v_+ + v_->                 half way between the two nearest points of the classes
    theta_kkt      = (rho_+ - rho_-) / (2 (1-lambda))   bias of the L2-loss SVM with C = (1-lambda) / lambda

The machine's function is (<v, phi(x)> - theta) / |v|; the SVM's is t (<v, phi(x)> - theta_kkt) with
t = 2 (1-lambda) / L.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from odmlib._core.arrays import Floats
from odmlib._core.vectors import inner
from odmlib.solvers.control import CONVERGED, Control
from odmlib.solvers.kmomd._geometry import TwoClasses

Data = TypeVar("Data")  # a Kernel, or the Rows of a linear machine

NOT_SEPARABLE = "not separable"  # a status: lambda = 0, and the hulls of the two classes meet
LENGTH_STEPS = 40
UNIT64 = 2.0**-53
LEAST_SPREAD = 1e-6  # for lambda = 0, where gamma cannot be told from margins


@dataclass(frozen=True)
class KmomdProblem(Generic[Data]):
    """min over gamma of (1-lambda) |v|^2 + lambda sum_i gamma_i^2 / w_i; y are signs, w the row weights."""

    data: Data
    y: Floats
    weights: Floats
    lam: float

    @cached_property
    def classes(self) -> TwoClasses:
        return TwoClasses(self.y, self.weights)

    def uniform(self) -> Floats:
        """gamma in proportion to the weights, summing to 1 in each class: the solution for lambda = 1."""
        gamma = np.zeros(len(self.y))
        for side in (self.y > 0, self.y < 0):
            gamma[side] = self.weights[side] / self.weights[side].sum()
        return gamma

    def point(self, gamma: Floats, scores: Floats, bound: float = -math.inf) -> KmomdPoint:
        """Where a gamma with these scores stands; `bound` is a lower bound known before."""
        objective, norm_squared, lower, rho = self.classes.measure(gamma, scores, self.lam)
        return KmomdPoint(self.lam, gamma, scores, objective, norm_squared, max(bound, lower), rho)


@dataclass
class KmomdPoint:
    """A point gamma with its scores s, and its certificate."""

    lam: float
    gamma: Floats
    scores: Floats
    objective: float
    norm_squared: float  # |v|^2
    bound: float  # of the optimum, from below
    rho: tuple[float, float]
    v: Floats = field(default_factory=lambda: np.empty(0))  # of a linear machine
    status: str = ""
    iterations: int = 0
    solver: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """Relative to the objective itself, which may be far below 1; below 0 by rounding only."""
        if not self.objective > 0:
            return math.inf if math.isnan(self.objective) else 1.0
        return min(1.0, max(0.0, self.objective - self.bound) / self.objective)

    def step(self, control: Control, iteration: int, max_iter: int) -> str | None:
        return control.step(iteration, self.objective, self.gap * abs(self.objective), max_iter)

    def widened(self, errors: Floats) -> KmomdPoint:
        """The same point with bounds for scores that may be off by `errors`, and for rounded sums.

        Each class's gamma sums to 1 up to rounding. So an error e of all scores moves the objective by at
        most 2 (1-lambda) e, and the bound, which has two more such sums twice, by 6 (1-lambda) e.
        """
        error, largest = ((1 - self.lam) * float(np.abs(x).max(initial=0.0)) for x in (errors, self.scores))
        summed = UNIT64 * (len(self.gamma) + 8) * (6 * largest + 4 * self.objective)
        objective, bound = self.objective + 2 * error + summed, self.bound - 6 * error - summed
        return dataclasses.replace(self, objective=objective, bound=bound)

    def ended(self, status: str, iterations: int, solver: str, details: dict[str, Any]) -> KmomdPoint:
        """This point as the end of a run."""
        self.status, self.iterations, self.solver, self.details = status, iterations, solver, details
        return self

    def known(self, details: dict[str, Any]) -> KmomdPoint:
        """This point as the solution, which needed no solver."""
        self.bound = self.objective
        return self.ended(CONVERGED, 0, "closed form", details)

    def midpoint(self, y: Floats, shift: float = 0.0) -> float:
        """theta_midpoint as new rows see it: without the shift of kernels/shift.py."""
        return 0.5 * inner(self.gamma, self.scores - shift * y * self.gamma)

    def kkt(self) -> float:
        """theta_kkt; at lambda = 1, where the SVM's C is 0, it is infinite unless the classes balance."""
        difference = self.rho[0] - self.rho[1]
        if self.lam == 1:
            return math.copysign(math.inf, difference) if difference else 0.5 * inner(self.gamma, self.scores)
        return difference / (2 * (1 - self.lam))


def best_length(classes: TwoClasses, margins: Floats, lam: float) -> float:
    """How long v is if its direction is that of a function with these margins, of unit norm: |v|.

    With v = t u, |u| = 1, the bound D is largest where t = sum_i gamma_i margin_i for the gamma that belongs
    to t; the difference of the two falls as t grows.
    """
    signs = np.ones(len(margins))
    signs[classes.rows[classes.n_positive :]] = -1.0
    scores = signs * margins  # of rows without weight: never used

    def excess(t: float) -> float:
        return inner(classes.spread(t * scores, lam), margins) - t

    if not excess(0.0) > 0:
        return 0.0
    low, high = 0.0, max(1e-300, float(np.abs(margins).max()))
    for _ in range(LENGTH_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return 0.5 * (low + high)


def start_gamma(y: Floats, weights: Floats, margins: Floats, lam: float) -> Floats:
    """A point to begin from that margins under another machine suggest; KM-OMD's own lead to its optimum."""
    classes, lam = TwoClasses(y, weights), max(lam, LEAST_SPREAD)
    return classes.spread(best_length(classes, margins, lam) * y * margins, lam)
