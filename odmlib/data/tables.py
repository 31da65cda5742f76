"""Tables: CSV and TSV files, and Parquet, Arrow and Feather files through pyarrow.

A table has a column of labels and columns of features; its first line may name them. Columns of text become
one column of 0 and 1 for each of their values, where that is asked for (one-hot).
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Floats
from odmlib.data.dataset import Dataset
from odmlib.data.files import Source, open_input
from odmlib.data.labels import show_labels
from odmlib.errors import DataFormatError, OdmError
from odmlib.names import ARROW_ENDS
from odmlib.values import counted

LABEL_NAMES = ("label", "class", "target", "y")  # of the column that is taken where none is named
SEPARATORS = ",;\t"
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
MISSING = {"na", "n/a", "null", "none", "?", "-", "."}  # in columns of numbers
ONE_COLUMN = "found one column, expected columns parted by commas, semicolons or tabs"
LIBSVM_ROW = re.compile(r"\s*\S+(\s+\d+:\S+)+\s*")
LIBSVM = " (this looks like LIBSVM format; a name that does not end in .csv or .tsv reads it as such)"
HOT = "="  # between a column's name and its value: `colour=red`


@dataclass(frozen=True)
class Table:
    """Columns of the same length: arrays of numbers, or lists of texts as the file has them."""

    name: str  # of the file
    columns: list[Any]
    names: list[str] | None  # None without a header
    lines: Sequence[int]  # of the rows in the file; empty where it has none

    @property
    def n_rows(self) -> int:
        return len(self.columns[0])

    def shown(self, place: int) -> str:
        """A column in a message."""
        return f"column {place + 1}" if self.names is None else f"column '{self.names[place]}'"

    def place_of(self, wish: str | int) -> int:
        """The place of a column that is given by its name or by its number from 1."""
        if self.names is not None and wish in self.names:
            return self.names.index(str(wish))
        number = int(wish) if str(wish).isascii() and str(wish).isdigit() else 0
        if 1 <= number <= len(self.columns):
            return number - 1
        known = "1 to " + str(len(self.columns)) if self.names is None else show_labels(np.array(self.names))
        raise OdmError(f"{self.name}: there is no column '{wish}' (columns: {known})")

    def numbers(self, place: int) -> Floats | None:
        """A column as finite numbers; None if it holds text. An empty entry is a fault."""
        column = self.columns[place]
        if isinstance(column, np.ndarray):
            found = column.astype(np.float64)
        else:
            try:
                found = np.array(column, dtype=np.float64)
                if any("_" in text for text in column):  # Python's own form of a number
                    return None
            except ValueError:
                empty = next((row for row, text in enumerate(column) if not text.strip()), None)
                if empty is not None:
                    missing = f"{self.shown(place)} is empty; fill in missing values"
                    raise self.fault(empty, missing) from None
                texts = [row for row, text in enumerate(column) if not _is_number(text)]
                if all(DECIMAL_COMMA.fullmatch(column[row]) for row in texts):
                    expected = f"{self.shown(place)}: expected a number with a decimal point"
                    raise self.fault(texts[0], f"{expected}, found '{column[texts[0]].strip()}'") from None
                marks = {column[row].strip().lower() for row in texts}
                if marks <= MISSING and len(texts) < len(column):  # numbers otherwise
                    missing = f"{self.shown(place)} holds '{column[texts[0]].strip()}' for a missing value"
                    raise self.fault(texts[0], f"{missing}; fill in missing values") from None
                return None
        wrong = np.flatnonzero(~np.isfinite(found))
        if len(wrong):
            value = self.columns[place][wrong[0]]
            raise self.fault(int(wrong[0]), f"{self.shown(place)}: expected a finite number, found '{value}'")
        return found

    def texts(self, place: int) -> list[str]:
        return [str(value).strip() for value in self.columns[place]]

    def fault(self, row: int, message: str) -> DataFormatError:
        if not self.lines:
            return DataFormatError(f"row {row + 1}: {message}", self.name)
        return DataFormatError(message, self.name, self.lines[row])


@dataclass(frozen=True)
class TableRows:
    """A table as rows for a machine; `labels` are numbers, or texts where not all are numbers."""

    rows: Dataset
    labels: NDArray | None
    names: tuple[str, ...] | None
    label_name: str  # in messages
    label_title: str = "label"  # in a header
    notes: tuple[str, ...] = ()  # what a user may want to know


def read_table(
    source: Source,
    label: str | int | None = None,
    one_hot: bool = False,
    header: bool | None = None,
) -> tuple[Floats, NDArray, tuple[str, ...] | None]:
    """Read a CSV, TSV, Parquet, Arrow or Feather file: features, labels, and the names of the features.

    source   a path, "-" for standard input, an open file, or bytes; packed CSV files are unpacked
    label    the column of the labels, by name or number from 1; by default one that is named label, class,
             target or y, else the last column
    one_hot  make a column of 0 and 1 of each value of a column of text; otherwise such a column is an error
    header   whether the first line names the columns; by default it does if it holds no number

    >>> X, y, names = read_table(b"size,colour,class\\n1.5,red,a\\n2,blue,b\\n", one_hot=True)
    >>> X.tolist(), y.tolist(), names
    ([[1.5, 0.0, 1.0], [2.0, 1.0, 0.0]], ['a', 'b'], ('size', 'colour=blue', 'colour=red'))
    """
    found = training_rows(load_table(source, header), label, one_hot)
    if found.labels is None:
        raise AssertionError("training_rows has labels")
    return found.rows.to_dense(), found.labels, found.names


def load_table(source: Source, header: bool | None = None) -> Table:
    """The columns of a file as they are."""
    path = os.fspath(source) if isinstance(source, str | os.PathLike) else ""
    ends = str(path).lower().endswith(ARROW_ENDS)
    return _arrow_table(source, str(path)) if ends else _text_table(source, header)


# ---------------------------------------------------------------------------------------- reading


def _text_table(source: Source, header: bool | None) -> Table:
    with open_input(source) as stream:
        name = stream.name
        with as_text(stream, name) as text:
            rows, lines = _cells(text, name)
    if not rows:
        raise DataFormatError("no rows found", name)
    if len(rows[0]) == 1 and (len(rows) == 1 or not all(_is_number(row[0]) for row in rows[1:])):
        libsvm = LIBSVM if LIBSVM_ROW.fullmatch(rows[0][0]) else ""
        raise DataFormatError(ONE_COLUMN + libsvm, name, lines[0])  # no table at all
    if header is None:
        header = is_header(rows[0])
    names = None
    if header:
        names = [cell.strip() for cell in rows[0]]
        if len(set(names)) < len(names):
            twice = next(each for each in names if names.count(each) > 1)
            raise DataFormatError(f"two columns are named '{twice}'", name, lines[0])
        rows, lines = rows[1:], lines[1:]
        if not rows:
            raise DataFormatError("no rows found behind the header", name)
    return Table(name, [list(column) for column in zip(*rows, strict=True)], names, lines)


@contextmanager
def as_text(stream: Any, name: str) -> Iterator[io.TextIOWrapper]:
    """A stream of bytes as lines of text."""
    text = io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8-sig", newline="")
    try:
        yield text
    except UnicodeDecodeError:
        raise DataFormatError("found bytes that are not UTF-8 text", name) from None
    finally:
        text.detach().detach()  # a file that came open stays so


def _cells(text: io.TextIOWrapper, name: str) -> tuple[list[list[str]], list[int]]:
    found = list(table_rows(text, name))
    return [cells for cells, _, _ in found], [line for _, line, _ in found]


def table_rows(text: Iterable[str], name: str) -> Iterator[tuple[list[str], int, str]]:
    """The rows of a CSV or TSV file: cells, number of the last line, and the text as it stands there."""
    lines = iter(text)
    first = next(lines, "")
    separator = max(SEPARATORS, key=first.count)
    taken: list[str] = []

    def each() -> Iterator[str]:
        for line in chain([first], lines):
            taken.append(line)
            yield line

    reader, width = csv.reader(each(), delimiter=separator, strict=True), 0
    try:
        for row in reader:
            whole = "".join(taken)
            taken.clear()
            if not row:
                continue
            if width and len(row) != width:
                expected = f"expected {width} columns as in the first line"
                raise DataFormatError(f"{expected}, found {len(row)}", name, reader.line_num)
            width = len(row)
            yield row, reader.line_num, whole
    except csv.Error as error:
        raise DataFormatError(f"broken CSV: {error}", name, reader.line_num) from None


def is_header(cells: Sequence[str]) -> bool:
    """Whether the first line of a table names its columns: it holds no number."""
    return not any(_is_number(cell) for cell in cells)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _arrow_table(source: Source, name: str) -> Table:
    try:
        import pyarrow
        from pyarrow import feather, parquet
    except ImportError:
        raise OdmError(f"{name}: Parquet and Arrow files need pyarrow: pip install 'odmlib[arrow]'") from None
    read = parquet.read_table if name.lower().endswith(".parquet") else feather.read_table
    try:
        found = read(name)
    except pyarrow.ArrowInvalid as error:
        raise DataFormatError(f"not a table that pyarrow can read: {error}", name) from None
    columns: list[Any] = []
    for column, title in zip(found.columns, found.column_names, strict=True):
        if column.null_count:
            raise DataFormatError(f"column '{title}' has empty entries; fill in missing values", name)
        kind = column.type
        numeric = pyarrow.types.is_floating(kind) or pyarrow.types.is_integer(kind)
        if numeric or pyarrow.types.is_boolean(kind):
            columns.append(column.to_numpy().astype(np.float64))
        else:
            columns.append([str(value) for value in column.to_pylist()])
    if not columns or not len(columns[0]):
        raise DataFormatError("no rows found", name)
    return Table(name, columns, list(found.column_names), ())


# ---------------------------------------------------------------------------------------- rows


def training_rows(table: Table, label: str | int | None, one_hot: bool) -> TableRows:
    """Features and labels of a table to train on."""
    if len(table.columns) == 1:
        raise DataFormatError(ONE_COLUMN, table.name, 1)
    place = label_place(table, label)
    features = [other for other in range(len(table.columns)) if other != place]
    columns, names = [], []
    for other in features:
        for title, values in _feature(table, other, one_hot):
            names.append(title)
            columns.append(values)
    if not columns:
        raise DataFormatError("there is no column of features besides the labels", table.name)
    known = None if table.names is None and not one_hot else tuple(names)
    title = "label" if table.names is None else table.names[place]
    return TableRows(_dataset(columns), _labels(table, place), known, table.shown(place), title)


def rows_like(
    table: Table, label: str | int | None, columns: tuple[str, ...] | None, width: int
) -> TableRows:
    """The features that a model was trained on, by name where it knows names, and labels where there are any.

    `columns` and `width` are the model's.
    """
    if columns is not None and table.names is None:
        table = _numbered(table, label, columns)
    if columns is None or table.names is None:
        return _rows_by_place(table, label, columns, width)
    bases = {name.partition(HOT)[0] for name in columns} | set(columns)
    place = table.place_of(label) if label is not None else _extra_place(table, bases)
    hot: dict[str, list[str]] = {}
    found = []
    for name in columns:
        base, is_hot, value = name.partition(HOT)
        if name in table.names:
            found.append(_numeric(table, table.names.index(name)))
        elif is_hot and base in table.names:
            texts = hot.setdefault(base, table.texts(table.names.index(base)))
            found.append(np.array([text == value for text in texts], dtype=np.float64))
        else:
            raise OdmError(f"{table.name}: the model was trained with column '{base}', which is not here")
    labels = None if place is None else _labels(table, place)
    shown, title = ("", "") if place is None else (table.shown(place), table.names[place])
    notes = tuple(_unseen_values(hot, columns))
    return TableRows(_dataset(found), labels, columns, shown, title, notes)


def _unseen_values(hot: dict[str, list[str]], columns: tuple[str, ...]) -> Iterator[str]:
    """A sentence for each column of text whose values had no column of their own in training."""
    for base, texts in hot.items():
        unseen = [text for text in texts if f"{base}{HOT}{text}" not in columns]
        if unseen:
            values, rows = show_labels(np.unique(unseen)), counted(len(unseen), "row")
            yield f"column '{base}' has values that were not in training: {values} ({rows})"


def _numbered(table: Table, label: str | int | None, columns: tuple[str, ...]) -> Table:
    """A table without header, its columns named as in training on such a one: by their numbers there."""
    bases = list(dict.fromkeys(name.partition(HOT)[0] for name in columns))
    if not all(base.isascii() and base.isdigit() for base in bases):
        return table
    features_only = label is None and len(table.columns) == len(bases)
    names = bases if features_only else [str(place + 1) for place in range(len(table.columns))]
    return replace(table, names=names)


def _rows_by_place(
    table: Table, label: str | int | None, columns: tuple[str, ...] | None, width: int
) -> TableRows:
    one_hot = columns is not None and any(HOT in name for name in columns)
    if one_hot:
        raise OdmError(f"{table.name}: the model knows its columns by name, but this table has no header")
    if label is None and len(table.columns) == width:
        found = [_numeric(table, place) for place in range(width)]
        return TableRows(_dataset(found), None, columns, "")
    return training_rows(table, label, False)


def _extra_place(table: Table, known: set[str]) -> int | None:
    """The column of the labels: by its name, or the only one that is no feature."""
    extra = [place for place, name in enumerate(table.names or ()) if name not in known]
    named = [place for place in extra if (table.names or [])[place].lower() in LABEL_NAMES]
    if named:
        return named[0]
    return extra[0] if len(extra) == 1 else None


def label_place(table: Table, label: str | int | None) -> int:
    """The place of the column of the labels: the one that is given, or named like one, or the last."""
    if label is not None:
        return table.place_of(label)
    names = [name.lower() for name in table.names or ()]
    return next((names.index(name) for name in LABEL_NAMES if name in names), len(table.columns) - 1)


def _labels(table: Table, place: int) -> NDArray:
    numbers = table.numbers(place)
    return np.array(table.texts(place)) if numbers is None else numbers


def _feature(table: Table, place: int, one_hot: bool) -> Iterator[tuple[str, Floats]]:
    title = str(place + 1) if table.names is None else table.names[place]
    numbers = table.numbers(place) if one_hot else _numeric(table, place)
    if numbers is not None:
        yield title, numbers
        return
    texts = np.array(table.texts(place))
    for value in np.unique(texts):
        yield f"{title}{HOT}{value}", (texts == value).astype(np.float64)


def _numeric(table: Table, place: int) -> Floats:
    numbers = table.numbers(place)
    if numbers is None:
        texts = table.texts(place)
        row = next(row for row, text in enumerate(texts) if not _is_number(text) or "_" in text)
        raise table.fault(
            row, f"{table.shown(place)} holds text ('{texts[row][:40]}'); --one-hot (one_hot=True) makes a "
            "column of 0 and 1 of each value",
        )  # fmt: skip
    return numbers


def csv_lines(cells: Iterable[Sequence[Any]]) -> bytes:
    """Rows of cells as lines of a CSV table; numbers read back exactly."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(cells)
    return text.getvalue().encode()


def _dataset(columns: list[Floats]) -> Dataset:
    return Dataset.from_any(np.column_stack(columns))
