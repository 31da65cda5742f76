"""The words for what the parser of data rows refuses: what was found, what was expected."""

from __future__ import annotations

import re

from odmlib.data._reader import Fault

SHOWN_CHARACTERS = 40

PLAIN = {
    Fault.INFINITE_LABEL: "expected a finite number, {found}",
    Fault.INFINITE_VALUE: "expected a finite number, {found}",
    Fault.INEXACT_LABEL: "expected a label that a double can hold exactly, {found}",
    Fault.INDEX_ZERO: "expected an index of 1 or more, {found} "
    "(a file that counts from 0 needs --zero-based (zero_based=True))",
    Fault.INDEX_NOT_ASCENDING: "expected an index above {previous} (indices ascend in a row), {found}",
    Fault.STRAY_RETURN: "found a carriage return inside the line, expected lines to end with LF or CR LF",
    Fault.EMPTY_LINE: "expected a row, found an empty line",
    Fault.COMMENT: "expected the end of the line, found a comment",
}

MODEL_WORDS = (b"odmlib", b"svm_type", b"solver_type")  # at the start of model files

CSV_HINT = "a CSV table? --csv (odmlib.read_table) reads one"

_TOKEN = re.compile(rb"[^ \t\n#]*")
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)


def shown(token: bytes) -> str:
    """A piece of a file, quoted: printable, on one line, not too long."""
    text = token[: 4 * SHOWN_CHARACTERS].decode("utf-8", "backslashreplace")
    if len(text) > SHOWN_CHARACTERS:
        text = text[:SHOWN_CHARACTERS] + "..."
    return "'" + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text) + "'"


def token_at(text: bytearray, place: int) -> bytes:
    """The bytes from `place` to the next blank, comment or line end."""
    match = _TOKEN.match(text, place)
    token = match.group() if match else b""
    at_line_end = text[place + len(token)] == 0x0A
    return token.removesuffix(b"\r") if at_line_end else token


def describe(fault: int, token: bytes, previous: int, features: int | None, zero_based: bool) -> str:
    """The message for one fault; `token` is what stands at its place."""
    found = f"found {shown(token)}" if token else "found the end of the line"
    if fault in PLAIN:
        return PLAIN[fault].format(found=found, previous=previous)
    if fault == Fault.BAD_LABEL:
        return _bad_label(token, found)
    if fault == Fault.BAD_QID:
        return f"expected qid:N with a whole number N, {found}" if token.startswith(b"qid:") else _item(found)
    if fault == Fault.BAD_ITEM:
        return _bad_item(token, found)
    if fault == Fault.BAD_VALUE:
        return _bad_value(token, found)
    if features == 0:  # an index too large
        return f"expected no items for 0 features, {found}"
    most = (
        f"{2**31 - 1 - zero_based}"
        if features is None
        else f"{features - zero_based} for {features} features"
    )
    return f"expected an index of at most {most}, {found}"


def _item(found: str) -> str:
    return f"expected index:value, {found}"


def _oddities(token: bytes) -> str:
    """A hint for bytes that no text file of numbers holds."""
    if b"\0" in token:
        return " (NUL bytes: a binary file, or UTF-16 text?)"
    if b"\r" in token:
        return " (a carriage return inside the line)"
    return ""


def _bad_label(token: bytes, found: str) -> str:
    if _NOT_FINITE.fullmatch(token.decode("latin-1")):
        return f"expected a finite number, {found}"
    if token in MODEL_WORDS:
        return f"expected a number as label, {found} (this looks like a model file, not data)"
    if re.match(rb"\d+:", token):
        return f"expected a label before the first index:value, {found}"
    if re.fullmatch(rb"[-+.\deE]+(,[-+.\deE]+)+", token):
        return f"expected one label, {found} ({CSV_HINT}; rows with several labels are not supported)"
    if re.search(rb"[,;]", token):
        return f"expected a number as label, {found} ({CSV_HINT})"
    return f"expected a number as label, {found}{_oddities(token)}"


def header_hint(fault: int, token: bytes) -> str:
    """A hint for a name in the first line of a file."""
    known = token in MODEL_WORDS or _NOT_FINITE.fullmatch(token.decode("latin-1"))
    is_name = fault == Fault.BAD_LABEL and not known and re.fullmatch(rb"[\"']?[A-Za-z]\w+[\"']?", token)
    return " (a header? --csv (odmlib.read_table) reads tables with one)" if is_name else ""


def _bad_item(token: bytes, found: str) -> str:
    if token.startswith(b"qid:"):
        return f"{_item(found)} (qid may stand only in a data file, right after the label)"
    if re.match(rb"-\d+:", token):
        return f"expected an index that is not negative, {found}"
    if re.match(rb"[-+.\deE]+:", token):
        return f"expected a whole number as index, {found}"
    if re.fullmatch(rb"[-+.\deE]+", token):
        return f"{_item(found)} ({CSV_HINT})"
    return _item(found) + _oddities(token)


def _bad_value(token: bytes, found: str) -> str:
    if _NOT_FINITE.fullmatch(token.decode("latin-1")):
        return f"expected a finite number, {found}"
    if token.find(b":") > 0 and b"\0" not in token:
        return f"expected a single value, {found} (two items run together?)"
    if b"," in token:
        return f"expected a number with a decimal point, {found}"
    return f"expected a number as value, {found}{_oddities(token)}"
