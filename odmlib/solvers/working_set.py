"""Working-set method for kernel machines: the loop. The mathematics is at the head of _working_set.pyx.

Each iteration takes the rows that promise most, together with a part of the last block (without which two
blocks can undo each other's work), solves them exactly enough, and updates all scores. The stopping test,
the relative duality gap on all rows, is computed in every iteration.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from odmlib.errors import ParameterError
from odmlib.kernels.cache import RowCache
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import MarginLoss
from odmlib.solvers._working_set import WorkingSet
from odmlib.solvers.control import STALLED, Control, SolverResult, relative_gap

BLOCK_ROWS = 512  # rows of a block
KEPT = 0.5  # part of the last block that stays
BLOCK_FRACTION = 0.01  # a block is solved to this part of its gap ...
ENOUGH = 0.1  # ... or to this part of its share of the gap asked for
HELD_FACTOR = 1.2  # how much more a row is worth when its kernel row is at hand
TIE_BREAK = 0.01  # random part of a row's worth: at the start all rows are alike
STALL_ITERATIONS = 100  # without progress of the dual objective
STALL_PROGRESS = 1e-13  # relative
FETCH_ROWS = 128  # kernel rows computed between two looks at the clock


def solve_working_set(
    kernel: Kernel,
    y: NDArray[np.float64],
    costs: NDArray[np.float64],
    loss: MarginLoss,
    control: Control,
    *,
    cache_bytes: int,
    shrinking: bool = True,
    threads: int = 1,
    seed: int = 0,
    start: NDArray[np.float64] | None = None,
) -> SolverResult:
    """Minimise 1/2 a'Qa + sum conj_i(a_i) over the signed duals a; Q_ij = y_i y_j k_ij, y = +-1.

    `start`: duals to begin from. At most `cache_bytes` are spent on kernel rows.
    """
    m = kernel.n_rows
    y, costs = _checked("y", y, m), _checked("costs", costs, m)
    cache = RowCache(kernel, cache_bytes)
    size = max(1, min(BLOCK_ROWS, m, cache.capacity))
    state = WorkingSet(cache, loss, y, costs, threads, seed, size)
    rng = np.random.default_rng(seed)
    worth = 1 + TIE_BREAK * rng.random(m)
    status = _begin_from(state, start, m, size, control) if start is not None else None
    own_limit = max(10_000, 100 * m)
    last = np.empty(0, dtype=np.int64)
    iteration, best_dual, best_iteration = 0, -math.inf, 0
    while True:
        primal, gap = state.measure()
        status = control.step(iteration, primal, gap, own_limit) or status
        dual = primal - gap
        if dual > best_dual + STALL_PROGRESS * max(1.0, abs(dual)) or iteration == 0:
            best_dual, best_iteration = dual, iteration
        elif status is None and iteration - best_iteration >= STALL_ITERATIONS:
            status = STALLED
        if status is not None:
            break
        np.multiply(state.gains, worth, out=state.gains)
        state.prefer_held(HELD_FACTOR)
        block = _choose(state.gains, last, size)
        status = _solve_block(
            state, block, ENOUGH * control.tol * max(1.0, abs(primal)) * len(block) / m, control
        )
        if status is None:
            # rows with a part in the solution, the latest ones first, stay longest
            last = np.concatenate(
                [np.setdiff1d(block, last, assume_unique=True), np.intersect1d(last, block)]
            )
            last = last[np.argsort(state.duals[last] == 0, kind="stable")]
            iteration += 1
    return SolverResult(
        status=status,
        primal=primal,
        dual=primal - gap,
        gap=relative_gap(primal, gap),
        iterations=iteration,
        solver="working-set",
        duals=state.duals,
        margins=state.margins(),
        details={
            "cache_hits": cache.hits,
            "cache_misses": cache.misses,
            "cache_rows": cache.capacity,
            "block_rows": size,
            "newton_steps": state.newton_steps,
            "sweeps": state.sweeps,
        },
    )


def _checked(name: str, values: NDArray[np.float64], m: int) -> NDArray[np.float64]:
    values = np.ascontiguousarray(values, dtype=np.float64)
    if values.shape != (m,):
        raise ParameterError(f"{name} must hold one number for each of {m} rows, found shape {values.shape}")
    return values


def _begin_from(
    state: WorkingSet, start: NDArray[np.float64], m: int, size: int, control: Control
) -> str | None:
    """Add the starting duals, block by block; a status when the time is over before that."""
    start = _checked("start", start, m)
    rows = np.flatnonzero(start)
    for begin in range(0, len(rows), min(size, FETCH_ROWS)):
        some = rows[begin : begin + min(size, FETCH_ROWS)]
        state.add_rows(some, start[some])
        status = control.out_of_time()
        if status is not None:
            return status
    return None


def _choose(gains: NDArray[np.float64], last: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The next block, ascending: a part of the last one and the rows of largest gain."""
    if size >= len(gains):
        return np.arange(len(gains))
    kept = last[: int(KEPT * size)]
    gains[kept] = -1.0
    n_new = size - len(kept)
    best = np.argpartition(gains, -n_new)[-n_new:]
    return np.sort(np.concatenate([kept, best[gains[best] > 0]]))


def _solve_block(state: WorkingSet, block: NDArray[np.int64], enough: float, control: Control) -> str | None:
    """Solve one block; a status when the time was over before it was done (then nothing has changed)."""
    for begin in range(0, len(block), FETCH_ROWS):
        state.prefetch(block[begin : begin + FETCH_ROWS])
        status = control.out_of_time()
        if status is not None:
            return status
    state.begin(block, BLOCK_FRACTION, enough)
    while not state.improve():
        status = control.out_of_time()
        if status is not None:
            return status
    state.commit()
    return None
