"""KM-OMD with a linear kernel, without kernel values: Newton's method on the L2-loss SVM with a free bias.

    min over u, b  P = 1/2 |u|^2 + C/2 sum_i w_i max(0, 1 - z_i)^2,    z_i = y_i (<u, x_i> + b)

has, for C = (1-lambda) / lambda, the same solution as KM-OMD (spec/kmomd.md section 2.2): gamma_i is
a_i = C w_i max(0, 1 - z_i) divided by the sum of a over its class. With c_i = C w_i where z_i < 1, else 0, a
step solves

    [ I + X'cX   X'c ] [ du ]
    [ c'X        1'c ] [ db ]  =  -gradient

(formed and factorised where that is cheap, else by conjugate gradients) and goes along it to the minimum.
The certificate is KM-OMD's own, computed anew: gamma, v = X'(y gamma), s = X v and the bound of _hulls.pyx.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib._core.vectors import inner
from odmlib.losses.loss import BandLoss
from odmlib.losses.sums import along_line, slopes_and_curvatures
from odmlib.solvers._dense import solve_positive
from odmlib.solvers._hulls import Hulls
from odmlib.solvers.control import CONVERGED, STALLED, TIME_LIMIT, Control
from odmlib.solvers.hulls import HullPoint, best_length, measure, report
from odmlib.solvers.line_search import line_search
from odmlib.solvers.newton import prefers_explicit_hessian
from odmlib.solvers.pairs import uniform

Floats = NDArray[np.float64]

MAX_STEPS = 500
MAX_CG_STEPS = 2000
CG_ACCURACY = 1e-2  # residual of a Newton step relative to the gradient
STALL_STEPS = 5  # without progress


def solve_hull_newton(
    rows: Rows,
    y: Floats,
    weights: Floats,
    lam: float,
    control: Control,
    *,
    threads: int = 1,
    start: Floats | None = None,
) -> tuple[HullPoint, Floats]:
    """The point for 0 < lambda <= 1 and its v; `start` is a v to begin from. `rows` have no bias column."""
    hulls = Hulls(y, weights)
    if lam == 1:
        return hull_point(rows, y, weights, uniform(y, weights), threads)
    C = (1 - lam) / lam
    loss, costs = BandLoss(0.0, 0.0), 0.5 * C * weights
    explicit = prefers_explicit_hessian(rows)
    u, b = _first_weights(rows, hulls, y, lam, start, threads)
    margins = y * (rows.product(u, threads) + b)
    best: tuple[HullPoint, Floats] | None = None
    iteration, cg_steps, last_gain, bound = 0, 0, 0, -math.inf
    while True:
        _, slopes, curvatures = slopes_and_curvatures(loss, margins, costs, threads)
        v, point = _point(hulls, rows, y, _normalised(-slopes, y, weights), lam, bound, threads)
        bound = point.bound
        if best is None or point.objective < best[0].objective * (1 - 1e-13):
            best, last_gain = (point, v), iteration
        best[0].bound = bound
        status = report(control, iteration, best[0], MAX_STEPS)
        if status is None and iteration - last_gain >= STALL_STEPS:
            status = STALLED
        if status is not None:
            break
        gradient = np.append(u + rows.transposed_product(y * slopes, threads), inner(y, slopes))
        step = None
        if explicit:
            step = _factorised_step(rows, curvatures, gradient, threads)
        if step is None:
            step, used = _conjugate_gradients(rows, curvatures, gradient, control, threads)
            cg_steps += used
        directions = y * (rows.product(step[:-1], threads) + step[-1])
        across, square = inner(u, step[:-1]), inner(step[:-1], step[:-1])
        length = _step_length(across, square, margins, directions, loss, costs, threads)
        iteration += 1
        if length == 0:
            status = control.out_of_time() or STALLED
            break
        u += length * step[:-1]
        b += length * step[-1]
        margins = y * (rows.product(u, threads) + b)
    point, v = best
    point.status, point.iterations, point.solver = status, iteration, "newton"
    point.details = {"hessian": "explicit" if explicit else "conjugate gradients", "cg_steps": cg_steps}
    return point, v


def hull_point(
    rows: Rows, y: Floats, weights: Floats, gamma: Floats, threads: int = 1
) -> tuple[HullPoint, Floats]:
    """lambda = 1, where the solution gamma is known, and its v."""
    v, point = _point(Hulls(y, weights), rows, y, gamma, 1.0, -math.inf, threads)
    point.status, point.solver, point.bound = CONVERGED, "closed form", point.objective
    return point, v


def _point(
    hulls: Hulls, rows: Rows, y: Floats, gamma: Floats, lam: float, bound: float, threads: int
) -> tuple[Floats, HullPoint]:
    v = rows.transposed_product(y * gamma, threads)
    return v, measure(hulls, gamma, rows.product(v, threads), lam, bound)


def _first_weights(
    rows: Rows, hulls: Hulls, y: Floats, lam: float, start: Floats | None, threads: int
) -> tuple[Floats, float]:
    """The SVM's weights that belong to v in the direction of `start`; without one, 0."""
    norm = 0.0 if start is None else math.sqrt(inner(start, start))
    if start is None or norm == 0:
        return np.zeros(rows.n_columns), 0.0
    direction = start / norm
    scores = rows.product(direction, threads)
    length = best_length(hulls, y * scores, lam)
    gamma = hulls.spread(length * scores, lam)
    point = measure(hulls, gamma, length * scores, lam)
    scale = 2 * (1 - lam) / max(point.objective, 1e-300)
    return scale * length * direction, -scale * point.kkt()


def _step_length(
    across: float,
    square: float,
    margins: Floats,
    directions: Floats,
    loss: BandLoss,
    costs: Floats,
    threads: int,
) -> float:
    """t near the minimum of P along the step; 0 where P does not fall."""
    at_zero = across + along_line(loss, margins, directions, 0.0, costs, threads)[0]
    if not at_zero < 0:
        return 0.0
    return line_search(at_zero, across, square, margins, directions, loss, costs, threads)


def _normalised(duals: Floats, y: Floats, weights: Floats) -> Floats:
    """gamma from the SVM's duals; a class without any, far from the optimum, is spread evenly."""
    gamma = uniform(y, weights)
    for side in (y > 0, y < 0):
        total = float(duals[side].sum())
        if total > 0:
            gamma[side] = duals[side] / total
    return gamma


def _factorised_step(rows: Rows, curvatures: Floats, gradient: Floats, threads: int) -> Floats | None:
    n = rows.n_columns
    hessian = np.empty((n + 1, n + 1))
    hessian[:n, :n] = rows.gram(curvatures, threads)
    hessian[np.arange(n), np.arange(n)] += 1.0
    hessian[:n, n] = hessian[n, :n] = rows.transposed_product(curvatures, threads)
    hessian[n, n] = curvatures.sum()
    return solve_positive(hessian, -gradient)


def _conjugate_gradients(
    rows: Rows, curvatures: Floats, gradient: Floats, control: Control, threads: int
) -> tuple[Floats, int]:
    diagonal = np.append(1.0 + rows.hessian_diagonal(curvatures, threads), max(curvatures.sum(), 1e-300))
    step, residual = np.zeros_like(gradient), -gradient
    target = CG_ACCURACY * math.sqrt(inner(gradient, gradient))
    scaled = residual / diagonal
    direction, product, used = scaled.copy(), inner(residual, scaled), 0
    while used < MAX_CG_STEPS and product > 0:
        used += 1
        across = curvatures * (rows.product(direction[:-1], threads) + direction[-1])
        image = np.append(direction[:-1] + rows.transposed_product(across, threads), across.sum())
        length = product / inner(direction, image)
        step += length * direction
        residual -= length * image
        if math.sqrt(inner(residual, residual)) <= target or control.out_of_time() == TIME_LIMIT:
            break
        scaled = residual / diagonal
        previous, product = product, inner(residual, scaled)
        direction = scaled + product / previous * direction
    return step, used
