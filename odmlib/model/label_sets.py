"""Label sets: the labels that a row may have, made so that the true one is inside as often as asked for.

A label belongs to the set of a row where the row's margin would be at least a threshold t if that were its
class. t is a low quantile of the margins that training rows have under machines which have not seen them
(selection/label_sets.py): of n of them at most floor(a (n + 1)) - 1 are below t, a = 1 - coverage. A model
keeps t for the values of a in LEVELS. docs/label-sets.md says what is guaranteed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.errors import ParameterError
from odmlib.model.schemes import margins_of

# the part of the rows whose label may be missing: fine where coverage is usual, coarse beyond
LEVELS = (*(k / 1000 for k in range(1, 101)), *(k / 100 for k in range(11, 51)))
LOWEST = -sys.float_info.max  # every label belongs to the set
ROUNDING = 1e-9  # 1 - 0.9 is a little less than 0.1


def thresholds(margins: Floats) -> tuple[float, ...]:
    """The threshold for each of LEVELS, from margins of rows under machines that have not seen them."""
    ascending = np.sort(margins)
    places = [int(level * (len(ascending) + 1) + ROUNDING) for level in LEVELS]
    return tuple(float(ascending[place - 1]) if place else LOWEST for place in places)


def threshold_for(known: Sequence[float], coverage: float) -> float:
    """The threshold for a coverage: that of the nearest level which promises no less."""
    if not (isinstance(coverage, int | float) and 0 < coverage < 1):
        raise ParameterError(f"coverage must be above 0 and below 1, found {coverage!r}")
    place = int(np.searchsorted(LEVELS, 1 - coverage + ROUNDING))
    return known[place - 1] if place else LOWEST


def class_margins(scheme: str, scores: Floats, n_classes: int) -> Floats:
    """The margin of every row if it were of each class: (rows x classes)."""
    columns = [
        margins_of(scheme, scores, np.full(len(scores), code, dtype=np.int64), n_classes)
        for code in range(n_classes)
    ]
    return np.stack(columns, axis=1)
