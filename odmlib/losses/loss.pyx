"""The scalar losses of the binary machines; the contract is in loss.pxd."""

from libc.math cimport INFINITY, fabs


cdef class MarginLoss:
    """Base of the scalar losses. Compiled solvers call the methods of loss.pxd; Python sees `evaluate`."""

    def __cinit__(self, *arguments, **named):
        self.smooth = True

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

    cdef double conjugate_slope(self, double dual, double cost) noexcept nogil:
        return 0.0

    cdef double piece(self, double dual, double direction, double cost, double *low, double *high) noexcept nogil:
        low[0] = high[0] = 0.0
        return 0.0

    def evaluate(self, str what, double first, double second=0.0, double third=0.0):
        """One scalar method by name, for tests and plots: `evaluate("value", margin, cost)`."""
        cdef double value, slope = 0.0, curvature = 0.0
        if what == "value":
            return self.value(first, second)
        if what == "slope":
            return self.slope(first, second)
        if what == "curvature":
            return self.curvature(first, second)
        if what == "expand":
            value = self.expand(first, second, &slope, &curvature)
            return value, slope, curvature
        if what == "conjugate":
            return self.conjugate(first, second)
        if what == "dual_argmin":
            return self.dual_argmin(first, second, third)
        if what == "violation":
            return self.violation(first, second, third)
        if what == "gap":
            return self.gap(first, second, third)
        if what == "conjugate_slope":
            return self.conjugate_slope(first, second)
        raise ValueError(f"no such method of a loss: {what!r}")

    def largest_curvature(self):
        """Of a row with cost 1, far below and far above its band."""
        return max(self.curvature(-1e300, 1.0), self.curvature(1e300, 1.0))

    def piece_at(self, double dual, double direction, double cost):
        """(low, high, curvature) of the conjugate's piece, for tests."""
        cdef double low, high, curvature = self.piece(dual, direction, cost, &low, &high)
        return low, high, curvature


cdef class BandLoss(MarginLoss):
    """ODM: cost [ max(0, c-theta-z)^2 + nu max(0, z-c-theta)^2 ] with c = 1 and cost_i = C s_i / (1-theta)^2.

    Conjugate at -a:  -c a + theta |a| + a^2 / (4 cost)  for a >= 0,  ... + a^2 / (4 nu cost)  for a < 0
    (a < 0 is not allowed where nu = 0). theta = nu = 0 is the squared hinge. A band around the centre c = 0 of the
    residuals z is the squared epsilon-insensitive loss of regression.
    """

    def __init__(self, double theta, double nu, double centre=1.0):
        self.theta = theta
        self.nu = nu
        self.centre = centre

    def __reduce__(self):
        return BandLoss, (self.theta, self.nu, self.centre)

    cdef double value(self, double margin, double cost) noexcept nogil:
        cdef double short = self.centre - self.theta - margin
        cdef double over = margin - self.centre - self.theta
        if short > 0:
            return cost * short * short
        if over > 0:
            return self.nu * cost * over * over
        return 0.0

    cdef double slope(self, double margin, double cost) noexcept nogil:
        cdef double short = self.centre - self.theta - margin
        cdef double over = margin - self.centre - self.theta
        if short > 0:
            return -2 * cost * short
        if over > 0:
            return 2 * self.nu * cost * over
        return 0.0

    cdef double curvature(self, double margin, double cost) noexcept nogil:
        if margin < self.centre - self.theta:
            return 2 * cost
        if margin > self.centre + self.theta:
            return 2 * self.nu * cost
        return 0.0

    cdef double expand(self, double margin, double cost, double *slope, double *curvature) noexcept nogil:
        # one call a row in Newton's pass over the data: worth its own lines
        cdef double beyond = self.centre - self.theta - margin
        cdef double side = cost
        if beyond <= 0:
            beyond = self.centre + self.theta - margin
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
        return -self.centre * dual + self.theta * fabs(dual) + dual * dual / (4 * side)

    cdef double dual_argmin(self, double margin_without, double h, double cost) noexcept nogil:
        # ridge = 1 / (2 side) > 0 keeps the quotient defined for an all-zero row (h = 0)
        cdef double u = self.centre - margin_without
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
            inner = margin - self.centre + dual / (2 * side)
            return fabs(inner + self.theta if dual > 0 else inner - self.theta)
        if cost <= 0:
            return 0.0
        inner = self.centre - margin
        if inner > self.theta:
            return inner - self.theta
        if inner < -self.theta and self.nu > 0:
            return -inner - self.theta
        return 0.0

    cdef double conjugate_slope(self, double dual, double cost) noexcept nogil:
        if dual > 0:
            return -self.centre + self.theta + dual / (2 * cost)
        if dual < 0:
            return -self.centre - self.theta + dual / (2 * self.nu * cost)
        return -self.centre

    cdef double piece(self, double dual, double direction, double cost, double *low, double *high) noexcept nogil:
        cdef bint positive = dual > 0 or (dual == 0 and direction >= 0)
        cdef double side = cost if positive else self.nu * cost
        low[0] = high[0] = 0.0
        if side <= 0:
            return 0.0
        if positive:
            high[0] = INFINITY
        else:
            low[0] = -INFINITY
        return 1 / (2 * side)


cdef class MeanVarianceLoss(MarginLoss):
    """ODM^L with a given centre g: cost [ v (z-g)^2 - u z + h max(0, 1-z) ], cost_i = s_i.

    v, u, h >= 0 are `variance`, `mean` and `hinge`. With everything multiplied by cost, low = u + 2 v (g-1) and
    high = low + h are minus the slopes on either side of the kink. The conjugate at -a has its supremum

        at z = 1                       for low <= a <= high:   u - a - v (1-g)^2
        at z = g + (u - a) / (2v)      for a < low:            e^2 / (4v) - e g,       e = a - u
        at z = g + (u + h - a) / (2v)  for a > high:           e^2 / (4v) - e g - h,   e = a - u - h

    and is infinite outside of low <= a <= high where v = 0.
    """

    def __cinit__(self, *arguments, **named):
        self.smooth = False

    def __init__(self, double variance, double mean, double hinge, double centre=1.0):
        self.variance, self.mean, self.hinge, self.centre = variance, mean, hinge, centre

    def __reduce__(self):
        return MeanVarianceLoss, (self.variance, self.mean, self.hinge, self.centre)

    # One product each: where v = 0 every formula must give the ends of the interval to the last bit.

    cdef double _low(self, double cost) noexcept nogil:
        return cost * (self.mean + 2 * self.variance * (self.centre - 1))

    cdef double _high(self, double cost) noexcept nogil:
        return cost * (self.mean + self.hinge + 2 * self.variance * (self.centre - 1))

    cdef double _margin_of(self, double dual, double cost) noexcept nogil:
        """The margin at which the conjugate has its supremum; 1 where there is no choice."""
        if self.variance * cost <= 0:
            return 1.0
        if dual < self._low(cost):
            return self.centre + (cost * self.mean - dual) / (2 * self.variance * cost)
        if dual > self._high(cost):
            return self.centre + (cost * (self.mean + self.hinge) - dual) / (2 * self.variance * cost)
        return 1.0

    cdef double value(self, double margin, double cost) noexcept nogil:
        cdef double away = margin - self.centre
        return cost * (self.variance * away * away - self.mean * margin
                       + (self.hinge * (1 - margin) if margin < 1 else 0.0))

    cdef double slope(self, double margin, double cost) noexcept nogil:
        return cost * (2 * self.variance * (margin - self.centre) - self.mean
                       - (self.hinge if margin < 1 else 0.0))

    cdef double curvature(self, double margin, double cost) noexcept nogil:
        return 2 * self.variance * cost

    cdef double conjugate(self, double dual, double cost) noexcept nogil:
        if cost <= 0:
            return 0.0 if dual == 0 else INFINITY
        cdef double v = self.variance * cost, h = 0.0, e = dual - self.mean * cost
        cdef double low = self._low(cost)
        if low <= dual <= self._high(cost):
            return -e - v * (1 - self.centre) * (1 - self.centre)
        if v <= 0:
            return INFINITY
        if dual > low:
            h = self.hinge * cost
            e -= h
        return e * e / (4 * v) - e * self.centre - h

    cdef double dual_argmin(self, double margin_without, double h, double cost) noexcept nogil:
        # the piece left of the kink, the piece right of it, or the kink itself
        cdef double v = 2 * self.variance * cost
        cdef double left = (cost * (self.mean + self.hinge) + v * (self.centre - margin_without)) / (1 + v * h)
        cdef double right = (cost * self.mean + v * (self.centre - margin_without)) / (1 + v * h)
        if margin_without + h * left < 1:
            return left
        if margin_without + h * right > 1 or h <= 0:
            return right
        # between `low` and `high` but for rounding, which must not lead out of a closed interval (v = 0)
        cdef double low = self._low(cost), high = self._high(cost)
        cdef double middle = (1 - margin_without) / h
        return low if middle < low else high if middle > high else middle

    cdef double violation(self, double dual, double margin, double cost) noexcept nogil:
        if cost <= 0:
            return 0.0
        if self.variance > 0:
            return fabs(margin - self._margin_of(dual, cost))
        if margin < 1:
            return 1 - margin if dual < self._high(cost) else 0.0
        return margin - 1 if dual > self._low(cost) else 0.0

    cdef double gap(self, double dual, double margin, double cost) noexcept nogil:
        # sums of terms that are not negative: nothing cancels
        cdef double v = self.variance * cost, h = self.hinge * cost
        cdef double low = self._low(cost), high = self._high(cost)
        cdef double away = margin - self._margin_of(dual, cost)
        if dual != dual or margin != margin:
            return dual + margin
        if v <= 0 and not low <= dual <= high:
            return INFINITY
        if dual < low:
            return v * away * away + (h * (1 - margin) if margin < 1 else 0.0)
        if dual > high:
            return v * away * away + (h * (margin - 1) if margin > 1 else 0.0)
        return v * away * away + ((high - dual) * (1 - margin) if margin < 1 else (dual - low) * (margin - 1))

    cdef double conjugate_slope(self, double dual, double cost) noexcept nogil:
        return -self._margin_of(dual, cost)

    cdef double piece(self, double dual, double direction, double cost, double *low, double *high) noexcept nogil:
        cdef double v = self.variance * cost
        low[0], high[0] = self._low(cost), self._high(cost)
        if v > 0 and (dual > high[0] or (dual == high[0] and direction > 0)):
            low[0], high[0] = high[0], INFINITY
        elif v > 0 and (dual < low[0] or (dual == low[0] and direction < 0)):
            low[0], high[0] = -INFINITY, low[0]
        else:
            return 0.0
        return 1 / (2 * v)


cdef class HingeLoss(MeanVarianceLoss):
    """SVM: cost max(0, 1-z) with cost_i = C s_i. Conjugate at -a: -a on 0 <= a <= cost. The simplest case, for speed."""

    def __init__(self):
        super().__init__(0.0, 0.0, 1.0)

    def __reduce__(self):
        return HingeLoss, ()

    cdef double value(self, double margin, double cost) noexcept nogil:
        return cost * (1 - margin) if margin < 1 else 0.0

    cdef double slope(self, double margin, double cost) noexcept nogil:
        return -cost if margin < 1 else 0.0

    cdef double conjugate(self, double dual, double cost) noexcept nogil:
        return -dual if 0 <= dual <= cost else INFINITY

    cdef double dual_argmin(self, double margin_without, double h, double cost) noexcept nogil:
        cdef double short = 1 - margin_without
        if short <= 0:
            return 0.0
        return cost if h * cost <= short else short / h

    cdef double violation(self, double dual, double margin, double cost) noexcept nogil:
        if margin < 1:
            return 1 - margin if dual < cost else 0.0
        return margin - 1 if dual > 0 else 0.0

    cdef double gap(self, double dual, double margin, double cost) noexcept nogil:
        if not 0 <= dual <= cost:
            return INFINITY if dual == dual else dual
        return (cost - dual) * (1 - margin) if margin < 1 else dual * (margin - 1)

    cdef double conjugate_slope(self, double dual, double cost) noexcept nogil:
        return -1.0

    cdef double piece(self, double dual, double direction, double cost, double *low, double *high) noexcept nogil:
        low[0] = 0.0
        high[0] = cost
        return 0.0


cdef class SmoothedLoss(MarginLoss):
    """MeanVarianceLoss with a bend in place of the kink: a parabola for |1-z| < width / 2, where it is at most
    hinge cost width / 8 above the hinge. For methods that need derivatives; only those are here.
    """

    def __init__(self, double variance, double mean, double hinge, double width, double centre=1.0):
        self.variance, self.mean, self.hinge, self.width, self.centre = variance, mean, hinge, width, centre

    def __reduce__(self):
        return SmoothedLoss, (self.variance, self.mean, self.hinge, self.width, self.centre)

    cdef double value(self, double margin, double cost) noexcept nogil:
        cdef double slope, curvature
        return self.expand(margin, cost, &slope, &curvature)

    cdef double slope(self, double margin, double cost) noexcept nogil:
        cdef double slope, curvature
        self.expand(margin, cost, &slope, &curvature)
        return slope

    cdef double curvature(self, double margin, double cost) noexcept nogil:
        cdef double slope, curvature
        self.expand(margin, cost, &slope, &curvature)
        return curvature

    cdef double expand(self, double margin, double cost, double *slope, double *curvature) noexcept nogil:
        cdef double away = margin - self.centre
        cdef double half = 0.5 * self.width
        cdef double into = 1 - margin + half          # how far into the bend, from its upper end
        cdef double total = cost * (self.variance * away * away - self.mean * margin)
        slope[0] = cost * (2 * self.variance * away - self.mean)
        curvature[0] = 2 * self.variance * cost
        if into >= self.width:
            slope[0] -= cost * self.hinge
            return total + cost * self.hinge * (1 - margin)
        if into > 0:
            slope[0] -= cost * self.hinge * into / self.width
            curvature[0] += cost * self.hinge / self.width
            total += 0.5 * cost * self.hinge * into * into / self.width
        return total
