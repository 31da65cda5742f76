# MarginLoss: all that distinguishes one binary machine from another, as scalars of one row.
#
# `margin` is z = y f(x), less the row's target where the problem has targets; `dual` is the row's signed multiplier a, with a = -slope(z) at the optimum;
# `cost` >= 0 is the row's weight in front of its loss (docs/internals/mathematics.md).

cdef class MarginLoss:
    # whether the loss has a derivative everywhere; those that have none also give the second group below
    cdef readonly bint smooth
    cdef double value(self, double margin, double cost) noexcept nogil
    # derivative with respect to the margin
    cdef double slope(self, double margin, double cost) noexcept nogil
    # generalised second derivative with respect to the margin
    cdef double curvature(self, double margin, double cost) noexcept nogil
    # all three at once: the value; slope and curvature where the pointers say
    cdef double expand(self, double margin, double cost, double *slope, double *curvature) noexcept nogil
    # convex conjugate at -dual: sup over z of (-dual z - value(z)); infinite where not allowed
    cdef double conjugate(self, double dual, double cost) noexcept nogil
    # minimiser over a of  h a^2 / 2 + margin_without a + conjugate(a); h >= 0 is the row's own kernel value
    cdef double dual_argmin(self, double margin_without, double h, double cost) noexcept nogil
    # distance of 0 from the subdifferential of the dual in this row
    cdef double violation(self, double dual, double margin, double cost) noexcept nogil
    # value(margin) + conjugate(dual) + dual margin >= 0: the row's share of the duality gap
    cdef double gap(self, double dual, double margin, double cost) noexcept nogil

    # The conjugate's derivative inside of a piece, and the piece (its interval; returned: its second
    # derivative) on which the conjugate is quadratic; between two of them the one that lies in `direction`
    cdef double conjugate_slope(self, double dual, double cost) noexcept nogil
    cdef double piece(self, double dual, double direction, double cost, double *low, double *high) noexcept nogil


cdef class BandLoss(MarginLoss):
    cdef readonly double theta
    cdef readonly double nu
    cdef readonly double centre


cdef class MeanVarianceLoss(MarginLoss):
    cdef readonly double variance
    cdef readonly double mean
    cdef readonly double hinge
    cdef public double centre           # moved by the solver: its best value depends on all rows
    cdef double _low(self, double cost) noexcept nogil
    cdef double _high(self, double cost) noexcept nogil
    cdef double _margin_of(self, double dual, double cost) noexcept nogil


cdef class HingeLoss(MeanVarianceLoss):
    pass


cdef class SmoothedLoss(MarginLoss):
    cdef readonly double variance
    cdef readonly double mean
    cdef readonly double hinge
    cdef public double width            # of the interval around the kink on which the hinge is bent
    cdef public double centre
