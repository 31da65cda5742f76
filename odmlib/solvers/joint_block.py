"""Newton's method on a block of rows of the multi-class kernel machine, for where one-row steps crawl.

All other rows fixed, the block's problem with its kernel matrix K and the scores b of the others is

    min_v  D(v) = 1/2 <v, K v> + <b, v> + sum_i conj_i(v_i) ,      v: rows x classes   (class_block.h)

a quadratic with as many bounds as multipliers; where K is ill-conditioned, guesses which bounds hold fail.
So, as in joint_newton.py, proximal steps: with t/2 |v - centre|^2 added, the problem has a smooth primal
in u (scores f = b + K u), whose minimum has u = v(f), v_i(f) being each row's own sub-problem with
curvature t. Newton's step there solves  (I + J K) d = v(f) - u.  With the columns e_y - e_l (of zeta_l >
0) and e_q - e_y (of beta > 0; frozen: -e_y) of all rows in P that is one symmetric system of as many
unknowns as multipliers are not 0,

    (P'(K + t I)P + h 11' of each row's zeta + h/nu of each beta) c = P'K(v - u),     d = v - u - P c ,

factorised, and a line search on the derivative  <u + s d - v(f + s K d), K d>. With a large t two or three
steps are enough, but the proximal steps are short; so t falls as fast as Newton's method allows and rises
where it does not end soon. The best v seen is taken over if D fell, so D never rises, whatever K is.

One factorisation for N multipliers takes N^3/3 multiplications. With many classes the rows tie them together
only loosely, and it is cheaper to invert one matrix per class, K + t I over the rows it is in play for, and
to solve for the rows' ties (NewtonSystem): about rows^3/3, however many multipliers there are.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from odmlib._core.vectors import inner
from odmlib.solvers._inverse import STEP_WIDTH, inverse_step, scratch_size
from odmlib.solvers._joint_block import (
    NewtonSystem,
    block_gap,
    kernel_times,
    proximal_rows,
    solve_directly,
)
from odmlib.solvers._joint_kernel import JointKernel
from odmlib.solvers.control import Control

Floats = NDArray[np.float64]

MOST_COST = 1.3e10  # multiplications for a system solved class by class, in slices: a second or two
MOST_DIRECT_COST = 2e9  # and for one solved in one go: some tenths of a second
SMALL_COST = 1e7  # no other way can be faster
CLASS_FACTOR = 3  # what a multiplication costs when the system is solved class by class
FIRST_PROXIMITY = 0.1  # t in units of the kernel's diagonal
GROWTH_BETWEEN_BLOCKS = 10  # of t, from the end of a block to the beginning of the next
LEAST_PROXIMITY = 1e-12
MAX_PROXIMAL_STEPS = 60
MAX_NEWTON_STEPS = 40  # of one proximal step; then t grows
RISE = 5
# how t falls, by the number of Newton steps it took
FALLS = ((2, 0.1), (5, 0.3), (9, 0.6))
CLOSE = 0.1  # 1/2 |u - v|^2 at a proximal step's end, in units of t/2 |v - centre|^2, or of the gap before
SAME_GAP = 1.5  # the gap at the scores of v against that at f: nearly one point
MAX_TRIES = 30
SLOPE_LEFT = 0.1  # of the line search
LEAST_GAIN = 1e-13  # of D: less means nothing


class _Point:
    """Multipliers of the block and v; then the u and f they were made for, the scores of v and its gap."""

    u: Floats
    f: Floats
    f_v: Floats
    gap: float
    newton_steps: int
    solved: bool

    def __init__(self, shape: tuple[int, int]):
        self.zeta, self.v, self.beta = np.zeros(shape), np.zeros(shape), np.zeros(shape[0])


class BlockNewton:
    """Newton's method on the open block of a state; what it learns about t stays from block to block."""

    rows: NDArray[np.int64]
    kernel: Floats
    scale: float  # of t

    def __init__(self, state: JointKernel, control: Control, threads: int):
        self.state, self.control, self.threads = state, control, threads
        self.proximity = FIRST_PROXIMITY
        self.newton_steps = 0
        self.needed = False
        self.cost = 0.0  # multiplications for the largest of the last block's systems by classes

    def improve(self, target: float, switch: bool = False) -> bool:
        """Bring the open block's gap below the target, or as far as it goes; whether anything came of it.

        `switch`: the rows take the q they want. Their v so far is the centre of the first proximal step,
        but no multipliers of the new problem have it, so that there is no value of D to compare with.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return self._improve(target, switch)

    def _improve(self, target: float, switch: bool) -> bool:
        state, self.cost = self.state, 0.0
        self.rows, self.kernel, scores = state.block, state.block_kernel(), state.block_scores()
        self.scale = float(state.block_curvatures().mean())
        zeta, beta, start = state.block_multipliers()
        others = scores - self._times(start)  # b
        gap, conjugate = block_gap(state, self.rows, scores, zeta, beta)
        best = 0.5 * inner(start, scores + others) + conjugate
        if not math.isfinite(gap + best):  # an indefinite kernel without bound
            return False
        q_before = state.others[self.rows]
        if switch:
            state.others[self.rows] = state.wanted[self.rows]
            best = math.inf
        taken: _Point | None = None
        centre, u, f = start, start, scores
        for _ in range(MAX_PROXIMAL_STEPS):
            point = self._proximal_step(centre, u, f, gap, target)
            if point is None:
                break
            value = block_gap(state, self.rows, point.f_v, point.zeta, point.beta)[1]
            value += 0.5 * inner(point.v, point.f_v + others)
            fell = best == math.inf or value < best - LEAST_GAIN * abs(best)
            if fell:
                best, taken, gap, centre = value, point, point.gap, point.v
            if (fell and gap <= target) or self.control.out_of_time() is not None:
                break
            if not self._adapt(point.newton_steps, point.solved and fell):
                break
            if point.solved and fell:
                u, f = point.u, point.f
            else:
                u, f = (start, scores) if taken is None else (taken.v, taken.f_v)
        self.proximity = min(FIRST_PROXIMITY, GROWTH_BETWEEN_BLOCKS * self.proximity)
        if taken is None:
            state.others[self.rows] = q_before
            return False
        change = taken.v - start
        state.set_block(taken.zeta, taken.beta, change, scores + self._times(change))
        return True

    def _times(self, x: Floats) -> Floats:
        return kernel_times(self.kernel, x, self.state.n_classes)

    def _adapt(self, n_steps: int, good: bool) -> bool:
        """The next t; False: there is none."""
        if good:
            fall = next((fall for most, fall in FALLS if n_steps <= most), 1.0)
            self.proximity = max(LEAST_PROXIMITY, fall * self.proximity)
            return True
        self.proximity *= RISE
        return self.proximity <= RISE * FIRST_PROXIMITY

    def _proximal_step(
        self, centre: Floats, u: Floats, f: Floats, gap: float, target: float
    ) -> _Point | None:
        """Newton steps from u, with scores f, towards the minimum; None: a system cannot be solved."""
        state, rows, t = self.state, self.rows, self.proximity * self.scale
        point = _Point(centre.shape)
        proximal_rows(state, rows, t, f, centre, point.zeta, point.beta, point.v)
        n_steps = 0
        while True:
            residual = point.v - u
            image = self._times(residual)
            distance = 0.5 * inner(residual, image)
            moved = 0.5 * t * float(np.square(point.v - centre).sum())
            f_v = f + image
            gap_v = block_gap(state, rows, f_v, point.zeta, point.beta)[0]
            gap_u = block_gap(state, rows, f, point.zeta, point.beta)[0] + distance
            solved = (
                gap_v <= target
                or (distance <= CLOSE * moved and gap_u > target)
                or (distance <= CLOSE * gap and gap_v <= SAME_GAP * gap_u)
            )
            if solved or n_steps >= MAX_NEWTON_STEPS or self.control.out_of_time() is not None:
                break
            step = self._solve_system(t, point, image)
            if step is None:
                return None
            direction = residual - step
            change = self._times(direction)
            slope = -inner(residual, change)
            if not slope < 0:
                break
            length = self._line_search(t, centre, (u, direction), (f, change), slope, point)
            u, f = u + length * direction, f + length * change
            n_steps += 1
            self.newton_steps += 1
        point.u, point.f, point.f_v = u, f, f_v
        point.gap, point.newton_steps, point.solved = gap_v, n_steps, solved
        return point

    def _solve_system(self, t: float, point: _Point, right: Floats) -> Floats | None:
        """P c of the Newton step; None: the system is too large or not positive definite, or time is over."""
        system = (self.state, self.rows, self.kernel, t, point.zeta, point.beta)
        direct = (np.count_nonzero(point.zeta) + np.count_nonzero(point.beta)) ** 3 / 3
        if direct <= SMALL_COST:
            return solve_directly(*system, right, self.threads)
        by_class = NewtonSystem(*system, self.threads)
        if direct <= MOST_DIRECT_COST and direct <= CLASS_FACTOR * by_class.cost:
            return solve_directly(*system, right, self.threads)
        self.cost = max(self.cost, by_class.cost)
        if by_class.cost > MOST_COST:
            return None
        by_class.prepare()
        for label in range(self.state.n_classes):
            if not by_class.eliminate(label) or self.control.out_of_time() is not None:
                return None
        couplings = by_class.couplings
        scratch = np.empty(scratch_size(len(couplings)))
        for first in range(0, len(couplings), STEP_WIDTH):
            if not inverse_step(couplings, first, scratch, self.threads):
                return None
            if self.control.out_of_time() is not None:
                return None
        return by_class.solve(right)

    def _line_search(
        self,
        t: float,
        centre: Floats,
        u: tuple[Floats, Floats],
        f: tuple[Floats, Floats],
        slope: float,
        point: _Point,
    ) -> float:
        """A length where the derivative is near 0, 1 where that is still falling; the point moves there."""
        low, high, at_low, at_high = 0.0, math.inf, slope, math.inf
        length = 1.0
        for trial in range(MAX_TRIES):
            scores = f[0] + length * f[1]
            proximal_rows(self.state, self.rows, t, scores, centre, point.zeta, point.beta, point.v)
            now = inner(u[0] + length * u[1] - point.v, f[1])
            if abs(now) <= SLOPE_LEFT * -slope or (now <= 0 and high == math.inf):
                break
            if now < 0:
                low, at_low = length, now
            else:
                high, at_high = length, now
            part = 0.5 if trial % 3 == 2 else min(0.9, max(0.1, at_low / (at_low - at_high)))
            length = low + part * (high - low)
        return length
