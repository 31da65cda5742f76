"""Probabilities from decision values that no row had a part in.

Two classes, and each pair of one-vs-one: P(first label | score f) = 1 / (1 + exp(-(slope f + offset))), fitted
by maximum likelihood with Platt's smoothed targets (N+ + 1)/(N+ + 2) and 1/(N- + 2), where N are sums of
weights: a row of weight 2 counts as two rows (Lin, Lin and Weng 2007 for the Newton method). Pairs are coupled
by the second method of Wu, Lin and Weng (2004). One score per class (one-vs-rest, joint machines):
P(k) ~ exp(slope f_k + offset_k), fitted likewise.

The most probable label always is the predicted one. Where offsets or coupling say otherwise, the
probabilities are replaced by the nearest ones (in relative entropy) that agree: the predicted label and those
above it share their probability evenly, a hair more for the predicted one. Then the evidence is about even.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

MAX_STEPS = 100
MIN_DECREASE = 1e-12  # of the log-likelihood, relative: where Newton's method ends
RIDGE = 1e-10  # relative to the Hessian's diagonal: keeps it invertible where scores do not differ
HAIR = 2.0**-40  # relative lead of the predicted label over labels it shares with
PAIR_FLOOR = 1e-7  # of a pair's probability before coupling, as in LIBSVM
COUPLING_STEPS = 100


def fit_sigmoid(scores: Floats, positive: NDArray[np.bool_], weights: Floats) -> tuple[float, float]:
    """(slope, offset) of P(positive | score); a slope below 0 would contradict the machine and becomes 0."""
    one_hot = np.column_stack([positive, ~positive])
    features = np.stack([scores, np.ones_like(scores)])[:, :, None] * np.array([1.0, 0.0])
    slope, offset = _maximum_likelihood(features, one_hot, weights)
    if slope < 0:
        (offset,) = _maximum_likelihood(features[1:], one_hot, weights)
        slope = 0.0
    return float(slope), float(offset)


def fit_softmax(scores: Floats, codes: Codes, weights: Floats) -> tuple[float, Floats]:
    """(slope, offsets) of P(class | scores), one score per class; offsets sum to 0."""
    k = scores.shape[1]
    one_hot = codes[:, None] == np.arange(k)
    slope, *offsets = _maximum_likelihood(scores[None], one_hot, weights, free_offsets=True)
    if slope < 0:
        slope, offsets = 0.0, np.log(_smoothed_frequencies(one_hot, weights))
    return float(slope), np.asarray(offsets) - np.mean(offsets)
