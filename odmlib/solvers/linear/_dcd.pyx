"""Compiled sweeps of dual coordinate descent for linear machines; dcd.py holds the method's statement."""

cimport cython

from odmlib._core.random cimport shuffle
from odmlib._core.rows cimport Rows
from odmlib._core.types cimport index_t, uint64_t
from odmlib._core.views cimport data_of, target_of, targets_data
from odmlib.losses.loss cimport MarginLoss

import numpy as np

cdef extern from * nogil:
    void prefetch_line "__builtin_prefetch"(const void *place) noexcept

# a row is asked for so many visits before its own. With 2 and the four sums of
# score(), sweeps take 0.6-0.8 of the time (news20, a9a, ijcnn1)
cdef index_t ROWS_AHEAD = 2


@cython.final
cdef class Sweeper:
    """Duals, weights and the active rows of one run. `w` always is sum_i a_i y_i x_i over all rows."""

    cdef Rows rows
    cdef MarginLoss loss
    cdef const double[::1] y, costs, diagonal, all_targets
    cdef const double *targets          # NULL: all 0
    cdef double[::1] a, w
    cdef index_t[::1] active
    cdef uint64_t generator
    cdef index_t position               # how far the present sweep has come
    cdef double largest                 # largest violation seen in the present sweep
    cdef readonly index_t n_active
    cdef readonly object duals, weights

    def __init__(self, Rows rows, MarginLoss loss, const double[::1] y, const double[::1] costs,
                 duals, weights, uint64_t seed, const double[::1] targets=None):
        self.rows, self.loss, self.y, self.costs = rows, loss, y, costs
        self.diagonal = rows.squared_norms()
        self.duals, self.weights = duals, weights
        self.a, self.w = duals, weights
        self.active = np.arange(rows.n_rows)
        self.generator = seed
        self.all_targets, self.targets = targets, targets_data(targets, rows.n_rows)
        self.restore()

    def restore(self):
        """Make every row active again."""
        self.n_active = self.rows.n_rows
        self.position = 0
        self.largest = 0.0

    def rows_aside(self):
        """The rows that are not active."""
        return np.asarray(self.active)[self.n_active:]

    def begin_sweep(self):
        with nogil:
            shuffle(&self.active[0], self.n_active, &self.generator)
        self.position = 0
        self.largest = 0.0

    def advance(self, index_t nonzeros, double slack):
        """Visit active rows until about `nonzeros` values are read; the sweep's largest violation when it ends.

        A row whose a stays the best one when its margin is moved by `slack` either way (a = 0 inside the band,
        a at the end of a closed interval) is put aside; a negative slack puts no row aside. Returns -1 while the sweep is not finished.
        """
        with nogil:
            while self.position < self.n_active and nonzeros > 0:
                self.prefetch()
                nonzeros -= self.visit(slack)
        return self.largest if self.position >= self.n_active else -1.0

    cdef void prefetch(self) noexcept nogil:
        """Rows come in random order, which no processor foresees."""
        cdef index_t i
        if self.position + 2 * ROWS_AHEAD < self.n_active:
            i = self.active[self.position + 2 * ROWS_AHEAD]
            prefetch_line(&self.rows.indptr[i])
            prefetch_line(&self.a[i])
            prefetch_line(&self.y[i])
            prefetch_line(&self.costs[i])
            prefetch_line(&self.diagonal[i])
        if self.position + ROWS_AHEAD < self.n_active:
            self.rows.prefetch(self.active[self.position + ROWS_AHEAD])

    cdef double score(self, index_t i) noexcept nogil:
        """<x_i, w> in four sums, so that no addition waits for the one before."""
        cdef double first = 0.0, second = 0.0, third = 0.0, fourth = 0.0
        cdef const double *values = data_of(self.rows.values)
        cdef const double *w = data_of(self.w)
        cdef index_t k = self.rows.indptr[i]
        cdef index_t end = self.rows.indptr[i + 1]
        while k + 4 <= end:
            first += values[k] * w[self.rows.indices[k]]
            second += values[k + 1] * w[self.rows.indices[k + 1]]
            third += values[k + 2] * w[self.rows.indices[k + 2]]
            fourth += values[k + 3] * w[self.rows.indices[k + 3]]
            k += 4
        while k < end:
            first += values[k] * w[self.rows.indices[k]]
            k += 1
        if self.rows.bias != 0:
            second += self.rows.bias * w[self.rows.n_columns - 1]
        return (first + second) + (third + fourth)

    cdef index_t visit(self, double slack) noexcept nogil:
        cdef index_t i = self.active[self.position]
        cdef double margin = self.y[i] * self.score(i) - target_of(self.targets, i)
        cdef double violation = self.loss.violation(self.a[i], margin, self.costs[i])
        cdef double dual, step
        cdef index_t length = self.rows.indptr[i + 1] - self.rows.indptr[i] + 1
        if violation > self.largest:
            self.largest = violation
        if violation > 0:
            dual = self.loss.dual_argmin(margin - self.diagonal[i] * self.a[i], self.diagonal[i], self.costs[i])
            step = dual - self.a[i]
            if step != 0:
                self.a[i] = dual      # not a + step, which may round to outside of the conjugate's domain
                self.rows.add(i, self.y[i] * step, data_of(self.w))
                length *= 2
        elif (slack >= 0
                and self.loss.violation(self.a[i], margin - slack, self.costs[i]) == 0
                and self.loss.violation(self.a[i], margin + slack, self.costs[i]) == 0):
            self.n_active -= 1
            self.active[self.position] = self.active[self.n_active]
            self.active[self.n_active] = i
            return length
        self.position += 1
        return length
