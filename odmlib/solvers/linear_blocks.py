"""Dual block method for linear machines: the working-set method without kernel rows.

Wide sparse data with large values or a large C are badly conditioned: coordinate descent creeps, and so do
conjugate gradients. Blocks of rows solved by Newton's method (head of _working_set.pyx) do not mind. One
iteration costs the products of a block's rows with each other, a few small factorisations and one X w.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib.losses.loss import MarginLoss
from odmlib.solvers._working_set import WorkingSet
from odmlib.solvers.control import STALLED, Control, SolverResult, relative_gap
from odmlib.solvers.working_set import BLOCK_ROWS, ENOUGH, TIE_BREAK, BlockSteps, Watch

Floats = NDArray[np.float64]


def solve_linear_blocks(
    rows: Rows,
    y: Floats,
    costs: Floats,
    loss: MarginLoss,
    control: Control,
    *,
    threads: int = 1,
    seed: int = 0,
    start: Floats | None = None,
    first_iteration: int = 0,
) -> SolverResult:
    """Train a linear machine; `start` are dual variables to begin from."""
    m = rows.n_rows
    size = max(1, min(BLOCK_ROWS, m))
    state = WorkingSet(rows, loss, y, costs, threads, seed, size)
    if start is not None:
        state.duals[:] = start
        state.rebuild()
    steps = BlockSteps(state, size, 1 + TIE_BREAK * np.random.default_rng(seed).random(m))
    watch = Watch()
    iteration, fresh = first_iteration, True
    own_limit = max(10_000, 100 * m)
    while True:
        primal, gap = state.measure()
        target = control.tol * max(1.0, abs(primal))
        if gap <= target and not fresh:
            # w was updated step by step: claim nothing before it is computed anew
            state.rebuild()
            fresh = True
            continue
        status = control.step(iteration, primal, gap, own_limit)
        if status is None and watch.stalled(primal - gap, gap, iteration):
            status = STALLED
        if status is not None and fresh:
            break
        if status is None:
            status = steps.solve(steps.choose(), ENOUGH * target * size / m, control)
        if status is None:
            iteration += 1
            fresh = False
        elif not fresh:
            state.rebuild()
            fresh = True
    return SolverResult(
        status,
        primal,
        primal - gap,
        relative_gap(primal, gap),
        iteration,
        "blocks",
        state.weights,
        state.duals,
        y * state.scores,
        {"newton_steps": state.newton_steps, "sweeps": state.sweeps, "block_rows": size},
    )
