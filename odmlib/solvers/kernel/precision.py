"""Rounding of kernel values: when rows must be float64, and how far computed scores can be off.

Rows of float32 save memory and time. A run may use them as long as the problem can bear it; what it claims in
the end holds for the kernel itself, because certificate.py computes the scores that count in float64.
"""

from __future__ import annotations

import math

import numpy as np

from odmlib._core.arrays import Floats
from odmlib._core.vectors import inner
from odmlib.kernels.cache import RowCache
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss, MarginLoss, MeanVarianceLoss
from odmlib.solvers.control import Resources

UNIT32, UNIT64 = 2.0**-24, 2.0**-53
UNIT_LONG = float(np.finfo(np.longdouble).epsneg)  # UNIT64 where there is no wider type
ROUNDING = 2.0**-22  # of a float32 kernel value, with what its computation adds
SAFE_PART = 0.2  # part of what stands on the diagonal that rounding may eat up
# Rounding moved the objective by 1/30 to 1/190 of `rounding_part` on random sets of 60 rows, C = 1 and 89
PARTS_OF_TOL = 30.0
EXACT_ROWS = 512  # so few rows are one block, which float64 rows make exact for the same time


def rounding_part(kernel: Kernel, costs: Floats, loss: MarginLoss | None = None) -> float:
    """What float32 rows add to K, by its norm, as a part of what the loss adds to the diagonal.

    Rounding adds a matrix of norm about 2^-24 sqrt(rows) times the largest entry. A loss adds 1 / (2 cost),
    the cost times that of its steepest part.
    """
    steepest = 1.0
    if isinstance(loss, MeanVarianceLoss):
        steepest = max(loss.variance, loss.hinge)
    elif isinstance(loss, BandLoss):
        steepest = max(1.0, loss.nu)
    return 2 * float((steepest * costs).max(initial=0.0)) * _rounding_norm(kernel)


def margins_need_float64(
    kernel: Kernel, costs: Floats, loss: MarginLoss | None = None, tol: float = math.inf
) -> bool:
    """Whether rows of float32 could lose the dual's convexity, or the gap that the user asked for."""
    return rounding_part(kernel, costs, loss) > min(SAFE_PART, PARTS_OF_TOL * tol)


def kmomd_needs_float64(kernel: Kernel, weights: Floats, lam: float, tol: float) -> bool:
    """Whether rounding can change the objective of KM-OMD by more than `tol`.

    It adds at most (1-lambda) e |gamma|^2; at least lambda |gamma|^2 / (largest weight) is there anyway.
    """
    added = (1 - lam) * float(weights.max(initial=0.0)) * _rounding_norm(kernel)
    return added > min(SAFE_PART, tol) * lam


def cache_for(kernel: Kernel, resources: Resources, float64: bool) -> RowCache:
    """The shared cache where its rows are exact enough, else a new one; more than needed does no harm."""
    shared = resources.cache
    if shared is not None and (shared.wide or not float64):
        return shared
    return RowCache(kernel, resources.cache_bytes, float64 or kernel.n_rows <= EXACT_ROWS)


def _rounding_norm(kernel: Kernel) -> float:
    return ROUNDING * math.sqrt(kernel.n_rows) * float(np.abs(kernel.diagonal()).max(initial=0.0))


def score_errors(kernel: Kernel, coefficients: Floats, float64: bool, summed: float | None = None) -> Floats:
    """Bounds on the errors of computed scores sum_j c_j k(x_i, x_j), one per row (and column of c).

    docs/internals/mathematics.md, "Rounding", derives the bound of a kernel value: part h_i h_j, where
    h_i h_j bounds the value itself, and slope (|x_i|^2 + |x_j|^2). `summed` is what the sum adds to the part:
    by default that of one sum in float64, or of sums that float32 rows were added to in many steps.
    """
    part, slope = _value_errors(kernel, float64)
    sums, most = np.abs(coefficients), sizes(kernel)
    if summed is None:
        summed = UNIT64 * (np.count_nonzero(coefficients) + 2 if float64 else 8 * kernel.n_rows)
    part += summed
    one = coefficients.ndim == 1
    errors = part * inner(most, sums) * most if one else np.multiply.outer(part * most, _weighted(most, sums))
    if slope:
        norms = kernel.squared_norms()
        if one:
            errors += slope * (norms * sums.sum() + inner(norms, sums))
        else:
            errors += slope * (np.multiply.outer(norms, sums.sum(axis=0)) + _weighted(norms, sums))
    return errors


def _weighted(weights: Floats, columns: Floats) -> Floats:
    return np.einsum("i,i...->...", weights, columns)  # not BLAS, which would wake its threads


def sizes(kernel: Kernel) -> Floats:
    """h with |k(x_i, x_j)| <= h_i h_j."""
    formula = kernel.formula
    if formula.name == "precomputed":  # symmetric
        return np.sqrt(kernel.row_bounds())
    if formula.name not in ("linear", "poly"):
        return np.full(kernel.n_rows, math.sqrt(kernel.bound()))
    norms = kernel.squared_norms()
    if formula.name == "linear":
        return np.sqrt(norms + formula.bias**2)
    return np.sqrt((formula.gamma * norms + abs(formula.coef0)) ** formula.degree + formula.bias**2)


def _value_errors(kernel: Kernel, float64: bool) -> tuple[float, float]:
    """(part, slope): see score_errors."""
    formula, unit = kernel.formula, UNIT64 if float64 else UNIT32
    if formula.name == "precomputed":
        return (0.0 if float64 and formula.bias == 0 else 2 * unit), 0.0
    # products are summed in float64 also for float32 values of some kernels, and some have no error at all
    sums = unit if float64 or not kernel.precise else UNIT64
    product = 0.0 if kernel.exact_products and not float64 else (kernel.most_nonzeros + 8) * sums
    if formula.name == "linear":
        return product + 4 * unit, 0.0
    if formula.name == "poly":
        return formula.degree * (1.1 * product + 12 * unit), 0.0
    if formula.name == "sigmoid":
        return unit * (24 + 4 * abs(formula.coef0)), formula.gamma * (0.5 * product + 4 * sums)
    return 8 * unit, formula.gamma * (product + 8 * sums)
