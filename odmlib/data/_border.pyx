"""The loops at the border where foreign arrays come in: columns copied and checked in one pass, finite values."""

from libc.stdint cimport int32_t, int64_t, uint64_t

import numpy as np

from odmlib._core.types cimport column_t, index_t
from odmlib._core.views cimport data_of

ctypedef fused given_t:
    int32_t
    int64_t

cdef extern from "border.h" nogil:
    void take_columns_32 "odm_take_columns"(const int32_t *given, column_t *out, index_t n, uint64_t *beyond,
                                            column_t *largest) noexcept
    void take_columns_64 "odm_take_columns"(const int64_t *given, column_t *out, index_t n, uint64_t *beyond,
                                            column_t *largest) noexcept
    index_t odm_falls(const column_t *columns, index_t n) noexcept
    bint odm_all_finite(const double *values, index_t n) noexcept

cdef index_t CHUNK = 1 << 12  # columns that are copied and judged while the first cache holds them


def copied_columns(const index_t[::1] indptr, const given_t[::1] indices, index_t width):
    """The columns up to indptr[-1] as int32, whether all are from 0 to `width` - 1, and whether they ascend in rows.

    Each is read once and judged by its copy, so that nobody can change it afterwards. `indptr` must ascend from
    0 and end within `indices`; that is the caller's to check.
    """
    cdef index_t n_rows = indptr.shape[0] - 1, n = indptr[n_rows], i, k, last
    copies = np.empty(n, dtype=np.int32)
    if n == 0:
        return copies, True, True
    cdef column_t[::1] view = copies
    cdef column_t *out = &view[0]
    cdef const given_t *given = &indices[0]
    cdef uint64_t beyond = 0
    cdef column_t largest = 0
    cdef index_t falls = 0, first = 0
    with nogil:
        while first < n:
            last = min(first + CHUNK, n)
            if given_t is int32_t:
                take_columns_32(given + first, out + first, last - first, &beyond, &largest)
            else:
                take_columns_64(given + first, out + first, last - first, &beyond, &largest)
            k = max(first - 1, <index_t>0)  # the last one of the chunk before has a neighbour here
            falls += odm_falls(out + k, last - k)
            first = last
        for i in range(n_rows):  # at the first column of a row nothing is wrong with a fall
            k = indptr[i]
            if 0 < k < indptr[i + 1]:
                falls -= out[k] <= out[k - 1]
    return copies, beyond == 0 and largest < width, falls == 0


def all_finite(const double[::1] values):
    """Whether no value is infinite or NaN."""
    return odm_all_finite(data_of(values), values.shape[0])
