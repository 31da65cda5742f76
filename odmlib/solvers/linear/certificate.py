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

from odmlib._core.arrays import Floats
from odmlib._core.vectors import inner
from odmlib.losses.loss import BandLoss, MeanVarianceLoss
from odmlib.losses.sums import gaps, values
from odmlib.solvers.control import CONVERGED, STALLED, Control, Progress, SolverResult, WarmStart
from odmlib.solvers.margin_mean import MovingMean
from odmlib.solvers.problem import LinearProblem

UNIT = 2.0**-53
RETRIES = 3  # with half the tolerance, where rounding is small but the sum of both is not
COARSE_PART = 0.01  # of the tolerance that coarse bounds of rounding may take
SMALL_PART = 0.25  # of the tolerance that rounding may take before a run cannot reach it


class Certificate(NamedTuple):
    """Bounds for the problem itself: objective, absolute gap, and what of the gap is rounding."""

    primal: float
    gap: float
    rounding: float


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
            gap, rounding = point.dual_gap(a)
            best = min(
                best, best._replace(gap=gap + 2 * point.error, rounding=rounding + 2 * point.error), key=_gap
            )
    return best


class _Point:
    """Weights with their margins, how far these may be off, and the objective up to `error`.

    Fine bounds add up the sizes of all terms, which takes passes over the rows. The others use the lengths
    of the rows.
    """

    def __init__(self, problem: LinearProblem, w: Floats, threads: int, fine: bool):
        rows, loss = problem.rows, problem.loss
        self.threads, self.w = threads, w
        self.square = inner(w, w)
        self.margins = problem.margins(w, threads)
        self.norms = None if fine else np.sqrt(rows.squared_norms())
        terms = rows.row_lengths() + 3
        sizes = (
            math.sqrt(self.square) * self.norms
            if self.norms is not None
            else rows.absolute_product(w, threads)
        )
        self.errors = 1.01 * UNIT * terms * sizes
        edge = 1.0
        if isinstance(loss, BandLoss):
            edge = abs(loss.centre) + loss.theta
        self.mean = None
        if isinstance(loss, MeanVarianceLoss):
            self.mean = MovingMean.of(loss, problem.costs)
            if self.mean is not None:  # any centre gives an upper bound; the mean is the best one
                centre = inner(problem.costs, self.margins) / self.mean.total
                loss = MeanVarianceLoss(loss.variance, loss.mean, loss.hinge, centre)
                edge += abs(centre)
        targets = 0.0 if problem.targets is None else np.abs(problem.targets)
        self.sizes = np.abs(self.margins) + (edge + targets)  # of what is added up in a row's loss
        self.errors += 4 * UNIT * self.sizes
        self.problem = replace(problem, loss=loss)
        losses = values(loss, self.margins, problem.costs)
        self.slopes = self._slopes(self.margins)
        self.bent: Floats | float = 0.0  # how far the errors may move a slope; ends: a slope that jumps
        self.ends = [self.slopes]
        if loss.smooth and not fine:
            self.bent = 1.01 * loss.largest_curvature() * problem.costs * self.errors
        else:
            self.ends = [self._slopes(self.margins + sign * self.errors) for sign in (1, -1)]
        steepest = self._farthest(0.0)
        self.summed = (48 + math.log2(1 + rows.n_rows)) * UNIT  # numpy adds in blocks of 128, then pairwise
        self.columns = (rows.n_columns + 4) * UNIT
        self.primal = 0.5 * self.square + float(losses.sum())
        size = np.abs(losses)
        if isinstance(loss, MeanVarianceLoss) and self.mean is not None:  # terms of both signs
            size += 2 * problem.costs * (loss.mean + loss.hinge) * self.sizes
        self.losses = size
        self.error = float((self.errors * steepest).sum())
        self.error += self.summed * float(size.sum()) + self.columns * 0.5 * self.square

    def _slopes(self, margins: Floats) -> Floats:
        return self.problem.slopes_and_curvatures(margins, self.threads)[1]

    def _farthest(self, duals: Floats | float) -> Floats:
        """The largest |slope + dual| of each row within the errors of its margin."""
        away = np.abs(self.ends[0] + duals)
        for end in self.ends[1:]:
            away = np.maximum(away, np.abs(end + duals))
        return away + self.bent

    def dual_gap(self, duals: Floats) -> tuple[float, float]:
        """(bound of P(w) - D(a), what of it is rounding)"""
        if self.mean is not None:
            return self._joint_gap(duals)
        problem = self.problem
        image, blurred = self._image(duals)
        away = self.w - image
        distance = math.sqrt(inner(away, away))
        blurred += UNIT * math.sqrt(self.square)
        rows = gaps(problem.loss, duals, self.margins, problem.costs)
        total = 0.5 * distance**2 + float(rows.sum())
        rounding = blurred * (distance + 0.5 * blurred) + self.columns * (distance + blurred) ** 2
        rounding += float((self.errors * self._farthest(duals)).sum())
        rounding += self.summed * float((rows + self.losses + np.abs(duals) * self.sizes).sum())
        return total + rounding, rounding

    def _joint_gap(self, duals: Floats) -> tuple[float, float]:
        """The same for ODM^L, whose dual value belongs to the best centre for these duals."""
        loss, costs = self.problem.loss, self.problem.costs
        assert isinstance(loss, MeanVarianceLoss) and self.mean is not None
        duals, hinge, excess = self.mean.parts(duals)
        image, blurred = self._image(duals)
        # the proof needs excess parts that sum to 0: what they sum to is taken off in proportion to the costs
        left = abs(float(excess.sum())) + self.summed * float(np.abs(excess).sum())
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
        rounding = blurred * (norm + 0.5 * blurred) + self.columns * (norm + blurred) ** 2
        rounding += max(0.0, float(squares.sum()) - plain)
        rounding += self.summed * (float(hinge.sum()) + 2 * float(squares.sum()))
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
