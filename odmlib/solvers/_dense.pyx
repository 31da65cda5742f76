"""Small dense systems, solved on one thread by the loops of dense.h.

Not numpy's: its BLAS brings threads of its own, which neither `-j` nor a busy machine can hold back.
"""

from odmlib._core.types cimport index_t

from libc.math cimport sqrt

import numpy as np

cdef extern from "dense.h" nogil:
    const index_t ODM_FACTOR_BLOCK
    index_t odm_factor_line(index_t n) noexcept
    index_t odm_cholesky(double *matrix, index_t n, index_t stride, double *work, int n_threads) noexcept
    void odm_subtract_products(double *matrix, index_t n, const double *rows, index_t n_rows, int n_threads) noexcept
    const index_t ODM_FORWARD_COLUMNS
    struct odm_forward_job:
        const double *factor
        const double *right
        index_t n
        index_t n_columns
        double *work
        double *out
    void odm_forward(odm_forward_job *job, int n_threads) noexcept
    void odm_cholesky_solve(const double *factor, index_t n, index_t stride, double *x) noexcept


cdef index_t GRAM_ROWS = 128   # rows of a block


def solve_positive(matrix, const double[::1] right, overwrite=False):
    """x with matrix x = right for a symmetric positive definite matrix; None if it is not, to the machine.

    `overwrite`: the matrix may be lost.
    """
    cdef index_t n = right.shape[0]
    assert matrix.shape == (n, n)
    result = np.array(right)
    if n == 0:
        return result
    factor = matrix if overwrite else np.array(matrix)
    cdef double[:, ::1] L = factor
    cdef double[::1] work = np.empty(odm_factor_line(n) * ODM_FACTOR_BLOCK)
    cdef double[::1] x = result
    cdef index_t bad
    with nogil:
        bad = odm_cholesky(&L[0, 0], n, n, &work[0], 1)
        if bad == 0:
            odm_cholesky_solve(&L[0, 0], n, n, &x[0])
    return result if bad == 0 and np.isfinite(result).all() else None


def dense_gram(const double[:, ::1] rows, const double[::1] coefficients, int threads=1):
    """X' diag(coefficients) X for dense rows X; rows with coefficient 0 cost nothing.

    Blocks of rows times the square roots of their coefficients, those below 0 in sums of their own.
    """
    cdef index_t m = rows.shape[0], n = rows.shape[1], line = odm_factor_line(n)
    assert coefficients.shape[0] == m
    total = np.zeros((n, n))
    if m == 0 or n == 0:
        return total
    cdef double[:, ::1] block = np.empty((GRAM_ROWS, line))
    cdef double[:, ::1] sums
    cdef index_t i, j, filled
    cdef double root
    cdef int side
    for side in (1, -1):
        lower = np.zeros((n, n))
        sums = lower
        with nogil:
            filled = 0
            for i in range(m):
                if side * coefficients[i] > 0:
                    root = sqrt(side * coefficients[i])
                    for j in range(n):
                        block[filled, j] = root * rows[i, j]
                    filled += 1
                if filled == GRAM_ROWS or (filled and i == m - 1):
                    odm_subtract_products(&sums[0, 0], n, &block[0, 0], filled, threads)
                    filled = 0
        total -= side * lower
    lower = np.tril(total, -1)
    return lower + lower.T + np.diag(np.diagonal(total))


def forward_substitution(const double[:, ::1] factor, const double[:, ::1] right, double[:, ::1] out, int threads=1):
    """out = (factor^-1 right)' for a lower triangular factor; every column of `right` is a row of `out`."""
    cdef index_t n = factor.shape[0], n_columns = right.shape[1]
    assert factor.shape[1] == n and right.shape[0] == n and out.shape[0] == n_columns and out.shape[1] == n
    if n == 0 or n_columns == 0:
        return
    cdef index_t chunks = (n_columns + ODM_FORWARD_COLUMNS - 1) // ODM_FORWARD_COLUMNS
    cdef double[::1] work = np.empty(chunks * n * ODM_FORWARD_COLUMNS)
    cdef odm_forward_job job = odm_forward_job(
        &factor[0, 0], &right[0, 0], n, n_columns, &work[0], &out[0, 0])
    with nogil:
        odm_forward(&job, threads)


cdef class PositiveFactor:
    """The factor of a symmetric positive definite matrix, for several right-hand sides."""

    cdef double[:, ::1] factor

    @staticmethod
    def of(const double[:, ::1] matrix):
        """The factor; None if the matrix is not positive definite, to the machine."""
        cdef index_t n = matrix.shape[0], bad = 0
        cdef PositiveFactor made = PositiveFactor()
        made.factor = np.array(matrix)
        cdef double[::1] work = np.empty(odm_factor_line(n) * ODM_FACTOR_BLOCK)
        if n:
            with nogil:
                bad = odm_cholesky(&made.factor[0, 0], n, n, &work[0], 1)
        return made if bad == 0 else None

    def solve(self, const double[::1] right):
        cdef index_t n = right.shape[0]
        assert self.factor.shape[0] == n
        result = np.array(right)
        cdef double[::1] x = result
        if n:
            with nogil:
                odm_cholesky_solve(&self.factor[0, 0], n, n, &x[0])
        return result
