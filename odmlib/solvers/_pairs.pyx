"""Compiled steps of the pair method for KM-OMD; pairs.py drives them. The problem is at the head of _hulls.pyx.

With Q_ij = (1-lambda) y_i y_j k_ij + lambda [i = j] / w_i the objective is gamma' Q gamma and h = Q gamma. A pair
step moves gamma from q to r of the same class, r the row of least h in it:

    e = min(gamma_q, (h_q - h_r) / D),   D = Q_rr + Q_qq - 2 Q_rq,   gamma_r += e,   gamma_q -= e,   h += e (Q_r - Q_q)

and q is the row that promises most: the largest (h_q - h_r)^2 / D. The class is the one of larger violation,
(largest h where gamma > 0) - (least h).

Newton. Where pair steps are slow (kernel values large beside lambda) the block is solved by Newton's method on its dual
function. With r_i = lambda / w_i, M = Q - diag(r), c = (h - Q gamma) of the block and S_y its share of the class sums,

    min over a, rho  F = a'Ma + sum_i [rho_y - z_i]_+^2 / r_i - 2 rho'S,    z = c + Ma,    gamma_i = [rho_y - z_i]_+ / r_i

is convex and piecewise quadratic; on A = {z_i < rho_y} a step solves Q_AA a_A = rho_y - c_A, sum over y of a_A = S_y, and
an exact line search follows. The result is made feasible by rho_y anew and kept only if the objective fell.

Blocks. Steps are done on a block of rows with its part of Q at hand; then the scores s of all rows are updated
with the block's kernel rows at once. A step costs O(block), not O(rows), and kernel rows are computed many at a
time. A block of all rows is the plain method.
"""

from libc.math cimport INFINITY, fabs, fmax
from libc.stdlib cimport free, malloc

import numpy as np

from odmlib._core.types cimport index_t, kernel_t
from odmlib.kernels.cache cimport RowCache
from odmlib.solvers._hulls cimport water_level

cdef extern from "dense.h" nogil:
    const index_t ODM_FACTOR_BLOCK
    index_t odm_factor_line(index_t n) noexcept
    void odm_add_rows(const void **rows, bint wide, const double *factors, index_t n_rows, index_t n_columns,
                      double *sums, int n_threads) noexcept
    void odm_add_multiple(index_t n, double factor, const double *x, double *y) noexcept
    index_t odm_cholesky(double *matrix, index_t n, index_t stride, double *work, int n_threads) noexcept
    void odm_cholesky_solve(const double *factor, index_t n, index_t stride, double *x) noexcept

cdef double LEAST_CURVATURE = 1e-14   # of a pair, relative to the largest k_ii: equal rows at lambda = 0
cdef double LEAST_VIOLATION = 1e-15   # relative to the largest |h|: what rounding leaves
cdef index_t SLICE = 4096             # steps between two looks at the clock
cdef int MAX_NEWTON_STEPS = 30        # they are finite in theory and fewer than ten as a rule
cdef int LINE_SEARCH_STEPS = 40


cdef class Pairs:
    """gamma and scores of all rows, and the block of rows at work."""

    cdef RowCache cache
    cdef readonly index_t steps, newton_steps
    cdef readonly object gamma, scores, gains     # arrays that Python sees; the views below are theirs
    cdef int threads
    cdef double lam, floor
    cdef index_t n_rows, max_size
    cdef const double[::1] y, weights, diagonal
    cdef double[::1] all_gamma, all_scores, all_gains
    # the block, rows of the first class before those of the second
    cdef index_t size, n_positive
    cdef index_t[::1] rows
    cdef void **kernel_rows
    cdef double[:, ::1] Q
    cdef double[::1] g, h, before, change
    cdef double target
    cdef index_t steps_here, most_steps
    # Newton's method on the block
    cdef index_t stride, n_active
    cdef bint solving
    cdef int newton_here
    cdef double[:, ::1] factor
    cdef index_t[::1] active
    cdef double[::1] work, width, c, a, z, da, dz, saved_g, saved_h
    cdef double[2] mass, rho, d_rho

    def __cinit__(self, RowCache cache, y, weights, int threads, index_t max_size):
        self.cache = cache
        self.threads = threads
        self.n_rows = cache.n_columns
        self.max_size = max_size
        self.y = y
        self.weights = weights
        self.diagonal = cache.kernel.diagonal()
        self.gamma = np.zeros(self.n_rows)
        self.scores = np.zeros(self.n_rows)
        self.gains = np.zeros(self.n_rows)
        self.all_gamma = self.gamma
        self.all_scores = self.scores
        self.all_gains = self.gains
        self.kernel_rows = <void **>malloc(max_size * sizeof(void *))
        if self.kernel_rows is NULL:
            raise MemoryError
        self.rows = np.zeros(max_size, dtype=np.int64)
        self.active = np.zeros(max_size, dtype=np.int64)
        self.stride = odm_factor_line(max_size)
        self.Q = np.empty((max_size, self.stride))
        self.factor = np.empty((max_size, self.stride))
        self.work = np.empty(self.stride * ODM_FACTOR_BLOCK)
        (self.g, self.h, self.before, self.change, self.width, self.c, self.a, self.z, self.da, self.dz, self.saved_g,
         self.saved_h) = np.zeros((12, max_size))
        cdef index_t i
        for i in range(self.n_rows):
            self.floor = fmax(self.floor, LEAST_CURVATURE * fabs(self.diagonal[i]))

    def __dealloc__(self):
        free(self.kernel_rows)

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
                h = (1 - lam) * self.y[i] * self.all_scores[i] + lam * self.all_gamma[i] / self.weights[i]
                away = h - (rho_positive if side == 0 else rho_negative)
                if h < least[side]:
                    least[side], extreme[side] = h, i
                if self.all_gamma[i] > 0 and h > most[side]:
                    most[side], extreme[2 + side] = h, i
                step = -away / fmax(self.floor, (1 - lam) * self.diagonal[i] + lam / self.weights[i])
                self.all_gains[i] = fabs(fmax(step, -self.all_gamma[i]) * away)
        pairs = [(extreme[0], extreme[2]), (extreme[1], extreme[3])]
        if most[1] - least[1] > most[0] - least[0]:
            pairs.reverse()
        # where all h are equal the two rows of a pair are one
        return np.array([row for pair in pairs for row in dict.fromkeys(pair)], dtype=np.int64)

    def prefetch(self, const index_t[::1] rows):
        """Have the kernel rows of a part of the next block computed."""
        cdef index_t n = rows.shape[0]
        if n:
            with nogil:
                self.cache.fetch(&rows[0], n, self.kernel_rows)

    def add_rows(self, const index_t[::1] rows, const double[::1] amounts):
        """Add to gamma of the rows and follow it up in all scores (at most max_size rows)."""
        cdef index_t r, n = rows.shape[0]
        if n == 0:
            return
        with nogil:
            self.cache.fetch(&rows[0], n, self.kernel_rows)
            for r in range(n):
                self.all_gamma[rows[r]] += amounts[r]
                self.change[r] = amounts[r] * self.y[rows[r]]
            odm_add_rows(<const void **>self.kernel_rows, self.cache.wide, &self.change[0], n, self.n_rows,
                         &self.all_scores[0], self.threads)

    def begin(self, const index_t[::1] rows, index_t n_positive, double lam, double fraction, index_t most_steps):
        """Take up a block (its first `n_positive` rows are of the first class), to be solved until its violation
        is `fraction` of what it is now, or for `most_steps`."""
        cdef index_t k, j, i
        cdef double scale = 1 - lam, sign
        cdef const kernel_t *floats
        cdef const double *doubles
        self.size, self.n_positive, self.lam = rows.shape[0], n_positive, lam
        self.steps_here, self.most_steps, self.solving = 0, most_steps, False
        with nogil:
            for k in range(self.size):
                self.rows[k] = rows[k]
            self.cache.fetch(&self.rows[0], self.size, self.kernel_rows)
            for k in range(self.size):
                i = self.rows[k]
                self.g[k] = self.before[k] = self.all_gamma[i]
                self.h[k] = scale * self.y[i] * self.all_scores[i] + lam * self.g[k] / self.weights[i]
                if self.cache.wide:
                    doubles = <const double *>self.kernel_rows[k]
                    for j in range(k + 1):
                        sign = scale if (j < n_positive) == (k < n_positive) else -scale
                        self.Q[k, j] = sign * doubles[self.rows[j]]
                else:
                    floats = <const kernel_t *>self.kernel_rows[k]
                    for j in range(k + 1):
                        sign = scale if (j < n_positive) == (k < n_positive) else -scale
                        self.Q[k, j] = sign * floats[self.rows[j]]
                self.Q[k, k] += lam / self.weights[i]
                self.width[k] = self.weights[i] / lam if lam > 0 else 0   # 1 / r
            for k in range(self.size):
                for j in range(k):
                    self.Q[j, k] = self.Q[k, j]
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

    def commit(self):
        """Write the block's gamma back, class sums kept, and update the scores of all rows."""
        cdef index_t k, n = 0
        with nogil:
            self._keep_sum(0, self.n_positive)
            self._keep_sum(self.n_positive, self.size)
            for k in range(self.size):
                if self.g[k] != self.before[k]:
                    self.all_gamma[self.rows[k]] = self.g[k]
                    self.change[n] = (self.g[k] - self.before[k]) * self.y[self.rows[k]]
                    self.kernel_rows[n] = self.kernel_rows[k]
                    n += 1
            odm_add_rows(<const void **>self.kernel_rows, self.cache.wide, &self.change[0], n, self.n_rows,
                         &self.all_scores[0], self.threads)
            self.steps = self.steps + self.steps_here

    cdef double _choose(self, index_t *best) noexcept nogil:
        """The violation of the block: of the worse class; *best is that class's row of least h."""
        cdef index_t k, end, side, r
        cdef double least, most, h, violation = 0
        for side in range(2):
            k = 0 if side == 0 else self.n_positive
            end = self.n_positive if side == 0 else self.size
            least, most, r = INFINITY, -INFINITY, -1
            while k < end:
                h = self.h[k]
                if h < least:
                    least, r = h, k
                if h > most and self.g[k] > 0:
                    most = h
                k += 1
            if r >= 0 and most - least > violation and most - least > LEAST_VIOLATION * fmax(fabs(most), fabs(least)):
                violation = most - least
                if best is not NULL:
                    best[0] = r
        return violation

    cdef bint _step(self, index_t r) noexcept nogil:
        """The best pair step to r; false if there is none."""
        cdef index_t k, q = -1, begin = 0, end = self.n_positive
        cdef double away, curvature, gain, most = 0, best_curvature = 1, step
        cdef const double *row = &self.Q[r, 0]
        if r >= self.n_positive:
            begin, end = self.n_positive, self.size
        for k in range(begin, end):
            away = self.h[k] - self.h[r]
            if self.g[k] > 0 and away > 0:
                curvature = fmax(self.floor, row[r] + self.Q[k, k] - 2 * row[k])
                gain = away * away / curvature
                if gain > most:
                    most, q, best_curvature = gain, k, curvature
        if q < 0:
            return False
        step = (self.h[q] - self.h[r]) / best_curvature
        if step >= self.g[q]:
            step = self.g[q]
            self.g[q] = 0
        else:
            self.g[q] -= step
        self.g[r] += step
        odm_add_multiple(self.size, step, row, &self.h[0])
        odm_add_multiple(self.size, -step, &self.Q[q, 0], &self.h[0])
        return True

    cdef void _keep_sum(self, index_t begin, index_t end) noexcept nogil:
        """Give what rounding took from the sum of a class to its largest gamma."""
        cdef index_t k, largest = begin
        cdef double lost = 0
        for k in range(begin, end):
            lost += self.before[k] - self.g[k]
            if self.g[k] > self.g[largest]:
                largest = k
        if begin < end and lost != 0:
            self.g[largest] += lost

    # ------------------------------------------------------------------------------------ Newton's method

    cdef void _begin_newton(self) noexcept nogil:
        cdef index_t k
        self.solving = True
        self.newton_here = 0
        self.n_active = -1
        self.saved_g[:] = self.g
        self.saved_h[:] = self.h
        self.c[:] = self.h
        self.mass[0] = self.mass[1] = 0
        for k in range(self.size):
            if self.g[k] != 0:
                odm_add_multiple(self.size, -self.g[k], &self.Q[k, 0], &self.c[0])
            self.a[k] = self.g[k]
            self.z[k] = self.h[k] - self.g[k] / self.width[k]
            self.mass[0 if k < self.n_positive else 1] += self.g[k]
        self._level()

    cdef void _level(self) noexcept nogil:
        """rho that gives each class its sum at the present z."""
        self.rho[0] = self.rho[1] = -INFINITY      # a class without a share in the block
        if self.mass[0] > 0:
            self.rho[0] = water_level(&self.z[0], &self.width[0], self.n_positive, self.mass[0])
        if self.mass[1] > 0:
            self.rho[1] = water_level(&self.z[self.n_positive], &self.width[self.n_positive],
                                      self.size - self.n_positive, self.mass[1])

    cdef bint _newton_step(self) noexcept nogil:
        """One step; true when the block is solved or no step is possible."""
        cdef index_t i, j, k, n = 0, side
        cdef bint same = True
        cdef double *x_first = &self.dz[0]       # solutions for the right-hand sides: class 0, class 1, c
        cdef double *x_second = &self.change[0]
        cdef double *x_c = &self.da[0]
        cdef double[4] sums
        cdef double[2] wanted
        cdef double determinant, step
        cdef double[2] new_rho
        for k in range(self.size):
            if self.z[k] < self.rho[0 if k < self.n_positive else 1]:
                same = same and n < self.n_active and self.active[n] == k
                self.active[n] = k
                n += 1
        if n == 0 or (same and n == self.n_active):
            return True      # the last full step solved this very system
        self.n_active = -1
        for i in range(n):
            k = self.active[i]
            for j in range(i + 1):
                self.factor[i, j] = self.Q[k, self.active[j]]
            x_first[i] = 1 if k < self.n_positive else 0
            x_second[i] = 0 if k < self.n_positive else 1
            x_c[i] = self.c[k]
        if odm_cholesky(&self.factor[0, 0], n, self.stride, &self.work[0], 1) != 0:
            return True
        odm_cholesky_solve(&self.factor[0, 0], n, self.stride, x_first)
        odm_cholesky_solve(&self.factor[0, 0], n, self.stride, x_second)
        odm_cholesky_solve(&self.factor[0, 0], n, self.stride, x_c)
        sums[0] = sums[1] = sums[2] = sums[3] = 0
        wanted[0], wanted[1] = self.mass[0], self.mass[1]
        for i in range(n):
            side = 0 if self.active[i] < self.n_positive else 1
            sums[2 * side] += x_first[i]
            sums[2 * side + 1] += x_second[i]
            wanted[side] += x_c[i]
        if self.mass[0] > 0 and self.mass[1] > 0:
            determinant = sums[0] * sums[3] - sums[1] * sums[2]
            new_rho[0] = (sums[3] * wanted[0] - sums[1] * wanted[1]) / determinant
            new_rho[1] = (sums[0] * wanted[1] - sums[2] * wanted[0]) / determinant
        else:
            new_rho[0] = wanted[0] / sums[0] if self.mass[0] > 0 else -INFINITY
            new_rho[1] = wanted[1] / sums[3] if self.mass[1] > 0 else -INFINITY
        # from here on change = a of the full step, da and dz = the way there
        for i in range(n):
            self.factor[0, i] = -x_c[i]
            if self.mass[0] > 0:
                self.factor[0, i] += new_rho[0] * x_first[i]
            if self.mass[1] > 0:
                self.factor[0, i] += new_rho[1] * x_second[i]
        for k in range(self.size):
            self.da[k] = -self.a[k]
            self.dz[k] = 0
        for i in range(n):
            self.da[self.active[i]] += self.factor[0, i]
        for k in range(self.size):
            if self.da[k] != 0:
                odm_add_multiple(self.size, self.da[k], &self.Q[k, 0], &self.dz[0])
        for k in range(self.size):
            self.dz[k] -= self.da[k] / self.width[k]
        for side in range(2):
            self.d_rho[side] = new_rho[side] - self.rho[side] if self.mass[side] > 0 else 0
        step = self._line_search()
        if not step > 0:
            return True
        for k in range(self.size):
            self.a[k] += step * self.da[k]
            self.z[k] += step * self.dz[k]
        for side in range(2):
            if self.mass[side] > 0:
                self.rho[side] += step * self.d_rho[side]
        self.newton_steps = self.newton_steps + 1
        self.newton_here = self.newton_here + 1
        if step == 1:
            self.n_active = n
        return self.newton_here == MAX_NEWTON_STEPS

    cdef double _slope(self, double step) noexcept nogil:
        """Half the derivative of F along the direction."""
        cdef index_t k, side
        cdef double depth, total = 0
        for side in range(2):
            if self.mass[side] > 0:
                total -= self.d_rho[side] * self.mass[side]
        for k in range(self.size):
            side = 0 if k < self.n_positive else 1
            total += self.da[k] * (self.z[k] + step * self.dz[k] - self.c[k])
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
        cdef index_t k
        cdef double before = 0, now = 0
        cdef double[2] scale
        self._level()
        for k in range(self.size):
            self.g[k] = fmax(0.0, self.rho[0 if k < self.n_positive else 1] - self.z[k]) * self.width[k]
        scale[0] = scale[1] = 0
        for k in range(self.size):
            scale[0 if k < self.n_positive else 1] += self.g[k]
        self.h[:] = self.c
        for k in range(self.size):
            if self.g[k] != 0:
                self.g[k] *= self.mass[0 if k < self.n_positive else 1] / scale[0 if k < self.n_positive else 1]
                odm_add_multiple(self.size, self.g[k], &self.Q[k, 0], &self.h[0])
        for k in range(self.size):
            before += self.saved_g[k] * (self.saved_h[k] + self.c[k])
            now += self.g[k] * (self.h[k] + self.c[k])
        if not now < before:
            self.g[:] = self.saved_g
            self.h[:] = self.saved_h
