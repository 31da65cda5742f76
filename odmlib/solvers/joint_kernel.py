"""Multi-class ODM with a kernel: f_l = sum_i v_il k(x_i, .)   (problem, labels q and certificate: joint.py)

Block ascent on the dual. The scores of all rows are kept, class after class. An iteration takes the rows
whose parts of the duality gap are the largest, fetches their kernel rows at once, makes sweeps of exact
one-row steps (class_block.h) over the block with its own small kernel matrix, or Newton steps where those
are slow (joint_block.py), and then brings the scores of all rows up to date. The gap on all rows is known
after every iteration without any kernel work. 1/2 sum |w_l|^2 = 1/2 sum v_il f_il.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from odmlib.kernels.cache import RowCache
from odmlib.kernels.kernel import Kernel
from odmlib.solvers._joint_kernel import JointKernel
from odmlib.solvers.control import CONVERGED, STALLED, Control, SolverResult
from odmlib.solvers.joint import Labels, Measured
from odmlib.solvers.joint_block import MOST_COST, BlockNewton
from odmlib.solvers.working_set import float32_is_too_coarse

Floats = NDArray[np.float64]

# of a block; large C needs many: rows that are solved together do not undo each other's steps
LEAST_BLOCK, USUAL_BLOCK, MOST_BLOCK = 128, 1024, 3072
MOST_LOCAL_VALUES = 400_000  # of a (rows x classes) matrix of blocks larger than the usual ones
LITTLE = 0.5  # where a block solved by Newton's method leaves more than this part of the gap, blocks grow
MOST_BLOCK_VALUES = 15_000_000  # kernel values of a block: between two looks at the clock
JUDGED_BLOCKS, PATIENCE = 4, 80  # Newton's method is needed where sweeps want so many blocks more
BLOCK_GAP, SHARE = 0.02, 0.5  # a block is solved with so much of its gap left, or of the gap that may stay
STALL_PASSES = 50  # through all rows without a better dual value
STALL_PROGRESS = 1e-10


def solve_joint_kernel(
    kernel: Kernel,
    labels: NDArray[np.int64],
    n_classes: int,
    costs: Floats,
    control: Control,
    *,
    cache_bytes: int,
    nu: float,
    theta: float,
    relaxation: str = "majorise",
    threads: int = 1,
    seed: int = 0,
    start: Floats | None = None,
) -> SolverResult:
    """Train on the rows of a kernel; the result's duals are the v_il (rows x classes).

    `start` are scores of the rows (rows x classes) to begin from.
    """
    m, frozen = kernel.n_rows, relaxation == "frozen"
    cache = RowCache(kernel, cache_bytes, float32_is_too_coarse(kernel, costs))
    block = max(USUAL_BLOCK, min(MOST_BLOCK, MOST_LOCAL_VALUES // n_classes))
    block = max(LEAST_BLOCK, min(m, block, MOST_BLOCK_VALUES // max(1, m)))
    state = JointKernel(kernel, labels, costs, n_classes, nu, theta, frozen, seed, cache, block, threads)
    decide = Labels(frozen and nu > 0, control.tol)
    movable = state.movable()
    newton = BlockNewton(state, control, threads)
    size, largest = min(USUAL_BLOCK, state.block_rows), state.block_rows
    limit = max(10_000, 100 * m)
    iteration, status = 0, None
    now = Measured(math.inf, math.inf, math.inf, 0)
    best: tuple[Measured, Floats, Floats] | None = None  # of lowest J when q was taken anew
    best_dual, best_iteration = -math.inf, 0
    gaps: list[float] = []  # on the present q, block after block
    if start is not None:
        status = _begin(state, start, control)
    elif nu > 0 and not frozen and n_classes > 2:  # the first q: from a pass with beta = 0
        for rows in _blocks(np.random.default_rng(seed).permutation(movable), size):
            state.solve(rows, False)
            iteration += 1
            status = control.step(iteration, 0.0, math.inf, limit)
            if status is not None:
                break
        state.measure()
        if status is None:
            status = _reassign(state, control)
    while True:
        before, now = now, Measured(*state.measure())
        if newton.needed and now.gap > LITTLE * before.gap:  # the other rows undo most of it
            size = min(largest, 2 * size)
        verdict = decide.judge(now)
        dual = now.relaxed - now.gap
        if dual > best_dual + STALL_PROGRESS * max(1.0, abs(dual)):
            best_dual, best_iteration = dual, iteration
        quiet = verdict != "converged" and now.relative <= control.tol
        status = control.step(iteration, now.relaxed, math.inf if quiet else now.gap, limit) or status
        if verdict == "converged":
            status = CONVERGED
        if status is None and (iteration - best_iteration) * state.block_rows > STALL_PASSES * m + 1000:
            status = STALLED
        if status is not None:
            break
        if verdict == "reassign":
            if best is None or now.objective < best[0].objective:
                best = (now, state.duals(), state.margins.copy())
            status = _reassign(state, control, newton, now, decide.tolerance, size)
            best_dual, best_iteration = -math.inf, iteration  # another problem, another dual
            gaps = []
            if status is None:
                iteration += 1
                continue
        gaps.append(now.gap)
        target = decide.tolerance * max(1.0, abs(now.relaxed))
        newton.needed = newton.needed or _too_slow(gaps, target)
        _solve_block(state, newton, _largest(state.gaps, movable, size), now, decide.tolerance)
        if newton.cost > MOST_COST:
            largest = size = max(LEAST_BLOCK, int(0.8 * size * (MOST_COST / newton.cost) ** (1 / 3)))
        iteration += 1
    duals, margins = state.duals(), state.margins
    if status != CONVERGED and best is not None and best[0].objective < now.objective:
        now, duals, margins = best
    if kernel.shift:  # as a new row in the same place has it
        margins = _margins(state.scores.T - kernel.shift * duals, labels)
    return SolverResult(
        status,
        now.relaxed,
        now.relaxed - now.gap,
        now.relative,
        iteration,
        "working-set",
        None,
        np.ascontiguousarray(duals),
        margins,
        {
            "relaxation": relaxation,
            "objective": now.objective,
            "relaxed": now.relaxed,
            "dual": now.relaxed - now.gap,
            "outer_steps": decide.steps,
            "misplaced": now.misplaced,
            "active_multipliers": state.n_active,
            "sweeps": state.sweeps,
            "newton_steps": newton.newton_steps,
            "block_rows": state.block_rows,
            "cache_hits": cache.hits,
            "cache_misses": cache.misses,
            "float64": cache.wide,
        },
    )


def _solve_block(
    state: JointKernel, newton: BlockNewton, rows: NDArray[np.int64], now: Measured, tolerance: float
) -> None:
    """Sweeps over a block; Newton's method where it is needed: one-row steps raise the dual there, too, but
    at large C they spoil the scores."""
    if newton.needed:
        state.open_block(rows)
        gap = float(state.gaps[rows].sum())
        share = SHARE * tolerance * max(1.0, abs(now.relaxed)) * gap / now.gap
        done = newton.improve(max(BLOCK_GAP * gap, share))
        state.close_block()
        if done:
            return
    state.solve(rows, True)


def _too_slow(gaps: list[float], target: float) -> bool:
    """Whether blocks at the rate of the last ones are far from bringing the gap to the target."""
    if len(gaps) <= JUDGED_BLOCKS or not 0 < target < gaps[-1]:
        return False
    fall = math.log(min(gaps[-JUDGED_BLOCKS:]) / gaps[-JUDGED_BLOCKS - 1]) / JUDGED_BLOCKS
    return fall >= 0 or math.log(target / gaps[-1]) / fall > PATIENCE


def _largest(gaps: Floats, movable: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """The movable rows with the largest parts of the gap, ascending."""
    if len(movable) > n:
        places = np.argpartition(-gaps[movable], n - 1)[:n]
        movable = np.sort(movable[places])
    return np.ascontiguousarray(movable)


def _blocks(rows: NDArray[np.int64], n: int) -> list[NDArray[np.int64]]:
    return [np.sort(rows[begin : begin + n]) for begin in range(0, len(rows), n)]


def _begin(state: JointKernel, scores: Floats, control: Control) -> str | None:
    """Multipliers that belong to known scores. A status when the time is over: then there are none."""
    state.begin(np.ascontiguousarray(scores))
    duals = state.duals()
    for rows in _blocks(np.flatnonzero(duals.any(axis=1)), state.block_rows):
        state.add(rows, duals[rows])
        status = control.out_of_time()
        if status is not None:
            state.scores[:] = 0
            state.set_multipliers(np.zeros((state.n_rows, state.n_classes)), np.zeros(state.n_rows))
            return status
    return None


def _reassign(
    state: JointKernel,
    control: Control,
    newton: BlockNewton | None = None,
    now: Measured | None = None,
    tolerance: float = 1.0,
    size: int = 0,
) -> str | None:
    """q (or M) of the last measurement; rows with beta are solved anew. A status when the time is over.

    Where sweeps were too slow for the last block, Newton's method moves the rows: at large C one-row steps
    to another q throw the scores far off.
    """
    if state.frozen:
        state.references[:] = state.best_scores
        return None
    state.wanted[:] = state.best_wrong
    moving = (state.wanted != state.others) & (state.beta > 0)
    state.others[~moving] = state.wanted[~moving]
    rows = np.flatnonzero(moving)
    if newton is not None and now is not None and newton.needed and 0 < len(rows) <= size:
        worth = np.where(moving, np.inf, state.gaps)
        state.open_block(_largest(worth, state.movable(), size))
        switched = newton.improve(SHARE * tolerance * max(1.0, abs(now.relaxed)), switch=True)
        state.close_block()
        if switched:
            return control.out_of_time()
    for part in _blocks(rows, min(USUAL_BLOCK, state.block_rows)):
        state.solve(part, True)
        status = control.out_of_time()
        if status is not None:
            return status
    return None


def _margins(scores: Floats, labels: NDArray[np.int64]) -> Floats:
    rows = np.arange(len(labels))
    own = scores[rows, labels]
    scores[rows, labels] = -np.inf
    return own - scores.max(axis=1)
