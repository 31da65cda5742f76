"""Which solver trains a linear machine.

auto: Newton's method with an explicit Hessian where that is cheap. Otherwise (many columns) dual
coordinate descent, which is fast while C |x|^2 is moderate; if it has not converged after a few sweeps,
its weights are Newton's start and its dual value Newton's bound.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib.losses.loss import MarginLoss
from odmlib.solvers.control import MAX_ITER, Control, SolverResult
from odmlib.solvers.dcd import best_multiple, duals_from_margins, solve_dcd
from odmlib.solvers.newton import prefers_explicit_hessian, solve_newton
from odmlib.solvers.svrg import solve_svrg

Floats = NDArray[np.float64]

LINEAR_SOLVERS = ("auto", "newton", "dcd", "svrg")
PATIENCE = 200  # sweeps of coordinate descent before auto hands over to Newton


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
    if solver == "newton" or (solver == "auto" and (start is not None or prefers_explicit_hessian(rows))):
        return solve_newton(rows, y, costs, loss, control, threads=threads, start=start)
    if solver == "svrg":
        return solve_svrg(rows, y, costs, loss, control, threads=threads, seed=seed, start=start)
    descend = partial(
        solve_dcd, rows, y, costs, loss, control, shrinking=shrinking, threads=threads, seed=seed
    )
    if solver == "dcd":
        duals = None
        if start is not None:
            duals = duals_from_margins(y * rows.product(start, threads), costs, loss, threads)
            duals = best_multiple(rows, y, costs, loss, duals, threads)
        return descend(start=duals)
    result = descend(max_sweeps=PATIENCE)
    if result.status != MAX_ITER or control.max_iter is not None:
        return result
    return solve_newton(
        rows,
        y,
        costs,
        loss,
        control,
        threads=threads,
        start=result.weights,
        first_iteration=result.iterations,
        dual_bound=result.dual,
    )
