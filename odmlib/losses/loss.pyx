"""The scalar losses of the binary machines; the contract is in loss.pxd."""

from libc.math cimport INFINITY, fabs


cdef class MarginLoss:
    """Base of the scalar losses. Compiled solvers call the methods of loss.pxd; Python sees `evaluate`."""

    cdef double value(self, double margin, double cost) noexcept nogil:
        return 0.0

    cdef double slope(self, double margin, double cost) noexcept nogil:
        return 0.0

    cdef double curvature(self, double margin, double cost) noexcept nogil:
        return 0.0

    cdef double expand(self, double margin, double cost, double *slope, double *curvature) noexcept nogil:
        slope[0] = self.slope(margin, cost)
        curvature[0] = self.curvature(margin, cost)
        return self.value(margin, cost)

    cdef double conjugate(self, double dual, double cost) noexcept nogil:
        return 0.0 if dual == 0 else INFINITY

    cdef double dual_argmin(self, double margin_without, double h, double cost) noexcept nogil:
        return 0.0

    cdef double violation(self, double dual, double margin, double cost) noexcept nogil:
        return 0.0

    cdef double gap(self, double dual, double margin, double cost) noexcept nogil:
        cdef double total = self.value(margin, cost) + self.conjugate(dual, cost) + dual * margin
        return 0.0 if total < 0 else total       # below 0 by rounding only; a NaN stays one

    def evaluate(self, str what, double first, double second, double third=0.0):
        """One scalar method by name, for tests and plots: `evaluate("value", margin, cost)`."""
        if what == "value":
            return self.value(first, second)
        if what == "slope":
            return self.slope(first, second)
        if what == "curvature":
            return self.curvature(first, second)
        if what == "expand":
            return self._expanded(first, second)
        if what == "conjugate":
            return self.conjugate(first, second)
        if what == "dual_argmin":
            return self.dual_argmin(first, second, third)
        if what == "violation":
            return self.violation(first, second, third)
        if what == "gap":
            return self.gap(first, second, third)
        raise ValueError(f"no such method of a loss: {what!r}")

    def _expanded(self, double margin, double cost):
        cdef double slope = 0.0, curvature = 0.0
        cdef double value = self.expand(margin, cost, &slope, &curvature)
        return value, slope, curvature


cdef class BandLoss(MarginLoss):
    """ODM: cost [ max(0, 1-theta-z)^2 + nu max(0, z-1-theta)^2 ] with cost_i = C s_i / (1-theta)^2.

    Conjugate at -a:  -a + theta |a| + a^2 / (4 cost)  for a >= 0,  ... + a^2 / (4 nu cost)  for a < 0
    (a < 0 is not allowed where nu = 0). theta = nu = 0 is the squared hinge.
    """

    def __init__(self, double theta, double nu):
        self.theta = theta
        self.nu = nu

    def __reduce__(self):
        return BandLoss, (self.theta, self.nu)

    cdef double value(self, double margin, double cost) noexcept nogil:
        cdef double short = 1 - self.theta - margin
        cdef double over = margin - 1 - self.theta
        if short > 0:
            return cost * short * short
        if over > 0:
            return self.nu * cost * over * over
        return 0.0

    cdef double slope(self, double margin, double cost) noexcept nogil:
        cdef double short = 1 - self.theta - margin
        cdef double over = margin - 1 - self.theta
        if short > 0:
            return -2 * cost * short
        if over > 0:
            return 2 * self.nu * cost * over
        return 0.0

    cdef double curvature(self, double margin, double cost) noexcept nogil:
        if margin < 1 - self.theta:
            return 2 * cost
        if margin > 1 + self.theta:
            return 2 * self.nu * cost
        return 0.0

    cdef double expand(self, double margin, double cost, double *slope, double *curvature) noexcept nogil:
        # one call a row in Newton's pass over the data: worth its own lines
        cdef double beyond = 1 - self.theta - margin
        cdef double side = cost
        if beyond <= 0:
            beyond = 1 + self.theta - margin
            side = self.nu * cost
            if beyond >= 0:
                slope[0] = curvature[0] = 0.0
                return 0.0
        slope[0] = -2 * side * beyond
        curvature[0] = 2 * side
        return side * beyond * beyond

    cdef double conjugate(self, double dual, double cost) noexcept nogil:
        if dual == 0:
            return 0.0
        cdef double side = cost if dual > 0 else self.nu * cost
        if side <= 0:
            return INFINITY
        return -dual + self.theta * fabs(dual) + dual * dual / (4 * side)

    cdef double dual_argmin(self, double margin_without, double h, double cost) noexcept nogil:
        # ridge = 1 / (2 side) > 0 keeps the quotient defined for an all-zero row (h = 0)
        cdef double u = 1 - margin_without
        cdef double side
        if u > self.theta:
            side = cost
            u -= self.theta
        elif u < -self.theta:
            side = self.nu * cost
            u += self.theta
        else:
            return 0.0
        if side <= 0:
            return 0.0
        return 2 * side * u / (2 * side * h + 1)

    cdef double violation(self, double dual, double margin, double cost) noexcept nogil:
        cdef double side, inner
        if dual != 0:
            side = cost if dual > 0 else self.nu * cost
            inner = margin - 1 + dual / (2 * side)
            return fabs(inner + self.theta if dual > 0 else inner - self.theta)
        if cost <= 0:
            return 0.0
        inner = 1 - margin
        if inner > self.theta:
            return inner - self.theta
        if inner < -self.theta and self.nu > 0:
            return -inner - self.theta
        return 0.0
