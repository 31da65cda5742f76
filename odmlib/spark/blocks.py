"""Rows on a Spark cluster as blocks in compressed sparse form.

The rows of a partition become one block (a few, where they are very many), which is kept where it was made.
What a block does depends on its arguments only (engine.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Floats, Places
from odmlib.data.dataset import MAX_FEATURES, Dataset, dense_rows, stacked
from odmlib.data.labels import show_labels
from odmlib.data.problem import class_weights
from odmlib.errors import ParameterError
from odmlib.spark.engine import Pairs, first_number
from odmlib.spark.vectors import present, rows_of, usable_rows, widths_of

BLOCK_VALUES = 1 << 24  # stored values of a block, about: 200 MB
MANY_LABELS = 10  # more are not shown
MOST_CLASSES = 100


# ---------------------------------------------------------------------------------------- making blocks


@dataclass(frozen=True)
class RowBlock:
    """Rows as they are kept."""

    number: int
    rows: Dataset
    labels: Floats
    weights: Floats
    held: RowBlock | None = None  # rows to validate with, which are not trained on

    def __reduce__(self) -> tuple:
        about = self.labels, self.weights, self.held
        if self.rows.n_nonzeros == self.rows.n_rows * self.rows.n_features:  # the columns go without saying
            return _dense_block, (self.number, self.rows.dense_view(), *about)
        return RowBlock, (self.number, self.rows, *about)

    def with_rows(self, change: Callable[[Dataset], Dataset]) -> RowBlock:
        """The same with other features, also of the rows to validate with."""
        held = None if self.held is None else self.held.with_rows(change)
        return replace(self, rows=change(self.rows), held=held)

    def take(self, some: Places) -> RowBlock:
        """These rows, without any to validate with."""
        return RowBlock(self.number, self.rows.take(some), self.labels[some], self.weights[some])

    @property
    def summary(self) -> Summary:
        labels, first, places = np.unique(self.labels, return_index=True, return_inverse=True)
        columns = labels, np.bincount(places), np.bincount(places, self.weights)
        seen = zip(
            *(column[np.argsort(first)[: MOST_CLASSES + 1]].tolist() for column in columns), strict=True
        )
        values = self.rows.values
        mean = float(values.mean()) if len(values) else 0.0
        moments = len(values), mean, float(np.square(values - mean).sum())
        counts = self.rows.n_rows, self.rows.n_features
        if self.held is None:
            return Summary(self.number, *counts, moments, tuple(seen))
        of_held = tuple((label, weight) for label, _, weight in self.held.summary.labels)
        return Summary(self.number, *counts, moments, tuple(seen), held=of_held)


def _dense_block(
    number: int, values: Floats, labels: Floats, weights: Floats, held: RowBlock | None
) -> RowBlock:
    return RowBlock(number, dense_rows(values), labels, weights, held)


@dataclass(frozen=True)
class Summary:
    """What the driver learns of a block; `fault`: what is wrong with the rows in its place."""

    number: int
    n_rows: int = 0
    n_features: int = 0
    moments: tuple[int, float, float] = (0, 0.0, 0.0)  # of values: number, mean, squared deviations
    labels: tuple[tuple[float, int, float], ...] = ()  # (label, rows, weight) in order of appearance
    fault: str = ""
    held: tuple[tuple[float, float], ...] = ()  # (label, weight) of the rows to validate with


@dataclass(frozen=True)
class Fault:
    """In the place of a block whose rows cannot be used. An exception in a task would run four times and
    end as a page of Java."""

    number: int
    message: str

    @property
    def summary(self) -> Summary:
        return Summary(self.number, fault=self.message)


Rows = tuple[Dataset, Floats, Floats, NDArray[np.bool_]]  # labels, weights, and which are to validate with


def blocks_of_batches(batches: Iterable[Any], block_values: int = BLOCK_VALUES) -> Pairs:
    """(number, (block, its summary)) of Arrow batches with a vector, a label and a weight in each row,
    and perhaps whether it is to validate with."""
    number = first_number()
    try:
        parts: list[Rows] = []
        n_values = 0
        for batch in batches:
            n_stored = max(1, len(batch.column(0).field("values").flatten()))
            step = max(1, batch.num_rows * block_values // n_stored)
            for first in range(0, batch.num_rows, step):
                width = parts[0][0].n_features if parts else None
                parts.append(_checked_rows(batch.slice(first, step), width))
                n_values += parts[-1][0].n_nonzeros
                if n_values >= block_values:
                    yield _with_summary(_block_of(number, parts))
                    parts, n_values, number = [], 0, number + 1
        if parts:
            yield _with_summary(_block_of(number, parts))
    except ParameterError as error:
        yield _with_summary(Fault(number, str(error)))


def _with_summary(block: RowBlock | Fault) -> tuple[int, tuple[RowBlock | Fault, Summary]]:
    return block.number, (block, block.summary)


def _block_of(number: int, parts: list[Rows]) -> RowBlock:
    rows, labels, weights, held = zip(*parts, strict=True)
    columns = np.concatenate(labels), np.concatenate(weights)
    block = RowBlock(number, stacked(list(rows)), *columns)
    apart = np.concatenate(held)
    if not apart.any():
        return block
    return replace(block.take(np.flatnonzero(~apart)), held=block.take(np.flatnonzero(apart)))


def _checked_rows(batch: Any, width: int | None) -> Rows:
    """`width`: of the rows before these; None: there are none."""
    vectors = batch.column(0)
    labels, weights = (batch.column(k).to_numpy(zero_copy_only=False).astype(float) for k in (1, 2))
    if not present(vectors).all():
        raise ParameterError("a row has no features (null)")
    widths = widths_of(vectors)
    width = int(widths[0]) if width is None else width
    if (widths != width).any():
        other = int(widths[widths != width][0])
        raise ParameterError(f"rows have different numbers of features: {width} and {other}")
    if width > MAX_FEATURES:
        raise ParameterError(f"rows have {width} features; at most {MAX_FEATURES} are possible")
    if not usable_rows(vectors, width).all():
        raise ParameterError("features holds NaN or infinity; every value must be finite")
    _refuse("label", labels[~np.isfinite(labels)], "every row needs a label")
    wrong = weights[~(np.isfinite(weights) & (weights >= 0))]
    _refuse("row weight", wrong, "weights must be finite and at least 0")
    held = np.zeros(len(labels), dtype=bool)
    if batch.num_columns > 3:
        held = batch.column(3).fill_null(False).to_numpy(zero_copy_only=False)
    return rows_of(vectors, width), labels, weights, held


def _refuse(what: str, wrong: Floats, expected: str) -> None:
    if len(wrong):
        shown = "missing or not a number" if math.isnan(wrong[0]) else f"{wrong[0]:g}"
        raise ParameterError(f"a {what} is {shown}; {expected}")


# ---------------------------------------------------------------------------------------- all blocks together


@dataclass(frozen=True)
class Classes:
    """The classes; of two the positive one first."""

    labels: Floats
    weights: tuple[float, ...] = (1.0, 1.0)  # of a class, besides those of its rows

    @property
    def tasks(self) -> int:
        """Machines to train: one, or for more than two classes one for each against the rest."""
        return 1 if len(self.labels) == 2 else len(self.labels)

    def signs(self, block: RowBlock, task: int = 0) -> Floats:
        return np.where(block.labels == self.labels[task], 1.0, -1.0)

    def codes(self, block: RowBlock) -> Places:
        """The place of every row's class among the labels."""
        order = np.argsort(self.labels)
        return order[np.searchsorted(self.labels[order], block.labels)]

    def row_weights(self, block: RowBlock) -> Floats:
        return block.weights * np.array(self.weights)[self.codes(block)]


@dataclass(frozen=True)
class Whole:
    """What is known of all blocks together."""

    n_rows: int
    n_nonzeros: int
    n_features: int
    n_blocks: int
    total_weight: float  # of the rows, without class weights
    classes: Classes
    class_rows: tuple[int, ...]
    class_weights: tuple[float, ...]  # of their rows, with class weights
    variance: float  # of all entries, zeros included
    held_weight: float  # of the rows to validate with
    first_rows: Mapping[int, int] = field(repr=False)  # how many rows stand before a block, by its number

    @property
    def numbers(self) -> list[int]:
        """Of the blocks, ascending."""
        return list(self.first_rows)


def joined(summaries: list[Summary], files: bool, class_weight: Mapping | None = None) -> Whole:
    """ParameterError says why the rows are not a problem of two or more classes.

    A data frame has one width, and of two labels the larger is the positive one; `files` have any widths, and
    of two labels the first one is positive, unless they are -1 and +1.
    """
    summaries = sorted(summaries, key=lambda summary: summary.number)
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
    weighted = tuple(weight * factor for weight, factor in zip(weights, factors, strict=True))
    every = "both classes" if len(labels) == 2 else "every class"
    for label, weight in zip(labels, weighted, strict=True):
        if weight == 0:
            raise ParameterError(f"no weight is left for label {label:g}; rows of {every} must have weight")
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
        _held_weight(summaries, labels),
        {summary.number: start for summary, start in zip(summaries, starts[:-1], strict=True)},
    )


def _labels_of(
    summaries: list[Summary], files: bool
) -> tuple[list[float], tuple[int, ...], tuple[float, ...]]:
    """The labels, of two the positive one first, with the numbers and weights of their rows."""
    found: dict[float, tuple[int, list[float]]] = {}
    for summary in summaries:
        for label, count, weight in summary.labels:
            known, parts = found.get(label, (0, []))
            found[label] = known + count, [*parts, weight]
    labels = list(found)  # in order of appearance
    if len(labels) == 1:
        raise ParameterError(f"all rows have the same label ({labels[0]:g}); at least two classes are needed")
    if len(labels) > MOST_CLASSES:
        shown = show_labels(np.array(sorted(labels)), MANY_LABELS)
        raise ParameterError(f"labels must be of at most {MOST_CLASSES} classes, found {shown}")
    if len(labels) == 2 and (not files or sorted(labels) == [-1, 1]):
        labels.sort(reverse=True)
    elif not files:
        labels.sort()
    rows = tuple(found[label][0] for label in labels)
    return labels, rows, tuple(math.fsum(found[label][1]) for label in labels)


def _held_weight(summaries: list[Summary], labels: list[float]) -> float:
    weights = []
    for summary in summaries:
        for label, weight in summary.held:
            if label not in labels:
                raise ParameterError(
                    f"label {label:g} is only in rows to validate with (validationIndicatorCol)"
                )
            weights.append(weight)
    return math.fsum(weights)


def _variance(moments: list[tuple[int, float, float]], entries: int) -> float:
    """Of all entries, from numbers, means and squared deviations of the stored ones of each block."""
    counts, means, squares = (np.array(column, dtype=np.float64) for column in zip(*moments, strict=True))
    with np.errstate(over="ignore"):  # refused where it matters
        mean = float(counts @ means) / entries
        deviations = float(squares.sum() + counts @ np.square(means - mean))
        return (deviations + (entries - float(counts.sum())) * mean * mean) / entries
