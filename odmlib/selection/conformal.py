"""The distribution of what left-out rows show, as a model keeps it: outputs of novelty detection, residuals.

For exchangeable rows, a new number lies below the k-th smallest of m with the probability k / (m + 1). A
model keeps at most MOST_LEVELS of the numbers, ascending, each with the probability of a new one below it.
"""

from __future__ import annotations

import numpy as np

from odmlib._core.arrays import Floats

MOST_LEVELS = 1000


def levels_of(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Ascending numbers of the rows with weight, and the probability of a new number below each."""
    values, weights = values[weights > 0], weights[weights > 0]
    order = np.argsort(values, kind="stable")
    below = np.cumsum(np.append(0.0, weights[order]))  # ascends, whatever the weights
    return values[order], (1 + below[:-1]) / (1 + below[-1])


def kept_lists(name: str, values: Floats, levels: Floats) -> dict[str, tuple[float, ...]]:
    """The two lists of a model file: LISTS in model/text_writer.py."""
    kept = np.unique(np.linspace(0, len(levels) - 1, min(len(levels), MOST_LEVELS)).astype(np.int64))
    return {f"{name}_scores": tuple(values[kept].tolist()), f"{name}_levels": tuple(levels[kept].tolist())}
