"""What a kernel solver may claim in the end: scores in float64, and bounds that include their rounding.

The duality gap of duals a with scores f is sum_i gap_i(a_i, y_i f_i - t_i). If each score is known up to e_i,
the objective is known up to sum_i e_i (|a_i| / 2 + s_i), where s_i is the steepest slope of the loss within
the error, and the dual value up to sum_i e_i |a_i| / 2. Both are added to the gap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Floats
from odmlib._core.vectors import long_sums
from odmlib.kernels.cache import RowCache
from odmlib.kernels.expansion import symmetric_terms, training_scores
from odmlib.kernels.kernel import Kernel
from odmlib.losses.sums import steepest_slopes
from odmlib.solvers.control import Control
from odmlib.solvers.kernel.precision import EXACT_ROWS, UNIT32, UNIT64, UNIT_LONG, score_errors, sizes
from odmlib.solvers.kernel.q_rows import BlockState
from odmlib.solvers.problem import KernelProblem


class Scores(NamedTuple):
    """Scores of all rows, and how far each may be off."""

    values: Floats
    errors: Floats


class Drift(NamedTuple):
    """What many small steps may have added to the errors of scores that were updated all the time."""

    additions: int = 0  # of kernel rows to the scores
    travel: float = 0.0  # the sum of the sizes of their factors

    def plus(self, state: BlockState) -> Drift:
        """With what a state has added to its scores."""
        return Drift(self.additions + state.additions, self.travel + state.travel)


class Base(NamedTuple):
    """Where a run has begun to update its scores: their errors and |coefficients| there."""

    errors: Floats
    coefficients: Floats

    @classmethod
    def nothing(cls, n_rows: int) -> Base:
        return cls(np.zeros(n_rows), np.zeros(n_rows))

    @classmethod
    def rough(cls, problem: KernelProblem, duals: Floats) -> Base:
        """Duals whose scores a run with rows of float32 may have left."""
        return cls(score_errors(problem.kernel, problem.y * duals, False), np.abs(duals))


def known_scores(
    problem: KernelProblem, duals: Floats, scores: Floats, float64: bool, base: Base, drift: Drift
) -> Scores:
    """Scores that a run has updated step by step from its base, with rows of float32 or float64.

    A value's error is the same in every step, so that only the coefficients in the end and at the base count.
    An addition rounds by 2^-53 of its result and of its term, which |coefficients| at the base and all steps
    together bound.
    """
    kernel, moved = problem.kernel, np.abs(duals) + base.coefficients
    errors = base.errors + score_errors(kernel, moved, float64, 0.0)
    if kernel.shift:
        errors += 2 * (UNIT64 if float64 else UNIT32) * abs(kernel.shift) * moved
    largest = sizes(kernel)
    values = float(largest.max(initial=0.0)) * largest + abs(kernel.shift)  # of each row, at most
    errors += 2 * UNIT64 * drift.additions * (float(base.coefficients.sum()) + drift.travel) * values
    return Scores(scores, errors)


def exact_scores(
    problem: KernelProblem,
    duals: Floats,
    rough: Scores | None,
    control: Control,
    threads: int,
    cache: RowCache | None = None,
) -> Scores | None:
    """The same scores computed anew in float64, where they count; None when the time is over before that.

    They count for rows with a dual, and for rows whose loss could begin within the error of what is known; of
    few rows, or where nothing is known, all count.
    """
    kernel, coefficients = problem.kernel, problem.y * duals
    if rough is None or kernel.n_rows <= EXACT_ROWS:
        return fresh_scores(kernel, coefficients, control, threads, cache)
    counts = (duals != 0) | (_steepest(problem, rough) > 0)
    found = training_scores(kernel, coefficients, np.flatnonzero(counts), threads, control.out_of_time)
    if found is None:
        return None
    n_support = int(np.count_nonzero(duals))
    if kernel.formula.name == "precomputed":
        fresh = _with_errors_of_long_sums(kernel, coefficients, found, counts)
    else:  # sums among rows with a dual are cut in parts
        terms = max(n_support, symmetric_terms(n_support)) + 2
        fresh = Scores(found, score_errors(kernel, coefficients, True, UNIT64 * terms)[counts])
    values, errors = rough.values.copy(), rough.errors.copy()
    values[counts], errors[counts] = fresh
    return Scores(values, errors)


def fresh_scores(
    kernel: Kernel, coefficients: Floats, control: Control, threads: int, cache: RowCache | None = None
) -> Scores | None:
    """Scores K c of all rows in float64, for one or more columns c; None when the time is over before that.

    Few rows are summed in the widest type there is, so that large coefficients may cancel. `cache`: of
    float64, with what is known of their kernel.
    """
    if kernel.n_rows > EXACT_ROWS:
        found = training_scores(kernel, coefficients, None, threads, control.out_of_time)
        if found is None:
            return None
        if kernel.formula.name == "precomputed":
            return _with_errors_of_long_sums(kernel, coefficients, found)
        return Scores(found, score_errors(kernel, coefficients, True))
    support = np.flatnonzero(coefficients if coefficients.ndim == 1 else coefficients.any(axis=1))
    block = kernel.block(support, wide=True) if cache is None else cache.rows(support)
    if coefficients.ndim == 1:
        values = long_sums(block, coefficients[support])
    else:
        wide = block.astype(np.longdouble)
        values = np.einsum("ji,j...->i...", wide, coefficients[support]).astype(np.float64)
    return _with_errors_of_long_sums(kernel, coefficients, values)


def _with_errors_of_long_sums(
    kernel: Kernel, coefficients: Floats, values: Floats, rows: NDArray[np.bool_] | slice = slice(None)
) -> Scores:
    """Scores of some rows, which were summed in the widest type there is and then rounded."""
    terms = np.count_nonzero(coefficients if coefficients.ndim == 1 else coefficients.any(axis=1)) + 2
    errors = score_errors(kernel, coefficients, True, UNIT_LONG * terms)[rows]
    return Scores(values, errors + UNIT64 * np.abs(values))


def rounding(problem: KernelProblem, duals: Floats, scores: Scores) -> tuple[float, float]:
    """By how much the errors of the scores may raise the objective, and lower the dual value."""
    half = 0.5 * np.abs(duals)
    raised = scores.errors * (half + _steepest(problem, scores))
    # the sums over the rows are rounded, too
    added = UNIT64 * len(duals) * float((half * np.abs(scores.values)).sum())
    return float(raised.sum()) + added, float((half * scores.errors).sum()) + added


def _steepest(problem: KernelProblem, scores: Scores) -> Floats:
    """The largest slope of each row's loss within the error."""
    margins = problem.margins_of(scores.values)
    return steepest_slopes(problem.loss, margins, scores.errors, problem.costs)
