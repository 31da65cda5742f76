"""The line search of all Newton methods: where the slope of a convex function along a direction is near 0."""

from __future__ import annotations

import math
from collections.abc import Callable

MAX_STEPS = 30
ACCURACY = 0.1  # |phi'(t)| against |phi'(0)|: Newton's method needs no better


def line_search(
    at_zero: float,
    derivatives: Callable[[float], tuple[float, float]],
    *,
    accuracy: float = ACCURACY,
    max_steps: int = MAX_STEPS,
    longest: float = math.inf,
) -> float:
    """t > 0 near the minimum of a convex phi, by Newton steps that are kept in a bracket.

    `derivatives(t)` are phi'(t) and phi''(t), or NaN where phi''(t) is not known: then the secant of the
    bracket stands in. `at_zero` is phi'(0) < 0. A t of `longest` or more is taken wherever phi still falls.
    """
    low, high, t = 0.0, math.inf, 1.0
    at_low, at_high = at_zero, math.inf
    for _ in range(max_steps):
        first, second = derivatives(t)
        if abs(first) <= accuracy * -at_zero or (first < 0 and t >= longest):
            return t
        if first < 0:
            low, at_low = t, first
        else:
            high, at_high = t, first
        if second > 0:
            t -= first / second
        elif math.isnan(second) and math.isfinite(high):
            # kept away from the ends, along which the secant alone can creep
            part = min(0.8, max(0.2, at_low / (at_low - at_high)))
            t = low + part * (high - low)
        else:
            t = math.nan
        if not low < t < high:
            t = (low + high) / 2 if math.isfinite(high) else 2 * low + 1
    return low  # phi still falls there
