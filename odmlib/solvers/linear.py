"""Which solver trains a linear machine.

auto: Newton's method with an explicit Hessian where that is cheap, and with conjugate gradients where the
rows are many times the columns. Otherwise (wide data) dual coordinate descent, which is fast while C |x|^2
is moderate. If it would take too many sweeps, its weights are the start and its dual value the bound of
Newton's method with conjugate gradients. If these too take too many steps, the problem is badly
conditioned: the block method goes on from the duals of coordinate descent, unless the rows are so many that
it would need too many blocks.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib.losses.loss import MarginLoss
from odmlib.solvers.control import MAX_ITER, Control, SolverResult
from odmlib.solvers.dcd import best_multiple, duals_from_margins, solve_dcd
from odmlib.solvers.linear_blocks import solve_linear_blocks
from odmlib.solvers.newton import prefers_explicit_hessian, solve_newton
from odmlib.solvers.svrg import solve_svrg

Floats = NDArray[np.float64]

PATIENCE = 200  # sweeps of coordinate descent, done or still to come, before auto hands over
CG_PATIENCE = 150  # conjugate gradient steps of one Newton step before auto hands over
MAX_BLOCK_ROWS = 200_000
TALL = 4  # rows per column that make data tall


def solve_linear(
    rows: Rows,
    y: Floats,
    costs: Floats,
    loss: MarginLoss,
    control: Control,
    *,
    solver: str = "auto",
    shrinking: bool = True,
    threads: int = 1,
    seed: int = 0,
    start: Floats | None = None,
) -> SolverResult:
    """Train a linear machine with the named solver; `start` are weights to begin from."""
    tall = rows.n_rows >= TALL * rows.n_columns
    if solver == "newton" or (solver == "auto" and (tall or prefers_explicit_hessian(rows))):
        return solve_newton(rows, y, costs, loss, control, threads=threads, start=start)
    if solver == "svrg":
        return solve_svrg(rows, y, costs, loss, control, threads=threads, seed=seed, start=start)
    duals = None
    if start is not None:
        duals = duals_from_margins(y * rows.product(start, threads), costs, loss, threads)
        duals = best_multiple(rows, y, costs, loss, duals, threads)
    by_blocks = partial(solve_linear_blocks, rows, y, costs, loss, control, threads=threads, seed=seed)
    if solver == "blocks":
        return by_blocks(start=duals)
    descend = partial(
        solve_dcd, rows, y, costs, loss, control, shrinking=shrinking, threads=threads, seed=seed, start=duals
    )
    if solver == "dcd":
        return descend()
    result = descend(max_sweeps=PATIENCE, patience=PATIENCE)
    if result.status != MAX_ITER or control.max_iter is not None:
        return result
    few_rows = rows.n_rows <= MAX_BLOCK_ROWS
    newton = solve_newton(
        rows,
        y,
        costs,
        loss,
        control,
        threads=threads,
        start=result.weights,
        first_iteration=result.iterations,
        dual_bound=result.dual,
        **({"patience": CG_PATIENCE} if few_rows else {}),
    )
    if newton.status != MAX_ITER or not few_rows:
        return newton
    return by_blocks(start=result.duals, first_iteration=newton.iterations)
