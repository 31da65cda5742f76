# The address of an array's first value; NULL for an empty one, which has none to point to.

cdef inline double *data_of(const double[::1] view) noexcept nogil:
    if view.shape[0] == 0:
        return NULL
    return <double *>&view[0]
