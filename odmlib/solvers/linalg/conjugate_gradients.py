"""Conjugate gradients with a preconditioner, for all Newton steps whose Hessian is not formed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from odmlib._core.arrays import Floats
from odmlib._core.vectors import inner


def conjugate_gradients(
    product: Callable[[Floats], Floats],
    right: Floats,
    precondition: Callable[[Floats], Floats],
    target: float,
    limit: int,
    over: Callable[[], object] = lambda: None,
) -> tuple[Floats, int]:
    """(x with product(x) near `right`, steps taken): a residual of norm `target`, or `limit` steps.

    `product` multiplies by a symmetric positive definite matrix, `precondition` by something like its
    inverse. Once `over` answers, the x at hand is returned: it is a direction of descent from the first step
    on.
    """
    x, residual = np.zeros_like(right), right.copy()
    scaled = precondition(residual)
    direction = scaled.copy()
    length = inner(residual, scaled)
    used = 0
    while used < limit and length > 0:
        used += 1
        image = product(direction)
        curvature = inner(direction, image)
        if not 0 < curvature < math.inf:  # the numbers are too large or too small for a step
            break
        step = length / curvature
        x += step * direction
        residual -= step * image
        if math.sqrt(inner(residual, residual)) <= target or over() is not None:
            break
        scaled = precondition(residual)
        before, length = length, inner(residual, scaled)
        direction *= length / before
        direction += scaled
    return x, used
