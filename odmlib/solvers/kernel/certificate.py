"""What a kernel solver may claim in the end: scores in float64, and bounds that include their rounding.

The duality gap of duals a with scores f is sum_i gap_i(a_i, y_i f_i - t_i). If each score is known up to e_i,
the objective is known up to sum_i e_i (|a_i| / 2 + s_i), where s_i is the steepest slope of the loss within
the error, and the dual value up to sum_i e_i |a_i| / 2. Both are added to the gap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.kernels.expansion import symmetric_terms, training_scores
from odmlib.kernels.kernel import Kernel
from odmlib.solvers.control import Control
from odmlib.solvers.kernel.precision import EXACT_ROWS, UNIT64, score_errors
from odmlib.solvers.problem import KernelProblem


class Scores(NamedTuple):
    """Scores of all rows, and how far each may be off."""

    values: Floats
    errors: Floats


def known_scores(problem: KernelProblem, duals: Floats, scores: Floats, float64: bool) -> Scores:
    """Scores that a run has updated step by step, with rows of float32 or float64."""
    return Scores(scores, score_errors(problem.kernel, problem.y * duals, float64))


def exact_scores(
    problem: KernelProblem, duals: Floats, scores: Floats, control: Control, threads: int
) -> Scores | None:
    """The same scores computed anew in float64, where they count; None when the time is over before that.

    They count for rows with a dual, and for rows whose loss could begin within the error of what is known.
    """
    kernel, coefficients = problem.kernel, problem.y * duals
    if kernel.n_rows <= EXACT_ROWS:
        return fresh_scores(kernel, coefficients, control, threads)
    rough = known_scores(problem, duals, scores, float64=False)
    counts = (duals != 0) | (_steepest(problem, *rough, threads) > 0)
    found = training_scores(kernel, coefficients, np.flatnonzero(counts), threads, control.out_of_time)
    if found is None:
        return None
    values, errors = scores.copy(), rough.errors
    values[counts] = found
    errors[counts] = score_errors(kernel, coefficients, True)[counts]
    if kernel.formula.name != "precomputed":
        terms = symmetric_terms(int(np.count_nonzero(duals))) + 2
        among = score_errors(kernel, coefficients, True, UNIT64 * terms)
        errors[duals != 0] = among[duals != 0]
    return Scores(values, errors)


def fresh_scores(kernel: Kernel, coefficients: Floats, control: Control, threads: int) -> Scores | None:
    """Scores K c of all rows in float64, for one or more columns c; None when the time is over before that.

    Few rows are summed in the widest type there is, so that large coefficients may cancel.
    """
    if kernel.n_rows > EXACT_ROWS:
        found = training_scores(kernel, coefficients, None, threads, control.out_of_time)
        return None if found is None else Scores(found, score_errors(kernel, coefficients, True))
    support = np.flatnonzero(coefficients if coefficients.ndim == 1 else coefficients.any(axis=1))
    block = kernel.block(support, wide=True).astype(np.longdouble)
    values = np.einsum("ji,j...->i...", block, coefficients[support]).astype(np.float64)
    unit = float(np.finfo(np.longdouble).epsneg)
    errors = score_errors(kernel, coefficients, True, unit * (len(support) + 2))
    return Scores(values, errors + UNIT64 * np.abs(values))


def rounding(problem: KernelProblem, duals: Floats, scores: Scores, threads: int) -> tuple[float, float]:
    """By how much the errors of the scores may raise the objective, and lower the dual value."""
    half = 0.5 * np.abs(duals)
    raised = scores.errors * (half + _steepest(problem, *scores, threads))
    # the sums over the rows are rounded, too
    added = UNIT64 * len(duals) * float((half * np.abs(scores.values)).sum())
    return float(raised.sum()) + added, float((half * scores.errors).sum()) + added


def _steepest(problem: KernelProblem, scores: Floats, errors: Floats, threads: int) -> Floats:
    """The largest slope of each row's loss within the error; the loss is convex."""
    margins = problem.margins_of(scores)
    ends = (problem.slopes_and_curvatures(margins + sign * errors, threads)[1] for sign in (1, -1))
    return np.maximum(*(np.abs(slopes) for slopes in ends))
