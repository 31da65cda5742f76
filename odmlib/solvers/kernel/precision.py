"""Whether kernel rows are kept in float32 or in float64: one model of rounding for all kernel solvers.

Rounding to float32 adds to K a matrix of norm e, about 2^-24 sqrt(rows) times the largest entry. That is
harmless as long as the problem itself adds clearly more to the diagonal. (`Kernel` decides by itself whether
the sums behind one value need float64.)
"""

from __future__ import annotations

import math

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.kernels.cache import RowCache
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss, MarginLoss, MeanVarianceLoss
from odmlib.solvers.control import Resources

ROUNDING = 2.0**-22  # of a float32 kernel value, with what its computation adds
SAFE_PART = 0.2  # part of what stands on the diagonal that rounding may eat up


def margins_need_float64(kernel: Kernel, costs: Floats, loss: MarginLoss | None = None) -> bool:
    """Whether rounding can make the dual problem of a margin loss lose its convexity.

    A loss adds 1 / (2 cost), the cost times that of its steepest part.
    """
    steepest = 1.0
    if isinstance(loss, MeanVarianceLoss):
        steepest = max(loss.variance, loss.hinge)
    elif isinstance(loss, BandLoss):
        steepest = max(1.0, loss.nu)
    return 2 * float((steepest * costs).max(initial=0.0)) * _rounding_norm(kernel) > SAFE_PART


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
    return RowCache(kernel, resources.cache_bytes, float64)


def _rounding_norm(kernel: Kernel) -> float:
    return ROUNDING * math.sqrt(kernel.n_rows) * float(np.abs(kernel.diagonal()).max(initial=0.0))
