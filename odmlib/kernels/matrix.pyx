"""KernelMatrix: the whole symmetric kernel matrix in float32, half of it stored, and its products.

Rows are kept in strips of STRIP_ROWS; a strip holds its rows' columns up to the end of its own diagonal
block. Products sum in double, per group of strips and then in group order: the same bits for any number of
threads.
"""

from libc.stdlib cimport free, malloc
from libc.string cimport memset

from odmlib._core.parallel cimport parallel_for
from odmlib._core.types cimport index_t, kernel_t
from odmlib.kernels.kernel cimport Kernel

import numpy as np

cdef extern from "symmetric.h" nogil:
    void odm_four_rows(const float **rows, const double *factors, index_t n, const double *v,
                       double *sums, double *dots, bint both) noexcept

cdef enum:
    STRIP_ROWS = 256
    GROUPS = 16          # of strips, each with sums of its own


def matrix_bytes(index_t n_rows):
    """Memory that the matrix of so many rows takes, with the room for its products."""
    cdef index_t n_strips = (n_rows + STRIP_ROWS - 1) // STRIP_ROWS
    return 4 * (n_rows * (n_rows + 1) // 2 + n_strips * STRIP_ROWS * STRIP_ROWS // 2) + 8 * GROUPS * n_rows


cdef struct Job:
    kernel_t **strips
    index_t n_rows
    index_t n_strips
    const double *v
    const unsigned char *wanted
    double *sums          # GROUPS x n_rows


cdef class KernelMatrix:
    """All values of a Kernel."""

    cdef readonly Kernel kernel
    cdef readonly index_t n_rows
    cdef index_t _n_strips
    cdef kernel_t **_strips
    cdef list _memory     # owns what the pointers point to
    cdef object _sums

    def __init__(self, Kernel kernel):
        self.kernel = kernel
        self.n_rows = kernel.n_rows
        self._n_strips = (self.n_rows + STRIP_ROWS - 1) // STRIP_ROWS
        self._strips = <kernel_t **>malloc(max(<index_t>1, self._n_strips) * sizeof(kernel_t *))
        if self._strips is NULL:
            raise MemoryError
        self._memory = []
        self._sums = np.empty((GROUPS, max(1, self.n_rows)))
        cdef index_t strip
        for strip in range(self._n_strips):
            self._add_strip(strip)      # Ctrl-C is seen between two strips

    def __dealloc__(self):
        free(self._strips)

    def _add_strip(self, index_t strip):
        cdef index_t first = strip * STRIP_ROWS
        cdef index_t last = min(first + STRIP_ROWS, self.n_rows)
        memory = np.empty((last - first, last), dtype=np.float32)
        cdef float[:, ::1] view = memory
        cdef index_t rows[STRIP_ROWS]
        cdef kernel_t *out[STRIP_ROWS]
        cdef index_t r
        for r in range(last - first):
            rows[r] = first + r
            out[r] = &view[r, 0]
        with nogil:
            self.kernel.fill_columns(rows, last - first, out, 0, last)
        self._memory.append(memory)
        self._strips[strip] = &view[0, 0]

    def product(self, const double[::1] v, const unsigned char[::1] wanted=None, int threads=1):
        """K v. With `wanted`: only the rows marked there are right, and v must be 0 at the others."""
        assert v.shape[0] == self.n_rows and (wanted is None or wanted.shape[0] == self.n_rows)
        cdef double[:, ::1] sums = self._sums
        cdef Job job
        job.strips, job.n_rows, job.n_strips = self._strips, self.n_rows, self._n_strips
        job.v = &v[0]
        job.wanted = NULL
        if wanted is not None:
            job.wanted = &wanted[0]
        job.sums = &sums[0, 0]
        with nogil:
            parallel_for(GROUPS, threads, product_group, &job)
        return self._sums.sum(axis=0)


cdef void product_group(void *context, index_t group) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef double *sums = job.sums + group * job.n_rows
    cdef index_t strip = group
    memset(sums, 0, job.n_rows * sizeof(double))
    while strip < job.n_strips:
        product_strip(job, strip, sums)
        strip += GROUPS


cdef void product_strip(const Job *job, index_t strip, double *sums) noexcept nogil:
    cdef index_t first = strip * STRIP_ROWS
    cdef index_t last = min(first + STRIP_ROWS, job.n_rows)
    cdef const kernel_t *memory = job.strips[strip]
    cdef const float *rows[4]
    cdef double factors[4]
    cdef double dots[4]
    cdef index_t places[4]
    cdef index_t i = first, n, k
    while i < last:
        n = 0
        while i < last and n < 4:
            if job.wanted is NULL or job.wanted[i]:
                rows[n] = memory + (i - first) * last
                factors[n] = job.v[i]
                places[n] = i
                n += 1
            i += 1
        if n == 0:
            break
        for k in range(n, 4):        # fill up with a row that counts for nothing
            rows[k] = rows[0]
            factors[k] = 0
        for k in range(4):
            dots[k] = 0
        odm_four_rows(rows, factors, first, job.v, sums, dots, True)
        for k in range(4):
            rows[k] += first
        odm_four_rows(rows, factors, last - first, job.v + first, sums + first, dots, False)
        for k in range(n):
            sums[places[k]] += dots[k]
