"""Compiled inner loops of SVRG for linear machines; svrg.py and svrg_pairs.py hold the methods' statements."""

from odmlib._core.random cimport below
from odmlib._core.rows cimport Rows
from odmlib._core.types cimport index_t, uint64_t
from odmlib._core.views cimport data_of, target_of, targets_data
from odmlib.losses.loss cimport MarginLoss, MeanVarianceLoss

cdef double SMALLEST_SCALE = 1e-100   # refresh v before 1 / scale can overflow


cdef class InnerLoop:
    """Stochastic steps of one stage. The iterate is w = scale v + shift mu, so that a step costs
    O(nonzeros of the row): the dense part (1 - eta) w - eta mu only moves the two scalars."""

    cdef Rows rows
    cdef MarginLoss loss
    cdef const double[::1] y, costs, mu, old_slopes, all_targets
    cdef const double *targets  # NULL: all 0
    cdef double[::1] v
    cdef double scale, shift, eta
    cdef uint64_t generator
    cdef const index_t[::1] order       # of the rows to take, none twice; None: rows are drawn at random
    cdef index_t taken

    def __init__(self, Rows rows, MarginLoss loss, const double[::1] y, const double[::1] costs, uint64_t seed,
                 const double[::1] targets=None):
        self.rows, self.loss, self.y, self.costs, self.generator = rows, loss, y, costs, seed
        self.all_targets, self.targets = targets, targets_data(targets, rows.n_rows)

    def begin_stage(self, double[::1] w, const double[::1] mu, const double[::1] old_slopes, double eta,
                    const index_t[::1] order=None):
        """`w` becomes the working vector; `mu` and `old_slopes` belong to the snapshot."""
        self.order, self.taken = order, 0
        self.v, self.mu, self.old_slopes, self.eta = w, mu, old_slopes, eta
        self.scale, self.shift = 1.0, 0.0

    def advance(self, index_t n_steps):
        cdef index_t k
        if self.order is not None and n_steps > self.order.shape[0] - self.taken:
            raise ValueError("more steps than rows")
        with nogil:
            for k in range(n_steps):
                self.step()

    def end_stage(self):
        """Write the iterate into the vector given to begin_stage."""
        with nogil:
            self.settle()

    cdef void settle(self) noexcept nogil:
        cdef index_t j
        for j in range(self.v.shape[0]):
            self.v[j] = self.scale * self.v[j] + self.shift * self.mu[j]
        self.scale, self.shift = 1.0, 0.0

    cdef double score(self, index_t i) noexcept nogil:
        return (self.scale * self.rows.dot(i, data_of(self.v))
                + self.shift * self.rows.dot(i, data_of(self.mu)))

    cdef double change(self, index_t i) noexcept nogil:
        """The slope of a row's loss now, less that at the snapshot."""
        cdef double margin = self.y[i] * self.score(i) - target_of(self.targets, i)
        return self.loss.slope(margin, self.costs[i]) - self.old_slopes[i]

    cdef void step(self) noexcept nogil:
        cdef index_t i
        if self.order is None:
            i = below(&self.generator, self.rows.n_rows)
        else:
            i = self.order[self.taken]
            self.taken += 1
        cdef double change = self.change(i)
        self.scale *= 1 - self.eta
        self.shift = (1 - self.eta) * self.shift - self.eta
        if change != 0:
            self.rows.add(i, -self.eta * self.rows.n_rows * change * self.y[i] / self.scale, data_of(self.v))
        if self.scale < SMALLEST_SCALE:
            self.settle()


cdef double ramp(double margin, double width) noexcept nogil:
    """The part of the hinge's slope that counts: 1 well below the kink, 0 well above it."""
    return min(1.0, max(0.0, 0.5 + (1 - margin) / width))


cdef class PairLoop(InnerLoop):
    """The same for ODM^L, whose margin mean is estimated by a second row in every step."""

    cdef double variance, hinge, total, width

    def __init__(self, Rows rows, MeanVarianceLoss loss, const double[::1] y, const double[::1] costs,
                 uint64_t seed):
        InnerLoop.__init__(self, rows, loss, y, costs, seed)
        cdef index_t i
        self.variance, self.hinge, self.total, self.width = loss.variance, loss.hinge, 0.0, 1.0
        for i in range(costs.shape[0]):
            self.total += costs[i]

    def begin_pairs(self, double[::1] w, const double[::1] mu, const double[::1] old_margins, double eta,
                    double width):
        """`mu` and `old_margins` belong to the snapshot; `width` is that of the ramp."""
        self.width = width
        self.begin_stage(w, mu, old_margins, eta)

    cdef double change(self, index_t i) noexcept nogil:
        cdef double cost = self.costs[i], new = self.y[i] * self.score(i), old = self.old_slopes[i]
        cdef double found = self.hinge * cost * (ramp(old, self.width) - ramp(new, self.width))
        cdef double mean = 0.0
        cdef index_t j
        if self.variance > 0 and self.total > 0:
            j = below(&self.generator, self.rows.n_rows)
            mean = self.rows.n_rows * self.costs[j] / self.total * (self.y[j] * self.score(j) - self.old_slopes[j])
            found += 2 * self.variance * cost * (new - old - mean)
        return found
