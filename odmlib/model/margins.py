"""The margin distribution: what our machines are about."""

from __future__ import annotations

from typing import Any

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.names import QUANTILES


def margin_summary(margins: Floats, weights: Floats | None = None) -> dict[str, Any]:
    """Mean, variance, minimum and QUANTILES of the margins; rows count by their weights.

    A quantile q is the smallest margin up to which the rows have at least q of the weight.
    """
    weights = np.ones(len(margins)) if weights is None else weights
    margins, weights = margins[weights > 0], weights[weights > 0]
    mean = float(np.average(margins, weights=weights))
    variance = float(np.average(np.square(margins - mean), weights=weights))
    # a hair less, so that a sum which rounds up does not move on to the next row
    parts = np.array(QUANTILES, dtype=float) * (1 - 1e-12)
    if (weights == weights[0]).all():  # no need to sort all of them
        places = np.maximum(np.ceil(parts * len(margins)).astype(np.int64) - 1, 0)
        quantiles = np.partition(margins, places)[places]
    else:
        order = np.argsort(margins, kind="stable")
        below = np.cumsum(weights[order])
        places = np.searchsorted(below, parts * below[-1])
        quantiles = margins[order][np.minimum(places, len(margins) - 1)]
    return {
        "mean": mean,
        "variance": variance,
        "min": float(margins.min()),
        "quantiles": dict(zip(QUANTILES, quantiles.tolist(), strict=True)),
    }


def text_histogram(margins: Floats, bins: int = 16, width: int = 50) -> str:
    """The margins as bars of text, one line per interval; rows left of 0 are predicted wrongly.

    >>> import numpy as np
    >>> print(text_histogram(np.array([-0.5, 0.5, 0.75, 1.0]), bins=3, width=8))
      -0.5 ..      0 |###             1
         0 ..    0.5 |                0
       0.5 ..      1 |########        3
    """
    edges = _edges(float(margins.min()), float(margins.max()), bins)
    counts, _ = np.histogram(margins, edges)
    most = max(1, int(counts.max()))
    lines = []
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        bar = "#" * int(np.ceil(count * width / most)) if count else ""
        lines.append(f"{low:6.4g} .. {high:6.4g} |{bar:<{width}} {count:8d}")
    return "\n".join(lines)


def _edges(low: float, high: float, bins: int) -> Floats:
    """About `bins` intervals of a round width, with an edge at 0 so that no bar mixes right and wrong."""
    span = max(high - low, 1e-9)
    raw = span / bins
    power = 10.0 ** np.floor(np.log10(raw))
    width = power * next(step for step in (1, 2, 2.5, 5, 10) if step * power >= raw * 0.999)
    first, last = int(np.floor(low / width)), int(np.ceil(high / width))
    return np.arange(first, max(last, first + 1) + 1) * width
