"""The two loops of scaling: what each column holds, and rows brought into the target interval."""

from libc.math cimport isfinite

from odmlib._core.types cimport column_t, index_t


def gather_ranges(
    const column_t[::1] indices, const double[::1] values,
    index_t[::1] counts, double[::1] minimum, double[::1] maximum,
):
    """Count the stored values of each column and widen its range by them."""
    cdef index_t k, j
    cdef double value
    with nogil:
        for k in range(indices.shape[0]):
            j = indices[k]
            value = values[k]
            counts[j] += 1
            if value < minimum[j]:
                minimum[j] = value
            if value > maximum[j]:
                maximum[j] = value


def scale_rows(
    const index_t[::1] indptr, const column_t[::1] indices, const double[::1] values,
    const column_t[::1] columns, const double[::1] minimum, const double[::1] maximum, double lower, double upper,
    const column_t[::1] filled_columns, const double[::1] filled_values,
    index_t[::1] new_indptr, column_t[::1] new_indices, double[::1] new_values,
):
    """Scale the rows into the new arrays; zeros are left out.

    `columns` are the known columns, ascending; stored values elsewhere are dropped. `filled_columns` are
    those where an absent entry, a zero, becomes `filled_values`. Returns the number of values written, or
    -1 - k when stored value k has no finite image.
    """
    cdef index_t i, k, slot, fill, written = 0, failed = -1
    cdef index_t n_columns = columns.shape[0], n_filled = filled_columns.shape[0]
    cdef index_t n_missing = columns[n_columns - 1] + 1 - n_columns if n_columns else 0
    cdef column_t j
    cdef double value
    with nogil:
        new_indptr[0] = 0
        for i in range(indptr.shape[0] - 1):
            slot = 0
            fill = 0
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k]
                while fill < n_filled and filled_columns[fill] < j:
                    new_indices[written] = filled_columns[fill]
                    new_values[written] = filled_values[fill]
                    written += 1
                    fill += 1
                if fill < n_filled and filled_columns[fill] == j:
                    fill += 1
                slot = find(columns, slot, n_missing, j)
                if slot == n_columns:
                    break  # this column and all behind it are unknown
                if columns[slot] != j or minimum[slot] == maximum[slot]:
                    continue
                value = image(values[k], minimum[slot], maximum[slot], lower, upper)
                if value != 0:
                    new_indices[written] = j
                    new_values[written] = value
                    written += 1
                    if not isfinite(value):
                        failed = k
                        break
            if failed >= 0:
                break
            while fill < n_filled:
                new_indices[written] = filled_columns[fill]
                new_values[written] = filled_values[fill]
                written += 1
                fill += 1
            new_indptr[i + 1] = written
    return written if failed < 0 else -1 - failed


cdef inline double image(
    double value, double minimum, double maximum, double lower, double upper
) noexcept nogil:
    """Where [minimum, maximum] -> [lower, upper] sends a value; the ends are met exactly."""
    if value == minimum:
        return lower
    if value == maximum:
        return upper
    return lower + (upper - lower) * (value - minimum) / (maximum - minimum)


cdef inline index_t find(
    const column_t[::1] columns, index_t start, index_t n_missing, column_t j
) noexcept nogil:
    """First position from `start` on whose column is at least j.

    Columns ascend from 0 and `n_missing` of them are left out, so j stands at most that far before
    position j: no search at all where none is missing.
    """
    cdef index_t end = min(<index_t>j, columns.shape[0]), step = 1, middle
    start = min(end, max(start, j - n_missing))  # beyond the last column: the end
    # the next stored value is seldom far away: ever longer steps first, then halving
    while start + step < end and columns[start + step] < j:
        start += step
        step *= 2
    end = min(end, start + step)
    while start < end:
        middle = (start + end) // 2
        if columns[middle] < j:
            start = middle + 1
        else:
            end = middle
    return start
