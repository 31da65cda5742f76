"""The margin distribution of rows in many places: exact moments, quantiles from some points per block.

A block of more than `n_points` rows tells its margins by as many of them, each standing for an equal part of
the block's weight: the largest of the part. The weight below a quantile is then wrong by at most
1 / n_points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.model.margins import margin_summary

POINTS = 2000  # of a block


@dataclass(frozen=True)
class MarginPart:
    """What a block tells of its margins."""

    weight: float
    mean: float
    squares: float  # squared deviations from the mean, by weight
    least: float
    points: Floats
    point_weights: Floats
    right: tuple[int, ...]  # rows of each class that are predicted rightly, with weight or without


def margin_part(margins: Floats, weights: Floats, signs: Floats, n_points: int = POINTS) -> MarginPart:
    """`signs` are those of the rows: a decision value of 0 is the negative class."""
    right = int(((signs > 0) & (margins > 0)).sum()), int(((signs < 0) & (margins >= 0)).sum())
    margins, weights = margins[weights > 0], weights[weights > 0]
    if not len(weights):
        nothing = np.empty(0)
        return MarginPart(0.0, 0.0, 0.0, math.inf, nothing, nothing, right)
    mean = float(np.average(margins, weights=weights))
    squares = float(weights @ np.square(margins - mean))
    order = np.argsort(margins, kind="stable")
    points, point_weights = margins[order], weights[order]
    if len(points) > n_points:
        below = np.cumsum(point_weights)
        ends = np.searchsorted(below, below[-1] * np.arange(1, n_points) / n_points)
        ends = np.append(ends, len(points) - 1)
        ends = ends[np.diff(ends, prepend=-1) > 0]  # sorted as they are
        points, point_weights = points[ends], np.diff(below[ends], prepend=0.0)
    return MarginPart(float(weights.sum()), mean, squares, float(margins.min()), points, point_weights, right)


def margins_together(parts: list[MarginPart]) -> dict[str, Any]:
    """As model.margins.margin_summary has it; `parts` in a fixed order."""
    weights = np.array([part.weight for part in parts])
    means = np.array([part.mean for part in parts])
    mean = float(weights @ means / weights.sum())
    squares = math.fsum(part.squares for part in parts)
    points = np.concatenate([part.points for part in parts])
    quantiles = margin_summary(points, np.concatenate([part.point_weights for part in parts]))["quantiles"]
    return {
        "mean": mean,
        "variance": float((squares + weights @ np.square(means - mean)) / weights.sum()),
        "min": min(part.least for part in parts),
        "quantiles": quantiles,
    }
