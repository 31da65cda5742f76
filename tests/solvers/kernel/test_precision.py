"""float32 or float64 kernel rows: the one rounding model, and which cache is taken."""

import numpy as np
import pytest

from odmlib.kernels.cache import RowCache
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss, HingeLoss, MeanVarianceLoss
from odmlib.solvers.control import Resources
from odmlib.solvers.kernel.precision import cache_for, kmomd_needs_float64, margins_need_float64


def kernel_of(size, m=100):
    """Its rounding moves eigenvalues by size * 10 * 2^-22."""
    return Kernel(KernelFormula("precomputed"), size * np.eye(m))


@pytest.mark.parametrize("size", [1.0, 64.0])
def test_margin_losses_allow_rounding_a_fifth_of_their_curvature(size):
    kernel, edge = kernel_of(size), 0.1 * 2.0**22 / 10 / size  # 2 cost * moved = 0.2
    costs = np.full(100, 0.01 * edge)
    for loss in (None, BandLoss(0.2, 0.5), HingeLoss()):
        for factor, expected in ((0.99, False), (1.01, True)):
            costs[7] = factor * edge
            assert margins_need_float64(kernel, costs, loss) == expected
    steep = MeanVarianceLoss(variance=3.0, mean=1.0, hinge=2.0)
    for factor, expected in ((0.99, False), (1.01, True)):
        costs[7] = factor * edge / 3
        assert margins_need_float64(kernel, costs, steep) == expected


def test_kmomd_allows_what_its_tolerance_allows():
    kernel, moved = kernel_of(1.0), 10 * 2.0**-22
    weights = np.ones(100)
    weights[3] = 4.0
    for tol in (1e-3, 10.0):
        allowed = min(0.2, tol)
        mu = 4 * moved / allowed  # lambda / (1 - lambda) at the edge
        for factor, expected in ((1.01, False), (0.99, True)):
            lam = factor * mu / (1 + factor * mu)
            assert kmomd_needs_float64(kernel, weights, lam, tol) == expected
    assert kmomd_needs_float64(kernel, weights, 0.0, 1.0)  # nothing stands on the diagonal
    assert not kmomd_needs_float64(kernel, weights, 1.0, 1e-12)


def test_no_rows_need_nothing():
    kernel = kernel_of(1.0, 0)
    assert not margins_need_float64(kernel, np.zeros(0))
    assert not kmomd_needs_float64(kernel, np.zeros(0), 0.5, 1e-3)


def test_a_shared_cache_is_taken_where_it_is_exact_enough():
    kernel = kernel_of(1.0)
    coarse, exact = (RowCache(kernel, 1 << 20, float64) for float64 in (False, True))
    assert cache_for(kernel, Resources(cache=coarse), False) is coarse
    assert cache_for(kernel, Resources(cache=exact), False) is exact
    assert cache_for(kernel, Resources(cache=exact), True) is exact
    own = cache_for(kernel, Resources(cache_bytes=1 << 20, cache=coarse), True)
    assert own is not coarse and own.wide
