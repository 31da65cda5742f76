# Rows: the CSR rows of a linear machine with the constant bias column, and the two verbs on one row.
from odmlib._core.types cimport column_t, index_t


cdef inline double *address(const double[::1] view) noexcept nogil:
    """The first element, for the verbs below; NULL where there is none."""
    return <double *>&view[0] if view.shape[0] else NULL


cdef class Rows:
    cdef readonly index_t n_rows
    cdef readonly index_t n_columns       # features, plus one for the bias column if there is one
    cdef readonly index_t n_nonzeros      # stored values, bias entries not counted
    cdef readonly double bias             # value of the constant last column; 0: no such column
    cdef const index_t[::1] indptr
    cdef const column_t[::1] indices
    cdef const double[::1] values
    cdef dict starts                      # chunks of each kind of task, once made

    # <x_i, w>
    cdef double dot(self, index_t i, const double *w) noexcept nogil
    # w += step x_i
    cdef void add(self, index_t i, double step, double *w) noexcept nogil
