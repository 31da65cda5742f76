"""Names for the types of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Columns = NDArray[np.int32]  # features: columns, counted from 0
Codes = NDArray[np.int64]  # classes, as places in a list of labels
Places = NDArray[np.int64]  # rows, offsets or anything else that is counted from 0
Labels = NDArray[np.int8]  # +1 or -1; 0: open
