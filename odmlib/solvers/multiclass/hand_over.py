"""When coordinate ascent gives way to Newton's method on the linear multi-class machine.

All costs are counted in visits of every row by coordinate ascent. Such a visit takes 2 z p multiplications
for z values in the rows and p classes (padded; where classes are listed, about `listed_classes` of them).
With d columns and k classes Newton's method takes about

    explicit Hessian   S [ passes + (pairs sum_i |row_i|^2 / 2 + (d k)^3 / 6) / (gain 2 z p) ]
    diagonal blocks    c [ product + 2 d^2 / z ]
    diagonal           c' product

visits, with S Newton steps and c or c' steps of conjugate gradients. It takes the cheapest way that fits into
memory. How many visits ascent will take is forecast from the gap: after v visits that brought it from 1 to g,
v log(g/tol) / log(1/g) more are to come. Ascent hands over at the first certificate with

    v >= share N   and   v + to_come > N,      N: the visits that Newton's method takes.

The second condition holds at v = N at the latest. So a forecast that was too hopeful costs at most N, and
the run takes at most about twice as long as with the cheaper method alone. The first condition costs a small
part of N. It keeps rows that are easy to separate with ascent: their gap, too, stands still at 1 at first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from odmlib._core.rows import Rows
from odmlib.solvers.control import steps_to_come
from odmlib.solvers.multiclass._mcodm import LinearState
from odmlib.solvers.multiclass.newton import ProximalTuning, can_precondition


@dataclass(frozen=True)
class HandOverTuning:
    """Measured with C = 0.1, 1 and 10 on segment, pendigits, letter, shuttle, dna and mnist, one thread."""

    newton_steps: int = 12  # of a run with a factorised Hessian: 5 to 28
    passes: float = 1.2  # over the rows in a Newton step, in visits
    pairs: float = 3.0  # of classes in which a row's Hessian is not 0
    gain: float = 5.0  # dense multiplications in the time of one of a visit
    cg_steps: int = 150  # of a run with blocks: 90 to 360
    product: float = 0.3  # of the Hessian and a direction, in visits
    diagonal_cg_steps: int = 15_000  # news20 had not converged after 1100
    listed_classes: int = 24  # that a visit looks at where classes are listed
    # of Newton's cost that ascent may spend in any case. Separable rows (600 x 120, 20 classes, C = 167) had
    # a gap of 0.64 after 12 % of it, and of 0.026 after 18 %
    share: float = 0.15


TUNING = HandOverTuning()


class HandOver:
    """The cost model: `newton` is N, infinite where Newton's method is not to be used, 0 where it is wanted.

    `explicit`: whether it factorises the Hessian.
    """

    def __init__(
        self, state: LinearState, rows: Rows, listed: bool, tuning: HandOverTuning, proximal: ProximalTuning
    ):
        self.tuning = tuning
        d, k, m = state.n_columns, state.n_classes, max(1, state.n_rows)
        values = rows.n_nonzeros + m
        visit = 2.0 * values * (min(state.padded, tuning.listed_classes) if listed else state.padded)
        widening = 2.0 * values * state.padded / visit  # a pass over all classes, in visits
        forming = tuning.pairs * values**2 / m / 2 + (d * k) ** 3 / 6
        factorised = tuning.newton_steps * (tuning.passes * widening + forming / tuning.gain / visit)
        if can_precondition(state, proximal):
            iterative = tuning.cg_steps * (tuning.product + 2 * d**2 / values) * widening
        else:
            iterative = tuning.diagonal_cg_steps * tuning.product * widening
        self.explicit = d * k <= proximal.max_explicit and factorised <= iterative
        self.newton = factorised if self.explicit else iterative
        self.fits = m * state.padded <= proximal.max_matrix_values

    def choose(self, solver: str) -> None:
        """Newton's method is wanted, or not to be used, whatever it costs."""
        if solver == "newton" and self.fits:
            self.newton = 0.0
        elif solver == "dcd" or not self.fits:
            self.newton = math.inf

    def takes_start(self, visits: float) -> bool:
        """Whether a start goes to Newton's method at once: ascent may hand over within so many visits."""
        return self.tuning.share * self.newton <= visits

    def due(self, visits: float, gap: float, tol: float) -> bool:
        """Whether to hand over after so many visits, at this relative gap."""
        to_come = steps_to_come(visits, 1.0, gap, tol)
        return visits >= self.tuning.share * self.newton and visits + to_come > self.newton
