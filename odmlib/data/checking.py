"""Checking a data file: every fault with its place, what the good rows hold, and what to do about it.

The reader stops at the first fault; here the line with the fault is set aside, mended piece by piece to find
its other faults at their true columns, and reading goes on behind it. The grammar, and the words for what
breaks it, are the reader's own.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Floats
from odmlib.data._reader import PADDING, Fault, RowParser
from odmlib.data.advice import TOO_MANY_LABELS, advice
from odmlib.data.dataset import Dataset, sound_rows
from odmlib.data.faults import describe, token_at
from odmlib.data.files import Source, open_input
from odmlib.data.labels import python_label
from odmlib.data.reading import BLOCK_BYTES, allowed_indices, checked_features, text_blocks
from odmlib.data.scaling import ColumnRanges
from odmlib.data.tables import load_table, training_rows
from odmlib.errors import DataFormatError

FAULTS_PER_LINE = 20  # the rest of a line of garbage tells nothing new
AFTER_FAULT_BYTES = 1 << 12  # read with care behind a fault: the next may be near

LABEL_OR_VALUE = (
    Fault.BAD_LABEL, Fault.INFINITE_LABEL, Fault.INEXACT_LABEL, Fault.BAD_VALUE, Fault.INFINITE_VALUE,
)  # fmt: skip


@dataclass(frozen=True)
class FaultFound:
    """One fault; line and column count from 1."""

    line: int
    column: int
    message: str


@dataclass
class DataCheck:
    """What `check_data` found. `statistics` and `advice` are about the rows without faults."""

    name: str
    faults: list[FaultFound] = field(default_factory=list)  # as many as asked for
    n_faults: int = 0
    n_faulty_lines: int = 0
    n_lines: int = 0
    statistics: dict[str, Any] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)
    label_column: str = ""  # of a table, as messages name it

    @property
    def good(self) -> bool:
        return self.n_faults == 0

    def report(self) -> dict[str, Any]:
        """Everything as JSON can hold it."""
        return {
            "file": self.name,
            "good": self.good,
            "lines": self.n_lines,
            "faulty_lines": self.n_faulty_lines,
            "n_faults": self.n_faults,
            "faults": [vars(fault) for fault in self.faults],
            "statistics": self.statistics,
            "advice": self.advice,
        }


def check_data(
    source: Source, features: int | None = None, zero_based: bool = False, max_faults: int | None = None
) -> DataCheck:
    """Read a file in LIBSVM format to its end, whatever stands in it; tell what is wrong and what is there.

    source      a path, "-" for standard input, an open file, or bytes; .gz, .bz2 and .xz are unpacked
    features    number of columns that is allowed; by default any
    zero_based  the indices in the file count from 0, not from 1
    max_faults  how many faults to keep; all are counted

    >>> found = check_data(b"1 1:0.5 2:x 3:nan\\n-1 2:1\\n")
    >>> [(fault.line, fault.column, fault.message) for fault in found.faults]
    [(1, 11, "expected a number as value, found 'x'"), (1, 15, "expected a finite number, found 'nan'")]
    >>> found.statistics["rows"]
    1
    """
    with open_input(source) as stream:
        checker = _Checker(stream.name, features, zero_based, max_faults)
        rows, labels = checker.read(stream)
    check = checker.check
    if rows.n_rows == 0:
        if check.good:
            checker.add(0, 0, "no rows found")
        return check
    check.statistics = statistics(rows, labels, zero_based)
    check.statistics["lines_without_row"] = check.n_lines - check.n_faulty_lines - rows.n_rows
    check.advice = list(advice(check.statistics, check.name))
    return check


def check_table(
    source: Source, label: str | int | None = None, one_hot: bool = False, header: bool | None = None
) -> DataCheck:
    """`check_data` for a table, as `odmlib.read_table` reads it; its first fault is the only one.

    >>> found = check_table(b"size,fruit\\n7,apple\\n3,cherry\\n2,cherry\\n")
    >>> found.statistics["class_counts"], found.statistics["features"]
    ({'cherry': 2, 'apple': 1}, 1)
    """
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else "<bytes>"
    check = DataCheck("<stdin>" if name == "-" else str(name))
    try:
        table = load_table(source, header)
        check.n_lines = table.n_rows + (table.names is not None)
        found = training_rows(table, label, one_hot)
    except DataFormatError as error:
        check.n_faults = check.n_faulty_lines = 1
        check.faults.append(FaultFound(error.line or 0, error.column or 0, error.message))
        return check
    check.name, check.label_column = table.name, found.label_name
    check.statistics = statistics(found.rows, cast(NDArray, found.labels))
    check.advice = list(advice(check.statistics, check.name))
    return check


class _Checker:
    def __init__(self, name: str, features: int | None, zero_based: bool, max_faults: int | None):
        self.check = DataCheck(name)
        self.features = checked_features(features)
        self.zero_based = zero_based
        self.max_faults = max_faults
        # one chunk: text with a fault leaves nothing behind
        self.rows = self._parser()

    def _parser(self) -> RowParser:
        return RowParser(*allowed_indices(self.features, self.zero_based), False, 1, 1 << 40)

    def add(self, line: int, column: int, message: str) -> None:
        self.check.n_faults += 1
        if self.max_faults is None or len(self.check.faults) < self.max_faults:
            self.check.faults.append(FaultFound(line, column, message))

    def read(self, stream: Any) -> tuple[Dataset, Floats]:
        for block, begin, end in text_blocks(
            stream, (self.check.name, DataFormatError), BLOCK_BYTES, BLOCK_BYTES
        ):
            self._lines(block, begin, end)
        width = self.rows.n_columns if self.features is None else self.features
        indptr, indices, values, labels = self.rows.finish()
        return sound_rows(indptr, indices, values, width), labels

    def _lines(self, block: bytearray, begin: int, end: int) -> None:
        """Whole lines: large pieces while all is well, small ones behind a fault."""
        piece = end - begin
        while begin < end:
            last = end if begin + piece >= end else block.index(b"\n", begin + piece) + 1
            fault = self.rows.feed(block, begin, last)
            if fault is not None:
                place = fault[1]
                start = max(begin, block.rfind(b"\n", begin, place) + 1)
                stop = block.index(b"\n", place) + 1
                self.rows.feed(block, begin, start)
                self.check.n_lines += block.count(b"\n", begin, start) + 1
                self.check.n_faulty_lines += 1
                self._faulty(block[start:stop])
                last, piece = stop, AFTER_FAULT_BYTES
            else:
                self.check.n_lines += block.count(b"\n", begin, last)
                piece *= 4
            begin = last

    def _faulty(self, line: bytearray) -> None:
        """All faults of one line: each is told, then made harmless where it stands."""
        text = line + bytes(PADDING)
        for _ in range(FAULTS_PER_LINE):
            fault = self._parser().feed(text, 0, len(line))
            if fault is None:
                return
            code, place, previous = fault
            token = token_at(text, place)
            message = describe(code, token, previous, self.features, self.zero_based)
            self.add(self.check.n_lines, place + 1, message)
            if not _mend(text, Fault(code), place, len(token)):
                return


def _mend(text: bytearray, fault: Fault, place: int, length: int) -> bool:
    """Put something harmless in the place of a fault, byte for byte; false where nothing can be done."""
    start, harmless = place, b""  # blanks
    if fault == Fault.STRAY_RETURN:
        length = 1
    elif fault in LABEL_OR_VALUE and length:
        harmless = b"0"  # the index of a value still counts for the order
    elif fault in (Fault.BAD_VALUE, Fault.INFINITE_VALUE):
        start = max(text.rfind(b" ", 0, text.rfind(b":", 0, place)), text.rfind(b"\t", 0, place - 1)) + 1
        length = place - start if start else 0
    elif length and text[place + length - 1] == 0x3A:  # `3: 0.5`: the value stands apart
        while text[place + length] in b" \t":
            length += 1
        length += len(token_at(text, place + length))
    text[start : start + length] = harmless.ljust(length)
    return length > 0


# ---------------------------------------------------------------------------------------- statistics


def statistics(rows: Dataset, labels: NDArray, zero_based: bool = False) -> dict[str, Any]:
    """What the rows hold; entries that are not stored are zeros."""
    ranges = ColumnRanges.of(rows)
    constant = ranges.minimum == ranges.maximum
    entries = rows.n_rows * rows.n_features
    base = 0 if zero_based else 1
    distinct, counts = np.unique(labels, return_counts=True)
    with np.errstate(over="ignore"):
        spans = ranges.maximum - ranges.minimum
    spans = spans[~constant]
    low, high = float(ranges.minimum.min(initial=0.0)), float(ranges.maximum.max(initial=0.0))
    if len(ranges.columns) == rows.n_features and rows.n_nonzeros == entries and entries:
        low, high = float(ranges.minimum.min()), float(ranges.maximum.max())
    order = np.argsort(-counts, kind="stable")
    duplicates, unavoidable = count_duplicates(rows, labels)
    return {
        "rows": rows.n_rows,
        "features": rows.n_features,
        "used_features": len(ranges.columns),
        "nonzeros": rows.n_nonzeros,
        "density": rows.n_nonzeros / entries if entries else 0.0,
        "lowest": low,
        "highest": high,
        "narrowest_range": float(spans.min()) if len(spans) else 0.0,
        "median_range": float(np.median(spans)) if len(spans) else 0.0,
        "widest_range": float(spans.max()) if len(spans) else 0.0,
        "widest_feature": int(ranges.columns[~constant][np.argmax(spans)]) + base if len(spans) else None,
        "constant_features": rows.n_features - int((~constant).sum()),
        "constant_nonzero": [int(column) + base for column in ranges.columns[constant][:20]],
        "empty_rows": int((np.diff(rows.indptr) == 0).sum()),
        "longest_row": int(np.diff(rows.indptr).max()),
        "duplicate_rows": duplicates,
        "unavoidable_errors": unavoidable,
        "classes": len(distinct),
        "class_counts": {
            str(python_label(distinct[place])): int(counts[place]) for place in order[:TOO_MANY_LABELS]
        },
        "smallest_class": int(counts.min()),
        "largest_class": int(counts.max()),
        "whole_labels": labels.dtype.kind != "f" or bool((labels == np.floor(labels)).all()),
    }


def count_duplicates(rows: Dataset, labels: NDArray) -> tuple[int, int]:
    """Rows whose features stood before already, and how many rows no machine can get right because rows of
    the same features have another label more often.

    Rows are sorted by a number made of all their entries; neighbours are then compared entry by entry.
    """
    numbers, lengths = _row_numbers(rows), np.diff(rows.indptr)
    order = np.lexsort((labels, lengths, numbers))
    first, second = order[:-1], order[1:]
    same = (numbers[first] == numbers[second]) & (lengths[first] == lengths[second])
    near = np.flatnonzero(same)
    one, other = rows.take(first[near]), rows.take(second[near])
    differs = (one.indices != other.indices) | (one.values != other.values)
    same[near[one.row_of_each()[differs]]] = False
    if not same.any():
        return 0, 0
    group = np.concatenate([[0], np.cumsum(~same)])
    sorted_labels = labels[order]
    changed = np.concatenate([[True], ~same | (sorted_labels[1:] != sorted_labels[:-1])])
    starts = np.flatnonzero(changed)  # runs of one label within a group
    sizes = np.diff(np.append(starts, rows.n_rows))
    most = np.zeros(group[-1] + 1, dtype=np.int64)
    np.maximum.at(most, group[starts], sizes)
    return int(same.sum()), rows.n_rows - int(most.sum())


def _row_numbers(rows: Dataset) -> NDArray[np.uint64]:
    """A number per row that is the same for rows of the same entries, and hardly ever for others."""
    with np.errstate(over="ignore"):
        columns = rows.indices.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed = rows.values.view(np.uint64) ^ columns
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        sums = np.concatenate([[np.uint64(0)], np.cumsum(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64)])
        return sums[rows.indptr[1:]] - sums[rows.indptr[:-1]]
