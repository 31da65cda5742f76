"""The pair method for KM-OMD with any kernel: the loop. Its steps: _pairs.pyx; the problem: _geometry.pyx.

Each iteration takes a block: the worst pair of each class, a part of the last block and the rows that promise
most; does pair steps in it; and updates all scores. The stopping test is the duality gap on all rows,
relative to the objective. The scores do not depend on lambda, so the point of one lambda, with its scores,
is where the next smaller one begins.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from odmlib._core.arrays import Floats, Places
from odmlib.errors import ParameterError
from odmlib.kernels.kernel import Kernel
from odmlib.solvers.control import (
    CONVERGED,
    MAX_ITER,
    STALLED,
    STOPPED,
    TIME_LIMIT,
    Control,
    Resources,
    StallDetector,
    WarmStart,
)
from odmlib.solvers.kernel.block_steps import BlockMethod
from odmlib.solvers.kernel.certificate import Scores, fresh_scores
from odmlib.solvers.kernel.precision import EXACT_ROWS, cache_for, kmomd_needs_float64, score_errors
from odmlib.solvers.kernel.q_rows import KernelRows
from odmlib.solvers.kmomd._pairs import Pairs
from odmlib.solvers.kmomd.geometry import NOT_SEPARABLE, KmomdPoint, KmomdProblem


@dataclass(frozen=True)
class PairsTuning:
    block_rows: int = 512
    whole_rows: int = 1024  # so few rows are one block
    kept: float = 0.5  # part of the last block that stays
    block_fraction: float = 0.1  # a block is solved to this part of its violation ...
    steps_per_row: int = 10  # ... by so many pair steps per row of the block, then by Newton's method
    dense_lambda: float = 0.95  # from here on nearly all rows have a part: begin with all of them
    stall_iterations: int = 50  # without a smaller objective or a larger bound
    nothing_left: float = 1e-12  # of the largest kernel value: |v|^2 of hulls that meet


TUNING = PairsTuning()


def solve_pairs(
    problem: KmomdProblem[Kernel],
    control: Control,
    resources: Resources,
    start: WarmStart | None = None,
    tuning: PairsTuning = TUNING,
) -> KmomdPoint:
    """The point for one lambda, from the start's duals, which are gamma.

    Where the start has their scores, too, nothing is computed for them; they must come from rows that are
    exact enough for this lambda. A shared cache is used where it is.
    """
    steps = _PairSteps(problem, control, resources, tuning)
    lam, tol = problem.lam, control.tol
    if lam == 1:
        return steps.known(problem.uniform())
    status = steps.start(start or WarmStart())
    largest = float(np.abs(steps.q.diagonal).max(initial=0.0))
    own_limit = max(10_000, 100 * steps.m)
    iteration, bound = 0, -math.inf
    stall = StallDetector(tuning.stall_iterations, gap_part=1.0)
    while True:
        state = steps.state
        point = problem.point(state.duals, state.scores, bound)
        bound = point.bound
        if lam == 0 and point.objective <= tuning.nothing_left * largest:
            status = NOT_SEPARABLE
            break
        status = point.step(control, iteration, own_limit) or status
        # a lower objective is progress as a larger bound is
        if status is None and stall.stalled(iteration, -point.objective, point.gap):
            status = STALLED
        if status is not None:
            rounding, point = steps.certified(status)
            if point.gap <= tol or status not in (CONVERGED, STALLED):
                break
            if not steps.cache.wide:  # rows of float32 were too coarse
                steps = steps.in_float64(point)
                stall.restart(iteration)
            elif status == CONVERGED and rounding < 0.5 * tol:
                control = control.part(
                    tol=tol - rounding, max_iter=control.max_iter, callback=control.callback
                )
            else:
                status = STALLED
                break
            status, bound = None, -math.inf
            continue
        status = steps.improve(point)
        if status is None:
            iteration += 1
    return point.ended(status, iteration, "pairs", steps.details())


def kernel_point(
    problem: KmomdProblem[Kernel],
    gamma: Floats,
    control: Control,
    resources: Resources,
    tuning: PairsTuning = TUNING,
) -> KmomdPoint:
    """A gamma that is known to be the solution: one pass over the kernel, for its scores, is all."""
    return _PairSteps(problem, control, resources, tuning).known(gamma)


class _PairSteps(BlockMethod):
    """gamma and scores of all rows; blocks of pair steps."""

    state: Pairs
    keeps_unfinished = True  # pair steps lead from point to point; half a gamma would be no point at all

    def __init__(
        self,
        problem: KmomdProblem[Kernel],
        control: Control,
        resources: Resources,
        tuning: PairsTuning,
        float64: bool = False,
    ):
        self.problem, self.control, self.resources, self.tuning = problem, control, resources, tuning
        kernel, weights = problem.data, problem.weights
        float64 = float64 or kmomd_needs_float64(kernel, weights, problem.lam, control.tol)
        self.cache = cache_for(kernel, resources, float64)
        self.before = (self.cache.hits, self.cache.misses)
        size = kernel.n_rows if kernel.n_rows <= tuning.whole_rows else tuning.block_rows
        q = KernelRows(self.cache, max(1, size), resources.threads)
        state = Pairs(q, np.ascontiguousarray(problem.y), np.ascontiguousarray(weights))
        super().__init__(state, tuning.kept, q.most_rows)

    def start(self, start: WarmStart) -> str | None:
        """A feasible point with scores; a status when the time is over before that."""
        if start.duals is not None and start.scores is not None:
            self.state.resume(start.duals, start.scores)
            return None
        if start.duals is not None:
            return self.set(start.duals)
        if self.problem.lam >= self.tuning.dense_lambda:
            return self.set(self.problem.uniform())
        classes = self.problem.classes
        one, others = classes.rows[0], classes.rows[classes.n_positive :]
        nearest = others[np.argmax(self.cache.rows([one])[0, others])]
        self.state.add_rows(np.array([one, nearest]), np.ones(2))
        return None

    def set(self, gamma: Floats) -> str | None:
        """Take a gamma and compute its scores; a status when the time is over before that."""
        nothing = np.zeros(self.m)
        self.state.resume(nothing, nothing)
        return self.add(gamma, self.control)

    def known(self, gamma: Floats) -> KmomdPoint:
        self.set(gamma)
        return self.problem.point(self.state.duals, self.state.scores).known(self.details())

    def certified(self, status: str) -> tuple[float, KmomdPoint]:
        """The point with scores computed anew in float64, if there is time, and bounds that include rounding.

        The first number is what that adds to the gap.
        """
        problem, gamma = self.problem, self.state.duals.copy()
        coefficients, scores = problem.y * gamma, None
        if status not in (TIME_LIMIT, STOPPED):
            scores = fresh_scores(problem.data, coefficients, self.control, self.resources.threads)
        if scores is None:
            errors = score_errors(problem.data, coefficients, self.cache.wide)
            scores = Scores(self.state.scores.copy(), errors)
        point = problem.point(gamma, scores.values)
        error = (1 - problem.lam) * float(scores.errors.max(initial=0.0))
        if not 8 * error < point.objective and status in (CONVERGED, STALLED, MAX_ITER):
            raise ParameterError(
                f"the objective of KM-OMD, {point.objective:.3g}, is lost in rounding of kernel values as "
                f"large as {problem.data.bound():.3g}; scale the data or the kernel"
            )
        wider = point.widened(scores.errors)
        return wider.gap - point.gap, wider

    def in_float64(self, point: KmomdPoint) -> _PairSteps:
        """The same point, with rows of float64 from now on."""
        resources = dataclasses.replace(self.resources, cache=None)
        steps = _PairSteps(self.problem, self.control, resources, self.tuning, float64=True)
        steps.state.resume(point.gamma, point.scores)
        return steps

    def improve(self, point: KmomdPoint) -> str | None:
        """Pair steps in the next block; a status when the time is over."""
        tuning, (block, n_positive) = self.tuning, self._next_block(point)
        most_steps = tuning.steps_per_row * len(block)
        # the only block: exact for the same time
        fraction = (
            0.0 if len(block) == len(self.problem.classes.rows) <= EXACT_ROWS else tuning.block_fraction
        )
        return self.solve(block, self.control, n_positive, point.lam, fraction, most_steps)

    def _next_block(self, point: KmomdPoint) -> tuple[Places, int]:
        """The next block, rows of the first class before those of the second, and how many those are."""
        classes = self.problem.classes
        must = self.state.rate(point.lam, *point.rho)[: self.size]
        if self.size >= len(classes.rows):
            return classes.rows, classes.n_positive
        block = self.choose(self.state.gains, must)
        positive = self.problem.y[block] > 0
        return np.concatenate([block[positive], block[~positive]]), int(positive.sum())

    def details(self) -> dict[str, Any]:
        return {
            "steps": self.state.steps,
            "newton_steps": self.state.newton_steps,
            "cache_hits": self.cache.hits - self.before[0],
            "cache_misses": self.cache.misses - self.before[1],
            "cache_rows": self.cache.capacity,
            "block_rows": self.size,
            "float64": self.cache.wide,
        }
