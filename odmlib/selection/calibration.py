"""Probabilities from decision values, fitted on scores of rows that the machine has not seen.

Two classes, and each pair of one-vs-one: P(first label | score f) = 1 / (1 + exp(-(slope f + offset))), fitted
by maximum likelihood with Platt's smoothed targets, (N+ + 1)/(N+ + 2) and 1/(N- + 2), and the stable Newton
method of Lin, Lin and Weng (2007). N are sums of weights: a row of weight 2 counts as two rows. Pairs are
coupled by the second method of Wu, Lin and Weng (2004). One score per class (one-vs-rest, joint machines):
P(k) ~ exp(slope f_k + offset_k), fitted likewise.

The most probable label always is the predicted one. Where offsets or coupling say otherwise, the
probabilities are replaced by the nearest ones (in relative entropy) that agree: the predicted label and those
above it share their probability evenly, a hair more for the predicted one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Evaluation = tuple[float, Floats, Floats]  # value, gradient, Hessian

MAX_STEPS = 100
ENOUGH = 1e-12  # expected decrease of the log-loss, relative, at which Newton's method ends
RIDGE = 1e-10  # relative: keeps the Hessian invertible where scores do not differ
HAIR = 2.0**-40  # relative lead of the predicted label over those it shares with
PAIR_FLOOR = 1e-7  # of a pair's probability before coupling, as in LIBSVM
COUPLING_STEPS = 100
COUPLING_ENOUGH = 1e-10


def fit_sigmoid(scores: Floats, positive: NDArray[np.bool_], weights: Floats) -> tuple[float, float]:
    """(slope, offset) of P(positive | score)."""
    targets = _smoothed(np.column_stack([positive, ~positive]), weights)[:, 0]
    scale = _scale(scores)
    f = scores / scale

    def evaluate(point: Floats) -> Evaluation:
        u = point[0] * f + point[1]
        p = _sigmoid(u)
        residuals, bend = weights * (p - targets), weights * p * (1 - p)
        value = float(weights @ (np.logaddexp(0, u) - targets * u))
        cross = float(bend @ f)
        hessian = np.array([[float(bend @ (f * f)), cross], [cross, float(bend.sum())]])
        return value, np.array([residuals @ f, residuals.sum()]), hessian

    slope, offset = _minimise(evaluate, np.array([0.0, _log_odds(weights @ targets, weights.sum())]))
    if slope < 0:  # the machine is worse than chance: its scores say nothing
        slope, offset = 0.0, _log_odds(weights @ targets, weights.sum())
    return float(slope / scale), float(offset)


def fit_softmax(scores: Floats, codes: Codes, weights: Floats) -> tuple[float, Floats]:
    """(slope, offsets) of P(class | one score per class); the offsets sum to 0."""
    k = scores.shape[1]
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


def sigmoid_probabilities(scores: Floats, slope: float, offset: float) -> Floats:
    """P(first), P(second) for every score."""
    u = slope * scores + offset
    return np.column_stack([_sigmoid(u), _sigmoid(-u)])


def softmax_probabilities(scores: Floats, slope: float, offsets: Floats) -> Floats:
    u = slope * scores + offsets
    p = np.exp(u - u.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def couple_pairs(pairs: Floats, n_classes: int) -> Floats:
    """Class probabilities from P(i | i or j), columns (0,1), (0,2), ..., (1,2), ... for every row.

    Minimises sum_ij (r_ji p_i - r_ij p_j)^2 over p on the simplex, by Wu, Lin and Weng's iteration.
    """
    k = n_classes
    r = np.zeros((len(pairs), k, k))
    first, second = np.triu_indices(k, 1)
    kept = np.clip(pairs, PAIR_FLOOR, 1 - PAIR_FLOOR)
    r[:, first, second], r[:, second, first] = kept, 1 - kept
    Q = -r.transpose(0, 2, 1) * r
    Q[:, np.arange(k), np.arange(k)] = np.square(r).sum(axis=1)
    p = np.full((len(pairs), k), 1.0 / k)
    for _ in range(max(COUPLING_STEPS, k)):
        Qp = np.einsum("nij,nj->ni", Q, p)
        pQp = np.einsum("ni,ni->n", p, Qp)
        if np.abs(Qp - pQp[:, None]).max(initial=0.0) < COUPLING_ENOUGH / k:
            break
        for t in range(k):
            step = (pQp - Qp[:, t]) / Q[:, t, t]
            p[:, t] += step
            pQp = (pQp + step * (step * Q[:, t, t] + 2 * Qp[:, t])) / (1 + step) ** 2
            Qp = (Qp + step[:, None] * Q[:, t]) / (1 + step)[:, None]
            p /= (1 + step)[:, None]
    return p


def agreeing(probabilities: Floats, predicted: Codes) -> Floats:
    """The nearest probabilities whose largest belongs to the predicted class, in every row."""
    result = probabilities.copy()
    rows = np.arange(len(result))
    own = result[rows, predicted]
    others = result.copy()
    others[rows, predicted] = -1.0
    for i in np.flatnonzero(others.max(axis=1, initial=-1.0) >= own):
        order = np.argsort(-others[i], kind="stable")[:-1]  # the other classes, most probable first
        shared, n = own[i], 1
        for j in order:
            if others[i, j] < shared / n:
                break
            shared, n = shared + others[i, j], n + 1
        share = shared / n
        result[i, order[: n - 1]] = share * (1 - HAIR)
        result[i, predicted[i]] = share * (1 + (n - 1) * HAIR)
    return result


def _smoothed(one_hot: NDArray[np.bool_], weights: Floats) -> Floats:
    """Targets: (N + 1) / (N + 2) for the row's own class, the rest spread over the others."""
    k = one_hot.shape[1]
    own = (weights @ one_hot + 1) / (weights @ one_hot + 2)
    return np.where(one_hot, own, (1 - (one_hot @ own)[:, None]) / max(1, k - 1))


def _minimise(evaluate: Callable[[Floats], Evaluation], point: Floats) -> Floats:
    """Newton's method with backtracking on a convex function."""
    value, gradient, hessian = evaluate(point)
    for _ in range(MAX_STEPS):
        hessian.flat[:: len(point) + 1] += RIDGE * (1 + hessian.diagonal())
        step = np.linalg.solve(hessian, -gradient)
        slope = float(gradient @ step)
        if -slope <= ENOUGH * (1 + abs(value)):
            break
        length = 1.0
        while (new := evaluate(point + length * step))[0] > value + 1e-4 * length * slope:
            length /= 2
            if length < 1e-10:
                return point
        point = point + length * step
        value, gradient, hessian = new
    return point


def _sigmoid(u: Floats) -> Floats:
    small = np.exp(-np.abs(u))
    return np.where(u >= 0, 1.0, small) / (1 + small)


def _scale(scores: Floats) -> float:
    return float(np.abs(scores).max(initial=0.0)) or 1.0


def _log_odds(part: float, whole: float) -> float:
    return float(np.log(part) - np.log(whole - part))
