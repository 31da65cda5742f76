"""From decision values to probabilities; the numbers are fitted by selection/calibration.py.

Two classes, and each pair of one-vs-one: P(first label | score f) = 1 / (1 + exp(-(slope f + offset))).
Pairs are coupled by the second method of Wu, Lin and Weng (2004). One score per class (one-vs-rest, joint
machines): P(k) ~ exp(slope_k f_k + offset_k).

The most probable label always is the predicted one. Where offsets or coupling say otherwise, the
probabilities are replaced by the nearest ones (in relative entropy) that agree: the predicted label and those
above it share their probability evenly, a hair more for the predicted one.
"""

from __future__ import annotations

import numpy as np

from odmlib._core.arrays import Codes, Floats

HAIR = 2.0**-40  # relative lead of the predicted label over those it shares with
PAIR_FLOOR = 1e-7  # of a pair's probability before coupling, as in LIBSVM
COUPLING_STEPS = 100
COUPLING_ENOUGH = 1e-10
LIBSVM_ENOUGH = 0.005  # where LIBSVM ends: its labels depend on it
COUPLING_VALUES = 1 << 22  # matrix entries held at a time: 32 MB
LARGEST = 1e300  # beyond, sums of exponents would overflow


def class_probabilities(
    scheme: str, scores: Floats, slopes: Floats, offsets: Floats, predicted: Codes | None, n_classes: int
) -> Floats:
    """P(class) for every row of scores (rows x outputs), with the largest at the predicted class.

    `predicted` is None for a model of LIBSVM, which predicts the most probable class where it gives
    probabilities: they stay as they are, from as many steps of coupling as LIBSVM makes.
    """
    if scheme == "binary":
        found = sigmoid_probabilities(scores[:, 0], slopes[0], offsets[0])
    elif scheme == "ovo":
        enough = COUPLING_ENOUGH if predicted is not None else LIBSVM_ENOUGH
        found = couple_pairs(sigmoid(_line(scores, slopes, offsets)), n_classes, enough)
    else:
        found = softmax_probabilities(scores, slopes, offsets)
    return found if predicted is None else agreeing(found, predicted)


def sigmoid_probabilities(scores: Floats, slope: float, offset: float) -> Floats:
    """P(first), P(second) for every score."""
    u = _line(scores, slope, offset)
    return np.column_stack([sigmoid(u), sigmoid(-u)])


def softmax_probabilities(scores: Floats, slopes: Floats | float, offsets: Floats) -> Floats:
    u = _line(scores, slopes, offsets)
    p = np.exp(u - u.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def couple_pairs(pairs: Floats, n_classes: int, enough: float = COUPLING_ENOUGH) -> Floats:
    """Class probabilities from P(i | i or j), columns (0,1), (0,2), ..., (1,2), ... for every row.

    Minimises sum_ij (r_ji p_i - r_ij p_j)^2 over p on the simplex, by Wu, Lin and Weng's iteration.
    """
    step = max(1, COUPLING_VALUES // n_classes**2)
    parts = [_coupled(pairs[begin : begin + step], n_classes, enough) for begin in range(0, len(pairs), step)]
    return np.concatenate(parts) if parts else np.empty((0, n_classes))


def _coupled(pairs: Floats, k: int, enough: float) -> Floats:
    r = np.zeros((len(pairs), k, k))
    first, second = np.triu_indices(k, 1)
    kept = np.clip(pairs, PAIR_FLOOR, 1 - PAIR_FLOOR)
    r[:, first, second], r[:, second, first] = kept, 1 - kept
    matrices = -r.transpose(0, 2, 1) * r
    matrices[:, np.arange(k), np.arange(k)] = np.square(r).sum(axis=1)
    result = np.full((len(pairs), k), 1.0 / k)
    going = np.arange(len(pairs))  # a row ends by itself: the rows beside it do not change its result
    for _ in range(max(COUPLING_STEPS, k)):
        Q, p = matrices[going], result[going]
        Qp = np.einsum("nij,nj->ni", Q, p)
        pQp = np.einsum("ni,ni->n", p, Qp)
        unfinished = np.abs(Qp - pQp[:, None]).max(axis=1) >= enough / k
        if not unfinished.any():
            break
        going, Q, p, Qp, pQp = (part[unfinished] for part in (going, Q, p, Qp, pQp))
        for t in range(k):
            step = (pQp - Qp[:, t]) / Q[:, t, t]
            p[:, t] += step
            pQp = (pQp + step * (step * Q[:, t, t] + 2 * Qp[:, t])) / (1 + step) ** 2
            Qp = (Qp + step[:, None] * Q[:, t]) / (1 + step)[:, None]
            p /= (1 + step)[:, None]
        result[going] = p
    return result


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


def _line(scores: Floats, slopes: Floats | float, offsets: Floats | float) -> Floats:
    with np.errstate(over="ignore"):
        return np.clip(slopes * scores + offsets, -LARGEST, LARGEST)


def sigmoid(u: Floats) -> Floats:
    small = np.exp(-np.abs(u))
    return np.where(u >= 0, 1.0, small) / (1 + small)
