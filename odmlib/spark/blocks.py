"""Rows on a Spark cluster as blocks in compressed sparse form, and sums over blocks.

The rows of a partition become one block (a few, where they are very many), which is cached where it was made.
What a block does depends on its arguments only, and parts are added in the order of their blocks' numbers,
whatever order tasks end in: a task that fails and runs again changes not a bit of the model, and nor does
another run on the same partitions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.data.dataset import MAX_FEATURES, Dataset
from odmlib.data.labels import show_labels
from odmlib.data.problem import class_weights
from odmlib.errors import ParameterError

if TYPE_CHECKING:
    from pyspark import RDD


BLOCK_VALUES = 1 << 24  # stored values of a block, about: 200 MB
MANY_LABELS = 10  # more are not counted


# ---------------------------------------------------------------------------------------- making blocks


@dataclass(frozen=True)
class RowBlock:
    """Rows as they are cached. Block k of partition p of P has the number p + k P."""

    number: int
    rows: Dataset
    labels: Floats
    weights: Floats

    @property
    def summary(self) -> Summary:
        labels, first, places = np.unique(self.labels, return_index=True, return_inverse=True)
        columns = labels, np.bincount(places), np.bincount(places, self.weights)
        seen = zip(*(column[np.argsort(first)[:MANY_LABELS]].tolist() for column in columns), strict=True)
        values = self.rows.values
        mean = float(values.mean()) if len(values) else 0.0
        moments = len(values), mean, float(np.square(values - mean).sum())
        return Summary(self.number, self.rows.n_rows, self.rows.n_features, moments, tuple(seen))


@dataclass(frozen=True)
class Summary:
    """What the driver learns of a block; `fault`: what is wrong with the rows in its place."""

    number: int
    n_rows: int = 0
    n_features: int = 0
    moments: tuple[int, float, float] = (0, 0.0, 0.0)  # of values: number, mean, squared deviations
    labels: tuple[tuple[float, int, float], ...] = ()  # (label, rows, weight) in order of appearance
    fault: str = ""


@dataclass(frozen=True)
class Fault:
    """In the place of a block whose rows cannot be used. An exception in a task would run four times and
    end as a page of Java."""

    number: int
    message: str

    @property
    def summary(self) -> Summary:
        return Summary(self.number, fault=self.message)


def blocks_of_rows(
    partition: int, n_partitions: int, records: Iterable[Any], block_values: int = BLOCK_VALUES
) -> Iterator[RowBlock | Fault]:
    """Blocks of (vector, label, weight) records; vectors are those of pyspark.ml.linalg."""
    vectors: list[Any] = []
    numbers: list[tuple[float, float]] = []
    n_values, number = 0, partition

    def refuse(what: str, wrong: Floats, expected: str) -> None:
        if len(wrong):
            shown = "missing or not a number" if math.isnan(wrong[0]) else f"{wrong[0]:g}"
            raise ParameterError(f"a {what} is {shown}; {expected}")

    def block() -> RowBlock:
        rows = dataset_of(vectors)
        labels, weights = np.array(numbers, dtype=np.float64).T.copy()
        refuse("label", labels[~np.isfinite(labels)], "every label must be 0 or 1, or -1 or +1")
        wrong = weights[~(np.isfinite(weights) & (weights >= 0))]
        refuse("row weight", wrong, "weights must be finite and at least 0")
        return RowBlock(number, rows, labels, weights)

    try:
        for vector, label, weight in records:
            if vector is None:
                raise ParameterError("a row has no features (null)")
            vectors.append(vector)
            numbers.append((math.nan if label is None else label, math.nan if weight is None else weight))
            n_values += len(vector.values)
            if n_values >= block_values:
                yield block()
                vectors, numbers, n_values, number = [], [], 0, number + n_partitions
        if vectors:
            yield block()
    except ParameterError as error:
        yield Fault(number, str(error))


def dataset_of(vectors: list[Any]) -> Dataset:
    """Dense and sparse vectors of pyspark.ml.linalg, at least one, as rows."""
    width = len(vectors[0])
    for vector in vectors:
        if len(vector) != width:
            raise ParameterError(f"rows have different numbers of features: {width} and {len(vector)}")
    if width > MAX_FEATURES:
        raise ParameterError(f"rows have {width} features; at most {MAX_FEATURES} are possible")
    if not any(hasattr(vector, "indices") for vector in vectors):
        return Dataset.from_any(np.array([vector.array for vector in vectors]), "features")
    every = np.arange(width, dtype=np.int32)
    columns = [getattr(vector, "indices", every) for vector in vectors]
    values = [vector.values for vector in vectors]
    indptr = np.zeros(len(vectors) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in values], out=indptr[1:])
    stored = np.concatenate(values)
    if not np.isfinite(stored).all():
        raise ParameterError("features holds NaN or infinity; every value must be finite")
    return Dataset(indptr, np.concatenate(columns).astype(np.int32), stored, width)


# ---------------------------------------------------------------------------------------- sums over blocks


def tree_sum(parts: RDD, depth: int) -> Floats:
    """The sum of (number, vector) records, always in the same order: a tree of `depth` levels in which every
    node adds its parts by ascending number. Spark's treeAggregate adds them as they arrive."""
    n_partitions = parts.getNumPartitions()
    fan_in = max(2, math.ceil(n_partitions ** (1 / depth)))
    parts = parts.mapPartitionsWithIndex(lambda index, some: [(index, added(some))])
    while n_partitions > fan_in + math.ceil(n_partitions / fan_in):
        n_partitions = math.ceil(n_partitions / fan_in)
        parts = (
            parts.map(lambda part: (part[0] // fan_in, part)).groupByKey(n_partitions, int).mapValues(added)
        )
    total = added(parts.collect())
    assert total is not None
    return total


def added(parts: Iterable[tuple[int, Floats | None]]) -> Floats | None:
    """None: no parts."""
    total = None
    for _, part in sorted(parts, key=lambda part: part[0]):
        if part is not None:
            total = part if total is None else total + part
    return total


def storage_level() -> Any:
    """Of what is used more than once."""
    from pyspark import StorageLevel

    return StorageLevel.MEMORY_AND_DISK


def task_threads() -> int:
    """The cores of a task; sums do not depend on their number."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 1 if context is None else max(1, int(context.cpus()))


# ---------------------------------------------------------------------------------------- all blocks together


@dataclass(frozen=True)
class Classes:
    """The two classes: the positive one first."""

    labels: Floats
    weights: tuple[float, float] = (1.0, 1.0)  # of a class, besides those of its rows

    def signs(self, block: RowBlock) -> Floats:
        return np.where(block.labels == self.labels[0], 1.0, -1.0)

    def row_weights(self, block: RowBlock) -> Floats:
        return block.weights * np.where(block.labels == self.labels[0], *self.weights)


@dataclass(frozen=True)
class Whole:
    """What is known of all blocks together."""

    n_rows: int
    n_nonzeros: int
    n_features: int
    n_blocks: int
    total_weight: float  # of the rows, without class weights
    classes: Classes
    class_rows: tuple[int, int]
    class_weights: tuple[float, float]  # of their rows, with class weights
    variance: float  # of all entries, zeros included
    first_rows: Mapping[int, int] = field(repr=False)  # how many rows stand before a block, by its number


def joined(
    summaries: list[Summary], n_partitions: int, files: bool, class_weight: Mapping | None = None
) -> Whole:
    """ParameterError says why the rows are not a problem of two classes.

    A data frame has labels 0 and 1 or -1 and +1, and one width; `files` any two labels and any widths.
    """
    summaries = sorted(
        summaries, key=lambda summary: (summary.number % n_partitions, summary.number // n_partitions)
    )
    for summary in summaries:
        if summary.fault:
            raise ParameterError(summary.fault)
    n_rows = sum(summary.n_rows for summary in summaries)
    if n_rows == 0:
        raise ParameterError("the data have no rows; at least two, of different classes, are needed")
    widths = sorted({summary.n_features for summary in summaries})
    if len(widths) > 1 and not files:
        raise ParameterError(f"rows have different numbers of features: {widths[0]} and {widths[-1]}")
    if widths[-1] == 0:
        raise ParameterError("rows have no features")
    labels, rows, weights = _labels_of(summaries, files)
    nobody = np.empty(0, dtype=np.int64)  # weights by counts are not asked for here
    factors = tuple(class_weights(class_weight, np.array(labels), nobody).tolist())
    weighted = weights[0] * factors[0], weights[1] * factors[1]
    for label, weight in zip(labels, weighted, strict=True):
        if weight == 0:
            raise ParameterError(
                f"no weight is left for label {label:g}; rows of both classes must have weight"
            )
    starts = np.cumsum([0] + [summary.n_rows for summary in summaries]).tolist()
    return Whole(
        n_rows,
        sum(summary.moments[0] for summary in summaries),
        widths[-1],
        len(summaries),
        math.fsum(weights),
        Classes(np.array(labels), factors),
        rows,
        weighted,
        _variance([summary.moments for summary in summaries], n_rows * widths[-1]),
        {summary.number: start for summary, start in zip(summaries, starts[:-1], strict=True)},
    )


def _labels_of(
    summaries: list[Summary], files: bool
) -> tuple[list[float], tuple[int, int], tuple[float, float]]:
    """The labels, the positive one first, with the numbers and weights of their rows."""
    found: dict[float, tuple[int, list[float]]] = {}
    for summary in summaries:
        for label, count, weight in summary.labels:
            known, parts = found.get(label, (0, []))
            found[label] = known + count, [*parts, weight]
    labels = list(found)  # in order of appearance
    if len(labels) == 1 and (files or labels[0] in (-1, 0, 1)):
        expected = "" if files else ", 0 and 1 or -1 and +1"
        raise ParameterError(
            f"all rows have the same label ({labels[0]:g}); two classes are needed{expected}"
        )
    usual = sorted(labels) in ([0, 1], [-1, 1])
    if not (usual or (files and len(labels) == 2)):
        shown = show_labels(np.array(sorted(labels)), MANY_LABELS)
        expected = "there must be two" if files else "must be 0 and 1, or -1 and +1"
        more = "machines of more classes are trained without --spark"
        if not files:
            more = "more classes: pyspark.ml.classification.OneVsRest"
        raise ParameterError(f"labels {expected}, found {shown}; {more}")
    if not files or sorted(labels) == [-1, 1]:
        labels.sort(reverse=True)
    (n, weights), (n_other, weights_other) = (found[label] for label in labels)
    return labels, (n, n_other), (math.fsum(weights), math.fsum(weights_other))


def _variance(moments: list[tuple[int, float, float]], entries: int) -> float:
    """Of all entries, from numbers, means and squared deviations of the stored ones of each block."""
    counts, means, squares = (np.array(column, dtype=np.float64) for column in zip(*moments, strict=True))
    with np.errstate(over="ignore"):  # refused where it matters
        mean = float(counts @ means) / entries
        deviations = float(squares.sum() + counts @ np.square(means - mean))
        return (deviations + (entries - float(counts.sum())) * mean * mean) / entries
