"""Column numbers fit for the panels of panel.h, whose memory grows with them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odmlib.data.dataset import Dataset

FEW_COLUMNS = 4096  # ODM_DIRECT_COLUMNS of panel.h: up to here a panel has a line for every column


def narrow(data: Dataset) -> tuple[Dataset, NDArray[np.int32] | None]:
    """The data with columns renumbered if there are more columns than stored values.

    Second: the columns kept, or None when the numbers stay as they are.
    """
    if data.n_features <= max(FEW_COLUMNS, data.n_nonzeros):
        return data, None
    columns = data.used_columns()
    return data.on_columns(columns), columns
