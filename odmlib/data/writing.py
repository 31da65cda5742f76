"""Writing data in LIBSVM format so that reading gives back the very same numbers.

One thing the format cannot say is the number of features: empty columns at the end are lost unless the
reader is told (`read_data(..., features=N)`). Stored zeros are written and dropped at reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.data._writer import format_rows as format_arrays
from odmlib.data.dataset import Dataset
from odmlib.data.files import Target, open_output
from odmlib.errors import ParameterError

BLOCK_VALUES = 1 << 16  # formatted at once: some megabytes of text at most, unless a row is longer


def write_data(target: Target, X: Any, y: Any = None, zero_based: bool = False) -> None:
    """Write rows and labels to a file in LIBSVM format.

    target      a path, "-" for standard output, or an open file
    X           a matrix, dense or sparse, or a Dataset
    y           one number per row; by default every label is 0
    zero_based  number the columns from 0, not from 1

    >>> import io
    >>> file = io.StringIO()
    >>> write_data(file, [[0.5, 0, 2], [0, 0.1, 0]], [1, -1])
    >>> file.getvalue()
    '1 1:0.5 3:2\\n-1 2:0.1\\n'
    """
    dataset = Dataset.from_any(X)
    labels = np.zeros(dataset.n_rows) if y is None else _checked_labels(y, dataset.n_rows)
    with open_output(target) as stream:
        stream.writelines(format_blocks(dataset, labels, zero_based))


def format_blocks(
    dataset: Dataset, labels: Floats, zero_based: bool = False, block_values: int = BLOCK_VALUES
) -> Iterator[bytes]:
    """All rows as text, in pieces of moderate size."""
    first = 0
    while first < dataset.n_rows:
        aim = dataset.indptr[first] + block_values
        last = int(np.searchsorted(dataset.indptr, aim, side="right")) - 1
        # at least one row, however long; not too many, even if they are empty
        last = min(max(last, first + 1), first + block_values, dataset.n_rows)
        yield format_rows(dataset.part(first, last), labels[first:last], zero_based)
        first = last


def format_rows(dataset: Dataset, labels: Floats, zero_based: bool = False) -> bytes:
    """The rows as text; labels are finite."""
    return format_arrays(dataset.indptr, dataset.indices, dataset.values, labels, 0 if zero_based else 1)


def _checked_labels(y: Any, n_rows: int) -> Floats:
    given = np.asarray(y)
    if given.shape != (n_rows,):
        raise ParameterError(f"y must hold one label for each of {n_rows} rows, found shape {given.shape}")
    if given.dtype.kind not in "biufO":
        raise ParameterError(f"y must hold numbers, found {given.dtype}")
    try:
        labels = np.ascontiguousarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ParameterError(f"y must hold numbers: {error}") from None
    if not np.isfinite(labels).all():
        raise ParameterError("y holds NaN or infinity; every label must be finite")
    large = np.abs(labels) >= 2**53
    if any(kept != label for kept, label in zip(labels[large].tolist(), given[large].tolist(), strict=True)):
        raise ParameterError("y holds whole numbers too large to be kept exactly as doubles")
    return labels + 0.0  # -0 becomes 0, as at reading
