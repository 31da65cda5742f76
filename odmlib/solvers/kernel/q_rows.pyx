"""Rows of K for solvers that work block by block, wherever they come from.

A solver takes a block up with `fetch`. Then `gather` gives it the block's own matrix, with signs, and `add` follows a
change of the block's variables up in the scores f = K c of all rows. KernelRows has a cache of kernel rows. LinearRows
is K = XX' without any: it keeps w = X'c, and f = X w.
"""

from libc.math cimport fabs
from libc.stdlib cimport free, malloc

import numpy as np

from odmlib._core.parallel cimport parallel_for
from odmlib._core.rows cimport Rows
from odmlib._core.types cimport index_t, kernel_t
from odmlib._core.views cimport data_of
from odmlib.kernels.cache cimport RowCache
from odmlib.solvers.linalg.dense cimport ODM_FACTOR_BLOCK, odm_add_rows, odm_factor_line

cdef index_t KERNEL_CHUNKS = 32
cdef index_t LINEAR_CHUNKS = 4      # each needs memory for a row that is written out
# Of a product of two values listed by column, in products of a row and a vector. By column, blocks took 0.3 (news20),
# 0.5 (rcv1, reuters) and 0.8 (a9a) of the time; always by column as long as with 2. Dense rows share all columns.
cdef double SHARED_COST = 2.0


cdef struct GatherJob:
    void *source
    const double *signs
    double *Q
    index_t stride


cdef void gather_chunk(void *context, index_t chunk) noexcept nogil:
    cdef GatherJob *job = <GatherJob *>context
    (<QRows>job.source)._gather_chunk(chunk, job.signs, job.Q, job.stride)


cdef class QRows:
    """What both kinds share: the block at hand and its matrix."""

    cdef _begin(self, index_t n_rows, index_t most_rows, diagonal, bint float64, int threads, index_t n_chunks):
        if most_rows < 1:
            raise ValueError("a block must hold at least one row")
        self.n_rows, self.most_rows, self.size = n_rows, most_rows, 0
        self.diagonal, self.float64, self.threads, self.n_chunks = diagonal, float64, threads, n_chunks
        self.sums = []
        self.block = np.zeros(most_rows, dtype=np.int64)
        self.factors = np.zeros(most_rows)

    cpdef fetch(self, const index_t[::1] rows):
        cdef index_t k
        if rows.shape[0] > self.most_rows:
            raise ValueError(f"a block holds at most {self.most_rows} rows, found {rows.shape[0]}")
        for k in range(rows.shape[0]):
            if not 0 <= rows[k] < self.n_rows:
                raise ValueError(f"there is no row {rows[k]} among {self.n_rows}")
            self.block[k] = rows[k]
        self.size = rows.shape[0]

    cpdef prefer_held(self, double[::1] gains, double factor):
        pass

    cpdef gather(self, const double[::1] signs, double[:, ::1] Q):
        cdef index_t j, k
        if signs.shape[0] < self.size or min(Q.shape[0], Q.shape[1]) < self.size:
            raise ValueError("the arrays are too short for the block")
        if self.size == 0:
            return
        cdef GatherJob job = GatherJob(<void *>self, &signs[0], &Q[0, 0], Q.shape[1])
        with nogil:
            parallel_for(self.n_chunks, self.threads, gather_chunk, &job)
            for k in range(self.size):
                for j in range(k):
                    Q[j, k] = Q[k, j]

    cpdef add(self, const double[::1] factors, double[::1] scores):
        raise NotImplementedError

    cdef _check_change(self, const double[::1] factors, const double[::1] scores):
        if factors.shape[0] < self.size or scores.shape[0] != self.n_rows:
            raise ValueError("a factor for each row of the block and a score for each row of all are needed")

    cdef void _gather_chunk(self, index_t chunk, const double *signs, double *Q, index_t stride) noexcept nogil:
        pass


cdef class KernelRows(QRows):
    """Rows of a kernel, kept in a cache."""

    def __cinit__(self, RowCache cache, index_t most_rows, int threads=1):
        self.cache = cache
        self._begin(cache.n_columns, min(most_rows, cache.capacity), cache.kernel.diagonal(), cache.wide, threads,
                    KERNEL_CHUNKS)
        self.pointers = <void **>malloc(self.most_rows * sizeof(void *))
        self.changed = <void **>malloc(self.most_rows * sizeof(void *))
        if self.pointers is NULL or self.changed is NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.pointers)
        free(self.changed)

    cpdef fetch(self, const index_t[::1] rows):
        cdef index_t n = rows.shape[0]
        QRows.fetch(self, rows)
        self.size = 0     # no pointer is valid if this fails
        if n:
            with nogil:
                self.cache.fetch(&self.block[0], n, self.pointers)
        self.size = n

    cpdef prefer_held(self, double[::1] gains, double factor):
        cdef index_t i
        if gains.shape[0] != self.n_rows:
            raise ValueError("a gain for each row is needed")
        with nogil:
            for i in range(self.n_rows):
                if self.cache.holds(i):
                    gains[i] *= factor

    cdef void _gather_chunk(self, index_t chunk, const double *signs, double *Q, index_t stride) noexcept nogil:
        cdef index_t j, k = chunk
        cdef double *line
        cdef const kernel_t *floats
        cdef const double *doubles
        while k < self.size:
            line = Q + k * stride
            if self.float64:
                doubles = <const double *>self.pointers[k]
                for j in range(k + 1):
                    line[j] = signs[k] * signs[j] * doubles[self.block[j]]
            else:
                floats = <const kernel_t *>self.pointers[k]
                for j in range(k + 1):
                    line[j] = signs[k] * signs[j] * floats[self.block[j]]
            k += KERNEL_CHUNKS    # long and short rows of the triangle for every chunk

    cpdef add(self, const double[::1] factors, double[::1] scores):
        cdef index_t k, n = 0
        self._check_change(factors, scores)
        with nogil:
            for k in range(self.size):
                if factors[k] != 0:
                    self.factors[n] = factors[k]
                    self.changed[n] = self.pointers[k]
                    n += 1
            odm_add_rows(<const void **>self.changed, self.float64, &self.factors[0], n, self.n_rows,
                         data_of(scores), self.threads)


cdef class LinearRows(QRows):
    """Rows of a linear machine: K = XX' is computed for the block alone."""

    def __cinit__(self, Rows rows, index_t most_rows, int threads=1):
        self.rows = rows
        self._begin(rows.n_rows, most_rows, rows.squared_norms(), True, threads, LINEAR_CHUNKS)
        self.weights = np.zeros(rows.n_columns)
        self.sums = [self.weights]
        self.spread = np.zeros((LINEAR_CHUNKS, max(1, rows.n_columns)))
        self.starts, self.ends = np.zeros((2, rows.n_columns), dtype=np.int64)
        self.list_rows, self.list_values = np.empty(0, dtype=np.int32), np.empty(0)

    cpdef gather(self, const double[::1] signs, double[:, ::1] Q):
        self._list_columns()
        QRows.gather(self, signs, Q)

    cdef _list_columns(self):
        """The block's values by column, rows ascending, where most pairs of rows share few columns.

        A pair then costs as much as the columns that it shares, and not as much as its rows are long.
        """
        cdef index_t k, p, c, i, place = 0, total = 0
        cdef double shared = 0, whole = 0
        self.by_column = False
        for k in range(self.size):
            i = self.block[k]
            total += self.rows.indptr[i + 1] - self.rows.indptr[i]
            whole += <double>(self.rows.indptr[i + 1] - self.rows.indptr[i]) * (self.size - k)
        if total > self.list_rows.shape[0]:
            self.list_rows, self.list_values = np.empty(total, dtype=np.int32), np.empty(total)
        with nogil:
            for k in range(self.size):
                i = self.block[k]
                for p in range(self.rows.indptr[i], self.rows.indptr[i + 1]):
                    self.ends[self.rows.indices[p]] += 1
                    shared += self.ends[self.rows.indices[p]]
            if SHARED_COST * shared < whole:
                self.by_column = True
                # the first row that has a column gives it its place; -1 - place: given
                for k in range(self.size):
                    i = self.block[k]
                    for p in range(self.rows.indptr[i], self.rows.indptr[i + 1]):
                        c = self.rows.indices[p]
                        if self.ends[c] > 0:
                            self.starts[c] = place
                            place += self.ends[c]
                            self.ends[c] = -1 - self.starts[c]
                        self.list_rows[-1 - self.ends[c]] = <int>k
                        self.list_values[-1 - self.ends[c]] = self.rows.values[p]
                        self.ends[c] -= 1
            for k in range(self.size):
                i = self.block[k]
                for p in range(self.rows.indptr[i], self.rows.indptr[i + 1]):
                    self.ends[self.rows.indices[p]] = 0

    cdef void _gather_chunk(self, index_t chunk, const double *signs, double *Q, index_t stride) noexcept nogil:
        cdef index_t k = chunk
        while k < self.size:
            if self.by_column:
                self._shared_columns(k, signs, Q + k * stride)
            else:
                self._whole_rows(chunk, k, signs, Q + k * stride)
            k += LINEAR_CHUNKS

    cdef void _shared_columns(self, index_t k, const double *signs, double *line) noexcept nogil:
        cdef index_t j, p, q, i = self.block[k]
        cdef double value, square = self.rows.bias * self.rows.bias
        cdef const int *list_rows = &self.list_rows[0] if self.list_rows.shape[0] else NULL
        cdef const double *list_values = &self.list_values[0] if self.list_rows.shape[0] else NULL
        for j in range(k + 1):
            line[j] = square
        for p in range(self.rows.indptr[i], self.rows.indptr[i + 1]):
            value = self.rows.values[p]
            q = self.starts[self.rows.indices[p]]
            while list_rows[q] < k:      # the list holds row k itself
                line[list_rows[q]] += value * list_values[q]
                q += 1
            line[k] += value * value
        for j in range(k + 1):
            line[j] *= signs[k] * signs[j]

    cdef void _whole_rows(self, index_t chunk, index_t k, const double *signs, double *line) noexcept nogil:
        # `spread` is 0 before and after
        cdef index_t j, p, i = self.block[k]
        cdef double *spread = &self.spread[chunk, 0]
        self.rows.add(i, signs[k], spread)
        for j in range(k + 1):
            line[j] = signs[j] * self.rows.dot(self.block[j], spread)
        for p in range(self.rows.indptr[i], self.rows.indptr[i + 1]):
            spread[self.rows.indices[p]] = 0
        if self.rows.bias != 0:
            spread[self.rows.n_columns - 1] = 0

    cpdef add(self, const double[::1] factors, double[::1] scores):
        cdef index_t k
        cdef double *w = data_of(self.weights)
        self._check_change(factors, scores)
        with nogil:
            for k in range(self.size):
                if factors[k] != 0:
                    self.rows.add(self.block[k], factors[k], w)
        self._score(scores)

    cpdef rebuild(self, const double[::1] coefficients, double[::1] scores):
        self.weights[:] = self.rows.transposed_product(coefficients, self.threads)
        self._score(scores)

    cdef _score(self, double[::1] scores):
        cdef double[::1] products = self.rows.product(self.weights, self.threads)
        scores[:] = products


cdef class BlockState:
    """Signed duals with the scores f = K (y o duals) of all rows, and the block of rows at work."""

    cdef _prepare(self, QRows q, y):
        cdef index_t n = q.most_rows
        if len(y) != q.n_rows:
            raise ValueError(f"{q.n_rows} rows, but {len(y)} signs")
        self.q, self.n_rows, self.y = q, q.n_rows, y
        self.duals, self.scores, self.gains = np.zeros(self.n_rows), np.zeros(self.n_rows), np.zeros(self.n_rows)
        self.all_duals, self.all_scores, self.all_gains = self.duals, self.scores, self.gains
        self.rows = np.zeros(n, dtype=np.int64)
        self.label, self.a, self.before, self.change = np.zeros((4, n))
        self.stride = odm_factor_line(n)
        self.Q, self.factor = np.empty((n, self.stride)), np.empty((n, self.stride))
        self.work = np.empty(self.stride * ODM_FACTOR_BLOCK)

    def resume(self, duals, scores):
        """Go on from duals whose scores are known."""
        self.duals[:] = duals
        self.scores[:] = scores

    def count(self, index_t additions, double travel):
        """The scores were changed from outside, with the rounding of so many additions."""
        self.additions = self.additions + additions
        self.travel = self.travel + travel

    def add_rows(self, const index_t[::1] rows, const double[::1] amounts):
        """Add to the duals of a block of rows and follow it up in all scores."""
        cdef index_t r
        if rows.shape[0] != amounts.shape[0]:
            raise ValueError(f"{rows.shape[0]} rows, but {amounts.shape[0]} amounts")
        self.q.fetch(rows)
        for r in range(rows.shape[0]):
            self.all_duals[rows[r]] += amounts[r]
            self.change[r] = amounts[r] * self.y[rows[r]]
        self._add_change()

    cdef _add_change(self):
        """Follow the changes of the block's duals, with their signs, up in all scores."""
        cdef index_t k
        for k in range(self.q.size):
            if self.change[k] != 0:
                self.additions = self.additions + 1
                self.travel = self.travel + fabs(self.change[k])
        self.q.add(self.change, self.all_scores)

    cdef _take(self, const index_t[::1] rows):
        cdef index_t k
        self.q.fetch(rows)
        self.size = rows.shape[0]
        for k in range(self.size):
            self.rows[k] = rows[k]
            self.label[k] = self.y[rows[k]]
            self.a[k] = self.before[k] = self.all_duals[rows[k]]
        self.q.gather(self.label, self.Q)

    cpdef commit(self):
        cdef index_t k
        for k in range(self.size):
            self.all_duals[self.rows[k]] = self.a[k]
            self.change[k] = (self.a[k] - self.before[k]) * self.label[k]
        self._add_change()


def add_block(block, const double[::1] factors, double[::1] sums, int threads):
    """sums += factors @ block for a block of float32 or float64; the same bits for every number of threads."""
    cdef index_t r, n = block.shape[0], n_columns = block.shape[1], row_bytes = n_columns * block.itemsize
    cdef bint float64 = block.dtype == np.float64
    if factors.shape[0] < n or sums.shape[0] != n_columns or not (float64 or block.dtype == np.float32):
        raise ValueError("a block of float32 or float64, a factor for each row and a sum for each column are needed")
    if block.size == 0:
        return
    cdef const char[::1] values = block.reshape(-1).view(np.int8)
    cdef const void **rows = <const void **>malloc(n * sizeof(void *))
    if rows is NULL:
        raise MemoryError
    with nogil:
        for r in range(n):
            rows[r] = &values[r * row_bytes]
        odm_add_rows(rows, float64, &factors[0], n, n_columns, &sums[0], threads)
    free(rows)
