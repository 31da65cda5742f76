"""Generalised Newton method on the primal of a linear machine.

    min_w  P(w) = 1/2 |w|^2 + sum_i loss_i(z_i),   z_i = y_i <w, x_i>

The losses are piecewise quadratic and once differentiable, so with c_i the curvature of row i's piece

    H = I + X' diag(c) X,   H s = -grad P(w),   w <- w + t s,   t by an exact line search,

ends after a handful of steps (spec/odm.md section 3.2). H is formed and factorised when that is cheap;
otherwise H s = -grad is solved by conjugate gradients with the diagonal of H as preconditioner.

Certificate: with a_i = -loss_i'(z_i), Fenchel's equality holds in every row, so
P(w) - D(a) = 1/2 |w - sum_i a_i y_i x_i|^2 = 1/2 |grad P(w)|^2: the gap on all rows costs nothing extra.
Every D(a) met on the way bounds the optimum from below; the largest is kept.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib._core.vectors import inner
from odmlib.losses.loss import MarginLoss
from odmlib.solvers._dense import dense_gram, solve_positive
from odmlib.solvers._newton import evaluate
from odmlib.solvers.control import MAX_ITER, STALLED, TIME_LIMIT, Control, SolverResult, relative_gap
from odmlib.solvers.line_search import ACCURACY, line_search

Floats = NDArray[np.float64]

MAX_STEPS = 500
MAX_CG_STEPS = 2000
MAX_EXPLICIT_COLUMNS = 2000  # 32 MB for H, a third of a second to factorise
DENSE_COLUMNS = 64  # from here on dense rows are multiplied by blocks ...
DENSE_GAIN = 8  # ... which is that much faster
SLICE_PRODUCTS = 2e9  # of two numbers, between two looks at Ctrl-C
USUAL_CG_STEPS = 40  # a Newton step's conjugate gradient products, for choosing between the two forms


def solve_newton(
    rows: Rows,
    y: Floats,
    costs: Floats,
    loss: MarginLoss,
    control: Control,
    *,
    threads: int = 1,
    start: Floats | None = None,
    first_iteration: int = 0,
    dual_bound: float = -math.inf,
    patience: int = MAX_CG_STEPS,
) -> SolverResult:
    """Train a linear machine; `start` are weights to begin from, `dual_bound` a known lower bound of P.

    `patience`: give up (status max_iter) when one Newton step takes more conjugate gradient steps than that.
    """
    explicit = prefers_explicit_hessian(rows)
    w = np.zeros(rows.n_columns) if start is None else start.copy()
    hessian = np.eye(rows.n_columns) if explicit else None
    # of every row: margin and curvature here and where we look, the curvature that H knows, its change
    margins, curvatures, new_margins, new_curvatures, known, change = np.zeros((6, rows.n_rows))
    iteration, cg_steps = first_iteration, 0
    last_primal, last_bound = math.inf, dual_bound
    look = partial(evaluate, rows, y, costs, loss)
    loss_total, loss_gradient = look(w, margins, curvatures, threads)

    while True:
        gradient = w + loss_gradient
        primal = 0.5 * inner(w, w) + loss_total
        dual_bound = max(dual_bound, primal - 0.5 * inner(gradient, gradient))
        gap = max(0.0, primal - dual_bound)  # below 0 by rounding only
        status = control.step(iteration, primal, gap, MAX_STEPS)
        if status is not None:
            break

        step = None
        if hessian is not None:
            # only rows that changed sides since the last step have anything to add
            np.subtract(curvatures, known, out=change)
            add_gram(hessian, rows, change, threads)
            known[:] = curvatures
            step = solve_positive(hessian, -gradient)
        if step is None:  # no Hessian, or I is lost beside X' diag(c) X
            hessian = None
            # a residual well below the target gradient norm is wasted work
            enough = 0.3 * math.sqrt(2 * control.tol * max(1.0, abs(primal)))
            step, used = _conjugate_gradients(rows, curvatures, gradient, enough, patience, control, threads)
            cg_steps += used
            if used >= patience < MAX_CG_STEPS:
                status = control.out_of_time() or MAX_ITER
                break
        iteration += 1
        slope = inner(gradient, step)
        going = primal < last_primal or dual_bound > last_bound
        last_primal, last_bound = primal, dual_bound
        if not (slope < 0 and going):  # rounding: H, updated step by step, may have lost too many digits
            if hessian is None:
                status = control.out_of_time() or STALLED
                break
            hessian, last_primal = None, math.inf
            continue
        # the whole step is nearly always right, and where it leads must be looked at in any case
        there = w + step
        loss_total, loss_gradient = look(there, new_margins, new_curvatures, threads)
        if not abs(inner(there + loss_gradient, step)) <= -ACCURACY * slope:
            directions = np.subtract(new_margins, margins, out=change)
            across, square = inner(w, step), inner(step, step)
            there = w + step * line_search(slope, across, square, margins, directions, loss, costs, threads)
            loss_total, loss_gradient = look(there, new_margins, new_curvatures, threads)
        w = there
        margins, new_margins = new_margins, margins
        curvatures, new_curvatures = new_curvatures, curvatures

    details = {"hessian": "explicit" if explicit else "conjugate gradients", "cg_steps": cg_steps}
    return SolverResult(
        status,
        primal,
        primal - gap,
        relative_gap(primal, gap),
        iteration,
        "newton",
        w,
        None,
        margins,
        details,
    )


def prefers_explicit_hessian(rows: Rows) -> bool:
    """Whether forming and factorising H costs less than a usual run of conjugate gradients."""
    n = rows.n_columns
    if n > MAX_EXPLICIT_COLUMNS:
        return False
    row_length = rows.n_nonzeros / max(1, rows.n_rows) + 1
    forming = rows.n_rows * row_length * row_length / 2
    if rows.dense() is not None:
        forming /= DENSE_GAIN
    forming += n**3 / 4
    return forming <= USUAL_CG_STEPS * 4 * rows.n_nonzeros + 1e7


def add_gram(hessian: Floats, rows: Rows, coefficients: Floats, threads: int) -> None:
    """hessian += X' diag(coefficients) X; dense rows by blocks, with looks at Ctrl-C in between."""
    matrix = rows.dense()
    if matrix is None or rows.n_columns < DENSE_COLUMNS:
        hessian += rows.gram(coefficients, threads)
        return
    step = max(128, int(SLICE_PRODUCTS / rows.n_columns**2))
    for begin in range(0, rows.n_rows, step):
        some = slice(begin, begin + step)
        hessian += dense_gram(matrix[some], coefficients[some], threads)


def _conjugate_gradients(
    rows: Rows,
    curvatures: Floats,
    gradient: Floats,
    enough: float,
    limit: int,
    control: Control,
    threads: int,
) -> tuple[Floats, int]:
    """s with (I + X' diag(curvatures) X) s = -gradient, to a residual that suits the Newton step."""
    diagonal = 1.0 + rows.hessian_diagonal(curvatures, threads)
    step = np.zeros_like(gradient)
    residual = -gradient
    norm = math.sqrt(inner(residual, residual))
    # far from the target a rough direction does; the closer, the tighter
    target = max(enough, 1e-12 * norm) if enough > 1e-2 * norm else 1e-2 * norm
    scaled = residual / diagonal
    direction = scaled.copy()
    product = inner(residual, scaled)
    used = 0
    while used < limit:
        used += 1
        image = direction + rows.hessian_product(curvatures, direction, threads)
        length = product / inner(direction, image)
        step += length * direction
        residual -= length * image
        if math.sqrt(inner(residual, residual)) <= target or control.out_of_time() == TIME_LIMIT:
            break
        scaled = residual / diagonal
        previous, product = product, inner(residual, scaled)
        direction *= product / previous
        direction += scaled
    return step, used
