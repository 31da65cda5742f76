"""Products with the rows of a linear machine: X w, X' u, (X' diag(c) X) v and X' diag(c) X.

Every sum that crosses rows is taken per chunk and then in chunk order. The number of chunks depends on
the data alone, so a result does not depend on the number of threads.
"""

cimport cython
from libc.math cimport fabs
from libc.string cimport memset

from odmlib._core.parallel cimport odm_task, parallel_for
from odmlib._core.types cimport column_t, index_t
from odmlib._core.views cimport data_of

import numpy as np

from odmlib._core.vectors import squared_norms, taken_rows

cdef extern from * nogil:
    void prefetch_line "__builtin_prefetch"(const void *place) noexcept

CHUNK_NONZEROS = 1 << 16         # work that is worth handing to a thread
MAX_CHUNKS = 16
cdef index_t PREFETCHED_VALUES = 128     # of a row: processors fetch the rest of a long one by themselves
MAX_SCRATCH_BYTES = 64 << 20         # for the sums that chunks keep of their own


@cython.final
cdef class Rows:
    """CSR rows with an implicit last column of constant value `bias`.

    `source` has the arrays indptr, indices and values and the number n_features, as a Dataset has; its class is
    called with these four where rows of its kind are wanted back.
    """

    def __init__(self, source, double bias=0.0):
        self.indptr = source.indptr
        self.indices = source.indices
        self.values = source.values
        self.bias = bias
        self.n_rows = self.indptr.shape[0] - 1
        self.n_nonzeros = self.values.shape[0]
        self.n_columns = source.n_features + (1 if bias != 0 else 0)
        self.kind = type(source)
        self.starts = {}
        if self.n_rows < 0 or self.indices.shape[0] != self.n_nonzeros or self.indptr[self.n_rows] > self.n_nonzeros:
            raise ValueError("the arrays of these rows do not fit together")

    cdef double dot(self, index_t i, const double *w) noexcept nogil:
        cdef double total = 0.0
        cdef index_t k
        for k in range(self.indptr[i], self.indptr[i + 1]):
            total += self.values[k] * w[self.indices[k]]
        if self.bias != 0:
            total += self.bias * w[self.n_columns - 1]
        return total

    cdef void prefetch(self, index_t i) noexcept nogil:
        cdef index_t k = self.indptr[i]
        cdef index_t end = min(self.indptr[i + 1], k + PREFETCHED_VALUES)
        while k < end:
            prefetch_line(&self.values[k])
            if (k - self.indptr[i]) % 16 == 0:
                prefetch_line(&self.indices[k])
            k += 8

    cdef double absolute_dot(self, index_t i, const double *w) noexcept nogil:
        cdef double total = 0.0
        cdef index_t k
        for k in range(self.indptr[i], self.indptr[i + 1]):
            total += fabs(self.values[k] * w[self.indices[k]])
        if self.bias != 0:
            total += fabs(self.bias * w[self.n_columns - 1])
        return total

    cdef void dots(self, index_t i, const double *weights, index_t n, double *sums) noexcept nogil:
        cdef index_t k, c
        cdef const double *line
        for k in range(self.indptr[i], self.indptr[i + 1]):
            line = weights + self.indices[k] * n
            for c in range(n):
                sums[c] += self.values[k] * line[c]
        if self.bias != 0:
            line = weights + (self.n_columns - 1) * n
            for c in range(n):
                sums[c] += self.bias * line[c]

    cdef void add(self, index_t i, double step, double *w) noexcept nogil:
        cdef index_t k
        for k in range(self.indptr[i], self.indptr[i + 1]):
            w[self.indices[k]] += step * self.values[k]
        if self.bias != 0:
            w[self.n_columns - 1] += step * self.bias

    cdef void adds(self, index_t i, const double *steps, index_t n, double *weights) noexcept nogil:
        cdef index_t k, c
        cdef double *line
        for k in range(self.indptr[i], self.indptr[i + 1]):
            line = weights + self.indices[k] * n
            for c in range(n):
                line[c] += self.values[k] * steps[c]
        if self.bias != 0:
            line = weights + (self.n_columns - 1) * n
            for c in range(n):
                line[c] += self.bias * steps[c]

    cdef double quadratic_form(self, index_t i, const double *matrix) noexcept nogil:
        cdef index_t begin = self.indptr[i]
        cdef index_t end = self.indptr[i + 1]
        cdef index_t k, other, n = self.n_columns
        cdef const double *line
        cdef double sums, total = 0.0
        for k in range(begin, end):
            line = matrix + self.indices[k] * n
            sums = 0.5 * line[self.indices[k]] * self.values[k]
            for other in range(begin, k):
                sums += line[self.indices[other]] * self.values[other]
            if self.bias != 0:
                sums += line[n - 1] * self.bias
            total += 2 * self.values[k] * sums
        if self.bias != 0:
            total += self.bias * self.bias * matrix[n * n - 1]
        return total

    def dataset(self):
        """The rows as what they were made of, without the bias column; its class may copy them."""
        n_features = self.n_columns - (1 if self.bias != 0 else 0)
        return self.kind(np.asarray(self.indptr), np.asarray(self.indices), np.asarray(self.values), n_features)

    def dense(self):
        """The rows as a matrix (n_rows x n_columns) where all are full and there is no bias column; else None."""
        if self.bias != 0 or self.n_rows == 0 or self.n_nonzeros != self.n_rows * self.n_columns:
            return None
        return np.asarray(self.values).reshape(self.n_rows, self.n_columns)

    def squared_norms(self):
        """|x_i|^2 of every row, bias column included."""
        return squared_norms(self.indptr, self.values, self.bias * self.bias)

    def row_lengths(self):
        """How many values each row has, bias column included."""
        return np.diff(np.asarray(self.indptr)) + (1 if self.bias != 0 else 0)

    def _chunk_starts(self, index_t sums_per_chunk):
        """Rows at which chunks of about equal work begin, for tasks that keep `sums_per_chunk` doubles each."""
        if sums_per_chunk in self.starts:
            return self.starts[sums_per_chunk]
        cdef index_t work = self.n_nonzeros + self.n_rows
        n_chunks = min(MAX_CHUNKS, work // CHUNK_NONZEROS)
        if sums_per_chunk:
            # clearing and adding the partial sums must stay small beside the work itself
            n_chunks = min(n_chunks, work // (2 * sums_per_chunk), MAX_SCRATCH_BYTES // (8 * sums_per_chunk))
        n_chunks = max(1, n_chunks)
        # the work before row i is indptr[i] + i
        before = np.asarray(self.indptr) + np.arange(self.n_rows + 1)
        starts = np.searchsorted(before, np.arange(1, n_chunks) * (work / n_chunks))
        starts = np.concatenate([[0], starts, [self.n_rows]]).astype(np.int64)
        return self.starts.setdefault(sums_per_chunk, starts)

    def product(self, const double[::1] w, int threads=1):
        """X w"""
        require(w.shape[0] == self.n_columns)
        scores = np.empty(self.n_rows)
        cdef double[::1] out = scores
        each_chunk(self, product_chunk, data_of(w), 1, data_of(out), threads)
        return scores

    def absolute_product(self, const double[::1] w, int threads=1):
        """|X| |w|, of the absolute values of all numbers"""
        require(w.shape[0] == self.n_columns)
        sums = np.empty(self.n_rows)
        cdef double[::1] out = sums
        each_chunk(self, absolute_chunk, data_of(w), 1, data_of(out), threads)
        return sums

    def absolute_transposed_product(self, const double[::1] u, int threads=1):
        """|X|' |u|, of the absolute values of all numbers"""
        require(u.shape[0] == self.n_rows)
        return summed(self, add_absolute, data_of(u), NULL, self.n_columns, threads)

    def products(self, const double[:, ::1] weights, int threads=1):
        """X W for several outputs (columns of W): (rows x outputs)"""
        cdef index_t n = weights.shape[1]
        require(weights.shape[0] == self.n_columns)
        scores = np.zeros((self.n_rows, n))
        cdef double[:, ::1] out = scores
        if scores.size and self.n_columns:
            each_chunk(self, products_chunk, &weights[0, 0], n, &out[0, 0], threads)
        return scores

    def transposed_product(self, const double[::1] u, int threads=1):
        """X' u"""
        require(u.shape[0] == self.n_rows)
        return summed(self, add_row, data_of(u), NULL, self.n_columns, threads)

    def transposed_products(self, const double[:, ::1] coefficients, int threads=1):
        """X' U for several columns of U (rows x outputs): (columns x outputs)"""
        cdef index_t n = coefficients.shape[1]
        require(coefficients.shape[0] == self.n_rows)
        if self.n_columns * n == 0 or self.n_rows == 0:
            return np.zeros((self.n_columns, n))
        return summed(self, NULL, &coefficients[0, 0], NULL, self.n_columns * n, threads).reshape(self.n_columns, n)

    def restricted(self, rows):
        """Some of the rows, in the given order."""
        cdef Rows part = Rows.__new__(Rows)
        arrays = np.asarray(self.indices), np.asarray(self.values)
        part.indptr, part.indices, part.values = taken_rows(np.asarray(self.indptr), rows, *arrays)
        part.bias, part.n_rows, part.n_columns = self.bias, len(rows), self.n_columns
        part.n_nonzeros = part.values.shape[0]
        part.kind, part.starts = self.kind, {}
        return part

    def hessian_product(self, const double[::1] coefficients, const double[::1] v, int threads=1):
        """X' diag(coefficients) X v in one pass over the rows."""
        require(coefficients.shape[0] == self.n_rows and v.shape[0] == self.n_columns)
        return summed(self, add_image, data_of(coefficients), data_of(v), self.n_columns, threads)

    def quadratic_forms(self, const double[:, ::1] matrix, int threads=1):
        """x_i' M x_i of every row, for a symmetric matrix M."""
        require(matrix.shape[0] == self.n_columns and matrix.shape[1] == self.n_columns)
        forms = np.zeros(self.n_rows)
        cdef double[::1] out = forms
        if self.n_columns:
            each_chunk(self, quadratic_chunk, &matrix[0, 0], 1, data_of(out), threads)
        return forms

    def hessian_diagonal(self, const double[::1] coefficients, int threads=1):
        """The diagonal of X' diag(coefficients) X."""
        require(coefficients.shape[0] == self.n_rows)
        return summed(self, add_squares, data_of(coefficients), NULL, self.n_columns, threads)

    def gram(self, const double[::1] coefficients, int threads=1):
        """X' diag(coefficients) X as a symmetric matrix; rows with coefficient 0 cost nothing."""
        require(coefficients.shape[0] == self.n_rows)
        n = self.n_columns
        lower = summed(self, add_outer_product, data_of(coefficients), NULL, n * n, threads, gram_chunk)
        lower = lower.reshape(n, n)
        return lower + np.tril(lower, -1).T


cdef int require(bint fits) except -1:
    if not fits:
        raise ValueError("the array does not have as many entries as there are rows or columns")
    return 0


# sums += coefficient times something of row i; `vector` is v for those that need one
ctypedef void (*row_task)(Rows rows, index_t i, double coefficient, const double *vector, double *sums) noexcept nogil

cdef struct Job:
    void *rows
    const index_t *starts
    row_task task
    const double *coefficients
    const double *vector          # w or v
    double *out
    index_t n_sums                # doubles per chunk in out, where chunks keep sums of their own
    index_t n_outputs


cdef int each_chunk(Rows rows, odm_task task, const double *vector, index_t n_outputs, double *out,
                    int threads) except -1:
    """`task` for all chunks; rows have their own places in `out`."""
    cdef const index_t[::1] starts = rows._chunk_starts(0)
    cdef Job job = Job(<void *>rows, &starts[0], NULL, NULL, vector, out, 0, n_outputs)
    with nogil:
        parallel_for(starts.shape[0] - 1, threads, task, &job)
    return 0


cdef summed(Rows rows, row_task task, const double *coefficients, const double *vector, index_t n_sums, int threads,
            odm_task of_chunk=sum_chunk):
    """`task` for every row whose coefficient is not 0 (NULL: rows have a coefficient for each of several outputs);
    chunks keep sums of their own, added in chunk order."""
    cdef const index_t[::1] starts = rows._chunk_starts(n_sums)
    cdef index_t n_chunks = starts.shape[0] - 1
    partial = np.empty((n_chunks, n_sums))
    cdef double[:, ::1] sums = partial
    cdef double *out = NULL
    if n_sums:
        out = &sums[0, 0]
    cdef index_t n_outputs = n_sums // max(<index_t>1, rows.n_columns)
    cdef Job job = Job(<void *>rows, &starts[0], task, coefficients, vector, out, n_sums, n_outputs)
    with nogil:
        parallel_for(n_chunks, threads, transposed_chunk if task is NULL else of_chunk, &job)
    total = partial[0]
    for chunk in range(1, n_chunks):
        total += partial[chunk]
    return total


cdef void product_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        job.out[i] = (<Rows>job.rows).dot(i, job.vector)


cdef void absolute_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        job.out[i] = (<Rows>job.rows).absolute_dot(i, job.vector)


cdef void quadratic_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        job.out[i] = (<Rows>job.rows).quadratic_form(i, job.vector)


cdef void products_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        (<Rows>job.rows).dots(i, job.vector, job.n_outputs, job.out + i * job.n_outputs)


cdef void transposed_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i, n = job.n_outputs
    cdef double *sums = cleared_sums(job, chunk)
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        (<Rows>job.rows).adds(i, job.coefficients + i * n, n, sums)


cdef inline double *cleared_sums(Job *job, index_t chunk) noexcept nogil:
    if job.n_sums > 0:  # without sums there is no memory, and memset may not be given NULL
        memset(job.out + chunk * job.n_sums, 0, job.n_sums * sizeof(double))
    return job.out + chunk * job.n_sums


cdef void sum_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    """`task` for every row whose coefficient is not 0."""
    cdef double *sums = cleared_sums(job, chunk)
    cdef index_t i
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        if job.coefficients[i] != 0:
            job.task(<Rows>job.rows, i, job.coefficients[i], job.vector, sums)


cdef void gram_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    add_gram(<Rows>job.rows, job.coefficients, job.starts[chunk], job.starts[chunk + 1], cleared_sums(job, chunk))


cdef void add_gram(Rows rows, const double *coefficients, index_t begin, index_t end, double *sums) noexcept nogil:
    """What `sum_chunk` does with add_outer_product, bit for bit: four full rows at once, so that the sums are read
    and written a fourth as often."""
    cdef index_t n_features = rows.n_columns - (1 if rows.bias != 0 else 0)
    cdef index_t[4] four
    cdef index_t i, k, waiting = 0
    for i in range(begin, end):
        if coefficients[i] == 0:
            continue
        four[waiting] = i
        waiting += 1
        if rows.indptr[i + 1] - rows.indptr[i] < n_features or n_features == 0:
            for k in range(waiting):
                add_outer_product(rows, four[k], coefficients[four[k]], NULL, sums)
            waiting = 0
        elif waiting == 4:
            add_four_outer_products(rows, four, coefficients, n_features, sums)
            waiting = 0
    for k in range(waiting):
        add_outer_product(rows, four[k], coefficients[four[k]], NULL, sums)


cdef void add_four_outer_products(Rows rows, const index_t *four, const double *coefficients, index_t n_features,
                                  double *sums) noexcept nogil:
    """add_outer_product of four rows in which no column is missing"""
    cdef const double *first = &rows.values[rows.indptr[four[0]]]
    cdef const double *second = &rows.values[rows.indptr[four[1]]]
    cdef const double *third = &rows.values[rows.indptr[four[2]]]
    cdef const double *fourth = &rows.values[rows.indptr[four[3]]]
    cdef double a, b, c, d, bias = rows.bias
    cdef double *line
    cdef index_t p, q, n = rows.n_columns
    for p in range(n):
        a = coefficients[four[0]] * (first[p] if p < n_features else bias)
        b = coefficients[four[1]] * (second[p] if p < n_features else bias)
        c = coefficients[four[2]] * (third[p] if p < n_features else bias)
        d = coefficients[four[3]] * (fourth[p] if p < n_features else bias)
        line = sums + p * n
        for q in range(min(p + 1, n_features)):
            line[q] = (((line[q] + a * first[q]) + b * second[q]) + c * third[q]) + d * fourth[q]
        if p == n_features:
            line[p] = (((line[p] + a * bias) + b * bias) + c * bias) + d * bias


cdef void add_row(Rows rows, index_t i, double coefficient, const double *vector, double *sums) noexcept nogil:
    """sums += coefficient x_i"""
    rows.add(i, coefficient, sums)


cdef void add_absolute(Rows rows, index_t i, double coefficient, const double *vector, double *sums) noexcept nogil:
    """sums += |coefficient| |x_i|"""
    cdef index_t k
    for k in range(rows.indptr[i], rows.indptr[i + 1]):
        sums[rows.indices[k]] += fabs(coefficient * rows.values[k])
    if rows.bias != 0:
        sums[rows.n_columns - 1] += fabs(coefficient * rows.bias)


cdef void add_image(Rows rows, index_t i, double coefficient, const double *vector, double *sums) noexcept nogil:
    """sums += coefficient <x_i, vector> x_i"""
    rows.add(i, coefficient * rows.dot(i, vector), sums)


cdef void add_squares(Rows rows, index_t i, double coefficient, const double *vector, double *sums) noexcept nogil:
    """sums += coefficient times the squares of x_i's entries"""
    cdef index_t k
    for k in range(rows.indptr[i], rows.indptr[i + 1]):
        sums[rows.indices[k]] += coefficient * rows.values[k] * rows.values[k]
    if rows.bias != 0:
        sums[rows.n_columns - 1] += coefficient * rows.bias * rows.bias


cdef void add_outer_product(Rows rows, index_t i, double coefficient, const double *vector,
                            double *sums) noexcept nogil:
    """sums (lower triangle, row-major) += coefficient x_i x_i'"""
    cdef index_t begin = rows.indptr[i]
    cdef index_t end = rows.indptr[i + 1]
    cdef index_t n = rows.n_columns
    cdef index_t n_features = n - (1 if rows.bias != 0 else 0)
    cdef const double *values = &rows.values[0] + begin if end > begin else NULL
    cdef const column_t *columns = &rows.indices[0] + begin if end > begin else NULL
    cdef index_t p, q, length = end - begin
    cdef double scaled
    cdef double *line
    for p in range(length):
        scaled = coefficient * values[p]
        line = sums + <index_t>columns[p] * n
        if length == n_features:      # a full row: columns are 0, 1, 2, ...
            for q in range(p + 1):
                line[q] += scaled * values[q]
        else:
            for q in range(p + 1):
                line[columns[q]] += scaled * values[q]
    if rows.bias != 0:
        scaled = coefficient * rows.bias
        line = sums + (n - 1) * n
        for q in range(length):
            line[columns[q]] += scaled * values[q]
        line[n - 1] += scaled * rows.bias
