# The address of an array's first value; NULL for an empty one, which has none to point to.

cdef inline double *data_of(const double[::1] view) noexcept nogil:
    if view.shape[0] == 0:
        return NULL
    return <double *>&view[0]


# The targets of the rows, which a problem may not have, and one of them: 0 where it has none.

cdef inline const double *targets_data(const double[::1] targets, Py_ssize_t n_rows) except? NULL:
    if targets is None:
        return NULL
    if targets.shape[0] != n_rows:
        raise ValueError(f"{n_rows} rows, but {targets.shape[0]} targets")
    return data_of(targets)


cdef inline double target_of(const double *targets, Py_ssize_t i) noexcept nogil:
    return targets[i] if targets is not NULL else 0.0
