"""Fitting of probabilities to decision values of rows that the machine has not seen.

Sigmoid (two classes, each pair of one-vs-one): maximum likelihood with Platt's smoothed targets,
(N+ + 1)/(N+ + 2) and 1/(N- + 2), by the stable Newton method of Lin, Lin and Weng (2007). Softmax (one score
per class): likewise. N are sums of weights: a row of weight 2 counts as two rows. The formulas themselves are
in model/probability.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Codes, Floats
from odmlib.model.probability import sigmoid
from odmlib.solvers.linalg.line_search import line_search

Evaluation = tuple[float, Floats, Floats]  # value, gradient, Hessian

MAX_STEPS = 100
ENOUGH = 1e-12  # expected decrease of the log-loss, relative, at which Newton's method ends
RIDGE = 1e-10  # relative: keeps the Hessian invertible where scores do not differ


def fit_sigmoid(scores: Floats, positive: NDArray[np.bool_], weights: Floats) -> tuple[float, float]:
    """(slope, offset) of P(positive | score); (0, 0) where no row has any weight."""
    if not weights.any():
        return 0.0, 0.0
    targets = _smoothed(np.column_stack([positive, ~positive]), weights)[:, 0]
    scale = _scale(scores)
    f = scores / scale

    def evaluate(point: Floats) -> Evaluation:
        u = point[0] * f + point[1]
        p = sigmoid(u)
        residuals, curvatures = weights * (p - targets), weights * p * (1 - p)
        value = float(weights @ (np.logaddexp(0, u) - targets * u))
        cross = float(curvatures @ f)
        hessian = np.array([[float(curvatures @ (f * f)), cross], [cross, float(curvatures.sum())]])
        return value, np.array([residuals @ f, residuals.sum()]), hessian

    part = float(weights @ targets)
    start = np.log(part) - np.log(float(weights.sum()) - part)
    slope, offset = _minimise(evaluate, np.array([0.0, start]))
    if slope < 0:  # the machine is worse than chance: its scores say nothing
        slope, offset = 0.0, start
    return float(slope / scale), float(offset)


def fit_softmax(scores: Floats, codes: Codes, weights: Floats) -> tuple[float, Floats]:
    """(slope, offsets) of P(class | one score per class); the offsets sum to 0."""
    k = scores.shape[1]
    if not weights.any():
        return 0.0, np.zeros(k)
    targets = _smoothed(codes[:, None] == np.arange(k), weights)
    scale = _scale(scores)
    f = scores / scale

    def evaluate(point: Floats) -> Evaluation:
        u = point[0] * f + point[1:]
        u -= u.max(axis=1, keepdims=True)
        normaliser = np.log(np.exp(u).sum(axis=1))
        value = float(weights @ (normaliser - (targets * u).sum(axis=1)))
        p = np.exp(u - normaliser[:, None])
        residuals = weights[:, None] * (p - targets)
        weighted = weights[:, None] * p
        means = (p * f).sum(axis=1)
        cross = (weighted * (f - means[:, None])).sum(axis=0)
        hessian = np.empty((k + 1, k + 1))
        hessian[0, 0] = float((weighted * f * f).sum() - weights @ (means * means))
        hessian[0, 1:] = hessian[1:, 0] = cross
        hessian[1:, 1:] = np.diag(weighted.sum(axis=0)) - weighted.T @ p
        hessian[1:, 1:] += weights.sum() / k**2  # all offsets up together change nothing
        gradient = np.concatenate([[float((residuals * f).sum())], residuals.sum(axis=0)])
        return value, gradient, hessian

    frequencies = np.log(weights @ targets)
    start = np.concatenate([[0.0], frequencies - frequencies.mean()])
    solution = _minimise(evaluate, start)
    if solution[0] < 0:
        solution = start
    return float(solution[0] / scale), solution[1:] - solution[1:].mean()


def _smoothed(one_hot: NDArray[np.bool_], weights: Floats) -> Floats:
    """Targets: (N + 1) / (N + 2) for the row's own class, the rest spread over the others."""
    k = one_hot.shape[1]
    own = (weights @ one_hot + 1) / (weights @ one_hot + 2)
    return np.where(one_hot, own, (1 - (one_hot @ own)[:, None]) / max(1, k - 1))


def _minimise(evaluate: Callable[[Floats], Evaluation], point: Floats) -> Floats:
    """Newton's method on a convex function."""
    here = evaluate(point)
    for _ in range(MAX_STEPS):
        moved = _newton_step(evaluate, point, here)
        if moved is None:
            break
        point, here = moved
    return point


def _newton_step(
    evaluate: Callable[[Floats], Evaluation], point: Floats, here: Evaluation
) -> tuple[Floats, Evaluation] | None:
    """The next point; None where there is nothing more to gain."""
    value, gradient, hessian = here
    hessian.flat[:: len(point) + 1] += RIDGE * (1 + hessian.diagonal())
    step = np.linalg.solve(hessian, -gradient)
    slope = float(gradient @ step)
    if -slope <= ENOUGH * (1 + abs(value)):
        return None
    found: dict[float, Evaluation] = {}

    def derivatives(t: float) -> tuple[float, float]:
        found[t] = evaluate(point + t * step)
        return float(found[t][1] @ step), float(step @ found[t][2] @ step)

    t = line_search(slope, derivatives)
    return (point + t * step, found[t]) if t > 0 else None


def _scale(scores: Floats) -> float:
    return float(np.abs(scores).max(initial=0.0)) or 1.0
