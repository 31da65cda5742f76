"""Multi-class ODM with a kernel: f_l = sum_i v_il k(x_i, .)   (problem, q and certificate: problem.py)

Block ascent on the dual. The scores of all rows are kept, class after class. An iteration takes the rows
whose parts of the duality gap are the largest, fetches their kernel rows at once, makes sweeps of exact
one-row steps (class_block.h) over the block with its own small kernel matrix, or Newton steps where those
are slow (block.py), and then brings the scores of all rows up to date. The gap on all rows is known
after every iteration without any kernel work. 1/2 sum |w_l|^2 = 1/2 sum v_il f_il.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Floats, Places
from odmlib.kernels.kernel import Kernel
from odmlib.solvers.control import (
    CONVERGED,
    STALLED,
    STOPPED,
    TIME_LIMIT,
    Control,
    Resources,
    SolverResult,
    StallDetector,
    WarmStart,
    steps_to_come,
)
from odmlib.solvers.kernel.certificate import fresh_scores
from odmlib.solvers.kernel.precision import EXACT_ROWS, cache_for, margins_need_float64, score_errors
from odmlib.solvers.multiclass._mcodm import KernelState
from odmlib.solvers.multiclass.block import TUNING as BLOCK
from odmlib.solvers.multiclass.block import BlockNewton, BlockTuning
from odmlib.solvers.multiclass.certificate import of_scores
from odmlib.solvers.multiclass.problem import OUTER, Certificate, McodmProblem, OuterLoop, OuterTuning


@dataclass(frozen=True)
class McodmKernelTuning:
    # rows of a block; large C needs many: rows that are solved together do not undo each other's steps
    least_block: int = 128
    usual_block: int = 1024
    most_block: int = 3072
    most_local_values: int = 400_000  # of a (rows x classes) matrix of blocks larger than the usual ones
    most_block_values: int = 15_000_000  # kernel values of a block: between two looks at the clock
    little: float = 0.5  # where Newton's method on a block leaves more than this part of the gap, blocks grow
    judged_blocks: int = 4  # Newton's method is needed where sweeps, as the last blocks went, ...
    patience: float = 80.0  # ... want so many blocks more
    block_gap: float = 0.02  # a block is solved with so much of its gap left, ...
    share: float = 0.5  # ... or so much of its share of the gap that may stay
    # up to EXACT_ROWS rows, a run that has converged goes on to this gap, or while so many blocks halve it
    exact_tolerance: float = 1e-14
    exact_blocks: int = 2
    stall_passes: float = 50.0  # through all rows without progress
    stall_progress: float = 1e-10  # part of the dual value
    outer: OuterTuning = OUTER
    block: BlockTuning = BLOCK


TUNING = McodmKernelTuning()


def solve_mcodm_kernel(
    problem: McodmProblem,
    control: Control,
    resources: Resources,
    start: WarmStart | None = None,
    tuning: McodmKernelTuning = TUNING,
) -> SolverResult:
    """Train on the rows of a kernel; the result's duals are the v_il (rows x classes).

    The start's scores of the rows are rows x classes.
    """
    scores = None if start is None else start.scores
    run = _Run(problem, control, resources, tuning)
    while (result := run.solve(scores)) is None:  # rows of float32 were too coarse
        scores = np.ascontiguousarray(run.state.scores.T)
        run = _Run(problem, control, resources, tuning, float64=True, iteration=run.iteration)
    return result


@dataclass(frozen=True, eq=False)
class _Point:
    """A point of a run to come back to, and what was found there."""

    found: Certificate
    multipliers: Any
    scores: Floats

    @classmethod
    def of(cls, state: KernelState, found: Certificate) -> _Point:
        return cls(found, state.point(), state.scores.copy())

    def restore(self, state: KernelState) -> None:
        state.return_to(self.multipliers)
        state.scores[:] = self.scores


class _Run:
    """One call of solve_mcodm_kernel."""

    def __init__(
        self,
        problem: McodmProblem,
        control: Control,
        resources: Resources,
        tuning: McodmKernelTuning,
        float64: bool = False,
        iteration: int = 0,
    ):
        if not isinstance(problem.data, Kernel):
            raise TypeError("a kernel machine is trained on a Kernel")
        kernel, m = problem.data, problem.data.n_rows
        self.problem, self.kernel, self.control, self.tuning = problem, kernel, control, tuning
        self.seed = resources.seed
        steepest = problem.costs * max(1.0, problem.nu)
        float64 = float64 or margins_need_float64(kernel, steepest, tol=control.tol)
        self.cache = cache_for(kernel, resources, float64)
        block = max(tuning.usual_block, min(tuning.most_block, tuning.most_local_values // problem.n_classes))
        block = max(tuning.least_block, min(m, block, tuning.most_block_values // max(1, m)))
        self.state = KernelState(problem, self.cache, block, resources.threads, resources.seed)
        self.movable = self.state.movable()
        self.outer = OuterLoop(problem, control, tuning.outer)
        self.newton = BlockNewton(self.state, control, resources.threads, tuning.block)
        self.threads = resources.threads
        self.size, self.largest = min(tuning.usual_block, self.state.block_rows), self.state.block_rows
        self.limit = max(10_000, 100 * m)
        self.iteration = iteration
        self.refining = False

    def solve(self, start: Floats | None) -> SolverResult | None:
        """None where the run converged with rows of float32 and the gap in float64 is too large."""
        problem, state, newton, tuning = self.problem, self.state, self.newton, self.tuning
        status = None
        if start is not None:
            status = self.begin(start)
        elif problem.nu > 0 and not problem.frozen and problem.n_classes > 2:
            status = self.first_pass()
        now = Certificate(math.inf, math.inf, math.inf, 0)
        best: _Point | None = None  # of lowest J when q was taken anew
        stall = StallDetector(
            (tuning.stall_passes * state.n_rows + 1000) / state.block_rows, tuning.stall_progress
        )
        gaps: list[float] = []  # on the present q, block after block
        exact = state.n_rows <= EXACT_ROWS and not self.outer.frozen
        converged: _Point | None = None  # where it did, in a run that goes on
        while True:
            before, now = now, Certificate(*state.measure(self.threads))
            if newton.needed and now.gap > tuning.little * before.gap:  # the other rows undo most of it
                self.size = min(self.largest, 2 * self.size)
            verdict, ends = self.outer.step(now, self.iteration, self.limit)
            status = ends or status
            if exact and converged is None and status == CONVERGED and now.gap > 0:
                status, converged = None, _Point.of(state, now)
                self.outer.refine(tuning.exact_tolerance)
                newton.needed = self.refining = True
                # only the gap counts: no bound is twice the last one
                stall = StallDetector(tuning.exact_blocks, least=1.0, gap_part=0.5)
            if stall.stalled(self.iteration, now.relaxed - now.gap, now.gap):
                status = status or STALLED
            if status is not None:
                break
            if verdict == "reassign":
                if best is None or now.objective < best.found.objective:
                    best = _Point.of(state, now)
                status = self.reassign(now)
                stall.restart(self.iteration)  # another problem, another dual
                gaps = []
                if status is None:
                    self.iteration += 1
                    continue
            gaps.append(now.gap)
            newton.needed = newton.needed or self.too_slow(gaps, now)
            self.solve_block(now)
            self.iteration += 1
        if converged is not None:  # whatever has ended the rest of the run
            status, best = CONVERGED, converged if now.relative > self.control.tol else None
        elif status == CONVERGED or (best is not None and best.found.objective >= now.objective):
            best = None
        if best is not None:
            best.restore(state)
        duals = state.duals()
        now = self.certified(duals, status)
        margins = state.margins
        if status == CONVERGED and now.relative > self.control.tol:
            if not self.cache.wide:
                return None
            status = STALLED
        if self.kernel.shift:  # as a new row in the same place has it
            margins = _margins(state.scores.T - self.kernel.shift * duals, state.labels)
        details = {
            "active_multipliers": state.n_active,
            "sweeps": state.sweeps,
            "newton_steps": newton.newton_steps,
            "block_rows": state.block_rows,
            "cache_hits": self.cache.hits,
            "cache_misses": self.cache.misses,
            "float64": self.cache.wide,
        }
        found = {"duals": np.ascontiguousarray(duals), "margins": margins}
        return self.outer.result(status, now, self.iteration, "working-set", details, **found)

    def certified(self, duals: Floats, status: str) -> Certificate:
        """Bounds that hold with all rounding; of scores computed anew in float64, if there is time."""
        state, fresh = self.state, None
        if status not in (TIME_LIMIT, STOPPED):
            fresh = fresh_scores(self.kernel, duals, self.control, self.threads)
        if fresh is None:
            errors = score_errors(self.kernel, duals, self.cache.wide)
        else:
            errors, state.scores[:] = fresh.errors, fresh.values.T
        measured = state.measure(self.threads, None, np.ascontiguousarray(errors.max(axis=1, initial=0.0)))
        return of_scores(state, measured, duals, errors)

    def begin(self, scores: Floats) -> str | None:
        """Multipliers that belong to known scores. A status when the time is over: then there are none."""
        state = self.state
        state.scores[:] = scores.T
        state.begin()
        state.scores[:] = 0
        zeta, beta, duals = state.multipliers()
        for rows in _blocks(np.flatnonzero(duals.any(axis=1)), state.block_rows):
            state.open_block(rows)
            state.set_block(zeta[rows], beta[rows], duals[rows], state.block_scores())
            state.close_block()
            status = self.control.out_of_time()
            if status is not None:
                state.scores[:] = 0
                state.clear()
                return status
        return None

    def first_pass(self) -> str | None:
        """The first q comes from a pass with beta = 0. A status when the run ends there."""
        order = np.random.default_rng(self.seed).permutation(self.movable)
        for rows in _blocks(order, self.size):
            self.state.solve(rows, False)
            self.iteration += 1
            status = self.control.step(self.iteration, 0.0, math.inf, self.limit)
            if status is not None:
                return status
        self.state.measure(self.threads)
        return self.reassign(None)

    def solve_block(self, now: Certificate) -> None:
        """Sweeps over a block; Newton's method where it is needed: one-row steps raise the dual there, too,
        but at large C they spoil the scores."""
        state, newton, tuning = self.state, self.newton, self.tuning
        rows = _largest(state.gaps, self.movable, self.size)
        done = False
        if newton.needed:
            state.open_block(rows)
            gap = float(state.gaps[rows].sum())
            share = tuning.share * self.target(now) * gap / now.gap
            done = newton.improve(0.0 if self.refining else max(tuning.block_gap * gap, share))
            state.close_block()
        if not done:
            state.solve(rows, True)
        most = tuning.block.most_cost
        if newton.cost > most:
            self.size = max(tuning.least_block, int(0.8 * self.size * (most / newton.cost) ** (1 / 3)))
            self.largest = self.size

    def reassign(self, now: Certificate | None) -> str | None:
        """q (or M) of the last measurement; rows with beta are solved anew. A status when the time is over.

        Where sweeps were too slow for the last block, Newton's method moves the rows: at large C one-row
        steps to another q throw the scores far off.
        """
        state, control = self.state, self.control
        rows = state.reassign()
        if now is not None and self.newton.needed and 0 < len(rows) <= self.size:
            worth = state.gaps.copy()
            worth[rows] = np.inf
            state.open_block(_largest(worth, self.movable, self.size))
            switched = self.newton.improve(self.tuning.share * self.target(now), switch=True)
            state.close_block()
            if switched:
                return control.out_of_time()
        for part in _blocks(rows, min(self.tuning.usual_block, state.block_rows)):
            state.solve(part, True)
            status = control.out_of_time()
            if status is not None:
                return status
        return None

    def target(self, now: Certificate) -> float:
        """The absolute gap at which q is taken anew."""
        return self.outer.tolerance * abs(now.relaxed)

    def too_slow(self, gaps: list[float], now: Certificate) -> bool:
        """Whether blocks at the rate of the last ones are far from bringing the gap to the target."""
        n = self.tuning.judged_blocks
        if len(gaps) <= n:
            return False
        return steps_to_come(n, gaps[-n - 1], min(gaps[-n:]), self.target(now)) > self.tuning.patience


def _largest(gaps: Floats, movable: Places, n: int) -> Places:
    """The movable rows with the largest parts of the gap, ascending."""
    if len(movable) > n:
        movable = np.sort(movable[np.argpartition(-gaps[movable], n - 1)[:n]])
    return np.ascontiguousarray(movable)


def _blocks(rows: Places, n: int) -> list[Places]:
    return [np.sort(rows[begin : begin + n]) for begin in range(0, len(rows), n)]


def _margins(scores: Floats, labels: NDArray[np.int32]) -> Floats:
    rows = np.arange(len(labels))
    own = scores[rows, labels]
    scores[rows, labels] = -np.inf
    return own - scores.max(axis=1)
