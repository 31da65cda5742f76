"""The pair method for KM-OMD with any kernel: the loop. Its steps: _pairs.pyx; the problem: _hulls.pyx.

Each iteration takes a block: the worst pair of each class, a part of the last block and the rows that promise
most; does pair steps in it; and updates all scores. The stopping test is the duality gap on all rows,
relative to the objective. The scores do not depend on lambda, so a solver that is asked for several lambdas,
from large to small, begins each where the last one ended.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from odmlib.kernels.cache import RowCache
from odmlib.kernels.kernel import Kernel
from odmlib.solvers._hulls import Hulls
from odmlib.solvers._pairs import Pairs
from odmlib.solvers.control import CONVERGED, STALLED, Control
from odmlib.solvers.hulls import NOT_SEPARABLE, NOTHING_LEFT, HullPoint, measure, report

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

BLOCK_ROWS = 512
KEPT = 0.5  # part of the last block that stays
BLOCK_FRACTION = 0.1  # a block is solved to this part of its violation ...
STEPS_PER_ROW = 10  # ... by so many pair steps per row of the block, then by Newton's method
WHOLE_ROWS = 1024  # so few rows are one block
DENSE_LAMBDA = 0.95  # from here on nearly all rows have a part: begin with all of them
STALL_ITERATIONS = 50  # without a smaller objective or a larger bound
STALL_PROGRESS = 1e-13  # relative
FRESH_STEPS = 100_000  # after so many the scores are computed anew before the end
FETCH_VALUES = 5e7  # kernel values computed between two looks at the clock
ROUNDING = 2.0**-22  # of a float32 kernel value, with what its computation adds
SAFE_PART = 0.2  # part of the ridge lambda / (1-lambda) that rounding may eat up, whatever the tolerance


class PairSolver:
    """Rows of two classes, their kernel rows in a cache; `solve` goes on from where the last one ended."""

    def __init__(self, cache: RowCache, y: Floats, weights: Floats, threads: int = 1):
        self.cache, self.y, self.weights = cache, np.ascontiguousarray(y), np.ascontiguousarray(weights)
        self.hulls = Hulls(self.y, self.weights)
        self.n_rows = cache.n_columns
        size = self.n_rows if self.n_rows <= WHOLE_ROWS else BLOCK_ROWS
        self.size = max(1, min(size, cache.capacity))
        self.state = Pairs(cache, self.y, self.weights, threads, self.size)
        self.last = np.empty(0, dtype=np.int64)  # the last block, rows to keep first
        self.positive = self.y > 0
        self.largest = float(np.abs(cache.kernel.diagonal()).max(initial=0.0))

    def solve(self, lam: float, control: Control, start: Floats | None = None) -> HullPoint:
        """The point for one lambda; `start`: a gamma to begin from instead of the last one."""
        if lam == 1:
            return self.at(uniform(self.y, self.weights), control)
        before = self._counts()
        status = self._begin(lam, control, start)
        state, own_limit = self.state, max(10_000, 100 * self.n_rows)
        iteration, first_step, fresh = 0, state.steps, True
        bound, stall = -math.inf, _Stall()
        while True:
            point = measure(self.hulls, state.gamma, state.scores, lam, bound)
            bound = point.bound
            if lam == 0 and point.objective <= NOTHING_LEFT * self.largest:
                status = NOT_SEPARABLE
                break
            if point.gap <= control.tol and not fresh and state.steps - first_step > FRESH_STEPS:
                # scores were updated step by step: claim nothing before they are computed anew
                status, fresh, bound = self._set(state.gamma.copy(), control), True, -math.inf
                continue
            status = report(control, iteration, point, own_limit) or status
            if status is None and stall.over(point, iteration):
                status = STALLED
            if status is not None:
                break
            block, n_positive = self._choose(point)
            status = self._improve(block, n_positive, lam, control)
            if status is None:
                iteration, fresh = iteration + 1, False
        point.status, point.iterations, point.solver = status, iteration, "pairs"
        point.gamma, point.scores = state.gamma.copy(), state.scores.copy()
        point.details = self._details(before)
        return point

    def _counts(self) -> dict[str, int]:
        """What was done since the solver and its cache were made."""
        return {
            "steps": self.state.steps,
            "newton_steps": self.state.newton_steps,
            "cache_hits": self.cache.hits,
            "cache_misses": self.cache.misses,
        }

    def _details(self, before: dict[str, int]) -> dict[str, object]:
        return {
            **{name: count - before[name] for name, count in self._counts().items()},
            "cache_rows": self.cache.capacity,
            "block_rows": self.size,
            "float64": self.cache.wide,
        }

    def _begin(self, lam: float, control: Control, start: Floats | None) -> str | None:
        """A feasible point with scores, unless there is one; a status when the time is over before that."""
        if start is not None:
            return self._set(start, control)
        if self.state.gamma.any():
            return None
        if lam >= DENSE_LAMBDA:
            return self._set(uniform(self.y, self.weights), control)
        rows, n_positive = self.hulls.rows, self.hulls.n_positive
        one, others = rows[0], rows[n_positive:]
        nearest = others[np.argmax(self.cache.rows([one])[0, others])]
        self.state.add_rows(np.array([one, nearest]), np.ones(2))
        return None

    def _set(self, gamma: Floats, control: Control) -> str | None:
        """Take a gamma and compute its scores; a status when the time is over before that."""
        state = self.state
        state.gamma[:] = 0
        state.scores[:] = 0
        support = np.flatnonzero(gamma)
        step = min(self.size, rows_at_a_time(self.n_rows))
        status = None
        for begin in range(0, len(support), step):
            some = support[begin : begin + step]
            state.add_rows(some, gamma[some])
            status = status or control.out_of_time()  # but go on: half a gamma is no point at all
        return status

    def at(self, gamma: Floats, control: Control) -> HullPoint:
        """lambda = 1, where the solution is known: one pass over the kernel, for the scores, is all."""
        before = self._counts()
        self._set(gamma, control)
        point = measure(self.hulls, self.state.gamma.copy(), self.state.scores.copy(), 1.0)
        point.status, point.solver, point.details = CONVERGED, "closed form", self._details(before)
        point.bound = point.objective
        return point

    def _choose(self, point: HullPoint) -> tuple[Places, int]:
        """The next block, rows of the first class before those of the second, and how many those are."""
        must = self.state.rate(point.lam, *point.rho)[: self.size]
        if self.size >= len(self.hulls.rows):
            return self.hulls.rows, self.hulls.n_positive
        gains = self.state.gains
        gains[must] = math.inf
        kept = np.setdiff1d(self.last[: int(KEPT * self.size)], must, assume_unique=True)
        kept = kept[: max(0, self.size - len(must))]
        gains[kept] = -1.0
        n_new = self.size - len(kept)
        best = np.argpartition(gains, -n_new)[-n_new:]
        block = np.sort(np.concatenate([kept, best[gains[best] > 0]]))
        positive = self.positive[block]
        return np.concatenate([block[positive], block[~positive]]), int(positive.sum())

    def _improve(self, block: Places, n_positive: int, lam: float, control: Control) -> str | None:
        """Pair steps in one block; a status when the time was over before it was done."""
        step = rows_at_a_time(self.n_rows)
        for begin in range(0, len(block), step):
            self.state.prefetch(block[begin : begin + step])
            status = control.out_of_time()
            if status is not None:
                return status
        self.state.begin(block, n_positive, lam, BLOCK_FRACTION, STEPS_PER_ROW * len(block))
        while not self.state.improve():
            status = control.out_of_time()
            if status is not None:
                break  # what was done so far is good
        self.state.commit()
        # rows with a part in the solution, the latest ones first, stay longest
        fresh = np.setdiff1d(block, self.last, assume_unique=True)
        order = np.concatenate([fresh, np.intersect1d(self.last, block, assume_unique=True)])
        self.last = order[np.argsort(self.state.gamma[order] == 0, kind="stable")]
        return control.out_of_time()


class _Stall:
    """Whether the objective still falls or the bound still rises."""

    def __init__(self) -> None:
        self.objective, self.bound, self.iteration = math.inf, -math.inf, 0

    def over(self, point: HullPoint, iteration: int) -> bool:
        least = STALL_PROGRESS * abs(point.objective)
        if point.objective < self.objective - least or point.bound > self.bound + least:
            self.objective, self.bound, self.iteration = point.objective, point.bound, iteration
        return iteration - self.iteration >= STALL_ITERATIONS


def uniform(y: Floats, weights: Floats) -> Floats:
    """gamma in proportion to the weights, summing to 1 in each class."""
    gamma = np.zeros(len(y))
    for side in (y > 0, y < 0):
        gamma[side] = weights[side] / weights[side].sum()
    return gamma


def needs_float64(kernel: Kernel, weights: Floats, lam: float, tol: float) -> bool:
    """Whether kernel rows of float32 could change the objective by more than `tol`.

    Rounding adds a matrix of norm e, about 2^-24 sqrt(rows) times the largest entry, to K and so at most
    (1-lambda) e |gamma|^2 to L, of which at least lambda |gamma|^2 / (largest weight) is there anyway.
    """
    moved = ROUNDING * math.sqrt(kernel.n_rows) * float(np.abs(kernel.diagonal()).max(initial=0.0))
    return (1 - lam) * float(weights.max(initial=0.0)) * moved > min(SAFE_PART, tol) * lam


def rows_at_a_time(n_columns: int) -> int:
    """Kernel rows between two looks at the clock."""
    return max(64, int(FETCH_VALUES / max(1, n_columns)))
