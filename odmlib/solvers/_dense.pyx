"""Small dense systems, solved on one thread by the loops of dense.h.

Not numpy's: its BLAS brings threads of its own, which neither `-j` nor a busy machine can hold back.
"""

from odmlib._core.types cimport index_t

import numpy as np

cdef extern from "dense.h" nogil:
    const index_t ODM_FACTOR_BLOCK
    index_t odm_factor_line(index_t n) noexcept
    index_t odm_cholesky(double *matrix, index_t n, index_t stride, double *work, int n_threads) noexcept
    void odm_cholesky_solve(const double *factor, index_t n, index_t stride, double *x) noexcept


def solve_positive(const double[:, ::1] matrix, const double[::1] right):
    """x with matrix x = right for a symmetric positive definite matrix; None if it is not, to the machine."""
    cdef index_t n = right.shape[0]
    assert matrix.shape[0] == n and matrix.shape[1] == n
    result = np.array(right)
    if n == 0:
        return result
    factor = np.array(matrix)
    cdef double[:, ::1] L = factor
    cdef double[::1] work = np.empty(odm_factor_line(n) * ODM_FACTOR_BLOCK)
    cdef double[::1] x = result
    cdef index_t bad
    with nogil:
        bad = odm_cholesky(&L[0, 0], n, n, &work[0], 1)
        if bad == 0:
            odm_cholesky_solve(&L[0, 0], n, n, &x[0])
    return result if bad == 0 and np.isfinite(result).all() else None


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
