"""Compiled steps of the pair method for KM-OMD; pairs.py drives them. The problem is at the head of _geometry.pyx.

With Q_ij = (1-lambda) y_i y_j k_ij + lambda [i = j] / w_i the objective is gamma' Q gamma and h = Q gamma. A pair
step moves gamma from q to r of the same class, r the row of least h in it:

    e = min(gamma_q, (h_q - h_r) / D),   D = Q_rr + Q_qq - 2 Q_rq,   gamma_r += e,   gamma_q -= e,   h += e (Q_r - Q_q)

and q is the row that promises most: the largest (h_q - h_r)^2 / D. The class is the one of larger violation,
(largest h where gamma > 0) - (least h).

Newton. Where pair steps are slow (kernel values large beside lambda) the block is solved by Newton's method on its dual
function. With r_i = lambda / w_i, M = Q - diag(r), c = (h - Q gamma) of the block and S_y its share of the class sums,

    min over x, rho  F = x'Mx + sum_i [rho_y - z_i]_+^2 / r_i - 2 rho'S,    z = c + Mx,    gamma_i = [rho_y - z_i]_+ / r_i

is convex and piecewise quadratic; on A = {z_i < rho_y} a step solves Q_AA x_A = rho_y - c_A, sum over y of x_A = S_y, and
an exact line search follows. The result is made feasible by rho_y anew and kept only if the objective fell.

Blocks. Steps are done on a block of rows with its part of Q at hand; then the scores s of all rows are updated
with the block's kernel rows at once. A step costs O(block), not O(rows), and kernel rows are computed many at a
time. A block of all rows is the plain method.
"""

from libc.math cimport INFINITY, fabs, fmax

import numpy as np

from odmlib._core.types cimport index_t
from odmlib.solvers.kernel.q_rows cimport BlockState, QRows
from odmlib.solvers.kmomd._geometry cimport water_level
from odmlib.solvers.linalg.dense cimport odm_add_multiple, odm_cholesky, odm_cholesky_solve

cdef double LEAST_CURVATURE = 1e-14   # of a pair, relative to the largest k_ii: equal rows at lambda = 0
cdef double LEAST_VIOLATION = 1e-15   # relative to the largest |h|: what rounding leaves
cdef index_t SLICE = 4096             # steps between two looks at the clock
cdef int MAX_NEWTON_STEPS = 30        # they are finite in theory and fewer than ten as a rule
cdef int LINE_SEARCH_STEPS = 40


cdef class Pairs(BlockState):
    """gamma, which are the duals, and scores of all rows; a block has rows of the first class before the second."""

    cdef readonly index_t steps, newton_steps
    cdef double lam, floor
    cdef const double[::1] weights, diagonal
    cdef index_t n_positive, steps_here, most_steps
    cdef index_t[3] ends                     # where the classes begin and end in the block
    cdef double[::1] h
    cdef double target
    # Newton's method on the block
    cdef index_t n_active
    cdef bint solving
    cdef int newton_here
    cdef index_t[::1] active
    cdef double[::1] width, c, x, z, dx, dz, saved_a, saved_h
    cdef double[2] mass, rho, d_rho

    def __cinit__(self, QRows q, y, weights):
        self._prepare(q, y)
        if len(weights) != q.n_rows:
            raise ValueError(f"{q.n_rows} rows, but {len(weights)} weights")
        self.weights, self.diagonal = weights, q.diagonal
        self.floor = LEAST_CURVATURE * np.abs(q.diagonal).max(initial=0.0)
        self.active = np.zeros(q.most_rows, dtype=np.int64)
        (self.h, self.width, self.c, self.x, self.z, self.dx, self.dz, self.saved_a,
         self.saved_h) = np.zeros((9, q.most_rows))

    def rate(self, double lam, double rho_positive, double rho_negative):
        """Fill `gains` with what a move of each row alone would win; returns the pair of largest violation of each
        class, the worse class first: they must be in the next block."""
        cdef index_t i, side
        cdef double h, away, step
        cdef double[2] least, most
        cdef index_t[4] extreme
        with nogil:
            least[0] = least[1] = INFINITY
            most[0] = most[1] = -INFINITY
            extreme[0] = extreme[1] = extreme[2] = extreme[3] = -1
            for i in range(self.n_rows):
                if self.weights[i] <= 0:
                    self.all_gains[i] = -1
                    continue
                side = 0 if self.y[i] > 0 else 1
                h = (1 - lam) * self.y[i] * self.all_scores[i] + lam * self.all_duals[i] / self.weights[i]
                away = h - (rho_positive if side == 0 else rho_negative)
                if h < least[side]:
                    least[side], extreme[side] = h, i
                if self.all_duals[i] > 0 and h > most[side]:
                    most[side], extreme[2 + side] = h, i
                step = -away / fmax(self.floor, (1 - lam) * self.diagonal[i] + lam / self.weights[i])
                self.all_gains[i] = fabs(fmax(step, -self.all_duals[i]) * away)
        pairs = [(extreme[0], extreme[2]), (extreme[1], extreme[3])]
        if most[1] - least[1] > most[0] - least[0]:
            pairs.reverse()
        # where all h are equal the two rows of a pair are one
        return np.array([row for pair in pairs for row in dict.fromkeys(pair)], dtype=np.int64)

    def begin(self, const index_t[::1] rows, index_t n_positive, double lam, double fraction, index_t most_steps):
        """Take up a block (its first `n_positive` rows are of the first class), to be solved until its violation
        is `fraction` of what it is now, or for `most_steps`."""
        cdef index_t k, j, i
        cdef double scale = 1 - lam
        if not 0 <= n_positive <= rows.shape[0]:
            raise ValueError(f"{n_positive} of {rows.shape[0]} rows cannot be of the first class")
        self._take(rows)
        self.n_positive, self.lam, self.ends = n_positive, lam, [0, n_positive, self.size]
        self.steps_here, self.most_steps, self.solving = 0, most_steps, False
        with nogil:
            for k in range(self.size):
                i = self.rows[k]
                self.h[k] = scale * self.y[i] * self.all_scores[i] + lam * self.a[k] / self.weights[i]
                self.width[k] = self.weights[i] / lam if lam > 0 else 0   # 1 / r
                for j in range(self.size):
                    self.Q[k, j] *= scale
                self.Q[k, k] += lam / self.weights[i]
            self.target = 0
            self.target = fraction * self._choose(NULL)

    def improve(self):
        """One bounded piece of work on the block; true when the block is done."""
        cdef index_t turn, r = 0
        cdef bint done = False
        with nogil:
            if self.solving:
                done = self._newton_step()
                if done:
                    self._finish()
            else:
                for turn in range(min(SLICE, self.most_steps - self.steps_here)):
                    if not self._choose(&r) > self.target or not self._step(r):
                        done = True
                        break
                    self.steps_here += 1
                if not done and self.steps_here >= self.most_steps:
                    if self.lam > 0:
                        self._begin_newton()
                    else:
                        done = True
        return done

    cpdef commit(self):
        """Class sums are kept."""
        cdef index_t side
        for side in range(2):
            self._keep_sum(self.ends[side], self.ends[side + 1])
        BlockState.commit(self)
        self.steps = self.steps + self.steps_here

    cdef double _choose(self, index_t *best) noexcept nogil:
        """The violation of the block: of the worse class; *best is that class's row of least h."""
        cdef index_t k, side, r
        cdef double least, most, h, violation = 0
        for side in range(2):
            least, most, r = INFINITY, -INFINITY, -1
            for k in range(self.ends[side], self.ends[side + 1]):
                h = self.h[k]
                if h < least:
                    least, r = h, k
                if h > most and self.a[k] > 0:
                    most = h
            if r >= 0 and most - least > violation and most - least > LEAST_VIOLATION * fmax(fabs(most), fabs(least)):
                violation = most - least
                if best is not NULL:
                    best[0] = r
        return violation

    cdef bint _step(self, index_t r) noexcept nogil:
        """The best pair step to r; false if there is none."""
        cdef index_t k, q = -1, side = 0 if r < self.n_positive else 1
        cdef double away, curvature, gain, most = 0, best_curvature = 1, step
        cdef const double *row = &self.Q[r, 0]
        for k in range(self.ends[side], self.ends[side + 1]):
            away = self.h[k] - self.h[r]
            if self.a[k] > 0 and away > 0:
                curvature = fmax(self.floor, row[r] + self.Q[k, k] - 2 * row[k])
                gain = away * away / curvature
                if gain > most:
                    most, q, best_curvature = gain, k, curvature
        if q < 0:
            return False
        step = (self.h[q] - self.h[r]) / best_curvature
        if step >= self.a[q]:
            step = self.a[q]
            self.a[q] = 0
        else:
            self.a[q] -= step
        self.a[r] += step
        odm_add_multiple(self.size, step, row, &self.h[0])
        odm_add_multiple(self.size, -step, &self.Q[q, 0], &self.h[0])
        return True

    cdef void _keep_sum(self, index_t begin, index_t end) noexcept nogil:
        """Give what rounding took from the sum of a class to its largest gamma."""
        cdef index_t k, largest = begin
        cdef double lost = 0
        for k in range(begin, end):
            lost += self.before[k] - self.a[k]
            if self.a[k] > self.a[largest]:
                largest = k
        if begin < end and lost != 0:
            self.a[largest] += lost

    cdef void _begin_newton(self) noexcept nogil:
        """Newton's method takes over from the pair steps."""
        cdef index_t k
        self.solving = True
        self.newton_here = 0
        self.n_active = -1
        self.saved_a[:] = self.a
        self.saved_h[:] = self.h
        self.c[:] = self.h
        self.mass[0] = self.mass[1] = 0
        for k in range(self.size):
            if self.a[k] != 0:
                odm_add_multiple(self.size, -self.a[k], &self.Q[k, 0], &self.c[0])
            self.x[k] = self.a[k]
            self.z[k] = self.h[k] - self.a[k] / self.width[k]
            self.mass[0 if k < self.n_positive else 1] += self.a[k]
        self._level()

    cdef void _level(self) noexcept nogil:
        """rho that gives each class its sum at the present z."""
        cdef index_t side, begin, n
        for side in range(2):
            begin, n = self.ends[side], self.ends[side + 1] - self.ends[side]
            self.rho[side] = -INFINITY      # a class without a share in the block
            if self.mass[side] > 0:
                self.rho[side] = water_level(&self.z[begin], &self.width[begin], n, self.mass[side])

    cdef bint _newton_step(self) noexcept nogil:
        """One step; true when the block is solved or no step is possible."""
        cdef index_t i, j, k, n = 0, side
        cdef bint same = True
        cdef double *x[3]                        # solutions for the right-hand sides: class 0, class 1, c
        cdef double[4] sums
        cdef double[2] wanted, new_rho
        cdef double determinant, step
        for k in range(self.size):
            if self.z[k] < self.rho[0 if k < self.n_positive else 1]:
                same = same and n < self.n_active and self.active[n] == k
                self.active[n] = k
                n += 1
        if n == 0 or (same and n == self.n_active):
            return True      # the last full step solved this very system
        self.n_active = -1
        x[0], x[1], x[2] = &self.dz[0], &self.change[0], &self.dx[0]
        for i in range(n):
            k = self.active[i]
            for j in range(i + 1):
                self.factor[i, j] = self.Q[k, self.active[j]]
            x[0][i] = 1 if k < self.n_positive else 0
            x[1][i] = 1 - x[0][i]
            x[2][i] = self.c[k]
        if odm_cholesky(&self.factor[0, 0], n, self.stride, &self.work[0], 1) != 0:
            return True
        for side in range(3):
            odm_cholesky_solve(&self.factor[0, 0], n, self.stride, x[side])
        sums[0] = sums[1] = sums[2] = sums[3] = 0
        wanted[0], wanted[1] = self.mass[0], self.mass[1]
        for i in range(n):
            side = 0 if self.active[i] < self.n_positive else 1
            sums[2 * side] += x[0][i]
            sums[2 * side + 1] += x[1][i]
            wanted[side] += x[2][i]
        if self.mass[0] > 0 and self.mass[1] > 0:
            determinant = sums[0] * sums[3] - sums[1] * sums[2]
            new_rho[0] = (sums[3] * wanted[0] - sums[1] * wanted[1]) / determinant
            new_rho[1] = (sums[0] * wanted[1] - sums[2] * wanted[0]) / determinant
        else:
            new_rho[0] = wanted[0] / sums[0] if self.mass[0] > 0 else 0
            new_rho[1] = wanted[1] / sums[3] if self.mass[1] > 0 else 0
        # from here on change = x of the full step, dx and dz = the way there
        for i in range(n):
            self.factor[0, i] = -x[2][i] + new_rho[0] * x[0][i] + new_rho[1] * x[1][i]
        for k in range(self.size):
            self.dx[k] = -self.x[k]
            self.dz[k] = 0
        for i in range(n):
            self.dx[self.active[i]] += self.factor[0, i]
        for k in range(self.size):
            if self.dx[k] != 0:
                odm_add_multiple(self.size, self.dx[k], &self.Q[k, 0], &self.dz[0])
        for k in range(self.size):
            self.dz[k] -= self.dx[k] / self.width[k]
        for side in range(2):
            self.d_rho[side] = new_rho[side] - self.rho[side] if self.mass[side] > 0 else 0
        step = self._line_search()
        if not step > 0:
            return True
        for k in range(self.size):
            self.x[k] += step * self.dx[k]
            self.z[k] += step * self.dz[k]
        for side in range(2):
            self.rho[side] += step * self.d_rho[side]
        self.newton_steps = self.newton_steps + 1
        self.newton_here = self.newton_here + 1
        if step == 1:
            self.n_active = n
        return self.newton_here == MAX_NEWTON_STEPS

    cdef double _slope(self, double step) noexcept nogil:
        """Half the derivative of F along the direction."""
        cdef index_t k, side
        cdef double depth, total = -self.d_rho[0] * self.mass[0] - self.d_rho[1] * self.mass[1]
        for k in range(self.size):
            side = 0 if k < self.n_positive else 1
            total += self.dx[k] * (self.z[k] + step * self.dz[k] - self.c[k])
            depth = self.rho[side] - self.z[k] + step * (self.d_rho[side] - self.dz[k])
            if depth > 0:
                total += depth * (self.d_rho[side] - self.dz[k]) * self.width[k]
        return total

    cdef double _line_search(self) noexcept nogil:
        """The step in (0, 1] where F is least; 0 if it does not fall."""
        cdef double low = 0, high = 1, middle
        cdef int turn
        if not self._slope(0) < 0:
            return 0
        if self._slope(1) <= 0:
            return 1
        for turn in range(LINE_SEARCH_STEPS):
            middle = 0.5 * (low + high)
            if self._slope(middle) > 0:
                high = middle
            else:
                low = middle
        return high

    cdef void _finish(self) noexcept nogil:
        """gamma from z; what the pair steps left is kept unless the objective falls below it."""
        cdef index_t k, side
        cdef double before = 0, now = 0, total
        self._level()
        self.h[:] = self.c
        for side in range(2):
            total = 0
            for k in range(self.ends[side], self.ends[side + 1]):
                self.a[k] = fmax(0.0, self.rho[side] - self.z[k]) * self.width[k]
                total += self.a[k]
            for k in range(self.ends[side], self.ends[side + 1]):
                if self.a[k] != 0:
                    self.a[k] *= self.mass[side] / total
                    odm_add_multiple(self.size, self.a[k], &self.Q[k, 0], &self.h[0])
        for k in range(self.size):
            before += self.saved_a[k] * (self.saved_h[k] + self.c[k])
            now += self.a[k] * (self.h[k] + self.c[k])
        if not now < before:
            self.a[:] = self.saved_a
            self.h[:] = self.saved_h
