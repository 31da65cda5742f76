"""Scaling: every feature brought linearly into one interval, as svm-scale does it.

For a feature with values in [min, max] (entries that are not stored count as 0)

    x  ->  lower + (upper - lower) (x - min) / (max - min)

where min and max meet lower and upper exactly, values outside [min, max], which new data may have, go on
along the same line, features with min = max are dropped, and zeros are not stored. Labels (the targets
of a regression) are scaled likewise when asked for.

The range file is svm-scale's; either program reads the other's:

    y                      only where labels are scaled
    <y lower> <y upper>
    <y min> <y max>
    x
    <lower> <upper>
    <index> <min> <max>    one line per feature, ascending, features with min = max left out
    columns                only of tables, which svm-scale does not have: it stops reading here
    "<name>"               one line per column, as JSON

A feature whose image of 0 is not 0 fills every row. Rows are therefore scaled in blocks, and a data set
that would get more than MAX_FILLED such entries is refused. All that is said of the data, ranges included,
comes from ColumnRanges, which are gathered part by part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from odmlib._core.arrays import Columns, Floats, Places
from odmlib.data._scaling import gather_ranges, scale_rows
from odmlib.data.dataset import Dataset, sound_rows
from odmlib.data.files import Source, Target
from odmlib.data.labels import format_label
from odmlib.data.range_file import TargetRange, read_range_file, write_range_file
from odmlib.errors import ParameterError
from odmlib.values import shown_value

MAX_FILLED = 2**31  # absent entries made non-zero: some 40 GB of text, never what was meant
BLOCK_ENTRIES = 2**18  # a few megabytes of text at a time
GATHER_ENTRIES = 2**25  # Ctrl-C is seen between two slices of this size
TABLE_WIDTH = 2**20  # up to this width, or the number of stored values, a table by column costs little
MANY_MORE = 2  # growth of the stored values by this factor is worth a remark


@dataclass(frozen=True)
class ColumnRanges:
    """The columns that hold stored values, how many each, and the range of each; absent entries are zeros."""

    columns: Columns
    counts: Places
    minimum: Floats
    maximum: Floats
    n_rows: int

    @classmethod
    def of(
        cls, dataset: Dataset, table_width: int = TABLE_WIDTH, gather_entries: int = GATHER_ENTRIES
    ) -> ColumnRanges:
        # an index of two thousand million must not cost a table of that length
        rows, columns = dataset.compact(table_width)
        counts = np.zeros(rows.n_features, dtype=np.int64)
        minimum = np.full(rows.n_features, np.inf)
        maximum = np.full(rows.n_features, -np.inf)
        for start in range(0, rows.n_nonzeros, gather_entries):
            part = slice(start, start + gather_entries)
            gather_ranges(rows.indices[part], rows.values[part], counts, minimum, maximum)
        partly_absent = counts < rows.n_rows
        np.minimum(minimum, 0.0, out=minimum, where=partly_absent)
        np.maximum(maximum, 0.0, out=maximum, where=partly_absent)
        if columns is None:
            columns = np.flatnonzero(counts).astype(np.int32)
            return cls(columns, counts[columns], minimum[columns], maximum[columns], rows.n_rows)
        return cls(columns, counts, minimum, maximum, rows.n_rows)

    def joined(self, other: ColumnRanges) -> ColumnRanges:
        """Those of the rows of both."""
        columns = np.union1d(self.columns, other.columns).astype(np.int32)
        counts = np.zeros(len(columns), dtype=np.int64)
        minimum, maximum = np.full(len(columns), np.inf), np.full(len(columns), -np.inf)
        for part in (self, other):
            places = np.searchsorted(columns, part.columns)
            counts[places] += part.counts
            minimum[places] = np.minimum(minimum[places], part.minimum)
            maximum[places] = np.maximum(maximum[places], part.maximum)
        n_rows = self.n_rows + other.n_rows
        absent = counts < n_rows
        np.minimum(minimum, 0.0, out=minimum, where=absent)
        np.maximum(maximum, 0.0, out=maximum, where=absent)
        return ColumnRanges(columns, counts, minimum, maximum, n_rows)

    @property
    def n_values(self) -> int:
        return int(self.counts.sum())


class Scaling:
    """A linear map for each feature; `fit` finds it, `write` and `read` keep it in a file.

    >>> from odmlib.data.dataset import Dataset
    >>> from odmlib.data.scaling import Scaling
    >>> rows = Dataset.from_any([[1.0, 0.0], [3.0, 4.0], [2.0, 1.0]])
    >>> Scaling.fit(rows, lower=0, upper=1).apply(rows).to_dense().tolist()
    [[0.0, 0.0], [1.0, 1.0], [0.5, 0.25]]
    """

    def __init__(
        self,
        columns: Columns,
        minimum: Floats,
        maximum: Floats,
        lower: float = -1.0,
        upper: float = 1.0,
        target: TargetRange | None = None,
        names: tuple[str, ...] | None = None,
    ):
        """`columns` count from 0 and ascend; columns not among them are dropped by `apply`. `names` are those
        of all columns of a table."""
        check_interval(lower, upper, "the interval of the features")
        if target is not None:
            check_interval(target.lower, target.upper, "the interval of the labels")
        self.columns, self.minimum, self.maximum = columns, minimum, maximum
        self.lower, self.upper, self.target = float(lower), float(upper), target
        self.names = names
        with np.errstate(all="ignore"):
            image = _image(np.zeros(len(columns)), minimum, maximum, self.lower, self.upper)
        image[minimum == maximum] = 0.0
        if not np.isfinite(image).all():
            column = columns[np.flatnonzero(~np.isfinite(image))[0]]
            raise ParameterError(f"feature {column + 1} has a range too wide or too far from 0 to be scaled")
        self._filled_columns = columns[image != 0]
        self._filled_values = image[image != 0]

    @classmethod
    def fit(
        cls,
        dataset: Dataset,
        lower: float = -1.0,
        upper: float = 1.0,
        labels: Floats | None = None,
        target: tuple[float, float] | None = None,
    ) -> Scaling:
        """The map of `dataset` to [lower, upper] and, with `target`, of `labels` to that interval."""
        label_range = None
        if target is not None:
            if labels is None or len(labels) == 0:
                raise ParameterError("scaling the labels needs at least one label")
            label_range = float(np.min(labels)), float(np.max(labels))
        return cls.of_ranges(ColumnRanges.of(dataset), lower, upper, label_range, target)

    @classmethod
    def of_ranges(
        cls,
        ranges: ColumnRanges,
        lower: float = -1.0,
        upper: float = 1.0,
        label_range: tuple[float, float] | None = None,
        target: tuple[float, float] | None = None,
        names: tuple[str, ...] | None = None,
    ) -> Scaling:
        """The map of data with these ranges, and of labels with that range to `target`."""
        with np.errstate(over="ignore"):
            too_wide = np.flatnonzero(~np.isfinite(ranges.maximum - ranges.minimum))
        if len(too_wide):
            raise ParameterError(
                f"feature {ranges.columns[too_wide[0]] + 1} has a range too wide to be scaled"
            )
        varying = ranges.minimum < ranges.maximum
        target_range = None
        if target is not None and label_range is not None:
            target_range = TargetRange(float(target[0]), float(target[1]), *label_range)
        # + 0.0: never -0
        minimum, maximum = ranges.minimum[varying] + 0.0, ranges.maximum[varying] + 0.0
        return cls(ranges.columns[varying], minimum, maximum, lower, upper, target_range, names)

    def apply(self, dataset: Dataset) -> Dataset:
        """The scaled rows."""
        self.check_size(ColumnRanges.of(dataset))
        return self._scaled_rows(dataset)

    def blocks(
        self, dataset: Dataset, block_entries: int = BLOCK_ENTRIES, rows_before: int = 0
    ) -> Iterator[Dataset]:
        """The scaled rows, a block at a time: for results that are too large to be held at once.

        Ask `check_size` first. `rows_before` is for messages.
        """
        # after row i at most ends[i] entries have been written
        ends = dataset.indptr + len(self._filled_columns) * np.arange(dataset.n_rows + 1)
        first = 0
        while first < dataset.n_rows:
            last = int(np.searchsorted(ends, ends[first] + block_entries, side="right")) - 1
            last = max(last, first + 1)
            yield self._scaled_rows(dataset.part(first, last), rows_before + first)
            first = last

    def apply_labels(self, labels: Floats) -> Floats:
        """The scaled labels; the labels as they are where the map has no part for them."""
        if self.target is None:
            return labels
        target = self.target
        with np.errstate(all="ignore"):
            scaled = _image(labels, target.minimum, target.maximum, target.lower, target.upper)
        if not np.isfinite(scaled).all():
            label = format_label(labels[np.flatnonzero(~np.isfinite(scaled))[0]])
            span = f"[{format_label(target.minimum)}, {format_label(target.maximum)}]"
            raise ParameterError(f"label {label} cannot be scaled by the range {span}")
        return scaled

    def check_size(self, ranges: ColumnRanges) -> None:
        """Refuse a result that would be absurdly larger than the data."""
        if (filled := self._n_filled(ranges)) > MAX_FILLED:
            raise ParameterError(f"scaling would turn {self._growth(filled, ranges)}")

    def remark_unknown(self, ranges: ColumnRanges, zero_based: bool = False) -> list[str]:
        """A sentence about features that `apply` leaves out because the map does not know them, if any.

        A feature that is constant here was most likely constant there too, and says nothing: no word
        about it, unless there is but one row, which cannot tell.
        """
        telling = ranges.minimum < ranges.maximum
        if ranges.n_rows == 1:
            telling |= ranges.minimum != 0
        unknown = np.setdiff1d(ranges.columns[telling], self.columns, assume_unique=True)
        if len(unknown) == 0:
            return []
        first = int(unknown[0]) + (not zero_based)
        which = f"feature {first}" if len(unknown) == 1 else f"{len(unknown)} features, the first is {first}"
        reason = "not in the range file (absent or constant in the data it was made from)"
        return [f"left out what is {reason}: {which}"]

    def remark_growth(self, ranges: ColumnRanges) -> list[str]:
        """A sentence about zeros that stop being zeros, if they are many."""
        filled = self._n_filled(ranges)
        many = filled > (MANY_MORE - 1) * ranges.n_values
        return [f"scaling turns {self._growth(filled, ranges)}"] if many else []

    @classmethod
    def read(cls, source: Source, zero_based: bool = False) -> Scaling:
        """Read a range file of odm-scale or svm-scale; a fault raises RangeFormatError with its place."""
        return cls(*read_range_file(source, zero_based))

    def write(self, target: Target, zero_based: bool = False) -> None:
        """Write the range file; its numbers read back exactly."""
        write_range_file(target, self, zero_based)

    def _scaled_rows(self, dataset: Dataset, rows_before: int = 0) -> Dataset:
        capacity = dataset.n_nonzeros + dataset.n_rows * len(self._filled_columns)
        indptr = np.empty(dataset.n_rows + 1, dtype=np.int64)
        indices = np.empty(capacity, dtype=np.int32)
        values = np.empty(capacity)
        known = self.columns, self.minimum, self.maximum, self.lower, self.upper
        filled = self._filled_columns, self._filled_values
        source = dataset.indptr, dataset.indices, dataset.values
        written = scale_rows(*source, *known, *filled, indptr, indices, values)
        if written < 0:
            k = -1 - written
            row = rows_before + int(np.searchsorted(dataset.indptr, k, side="right"))
            where, value = f"row {row}, feature {dataset.indices[k] + 1}", format_label(dataset.values[k])
            raise ParameterError(f"{where}: the value {value} is too far outside the known range")
        width = max(dataset.n_features, int(self.columns[-1]) + 1 if len(self.columns) else 0)
        return sound_rows(indptr, indices[:written], values[:written], width)

    def _n_filled(self, ranges: ColumnRanges) -> int:
        """Absent entries that become something other than 0."""
        stored = ranges.counts[np.isin(ranges.columns, self._filled_columns, assume_unique=True)].sum()
        return ranges.n_rows * len(self._filled_columns) - int(stored)

    def _growth(self, filled: int, ranges: ColumnRanges) -> str:
        advice = "features without zero at the end of their range have no zeros to keep"
        if self.lower != 0 and self.upper != 0:
            advice = "if most features are 0 or above, ranges made with -l 0 keep zeros"
        stored = f"(the data hold {ranges.n_values:,} values)"
        return f"{filled:,} zeros into other numbers {stored}; {advice}"


def check_interval(lower: float, upper: float, name: str) -> None:
    """Raise ParameterError unless lower < upper, both finite and not absurdly far apart."""
    if not (math.isfinite(lower) and math.isfinite(upper) and math.isfinite(upper - lower)):
        raise ParameterError(f"{name} must have finite ends, found {lower!r} and {upper!r}")
    if not lower < upper:
        shown = f"{format_label(lower)} and {format_label(upper)}"
        raise ParameterError(f"{name} must have its lower end below its upper end, found {shown}")


def _image(values: Floats, minimum: Any, maximum: Any, lower: float, upper: float) -> Floats:
    """The map at the head of this file, in the same order of operations as the compiled one."""
    line = lower + (upper - lower) * (values - minimum) / (maximum - minimum)
    return np.where(values == minimum, lower, np.where(values == maximum, upper, line))


NORMS = ("l1", "l2", "max")


def unit_rows(rows: Dataset, norm: str) -> Dataset:
    """Every row divided by its length: the sum of sizes (l1), Euclid's (l2), or the largest size (max).

    Rows of zeros stay as they are.
    """
    if norm not in NORMS:
        raise ParameterError(f"norm must be one of {', '.join(NORMS)}, found {shown_value(norm)}")
    of_each, sizes = rows.row_of_each(), np.abs(rows.values)
    largest = np.zeros(rows.n_rows)
    np.maximum.at(largest, of_each, sizes)
    largest[largest == 0] = 1.0
    relative = sizes / largest[of_each]  # sums of these cannot overflow
    values = np.sign(rows.values) * relative
    if norm != "max":
        sums = np.bincount(of_each, relative if norm == "l1" else np.square(relative), minlength=rows.n_rows)
        values /= (sums if norm == "l1" else np.sqrt(sums))[of_each] + (sums == 0)[of_each]
    return sound_rows(rows.indptr, rows.indices, values, rows.n_features)
