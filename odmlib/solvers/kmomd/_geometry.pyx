"""Objective and lower bound of KM-OMD at any point, for all of its solvers.

Problem (docs/internals/mathematics.md, "KM-OMD"), one weight gamma_i >= 0 per row, summing to 1 in each of the two classes:

    min  L = (1-lambda) |v|^2 + lambda sum_i gamma_i^2 / w_i,     v = sum_i y_i gamma_i phi(x_i)
    h_i = (1-lambda) y_i s_i + lambda gamma_i / w_i               half the gradient of L; s_i = <v, phi(x_i)>

w_i are the row weights: a row of weight 2 is the same as that row twice, a row of weight 0 has no part in it.
At the optimum h_i = rho_y where gamma_i > 0 and h_i >= rho_y elsewhere, y the class of row i.

Lower bounds of the optimum: with z_i = (1-lambda) y_i s_i and rho_y such that
sum over class y of w_i [rho_y - z_i]_+ = lambda,

    2 (rho_+ + rho_-) - (1-lambda) |v|^2 - (1/lambda) sum_i w_i [rho_y - z_i]_+^2          lambda > 0
    m^2 / L  where m = (least h of one class) + (least h of the other) > 0                 any lambda
"""

from libc.math cimport INFINITY, fmax

import numpy as np

from odmlib._core.types cimport index_t


cdef double water_level(const double *levels, const double *weights, index_t n, double amount) noexcept nogil:
    """rho with sum_i weights_i [rho - levels_i]_+ = amount, for amount > 0 and weights > 0.

    Newton's method from the right on a convex, piecewise linear function: every round leaves fewer rows wet.
    """
    cdef index_t i, wet = n + 1, before = n + 2
    cdef double rho = INFINITY, width, volume
    while wet < before:
        before, wet = wet, 0
        width = volume = 0
        for i in range(n):
            if levels[i] < rho:
                width += weights[i]
                volume += weights[i] * levels[i]
                wet += 1
        if wet > 0:       # none is wet where the amount is lost in rounding
            rho = (amount + volume) / width
    return rho


cdef class TwoClasses:
    """Two classes of weighted rows; `measure` says where a point stands, `spread` makes one from scores."""

    cdef readonly object rows          # those of positive weight, the first class before the second
    cdef readonly index_t n_positive   # how many of them are of the first class
    cdef const index_t[::1] order
    cdef double[::1] weights, levels
    cdef index_t n_all
    cdef index_t[3] ends               # where the classes begin and end in `rows`

    def __init__(self, y, weights):
        y, weights = np.asarray(y), np.asarray(weights, dtype=np.float64)
        if y.shape != weights.shape or y.ndim != 1:
            raise ValueError(f"a sign and a weight for each row are needed, found {y.shape} and {weights.shape}")
        positive = np.flatnonzero((y > 0) & (weights > 0))
        negative = np.flatnonzero((y < 0) & (weights > 0))
        self.rows = np.concatenate([positive, negative])
        self.order = self.rows
        self.weights = weights[self.rows]
        self.levels = np.empty(len(self.rows))
        self.n_positive, self.n_all = len(positive), len(y)
        self.ends = [0, self.n_positive, len(self.rows)]

    def measure(self, const double[::1] gamma, const double[::1] scores, double lam):
        """(L, |v|^2, lower bound, (rho_+, rho_-)); rho_y is the gamma-weighted mean of h in class y."""
        cdef index_t i, k, side, begin, end
        cdef double h, z, norm_squared = 0, objective, bound = 0, tight, depth, squares = 0, level
        cdef double[2] rho, least
        if not gamma.shape[0] == scores.shape[0] == self.n_all:
            raise ValueError(f"{self.n_all} rows, but {gamma.shape[0]} gamma and {scores.shape[0]} scores")
        with nogil:
            tight = 0
            for side in range(2):
                begin, end = self.ends[side], self.ends[side + 1]
                rho[side], least[side] = 0, INFINITY
                for k in range(begin, end):
                    i = self.order[k]
                    z = scores[i] if side == 0 else -scores[i]
                    self.levels[k] = (1 - lam) * z
                    h = self.levels[k] + lam * gamma[i] / self.weights[k]
                    norm_squared += gamma[i] * z
                    rho[side] += gamma[i] * h
                    if h < least[side]:
                        least[side] = h
                if lam > 0 and end > begin:
                    level = water_level(&self.levels[begin], &self.weights[begin], end - begin, lam)
                    tight += 2 * level
                    for k in range(begin, end):
                        depth = fmax(0.0, level - self.levels[k])
                        squares += self.weights[k] * depth * depth
        objective = rho[0] + rho[1]
        if least[0] + least[1] > 0 and objective > 0:
            bound = (least[0] + least[1]) * ((least[0] + least[1]) / objective)
        if lam > 0:
            bound = max(bound, tight - (1 - lam) * norm_squared - squares / lam)
        return objective, norm_squared, bound, (rho[0], rho[1])

    def spread(self, const double[::1] scores, double lam):
        """The gamma that belongs to the scores of an optimal v: w_i [rho_y - z_i]_+ / lambda, for lambda > 0."""
        cdef index_t k, side, begin, end
        cdef double level, total
        if scores.shape[0] != self.n_all:
            raise ValueError(f"{self.n_all} rows, but {scores.shape[0]} scores")
        result = np.zeros(scores.shape[0])
        cdef double[::1] gamma = result
        with nogil:
            for side in range(2):
                begin, end = self.ends[side], self.ends[side + 1]
                if begin == end:
                    continue
                for k in range(begin, end):
                    self.levels[k] = (1 - lam) * (scores[self.order[k]] if side == 0 else -scores[self.order[k]])
                level = water_level(&self.levels[begin], &self.weights[begin], end - begin, lam)
                total = 0
                for k in range(begin, end):
                    gamma[self.order[k]] = self.weights[k] * fmax(0.0, level - self.levels[k])
                    total += gamma[self.order[k]]
                for k in range(begin, end):
                    gamma[self.order[k]] /= total
        return result
