# Rows: the CSR rows of a linear machine with the constant bias column, and the two verbs on one row.
from odmlib._core.types cimport column_t, index_t


cdef class Rows:
    cdef readonly index_t n_rows
    cdef readonly index_t n_columns       # features, plus one for the bias column if there is one
    cdef readonly index_t n_nonzeros      # stored values, bias entries not counted
    cdef readonly double bias             # value of the constant last column; 0: no such column
    cdef const index_t[::1] indptr
    cdef const column_t[::1] indices
    cdef const double[::1] values
    cdef object kind                      # class of the object that the rows were made of
    cdef dict starts                      # chunks of each kind of task, once made

    # <x_i, w>
    cdef double dot(self, index_t i, const double *w) noexcept nogil
    # have the processor fetch x_i, which is used soon
    cdef void prefetch(self, index_t i) noexcept nogil
    # sum of |x_ij w_j|
    cdef double absolute_dot(self, index_t i, const double *w) noexcept nogil
    # sums[c] += <column c of weights (n_columns x n), x_i>
    cdef void dots(self, index_t i, const double *weights, index_t n, double *sums) noexcept nogil
    # w += step x_i
    cdef void add(self, index_t i, double step, double *w) noexcept nogil
    # column c of weights (n_columns x n) += steps[c] x_i
    cdef void adds(self, index_t i, const double *steps, index_t n, double *weights) noexcept nogil
    # x_i' M x_i for a symmetric matrix M, row-major
    cdef double quadratic_form(self, index_t i, const double *matrix) noexcept nogil
