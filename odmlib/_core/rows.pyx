"""Products with the rows of a linear machine: X w, X' u, (X' diag(c) X) v and X' diag(c) X.

Every sum that crosses rows is taken per chunk and then in chunk order. The number of chunks depends on
the data alone, so a result does not depend on the number of threads.
"""

cimport cython
from libc.string cimport memset

from odmlib._core.parallel cimport parallel_for
from odmlib._core.types cimport column_t, index_t
from odmlib._core.views cimport data_of

import numpy as np

CHUNK_NONZEROS = 1 << 16         # work that is worth handing to a thread
MAX_CHUNKS = 16
MAX_SCRATCH_BYTES = 64 << 20         # for the sums that chunks keep of their own


@cython.final
cdef class Rows:
    """CSR rows (a Dataset's arrays) with an implicit last column of constant value `bias`."""

    def __init__(self, dataset, double bias=0.0):
        self.indptr = dataset.indptr
        self.indices = dataset.indices
        self.values = dataset.values
        self.bias = bias
        self.n_rows = dataset.n_rows
        self.n_nonzeros = dataset.n_nonzeros
        self.n_columns = dataset.n_features + (1 if bias != 0 else 0)
        self.starts = {}

    cdef double dot(self, index_t i, const double *w) noexcept nogil:
        cdef double total = 0.0
        cdef index_t k
        for k in range(self.indptr[i], self.indptr[i + 1]):
            total += self.values[k] * w[self.indices[k]]
        if self.bias != 0:
            total += self.bias * w[self.n_columns - 1]
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
        """The rows as a Dataset, without the bias column; the arrays are shared."""
        from odmlib.data.dataset import Dataset

        n_features = self.n_columns - (1 if self.bias != 0 else 0)
        return Dataset(np.asarray(self.indptr), np.asarray(self.indices), np.asarray(self.values), n_features)

    def dense(self):
        """The rows as a matrix (n_rows x n_columns) where all are full and there is no bias column; else None."""
        if self.bias != 0 or self.n_rows == 0 or self.n_nonzeros != self.n_rows * self.n_columns:
            return None
        return np.asarray(self.values).reshape(self.n_rows, self.n_columns)

    def squared_norms(self):
        """|x_i|^2 of every row, bias column included."""
        norms = np.empty(self.n_rows)
        cdef double[::1] out = norms
        cdef double total
        cdef index_t i, k
        with nogil:
            for i in range(self.n_rows):
                total = self.bias * self.bias
                for k in range(self.indptr[i], self.indptr[i + 1]):
                    total += self.values[k] * self.values[k]
                out[i] = total
        return norms

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
        assert w.shape[0] == self.n_columns
        scores = np.empty(self.n_rows)
        cdef double[::1] out = scores
        cdef const index_t[::1] starts = self._chunk_starts(0)
        cdef Job job = Job(<void *>self, &starts[0], NULL, NULL, data_of(w), data_of(out), 0)
        with nogil:
            parallel_for(starts.shape[0] - 1, threads, product_chunk, &job)
        return scores

    def products(self, const double[:, ::1] weights, int threads=1):
        """X W for several outputs (columns of W): (rows x outputs)"""
        assert weights.shape[0] == self.n_columns
        scores = np.zeros((self.n_rows, weights.shape[1]))
        cdef double[:, ::1] out = scores
        if scores.size == 0 or self.n_columns == 0:
            return scores
        cdef const index_t[::1] starts = self._chunk_starts(0)
        cdef Job job = Job(<void *>self, &starts[0], NULL, NULL, &weights[0, 0], &out[0, 0], weights.shape[1])
        with nogil:
            parallel_for(starts.shape[0] - 1, threads, products_chunk, &job)
        return scores

    def transposed_product(self, const double[::1] u, int threads=1):
        """X' u"""
        assert u.shape[0] == self.n_rows
        return summed(self, add_row, u, u, self.n_columns, threads)

    def transposed_products(self, const double[:, ::1] coefficients, int threads=1):
        """X' U for several columns of U (rows x outputs): (columns x outputs)"""
        cdef index_t n = coefficients.shape[1], n_sums = self.n_columns * n
        assert coefficients.shape[0] == self.n_rows
        if n_sums == 0 or self.n_rows == 0:
            return np.zeros((self.n_columns, n))
        cdef const index_t[::1] starts = self._chunk_starts(n_sums)
        cdef index_t n_chunks = starts.shape[0] - 1
        partial = np.zeros((n_chunks, n_sums))
        cdef double[:, ::1] sums = partial
        cdef Job job = Job(<void *>self, &starts[0], NULL, &coefficients[0, 0], NULL, &sums[0, 0], n)
        with nogil:
            parallel_for(n_chunks, threads, transposed_chunk, &job)
        total = partial[0]
        for chunk in range(1, n_chunks):
            total += partial[chunk]
        return total.reshape(self.n_columns, n)

    def restricted(self, rows):
        """Some of the rows, in the given order."""
        cdef Rows part = Rows.__new__(Rows)
        rows = np.asarray(rows, dtype=np.int64)
        starts = np.asarray(self.indptr)
        lengths = np.diff(starts)[rows]
        ends = np.cumsum(lengths)
        places = np.arange(lengths.sum()) + np.repeat(starts[rows] - (ends - lengths), lengths)
        part.indptr = np.concatenate([[0], ends]).astype(np.int64)
        part.indices, part.values = np.asarray(self.indices)[places], np.asarray(self.values)[places]
        part.bias, part.n_rows, part.n_columns = self.bias, len(rows), self.n_columns
        part.n_nonzeros = len(places)
        part.starts = {}
        return part

    def hessian_product(self, const double[::1] coefficients, const double[::1] v, int threads=1):
        """X' diag(coefficients) X v in one pass over the rows."""
        assert coefficients.shape[0] == self.n_rows and v.shape[0] == self.n_columns
        return summed(self, add_image, coefficients, v, self.n_columns, threads)

    def quadratic_forms(self, const double[:, ::1] matrix, int threads=1):
        """x_i' M x_i of every row, for a symmetric matrix M."""
        assert matrix.shape[0] == self.n_columns and matrix.shape[1] == self.n_columns
        forms = np.zeros(self.n_rows)
        if self.n_columns == 0:
            return forms
        cdef double[::1] out = forms
        cdef const index_t[::1] starts = self._chunk_starts(0)
        cdef Job job = Job(<void *>self, &starts[0], NULL, NULL, &matrix[0, 0], data_of(out), 0)
        with nogil:
            parallel_for(starts.shape[0] - 1, threads, quadratic_chunk, &job)
        return forms

    def hessian_diagonal(self, const double[::1] coefficients, int threads=1):
        """The diagonal of X' diag(coefficients) X."""
        assert coefficients.shape[0] == self.n_rows
        return summed(self, add_squares, coefficients, coefficients, self.n_columns, threads)

    def gram(self, const double[::1] coefficients, int threads=1):
        """X' diag(coefficients) X as a symmetric matrix; rows with coefficient 0 cost nothing."""
        assert coefficients.shape[0] == self.n_rows
        n = self.n_columns
        lower = summed(self, add_outer_product, coefficients, coefficients, n * n, threads).reshape(n, n)
        return lower + np.tril(lower, -1).T


# sums += coefficient times something of row i; `vector` is v for those that need one
ctypedef void (*row_task)(Rows rows, index_t i, double coefficient, const double *vector, double *sums) noexcept nogil

cdef struct Job:
    void *rows
    const index_t *starts
    row_task task
    const double *coefficients
    const double *vector          # w or v
    double *out
    index_t n_sums                # doubles per chunk in out; of products and transposed products: outputs


cdef void product_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        job.out[i] = (<Rows>job.rows).dot(i, job.vector)


cdef void quadratic_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        job.out[i] = (<Rows>job.rows).quadratic_form(i, job.vector)


cdef void products_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        (<Rows>job.rows).dots(i, job.vector, job.n_sums, job.out + i * job.n_sums)


cdef void transposed_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t i, n = job.n_sums
    cdef double *sums = job.out + chunk * (<Rows>job.rows).n_columns * n
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        (<Rows>job.rows).adds(i, job.coefficients + i * n, n, sums)


cdef summed(Rows rows, row_task task, const double[::1] coefficients, const double[::1] vector,
            index_t n_sums, int threads):
    """`task` for every row whose coefficient is not 0; chunks keep sums of their own, added in chunk order."""
    cdef const index_t[::1] starts = rows._chunk_starts(n_sums)
    cdef index_t n_chunks = starts.shape[0] - 1
    partial = np.empty((n_chunks, n_sums))
    cdef double[:, ::1] sums = partial
    cdef double *out = NULL
    if n_sums:
        out = &sums[0, 0]
    cdef Job job = Job(<void *>rows, &starts[0], task, data_of(coefficients), data_of(vector), out, n_sums)
    with nogil:
        parallel_for(n_chunks, threads, sum_chunk, &job)
    total = partial[0]
    for chunk in range(1, n_chunks):
        total += partial[chunk]
    return total


cdef void sum_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef double *sums = job.out + chunk * job.n_sums
    cdef index_t i
    memset(sums, 0, job.n_sums * sizeof(double))
    for i in range(job.starts[chunk], job.starts[chunk + 1]):
        if job.coefficients[i] != 0:
            job.task(<Rows>job.rows, i, job.coefficients[i], job.vector, sums)


cdef void add_row(Rows rows, index_t i, double coefficient, const double *vector, double *sums) noexcept nogil:
    """sums += coefficient x_i"""
    rows.add(i, coefficient, sums)


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
