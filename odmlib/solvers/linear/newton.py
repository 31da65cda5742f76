"""Generalised Newton method on the primal of a linear machine.

    min_w  P(w) = 1/2 |w|^2 + sum_i loss_i(z_i),   z_i = y_i <w, x_i>

The losses are piecewise quadratic and once differentiable, so with c_i the curvature of row i's piece

    H = I + X' diag(c) X,   H s = -grad P(w),   w <- w + t s,   t by an exact line search,

ends after a handful of steps (docs/internals/mathematics.md). H is formed and factorised when that is cheap;
otherwise H s = -grad is solved by conjugate gradients with the diagonal of H as preconditioner.

Certificate: with a_i = -loss_i'(z_i), Fenchel's equality holds in every row, so
P(w) - D(a) = 1/2 |w - sum_i a_i y_i x_i|^2 = 1/2 |grad P(w)|^2: the gap on all rows costs nothing extra.
Every D(a) met on the way bounds the optimum from below; the largest is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Floats
from odmlib._core.rows import Rows
from odmlib._core.vectors import inner
from odmlib.losses.sums import along_line
from odmlib.solvers.control import MAX_ITER, STALLED, Control, Resources, SolverResult, WarmStart
from odmlib.solvers.linalg.conjugate_gradients import conjugate_gradients
from odmlib.solvers.linalg.dense import add_rows_gram, solve_positive
from odmlib.solvers.linalg.line_search import ACCURACY, line_search
from odmlib.solvers.problem import LinearProblem


@dataclass(frozen=True)
class NewtonTuning:
    explicit: bool | None = None  # whether the Hessian is formed; None: by what both ways cost
    max_steps: int = 500
    max_cg_steps: int = 2000  # of one Newton step
    cg_patience: int | None = None  # give up (status max_iter) where a Newton step takes as many cg steps
    explicit_columns: int = 2000  # most columns of a Hessian: 32 MB, a third of a second to factorise
    usual_cg_steps: int = 40  # of a Newton step, to weigh the two forms
    dense_columns: int = 64  # from here on dense rows are multiplied by blocks ...
    # ... if this part of their values is stored: with half of them blocks took 0.36 to 0.8 of the time, with
    # a quarter 1.0 to 1.6 times as long (64 to 780 columns, one thread)
    dense_part: float = 0.4
    dense_gain: float = 8.0  # how much faster the Hessian of full rows is taken to be
    slice_products: float = 2e9  # of two numbers between two looks at Ctrl-C: some tenths of a second


TUNING = NewtonTuning()


def solve_newton(
    problem: LinearProblem,
    control: Control,
    resources: Resources,
    start: WarmStart | None = None,
    tuning: NewtonTuning = TUNING,
) -> SolverResult:
    """Train a linear machine from the start's weights; its bound is a known lower bound of P."""
    rows, threads = problem.rows, resources.threads
    start = start or WarmStart()
    explicit = prefers_explicit_hessian(rows, tuning)
    w = np.zeros(rows.n_columns) if start.weights is None else start.weights.copy()
    hessian = np.eye(rows.n_columns) if explicit else None
    # of every row: margin and curvature here and where we look, the curvature that H knows, its change
    margins, curvatures, new_margins, new_curvatures, known, change = np.zeros((6, rows.n_rows))
    iteration, cg_steps, bound = start.iterations, 0, start.bound
    last_primal, last_bound = math.inf, bound
    patience = tuning.cg_patience or tuning.max_cg_steps
    loss_total, loss_gradient = problem.evaluate(w, margins, curvatures, threads)

    while True:
        gradient = w + loss_gradient
        primal = 0.5 * inner(w, w) + loss_total
        bound = max(bound, primal - 0.5 * inner(gradient, gradient))
        gap = max(0.0, primal - bound)  # below 0 by rounding only
        status = control.step(iteration, primal, gap, tuning.max_steps)
        if status is not None:
            break

        step = None
        if hessian is not None:
            # only rows that changed sides since the last step have anything to add
            np.subtract(curvatures, known, out=change)
            add_gram(hessian, rows, change, threads, tuning)
            known[:] = curvatures
            step = solve_positive(hessian, -gradient)
        if step is None:  # no Hessian, or I is lost beside X' diag(c) X
            hessian = None
            diagonal = 1.0 + rows.hessian_diagonal(curvatures, threads)
            norm = math.sqrt(inner(gradient, gradient))
            # a residual well below the target gradient norm is wasted work ...
            enough = 0.3 * math.sqrt(2 * control.target(primal))
            step, used = conjugate_gradients(
                lambda v: v + rows.hessian_product(curvatures, v, threads),  # noqa: B023
                -gradient,
                lambda residual: residual / diagonal,  # noqa: B023
                # ... and far from it a rough direction does
                max(enough, 1e-12 * norm) if enough > 1e-2 * norm else 1e-2 * norm,
                patience,
                control.out_of_time,
            )
            cg_steps += used
            if tuning.cg_patience is not None and used >= patience:
                status = control.out_of_time() or MAX_ITER
                break
        iteration += 1
        slope = inner(gradient, step)
        going = primal < last_primal or bound > last_bound
        last_primal, last_bound = primal, bound
        if not (slope < 0 and going):  # rounding: H, updated step by step, may have lost too many digits
            if hessian is None:
                status = control.out_of_time() or STALLED
                break
            hessian, last_primal = None, math.inf
            continue
        # the whole step is nearly always right, and where it leads must be looked at in any case
        there = w + step
        loss_total, loss_gradient = problem.evaluate(there, new_margins, new_curvatures, threads)
        if not abs(inner(there + loss_gradient, step)) <= -ACCURACY * slope:
            directions = np.subtract(new_margins, margins, out=change)
            length = newton_length(problem, slope, w, step, margins, directions, threads)
            there = w + step * length
            loss_total, loss_gradient = problem.evaluate(there, new_margins, new_curvatures, threads)
        w = there
        margins, new_margins = new_margins, margins
        curvatures, new_curvatures = new_curvatures, curvatures

    details = {"hessian": "explicit" if explicit else "conjugate gradients", "cg_steps": cg_steps}
    found = {"weights": w, "margins": margins, "details": details}
    return SolverResult.at(status, primal, gap, iteration, "newton", **found)


def newton_length(
    problem: LinearProblem,
    at_zero: float,
    w: Floats,
    step: Floats,
    margins: Floats,
    directions: Floats,
    threads: int,
) -> float:
    """How far to go along a step of slope `at_zero`; `directions` are the changes of the margins."""
    across, square = inner(w, step), inner(step, step)

    def derivatives(t: float) -> tuple[float, float]:
        first, second = along_line(problem.loss, margins, directions, t, problem.costs, threads)
        return first + (across + t * square), second + square

    return line_search(at_zero, derivatives)


def prefers_explicit_hessian(rows: Rows, tuning: NewtonTuning = TUNING) -> bool:
    """Whether forming and factorising H costs less than a usual run of conjugate gradients."""
    if tuning.explicit is not None:
        return tuning.explicit
    n = rows.n_columns
    if n > tuning.explicit_columns:
        return False
    row_length = rows.n_nonzeros / max(1, rows.n_rows) + 1
    forming = rows.n_rows * row_length * row_length / 2
    if rows.dense() is not None:
        forming /= tuning.dense_gain
    forming += n**3 / 4
    return forming <= tuning.usual_cg_steps * 4 * rows.n_nonzeros + 1e7


def add_gram(
    hessian: Floats, rows: Rows, coefficients: Floats, threads: int, tuning: NewtonTuning = TUNING
) -> None:
    """hessian += X' diag(coefficients) X; rather full rows by blocks, with looks at Ctrl-C in between."""
    n = rows.n_columns
    stored = rows.n_nonzeros + (rows.n_rows if rows.bias else 0)
    if n < tuning.dense_columns or stored < tuning.dense_part * n * rows.n_rows:
        hessian += rows.gram(coefficients, threads)
        return
    step = max(128, int(tuning.slice_products / n**2))
    for begin in range(0, rows.n_rows, step):
        add_rows_gram(hessian, rows, coefficients, begin, min(begin + step, rows.n_rows), threads)
