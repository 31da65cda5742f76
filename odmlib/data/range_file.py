"""The range file of svm-scale and odm-scale; scaling.py describes it. The reader trusts nothing."""

from __future__ import annotations

import json
import math
import re
from array import array
from dataclasses import dataclass
from io import BufferedReader
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from odmlib._core.arrays import Columns, Floats
from odmlib.data.dataset import MAX_FEATURES
from odmlib.data.faults import shown
from odmlib.data.files import Source, Target, open_input, open_output
from odmlib.data.labels import format_label
from odmlib.errors import RangeFormatError

if TYPE_CHECKING:
    from odmlib.data.scaling import Scaling

MAX_LINE_BYTES = 4096  # three numbers need less; a longer line is some other kind of file
NAMES = b"columns"  # heads the names of a table's columns; svm-scale stops reading here
LINES_PER_WRITE = 10_000
MAX_INDEX_DIGITS = 20  # more digits are too large a number however they read

_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(rb"[^ \t\r\n\v\f]+")


@dataclass(frozen=True)
class TargetRange:
    """How labels are scaled: [minimum, maximum] to [lower, upper]."""

    lower: float
    upper: float
    minimum: float
    maximum: float


# columns, minima, maxima, lower and upper end, target, names: the arguments of Scaling
Parts = tuple[Columns, Floats, Floats, float, float, TargetRange | None, tuple[str, ...] | None]


def read_range_file(source: Source, zero_based: bool = False) -> Parts:
    """What a Scaling is made of, from its range file; a fault raises RangeFormatError with its place."""
    with open_input(source, small=True) as stream:
        return _Reader(BufferedReader(stream), stream.name).read(zero_based)


def write_range_file(target: Target, ranges: Scaling, zero_based: bool = False) -> None:
    """Write a range file whose numbers read back exactly; it appears complete or not at all."""
    with open_output(target) as stream:
        if ranges.target is not None:
            stream.write(_line("y"))
            stream.write(_line(ranges.target.lower, ranges.target.upper))
            stream.write(_line(ranges.target.minimum, ranges.target.maximum))
        stream.write(_line("x"))
        stream.write(_line(ranges.lower, ranges.upper))
        base = 0 if zero_based else 1
        for start in range(0, len(ranges.columns), LINES_PER_WRITE):
            part = slice(start, start + LINES_PER_WRITE)
            parts = (array[part].tolist() for array in (ranges.columns, ranges.minimum, ranges.maximum))
            # as svm-scale, which leaves constant features out
            lines = (_line(j + base, low, high) for j, low, high in zip(*parts, strict=True) if low < high)
            stream.write(b"".join(lines))
        if ranges.names is not None:
            stream.write(b"".join([NAMES + b"\n", *(_line(json.dumps(name)) for name in ranges.names)]))


def _line(*words: str | float) -> bytes:
    texts = [word if isinstance(word, str) else format_label(word) for word in words]
    return (" ".join(texts) + "\n").encode("ascii")


class _Reader:
    """Walks through the lines and knows where it is."""

    def __init__(self, stream: BufferedReader, path: str):
        self.stream = stream
        self.path = path
        self.line_number = 0
        self.words: list[re.Match[bytes]] = []  # of the present line
        self.line_length = 0

    def read(self, zero_based: bool) -> Parts:
        target = None
        if self.header(b"y", b"x") == b"y":
            y_interval = self.interval("the lower and upper end of the interval for y")
            low, high = self.next_words(2, "the minimum and maximum of y")
            target = TargetRange(*y_interval, *self.ordered(low, high, "y"))
            self.header(b"x")
        interval = self.interval("the lower and upper end of the interval for x")
        ranges = self.features(0 if zero_based else 1)
        names = self.names(ranges[0]) if self.words else None
        return *ranges, *interval, target, names

    def header(self, *allowed: bytes) -> bytes:
        expected = " or ".join(f"'{word.decode()}'" for word in allowed)
        words = self.next_words(None, expected)
        if len(words) > 1 or words[0].group() not in allowed:
            self.fail(f"expected {expected}, found {_listed(words)}", words[0])
        return words[0].group()

    def interval(self, what: str) -> tuple[float, float]:
        first, second = self.next_words(2, what)
        lower, upper = self.number(first), self.number(second)
        if not lower < upper:
            self.fail(f"expected {what}, found {_listed(self.words)}: not ascending", first)
        if not math.isfinite(upper - lower):
            self.fail("the ends of the interval are too far apart", first)
        return lower, upper

    def features(self, base: int) -> tuple[Columns, Floats, Floats]:
        columns, minimum, maximum = array("i"), array("d"), array("d")
        last = base - 1
        while words := self.next_words(None, "index, minimum and maximum", may_end=True):
            if [word.group() for word in words] == [NAMES]:
                break
            self.check_count(3, "index, minimum and maximum")
            index = self.index(words[0], base)
            if index == last:
                self.fail(f"feature {index} comes twice", words[0])
            if index < last:
                self.fail(f"expected an index above {last} (indices ascend), found {index}", words[0])
            low, high = self.ordered(words[1], words[2], f"feature {index}")
            columns.append(index - base)
            minimum.append(low)
            maximum.append(high)
            last = index
        return np.array(columns, np.int32), np.array(minimum, np.float64), np.array(maximum, np.float64)

    def names(self, columns: Columns) -> tuple[str, ...]:
        """Those of a table's columns, to the end of the file."""
        names: list[str] = []
        while line := self.next_line().strip():
            try:
                name = json.loads(line)
            except ValueError:
                name = None
            if not isinstance(name, str):
                self.fail(f"expected the name of a column in double quotes, found {shown(line)}")
            names.append(name)
        if len(columns) and columns[-1] >= len(names):
            self.fail(f"expected a name for each of {columns[-1] + 1} columns, found {len(names)}")
        return tuple(names)

    def ordered(
        self, low_word: re.Match[bytes], high_word: re.Match[bytes], what: str
    ) -> tuple[float, float]:
        low, high = self.number(low_word), self.number(high_word)
        if low > high:
            self.fail(f"the minimum of {what} is above its maximum", low_word)
        if not math.isfinite(high - low):
            self.fail(f"the range of {what} is too wide", low_word)
        return low, high

    def index(self, word: re.Match[bytes], base: int) -> int:
        text = word.group()
        if not text.isdigit():
            self.fail(f"expected a feature's index, found {shown(text)}", word)
        index = int(text) if len(text) < MAX_INDEX_DIGITS else MAX_FEATURES + 1
        if index < base:
            hint = "a file that counts from 0 needs --zero-based (zero_based=True)"
            self.fail(f"expected an index of {base} or more, found {shown(text)} ({hint})", word)
        if index - base >= MAX_FEATURES:
            self.fail(f"expected an index of at most {MAX_FEATURES - 1 + base}, found {shown(text)}", word)
        return index

    def number(self, word: re.Match[bytes]) -> float:
        text = word.group()
        value = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not math.isfinite(value):
            self.fail(f"expected a finite number, found {shown(text)}", word)
        return value + 0.0  # -0 is 0

    def next_words(self, n_words: int | None, what: str, may_end: bool = False) -> list[re.Match[bytes]]:
        """The words of the next line: `n_words`, or any number but none; no words where the file may end."""
        line = self.next_line()
        self.words = list(_WORD.finditer(line))
        self.line_length = len(line.rstrip())
        if not self.words:
            blank = self.line_number
            while line and not line.strip():
                line = self.next_line()
            if line or not may_end:
                self.line_number = blank
                self.fail(f"expected {what}, found {'an empty line' if line else 'the end of the file'}")
        elif n_words is not None:
            self.check_count(n_words, what)
        return self.words

    def check_count(self, n_words: int, what: str) -> None:
        if len(self.words) < n_words:
            self.fail(f"expected {what}, found {_listed(self.words)}", column=self.line_length + 1)
        if len(self.words) > n_words:
            extra = self.words[n_words]
            self.fail(f"expected {what} and no more, found {shown(extra.group())}", extra)

    def next_line(self) -> bytes:
        self.line_number += 1
        line = self.stream.readline(MAX_LINE_BYTES)
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            self.fail(f"the line is longer than {MAX_LINE_BYTES} bytes: this is no range file")
        return line

    def fail(self, message: str, word: re.Match[bytes] | None = None, column: int = 0) -> NoReturn:
        if word is not None:
            column = word.start() + 1
        raise RangeFormatError(message, self.path, self.line_number, column)


def _listed(words: list[re.Match[bytes]]) -> str:
    return shown(b" ".join(word.group() for word in words))
