"""Proximal Newton method for the linear multi-class machine: converges where coordinate ascent crawls.

The relaxed problem  min_w 1/2 |w|^2 + sum_i loss_i(scores_i)  has kinks wherever two wrong classes tie,
which they do at the optimum, so Newton's method cannot be used on it directly. One proximal step on the
dual,

    max_v  D(v) - sum_i t_i/2 |v_i - centre_i|^2 ,

has the smooth primal  psi(w) = 1/2 |w|^2 - sum_i min_v [ conj_i(v) + <f_i(w), v> + t_i/2 |v - centre_i|^2
]: each row's minimum is the sub-problem of coordinate ascent with t_i in place of |x_i|^2, its solution
v_i(w) is piecewise linear in w, grad psi = w - sum_i x_i v_i(w)' and the (generalised) Hessian is I +
sum_i J_i (x) x_i x_i' (joint_prox.h). Newton's method with a line search ends after some steps; v(w)
becomes the next centre. D never falls, and with t_i -> 0 the steps converge faster than linearly
(proximal point method).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from odmlib._core.vectors import inner
from odmlib.solvers._dense import PositiveFactor, solve_positive
from odmlib.solvers._joint import JointState
from odmlib.solvers._joint_newton import ProximalRows
from odmlib.solvers.control import TIME_LIMIT, Control

Floats = NDArray[np.float64]

MAX_EXPLICIT = 1500  # unknowns of a Hessian that is formed and factorised
MAX_FORMING, USUAL_BLOCKS = 2e9, 6  # multiplications; pairs of classes of a row whose Hessian is not 0
MAX_MATRIX_VALUES = 40_000_000  # of a (rows x classes) matrix; the method keeps three
MAX_BLOCK_VALUES = 20_000_000  # of the diagonal blocks of the Hessian, one per class, as preconditioner
MAX_PAIRS = 2_000_000  # of classes, by which the rows are sorted to form them
BLOCK_FORMING = 2e9  # multiplications; where it needs more, it is made of some of the rows
FIRST_EVERY = 3  # so many times fewer rows for the first ones, far from the solution
BUILD_STEPS = 20  # steps of conjugate gradients that take about as long as making them
MAX_CG_STEPS, USUAL_CG_STEPS = 500, 150  # of one Newton step; of all
FORCING = 0.1  # residual of a Newton step solved by conjugate gradients
MAX_NEWTON_STEPS = 60  # of one proximal step
# t_i / h_i: the smaller, the more Newton steps and the fewer proximal ones. It falls to the usual one unless
# a proximal step takes HARD Newton steps (then it rises), and below it after one that takes at most EASY
FIRST_PROXIMITY, HARD_PROXIMITY, USUAL_PROXIMITY, SMALLEST_PROXIMITY = 0.5, 0.5, 0.1, 0.03
FALL, FAST_FALL, RISE = 0.5, 0.25, 2.0  # fast: after a single Newton step
EASY, HARD = 2, 5
SUFFICIENT = 1e-4  # part of the promised decrease a step must bring
OVERSHOOT = 0.5  # slope at the end of a step, in units of the slope at its beginning
ROUNDING = 1e-13  # differences of psi below this part mean nothing
MAX_TRIALS, FEW_TRIALS = 30, 5  # of step lengths; after the few any that brings enough will do
PATIENCE = 12  # Newton steps in a row that do not bring the gradient down


def newton_fits(state: JointState) -> bool:
    """Whether the method's matrices are of a reasonable size."""
    return state.n_rows * state.padded <= MAX_MATRIX_VALUES


def prefers_explicit(state: JointState, row_length: float) -> bool:
    """Whether forming and factorising the Hessian is cheap."""
    return (
        state.n_columns * state.n_classes <= MAX_EXPLICIT
        and USUAL_BLOCKS * state.n_rows * row_length**2 <= MAX_FORMING
    )


def can_precondition(state: JointState) -> bool:
    """Whether the Hessian's diagonal blocks fit into memory."""
    few_pairs = state.n_classes**2 <= 2 * MAX_PAIRS
    return few_pairs and state.n_columns**2 * state.n_classes <= MAX_BLOCK_VALUES


def newton_visits(n_columns: int, n_nonzeros: int) -> float:
    """About what the method takes with blocks, in visits of every row by coordinate ascent.

    A product takes a part of such visits; the preconditioner reads so many values more.
    """
    return USUAL_CG_STEPS * (0.3 + 2 * n_columns**2 / max(1, n_nonzeros))


class ProximalNewton:
    """Proximal steps on a state; `step` makes one."""

    def __init__(
        self, state: JointState, h: Floats, explicit: bool, row_length: float, control: Control, threads: int
    ):
        self.state, self.control, self.explicit = state, control, explicit
        self.scale = np.where(np.isfinite(h), h, 1.0)  # rows without weight take no part
        self.rows = ProximalRows(state, threads)
        forming = row_length**2 * state.n_rows
        self.every = max(1, math.ceil(forming / BLOCK_FORMING))
        self.proximity = FIRST_PROXIMITY
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
        state, rows = self.state, self.rows
        w = state.weights.copy()
        rows.begin(self.proximity * self.scale, w, scored)
        before = self.newton_steps
        total, _ = rows.step(0.0)
        psi = 0.5 * inner(w, w) - total
        still, least, settled = 0, math.inf, False
        for left in range(MAX_NEWTON_STEPS, -1, -1):
            gradient = w - rows.weights()
            distance = 0.5 * inner(gradient, gradient)
            still, least = (0, distance) if distance < 0.5 * least else (still + 1, least)
            if settled or distance <= enough or left == 0 or still == PATIENCE:
                break
            if self.control.out_of_time() is not None:
                break
            direction = self._direction(gradient, enough)
            rows.search(direction)
            slope = inner(gradient, direction)
            psi, length = self._search(w, direction, psi, slope)
            settled = rough and -0.5 * slope <= enough
            w += length * direction
            rows.advance(length)
            self.newton_steps += 1
        state.set_multipliers(rows.zeta, rows.beta)
        state.weights[:] = w
        self._adapt(self.newton_steps - before, settled)
        return distance

    def _adapt(self, n_steps: int, rough: bool) -> None:
        if rough:  # the number of steps says little
            self.proximity = max(min(self.proximity, USUAL_PROXIMITY), FALL * self.proximity)
        elif n_steps >= HARD:
            self.proximity = max(self.proximity, min(HARD_PROXIMITY, RISE * self.proximity))
        else:
            least = SMALLEST_PROXIMITY if n_steps <= EASY else min(self.proximity, USUAL_PROXIMITY)
            self.proximity = max(least, (FAST_FALL if n_steps <= 1 else FALL) * self.proximity)

    def _search(self, w: Floats, direction: Floats, psi: float, slope: float) -> tuple[float, float]:
        """Step length along the direction: psi is convex, its slope known; the value there and the length."""
        noise = ROUNDING * (abs(psi) + inner(w, w))
        w_along, square = inner(w, direction), inner(direction, direction)
        half = 0.5 * inner(w, w)
        low, low_slope, high, high_slope, length = 0.0, slope, math.inf, math.inf, 1.0
        for trial in range(MAX_TRIALS):
            total, along = self.rows.step(length)
            value = half + length * (w_along + 0.5 * length * square) - total
            rise = w_along + length * square - along
            fell = value <= psi + SUFFICIENT * length * slope + noise
            close = rise >= OVERSHOOT * slope or trial == 0 or trial >= FEW_TRIALS
            if fell and rise <= -OVERSHOOT * slope and close:
                break
            if rise > 0:
                high, high_slope = length, rise
            else:
                low, low_slope = length, rise
            if high == math.inf:
                break
            # where the slope would be 0 were it linear in between
            part = min(0.8, max(0.2, low_slope / (low_slope - high_slope)))
            length = low + part * (high - low)
        return value, length

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
        return self._conjugate_gradients(gradient, enough)

    def _conjugate_gradients(self, gradient: Floats, enough: float) -> Floats:
        rows = self.rows
        scale = self._preconditioner()
        step = np.zeros_like(gradient)
        residual = -gradient
        norm = math.sqrt(inner(residual, residual))
        target = min(0.3 * norm, max(0.3 * math.sqrt(2 * enough), FORCING * norm))
        scaled = scale(residual)
        direction = scaled.copy()
        product = inner(residual, scaled)
        before = self.cg_steps
        for _ in range(MAX_CG_STEPS):
            self.cg_steps += 1
            image = direction + rows.hessian_product(direction)
            length = product / inner(direction, image)
            step += length * direction
            residual -= length * image
            if math.sqrt(inner(residual, residual)) <= target or self.control.out_of_time() == TIME_LIMIT:
                break
            scaled = scale(residual)
            previous, product = product, inner(residual, scaled)
            direction *= product / previous
            direction += scaled
        self.spent += self.cg_steps - before
        self.uses += 1
        self.worn = (self.cg_steps - before) * self.uses > self.spent
        return step

    def _preconditioner(self) -> Callable[[Floats], Floats]:
        """Something like the Hessian's inverse: of its diagonal blocks where they fit, else of its diagonal.

        The blocks do not know that the Hessian is the identity where all classes move together (majorise),
        so that part of a residual passes as it is.
        """
        d, k = self.state.n_columns, self.state.n_classes
        if (self.factors is None or self.worn) and can_precondition(self.state):
            self.factors, self.spent, self.uses = [], BUILD_STEPS, 0
            every = self.every if self.n_built else FIRST_EVERY * self.every
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
