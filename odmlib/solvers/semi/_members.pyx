"""Compiled sweeps over the dual of several label assignments at once; saddle.py holds the method's statement.

Rows on which all members agree need only the mean of the members' vectors, so that is what is kept:

    mix = sum_k mu_k v_k,    delta_k = the part of v_k that comes from disputed rows,    v_k = sum_i a_i Y_ik phi_i
    z_i = y_i <phi_i, mix>                                                  where all members say y_i
    z_i = ybar_i <phi_i, mix> + sum_k mu_k (Y_ik - ybar_i) <phi_i, delta_k>    on disputed rows, ybar = Y mu

Linear machines hold the vectors themselves, kernel machines their products with all rows.
"""

from libc.stdint cimport int8_t
from libc.string cimport memset

import numpy as np

from odmlib._core.parallel cimport parallel_for
from odmlib._core.random cimport shuffle
from odmlib._core.rows cimport Rows
from odmlib._core.types cimport index_t, uint64_t
from odmlib._core.views cimport data_of
from odmlib.losses.loss cimport MarginLoss
from odmlib.solvers.kernel.q_rows cimport KernelRows

cdef index_t SLICE_NONZEROS = 5_000_000  # some tens of milliseconds between two looks at the clock
cdef int BLOCK_SWEEPS = 5        # over one block at most
cdef double BLOCK_ENOUGH = 0.1   # of the block's largest violation: sweeps end there
cdef index_t CHUNKS = 64         # of rows, handed to threads


cdef class Members:
    """Duals a, labels Y (rows x members) and weights mu of the members; what both kinds share."""

    cdef MarginLoss loss
    cdef const double[::1] costs, diagonal
    cdef double[::1] a, mu, ybar
    cdef const int8_t[:, ::1] Y
    cdef const int8_t[::1] disputed
    cdef uint64_t generator
    cdef int threads
    cdef readonly index_t n_rows, n_members
    cdef readonly object duals, labels, shares, mean_labels   # a, Y, mu, ybar
    cdef readonly object mix, delta

    def _begin(self, MarginLoss loss, costs, diagonal, duals, labels, shares, uint64_t seed, int threads):
        if not len(costs) == len(diagonal) == len(duals) == len(labels) or labels.shape[1] != len(shares):
            raise ValueError("members: arrays of different lengths")
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
    cdef double[::1] w, sums
    cdef double[::1] parts                # delta, line after line
    cdef index_t[::1] order

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

    def sweep(self, out_of_time):
        """Visit all rows in random order; a status where the time was over before the end."""
        cdef index_t position = 0, left
        with nogil:
            if self.n_rows:
                shuffle(&self.order[0], self.n_rows, &self.generator)
        while True:
            left = SLICE_NONZEROS
            with nogil:
                while position < self.n_rows and left > 0:
                    left -= self.visit(self.order[position])
                    position += 1
            if position >= self.n_rows:
                return None
            if (status := out_of_time()) is not None:
                return status

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
        cdef MarginJob job = MarginJob(<void *>self, data_of(out), &scratch[0, 0])
        if self.n_rows:
            with nogil:
                parallel_for(CHUNKS, self.threads, margin_chunk, &job)
        return result

    cdef void margins_of(self, index_t chunk, double *out, double *scratch) noexcept nogil:
        cdef index_t i
        cdef double *sums = scratch + chunk * self.n_members
        for i in range(chunk * self.n_rows // CHUNKS, (chunk + 1) * self.n_rows // CHUNKS):
            if self.disputed[i]:
                memset(sums, 0, self.n_members * sizeof(double))
                self.rows.dots(i, data_of(self.parts), self.n_members, sums)
            out[i] = self.margin(i, self.rows.dot(i, data_of(self.w)), sums)


cdef struct MarginJob:
    void *members
    double *out
    double *scratch        # a line per chunk


cdef void margin_chunk(void *context, index_t chunk) noexcept nogil:
    cdef MarginJob *job = <MarginJob *>context
    (<LinearMembers>job.members).margins_of(chunk, job.out, job.scratch)


cdef class KernelMembers(Members):
    """Products of mix and of every delta_k with all rows; a block of kernel rows is swept over at a time."""

    cdef KernelRows q
    cdef double[:, ::1] parts             # members x rows
    cdef double[:, ::1] local_kernel
    cdef double[::1] F, ones, local_margins, local_change, factors

    def __init__(self, KernelRows q, MarginLoss loss, costs, duals, labels, shares, seed, int threads):
        self.q = q
        self._begin(loss, costs, q.diagonal, duals, labels, shares, seed, threads)
        self.local_kernel, self.ones = np.zeros((q.most_rows, q.most_rows)), np.ones(q.most_rows)
        self.local_margins, self.local_change, self.factors = np.zeros((3, q.most_rows))
        self.mix, self.delta = np.zeros(self.n_rows), np.zeros((self.n_members, self.n_rows))
        self.F, self.parts = self.mix, self.delta
        self.rebuild()

    def rebuild(self):
        """The products from the duals, against drift."""
        cdef const index_t[::1] rows
        cdef index_t r
        self.mix[:] = 0
        self.delta[:] = 0
        support = np.flatnonzero(self.duals)
        for begin in range(0, len(support), self.q.most_rows):
            rows = support[begin : begin + self.q.most_rows]
            self.q.fetch(rows)
            for r in range(rows.shape[0]):
                self.local_change[r] = self.a[rows[r]]
            self.spread(rows)

    def reweigh(self, shares):
        self.mix += (np.asarray(shares) - self.shares) @ self.delta
        self._take_shares(shares)

    def sweep(self, out_of_time):
        """Solve all rows, block by block in random order; a status where the time was over before the end."""
        order = np.arange(self.n_rows)
        cdef index_t[::1] view = order
        if self.n_rows:
            shuffle(&view[0], self.n_rows, &self.generator)
        for begin in range(0, self.n_rows, self.q.most_rows):
            self._solve(np.sort(order[begin : begin + self.q.most_rows]))
            if (status := out_of_time()) is not None:
                return status
        return None

    def _solve(self, const index_t[::1] rows):
        """Sweeps of exact steps over a block of rows, all others fixed; then all products follow."""
        cdef index_t n = rows.shape[0], r, c, sweep
        cdef double first = 0, largest, violation, step
        self.q.fetch(rows)
        self.q.gather(self.ones, self.local_kernel)
        with nogil:
            self.localise(rows)
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
        self.spread(rows)

    cdef void localise(self, const index_t[::1] rows) noexcept nogil:
        """The block's own matrix K becomes K o M; its margins."""
        cdef index_t n = rows.shape[0], r, c, k, i, j
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
                self.local_kernel[r, c] *= agreement

    cdef spread(self, const index_t[::1] rows):
        """Add what `local_change` means for the rows that were fetched to all products."""
        cdef index_t r, k, n_disputed = 0
        for r in range(rows.shape[0]):
            self.factors[r] = self.local_change[r] * self.ybar[rows[r]]
            n_disputed += self.disputed[rows[r]]
        self.q.add(self.factors, self.F)
        for k in range(self.n_members if n_disputed else 0):
            for r in range(rows.shape[0]):    # rows that are not disputed have no part in delta
                self.factors[r] = self.local_change[r] * self.Y[rows[r], k] * self.disputed[rows[r]]
            self.q.add(self.factors, self.parts[k])

    def squares(self):
        """q_k = (a o Y_k)' K (a o Y_k) of every member."""
        common = self.mix - self.shares @ self.delta
        return np.array([
            (self.duals * self.labels[:, k]) @ (common + self.delta[k]) for k in range(self.n_members)
        ])

    def margins(self):
        spread = (self.labels - self.mean_labels[:, None]) * self.delta.T
        return self.mean_labels * self.mix + spread @ self.shares
