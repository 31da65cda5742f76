"""Compiled sweeps over the dual of several label assignments at once; saddle.py holds the method's statement.

Rows on which all members agree need only the mean of the members' vectors, so that is what is kept:

    mix = sum_k mu_k v_k,    delta_k = the part of v_k that comes from disputed rows,    v_k = sum_i a_i Y_ik phi_i
    z_i = y_i <phi_i, mix>                                                  where all members say y_i
    z_i = ybar_i <phi_i, mix> + sum_k mu_k (Y_ik - ybar_i) <phi_i, delta_k>    on disputed rows, ybar = Y mu

Linear machines hold the vectors themselves, kernel machines their products with all rows.
"""

from libc.stdint cimport int8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

import numpy as np

from odmlib._core.parallel cimport parallel_for
from odmlib._core.random cimport shuffle
from odmlib._core.rows cimport Rows
from odmlib._core.types cimport index_t, uint64_t
from odmlib._core.views cimport data_of
from odmlib.kernels.cache cimport RowCache
from odmlib.losses.loss cimport MarginLoss

cdef extern from "dense.h" nogil:
    void odm_add_rows(const void **rows, bint wide, const double *factors, index_t n_rows, index_t n_columns,
                      double *sums, int n_threads) noexcept

BLOCK_ROWS = 128                 # kernel rows that are swept over together
cdef int BLOCK_SWEEPS = 5        # over one block at most
cdef double BLOCK_ENOUGH = 0.1   # of the block's largest violation: sweeps end there
cdef index_t CHUNKS = 64         # of rows, handed to threads


cdef class Members:
    """Duals a, labels Y (rows x members) and weights mu of the members; what both kinds share."""

    cdef MarginLoss loss
    cdef const double[::1] costs
    cdef const double[::1] diagonal
    cdef double[::1] a
    cdef const int8_t[:, ::1] Y
    cdef double[::1] mu
    cdef double[::1] ybar
    cdef const int8_t[::1] disputed
    cdef uint64_t generator
    cdef int threads
    cdef readonly index_t n_rows
    cdef readonly index_t n_members
    cdef readonly object duals
    cdef readonly object labels
    cdef readonly object shares           # mu
    cdef readonly object mean_labels      # ybar

    def _begin(self, MarginLoss loss, costs, diagonal, duals, labels, shares, uint64_t seed, int threads):
        self.loss, self.costs, self.diagonal = loss, costs, diagonal
        self.duals, self.labels, self.generator, self.threads = duals, labels, seed, threads
        self.a, self.Y = duals, labels
        self.n_rows, self.n_members = labels.shape
        self.disputed = (labels != labels[:, :1]).any(axis=1).astype(np.int8)
        self._take_shares(shares)

    def _take_shares(self, shares):
        self.shares = np.array(shares, dtype=np.float64)
        self.mean_labels = self.labels @ self.shares
        self.mu, self.ybar = self.shares, self.mean_labels
        agreed = np.asarray(self.disputed) == 0
        self.mean_labels[agreed] = self.labels[agreed, 0]      # exactly, whatever the shares round to

    cdef double margin(self, index_t i, double mixed, const double *parts) noexcept nogil:
        """z_i from <phi_i, mix> and <phi_i, delta_k>."""
        cdef double total = self.ybar[i] * mixed
        cdef index_t k
        if self.disputed[i]:
            for k in range(self.n_members):
                total += self.mu[k] * (self.Y[i, k] - self.ybar[i]) * parts[k]
        return total

    cdef double best_step(self, index_t i, double margin, double *violation) noexcept nogil:
        """The change of a_i that maximises the dual over it, and how far it was from its best."""
        violation[0] = self.loss.violation(self.a[i], margin, self.costs[i])
        if violation[0] <= 0:
            return 0.0
        cdef double h = self.diagonal[i]
        return self.loss.dual_argmin(margin - h * self.a[i], h, self.costs[i]) - self.a[i]


cdef class LinearMembers(Members):
    """mix (columns) and delta (columns x members, so that one value of a row touches neighbours)."""

    cdef Rows rows
    cdef double[::1] w
    cdef double[::1] parts                # delta, line after line
    cdef double[::1] sums
    cdef index_t[::1] order
    cdef index_t position
    cdef readonly object mix
    cdef readonly object delta

    def __init__(self, Rows rows, MarginLoss loss, costs, duals, labels, shares, seed, int threads):
        self.rows = rows
        self._begin(loss, costs, rows.squared_norms(), duals, labels, shares, seed, threads)
        self.order = np.arange(self.n_rows)
        self.sums = np.zeros(self.n_members)
        self.rebuild()

    def rebuild(self):
        """The vectors from the duals, against drift."""
        cdef index_t i
        self.mix = self.rows.transposed_product(self.mean_labels * self.duals, self.threads)
        self.delta = np.zeros((self.rows.n_columns, self.n_members))
        self.w, self.parts = self.mix, self.delta.reshape(-1)
        with nogil:
            for i in range(self.n_rows):
                if self.disputed[i] and self.a[i] != 0:
                    self.add_parts(i, self.a[i])

    def reweigh(self, shares):
        self.mix += self.delta @ (np.asarray(shares) - self.shares)
        self._take_shares(shares)

    def begin_sweep(self):
        with nogil:
            if self.n_rows:
                shuffle(&self.order[0], self.n_rows, &self.generator)
        self.position = 0

    def advance(self, index_t nonzeros):
        """Visit rows until about `nonzeros` values are read; true when the sweep is finished."""
        with nogil:
            while self.position < self.n_rows and nonzeros > 0:
                nonzeros -= self.visit(self.order[self.position])
                self.position += 1
        return self.position >= self.n_rows

    cdef index_t visit(self, index_t i) noexcept nogil:
        cdef index_t length = self.rows.indptr[i + 1] - self.rows.indptr[i] + 1
        cdef double mixed = self.rows.dot(i, data_of(self.w))
        cdef double violation, step
        if self.disputed[i]:
            memset(&self.sums[0], 0, self.n_members * sizeof(double))
            self.rows.dots(i, data_of(self.parts), self.n_members, &self.sums[0])
            length *= 1 + self.n_members
        step = self.best_step(i, self.margin(i, mixed, &self.sums[0]), &violation)
        if step != 0:
            self.a[i] += step
            self.rows.add(i, step * self.ybar[i], data_of(self.w))
            if self.disputed[i]:
                self.add_parts(i, step)
            length *= 2
        return length

    cdef void add_parts(self, index_t i, double step) noexcept nogil:
        """delta_k += step Y_ik x_i"""
        cdef index_t k
        for k in range(self.n_members):
            self.sums[k] = step * self.Y[i, k]
        self.rows.adds(i, &self.sums[0], self.n_members, data_of(self.parts))

    def squares(self):
        """q_k = |v_k|^2 of every member."""
        common = self.mix - self.delta @ self.shares
        return np.array([np.square(common + self.delta[:, k]).sum() for k in range(self.n_members)])

    def margins(self):
        result = np.empty(self.n_rows)
        cdef double[::1] out = result
        cdef double[:, ::1] scratch = np.empty((CHUNKS, self.n_members))
        cdef MarginJob job = MarginJob(
            <void *>self, data_of(out), &scratch[0, 0], self.n_rows, self.n_members
        )
        if self.n_rows:
            with nogil:
                parallel_for(CHUNKS, self.threads, margin_chunk, &job)
        return result

    cdef void margins_of(self, index_t begin, index_t end, double *out, double *sums) noexcept nogil:
        cdef index_t i
        for i in range(begin, end):
            if self.disputed[i]:
                memset(sums, 0, self.n_members * sizeof(double))
                self.rows.dots(i, data_of(self.parts), self.n_members, sums)
            out[i] = self.margin(i, self.rows.dot(i, data_of(self.w)), sums)


cdef struct MarginJob:
    void *members
    double *out
    double *scratch        # a line per chunk
    index_t n_rows
    index_t n_members


cdef void margin_chunk(void *context, index_t chunk) noexcept nogil:
    cdef MarginJob *job = <MarginJob *>context
    cdef index_t n = job.n_rows
    (<LinearMembers>job.members).margins_of(
        chunk * n // CHUNKS, (chunk + 1) * n // CHUNKS, job.out, job.scratch + chunk * job.n_members
    )


cdef class KernelMembers(Members):
    """Products of mix and of every delta_k with all rows; a block of kernel rows is swept over at a time."""

    cdef RowCache cache
    cdef double[::1] F
    cdef double[:, ::1] parts             # members x rows
    cdef double[:, ::1] local_kernel
    cdef double[::1] local_margins, local_change, factors
    cdef index_t[::1] used
    cdef void **pointers
    cdef readonly index_t block_rows
    cdef readonly object mix
    cdef readonly object delta

    def __cinit__(self, RowCache cache, *arguments):
        self.cache = cache
        self.block_rows = max(1, min(BLOCK_ROWS, cache.capacity))
        self.pointers = <void **>malloc(self.block_rows * sizeof(void *))
        if self.pointers is NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.pointers)

    def __init__(self, RowCache cache, MarginLoss loss, costs, duals, labels, shares, seed, int threads):
        self._begin(loss, costs, cache.kernel.diagonal(), duals, labels, shares, seed, threads)
        self.local_kernel = np.zeros((self.block_rows, self.block_rows))
        self.local_margins, self.local_change, self.factors = np.zeros((3, self.block_rows))
        self.used = np.zeros(self.block_rows, dtype=np.int64)
        self.mix, self.delta = np.zeros(self.n_rows), np.zeros((self.n_members, self.n_rows))
        self.F, self.parts = self.mix, self.delta

    def clear(self):
        self.mix[:] = 0
        self.delta[:] = 0

    def add_rows(self, const index_t[::1] rows):
        """Bring in the present duals of some rows, at most `block_rows`, after `clear`."""
        cdef index_t r, n = rows.shape[0]
        if n == 0:
            return
        with nogil:
            self.cache.fetch(&rows[0], n, self.pointers)
            for r in range(n):
                self.local_change[r] = self.a[rows[r]]
            self.spread(rows, n)

    def reweigh(self, shares):
        self.mix += (np.asarray(shares) - self.shares) @ self.delta
        self._take_shares(shares)

    def block_order(self):
        """All rows in random order."""
        order = np.arange(self.n_rows)
        cdef index_t[::1] view = order
        if self.n_rows:
            shuffle(&view[0], self.n_rows, &self.generator)
        return order

    def solve(self, const index_t[::1] rows):
        """Sweeps of exact steps over at most `block_rows` rows, all others fixed; then all products follow."""
        cdef index_t n = rows.shape[0], r, c, sweep
        cdef double first = 0, largest, violation, step
        if n == 0:
            return
        with nogil:
            self.cache.fetch(&rows[0], n, self.pointers)
            self.localise(rows, n)
            for sweep in range(BLOCK_SWEEPS):
                largest = 0
                for r in range(n):
                    step = self.best_step(rows[r], self.local_margins[r], &violation)
                    if violation > largest:
                        largest = violation
                    if step != 0:
                        self.a[rows[r]] += step
                        self.local_change[r] += step
                        for c in range(n):
                            self.local_margins[c] += step * self.local_kernel[r, c]
                if sweep == 0:
                    first = largest
                if largest <= BLOCK_ENOUGH * first:
                    break
            self.spread(rows, n)

    cdef void localise(self, const index_t[::1] rows, index_t n) noexcept nogil:
        """The block's own matrix K o M and its margins."""
        cdef index_t r, c, k, i, j
        cdef double agreement
        for r in range(n):
            i = rows[r]
            self.local_change[r] = 0
            self.local_margins[r] = self.ybar[i] * self.F[i]
            if self.disputed[i]:
                for k in range(self.n_members):
                    self.local_margins[r] += self.mu[k] * (self.Y[i, k] - self.ybar[i]) * self.parts[k, i]
            for c in range(n):
                j = rows[c]
                if self.disputed[i] and self.disputed[j]:
                    agreement = 0
                    for k in range(self.n_members):
                        agreement += self.mu[k] * self.Y[i, k] * self.Y[j, k]
                else:                     # one of the two is the same for all members
                    agreement = self.ybar[i] * self.ybar[j]
                if self.cache.wide:
                    self.local_kernel[r, c] = agreement * (<double *>self.pointers[r])[j]
                else:
                    self.local_kernel[r, c] = agreement * (<float *>self.pointers[r])[j]

    cdef void spread(self, const index_t[::1] rows, index_t n) noexcept nogil:
        """Add what `local_change` means to all products; the rows' kernel rows are at hand, and no longer after."""
        cdef index_t r, k, n_used = 0
        cdef const void **held = <const void **>self.pointers
        for r in range(n):
            self.factors[r] = self.local_change[r] * self.ybar[rows[r]]
        odm_add_rows(held, self.cache.wide, &self.factors[0], n, self.n_rows, &self.F[0], self.threads)
        for r in range(n):                # the others have no part in delta
            if self.disputed[rows[r]] and self.local_change[r] != 0:
                self.pointers[n_used] = self.pointers[r]
                self.used[n_used] = r
                n_used += 1
        if n_used == 0:
            return
        for k in range(self.n_members):
            for r in range(n_used):
                self.factors[r] = self.local_change[self.used[r]] * self.Y[rows[self.used[r]], k]
            odm_add_rows(held, self.cache.wide, &self.factors[0], n_used, self.n_rows, &self.parts[k, 0], self.threads)

    def squares(self):
        """q_k = (a o Y_k)' K (a o Y_k) of every member."""
        common = self.mix - self.shares @ self.delta
        return np.array([
            (self.duals * self.labels[:, k]) @ (common + self.delta[k]) for k in range(self.n_members)
        ])

    def margins(self):
        spread = (self.labels - self.mean_labels[:, None]) * self.delta.T
        return self.mean_labels * self.mix + spread @ self.shares


def add_products(RowCache cache, const index_t[::1] rows, const double[:, ::1] factors, double[:, ::1] sums,
                 int threads):
    """sums[k] += sum_r factors[k, rows[r]] K_rows[r] for every k: some rows of K times several vectors."""
    cdef index_t n = rows.shape[0], r, k
    cdef double[::1] line = np.zeros(n)
    if n == 0:
        return
    cdef void **pointers = <void **>malloc(n * sizeof(void *))
    if pointers is NULL:
        raise MemoryError
    try:
        with nogil:
            cache.fetch(&rows[0], n, pointers)
            for k in range(factors.shape[0]):
                for r in range(n):
                    line[r] = factors[k, rows[r]]
                odm_add_rows(<const void **>pointers, cache.wide, &line[0], n, sums.shape[1], &sums[k, 0], threads)
    finally:
        free(pointers)
