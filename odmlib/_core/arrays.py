"""Names for the types of arrays, and where rows of CSR arrays stand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Columns = NDArray[np.int32]  # features: columns, counted from 0
Codes = NDArray[np.int64]  # classes, as places in a list of labels
Places = NDArray[np.int64]  # rows, offsets or anything else that is counted from 0
Labels = NDArray[np.int8]  # +1 or -1; 0: open


def gathered(indptr: Places, rows: Places) -> tuple[Places, Places]:
    """Row offsets of the given rows on their own, and the places of their values in the whole."""
    lengths = np.diff(indptr)[rows]
    part = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    # position k of the part comes from its row's start plus its place in the row
    return part, np.arange(part[-1]) + np.repeat(indptr[rows] - part[:-1], lengths)
