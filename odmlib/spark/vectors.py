"""Columns of features (vectors of pyspark.ml.linalg, arrays of numbers, numbers) as tasks get them in Arrow.

All become the struct that a vector is inside: type (0: sparse), size, indices, values. No vector is made an
object of Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from odmlib.data._border import all_finite
from odmlib.data.dataset import Dataset

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def vector_struct(dataset: DataFrame, name: str) -> Column:
    """The column as (type, size, indices, values); null where it is null."""
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql import functions as F

    # an array that is null in every row makes Spark's way to Arrow six times as slow: empty ones instead
    nothing = F.array().cast("array<int>")
    if isinstance(dataset.schema[name].dataType, VectorUDT):
        inside = F.unwrap_udt(F.col(_quoted(name)))
        parts = {key: inside[key] for key in ("type", "size", "indices", "values")}
        parts["indices"] = F.coalesce(parts["indices"], nothing)
    else:
        values = number_array(dataset, name)
        parts = {"type": F.lit(1).cast("tinyint"), "size": F.lit(None).cast("int")}
        parts |= {"indices": nothing, "values": values}
    whole = F.struct(*(part.alias(key) for key, part in parts.items()))
    return F.when(F.col(_quoted(name)).isNull(), F.lit(None)).otherwise(whole)


def number_array(dataset: DataFrame, name: str) -> Column:
    """The column as an array of numbers, null where it is null; a number is an array of one."""
    from pyspark.ml.functions import vector_to_array
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType

    column, kind = F.col(_quoted(name)), dataset.schema[name].dataType
    if isinstance(kind, VectorUDT):
        return vector_to_array(column)
    return (column if isinstance(kind, ArrayType) else F.array(column)).cast("array<double>")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# ---------------------------------------------------------------------------------------- in the tasks


def present(vectors: Any) -> np.ndarray:
    """Which vectors of an Arrow array are there."""
    return vectors.is_valid().to_numpy(zero_copy_only=False)


def widths_of(vectors: Any) -> np.ndarray:
    counts = numbers(vectors.field("values").value_lengths())
    return np.where(numbers(vectors.field("type")) == 0, numbers(vectors.field("size")), counts)


def usable_rows(vectors: Any, width: int) -> np.ndarray:
    """Which vectors are there, have this width, and hold finite numbers only."""
    right, values = present(vectors) & (widths_of(vectors) == width), _flat(vectors.field("values"))
    if all_finite(values):
        return right
    counts = numbers(vectors.field("values").value_lengths())
    rows = np.repeat(np.arange(len(counts)), counts)
    return right & (np.bincount(rows, ~np.isfinite(values), minlength=len(counts)) == 0)


def rows_of(vectors: Any, width: int) -> Dataset:
    """Vectors of this width as rows; ParameterError where a number is not finite."""
    values, counts = _flat(vectors.field("values")), numbers(vectors.field("values").value_lengths())
    sparse = numbers(vectors.field("type")) == 0
    if not sparse.any():
        return Dataset.from_any(values.reshape(len(counts), width), "features")
    columns = np.empty(len(values), dtype=np.int32)
    stored = np.repeat(sparse, counts)
    columns[stored] = _flat(vectors.field("indices"))
    columns[~stored] = np.tile(np.arange(width, dtype=np.int32), int((~sparse).sum()))
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Dataset(indptr, columns, values, width)


def _flat(lists: Any) -> np.ndarray:
    return lists.flatten().to_numpy(zero_copy_only=False)


def numbers(column: Any) -> np.ndarray:
    """Nulls become 0."""
    return column.fill_null(0).to_numpy(zero_copy_only=False)
