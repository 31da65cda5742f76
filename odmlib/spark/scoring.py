"""Decision values of the rows of a DataFrame, as a column.

A narrow linear machine is a sum that Java computes beside the rest of the query: no row goes to Python. All
other machines get the rows in Arrow batches and score a batch at a time in compiled code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F

from odmlib.data.dataset import Dataset
from odmlib.model.functions import Function, LinearFunction
from odmlib.model.model import Model
from odmlib.spark.vectors import number_array, rows_of, usable_rows, vector_struct

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class ScoringTuning:
    # The sum of 20 features took 0.7 to 1.7 times LinearSVC's time, an Arrow batch 8 to 24 times (busy, 1e6
    # rows). Java compiles a method of at most 64 KB, which some 500 terms fill.
    sum_features: int = 200


TUNING = ScoringTuning()


def with_scores(
    dataset: DataFrame, features: str, score: str, model: Model, tuning: ScoringTuning = TUNING
) -> DataFrame:
    """The data with a column of decision values, of arrays of them for more than two classes. A row that
    has none (null, another width, NaN) ends the query in one line of Spark's, USER_RAISED_EXCEPTION."""
    function, width = model.function, model.n_features
    vector, array = F.col(features), f"{score}_array"
    in_java = width * function.n_outputs <= tuning.sum_features
    linear = function if isinstance(function, LinearFunction) and in_java else None
    if linear is None and hasattr(F, "arrow_udf"):  # from pyspark 4.1: dense and sparse vectors as they are
        dataset = dataset.withColumn(array, vector_struct(dataset, features))
        stored = F.size(F.col(array)["values"])
        size = F.when(F.col(array)["type"] == 0, F.col(array)["size"]).otherwise(stored)
        found = batch_scorer(function, width)(F.col(array))
    else:  # the array is a column of its own: Spark would make it once for each of its uses
        present = F.when(vector.isNull(), _refused("a row has no features (null)"))
        dataset = dataset.withColumn(array, present.otherwise(number_array(dataset, features)))
        size = F.size(array)
        found = weighted_sums(array, linear) if linear else dense_scorer(function, width)(F.col(array))
    dataset = dataset.withColumn(score, found)
    told = F.concat(F.lit("a row has "), size.cast("string"), F.lit(f" features, {_trained_with(width)}"))
    one = F.col(score)[0] if function.n_outputs > 1 else F.col(score)
    checked = (
        F.when(vector.isNull(), _refused("a row has no features (null)"))
        .when(size != width, F.raise_error(told))
        .when(F.isnan(one), _refused("a row's features hold NaN or infinity"))
        .otherwise(F.col(score))
    )
    return dataset.withColumn(score, checked).drop(array)


def wrong_width(found: int, expected: int) -> str:
    return f"a row has {found} features, {_trained_with(expected)}"


def _trained_with(width: int) -> str:
    return f"the model was trained with {width}"


def _refused(message: str) -> Column:
    return F.raise_error(F.lit(message))


def weighted_sums(array: str, function: LinearFunction) -> Column:
    sums = [weighted_sum(array, function, output) for output in range(function.n_outputs)]
    return sums[0] if len(sums) == 1 else F.array(*sums)


def weighted_sum(array: str, function: LinearFunction, output: int) -> Column:
    total = F.lit(float(function.bias * function.bias_weights[output]))
    weights = function.weights[:, output].tolist()
    for column, weight in zip(function.columns.tolist(), weights, strict=True):
        total = total + F.get(F.col(array), F.lit(column)) * F.lit(weight)
    return total


def batch_scorer(function: Function, width: int) -> Any:
    """A function of columns of vectors; NaN where there is no decision value."""
    import pyarrow

    n_outputs = function.n_outputs

    def scores(vectors: Any) -> Any:
        found = np.full((len(vectors), n_outputs), np.nan)
        usable = usable_rows(vectors, width)
        if usable.any():
            rows = rows_of(vectors.filter(pyarrow.array(usable)), width)
            found[usable] = function.scores(rows, 1)
        if n_outputs == 1:
            return pyarrow.array(found[:, 0])
        ends = np.arange(0, found.size + 1, n_outputs, dtype=np.int32)
        return pyarrow.ListArray.from_arrays(ends, pyarrow.array(found.reshape(-1)))

    # objects, not names: Spark finds the kind of a function by them
    scores.__annotations__ = {"vectors": pyarrow.Array, "return": pyarrow.Array}
    return F.arrow_udf(scores, _kind_of(n_outputs))  # type: ignore[call-overload]


def dense_scorer(function: Function, width: int) -> Any:
    """The same of columns of arrays, for pyspark before 4.1."""
    from pandas import Series

    n_outputs = function.n_outputs

    def scores(arrays: Any) -> Any:
        found = np.full((len(arrays), n_outputs), np.nan)
        usable = np.array([len(array) == width and np.isfinite(array).all() for array in arrays])
        if usable.any():
            rows = Dataset.from_any(np.stack(list(arrays[usable])), "features")
            found[usable] = function.scores(rows, 1)
        return Series(found[:, 0] if n_outputs == 1 else list(found))

    scores.__annotations__ = {"arrays": Series, "return": Series}
    return F.pandas_udf(scores, _kind_of(n_outputs))  # type: ignore[call-overload]


def _kind_of(n_outputs: int) -> str:
    return "double" if n_outputs == 1 else "array<double>"
