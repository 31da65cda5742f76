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


def squared_norms(const index_t[::1] starts, const double[::1] values, double first=0.0):
    """`first` and the squares of each row's values, summed in the order of its columns; rows in CSR form."""
    cdef index_t i, k, n = starts.shape[0] - 1
    cdef double total
    result = np.empty(n)
    cdef double[::1] out = result
    with nogil:
        for i in range(n):
            total = first
            for k in range(starts[i], starts[i + 1]):
                total += values[k] * values[k]
            out[i] = total
    return result
