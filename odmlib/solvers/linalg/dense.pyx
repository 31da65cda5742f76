"""Small dense systems, solved on one thread by the loops of dense.h.

Not numpy's: its BLAS brings threads of its own, which neither `-j` nor a busy machine can hold back.
"""

cimport cython
from libc.math cimport sqrt
from libc.string cimport memset

import numpy as np

from odmlib._core.parallel cimport odm_use_pool, parallel_for
from odmlib._core.rows cimport Rows
from odmlib._core.types cimport index_t

cdef extern from "inverse.h" nogil:
    const index_t ODM_FORWARD_COLUMNS
    struct odm_forward_job:
        const double *factor
        const double *right
        index_t n
        index_t n_columns
        double *work
        double *out
    void forward "ODM_CHOOSE(forward)"(void *context, index_t chunk) noexcept
    void add_rows "odm_add_rows"(const void **rows, bint wide, const double *factors, index_t n_rows, index_t n_columns,
                                 double *sums, int n_threads) noexcept
    void add_multiple "ODM_CHOOSE(add_multiple)"(index_t n, double factor, const double *x, double *y) noexcept
    index_t cholesky "ODM_CHOOSE(cholesky)"(double *matrix, index_t n, index_t stride, double *work,
                                            int n_threads) noexcept
    void subtract_products "odm_subtract_products"(double *matrix, index_t n, const double *rows, index_t n_rows,
                                                   int n_threads) noexcept
    void cholesky_solve "ODM_CHOOSE(solve)"(const double *factor, index_t n, index_t stride, double *x) noexcept
    void free_append "ODM_CHOOSE(free_append)"(double *R, index_t stride, index_t n, double *column, double diagonal,
                                               double floor) noexcept
    void free_remove "ODM_CHOOSE(free_remove)"(double *R, index_t stride, index_t n, index_t gone, double *work) noexcept
    void free_solve "ODM_CHOOSE(free_solve)"(const double *R, index_t stride, index_t n, double *x) noexcept
    bint step_of_inverse "odm_inverse_step"(double *matrix, index_t n, index_t first, double *scratch,
                                            int n_threads) noexcept

odm_use_pool(parallel_for)
odm_add_rows, odm_add_multiple, odm_subtract_products = add_rows, add_multiple, subtract_products
odm_cholesky, odm_cholesky_solve, odm_inverse_step = cholesky, cholesky_solve, step_of_inverse
odm_free_append, odm_free_remove, odm_free_solve = free_append, free_remove, free_solve

STEP_WIDTH = ODM_STEP_WIDTH

cdef index_t GRAM_ROWS = 128   # rows of a block


def solve_positive(matrix, const double[::1] right, overwrite=False):
    """x with matrix x = right for a symmetric positive definite matrix; None if it is not, to the machine.

    `overwrite`: the matrix may be lost.
    """
    if matrix.shape != (right.shape[0], right.shape[0]):
        raise ValueError("solve_positive: matrix and right-hand side do not fit")
    factor = PositiveFactor.of(matrix, overwrite)
    result = None if factor is None else factor.solve(right)
    return result if result is not None and np.isfinite(result).all() else None


def dense_gram(const double[:, ::1] rows, const double[::1] coefficients, int threads=1):
    """X' diag(coefficients) X for dense rows X; rows with coefficient 0 cost nothing."""
    cdef index_t m = rows.shape[0], n = rows.shape[1]
    gram = np.zeros((n, n))
    cdef _Panel panel = _Panel(gram, threads)
    cdef index_t i, j
    cdef double root
    cdef double *line
    cdef int side
    if coefficients.shape[0] != m:
        raise ValueError("dense_gram: a coefficient for every row is needed")
    if n == 0:
        return gram
    for side in (1, -1):
        with nogil:
            for i in range(m):
                if side * coefficients[i] > 0:
                    root, line = sqrt(side * coefficients[i]), panel.next_line()
                    for j in range(n):
                        line[j] = root * rows[i, j]
        panel.end(side)
    return gram


def add_rows_gram(gram, Rows rows, const double[::1] coefficients, index_t begin, index_t end, int threads=1):
    """gram += X' diag(coefficients) X of the rows from `begin` to `end`, each written out in full."""
    cdef index_t n = rows.n_columns
    cdef _Panel panel = _Panel(gram, threads)
    cdef index_t i, k
    cdef double root
    cdef double *line
    cdef int side
    if panel.n != n or coefficients.shape[0] != rows.n_rows or not 0 <= begin <= end <= rows.n_rows:
        raise ValueError("add_rows_gram: arrays that do not fit")
    if n == 0:
        return
    for side in (1, -1):
        with nogil:
            for i in range(begin, end):
                if side * coefficients[i] > 0:
                    root, line = sqrt(side * coefficients[i]), panel.next_line()
                    if rows.indptr[i + 1] - rows.indptr[i] < n:
                        memset(line, 0, n * sizeof(double))
                    for k in range(rows.indptr[i], rows.indptr[i + 1]):
                        line[rows.indices[k]] = root * rows.values[k]
                    if rows.bias != 0:
                        line[n - 1] = root * rows.bias
        panel.end(side)


@cython.final
cdef class _Panel:
    """Adds x x' of many lines x to a symmetric matrix, some lines at a time.

    Lines are filled up to a multiple of 16, so that no column is left to slower code.
    """

    cdef index_t n, width, filled
    cdef int threads
    cdef double[:, ::1] lines, sums, gram

    def __init__(self, double[:, ::1] gram, int threads):
        if gram.shape[0] != gram.shape[1]:
            raise ValueError("a matrix of sums must be square")
        self.n, self.gram = gram.shape[0], gram
        self.width, self.threads, self.filled = odm_factor_line(self.n) - 8, threads, 0
        self.lines = np.zeros((GRAM_ROWS, odm_factor_line(self.n)))
        self.sums = np.zeros((self.width, self.width))

    cdef double *next_line(self) noexcept nogil:
        """Where the next x goes; n is not 0."""
        if self.filled == GRAM_ROWS:
            self.flush()
        self.filled += 1
        return &self.lines[self.filled - 1, 0]

    cdef void flush(self) noexcept nogil:
        odm_subtract_products(&self.sums[0, 0], self.width, &self.lines[0, 0], self.filled, self.threads)
        self.filled = 0

    cdef int end(self, int side) except -1:
        """All lines of one sign have been given: their sums go into the matrix."""
        cdef index_t i, j
        if self.filled == 0:  # a full panel waits for the next line
            return 0
        with nogil:
            self.flush()
            for i in range(self.n):
                for j in range(i + 1):
                    self.gram[i, j] -= side * self.sums[i, j]
                    self.gram[j, i] = self.gram[i, j]
            memset(&self.sums[0, 0], 0, self.width * self.width * sizeof(double))
        return 0


def forward_substitution(const double[:, ::1] factor, const double[:, ::1] right, double[:, ::1] out, int threads=1):
    """out = (factor^-1 right)' for a lower triangular factor; every column of `right` is a row of `out`."""
    cdef index_t n = factor.shape[0], n_columns = right.shape[1]
    if not (factor.shape[1] == n and right.shape[0] == n and out.shape[0] == n_columns and out.shape[1] == n):
        raise ValueError("forward_substitution: arrays that do not fit")
    if n == 0 or n_columns == 0:
        return
    cdef index_t chunks = (n_columns + ODM_FORWARD_COLUMNS - 1) // ODM_FORWARD_COLUMNS
    cdef double[::1] work = np.empty(chunks * n * ODM_FORWARD_COLUMNS)
    cdef odm_forward_job job = odm_forward_job(
        &factor[0, 0], &right[0, 0], n, n_columns, &work[0], &out[0, 0])
    with nogil:
        parallel_for(chunks, threads, forward, &job)


cdef class PositiveFactor:
    """The factor of a symmetric positive definite matrix, for several right-hand sides."""

    cdef double[:, ::1] factor

    @staticmethod
    def of(matrix, overwrite=False):
        """The factor; None if the matrix is not positive definite, to the machine. `overwrite`: it may be lost."""
        cdef index_t n = matrix.shape[0], bad = 0
        cdef PositiveFactor made = PositiveFactor()
        made.factor = matrix if overwrite else np.array(matrix)
        cdef double[::1] work = np.empty(odm_factor_line(n) * ODM_FACTOR_BLOCK)
        if n:
            with nogil:
                bad = odm_cholesky(&made.factor[0, 0], n, n, &work[0], 1)
        return made if bad == 0 else None

    def solve(self, const double[::1] right):
        cdef index_t n = right.shape[0]
        if self.factor.shape[0] != n:
            raise ValueError("PositiveFactor: a right-hand side of another length")
        result = np.array(right)
        cdef double[::1] x = result
        if n:
            with nogil:
                odm_cholesky_solve(&self.factor[0, 0], n, n, &x[0])
        return result


def scratch_size(index_t n):
    """Doubles that `inverse_step` works in for a matrix of n rows."""
    return odm_step_scratch(n)


def inverse_step(double[:, ::1] matrix, index_t first, double[::1] scratch, int threads):
    """Take the STEP_WIDTH columns from `first` on; False if the matrix is not positive definite to the machine."""
    cdef index_t n = matrix.shape[0]
    cdef bint positive
    if not (matrix.shape[1] == n and 0 <= first < n and scratch.shape[0] >= odm_step_scratch(n)):
        raise ValueError("inverse_step: a square matrix and scratch_size numbers are needed")
    with nogil:
        positive = odm_inverse_step(&matrix[0, 0], n, first, &scratch[0], threads)
    return positive
