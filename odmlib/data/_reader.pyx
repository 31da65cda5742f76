"""Text in LIBSVM format to CSR arrays: the one parser of data rows.

    file  := line*                       line := blank* [row] blank* [# anything] end
    row   := label [blank+ qid:integer] (blank+ index : blank* value)*
    label, value := number (numbers.h)   index := digits, ascending within a row
    blank := space | tab                 end := LF | CR LF

Text arrives in blocks of whole lines. A block is cut into chunks of whole lines for the threads. A first
sweep counts the colons and line ends of each chunk, which bounds its values and rows; the arrays are
grown to that, and each chunk is parsed straight into its place. Where the bound was too high (zeros,
comments, qid) the chunks are then moved together. Growing is realloc: for large arrays the system moves
pages, not bytes, and room that was never written costs no memory.

Every line ends with LF, which neither a number nor a run of blanks contains: no scan needs to look for
the end of the text. A fault is a code and a place; `faults.py` has the words.
"""

from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memmove
from cython.view cimport array as view_array

import numpy as np

from odmlib._core.numbers cimport (
    NUMBER_INFINITE, NUMBER_MALFORMED, NUMBER_OK, parse_by_strtod, parse_number as parse_number_at, whole_is_exact
)
from odmlib._core.parallel cimport parallel_for
from odmlib._core.types cimport column_t, index_t, int64_t, uint8_t, value_t

cdef enum:
    INDEX_DIGITS = 10       # of the largest index; more than that must start with zeros
    READABLE_BEHIND = 16    # bytes that numbers.h and `after_qid` may look at behind a block

PADDING = READABLE_BEHIND

cpdef enum Fault:
    NO_FAULT
    BAD_LABEL
    INFINITE_LABEL
    INEXACT_LABEL
    BAD_QID
    BAD_ITEM
    INDEX_ZERO
    INDEX_TOO_LARGE
    INDEX_NOT_ASCENDING
    BAD_VALUE
    INFINITE_VALUE
    STRAY_RETURN
    EMPTY_LINE
    COMMENT

cdef struct Chunk:
    const char *begin
    const char *end
    index_t n_lines         # line ends in it: no fewer than its rows
    index_t n_colons        # no fewer than its values
    index_t first_row       # where its results go
    index_t first_value
    index_t n_rows          # what parsing found
    index_t n_values
    index_t n_columns       # largest column met, plus 1; explicit zeros count
    Fault fault
    const char *fault_place
    index_t previous        # INDEX_NOT_ASCENDING: the index before it

cdef struct Job:
    index_t base            # the file's number for column 0
    index_t largest         # the largest index allowed
    bint strict_lines
    value_t *values
    column_t *columns
    index_t *indptr         # of a chunk that is not gathered yet: counted from its own first value
    value_t *labels
    index_t n_rows          # gathered so far
    index_t n_values
    index_t n_columns
    index_t n_lines
    Chunk *chunks           # of the block at hand
    index_t n_chunks


cdef void count_chunk(void *context, int64_t k) noexcept nogil:
    """Count line ends and colons."""
    cdef Chunk *chunk = &(<Job *>context).chunks[k]
    cdef const char *p = chunk.begin
    cdef uint8_t lines, colons      # narrow sums over short runs: the compiler makes vectors of them
    cdef int i
    chunk.n_lines = 0
    chunk.n_colons = 0
    while chunk.end - p >= 128:
        lines = 0
        colons = 0
        for i in range(128):
            lines += p[i] == c'\n'
            colons += p[i] == c':'
        chunk.n_lines += lines
        chunk.n_colons += colons
        p += 128
    while p < chunk.end:
        chunk.n_lines += p[0] == c'\n'
        chunk.n_colons += p[0] == c':'
        p += 1


cdef inline bint is_blank(char c) noexcept nogil:
    return c == c' ' or c == c'\t'


cdef inline bint ends_item(char c) noexcept nogil:
    return c == c' ' or c == c'\n' or c == c'\t' or c == c'\r' or c == c'#'


cdef const char *line_end(const char *p, const char *text_end, const char **fault_place) noexcept nogil:
    """The start of the next line, from a place where a row may end; NULL at a lone carriage return."""
    cdef const char *end = p
    cdef const char *stray
    if p[0] == c'#':
        # any bytes, except that a carriage return could hide rows of a file with old line ends
        end = <const char *>memchr(p, c'\n', text_end - p)
        stray = <const char *>memchr(p, c'\r', end - p)
        if stray != NULL and stray + 1 != end:
            fault_place[0] = stray
            return NULL
    elif p[0] == c'\r':
        end = p + 1
        if end[0] != c'\n':
            fault_place[0] = p
            return NULL
    return end + 1


cdef Fault parse_label(const char *p, const char **end, value_t *label) noexcept nogil:
    cdef int status = NUMBER_OK
    end[0] = parse_number_at(p, label, &status)
    if status == NUMBER_MALFORMED or not ends_item(end[0][0]):
        return BAD_LABEL
    if status == NUMBER_INFINITE:
        return INFINITE_LABEL
    if not whole_is_exact(p, end[0], label[0]):
        return INEXACT_LABEL
    label[0] += 0.0     # -0 becomes 0
    return NO_FAULT


cdef const char *after_qid(const char *p) noexcept nogil:
    """The end of the `qid:integer` that starts at p, or NULL."""
    if memcmp(p, b"qid:", 4) != 0:
        return NULL
    p += 4
    if p[0] == c'-' or p[0] == c'+':
        p += 1
    if not c'0' <= p[0] <= c'9':
        return NULL
    while c'0' <= p[0] <= c'9':
        p += 1
    return p if ends_item(p[0]) else NULL


cdef Fault index_fault(const char *p, const char *end, index_t index, index_t previous, Job *job) noexcept nogil:
    """What is wrong with the digits at [p, end); NO_FAULT where only zeros made them many."""
    while end - p > 1 and p[0] == c'0':
        p += 1
    if end - p > INDEX_DIGITS or index > job.largest:
        return INDEX_TOO_LARGE
    if index < job.base:
        return INDEX_ZERO
    if index <= previous:
        return INDEX_NOT_ASCENDING
    return NO_FAULT


cdef void parse_chunk(void *context, int64_t k) noexcept nogil:
    """Parse a chunk's rows into their place, up to the first fault."""
    cdef Job *job = <Job *>context
    cdef Chunk *chunk = &job.chunks[k]
    cdef value_t *values = job.values + chunk.first_value
    cdef column_t *columns = job.columns + chunk.first_value
    cdef index_t *row_ends = job.indptr + chunk.first_row + 1
    cdef value_t *labels = job.labels + chunk.first_row
    cdef index_t base = job.base, largest = job.largest
    cdef index_t n_rows = 0, n_values = 0, n_columns = 0
    cdef index_t index, previous = 0
    cdef const char *p = chunk.begin
    cdef const char *start = p
    cdef Fault fault = NO_FAULT
    cdef value_t value
    cdef unsigned int digit
    cdef int status = NUMBER_OK

    while p < chunk.end:
        while is_blank(p[0]):
            p += 1
        start = p
        if p[0] == c'\n' or p[0] == c'\r' or p[0] == c'#':
            p = line_end(p, chunk.end, &start)
            if p == NULL:
                fault = STRAY_RETURN
                break
            if job.strict_lines:
                fault = COMMENT if start[0] == c'#' else EMPTY_LINE
                break
            continue

        fault = parse_label(start, &p, &labels[n_rows])
        if fault != NO_FAULT:
            break
        while is_blank(p[0]):
            p += 1
        if p[0] == c'q' and not job.strict_lines:
            start = p
            p = after_qid(p)
            if p == NULL:
                fault = BAD_QID
                break

        previous = base - 1
        while True:
            while is_blank(p[0]):
                p += 1
            start = p
            digit = <unsigned char>p[0] - <unsigned int>c'0'
            if digit > 9:
                break
            index = digit
            p += 1
            digit = <unsigned char>p[0] - <unsigned int>c'0'
            while digit <= 9:
                index = <index_t>(<size_t>index * 10 + digit)   # may wrap: the count of digits tells
                p += 1
                digit = <unsigned char>p[0] - <unsigned int>c'0'
            if p[0] != c':':
                fault = BAD_ITEM
                break
            if index <= previous or index > largest or p - start > INDEX_DIGITS:
                fault = index_fault(start, p, index, previous, job)
                if fault != NO_FAULT:
                    break
            p += 1
            while is_blank(p[0]):
                p += 1
            start = p
            p = parse_number_at(p, &value, &status)
            if status != NUMBER_OK or not ends_item(p[0]):
                fault = INFINITE_VALUE if status == NUMBER_INFINITE and ends_item(p[0]) else BAD_VALUE
                break
            values[n_values] = value
            columns[n_values] = <column_t>(index - base)
            n_values += value != 0
            previous = index
        if fault != NO_FAULT:
            break

        if p[0] == c'\n':
            p += 1
        elif p[0] == c'\r' or (p[0] == c'#' and not job.strict_lines):
            p = line_end(p, chunk.end, &start)
            if p == NULL:
                fault = STRAY_RETURN
                break
        else:
            fault = COMMENT if p[0] == c'#' else BAD_ITEM
            break
        row_ends[n_rows] = n_values
        n_rows += 1
        if previous - base >= n_columns:
            n_columns = previous - base + 1

    chunk.n_rows = n_rows
    chunk.n_values = n_values
    chunk.n_columns = n_columns
    chunk.fault = fault
    chunk.fault_place = start
    chunk.previous = previous


cdef Chunk *gather_chunks(Job *job) noexcept nogil:
    """Move the chunks' results together, up to a chunk with a fault, which is returned."""
    cdef Chunk *chunk
    cdef index_t k, i
    for k in range(job.n_chunks):
        chunk = &job.chunks[k]
        if chunk.fault != NO_FAULT:
            return chunk
        if chunk.first_value != job.n_values:
            memmove(job.values + job.n_values, job.values + chunk.first_value, chunk.n_values * sizeof(value_t))
            memmove(job.columns + job.n_values, job.columns + chunk.first_value, chunk.n_values * sizeof(column_t))
        if chunk.first_row != job.n_rows:
            memmove(job.labels + job.n_rows, job.labels + chunk.first_row, chunk.n_rows * sizeof(value_t))
        for i in range(1, chunk.n_rows + 1):
            job.indptr[job.n_rows + i] = job.indptr[chunk.first_row + i] + job.n_values
        job.n_rows += chunk.n_rows
        job.n_values += chunk.n_values
        job.n_lines += chunk.n_lines
        job.n_columns = max(job.n_columns, chunk.n_columns)
    return NULL


cdef class RowParser:
    """Collects rows block by block; `feed` until the text ends, then `finish`."""

    cdef Job job
    cdef index_t row_room, value_room, chunk_bytes
    cdef int threads

    def __init__(self, index_t base, index_t largest, bint strict_lines, int threads, index_t chunk_bytes):
        self.job.base = base
        self.job.largest = largest
        self.job.strict_lines = strict_lines
        self.threads = threads
        self.chunk_bytes = chunk_bytes
        self.grow(1, 1)
        self.job.indptr[0] = 0

    def __dealloc__(self):
        free(self.job.values)
        free(self.job.columns)
        free(self.job.indptr)
        free(self.job.labels)

    @property
    def n_rows(self):
        return self.job.n_rows

    @property
    def n_columns(self):
        return self.job.n_columns

    @property
    def n_lines(self):
        return self.job.n_lines

    def feed(self, const uint8_t[::1] text, index_t begin, index_t end):
        """Parse the lines text[begin:end]; PADDING more bytes must be there.

        None, or the first fault: (code, offset in text, index before it).
        """
        if begin >= end:
            return None
        if text[end - 1] != c'\n' or text.shape[0] < end + READABLE_BEHIND:
            raise ValueError("a block needs a final line end and padding")
        cdef Job *job = &self.job
        cdef const char *first = <const char *>&text[0]
        cdef index_t chunk_bytes = self.chunk_bytes
        cdef int threads = self.threads
        cdef Chunk *faulty
        job.n_chunks = (end - begin) // chunk_bytes + 1
        job.chunks = <Chunk *>resized(NULL, job.n_chunks * sizeof(Chunk))
        try:
            with nogil:
                cut_chunks(job, first + begin, first + end, chunk_bytes)
                parallel_for(job.n_chunks, threads, count_chunk, job)
            self.place_chunks()
            with nogil:
                parallel_for(job.n_chunks, threads, parse_chunk, job)
                faulty = gather_chunks(job)
            if faulty != NULL:
                return faulty.fault, faulty.fault_place - first, faulty.previous
            return None
        finally:
            free(job.chunks)
            job.chunks = NULL

    cdef int place_chunks(self) except -1:
        """Give each chunk the place that it needs at most."""
        cdef Job *job = &self.job
        cdef index_t k, row = job.n_rows, value = job.n_values
        for k in range(job.n_chunks):
            job.chunks[k].first_row = row
            job.chunks[k].first_value = value
            row += job.chunks[k].n_lines
            value += job.chunks[k].n_colons
        return self.grow(row, value)

    cdef int grow(self, index_t rows, index_t values) except -1:
        """Make room for so many rows and values in all."""
        cdef Job *job = &self.job
        if values > self.value_room:
            values += values >> 1
            job.values = <value_t *>resized(job.values, values * sizeof(value_t))
            job.columns = <column_t *>resized(job.columns, values * sizeof(column_t))
            self.value_room = values
        if rows > self.row_room:
            rows += rows >> 1
            job.indptr = <index_t *>resized(job.indptr, (rows + 1) * sizeof(index_t))
            job.labels = <value_t *>resized(job.labels, rows * sizeof(value_t))
            self.row_room = rows
        return 0

    def finish(self):
        """Hand over row pointers, columns, values and labels."""
        cdef Job *job = &self.job
        self.row_room = self.value_room = 0
        return (
            handed_over(<void **>&job.indptr, job.n_rows + 1, np.dtype(np.int64)),
            handed_over(<void **>&job.columns, job.n_values, np.dtype(np.int32)),
            handed_over(<void **>&job.values, job.n_values, np.dtype(np.float64)),
            handed_over(<void **>&job.labels, job.n_rows, np.dtype(np.float64)),
        )


cdef void cut_chunks(Job *job, const char *begin, const char *end, index_t chunk_bytes) noexcept nogil:
    """Cut [begin, end) after the first line end at or behind each multiple of `chunk_bytes`."""
    cdef index_t k
    cdef const char *cut = begin
    cdef const char *aim
    for k in range(job.n_chunks):
        job.chunks[k].begin = cut
        aim = begin + (k + 1) * chunk_bytes
        if aim >= end:
            cut = end
        elif aim > cut:
            cut = <const char *>memchr(aim, c'\n', end - aim) + 1
        job.chunks[k].end = cut


cdef void *resized(void *memory, size_t n_bytes) except NULL:
    memory = realloc(memory, n_bytes)
    if memory == NULL:
        raise MemoryError()
    return memory


cdef object handed_over(void **place, index_t n_items, dtype):
    """An array that owns the memory at `place` from now on; room that was not used is given back."""
    cdef void *memory = place[0]
    cdef index_t item_bytes = dtype.itemsize
    cdef view_array owner
    if n_items == 0:
        return np.empty(0, dtype)
    owner = view_array(shape=(n_items,), itemsize=item_bytes, format=dtype.char, allocate_buffer=False)
    place[0] = NULL
    cdef void *fitted = realloc(memory, n_items * item_bytes)
    owner.data = <char *>(memory if fitted == NULL else fitted)
    owner.callback_free_data = free
    return np.asarray(owner, dtype)


def parse_number(bytes text, bint by_strtod=False):
    """One number in the grammar of data files; None where `text` is not exactly that.

    >>> parse_number(b"-1.5e3")
    -1500.0
    """
    cdef bytes padded = text + b"\n" + bytes(READABLE_BEHIND)
    cdef const char *start = padded
    cdef double number = 0.0
    cdef int status = NUMBER_OK
    cdef const char *end = parse_number_at(start, &number, &status)
    if status == NUMBER_MALFORMED or end - start != len(text):
        return None
    if by_strtod:
        number = parse_by_strtod(start + 1 if start[0] == c'-' or start[0] == c'+' else start)
        return -number if start[0] == c'-' else number
    return number
