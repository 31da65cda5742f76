"""KM-OMD with a linear kernel, without kernel values: Newton's method on the L2-loss SVM with a free bias.

    min over u, b  P = 1/2 |u|^2 + C/2 sum_i w_i max(0, 1 - z_i)^2,    z_i = y_i (<u, x_i> + b)

has, for C = (1-lambda) / lambda, the same solution as KM-OMD (docs/internals/mathematics.md): gamma_i is
a_i = C w_i max(0, 1 - z_i) divided by the sum of a over its class. With c_i = C w_i where z_i < 1, else 0, a
step solves

    [ I + X'cX   X'c ] [ du ]
    [ c'X        1'c ] [ db ]  =  -gradient

(formed and factorised where that is cheap, else by conjugate gradients) and goes along it to the minimum.
The certificate is KM-OMD's own, computed anew: gamma, v = X'(y gamma), s = X v and its bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Floats, Places
from odmlib._core.rows import Rows
from odmlib._core.vectors import inner
from odmlib.losses.loss import BandLoss
from odmlib.solvers.control import STALLED, Control, Resources, StallDetector, WarmStart
from odmlib.solvers.kmomd.geometry import UNIT64, KmomdPoint, KmomdProblem, best_length
from odmlib.solvers.linalg.conjugate_gradients import conjugate_gradients
from odmlib.solvers.linalg.dense import solve_positive
from odmlib.solvers.linear.newton import TUNING as NEWTON
from odmlib.solvers.linear.newton import NewtonTuning, newton_length, prefers_explicit_hessian
from odmlib.solvers.problem import LinearProblem


@dataclass(frozen=True)
class KmomdNewtonTuning:
    newton: NewtonTuning = NEWTON  # the form of the Hessian, and the limits of steps
    cg_accuracy: float = 1e-2  # residual of a Newton step relative to the gradient
    stall_steps: int = 5  # without progress


TUNING = KmomdNewtonTuning()


def solve_kmomd_newton(
    problem: KmomdProblem[Rows],
    control: Control,
    resources: Resources,
    start: WarmStart | None = None,
    tuning: KmomdNewtonTuning = TUNING,
) -> KmomdPoint:
    """The point for 0 < lambda <= 1 and its v; the start's weights are a v. The rows have no bias column."""
    rows, y, lam, threads = problem.data, problem.y, problem.lam, resources.threads
    if lam == 1:
        return linear_point(problem, problem.uniform(), threads).known({})
    svm = LinearProblem(rows, y, 0.5 * (1 - lam) / lam * problem.weights, BandLoss(0.0, 0.0))
    explicit = prefers_explicit_hessian(rows, tuning.newton)
    u, b = _first_weights(problem, None if start is None else start.weights, threads)
    margins = y * (rows.product(u, threads) + b)
    norms, lengths = np.sqrt(rows.squared_norms()), rows.row_lengths()
    best: KmomdPoint | None = None
    stall = StallDetector(tuning.stall_steps)
    iteration, cg_steps, bound = 0, 0, -math.inf
    while True:
        _, slopes, curvatures = svm.slopes_and_curvatures(margins, threads)
        point = linear_point(problem, _normalised(problem, -slopes), threads)
        point = point.widened(_score_errors(point, norms, lengths))
        point.bound = max(point.bound, bound)
        if best is None or point.objective < best.objective:
            best = point
        best.bound = bound = point.bound
        status = best.step(control, iteration, tuning.newton.max_steps)
        # a lower objective is progress as a larger bound is
        if status is None and stall.stalled(iteration, -best.objective, best.gap):
            status = STALLED
        if status is not None:
            break
        gradient = np.append(u + rows.transposed_product(y * slopes, threads), inner(y, slopes))
        step = _factorised_step(rows, curvatures, gradient, threads) if explicit else None
        if step is None:
            step, used = _cg_step(rows, curvatures, gradient, control, threads, tuning)
            cg_steps += used
        iteration += 1
        slope = inner(gradient, step)
        if not slope < 0:
            status = control.out_of_time() or STALLED
            break
        directions = y * (rows.product(step[:-1], threads) + step[-1])
        length = newton_length(svm, slope, u, step[:-1], margins, directions, threads)
        if length == 0:
            status = control.out_of_time() or STALLED
            break
        u += length * step[:-1]
        b += length * step[-1]
        margins = y * (rows.product(u, threads) + b)
    details = {"hessian": "explicit" if explicit else "conjugate gradients", "cg_steps": cg_steps}
    return best.ended(status, iteration, "newton", details)


def linear_point(problem: KmomdProblem[Rows], gamma: Floats, threads: int) -> KmomdPoint:
    """Where a gamma stands, with its v."""
    v = problem.data.transposed_product(problem.y * gamma, threads)
    point = problem.point(gamma, problem.data.product(v, threads))
    point.v = v
    return point


def _score_errors(point: KmomdPoint, norms: Floats, lengths: Places) -> Floats:
    """How far rounding may move each score: v is a sum over the rows, a score one over the row's values."""
    terms = np.count_nonzero(point.gamma) + 20  # the sums of at most 16 chunks are added
    image = terms * inner(point.gamma, norms)
    across = (lengths + 3) * math.sqrt(inner(point.v, point.v))
    return 1.01 * UNIT64 * norms * (image + across)


def _first_weights(problem: KmomdProblem[Rows], start: Floats | None, threads: int) -> tuple[Floats, float]:
    """The SVM's weights that belong to v in the direction of `start`; without one, 0."""
    norm = 0.0 if start is None else math.sqrt(inner(start, start))
    if start is None or norm == 0:
        return np.zeros(problem.data.n_columns), 0.0
    direction = start / norm
    scores = problem.data.product(direction, threads)
    length = best_length(problem.classes, problem.y * scores, problem.lam)
    gamma = problem.classes.spread(length * scores, problem.lam)
    point = problem.point(gamma, length * scores)
    scale = 2 * (1 - problem.lam) / max(point.objective, 1e-300)
    return scale * length * direction, -scale * point.kkt()


def _normalised(problem: KmomdProblem[Rows], duals: Floats) -> Floats:
    """gamma from the SVM's duals; a class without any, far from the optimum, is spread evenly."""
    gamma = problem.uniform()
    for side in (problem.y > 0, problem.y < 0):
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


def _cg_step(
    rows: Rows,
    curvatures: Floats,
    gradient: Floats,
    control: Control,
    threads: int,
    tuning: KmomdNewtonTuning,
) -> tuple[Floats, int]:
    diagonal = np.append(1.0 + rows.hessian_diagonal(curvatures, threads), max(curvatures.sum(), 1e-300))

    def product(direction: Floats) -> Floats:
        across = curvatures * (rows.product(direction[:-1], threads) + direction[-1])
        return np.append(direction[:-1] + rows.transposed_product(across, threads), across.sum())

    return conjugate_gradients(
        product,
        -gradient,
        lambda residual: residual / diagonal,
        tuning.cg_accuracy * math.sqrt(inner(gradient, gradient)),
        tuning.newton.max_cg_steps,
        control.out_of_time,
    )
