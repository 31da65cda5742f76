"""LIBSVM's file form of precomputed kernels: `label 0:serial 1:K(x,x_1) ... L:K(x,x_L)`.

Serials number the training rows from 1; the kernel value of two rows stands in the column of the
other's serial. Test rows have the same form; their serials mean nothing.
"""

from __future__ import annotations

import numpy as np

from odmlib._core.arrays import Places
from odmlib.data.dataset import Dataset, sound_rows
from odmlib.errors import DataFormatError


def split_serials(rows: Dataset, name: str) -> tuple[Places, Dataset]:
    """(serials, kernel values) of rows that were read with zero-based indices."""
    first = np.minimum(rows.indptr[:-1], max(0, rows.n_nonzeros - 1))
    has_serial = np.diff(rows.indptr) > 0
    if rows.n_nonzeros:
        has_serial &= rows.indices[first] == 0
    if not has_serial.all():
        row = int(np.argmin(has_serial)) + 1
        raise DataFormatError(
            f"row {row}: a precomputed kernel's row must start with 0:serial (serial >= 1)", name
        )
    serials = rows.values[first]
    wrong = (serials != np.floor(serials)) | (serials < 1) | (serials > max(1, rows.n_features - 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataFormatError(
            f"row {row + 1}: expected a serial from 1 to {rows.n_features - 1}, found {serials[row]:g}", name
        )
    kept = np.ones(rows.n_nonzeros, dtype=bool)
    kept[first] = False
    values = sound_rows(
        rows.indptr - np.arange(rows.n_rows + 1),
        rows.indices[kept] - np.int32(1),
        rows.values[kept],
        max(0, rows.n_features - 1),
    )
    return serials.astype(np.int64), values


def training_matrix(rows: Dataset, name: str) -> tuple[Dataset, Places, int]:
    """Kernel values of the rows against each other, their serials, and the number of columns in the file."""
    serials, values = split_serials(rows, name)
    return square_matrix(serials, values, name), serials, values.n_features


def square_matrix(serials: Places, values: Dataset, name: str) -> Dataset:
    """Kernel values of the rows against each other, in file order; other columns are left out."""
    if len(np.unique(serials)) != len(serials):
        order = np.sort(serials)
        twice = order[:-1][np.diff(order) == 0][0]
        raise DataFormatError(f"serial {twice} stands in two rows; serials must differ", name)
    order = np.argsort(serials)
    sorted_columns = values.on_columns((serials[order] - 1).astype(np.int32))
    columns = order[sorted_columns.indices]  # the row that has the column's serial
    places = np.lexsort((columns, sorted_columns.row_of_each()))
    return sound_rows(
        sorted_columns.indptr, columns[places].astype(np.int32), sorted_columns.values[places], len(serials)
    )


def test_values(rows: Dataset, n_features: int, name: str) -> Dataset:
    """Kernel values of test rows against the training rows; a leading 0:serial is dropped."""
    if rows.n_features - 1 > n_features:
        raise DataFormatError(
            f"found {rows.n_features - 1} kernel values in a row, the model was trained with {n_features}",
            name,
        )
    # fewer columns than the model has: the values behind are 0 and were not written
    return rows.kept(rows.indices > 0, n_features, rows.indices - np.int32(1))
