"""Compiled steps of the working-set method for kernel machines; working_set.py drives them.

Problem (docs/internals/mathematics.md, "ODM and SVM"), one signed dual variable a_i per row:

    min_a  F(a) = 1/2 a'Qa - t'a + sum_i conj_i(a_i),    Q_ij = y_i y_j k_ij,    margins z = Qa - t,

with the targets t of regression, 0 in classification.

A block S of rows is optimised with all others fixed: with b = z_S - Q_SS a_S the block's problem is

    min_a  1/2 a'Q_SS a + b'a + sum conj_i(a_i)         and its own duality gap is  sum_{i in S} gap_i(a_i, z_i).

1. Sweeps of exact one-row steps (MarginLoss.dual_argmin), as long as they promise to close the gap soon.
2. Else an active-set method. conj_i is quadratic on each of up to three pieces [l_i, u_i], with second derivative r_i
   (SVM: one, [0, cost], and r = 0; ODM: one on each side of 0). Rows strictly inside of a piece are free, F. With the
   gradient g = z + conj'(a), a step goes along d_F,  (Q_FF + diag(r_F) + ridge) d = -g_F;  a row that reaches the end
   of its piece stays there, and the others go on to the minimum of that bent path. Rows that stay are taken out
   of the factor (dense_loops.h). Where none stays, the free rows are at their minimum: every other row makes its
   one-row step, which may cross from piece to piece, and those that end inside of one become free. The ridge is
   of the size of the kernel's rounding: it only bounds d where free rows depend on each other, and d is searched
   exactly. F falls with every step; should it not, whatever the kernel is, the result of the sweeps is kept.

Scores f_i = y_i (z_i + t_i) of all rows are kept in float64; QRows (q_rows.pyx) updates them with the block's rows at once.
"""

from libc.math cimport INFINITY, fabs, fmax, fmin, isfinite, log, sqrt
from libcpp.vector cimport vector

import numpy as np

from odmlib._core.parallel cimport parallel_for
from odmlib._core.random cimport shuffle
from odmlib._core.types cimport index_t, uint64_t
from odmlib._core.views cimport target_of, targets_data
from odmlib.losses.loss cimport MarginLoss
from odmlib.solvers.kernel.q_rows cimport BlockState, QRows
from odmlib.solvers.linalg.dense cimport (
    odm_add_multiple, odm_cholesky, odm_free_append, odm_free_remove, odm_free_solve,
)

cdef int STEPS_AT_A_TIME = 64    # of the active-set method, between two looks at the clock
cdef int MOST_STEPS_PER_ROW = 5
cdef double LEAST_PROGRESS = 1e-3   # of the gap, by a step in the free rows when the others rest
# times the largest diagonal value and the root of the block's size: what rounding moves eigenvalues by, several times
cdef double RIDGE = 1e-12, RIDGE_OF_FLOATS = 1e-6
cdef double TINY = 1e-300

cdef index_t MEASURED_ROWS = 4096   # of one chunk


cdef struct MeasureJob:
    void *state
    double *totals      # two per chunk


cdef struct AlongJob:
    void *state
    const double *duals     # of each direction
    const double *scores
    const double *steps
    index_t n_directions
    double *totals          # value, gradient and Hessian, per chunk


cdef void along_chunk(void *context, index_t chunk) noexcept nogil:
    cdef AlongJob *job = <AlongJob *>context
    cdef index_t begin = chunk * MEASURED_ROWS, n = job.n_directions
    (<WorkingSet>job.state)._along(begin, min(begin + MEASURED_ROWS, (<WorkingSet>job.state).n_rows), job,
                                   job.totals + chunk * (1 + n + n * n))


cdef void measure_chunk(void *context, index_t chunk) noexcept nogil:
    cdef MeasureJob *job = <MeasureJob *>context
    cdef index_t begin = chunk * MEASURED_ROWS
    (<WorkingSet>job.state)._measure(begin, min(begin + MEASURED_ROWS, (<WorkingSet>job.state).n_rows),
                                     job.totals + 2 * chunk)


cdef class WorkingSet(BlockState):
    """The problem's duals and scores, and a block that is being solved."""

    cdef MarginLoss loss
    cdef readonly index_t newton_steps, sweeps
    cdef int first_sweeps, max_sweeps
    cdef uint64_t random
    cdef const double[::1] costs, diagonal, all_targets
    cdef const double *targets              # NULL: all 0
    cdef index_t[::1] order, free_rows
    cdef char[::1] is_free
    cdef double[::1] z, b, h, cost, saved_a, saved_z, direction
    cdef double[::1] low, high, curvature   # the piece of each row's conjugate
    cdef double[::1] room                   # how often a free row's direction fits into its piece
    cdef double target, gap, saved_objective, ridge
    cdef bint solving                       # by the active-set method: the sweeps are over
    cdef int steps_here, sweeps_here
    cdef index_t n_free
    cdef vector[double] totals              # of measure()

    def __cinit__(self, QRows q, MarginLoss loss, y, costs, seed, int first_sweeps, int max_sweeps, targets=None):
        """The rate of the sweeps is judged after `first_sweeps`; a block gets at most `max_sweeps`."""
        self._prepare(q, y)
        if len(costs) != q.n_rows:
            raise ValueError(f"{q.n_rows} rows, but {len(costs)} costs")
        self.loss, self.costs, self.diagonal, self.random = loss, costs, q.diagonal, seed
        self.first_sweeps, self.max_sweeps = first_sweeps, max_sweeps
        self.all_targets = targets
        self.targets = targets_data(self.all_targets, q.n_rows)
        self.order = np.zeros(q.most_rows, dtype=np.int64)
        self.free_rows = np.zeros(q.most_rows, dtype=np.int64)
        self.is_free = np.zeros(q.most_rows, dtype=np.int8)
        (self.z, self.b, self.h, self.cost, self.saved_a, self.saved_z, self.direction, self.low, self.high,
         self.curvature, self.room) = np.zeros((11, q.most_rows))

    def measure(self):
        """(primal, gap) on all rows; fills `gains`, a bound on what a step in each row alone would win."""
        cdef index_t n_chunks = (self.n_rows + MEASURED_ROWS - 1) // MEASURED_ROWS
        cdef index_t chunk
        cdef double primal = 0, gap = 0
        cdef MeasureJob job = MeasureJob(<void *>self, NULL)
        with nogil:
            self.totals.resize(2 * n_chunks)
            job.totals = self.totals.data()
            parallel_for(n_chunks, self.q.threads, measure_chunk, &job)
            for chunk in range(n_chunks):
                primal += self.totals[2 * chunk]
                gap += self.totals[2 * chunk + 1]
        return primal, gap

    cdef void _measure(self, index_t begin, index_t end, double *totals) noexcept nogil:
        cdef index_t i
        cdef double z, a, h, score, primal = 0, gap = 0, step
        for i in range(begin, end):
            score = self.y[i] * self.all_scores[i]
            z = score - target_of(self.targets, i)
            a = self.all_duals[i]
            h = fmax(self.diagonal[i], 0.0)
            primal += 0.5 * a * score + self.loss.value(z, self.costs[i])
            gap += self.loss.gap(a, z, self.costs[i])
            step = self.loss.dual_argmin(z - h * a, h, self.costs[i]) - a
            self.all_gains[i] = fabs(step) * self.loss.violation(a, z, self.costs[i])
        totals[0] = primal
        totals[1] = gap

    def strays(self):
        """Rows with a dual whose own exact step leads to 0."""
        cdef index_t i, n = 0
        cdef double h, z
        cdef index_t[::1] found = np.zeros(self.n_rows, dtype=np.int64)
        for i in range(self.n_rows):
            if self.all_duals[i] != 0:
                h = fmax(self.diagonal[i], 0.0)
                z = self.y[i] * self.all_scores[i] - target_of(self.targets, i)
                if self.loss.dual_argmin(z - h * self.all_duals[i], h, self.costs[i]) == 0:
                    found[n] = i
                    n += 1
        return np.asarray(found)[:n]

    def along(self, const double[:, ::1] duals, const double[:, ::1] scores, const double[::1] steps):
        """(value, gradient, Hessian) of F at these steps along directions, whose changes of all scores are known.

        F is counted from the point at hand, but for its conjugates: that is right also where other rows rest.
        """
        cdef index_t n = steps.shape[0], n_chunks = (self.n_rows + MEASURED_ROWS - 1) // MEASURED_ROWS
        if n < 1 or duals.shape[0] != n or scores.shape[0] != n or duals.shape[1] != self.n_rows \
                or scores.shape[1] != self.n_rows:
            raise ValueError(f"each of {n} directions needs a number for each of {self.n_rows} rows")
        totals = np.zeros((max(n_chunks, <index_t>1), 1 + n + n * n))
        cdef double[:, ::1] view = totals
        cdef AlongJob job = AlongJob(<void *>self, &duals[0, 0], &scores[0, 0], &steps[0], n, &view[0, 0])
        with nogil:
            parallel_for(n_chunks, self.q.threads, along_chunk, &job)
        found = totals.sum(axis=0)
        hessian = found[1 + n:].reshape(n, n)
        return float(found[0]), found[1:1 + n], (hessian + hessian.T) / 2

    cdef void _along(self, index_t begin, index_t end, const AlongJob *job, double *totals) noexcept nogil:
        cdef index_t i, j, k, n = job.n_directions, m = self.n_rows
        cdef double a, z, slope, curvature, product, low, high
        cdef double *gradient = totals + 1
        cdef double *hessian = totals + 1 + n
        cdef bint moves
        for i in range(begin, end):
            a, z, moves = self.all_duals[i], self.all_scores[i], False
            for j in range(n):
                a += job.steps[j] * job.duals[j * m + i]
                z += job.steps[j] * job.scores[j * m + i]
                moves = moves or job.duals[j * m + i] != 0
            z = self.y[i] * z - target_of(self.targets, i)
            totals[0] += self.loss.conjugate(a, self.costs[i])
            if not moves:
                continue
            totals[0] += 0.5 * (a - self.all_duals[i]) * (z + self.y[i] * self.all_scores[i]
                                                          - target_of(self.targets, i))
            slope = z + self.loss.conjugate_slope(a, self.costs[i])
            curvature = self.loss.piece(a, 0.0, self.costs[i], &low, &high)
            for j in range(n):
                product = job.duals[j * m + i]
                gradient[j] += product * slope
                for k in range(n):
                    hessian[j * n + k] += product * (self.y[i] * job.scores[k * m + i]
                                                     + curvature * job.duals[k * m + i])

    def begin(self, const index_t[::1] rows, double fraction, double enough):
        """Take up a block of distinct rows, to be solved to `fraction` of its gap, or to the gap `enough`."""
        cdef index_t k
        self._take(rows)
        self.solving, self.steps_here, self.sweeps_here = False, 0, 0
        self.n_free = -1
        with nogil:
            for k in range(self.size):
                self.order[k] = k
                self.cost[k] = self.costs[self.rows[k]]
                self.z[k] = self.label[k] * self.all_scores[self.rows[k]] - target_of(self.targets, self.rows[k])
                self.b[k] = self.z[k]
                self.h[k] = fmax(self.Q[k, k], 0.0)
            shuffle(&self.order[0], self.size, &self.random)
            for k in range(self.size):
                if self.a[k] != 0:
                    odm_add_multiple(self.size, -self.a[k], &self.Q[k, 0], &self.b[0])
            self.gap = self._block_gap()
            # never so easy that nothing would be done
            self.target = fmax(fraction * self.gap, fmin(enough, 0.3 * self.gap))

    def improve(self):
        """One bounded piece of work on the block; true when the block is done."""
        cdef bint done
        with nogil:
            if self.solving:
                done = self._active_set_steps()
                if done:
                    self._finish()
            else:
                done = self._sweep_while_it_pays()
        return done

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
            if self.sweeps_here == self.max_sweeps:
                break
            last = self.gap
            self._sweep()
            self.sweeps_here = self.sweeps_here + 1
            self.gap = self._block_gap()
            if self.sweeps_here >= self.first_sweeps and self.gap > self.target:
                # sweeps still needed at the present rate
                if not self.gap < last or log(self.target / self.gap) / log(self.gap / last) > self.max_sweeps:
                    break
        if self.gap <= self.target or not isfinite(self.gap):
            return True
        self.solving = True
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
        self.ridge = RIDGE if self.q.float64 else RIDGE_OF_FLOATS
        self.ridge = self.ridge * largest * sqrt(self.size)
        self._factor_free()

    cdef bint _is_inside(self, index_t k) noexcept nogil:
        """Find the piece of row k's conjugate; whether the row is strictly inside of it."""
        self.curvature[k] = self.loss.piece(self.a[k], 0.0, self.cost[k], &self.low[k], &self.high[k])
        return self.low[k] < self.a[k] < self.high[k]

    cdef void _factor_free(self) noexcept nogil:
        """The factor of the free rows, from nothing."""
        cdef index_t i, j, k, n = self.n_free
        if n == 0:
            return
        for i in range(n):
            k = self.free_rows[i]
            for j in range(i + 1):
                self.factor[i, j] = self.Q[k, self.free_rows[j]]
            self.factor[i, i] += self.curvature[k] + self.ridge
        if odm_cholesky(&self.factor[0, 0], n, self.stride, &self.work[0], self.q.threads) == 0:
            for i in range(n):
                for j in range(i):
                    self.factor[j, i] = self.factor[i, j]
            return
        self.n_free = 0    # worse conditioned than its ridge allows for: row by row, with a floor
        for i in range(n):
            self._join(self.free_rows[i])

    cdef void _join(self, index_t k) noexcept nogil:
        cdef index_t i, n = self.n_free
        for i in range(n):
            self.change[i] = self.Q[k, self.free_rows[i]]
        odm_free_append(&self.factor[0, 0], self.stride, n, &self.change[0], self.h[k] + self.curvature[k] + self.ridge,
                        self.ridge)
        self.free_rows[n] = k
        self.is_free[k] = True
        self.n_free = n + 1

    cdef bint _free_step(self, double *won) noexcept nogil:
        """Newton's step in the free rows. Rows that reach the end of their piece stay there, and the others go on as
        long as that pays; true when there were none."""
        cdef index_t i, k, hit = 0, n = self.n_free
        cdef bint reached
        cdef double slope, curvature, step, nearest, t = 0
        for i in range(n):
            k = self.free_rows[i]
            self.direction[i] = -self.z[k] - self.loss.conjugate_slope(self.a[k], self.cost[k])
        odm_free_solve(&self.factor[0, 0], self.stride, n, &self.direction[0])
        for k in range(self.size):
            self.change[k] = 0
        for i in range(n):
            k = self.free_rows[i]
            odm_add_multiple(self.size, self.direction[i], &self.Q[k, 0], &self.change[0])
            self.room[i] = INFINITY
            if self.direction[i] != 0:
                self.room[i] = (self._end(k, self.direction[i]) - self.a[k]) / self.direction[i]
        while True:
            slope = curvature = 0
            nearest = INFINITY
            for i in range(n):
                if self.direction[i] != 0:
                    k = self.free_rows[i]
                    slope += self.direction[i] * (self.z[k] + self.loss.conjugate_slope(self.a[k], self.cost[k]))
                    curvature += self.direction[i] * (self.change[k] + self.curvature[k] * self.direction[i])
                    nearest = fmin(nearest, self.room[i])
            if not slope < 0:
                break
            step = -slope / curvature if curvature > 0 else INFINITY
            reached = step >= nearest - t
            if reached:
                step = nearest - t
            if not isfinite(step):
                break
            won[0] -= step * (slope + 0.5 * step * curvature)
            t = nearest if reached else t + step
            for k in range(self.size):
                self.z[k] += step * self.change[k]
            for i in range(n):
                if self.direction[i] != 0:
                    k = self.free_rows[i]
                    if self.room[i] > t:
                        self.a[k] = fmin(fmax(self.a[k] + step * self.direction[i], self.low[k]), self.high[k])
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

    cdef double _end(self, index_t k, double direction) noexcept nogil:
        """Where row k's piece ends in this direction."""
        return self.high[k] if direction > 0 else self.low[k]

    cdef void _drop_rows(self, index_t n_gone) noexcept nogil:
        """Take the rows that are no longer free out of the factor, or make it anew where that is less work."""
        cdef index_t i, kept = 0, n = self.n_free
        cdef bint anew = 2.0 * n_gone * n * n > <double>(n - n_gone) ** 3
        if n_gone == 0:
            return
        if not anew:
            for i in range(n - 1, -1, -1):
                if not self.is_free[self.free_rows[i]]:
                    odm_free_remove(&self.factor[0, 0], self.stride, self.n_free, i, &self.work[0])
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

    cdef void _finish(self) noexcept nogil:
        """A last sweep; back to the saved point unless the objective fell below it."""
        self._sweep()
        if not self._objective() < self.saved_objective:
            self.a[:] = self.saved_a
            self.z[:] = self.saved_z
