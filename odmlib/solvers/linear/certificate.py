"""What a linear solver may claim in the end: objective and gap with the rounding of their sums.

For any weights w and any duals a, with z = YXw - t, v = X'Ya and gap_i = loss_i(z_i) + conj_i(a_i) + a_i z_i,

    P(w) - D(a) = 1/2 |w - v|^2 + sum_i gap_i                      (docs/internals/mathematics.md, "Rounding")

w and a are the numbers in memory. z and v are sums, each known up to an error that the sum of |terms| bounds;
these errors, and those of the sums over rows, are added. This costs about as much as two passes over all
rows, and some more where lengths of rows are too coarse a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from odmlib._core.arrays import Floats, Places
from odmlib._core.vectors import inner
from odmlib.losses.loss import BandLoss, MeanVarianceLoss, SmoothedLoss
from odmlib.losses.sums import gaps, values
from odmlib.solvers.control import CONVERGED, STALLED, Control, Progress, SolverResult, WarmStart
from odmlib.solvers.margin_mean import MovingMean
from odmlib.solvers.problem import LinearProblem

UNIT = 2.0**-53
RETRIES = 3  # with half the tolerance, where rounding is small but the sum of both is not
COARSE_PART = 0.01  # of the tolerance that coarse bounds of rounding may take
ROUNDING_IS_ALL = 0.1  # of the rounding: less than this would be gained
SMALL_PART = 0.25  # of the tolerance that rounding may take before a run cannot reach it


class Certificate(NamedTuple):
    """Bounds for the problem itself: objective, absolute gap, and what of the gap is rounding."""

    primal: float
    gap: float
    rounding: float

    @property
    def rounding_is_all(self) -> bool:
        """A better point would hardly have a smaller gap."""
        return self.gap - self.rounding <= ROUNDING_IS_ALL * self.rounding


def certified(
    solve: Callable[[Control, WarmStart | None], SolverResult],
    problem: LinearProblem,
    control: Control,
    start: WarmStart | None,
    threads: int,
) -> SolverResult:
    """The result of `solve`, with bounds that include rounding; it goes on where these are too wide."""
    result = with_certificate(problem, solve(control, start), control, threads)
    for _ in range(RETRIES):
        if result.status != CONVERGED or result.gap <= control.tol:
            break
        done = result.iterations
        told = control.told(lambda progress: _later(progress, done))  # noqa: B023
        finer = control.part(tol=0.5 * control.tol, max_iter=control.left(done), callback=told)
        again = solve(finer, WarmStart(weights=result.weights))
        again.iterations += done
        result = with_certificate(problem, again, control, threads)
    if result.status == CONVERGED and result.gap > control.tol:
        result.status = STALLED
    return result


def _later(progress: Progress, iterations: int) -> Progress:
    return replace(progress, iteration=progress.iteration + iterations)


def with_certificate(
    problem: LinearProblem, result: SolverResult, control: Control, threads: int
) -> SolverResult:
    """The result with the bounds of this file; stalled where rounding alone is too much for the tolerance."""
    target = control.target(result.primal)
    found = certificate(problem, result.weights, result.duals, threads, target)
    if not (math.isfinite(found.primal) and math.isfinite(found.gap)):  # overflow: nothing is known
        if result.status == CONVERGED:
            result.status = STALLED
        return result
    sure = SolverResult.at(result.status, found.primal, found.gap, 0, "")
    result.primal, result.dual, result.gap = sure.primal, sure.dual, sure.gap
    too_coarse = found.rounding > SMALL_PART * control.target(found.primal)
    if result.status == CONVERGED and result.gap > control.tol and too_coarse:
        result.status = STALLED
    return result


def certificate(
    problem: LinearProblem, w: Floats, duals: Floats | None, threads: int, target: float = 0.0
) -> Certificate:
    """Bounds at these weights; a gap above `target` is bounded as finely as can be."""
    found = _bounds(_Point(problem, w, threads, fine=False), duals, target)
    if not found.rounding <= COARSE_PART * target:
        found = min(found, _bounds(_Point(problem, w, threads, fine=True), duals, target), key=_gap)
    return found


def _gap(found: Certificate) -> float:
    return math.inf if math.isnan(found.gap) else found.gap


def _bounds(point: _Point, duals: Floats | None, target: float) -> Certificate:
    """Of the duals given and those that the margins suggest, the better ones count."""
    best = Certificate(point.primal + point.error, math.inf, 0.0)
    for a in (duals, -point.slopes if point.problem.loss.smooth else None):
        if a is not None and best.gap > target:
            best = min(best, point.bounds(a), key=_gap)
    return best


class RowSums(NamedTuple):
    """What some rows add to a certificate. All of it adds up, so rows may lie in several places.

    Sizes are sums of absolute terms; `length` is that of X'Ya, which may be off by a vector of length `blur`.
    """

    parts: float
    losses: float
    error: float  # of the losses
    size: float
    gaps: float
    gap_error: float
    gap_size: float
    blur: float
    length: float
    # of ODM^L alone: the sum of the duals' parts that must sum to 0, how far it may be off, the sum of the
    # costs, and that of the costs times the lengths of the rows
    excess: float = 0.0
    excess_error: float = 0.0
    cost: float = 0.0
    cost_length: float = 0.0

    def bounds(self, w: Floats, distance: float, variance: float = 0.0) -> Certificate:
        """Bounds at w; `distance`: the computed length of w - X'Ya."""
        half, adding = 0.5 * inner(w, w), (self.parts + 4) * UNIT
        columns = (len(w) + 4) * UNIT
        error = self.error + adding * self.size + columns * half
        blur = self.blur + adding * self.length + UNIT * math.sqrt(2 * half)
        gap_error = self.gap_error + adding * self.gap_size
        if variance and self.cost > 0:  # docs/internals/mathematics.md: taken off in proportion to the costs
            shift = 1.01 * (abs(self.excess) + self.excess_error + adding * self.gap_size) / self.cost
            blur += shift * self.cost_length
            gap_error += 0.51 * self.cost * shift * shift / variance
        whole = distance + blur
        rounding = blur * (distance + 0.5 * blur) + columns * whole * whole + gap_error + 2 * error
        total = 0.5 * distance * distance + self.gaps + rounding
        return Certificate(half + self.losses + error, total, rounding)


class RowErrors:
    """Margins of some rows, how far they may be off, and what that does to losses and gaps.

    `sizes`: of the sums that make the margins, or bounds of them. The loss of ODM^L may have any centre: each
    gives an upper bound of the objective.
    """

    def __init__(
        self, problem: LinearProblem, margins: Floats, sizes: Floats, threads: int = 1, bend: bool = True
    ):
        loss = problem.loss
        self.problem, self.margins, self.threads = problem, margins, threads
        edge = 1.0
        if isinstance(loss, BandLoss):
            edge = abs(loss.centre) + loss.theta
        elif isinstance(loss, MeanVarianceLoss) and loss.variance > 0:
            edge += abs(loss.centre)
        targets = 0.0 if problem.targets is None else np.abs(problem.targets)
        self.sizes = np.abs(margins) + (edge + targets)  # of what is added up in a row's loss
        self.errors = 1.01 * UNIT * (problem.rows.row_lengths() + 3) * sizes + 5 * UNIT * self.sizes
        self.slopes = self._slopes(margins)
        self.bent: Floats | float = 0.0  # how far the errors may move a slope; ends: a slope that jumps
        self.ends = [self.slopes]
        if loss.smooth and bend:
            self.bent = 1.01 * loss.largest_curvature() * problem.costs * self.errors
        else:
            self.ends = [self._slopes(margins + sign * self.errors) for sign in (1, -1)]
        # numpy adds in blocks of 128, then pairwise
        self.summed = (48 + math.log2(1 + len(margins))) * UNIT
        losses = values(loss, margins, problem.costs)
        self.total = float(losses.sum())
        self.losses = np.abs(losses)
        if isinstance(loss, MeanVarianceLoss) and loss.variance > 0:  # terms of both signs
            self.losses += 2 * problem.costs * (loss.mean + loss.hinge) * self.sizes
        self.error = float((self.errors * self._farthest(0.0)).sum()) + self.summed * float(self.losses.sum())

    def _slopes(self, margins: Floats) -> Floats:
        return self.problem.slopes_and_curvatures(margins, self.threads)[1]

    def _farthest(self, duals: Floats | float) -> Floats:
        """The largest |slope + dual| of each row within the errors of its margin."""
        away = np.abs(self.ends[0] + duals)
        for end in self.ends[1:]:
            away = np.maximum(away, np.abs(end + duals))
        return away + self.bent

    def sums(self, duals: Floats, gaps: Floats, blur: float, length: float = 0.0) -> RowSums:
        """`gaps`: of the rows, at these duals and the margins; `length`: where X'Ya is added up of parts."""
        size = gaps + self.losses + np.abs(duals) * self.sizes
        gap_error = float((self.errors * self._farthest(duals)).sum()) + self.summed * float(size.sum())
        losses = self.total, self.error, float(self.losses.sum())
        return RowSums(1.0, *losses, float(gaps.sum()), gap_error, float(size.sum()), blur, length)


def sums_at_slopes(
    problem: LinearProblem, margins: Floats, length: float, threads: int = 1, bend: SmoothedLoss | None = None
) -> RowSums:
    """What rows add to the certificate whose duals are the slopes of the loss that is minimised.

    X'Ya of these duals is minus the gradient, which the caller has, with slopes known up to rounding.
    `length`: of the weights. `bend`: what is minimised in place of the problem's own loss.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # seen in the objective
        return _at_slopes(problem, margins, length, threads, bend)


def _at_slopes(
    problem: LinearProblem, margins: Floats, length: float, threads: int, bend: SmoothedLoss | None
) -> RowSums:
    rows, costs, loss = problem.rows, problem.costs, problem.loss
    norms = np.sqrt(rows.squared_norms())
    of = RowErrors(problem, margins, length * norms, threads)
    gaps, steepness = np.zeros(len(margins)), 0.0
    if bend is None:
        duals = -of.slopes
        curvature = loss.largest_curvature()
    else:
        duals = -replace(problem, loss=bend).slopes_and_curvatures(margins, threads)[1]
        curvature, steepness = 2 * bend.variance, bend.mean + bend.hinge
    slope_errors = 4 * UNIT * costs * (curvature * of.sizes + steepness)
    if bend is not None:
        inside, gaps[inside] = bend_gaps(bend, margins, costs)
        slope_errors[inside] += 4 * UNIT * bend.hinge * costs[inside] * (1 + 3 / bend.width)
    blur = 1.01 * inner(slope_errors, norms)
    whole = 1.01 * inner(np.abs(duals), norms)
    blur += UNIT * (np.count_nonzero(duals) + 20) * whole
    found = of.sums(duals, gaps, blur, whole)
    if bend is None:
        return found
    # a slope that is off by so much changes the gap of its row, |1 - z| <= width / 2, by no more than this
    off = bend.width * float(slope_errors[inside].sum())
    excess = -2 * bend.variance * costs * (margins - bend.centre)
    return found._replace(
        gap_error=found.gap_error + off,
        excess=float(excess.sum()),
        excess_error=of.summed * float(np.abs(excess).sum())
        + 8 * UNIT * bend.variance * inner(costs, of.sizes),
        cost=float(costs.sum()),
        cost_length=1.01 * inner(costs, norms),
    )


def bend_gaps(bend: SmoothedLoss, margins: Floats, costs: Floats) -> tuple[Places, Floats]:
    """Rows in the bend, and what its multipliers leave open of the hinge; all other rows leave 0."""
    inside = np.flatnonzero(np.abs(1 - margins) < 0.5 * bend.width)
    short, b = 1 - margins[inside], bend.hinge * costs[inside]
    part = short / bend.width + 0.5  # of b: the multiplier
    return inside, b * np.maximum(0, short) - b * part * short


class _Point:
    """Weights with the errors of their margins, and the objective up to `error`.

    Fine bounds add up the sizes of all terms, which takes passes over the rows. The others use the lengths
    of the rows.
    """

    def __init__(self, problem: LinearProblem, w: Floats, threads: int, fine: bool):
        rows, loss = problem.rows, problem.loss
        self.threads, self.w = threads, w
        self.square = inner(w, w)
        margins = problem.margins(w, threads)
        self.norms = None if fine else np.sqrt(rows.squared_norms())
        sizes = (
            math.sqrt(self.square) * self.norms
            if self.norms is not None
            else rows.absolute_product(w, threads)
        )
        self.mean = None
        if isinstance(loss, MeanVarianceLoss):
            self.mean = MovingMean.of(loss, problem.costs)
            if self.mean is not None:  # any centre gives an upper bound; the mean is the best one
                centre = inner(problem.costs, margins) / self.mean.total
                loss = MeanVarianceLoss(loss.variance, loss.mean, loss.hinge, centre)
        self.problem = replace(problem, loss=loss)
        self.rows = RowErrors(self.problem, margins, sizes, threads, bend=not fine)
        self.slopes = self.rows.slopes
        self.columns = (rows.n_columns + 4) * UNIT
        self.primal = 0.5 * self.square + self.rows.total
        self.error = self.rows.error + self.columns * 0.5 * self.square

    def bounds(self, duals: Floats) -> Certificate:
        """Bounds of the objective and of P(w) - D(a)."""
        if self.mean is not None:
            gap, rounding = self._joint_gap(duals)
            return Certificate(self.primal + self.error, gap + 2 * self.error, rounding + 2 * self.error)
        image, blur = self._image(duals)
        away = self.w - image
        row_gaps = gaps(self.problem.loss, duals, self.rows.margins, self.problem.costs)
        return self.rows.sums(duals, row_gaps, blur).bounds(self.w, math.sqrt(inner(away, away)))

    def _joint_gap(self, duals: Floats) -> tuple[float, float]:
        """The same for ODM^L, whose dual value belongs to the best centre for these duals."""
        loss, costs = self.problem.loss, self.problem.costs
        assert isinstance(loss, MeanVarianceLoss) and self.mean is not None
        duals, hinge, excess = self.mean.parts(duals)
        image, blurred = self._image(duals)
        # the proof needs excess parts that sum to 0: what they sum to is taken off in proportion to the costs
        left = abs(float(excess.sum())) + self.rows.summed * float(np.abs(excess).sum())
        shift = left / self.mean.total
        # and duals = hinge + mean + excess holds up to rounding
        off = 4 * UNIT * (np.abs(duals) + np.abs(excess) + hinge + loss.mean * costs) + shift * costs
        blurred += self._length(off)
        norm = math.sqrt(inner(image, image))
        counted = costs > 0
        excess, curvature = np.abs(excess[counted]), 4 * loss.variance * costs[counted]
        squares = (excess + shift * costs[counted]) ** 2 / curvature
        plain = float((excess**2 / curvature).sum())
        dual = float(hinge.sum()) - plain - 0.5 * norm**2
        whole = norm + blurred
        rounding = blurred * (norm + 0.5 * blurred) + self.columns * whole * whole
        rounding += max(0.0, float(squares.sum()) - plain)
        rounding += self.rows.summed * (float(hinge.sum()) + 2 * float(squares.sum()))
        gap = self.primal - dual + rounding
        return (gap, rounding) if math.isfinite(gap) else (math.inf, math.inf)

    def _image(self, duals: Floats) -> tuple[Floats, float]:
        """(X'Ya, bound on the length of its error)"""
        terms = np.count_nonzero(duals) + 20  # the sums of at most 16 chunks are added
        return self.problem.weights_of(duals, self.threads), UNIT * terms * self._length(duals)

    def _length(self, coefficients: Floats) -> float:
        """A bound on the length of sum_i b_i x_i for all b with |b_i| at most these."""
        if self.norms is not None:
            return 1.01 * inner(np.abs(coefficients), self.norms)
        sums = self.problem.rows.absolute_transposed_product(coefficients, self.threads)
        return 1.01 * math.sqrt(inner(sums, sums))
