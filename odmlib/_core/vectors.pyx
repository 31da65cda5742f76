"""Sums over vectors, and rows taken out of CSR arrays, by the calling thread alone.

numpy's own sums go to a BLAS, which wakes one thread per core for more than some 10,000 values: these burn the
time of processors that were not asked for (`threads`), and the sum's last bits follow their number.
"""

from libc.string cimport memcpy
from libcpp.vector cimport vector

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


def long_sums(const double[:, ::1] lines, const double[::1] factors):
    """The sum of all lines, each times its factor, in the widest type there is; rounded to float64 in the end."""
    cdef index_t i, j, n = lines.shape[1]
    cdef long double factor
    cdef vector[long double] sums
    if factors.shape[0] != lines.shape[0]:
        raise ValueError(f"{lines.shape[0]} lines and {factors.shape[0]} factors")
    result = np.empty(n)
    cdef double[::1] out = result
    with nogil:
        sums.resize(n, 0)
        for j in range(lines.shape[0]):
            factor = factors[j]
            for i in range(n):
                sums[i] += factor * lines[j, i]
        for i in range(n):
            out[i] = <double>sums[i]
    return result


def taken_rows(indptr, rows, *arrays):
    """Some rows of CSR arrays, in the given order: their own offsets, then their part of each array.

    >>> taken_rows(np.array([0, 2, 3, 5]), np.array([2, 0]), np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    (array([0, 2, 4]), array([4., 5., 1., 2.]))
    """
    cdef const index_t[::1] starts = indptr, wanted = np.ascontiguousarray(rows, dtype=np.int64)
    cdef index_t r, i, size, n = wanted.shape[0], n_rows = starts.shape[0] - 1
    cdef const char[::1] source
    cdef char[::1] target
    offsets = np.zeros(n + 1, dtype=np.int64)
    cdef index_t[::1] own = offsets
    for r in range(n):
        i = wanted[r]
        if not 0 <= i < n_rows:
            raise IndexError(f"there is no row {i} among {n_rows}")
        own[r + 1] = own[r] + starts[i + 1] - starts[i]
    parts = [offsets]
    for array in arrays:
        if array.ndim != 1 or len(array) < starts[n_rows]:
            raise ValueError(f"{starts[n_rows]} values of the rows, but an array of {array.shape}")
        part = np.empty(own[n], dtype=array.dtype)
        parts.append(part)
        if own[n] == 0:
            continue
        source, target, size = np.ascontiguousarray(array).view(np.int8), part.view(np.int8), array.itemsize
        with nogil:
            for r in range(n):
                if own[r + 1] > own[r]:
                    memcpy(&target[own[r] * size], &source[starts[wanted[r]] * size], (own[r + 1] - own[r]) * size)
    return tuple(parts)
