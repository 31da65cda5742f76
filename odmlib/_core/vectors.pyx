"""Sums over vectors by the calling thread alone.

numpy's own go to a BLAS, which wakes one thread per core for more than some 10,000 values: these burn the
time of processors that were not asked for (`threads`), and the sum's last bits follow their number.
"""

import numpy as np

from odmlib._core.types cimport index_t
from odmlib._core.views cimport data_of

cdef extern from "vectors.h" nogil:
    double odm_inner(const double *x, const double *y, index_t n) noexcept


def inner(a, b):
    """Sum of the products of two arrays of the same size, whatever their shapes."""
    cdef const double[::1] x = np.ascontiguousarray(a, dtype=np.float64).reshape(-1)
    cdef const double[::1] y = np.ascontiguousarray(b, dtype=np.float64).reshape(-1)
    cdef double total
    if x.shape[0] != y.shape[0]:
        raise ValueError(f"vectors of {x.shape[0]} and {y.shape[0]} values")
    with nogil:
        total = odm_inner(data_of(x), data_of(y), x.shape[0])
    return total
