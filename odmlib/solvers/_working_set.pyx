"""Compiled steps of the working-set method for kernel machines; working_set.py drives them.

Problem (spec/odm.md section 2), one signed dual variable a_i per row:

    min_a  F(a) = 1/2 a'Qa + sum_i conj_i(a_i),    Q_ij = y_i y_j k_ij,    margins z = Qa.

A block S of rows is optimised with all others fixed: with b = z_S - Q_SS a_S the block's problem is

    min_a  1/2 a'Q_SS a + b'a + sum conj_i(a_i)         and its own duality gap is  sum_{i in S} gap_i(a_i, z_i).

1. Sweeps of exact one-row steps (MarginLoss.dual_argmin), as long as they promise to close the gap soon.
2. Else an active-set method. conj_i is quadratic on each of up to three pieces [l_i, u_i], with second derivative r_i
   (SVM: one, [0, cost], and r = 0; ODM: one on each side of 0). Rows strictly inside of a piece are free, F. With the
   gradient g = z + conj'(a), a step goes along d_F,  (Q_FF + diag(r_F) + ridge) d = -g_F;  a row that reaches the end
   of its piece stays there, and the others go on to the minimum of that bent path. Rows that stay are taken out
   of the factor (free_factor.h). Where none stays, the free rows are at their minimum: every other row makes its
   one-row step, which may cross from piece to piece, and those that end inside of one become free. The ridge is
   of the size of the kernel's rounding: it only bounds d where free rows depend on each other, and d is searched
   exactly. F falls with every step; should it not, whatever the kernel is, the result of the sweeps is kept.

Scores f_i = y_i z_i of all rows are kept in float64. Kernels: they are updated with the q kernel rows of the block
at once. Linear machines need no kernel rows: w = sum_i a_i y_i x_i is kept, f = X w, and Q_SS comes from the rows
of the block.
"""

from libc.math cimport INFINITY, fabs, fmax, fmin, isfinite, log, sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np

from odmlib._core.parallel cimport parallel_for
from odmlib._core.random cimport shuffle
from odmlib._core.rows cimport Rows
from odmlib._core.types cimport index_t, kernel_t, uint64_t
from odmlib._core.views cimport data_of
from odmlib.kernels.cache cimport RowCache
from odmlib.losses.loss cimport MarginLoss

cdef extern from "dense.h" nogil:
    const index_t ODM_FACTOR_BLOCK
    index_t odm_factor_line(index_t n) noexcept
    void odm_add_rows(const void **rows, bint wide, const double *factors, index_t n_rows, index_t n_columns,
                      double *sums, int n_threads) noexcept
    void odm_add_multiple(index_t n, double factor, const double *x, double *y) noexcept
    index_t odm_cholesky(double *matrix, index_t n, index_t stride, double *work, int n_threads) noexcept

cdef extern from "free_factor.h" nogil:
    void odm_free_append(double *R, index_t stride, index_t n, double *column, double diagonal, double floor) noexcept
    void odm_free_remove(double *R, index_t stride, index_t n, index_t gone, double *work) noexcept
    void odm_free_solve(const double *R, index_t stride, index_t n, double *x) noexcept

cdef int FIRST_SWEEPS = 3        # before the rate of the sweeps is judged
cdef int MAX_SWEEPS = 40         # more of them cost as much as a few steps of the active-set method
cdef int STEPS_AT_A_TIME = 64    # of the active-set method, between two looks at the clock
cdef int MOST_STEPS_PER_ROW = 5
cdef double LEAST_PROGRESS = 1e-3   # of the gap, by a step in the free rows when the others rest
# times the largest diagonal value and the root of the block's size: what rounding moves eigenvalues by, several times
cdef double RIDGE = 1e-12, RIDGE_OF_FLOATS = 1e-6
cdef double TINY = 1e-300

cdef index_t MEASURED_ROWS = 4096   # of one chunk
cdef index_t GATHERED_ROWS = 16
cdef index_t LINEAR_CHUNKS = 4


cdef struct Job:
    void *state
    double *totals      # two per chunk


cdef void measure_chunk(void *context, index_t chunk) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef index_t begin = chunk * MEASURED_ROWS
    (<WorkingSet>job.state)._measure(begin, min(begin + MEASURED_ROWS, (<WorkingSet>job.state).n_rows),
                                     job.totals + 2 * chunk)


cdef void gather_chunk(void *context, index_t chunk) noexcept nogil:
    (<WorkingSet>(<Job *>context).state)._gather(chunk)


cdef void multiply_chunk(void *context, index_t chunk) noexcept nogil:
    (<WorkingSet>(<Job *>context).state)._multiply(chunk)


cdef class WorkingSet:
    """Duals and scores of all rows, and the block of rows at work."""

    cdef RowCache cache                         # of a kernel machine, else None
    cdef Rows linear                            # rows of a linear machine, else None
    cdef double[:, ::1] spread                  # of a linear machine: rows written out, one per chunk of a job
    cdef readonly object weights                # w of a linear machine
    cdef MarginLoss loss
    cdef readonly index_t newton_steps, sweeps
    cdef readonly object duals, scores, gains   # arrays that Python sees; the views below are theirs
    cdef int threads
    cdef uint64_t random
    cdef index_t n_rows, stride
    cdef readonly index_t most_rows             # of a block
    cdef const double[::1] y, costs, diagonal
    cdef double[::1] all_duals, all_scores, all_gains
    # the block: rows, their kernel rows, and local copies of everything
    cdef index_t size
    cdef index_t[::1] rows, order, free_rows
    cdef char[::1] is_free
    cdef void **kernel_rows
    cdef double[:, ::1] Q, M
    cdef double[::1] work, a, z, b, h, cost, label, saved_a, saved_z, direction, change, before
    cdef double[::1] low, high, bend        # the piece of each row's conjugate
    cdef double[::1] room                   # how often a free row's direction fits into its piece
    cdef double target, gap, saved_objective, ridge
    cdef int phase, steps_here, sweeps_here
    cdef index_t n_free

    def __cinit__(self, source, MarginLoss loss, y, costs, int threads, seed, index_t most_rows):
        """`source`: the RowCache of a kernel, or the Rows of a linear machine."""
        if isinstance(source, Rows):
            self.linear = source
            self.n_rows = self.linear.n_rows
            self.diagonal = self.linear.squared_norms()
            self.weights = np.zeros(self.linear.n_columns)
            self.spread = np.zeros((LINEAR_CHUNKS, max(1, self.linear.n_columns)))
        else:
            self.cache = source
            self.n_rows = self.cache.n_columns
            self.diagonal = self.cache.kernel.diagonal()
        self.loss = loss
        self.threads = threads
        self.random = seed
        self.most_rows = most_rows
        self.y = y
        self.costs = costs
        self.duals = np.zeros(self.n_rows)
        self.gains = np.zeros(self.n_rows)
        self.all_duals = self.duals
        self.all_gains = self.gains
        self.scores = np.zeros(self.n_rows)
        self.all_scores = self.scores
        self.kernel_rows = <void **>malloc(most_rows * sizeof(void *))
        if self.kernel_rows is NULL:
            raise MemoryError
        self.rows = np.zeros(most_rows, dtype=np.int64)
        self.order = np.zeros(most_rows, dtype=np.int64)
        self.free_rows = np.zeros(most_rows, dtype=np.int64)
        self.is_free = np.zeros(most_rows, dtype=np.int8)
        self.stride = odm_factor_line(most_rows)
        self.Q = np.empty((most_rows, self.stride))
        self.M = np.empty((most_rows, self.stride))
        self.work = np.empty(self.stride * ODM_FACTOR_BLOCK)
        (self.a, self.z, self.b, self.h, self.cost, self.label, self.saved_a, self.saved_z, self.direction,
         self.change, self.before, self.low, self.high,
         self.bend, self.room) = np.zeros((15, most_rows))

    def __dealloc__(self):
        free(self.kernel_rows)

    def resume(self, duals, scores):
        """Go on from duals whose scores are known."""
        self.duals[:] = duals
        self.scores[:] = scores

    def measure(self):
        """(primal, gap) on all rows; fills `gains`, a bound on what a step in each row alone would win."""
        cdef index_t n_chunks = (self.n_rows + MEASURED_ROWS - 1) // MEASURED_ROWS
        totals = np.zeros((n_chunks, 2))
        cdef double[:, ::1] view = totals
        cdef Job job = Job(<void *>self, NULL)
        if n_chunks:
            job.totals = &view[0, 0]
            with nogil:
                parallel_for(n_chunks, self.threads, measure_chunk, &job)
        return tuple(totals.sum(axis=0).tolist())

    cdef void _measure(self, index_t begin, index_t end, double *totals) noexcept nogil:
        cdef index_t i
        cdef double z, a, h, primal = 0, gap = 0, step
        for i in range(begin, end):
            z = self.y[i] * self.all_scores[i]
            a = self.all_duals[i]
            h = fmax(self.diagonal[i], 0.0)
            primal += 0.5 * a * z + self.loss.value(z, self.costs[i])
            gap += self.loss.gap(a, z, self.costs[i])
            step = self.loss.dual_argmin(z - h * a, h, self.costs[i]) - a
            self.all_gains[i] = fabs(step) * self.loss.violation(a, z, self.costs[i])
        totals[0] = primal
        totals[1] = gap

    def prefer_held(self, double factor):
        """Multiply the gains of rows whose kernel row is at hand."""
        cdef index_t i
        if self.cache is None:
            return
        with nogil:
            for i in range(self.n_rows):
                if self.cache.holds(i):
                    self.all_gains[i] *= factor

    def prefetch(self, const index_t[::1] rows):
        """Have the kernel rows of a part of the next block computed."""
        cdef index_t n = rows.shape[0]
        if n and self.cache is not None:
            with nogil:
                self.cache.fetch(&rows[0], n, self.kernel_rows)

    def add_rows(self, const index_t[::1] rows, const double[::1] duals):
        """Add `duals` to the duals of the rows and follow it up in all scores (at most most_rows rows)."""
        cdef index_t r, n = rows.shape[0]
        if n == 0:
            return
        with nogil:
            self.cache.fetch(&rows[0], n, self.kernel_rows)
            for r in range(n):
                self.all_duals[rows[r]] += duals[r]
                self.change[r] = duals[r] * self.y[rows[r]]
            odm_add_rows(<const void **>self.kernel_rows, self.cache.wide, &self.change[0], n, self.n_rows, &self.all_scores[0],
                         self.threads)

    def begin(self, const index_t[::1] rows, double fraction, double enough):
        """Take up a block of distinct rows, to be solved to `fraction` of its gap, or to the gap `enough`."""
        cdef index_t k, j, i
        cdef Job job = Job(<void *>self, NULL)
        self.size = rows.shape[0]
        self.phase = self.steps_here = self.sweeps_here = 0
        self.n_free = -1
        with nogil:
            for k in range(self.size):
                i = rows[k]
                self.rows[k] = i
                self.order[k] = k
                self.label[k] = self.y[i]
                self.cost[k] = self.costs[i]
                self.a[k] = self.before[k] = self.all_duals[i]
                self.z[k] = self.b[k] = self.y[i] * self.all_scores[i]
            shuffle(&self.order[0], self.size, &self.random)
            if self.linear is None:
                self.cache.fetch(&self.rows[0], self.size, self.kernel_rows)
                parallel_for((self.size + GATHERED_ROWS - 1) // GATHERED_ROWS, self.threads, gather_chunk, &job)
            else:
                parallel_for(LINEAR_CHUNKS, self.threads, multiply_chunk, &job)
            for k in range(self.size):
                self.h[k] = fmax(self.Q[k, k], 0.0)
                for j in range(k):
                    self.Q[j, k] = self.Q[k, j]
            for k in range(self.size):
                if self.a[k] != 0:
                    odm_add_multiple(self.size, -self.a[k], &self.Q[k, 0], &self.b[0])
            self.gap = self._block_gap()
            # never so easy that nothing would be done
            self.target = fmax(fraction * self.gap, fmin(enough, 0.3 * self.gap))

    cdef void _gather(self, index_t chunk) noexcept nogil:
        """Some rows of Q up to the diagonal, from their kernel rows."""
        cdef index_t j, k
        cdef const kernel_t *floats
        cdef const double *doubles
        for k in range(chunk * GATHERED_ROWS, min((chunk + 1) * GATHERED_ROWS, self.size)):
            if self.cache.wide:
                doubles = <const double *>self.kernel_rows[k]
                for j in range(k + 1):
                    self.Q[k, j] = self.label[k] * self.label[j] * doubles[self.rows[j]]
            else:
                floats = <const kernel_t *>self.kernel_rows[k]
                for j in range(k + 1):
                    self.Q[k, j] = self.label[k] * self.label[j] * floats[self.rows[j]]

    cdef void _multiply(self, index_t chunk) noexcept nogil:
        """Some rows of Q up to the diagonal, from the rows themselves; `spread` is 0 before and after."""
        cdef index_t j, p, i, k = chunk
        cdef double *spread = &self.spread[chunk, 0]
        while k < self.size:
            i = self.rows[k]
            self.linear.add(i, self.label[k], spread)
            for j in range(k + 1):
                self.Q[k, j] = self.label[j] * self.linear.dot(self.rows[j], spread)
            for p in range(self.linear.indptr[i], self.linear.indptr[i + 1]):
                spread[self.linear.indices[p]] = 0
            if self.linear.bias != 0:
                spread[self.linear.n_columns - 1] = 0
            k += LINEAR_CHUNKS    # long and short rows of the triangle for every chunk

    def improve(self):
        """One bounded piece of work on the block; true when the block is done."""
        cdef bint done
        with nogil:
            if self.phase == 0:
                done = self._sweep_while_it_pays()
            else:
                done = self._active_set_steps()
                if done:
                    self._finish()
        return done

    def commit(self):
        """Write the block's duals back and update the scores of all rows."""
        cdef index_t k, n = 0
        cdef double *w = NULL
        if self.linear is not None:
            w = data_of(self.weights)
        with nogil:
            for k in range(self.size):
                if self.a[k] != self.before[k]:
                    self.all_duals[self.rows[k]] = self.a[k]
                    self.change[n] = (self.a[k] - self.before[k]) * self.label[k]
                    if self.linear is None:
                        self.kernel_rows[n] = self.kernel_rows[k]
                    else:
                        self.linear.add(self.rows[k], self.change[n], w)
                    n += 1
            if self.linear is None:
                odm_add_rows(<const void **>self.kernel_rows, self.cache.wide, &self.change[0], n, self.n_rows,
                             &self.all_scores[0], self.threads)
        if self.linear is not None:
            self.scores[:] = self.linear.product(self.weights, self.threads)

    def n_inside(self):
        """Rows of the block whose duals are strictly inside of a piece of their conjugate."""
        cdef index_t k, n = 0
        for k in range(self.size):
            n += self._is_inside(k)
        return n

    def rebuild(self):
        """Of a linear machine: w and the scores from the duals, without what many small steps have left."""
        self.weights[:] = self.linear.transposed_product(self.y * self.duals, self.threads)
        self.scores[:] = self.linear.product(self.weights, self.threads)

    cdef double _block_gap(self) noexcept nogil:
        cdef index_t k
        cdef double total = 0
        for k in range(self.size):
            total += self.loss.gap(self.a[k], self.z[k], self.cost[k])
        return total

    cdef double _objective(self) noexcept nogil:
        cdef index_t k
        cdef double total = 0
        for k in range(self.size):
            total += 0.5 * self.a[k] * (self.z[k] + self.b[k]) + self.loss.conjugate(self.a[k], self.cost[k])
        return total

    cdef void _sweep(self) noexcept nogil:
        cdef index_t position
        for position in range(self.size):
            self._row_step(self.order[position])
        self.sweeps = self.sweeps + 1

    cdef bint _row_step(self, index_t k) noexcept nogil:
        """The exact step in one row; whether it moved."""
        cdef double dual = self.loss.dual_argmin(self.z[k] - self.h[k] * self.a[k], self.h[k], self.cost[k])
        cdef double step = dual - self.a[k]
        if step == 0:
            return False
        self.a[k] = dual      # not a + step, which may round to outside of the conjugate's domain
        odm_add_multiple(self.size, step, &self.Q[k, 0], &self.z[0])
        return True

    cdef bint _sweep_while_it_pays(self) noexcept nogil:
        cdef double last
        while self.gap > self.target:
            if self.sweeps_here == MAX_SWEEPS:
                break
            last = self.gap
            self._sweep()
            self.sweeps_here = self.sweeps_here + 1
            self.gap = self._block_gap()
            if self.sweeps_here >= FIRST_SWEEPS and self.gap > self.target:
                # sweeps still needed at the present rate
                if not self.gap < last or log(self.target / self.gap) / log(self.gap / last) > MAX_SWEEPS:
                    break
        if self.gap <= self.target or not isfinite(self.gap):
            return True
        self.phase = 1
        self.saved_a[:] = self.a
        self.saved_z[:] = self.z
        self.saved_objective = self._objective()
        return False

    cdef bint _active_set_steps(self) noexcept nogil:
        """Some steps of the active-set method; true when the block is solved or no step is possible."""
        cdef int turn
        cdef bint whole
        cdef double won
        if self.steps_here == 0:
            self._take_free_rows()
        for turn in range(STEPS_AT_A_TIME):
            whole, won = True, 0
            if self.n_free > 0:
                whole = self._free_step(&won)
                self.newton_steps = self.newton_steps + 1
            self.steps_here = self.steps_here + 1
            if whole:
                self.gap = self._block_gap()
                if self.gap <= self.target or not isfinite(self.gap):
                    return True
                if not self._move_others() and won < LEAST_PROGRESS * self.gap:
                    return True
            if self.steps_here >= MOST_STEPS_PER_ROW * self.size:
                return True
        return False

    cdef void _take_free_rows(self) noexcept nogil:
        """All rows strictly inside of a piece become free."""
        cdef index_t k
        cdef double largest = TINY
        self.n_free = 0
        for k in range(self.size):
            largest = fmax(largest, self.h[k])
            self.is_free[k] = self._is_inside(k)
            if self.is_free[k]:
                self.free_rows[self.n_free] = k
                self.n_free = self.n_free + 1
        self.ridge = RIDGE if self.cache is None or self.cache.wide else RIDGE_OF_FLOATS
        self.ridge = self.ridge * largest * sqrt(self.size)
        self._factor_free()

    cdef bint _is_inside(self, index_t k) noexcept nogil:
        """Find the piece of row k's conjugate; whether the row is strictly inside of it."""
        self.bend[k] = self.loss.piece(self.a[k], 0.0, self.cost[k], &self.low[k], &self.high[k])
        return self.low[k] < self.a[k] < self.high[k]

    cdef void _factor_free(self) noexcept nogil:
        """The factor of the free rows, from nothing."""
        cdef index_t i, j, k, n = self.n_free
        if n == 0:
            return
        for i in range(n):
            k = self.free_rows[i]
            for j in range(i + 1):
                self.M[i, j] = self.Q[k, self.free_rows[j]]
            self.M[i, i] += self.bend[k] + self.ridge
        if odm_cholesky(&self.M[0, 0], n, self.stride, &self.work[0], self.threads) == 0:
            for i in range(n):
                for j in range(i):
                    self.M[j, i] = self.M[i, j]
            return
        self.n_free = 0    # worse conditioned than its ridge allows for: row by row, with a floor
        for i in range(n):
            self._join(self.free_rows[i])

    cdef void _join(self, index_t k) noexcept nogil:
        cdef index_t i, n = self.n_free
        for i in range(n):
            self.change[i] = self.Q[k, self.free_rows[i]]
        odm_free_append(&self.M[0, 0], self.stride, n, &self.change[0], self.h[k] + self.bend[k] + self.ridge,
                        self.ridge)
        self.free_rows[n] = k
        self.is_free[k] = True
        self.n_free = n + 1

    cdef bint _free_step(self, double *won) noexcept nogil:
        """Newton's step in the free rows. Rows that reach the end of their piece stay there, and the others go on as
        long as that pays; true when there were none."""
        cdef index_t i, k, hit = 0, n = self.n_free
        cdef bint reached
        cdef double slope, bend, step, nearest, t = 0
        for i in range(n):
            k = self.free_rows[i]
            self.direction[i] = -self.z[k] - self.loss.conjugate_slope(self.a[k], self.cost[k])
        odm_free_solve(&self.M[0, 0], self.stride, n, &self.direction[0])
        for k in range(self.size):
            self.change[k] = 0
        for i in range(n):
            k = self.free_rows[i]
            odm_add_multiple(self.size, self.direction[i], &self.Q[k, 0], &self.change[0])
            self.room[i] = self._room(k, self.direction[i])
        while True:
            slope = bend = 0
            nearest = INFINITY
            for i in range(n):
                if self.direction[i] != 0:
                    k = self.free_rows[i]
                    slope += self.direction[i] * (self.z[k] + self.loss.conjugate_slope(self.a[k], self.cost[k]))
                    bend += self.direction[i] * (self.change[k] + self.bend[k] * self.direction[i])
                    nearest = fmin(nearest, self.room[i])
            if not slope < 0:
                break
            step = -slope / bend if bend > 0 else INFINITY
            reached = step >= nearest - t
            if reached:
                step = nearest - t
            if not isfinite(step):
                break
            won[0] -= step * (slope + 0.5 * step * bend)
            t = nearest if reached else t + step
            for k in range(self.size):
                self.z[k] += step * self.change[k]
            for i in range(n):
                if self.direction[i] != 0:
                    k = self.free_rows[i]
                    if self.room[i] > t:
                        self.a[k] = self._clipped(k, self.a[k] + step * self.direction[i])
                        continue
                    self.a[k] = self._end(k, self.direction[i])
                    odm_add_multiple(self.size, -self.direction[i], &self.Q[k, 0], &self.change[0])
                    self.direction[i] = 0
                    self.is_free[k] = False
                    hit += 1
            if not reached:
                break
        self._drop_rows(hit)
        return hit == 0

    cdef double _room(self, index_t k, double direction) noexcept nogil:
        """How many times the direction fits into row k's piece."""
        if direction == 0:
            return INFINITY
        return (self._end(k, direction) - self.a[k]) / direction

    cdef double _end(self, index_t k, double direction) noexcept nogil:
        """Where row k's piece ends in this direction."""
        return self.high[k] if direction > 0 else self.low[k]

    cdef void _drop_rows(self, index_t n_gone) noexcept nogil:
        """Take the rows that are no longer free out of the factor, or make it anew where that is less work."""
        cdef index_t i, kept = 0, n = self.n_free
        cdef bint anew = False
        if n_gone == 0:
            return
        if 2.0 * n_gone * n * n > <double>(n - n_gone) ** 3:
            anew = True
        else:
            for i in range(n - 1, -1, -1):
                if not self.is_free[self.free_rows[i]]:
                    odm_free_remove(&self.M[0, 0], self.stride, self.n_free, i, &self.work[0])
                    self.n_free = self.n_free - 1
        for i in range(n):
            if self.is_free[self.free_rows[i]]:
                self.free_rows[kept] = self.free_rows[i]
                kept += 1
        self.n_free = kept
        if anew:
            self._factor_free()

    cdef bint _move_others(self) noexcept nogil:
        """One exact step in every row that is not free; those that end inside of a piece become free."""
        cdef index_t k, position
        cdef bint moved = False
        for position in range(self.size):
            k = self.order[position]
            if not self.is_free[k] and self._row_step(k):
                moved = True
                if self._is_inside(k):
                    self._join(k)
        return moved

    cdef double _clipped(self, index_t k, double dual) noexcept nogil:
        return fmin(fmax(dual, self.low[k]), self.high[k])

    cdef void _finish(self) noexcept nogil:
        """A last sweep; back to the saved point unless the objective fell below it."""
        self._sweep()
        if not self._objective() < self.saved_objective:
            self.a[:] = self.saved_a
            self.z[:] = self.saved_z


def add_block(block, const double[::1] factors, double[::1] sums, int threads):
    """sums += factors @ block for a block of float32 or float64; the same bits for every number of threads."""
    cdef index_t r, n = block.shape[0], n_columns = block.shape[1], row_bytes = n_columns * block.itemsize
    cdef bint wide = block.dtype == np.float64
    if block.size == 0:
        return
    cdef const char[::1] values = block.reshape(-1).view(np.int8)
    cdef const void **rows = <const void **>malloc(n * sizeof(void *))
    if rows is NULL:
        raise MemoryError
    with nogil:
        for r in range(n):
            rows[r] = &values[r * row_bytes]
        odm_add_rows(rows, wide, &factors[0], n, n_columns, &sums[0], threads)
    free(rows)
