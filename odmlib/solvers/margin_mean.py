"""ODM^L's margin mean g: the certificate of the joint problem in (w, g), and when to move g.

    min_{w,g}  P(w, g) = 1/2 |w|^2 + sum_i c_i [ v (z_i - g)^2 - u z_i + h max(0, 1 - z_i) ],   z = Y X w

Solvers work with a fixed g (docs/internals/mathematics.md, "ODM^L"). Two things must be added.

Certificate. For given w the best g is the weighted mean of z. For given duals a (w = X'Y a) the joint dual is

    D(a) = min_g D_g(a) = -1/2 |w|^2 - max_g sum_i conj_i(a_i; g).

With p_i = clip(a_i - u c_i - 2 v c_i (g-1), 0, h c_i), the multiplier of the hinge, the derivative in g of
the sum of conjugates is sum_i (u c_i + p_i - a_i): it falls in g, so its zero is one number to be found, and
there

    D(a) = sum p_i - sum e_i^2 / (4 v c_i) - 1/2 |w|^2,     e_i = a_i - u c_i - p_i  (sum e_i = 0).

It exists for u sum c <= sum a <= (u+h) sum c. Other a are first multiplied by the number that brings them
there: that multiplies w by the same number and costs no kernel value. At the optimum of a fixed g, sum a
differs from what it should be by 2 v sum c (mean z - g), which vanishes as g is found.

Moving. r(g) = mean z(g) - g falls with slope in [-1, 0): secant steps, each taken as soon as the fixed
problem is solved well enough that g is what keeps the joint gap open, kept in the bracket known so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Floats
from odmlib._core.vectors import inner
from odmlib.losses.loss import MarginLoss, MeanVarianceLoss


@dataclass(frozen=True)
class MeanTuning:
    move_below: float = 0.3  # g moves when the gap for fixed g is less than this part of the joint one
    known: float = 2.0  # ... and below this many times v sum c (mean - g)^2; errors are far below bounds
    sure: float = 0.1  # as many while there is no joint gap yet
    trust: float = 0.03  # part of the bounds on its errors that a change of r must exceed to tell the slope
    exact_below: float = 1e-4  # ... and is known well enough, in any case when it is less than this part
    flattest: float = 1e-3  # secant slopes are taken from [-1, -flattest]
    max_extrapolation: float = 50.0  # times the last move


TUNING = MeanTuning()

MAX_ROOT_STEPS = 100


def variance_of(loss: MarginLoss) -> float:
    return loss.variance if isinstance(loss, MeanVarianceLoss) else 0.0


def first_duals(loss: MarginLoss, costs: Floats) -> Floats | None:
    """Duals inside the conjugate's domain; None for 0, which is there unless the mean alone pulls."""
    mean = loss.mean if isinstance(loss, MeanVarianceLoss) else 0.0
    return mean * costs if mean > 0 and variance_of(loss) == 0 else None


class MovingMean:
    """Keeps `loss.centre`, which is g, at its best; margins and duals are those of all rows."""

    @classmethod
    def of(cls, loss: MarginLoss, costs: Floats) -> MovingMean | None:
        """None where the loss has no variance (or no row counts)."""
        if isinstance(loss, MeanVarianceLoss) and loss.variance > 0 and costs.any():
            return cls(loss, costs)
        return None

    def __init__(self, loss: MeanVarianceLoss, costs: Floats, tuning: MeanTuning = TUNING):
        self.loss, self.costs, self.tuning = loss, costs, tuning
        self.total = float(costs.sum())
        self.moves = 0
        self.mean, self.gap = 0.0, math.inf
        self.restart()

    def restart(self) -> None:
        """Forget what is known of r: the kernel rows have become finer."""
        self.last: tuple[float, float, float] | None = None  # of the last move: g, r(g) and its accuracy
        self.slope = -1.0  # of r
        self.low, self.high = -math.inf, math.inf  # between which r is known to have its zero
        self.widths: list[float] = []  # of that bracket, at each move

    def details(self) -> dict[str, float]:
        """For the report."""
        return {"centre": self.mean, "moves": self.moves}

    def measure(self, duals: Floats, margins: Floats, half_square: float) -> tuple[float, float]:
        """(P, P - D) of the joint problem; half_square = 1/2 |w|^2."""
        v, u, h, c = self.loss.variance, self.loss.mean, self.loss.hinge, self.costs
        self.mean = inner(c, margins) / self.total
        losses = v * np.square(margins - self.mean) - u * margins + h * np.maximum(0, 1 - margins)
        primal = half_square + inner(c, losses)
        self.gap = max(0.0, primal - self._dual(duals, half_square))
        return primal, self.gap

    def _dual(self, duals: Floats, half_square: float) -> float:
        factor, _, hinge, excess = self._parts(duals)
        dual = inner(self.costs, hinge - np.square(excess) / (4 * self.loss.variance))
        dual -= factor * factor * half_square
        return dual if math.isfinite(dual) else -math.inf

    def parts(self, duals: Floats) -> tuple[Floats, Floats, Floats]:
        """Allowed duals in the direction of these, and what of them the hinge (p) and the variance have."""
        _, part, hinge, excess = self._parts(duals)
        return self.costs * part, self.costs * hinge, self.costs * excess

    def _parts(self, duals: Floats) -> tuple[float, Floats, Floats, Floats]:
        """The factor that makes the duals allowed, then the same three of every row over its cost."""
        u, h, c = self.loss.mean, self.loss.hinge, self.costs
        wanted = float(duals.sum())
        allowed = min(max(wanted, u * self.total), (u + h) * self.total)
        factor = 1.0 if allowed == wanted else allowed / wanted if allowed * wanted > 0 else math.nan
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(c > 0, factor * duals / c, 0.0)  # a_i / c_i
        shift = self._shift(part - u, allowed / self.total - u)
        hinge = np.clip(part - u - shift, 0.0, h)
        return factor, part, hinge, part - u - hinge

    def _shift(self, part: Floats, wanted: float) -> float:
        """2 v (g-1) with  sum c clip(part - shift, 0, h) = wanted sum c;  Newton steps kept in a bracket."""
        h, c = self.loss.hinge, self.costs
        low, high = float(part.min()) - h, float(part.max())
        if not math.isfinite(low + high):
            return math.nan
        if wanted <= 0:
            return high
        if wanted >= h:
            return low
        shift = min(max(2 * self.loss.variance * (self.loss.centre - 1), low), high)
        for _ in range(MAX_ROOT_STEPS):
            inside = part - shift
            missing = inner(c, np.clip(inside, 0.0, h)) - wanted * self.total
            slope = float(c[(inside > 0) & (inside < h)].sum())
            if missing > 0:
                low = shift
            else:
                high = shift
            following = shift + missing / slope if slope > 0 else math.inf
            if not low < following < high:
                if following == shift or missing == 0:
                    break
                following = 0.5 * (low + high)
                if not low < following < high:
                    break
            shift = following
        return shift

    def move(self, fixed_gap: float) -> bool:
        """Move g if it is what keeps the gap open; whether it did. Follows measure()."""
        g, tuning = self.loss.centre, self.tuning
        off = self.mean - g
        if not fixed_gap <= tuning.move_below * self.gap or off == 0 or not math.isfinite(off):
            return False
        # the mean is known to sqrt(gap / (v sum c)) at worst, as a rule far better
        scale = self.loss.variance * self.total
        known = tuning.known * scale * off * off
        if math.isinf(self.gap):  # the beginning: only what is sure
            known *= tuning.sure / tuning.known
        elif fixed_gap <= tuning.exact_below * self.gap:
            known = fixed_gap
        if fixed_gap > known:
            return False
        error = math.sqrt(max(fixed_gap, 0.0) / scale)
        if error < abs(off):  # the sign of r is certain, and with it the side on which its zero lies
            if off > 0:
                self.low = max(self.low, g)
            else:
                self.high = min(self.high, g)
        furthest = math.inf
        if self.last is not None and g != self.last[0]:
            change = off - self.last[1]
            measured = change / (g - self.last[0])
            # else the slope known before is the better one; errors are far below their bounds as a rule
            if abs(change) > tuning.trust * (error + self.last[2]) and measured < 0:
                self.slope = min(max(measured, -1.0), -tuning.flattest)
            if off * self.last[1] > 0:  # beyond both: no further than the measurement can be trusted
                furthest = max(abs(off), tuning.max_extrapolation * abs(g - self.last[0]))
        slope = min(self.slope, -abs(off) / furthest)
        self.last = g, off, error
        self.loss.centre = self._within_bracket(g - off / slope)
        self.moves += 1
        return True

    def _within_bracket(self, wanted: float) -> float:
        """The secant's wish, or the middle where it leaves the bracket or two moves have not halved it."""
        width = self.high - self.low
        self.widths.append(width)
        slow = len(self.widths) > 2 and math.isfinite(self.widths[-3]) and width > 0.5 * self.widths[-3]
        if math.isfinite(width) and width > 0 and (slow or not self.low < wanted < self.high):
            return 0.5 * (self.low + self.high)
        return wanted
