"""A part of the rows, drawn at random: so many of each class as it has in the whole, or any."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Places
from odmlib.data._reader import parse_number
from odmlib.data.faults import CSV_HINT, shown
from odmlib.data.reading import UTF8_MARK
from odmlib.data.tables import Table, as_text, is_header, label_place, table_rows
from odmlib.errors import DataFormatError, ParameterError
from odmlib.names import SUBSET_METHODS

BLOCK_BYTES = 1 << 20

_LABEL = re.compile(rb"[ \t]*([^ \t\r\n#]*)")


def choose_rows(y: Any, size: int, method: str = "stratified", seed: int = 0) -> NDArray[np.bool_]:
    """Which rows to take: True for `size` of them.

    stratified: classes keep their parts of the rows, rounded; each has at least one row where `size` allows.

    >>> int(choose_rows([1, 1, 1, 1, -1, -1], 3).sum())
    3
    """
    labels = np.asarray(y)
    n = len(labels)
    if method not in SUBSET_METHODS:
        raise ParameterError(f"method must be one of {', '.join(SUBSET_METHODS)}, found {method!r}")
    if not 1 <= size <= n:
        raise ParameterError(f"a subset of {size} rows cannot be drawn from {n} rows")
    random = np.random.default_rng(seed)
    chosen = np.zeros(n, dtype=bool)
    if method == "random":
        chosen[random.permutation(n)[:size]] = True
        return chosen
    _, codes = np.unique(labels, return_inverse=True)
    shares = class_shares(np.bincount(codes), size)
    shuffled = random.permutation(n)
    for code, share in enumerate(shares):
        chosen[shuffled[codes[shuffled] == code][:share]] = True
    return chosen


def class_shares(counts: Places, size: int) -> Places:
    """Rows of each class in a subset: in proportion, by largest remainders; none is left out if avoidable.

    >>> class_shares(np.array([90, 9, 1]), 10).tolist()
    [8, 1, 1]
    """
    exact = counts * (size / counts.sum())
    shares = np.floor(exact).astype(np.int64)
    order = np.argsort(shares - exact, kind="stable")  # largest remainder first
    shares[order[: size - int(shares.sum())]] += 1
    if size >= len(counts):
        for code in np.flatnonzero(shares == 0):
            shares[np.argmax(shares)] -= 1
            shares[code] = 1
    return shares


def row_labels(stream: Any, name: str, keep: IO[bytes] | None) -> list[float]:
    """The labels of a data file; `keep` gets a copy of the rows' lines, for streams that come only once."""
    labels = []
    for number, line in enumerate(whole_lines(stream), 1):
        start = len(UTF8_MARK) if number == 1 and line.startswith(UTF8_MARK) else 0
        match = _LABEL.match(line, start)
        if match is None or not match.group(1):  # no row
            continue
        label = parse_number(match.group(1))
        if label is None or not np.isfinite(label):
            message = f"expected a number as label, found {shown(match.group(1))}"
            message += f" ({CSV_HINT})" if re.search(rb"[,;]", match.group(1)) else ""
            raise DataFormatError(message, name, number, match.start(1) + 1 - start)
        labels.append(label)
        if keep is not None:
            keep.write(line)
    return labels


def row_lines(stream: Any) -> Iterator[bytes]:
    """The lines that hold a row."""
    return filter(is_row, whole_lines(stream))


def is_row(line: bytes) -> bool:
    """Whether the line holds a row: more than blanks and a comment."""
    match = _LABEL.match(line.removeprefix(UTF8_MARK))
    return match is not None and match.group(1) != b""


def whole_lines(stream: Any) -> Iterator[bytes]:
    """The lines of a stream of bytes, each with its line end; the last gets one if it has none."""
    rest = b""
    while block := stream.read(BLOCK_BYTES):
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest + b"\n"


def table_labels(
    stream: Any, name: str, label: str | None, header: bool | None, keep: IO[bytes] | None
) -> tuple[bytes, list[str]]:
    """The line that names the columns of a CSV table, empty without one, and the labels of the rows; `keep`
    gets a copy of all lines, for streams that come only once."""
    first, labels, place = b"", [], 0
    with as_text(stream, name) as text:
        for number, (cells, _, line) in enumerate(table_rows(text, name)):
            if keep is not None:
                keep.write(line.encode())
            if number == 0:
                named = is_header(cells) if header is None else header
                names = [cell.strip() for cell in cells] if named else None
                place = label_place(Table(name, [[] for _ in cells], names, ()), label)
                if named:
                    first = _ended(line)
                    continue
            labels.append(cells[place])
    return first, labels


def table_lines(stream: Any, name: str, header: bool) -> Iterator[bytes]:
    """The rows of a CSV table as they stand there, each with a line end."""
    with as_text(stream, name) as text:
        for number, (_, _, line) in enumerate(table_rows(text, name)):
            if number or not header:
                yield _ended(line)


def _ended(line: str) -> bytes:
    return (line if line.endswith(("\n", "\r")) else line + "\n").encode()
