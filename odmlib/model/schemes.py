"""How outputs of a decision function make a label, for any number k of classes.

    binary  one output, positive for the first of two labels
    ovo     one-vs-one: an output per pair of classes, in LIBSVM's order (1,2) (1,3) ... (2,3) ...; positive
            is a vote for the earlier label; most votes win, the earlier label where they are equal
    ovr     one-vs-rest: an output per class, the largest wins, the earlier label where they are equal
    joint   as ovr, but trained as one machine
    regression  an output per target, which is what is predicted

The margin of a row says by how much its own class wins: binary y f; ovr and joint the output of its class
less the largest other one; ovo the smallest of its class's outputs against each other class, so that a
positive margin means that the class won all its duels (a row with a negative one can still win by votes).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from odmlib._core.arrays import Codes, Columns, Floats


def n_outputs(scheme: str, n_classes: int) -> int:
    match scheme:
        case "binary":
            return 1
        case "ovo":
            return n_classes * (n_classes - 1) // 2
        case _:
            return n_classes


def class_pairs(n_classes: int) -> tuple[Codes, Codes]:
    """First and second class of every pair, in the order of the outputs."""
    first, second = np.triu_indices(n_classes, 1)
    return first.astype(np.int64), second.astype(np.int64)


def pair_output(first: Any, second: Any, n_classes: int) -> Any:
    """The output of the pair first < second: whole numbers, or arrays of them.

    >>> [pair_output(i, j, 4) for i in range(4) for j in range(i + 1, 4)]
    [0, 1, 2, 3, 4, 5]
    """
    return first * (2 * n_classes - first - 1) // 2 + second - first - 1


def winners(scheme: str, scores: Floats, n_classes: int) -> Codes:
    """The position of the winning label for every row of scores (rows x outputs)."""
    match scheme:
        case "binary":
            return np.where(scores[:, 0] > 0, 0, 1).astype(np.int64)
        case "ovo":
            return votes(scores, n_classes).argmax(axis=1)
        case _:
            return scores.argmax(axis=1)


def votes(scores: Floats, n_classes: int) -> Columns:
    """Duels won by every class, for every row."""
    counts = np.zeros((len(scores), n_classes), dtype=np.int32)
    begin = 0
    for first in range(n_classes - 1):
        won = scores[:, begin : begin + n_classes - first - 1] > 0
        counts[:, first] += won.sum(axis=1, dtype=np.int32)
        counts[:, first + 1 :] += ~won
        begin += n_classes - first - 1
    return counts


def margins_of(scheme: str, scores: Floats, codes: Codes, n_classes: int) -> Floats:
    """The margin of every row, whose own class is the one at position `codes[i]` of the labels."""
    if scheme == "binary":
        return np.where(codes == 0, scores[:, 0], -scores[:, 0])
    rows = np.arange(len(scores))
    if scheme != "ovo":
        own = scores[rows, codes]
        others = scores.copy()
        others[rows, codes] = -np.inf
        return own - others.max(axis=1)
    margins = np.full(len(scores), np.inf)
    for other in range(n_classes):
        low, high = np.minimum(codes, other), np.maximum(codes, other)
        output = pair_output(low, high, n_classes)
        differs = codes != other
        duel = scores[rows[differs], output[differs]]
        margins[differs] = np.minimum(margins[differs], np.where(codes[differs] < other, duel, -duel))
    return margins


def class_scores(scheme: str, scores: Floats, n_classes: int) -> Floats:
    """A score of every row for each class (rows x classes), by which rows can be ranked.

    One-vs-one: the votes of the class; where they are equal, the sum of its outputs decides, made smaller
    than half a vote. scikit-learn ranks in the same way.
    """
    if scheme == "binary":
        return np.stack([scores[:, 0], -scores[:, 0]], axis=1)
    if scheme != "ovo":
        return scores
    sums = np.zeros((n_classes, len(scores)))
    for output, (first, second) in enumerate(zip(*class_pairs(n_classes), strict=True)):
        sums[first] += scores[:, output]
        sums[second] -= scores[:, output]
    return votes(scores, n_classes) + (sums / (3 * (np.abs(sums) + 1))).T
