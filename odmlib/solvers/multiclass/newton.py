"""Proximal Newton method for the linear multi-class machine: converges where coordinate ascent crawls.

The relaxed problem  min_w 1/2 |w|^2 + sum_i loss_i(scores_i)  has kinks wherever two wrong classes tie,
which they do at the optimum, so Newton's method cannot be used on it directly. One proximal step on the
dual,

    max_v  D(v) - sum_i t_i/2 |v_i - center_i|^2 ,

has the smooth primal  psi(w) = 1/2 |w|^2 - sum_i min_v [ conj_i(v) + <f_i(w), v> + t_i/2 |v - center_i|^2
]: each row's minimum is the sub-problem of coordinate ascent with t_i in place of |x_i|^2, its solution
v_i(w) is piecewise linear in w, grad psi = w - sum_i x_i v_i(w)' and the (generalised) Hessian is I +
sum_i J_i (x) x_i x_i' (proximal.h). Newton's method with a line search ends after some steps; v(w)
becomes the next center. D never falls, and with t_i -> 0 the steps converge faster than linearly
(proximal point method).

The scale of t_i is h_i = 1 / (2 c_i): a multiplier is about a loss's slope, xi_i / h_i, so that t_i times it
is a part of the margin. Where rows are easy to separate, the multipliers stay far below that, however large C
is. There the scale is a part of the margin over their mean: a smaller t_i would leave all kinks to Newton's
method. For the same reason the first t_i are a part of the mean |x_i|^2, which is far above h_i at large C:
short proximal steps of a few Newton steps each find the kinks that hold sooner than long ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Floats
from odmlib._core.vectors import inner
from odmlib.solvers.control import Control
from odmlib.solvers.linalg.conjugate_gradients import conjugate_gradients
from odmlib.solvers.linalg.dense import PositiveFactor, solve_positive
from odmlib.solvers.linalg.line_search import line_search
from odmlib.solvers.multiclass._mcodm import LinearState, ProximalRows


@dataclass(frozen=True)
class ProximalTuning:
    max_explicit: int = 1500  # unknowns of a Hessian that is formed and factorised
    max_matrix_values: int = 40_000_000  # of a (rows x classes) matrix; the method keeps three
    max_block_values: int = 20_000_000  # of the Hessian's diagonal blocks, one per class, as preconditioner
    max_pairs: int = 2_000_000  # of classes, by which the rows are sorted to form them
    block_forming: float = 2e9  # multiplications; where blocks need more, they are made of some of the rows
    first_every: int = 3  # so many times fewer rows for the first blocks, far from the solution
    build_steps: int = 20  # steps of conjugate gradients that take about as long as making the blocks
    max_cg_steps: int = 500  # of one Newton step
    forcing: float = 0.1  # residual of a Newton step solved by conjugate gradients
    max_newton_steps: int = 60  # of one proximal step
    patience: int = 12  # Newton steps in a row that do not bring the gradient down
    accuracy: float = 0.5  # slope at the end of a step, in units of the slope at its beginning
    # t in units of its scale: the smaller, the more Newton steps and the fewer proximal ones. It falls to the
    # usual one unless a proximal step takes `hard_steps` Newton steps (then it rises, to the first one at
    # most), and below it after one that takes at most `easy_steps`
    first_proximity: float = 0.5
    # the first t is at least so large a part of the mean |x_i|^2 where the Hessian is not factorised: 4000
    # rows of mnist take 35 Newton steps instead of 98 at C = 1, and 192 at C = 30, where 112 were far from
    # the end
    first_part: float = 0.1
    usual_proximity: float = 0.1
    smallest_proximity: float = 0.03
    fall: float = 0.5
    fast_fall: float = 0.25  # after a single Newton step
    rise: float = 2.0
    easy_steps: int = 2
    hard_steps: int = 5
    # part of the margin that t times a usual multiplier is at least. Separable rows (600 x 120, 20 classes,
    # C = 167): 56 Newton steps instead of more than 2000; 0.03 would take 30, but slows mnist down
    margin_part: float = 0.003


TUNING = ProximalTuning()


class ProximalNewton:
    """Proximal steps on a state; `step` makes one."""

    def __init__(
        self,
        state: LinearState,
        explicit: bool,
        control: Control,
        threads: int,
        tuning: ProximalTuning = TUNING,
        *,
        warm: bool = False,
    ):
        """`warm`: the state's weights come from another problem's solution."""
        self.state, self.control, self.explicit, self.tuning = state, control, explicit, tuning
        self.h = np.where(np.isfinite(state.h), state.h, 1.0)  # rows without weight take no part
        self.rows = ProximalRows(state, threads)
        self.every = max(1, math.ceil(state.values_per_row**2 * state.n_rows / tuning.block_forming))
        self.proximity = tuning.usual_proximity if warm else math.inf
        self.largest = math.inf
        self.newton_steps = self.cg_steps = 0
        self.factors: list[PositiveFactor] | None = None  # of the Hessian's diagonal blocks
        self.n_built = 0  # times that they were made
        # with these: steps of conjugate gradients (their making included), and directions
        self.spent = self.uses = 0
        self.worn = False  # the last direction cost more than they do on average: time to make them anew

    def step(self, enough: float, scored: bool = False, rough: bool = False) -> float:
        """One proximal step, psi minimised until 1/2 |grad|^2 <= enough; what 1/2 |grad|^2 came to.
        `rough`: a Newton step that promised to bring psi down by no more than that is the last one, too.

        The state has the minimiser w and the multipliers v(w) then, and the duality gap is the sum of the
        rows' gaps plus 1/2 |w - sum_i x_i v_i'|^2, the number returned. `scored`: `rows.scores` are those of
        the state's weights.
        """
        state, rows, tuning = self.state, self.rows, self.tuning
        w = state.weights.copy()
        usual = state.mean_multiplier()
        least = tuning.margin_part / usual if usual > 0 else 0.0
        scale = np.maximum(self.h, least)
        if self.largest == math.inf:
            self.largest = self._largest_proximity(scale)
            self.proximity = min(self.proximity, self.largest)
        rows.begin(self.proximity * scale, w, scored)
        rows.step(0.0)
        before, still, smallest, settled = self.newton_steps, 0, math.inf, False
        for left in range(tuning.max_newton_steps, -1, -1):
            gradient = w - rows.weights()
            distance = 0.5 * inner(gradient, gradient)
            still, smallest = (0, distance) if distance < 0.5 * smallest else (still + 1, smallest)
            if settled or distance <= enough or left == 0 or still == tuning.patience:
                break
            if self.control.out_of_time() is not None:
                break
            direction = self._direction(gradient, enough)
            slope = inner(gradient, direction)
            length = self._go(w, direction, slope)
            settled = rough and -0.5 * slope <= enough
            w += length * direction
            self.newton_steps += 1
        state.set_multipliers(rows.zeta, rows.beta)
        state.weights[:] = w
        self._adapt(self.newton_steps - before, settled)
        return distance

    def _largest_proximity(self, scale: Floats) -> float:
        movable, tuning = self.state.movable(), self.tuning
        if self.explicit or len(movable) == 0:
            return tuning.first_proximity
        curvature = float(np.mean(self.state.curvatures[movable]))
        return max(tuning.first_proximity, tuning.first_part * curvature / float(np.median(scale[movable])))

    def _adapt(self, n_steps: int, rough: bool) -> None:
        tuning = self.tuning
        if rough:  # the number of steps says little
            self.proximity = max(min(self.proximity, tuning.usual_proximity), tuning.fall * self.proximity)
        elif n_steps >= tuning.hard_steps:
            risen = min(self.largest, tuning.rise * self.proximity)
            self.proximity = max(self.proximity, risen)
        else:
            easy = n_steps <= tuning.easy_steps
            least = tuning.smallest_proximity if easy else min(self.proximity, tuning.usual_proximity)
            self.proximity = max(least, (tuning.fast_fall if n_steps <= 1 else tuning.fall) * self.proximity)

    def _go(self, w: Floats, direction: Floats, slope: float) -> float:
        """Move the rows along the direction, to where the slope of psi is small; the length."""
        rows, there = self.rows, 0.0
        rows.search(direction)
        along, square = inner(w, direction), inner(direction, direction)

        def derivatives(length: float) -> tuple[float, float]:
            nonlocal there
            there = length
            return along + length * square - rows.step(length), math.nan

        length = line_search(slope, derivatives, accuracy=self.tuning.accuracy, longest=1.0)
        if length != there:
            rows.step(length)
        rows.advance(length)
        return length

    def _direction(self, gradient: Floats, enough: float) -> Floats:
        d, k = self.state.n_columns, self.state.n_classes
        if self.explicit:
            hessian = self.rows.hessian()
            hessian.reshape(-1)[:: d * k + 1] += 1
            step = solve_positive(hessian, -np.ascontiguousarray(gradient[:, :k].T).ravel(), overwrite=True)
            if step is not None:
                direction = np.zeros_like(gradient)
                direction[:, :k] = step.reshape(k, d).T
                return direction
        precondition = self._preconditioner()
        norm = math.sqrt(inner(gradient, gradient))
        direction, used = conjugate_gradients(
            lambda v: v + self.rows.hessian_product(v),
            -gradient,
            precondition,
            min(0.3 * norm, max(0.3 * math.sqrt(2 * enough), self.tuning.forcing * norm)),
            self.tuning.max_cg_steps,
            self.control.out_of_time,
        )
        self.cg_steps += used
        self.spent += used
        self.uses += 1
        self.worn = used * self.uses > self.spent
        return direction

    def _preconditioner(self) -> Callable[[Floats], Floats]:
        """Something like the Hessian's inverse: of its diagonal blocks where they fit, else of its diagonal.

        The blocks do not know that the Hessian is the identity where all classes move together (majorise),
        so that part of a residual passes as it is.
        """
        d, k = self.state.n_columns, self.state.n_classes
        if (self.factors is None or self.worn) and can_precondition(self.state, self.tuning):
            self.factors, self.spent, self.uses = [], self.tuning.build_steps, 0
            every = self.every if self.n_built else self.tuning.first_every * self.every
            self.n_built += 1
            for block in self.rows.hessian_blocks(every):
                block[np.diag_indices(d)] += 1
                factor = PositiveFactor.of(np.ascontiguousarray(block[:d, :d]))
                if factor is not None:
                    self.factors.append(factor)
        factors = self.factors
        if factors is None or len(factors) < k:
            diagonal = 1.0 + self.rows.hessian_diagonal()
            return lambda residual: residual / diagonal

        def scale(residual: Floats) -> Floats:
            out = np.zeros_like(residual)
            common = 0.0 if self.state.frozen else residual[:, :k].mean(axis=1)
            for label, factor in enumerate(factors):
                out[:, label] = factor.solve(np.ascontiguousarray(residual[:, label] - common))
            if not self.state.frozen:
                out[:, :k] += (common - out[:, :k].mean(axis=1))[:, None]
            return out

        return scale


def can_precondition(state: LinearState, tuning: ProximalTuning = TUNING) -> bool:
    """Whether the Hessian's diagonal blocks fit into memory."""
    few_pairs = state.n_classes**2 <= 2 * tuning.max_pairs
    return few_pairs and state.n_columns**2 * state.n_classes <= tuning.max_block_values
