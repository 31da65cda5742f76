"""Slow, plain oracles for the compiled parts."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

_LABEL_OR_VALUE = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?=[ \t\r#]|\Z)")
_INDEX = re.compile(rb"([0-9]+):[ \t]*")
_QID = re.compile(rb"qid:[+-]?[0-9]+(?=[ \t\r#]|\Z)")
_BLANKS = re.compile(rb"[ \t]*")


@dataclass
class Rows:
    labels: list[float] = field(default_factory=list)
    items: list[dict[int, float]] = field(default_factory=list)  # column -> value, without zeros
    n_features: int = 0


class Refused(Exception):
    """Not in the format; line and column count from 1, 0 where there is no single place."""

    def __init__(self, line: int, column: int):
        super().__init__(line, column)
        self.line = line
        self.column = column


def parse_libsvm(
    data: bytes, features: int | None = None, zero_based: bool = False, strict_lines: bool = False
) -> Rows:
    """Text in LIBSVM format, one line and one regular expression at a time."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Refused(0, 0)
    if data[:3] == b"\xef\xbb\xbf":
        data = data[3:]
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    rows = Rows()
    for number, line in enumerate(lines, 1):
        line = line[:-1] if line.endswith(b"\r") else line
        try:
            _parse_line(line, rows, features, zero_based, strict_lines)
        except _At as place:
            raise Refused(number, place.args[0] + 1) from None
    if not rows.labels:
        raise Refused(0, 0)
    if features is not None:
        rows.n_features = features
    return rows


class _At(Exception):
    pass


def _parse_line(line: bytes, rows: Rows, features: int | None, zero_based: bool, strict: bool) -> None:
    at = _BLANKS.match(line).end()
    if at == len(line) or line[at : at + 1] in (b"#", b"\r"):
        _refuse_return(line, at)
        if strict:
            raise _At(at)
        return
    at, label = _number(line, at)
    text = line[:at].strip().lstrip(b"+-").lstrip(b"0")
    if text.isdigit() and int(text) != abs(label):
        raise _At(_BLANKS.match(line).end())
    at = _BLANKS.match(line, at).end()
    if (qid := _QID.match(line, at)) and not strict:
        at = _BLANKS.match(line, qid.end()).end()

    base = 0 if zero_based else 1
    largest = (2**31 - 1 if features is None else features) - 1 + base
    previous = base - 1
    items = {}
    while at < len(line) and line[at : at + 1] not in (b"#", b"\r"):
        match = _INDEX.match(line, at)
        if not match:
            raise _At(at)
        digits = match.group(1).lstrip(b"0") or b"0"
        index = int(digits) if len(digits) < 20 else 10**20
        if not previous < index <= largest:
            raise _At(at)
        at, value = _number(line, match.end())
        if value != 0:
            items[index - base] = value
        previous = index
        at = _BLANKS.match(line, at).end()
    if strict and line[at : at + 1] == b"#":
        raise _At(at)
    _refuse_return(line, at)
    rows.labels.append(label + 0.0)
    rows.items.append(items)
    rows.n_features = max(rows.n_features, previous - base + 1)


def _number(line: bytes, at: int) -> tuple[int, float]:
    match = _LABEL_OR_VALUE.match(line, at)
    if not match or math.isinf(float(match.group())):
        raise _At(at)
    return match.end(), float(match.group())


def _refuse_return(line: bytes, at: int) -> None:
    if b"\r" in line[at:]:
        raise _At(line.index(b"\r", at))
