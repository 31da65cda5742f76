"""Newton's method on a block of rows of the multi-class kernel machine, for where one-row steps crawl.

All other rows fixed, the block's problem with its kernel matrix K and the scores b of the others is

    min_v  D(v) = 1/2 <v, K v> + <b, v> + sum_i conj_i(v_i) ,      v: rows x classes   (class_block.h)

a quadratic with as many bounds as multipliers; where K is ill-conditioned, guesses which bounds hold fail.
So, as in newton.py, proximal steps: with t/2 |v - center|^2 added, the problem has a smooth primal
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
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Floats
from odmlib._core.vectors import inner
from odmlib.solvers.control import Control
from odmlib.solvers.linalg.dense import STEP_WIDTH, inverse_step, scratch_size
from odmlib.solvers.linalg.line_search import line_search
from odmlib.solvers.multiclass._block_system import NewtonSystem, solve_directly
from odmlib.solvers.multiclass._mcodm import KernelState

Line = tuple[Floats, Floats]  # a point, and a direction from there


@dataclass(frozen=True)
class BlockTuning:
    # multiplications for a system solved class by class, in slices: a second or two
    most_cost: float = 1.3e10
    most_direct_cost: float = 2e9  # and for one solved in one go: some tenths of a second
    small_cost: float = 1e7  # no other way can be faster
    class_factor: float = 3.0  # what a multiplication costs when the system is solved class by class
    first_proximity: float = 0.1  # t in units of the kernel's diagonal
    growth_between_blocks: float = 10.0  # of t, from the end of a block to the beginning of the next
    least_proximity: float = 1e-12
    max_proximal_steps: int = 60
    max_newton_steps: int = 40  # of one proximal step; then t grows
    rise: float = 5.0
    falls: tuple[tuple[int, float], ...] = ((2, 0.1), (5, 0.3), (9, 0.6))  # of t, by the Newton steps it took
    # 1/2 |u - v|^2 at a proximal step's end, in units of t/2 |v - center|^2, or of the gap before
    close: float = 0.1
    same_gap: float = 1.5  # the gap at the scores of v against that at f: nearly one point
    least_gain: float = 1e-13  # of D: less means nothing


TUNING = BlockTuning()


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

    kernel: Floats
    scale: float  # of t

    def __init__(self, state: KernelState, control: Control, threads: int, tuning: BlockTuning = TUNING):
        self.state, self.control, self.threads, self.tuning = state, control, threads, tuning
        self.proximity = tuning.first_proximity
        self.newton_steps = 0
        self.needed = False
        self.cost = 0.0  # multiplications for the largest of the last block's systems by classes

    @np.errstate(over="ignore", invalid="ignore")
    def improve(self, target: float, switch: bool = False) -> bool:
        """Bring the open block's gap below the target, or as far as it goes; whether anything came of it.

        `switch`: the rows take the q they want. Their v so far is the center of the first proximal step,
        but no multipliers of the new problem have it, so that there is no value of D to compare with.
        """
        state, tuning, self.cost = self.state, self.tuning, 0.0
        self.kernel, scores = state.block_kernel(), state.block_scores()
        self.scale = float(state.curvatures[state.block].mean())
        zeta, beta, start = state.multipliers(state.block)
        others = scores - state.block_times(start)  # b
        gap, conjugate = state.measure_block(scores, zeta, beta)
        best = 0.5 * inner(start, scores + others) + conjugate
        if not math.isfinite(gap + best):  # an indefinite kernel without bound
            return False
        q_before = state.others[state.block]
        if switch:
            state.others[state.block] = state.wanted[state.block]
            best = math.inf
        taken: _Point | None = None
        center, u, f = start, start, scores
        for _ in range(tuning.max_proximal_steps):
            point = self._proximal_step(center, u, f, gap, target)
            if point is None:
                break
            value = state.measure_block(point.f_v, point.zeta, point.beta)[1]
            value += 0.5 * inner(point.v, point.f_v + others)
            fell = best == math.inf or value < best - tuning.least_gain * abs(best)
            if fell:
                best, taken, gap, center = value, point, point.gap, point.v
            if (fell and gap <= target) or self.control.out_of_time() is not None:
                break
            if not self._adapt(point.newton_steps, point.solved and fell):
                break
            if point.solved and fell:
                u, f = point.u, point.f
            else:
                u, f = (start, scores) if taken is None else (taken.v, taken.f_v)
        self.proximity = min(tuning.first_proximity, tuning.growth_between_blocks * self.proximity)
        if taken is None:
            state.others[state.block] = q_before
            return False
        change = taken.v - start
        state.set_block(taken.zeta, taken.beta, change, scores + state.block_times(change))
        return True

    def _adapt(self, n_steps: int, good: bool) -> bool:
        """The next t; False: there is none."""
        tuning = self.tuning
        if good:
            fall = next((fall for most, fall in tuning.falls if n_steps <= most), 1.0)
            self.proximity = max(tuning.least_proximity, fall * self.proximity)
            return True
        self.proximity *= tuning.rise
        return self.proximity <= tuning.rise * tuning.first_proximity

    def _proximal_step(
        self, center: Floats, u: Floats, f: Floats, gap: float, target: float
    ) -> _Point | None:
        """Newton steps from u, with scores f, towards the minimum; None: a system cannot be solved."""
        state, tuning, t = self.state, self.tuning, self.proximity * self.scale
        point = _Point(center.shape)
        state.proximal_block(t, f, center, point.zeta, point.beta, point.v)
        n_steps = 0
        while True:
            residual = point.v - u
            image = state.block_times(residual)
            distance = 0.5 * inner(residual, image)
            moved = 0.5 * t * float(np.square(point.v - center).sum())
            f_v = f + image
            gap_v = state.measure_block(f_v, point.zeta, point.beta)[0]
            gap_u = state.measure_block(f, point.zeta, point.beta)[0] + distance
            solved = (
                gap_v <= target
                or (distance <= tuning.close * moved and gap_u > target)
                or (distance <= tuning.close * gap and gap_v <= tuning.same_gap * gap_u)
            )
            if solved or n_steps >= tuning.max_newton_steps or self.control.out_of_time() is not None:
                break
            step = self._solve_system(t, point, image)
            if step is None:
                return None
            direction = residual - step
            change = state.block_times(direction)
            slope = -inner(residual, change)
            if not slope < 0:
                break
            length = self._go(t, center, (u, direction), (f, change), slope, point)
            u, f = u + length * direction, f + length * change
            n_steps += 1
            self.newton_steps += 1
        point.u, point.f, point.f_v = u, f, f_v
        point.gap, point.newton_steps, point.solved = gap_v, n_steps, solved
        return point

    def _solve_system(self, t: float, point: _Point, right: Floats) -> Floats | None:
        """P c of the Newton step; None: the system is too large or not positive definite, or time is over."""
        tuning = self.tuning
        system = (self.state, self.kernel, t, point.zeta, point.beta)
        direct = (np.count_nonzero(point.zeta) + np.count_nonzero(point.beta)) ** 3 / 3
        if direct <= tuning.small_cost:
            return solve_directly(*system, right, self.threads)
        by_class = NewtonSystem(*system, self.threads)
        if direct <= tuning.most_direct_cost and direct <= tuning.class_factor * by_class.cost:
            return solve_directly(*system, right, self.threads)
        self.cost = max(self.cost, by_class.cost)
        if by_class.cost > tuning.most_cost:
            return None
        by_class.prepare()
        for label in range(self.state.n_classes):
            if not by_class.eliminate(label) or self.control.out_of_time() is not None:
                return None
        couplings = by_class.couplings
        scratch = np.empty(scratch_size(len(couplings)))
        for first in range(0, len(couplings), STEP_WIDTH):
            solved = inverse_step(couplings, first, scratch, self.threads)
            if not solved or self.control.out_of_time() is not None:
                return None
        return by_class.solve(right)

    def _go(self, t: float, center: Floats, u: Line, f: Line, slope: float, point: _Point) -> float:
        """A length where the derivative is near 0, 1 where that is still falling; the point moves there."""
        there = 0.0

        def derivatives(length: float) -> tuple[float, float]:
            nonlocal there
            there = length
            scores = f[0] + length * f[1]
            self.state.proximal_block(t, scores, center, point.zeta, point.beta, point.v)
            return inner(u[0] + length * u[1] - point.v, f[1]), math.nan

        length = line_search(slope, derivatives, longest=1.0)
        if length != there:
            derivatives(length)
        return length
