"""Which solver trains a linear machine whose loss has a kink (SVM, ODM^L).

auto: dual coordinate descent, which is fast while C |x|^2 is moderate; if it has not converged after a few
sweeps and the columns are few enough for an explicit system, the interior-point method goes on from its
weights, with its dual value as a bound. ODM^L, whose variance slows coordinate descent down, begins with the
interior-point method. Wide data stay with coordinate descent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib.losses.loss import HingeLoss, MeanVarianceLoss
from odmlib.solvers.centre import MovingCentre
from odmlib.solvers.control import MAX_ITER, Control, SolverResult
from odmlib.solvers.dcd import MAX_SWEEPS, best_multiple, duals_from_margins, solve_dcd
from odmlib.solvers.interior import solve_interior
from odmlib.solvers.newton import prefers_explicit_hessian

Floats = NDArray[np.float64]

PATIENCE = 150  # sweeps of coordinate descent before auto hands over to the interior-point method


def solve_hinged(
    rows: Rows,
    y: Floats,
    costs: Floats,
    loss: HingeLoss | MeanVarianceLoss,
    control: Control,
    *,
    solver: str = "auto",
    shrinking: bool = True,
    threads: int = 1,
    seed: int = 0,
    start: Floats | None = None,
) -> SolverResult:
    """Train a linear machine with the named solver; `start` are weights to begin from."""
    explicit = prefers_explicit_hessian(rows)
    if solver == "interior-point" or (
        solver == "auto" and explicit and (start is not None or loss.variance > 0)
    ):
        return solve_interior(rows, y, costs, loss, control, threads=threads, start=start)
    hands_over = solver == "auto" and explicit
    result = solve_dcd(
        rows,
        y,
        costs,
        loss,
        control,
        shrinking=shrinking,
        threads=threads,
        seed=seed,
        start=_start_duals(rows, y, costs, loss, start, threads),
        max_sweeps=PATIENCE if hands_over else MAX_SWEEPS,
        centre=moving_centre(loss, costs),
    )
    if not hands_over or result.status != MAX_ITER or control.max_iter is not None:
        return result
    return solve_interior(
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


def moving_centre(loss: HingeLoss | MeanVarianceLoss, costs: Floats) -> MovingCentre | None:
    """What keeps ODM^L's centre; none where the loss has none (or no row counts)."""
    if not (isinstance(loss, MeanVarianceLoss) and loss.variance > 0 and costs.any()):
        return None
    return MovingCentre(loss, costs)


def first_duals(loss: HingeLoss | MeanVarianceLoss, costs: Floats) -> Floats | None:
    """Duals inside the conjugate's domain; None for 0, which is there unless the mean alone pulls."""
    return loss.mean * costs if loss.mean > 0 and loss.variance == 0 else None


def _start_duals(
    rows: Rows,
    y: Floats,
    costs: Floats,
    loss: HingeLoss | MeanVarianceLoss,
    weights: Floats | None,
    threads: int,
) -> Floats | None:
    if weights is None:
        return first_duals(loss, costs)
    duals = duals_from_margins(y * rows.product(weights, threads), costs, loss, threads)
    return best_multiple(rows, y, costs, loss, duals, threads) if loss.mean == loss.variance == 0 else duals
