"""What an mcODM solver may claim in the end: objective and gap with the rounding of their sums.

docs/internals/mathematics.md, "Rounding", derives the bounds. The compiled measurement adds up what the
errors of the scores and its own arithmetic may do to the losses and to the gaps of the rows
(odm_add_rounding in mcodm.h). What remains is 1/2 |w|^2, and for linear machines the distance of w from
sum_i x_i v_i'.
"""

from __future__ import annotations

import math

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.solvers.multiclass._mcodm import KernelState, LinearState
from odmlib.solvers.multiclass.problem import Certificate

UNIT = 2.0**-53
COARSE_PART = 0.01  # of the gap asked for that coarse bounds of rounding may take
SMALL_PART = 0.25  # of the gap asked for that rounding may take before a run cannot reach it

Measured = tuple[float, float, float, int]  # what a state's measure() returns


def of_weights(state: LinearState, measured: Measured, distance: float) -> Certificate:
    """Bounds at the state's weights after a measurement; `distance`: 1/2 |w - sum_i x_i v_i'|^2."""
    raised, widened, length = state.rounding
    squares = (state.weights.size / 8 + 30) * UNIT  # inner() keeps eight sums or more
    raised += squares * state.half_square()
    blurred = 1.01 * UNIT * (state.n_rows + state.n_classes + 20) * length
    away = math.sqrt(2 * distance * (1 + squares)) + blurred
    wider = measured[2] + widened + 0.5 * away**2 + 2 * raised
    return _bounds(measured, raised, wider)


def of_scores(state: KernelState, measured: Measured, duals: Floats, errors: Floats) -> Certificate:
    """Bounds at the state's scores after a measurement; `errors`: of each score, (rows x classes).

    The dual value is linear in the scores, with the factors v_il / 2.
    """
    raised, widened, _ = state.rounding
    sizes = np.abs(duals)
    half = 0.5 * float((sizes * errors).sum())
    half += UNIT * (np.count_nonzero(duals) + 4) * 0.5 * float((sizes * np.abs(state.scores.T)).sum())
    raised += half
    return _bounds(measured, raised, measured[2] + widened + half + 2 * raised)


def _bounds(measured: Measured, raised: float, gap: float) -> Certificate:
    objective, relaxed, _, misplaced = measured
    relaxed += raised
    # no objective lies below 0
    return Certificate(float(objective + raised), float(relaxed), float(min(gap, relaxed)), misplaced)
