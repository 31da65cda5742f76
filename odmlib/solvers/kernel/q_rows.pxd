# Where rows of Q come from: a cached kernel or the rows of a linear machine. Every verb works on a whole block.
from odmlib._core.rows cimport Rows
from odmlib._core.types cimport index_t
from odmlib.kernels.cache cimport RowCache


cdef class QRows:
    cdef readonly index_t n_rows
    cdef readonly index_t most_rows       # of a block
    cdef readonly index_t size            # of the block at hand
    cdef readonly bint float64            # whether K is exact to float64, not only to float32
    cdef readonly object diagonal         # of K
    cdef readonly list sums               # arrays beside the scores that are linear in the coefficients
    cdef readonly int threads
    cdef index_t n_chunks                 # into which `gather` divides a block
    cdef index_t[::1] block
    cdef double[::1] factors

    # take up a block of distinct rows: compute what is not at hand
    cpdef fetch(self, const index_t[::1] rows)
    # gains of rows that cost nothing to fetch, times a factor
    cpdef prefer_held(self, double[::1] gains, double factor)
    # Q_kj = signs_k signs_j K_kj of the block, both triangles
    cpdef gather(self, const double[::1] signs, double[:, ::1] Q)
    # scores += K[:, block] factors
    cpdef add(self, const double[::1] factors, double[::1] scores)

    cdef _begin(self, index_t n_rows, index_t most_rows, diagonal, bint float64, int threads, index_t n_chunks)
    cdef _check_change(self, const double[::1] factors, const double[::1] scores)
    cdef void _gather_chunk(self, index_t chunk, const double *signs, double *Q, index_t stride) noexcept nogil


cdef class KernelRows(QRows):
    cdef readonly RowCache cache
    cdef void **pointers
    cdef void **changed


cdef class LinearRows(QRows):
    cdef Rows rows
    cdef readonly object weights          # w = X'c for the scores' coefficients c
    cdef double[:, ::1] spread            # rows written out, one per chunk
    cdef bint by_column                   # whether the block's values are listed by column
    cdef index_t[::1] starts, ends        # of each column's list; `ends` is 0 outside of _list_columns
    cdef int[::1] list_rows
    cdef double[::1] list_values

    # w and scores from all coefficients, without what many small steps have left
    cpdef rebuild(self, const double[::1] coefficients, double[::1] scores)
    cdef _score(self, double[::1] scores)
    cdef _list_columns(self)
    cdef void _shared_columns(self, index_t k, const double *signs, double *line) noexcept nogil
    cdef void _whole_rows(self, index_t chunk, index_t k, const double *signs, double *line) noexcept nogil


cdef class BlockState:
    cdef readonly QRows q
    cdef readonly object duals, scores, gains    # of all rows, as Python sees them; the views below are theirs
    cdef readonly index_t additions       # of rows to the scores ...
    cdef readonly double travel           # ... and the sum of |factors|: what bounds the rounding of the scores
    cdef index_t n_rows, stride
    cdef const double[::1] y
    cdef double[::1] all_duals, all_scores, all_gains
    # the block: its rows, local copies, its matrix and room for a factor of it
    cdef index_t size
    cdef index_t[::1] rows
    cdef double[::1] label, a, before, change, work
    cdef double[:, ::1] Q, factor

    cdef _prepare(self, QRows q, y)
    # take up a block: its rows, signs, duals and matrix
    cdef _take(self, const index_t[::1] rows)
    cdef _add_change(self)
    # write the block's duals back and update the scores of all rows
    cpdef commit(self)
