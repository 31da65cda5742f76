# Kernel: values between rows, many rows at a time; and the jobs of panel.h.
from odmlib._core.types cimport column_t, index_t, kernel_t, value_t

cdef extern from "panel_jobs.h" nogil:
    enum:
        ODM_LINEAR
        ODM_POLY
        ODM_RBF
        ODM_SIGMOID

    ctypedef struct odm_kernel_formula:
        int kind
        int degree
        double gamma
        double coef0
        double bias_squared

    ctypedef struct odm_rows:
        const index_t *starts
        const column_t *columns
        const void *values
        const double *norms

    ctypedef struct odm_block_job:
        odm_kernel_formula formula
        odm_rows source
        odm_rows data
        index_t n_columns
        index_t slab
        const index_t *rows
        index_t n_rows
        void **out
        bint wide
        index_t first
        index_t last
        int n_threads

    ctypedef struct odm_sums_job:
        odm_kernel_formula formula
        odm_rows support
        odm_rows test
        index_t n_columns
        index_t slab
        const index_t *output_starts
        const column_t *outputs
        const double *coefficients
        index_t n_outputs
        double *sums
        index_t first_test
        index_t last_test
        index_t first
        index_t last
        int n_threads

    ctypedef struct odm_symmetric_job:
        odm_kernel_formula formula
        odm_rows rows
        index_t n_rows
        index_t n_columns
        index_t slab
        const double *coefficients
        double *sums
        index_t n_parts
        index_t first_panel
        index_t last_panel
        int n_threads


# sums of kernel values with coefficients; -1 when memory ran out
cdef int kernel_sums(odm_sums_job *job) noexcept nogil
cdef int kernel_symmetric(odm_symmetric_job *job) noexcept nogil

# the numbers of a KernelFormula as panel.h wants them
cdef odm_kernel_formula compiled_formula(formula)
# columns of a panel to work through at a time (odm_block_job.slab) for data of this shape
cdef index_t slab_columns(index_t n_rows, index_t n_columns, index_t n_nonzeros) noexcept nogil


cdef class Kernel:
    cdef readonly object formula
    cdef readonly index_t n_rows
    # products in float64 because float32 would lose digits of the kernel value
    cdef readonly bint precise
    # float32 makes no error in products: see products_are_exact
    cdef readonly bint exact_products
    cdef public int threads
    # added to k(i, i); see shift.py
    cdef readonly double shift
    cdef object _bound                     # of its values, or of those of each row; None: not known yet
    cdef bint _precomputed
    cdef odm_kernel_formula _compiled
    cdef index_t _n_columns
    cdef index_t _slab
    cdef const index_t[::1] _starts
    cdef const column_t[::1] _columns
    cdef const float[::1] _singles
    cdef const double[::1] _doubles
    cdef const double[::1] _single_norms   # of the values in _singles
    cdef const double[::1] _norms
    cdef const double[:, ::1] _matrix
    cdef const double[::1] _diagonal

    # out[r][0 .. n_rows-1] = k(rows[r], all rows), kernel_t or (wide) double. Works in slices of a fraction
    # of a second, between which it takes the interpreter lock to let Ctrl-C through; on an exception
    # `out` is undefined.
    cdef int fill(self, const index_t *rows, index_t n, void **out, bint wide) except -1 nogil
    # the same with the rows of `onto`, restricted from this kernel, as columns of `out`
    cdef int fill_onto(self, Kernel onto, const index_t *rows, index_t n, void **out, bint wide) except -1 nogil
    cdef odm_rows _compiled_rows(self, bint precise) noexcept nogil
    cdef int _copy_rows(self, const index_t *rows, index_t n, void **out, bint wide) noexcept nogil
