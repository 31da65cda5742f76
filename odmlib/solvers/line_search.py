"""The line search of Newton's method."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from odmlib.losses.loss import MarginLoss
from odmlib.losses.sums import along_line

Floats = NDArray[np.float64]

MAX_STEPS = 30
ACCURACY = 0.1  # |phi'(t)| against |phi'(0)|: Newton needs no better


def line_search(
    at_zero: float,
    across: float,
    square: float,
    margins: Floats,
    directions: Floats,
    loss: MarginLoss,
    costs: Floats,
    threads: int,
) -> float:
    """t > 0 near the minimum of the convex  phi(t) = across t + square t^2 / 2 + sum_i loss_i(z_i + t d_i),
    by Newton steps kept in a bracket; `at_zero` is phi'(0) < 0."""
    low, high, t = 0.0, math.inf, 1.0
    for _ in range(MAX_STEPS):
        first, second = along_line(loss, margins, directions, t, costs, threads)
        first += across + t * square
        second += square
        if abs(first) <= ACCURACY * -at_zero:
            return t
        if first < 0:
            low = t
        else:
            high = t
        t -= first / second
        if not low < t < high:
            t = (low + high) / 2 if math.isfinite(high) else 2 * low + 1
    return low  # phi still falls there
