"""CSR arrays to text in LIBSVM format: `label index:value ...` and LF, numbers that read back the same."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdlib cimport free, malloc

from odmlib._core.numbers cimport NUMBER_CHARS, format_by_snprintf, format_number as write_number
from odmlib._core.types cimport column_t, index_t, value_t

cdef enum:
    INDEX_CHARS = 10


cdef inline char *write_index(char *out, index_t index) noexcept nogil:
    cdef char digits[20]
    cdef int n = 0
    while True:
        digits[n] = <char>(c'0' + index % 10)
        n += 1
        index //= 10
        if index == 0:
            break
    while n > 0:
        n -= 1
        out[0] = digits[n]
        out += 1
    return out


def format_rows(const index_t[::1] indptr, const column_t[::1] indices, const value_t[::1] values,
                const value_t[::1] labels, index_t base):
    """The rows as bytes; `base` is the number that the text gives to column 0."""
    cdef index_t n_rows = indptr.shape[0] - 1
    if labels.shape[0] != n_rows:
        raise IndexError(f"{n_rows} rows, {labels.shape[0]} labels")
    cdef size_t room = n_rows * (NUMBER_CHARS + 1) + indptr[n_rows] * (INDEX_CHARS + NUMBER_CHARS + 2) + 1
    cdef char *text = <char *>malloc(room)
    cdef char *out = text
    cdef index_t i, k
    if text == NULL:
        raise MemoryError()
    try:
        with nogil:
            for i in range(n_rows):
                out = write_number(labels[i], out)
                for k in range(indptr[i], indptr[i + 1]):
                    out[0] = c' '
                    out = write_index(out + 1, indices[k] + base)
                    out[0] = c':'
                    out = write_number(values[k], out + 1)
                out[0] = c'\n'
                out += 1
        return PyBytes_FromStringAndSize(text, out - text)
    finally:
        free(text)


def format_number(double number, bint by_snprintf=False):
    """A finite number as data and model files write it: the shortest text that reads back the same.

    >>> format_number(1.0), format_number(0.1), format_number(-2.5e-300)
    ('1', '0.1', '-2.5e-300')
    """
    cdef char text[NUMBER_CHARS]
    cdef char *end = format_by_snprintf(number, text) if by_snprintf else write_number(number, text)
    return text[:end - text].decode("ascii")
