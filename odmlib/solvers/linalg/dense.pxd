# Dense loops for all solvers: compiled once, in dense.pyx, which sets these pointers to the loops that suit this
# processor. dense_loops.h and inverse.h say more of each one.
from odmlib._core.types cimport index_t

cdef extern from "dense_sizes.h" nogil:
    const index_t ODM_FACTOR_BLOCK
    index_t odm_factor_line(index_t n) noexcept
    const index_t ODM_STEP_WIDTH
    index_t odm_step_scratch(index_t n) noexcept

# sums[j] += sum_r factors[r] rows[r][j], in the order of r; rows of float, or of double if `wide`
cdef void (*odm_add_rows)(const void **rows, bint wide, const double *factors, index_t n_rows, index_t n_columns,
                          double *sums, int n_threads) noexcept nogil
# y += factor x
cdef void (*odm_add_multiple)(index_t n, double factor, const double *x, double *y) noexcept nogil
# the lower triangle becomes its factor L; 0, or the row (from 1) whose pivot is not positive.
# `work`: odm_factor_line(n) * ODM_FACTOR_BLOCK numbers
cdef index_t (*odm_cholesky)(double *matrix, index_t n, index_t stride, double *work, int n_threads) noexcept nogil
# matrix[i][j] -= sum_k rows[k][i] rows[k][j] for j <= i < n; a row has room for odm_factor_line(n) numbers
cdef void (*odm_subtract_products)(double *matrix, index_t n, const double *rows, index_t n_rows,
                                   int n_threads) noexcept nogil
# x = A^-1 x from the factor
cdef void (*odm_cholesky_solve)(const double *factor, index_t n, index_t stride, double *x) noexcept nogil
# the factor of an active-set method: a row more; row `gone` leaves; x = A^-1 x
cdef void (*odm_free_append)(double *R, index_t stride, index_t n, double *column, double diagonal,
                             double floor) noexcept nogil
cdef void (*odm_free_remove)(double *R, index_t stride, index_t n, index_t gone, double *work) noexcept nogil
cdef void (*odm_free_solve)(const double *R, index_t stride, index_t n, double *x) noexcept nogil
# the inverse of a factor: the step of the columns from `first` on; false if not positive definite to the machine
cdef bint (*odm_inverse_step)(double *matrix, index_t n, index_t first, double *scratch, int n_threads) noexcept nogil
