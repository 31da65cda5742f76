"""How labels are written, and read back as what they were."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def format_label(label: float) -> str:
    """A text that reads back to the same number; whole numbers up to 20 digits in full.

    >>> format_label(1.0), format_label(-0.0), format_label(0.1), format_label(2.0**63)
    ('1', '0', '0.1', '9223372036854775808')
    """
    label = float(label)
    return str(int(label)) if label.is_integer() and abs(label) < 1e20 else repr(label)


def python_label(label: Any) -> Any:
    """A label as a plain Python object; whole numbers, which files give as doubles, as int."""
    label = label.item() if isinstance(label, np.generic) else label
    if isinstance(label, float) and label.is_integer() and abs(label) < 1e20:
        return int(label)
    return label.decode("utf-8", "replace") if isinstance(label, bytes) else label


def show_labels(labels: NDArray, most: int = 10) -> str:
    """The labels in a message."""
    shown = ", ".join(_cut(str(python_label(label))) for label in labels[:most])
    return shown + (", ..." if len(labels) > most else "")


def _cut(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[:most] + "..."


# names of the label types that a model file can hold, and the numpy types they come back as
_TYPES = {"float": np.float64, "int": np.int64, "unsigned": np.uint64, "bool": np.bool_, "str": np.str_}
_KINDS = {"f": "float", "i": "int", "u": "unsigned", "b": "bool", "U": "str"}


def write_labels(labels: NDArray) -> tuple[str, str]:
    """(type, text) of a model's labels; the text is JSON values parted by blanks."""
    kind = _KINDS.get(labels.dtype.kind, "mixed")
    if kind == "float":
        return kind, " ".join(format_label(label) for label in labels)
    import json

    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    for label in plain:
        if not isinstance(label, str | bool | int | float):
            raise ValueError(f"labels of type {type(label).__name__} cannot be written to a model file")
    if kind == "mixed" and all(isinstance(label, str) for label in plain) and _uneven(plain):
        kind = "str"  # as such strings come back from a file
    return kind, " ".join(json.dumps(label) for label in plain)


def read_labels(kind: str, text: str) -> NDArray:
    """The labels that `write_labels` wrote; ValueError says what is wrong."""
    if kind != "mixed" and kind not in _TYPES:
        raise ValueError(f"unknown label type '{kind}'")
    values = [_number(word) for word in text.split()] if kind == "float" else _json_values(text)
    if not all(math.isfinite(value) for value in values if isinstance(value, float)):
        raise ValueError("labels must be finite")
    if kind == "mixed":
        return _objects(values)
    wanted = {"float": float, "int": int, "unsigned": int, "bool": bool, "str": str}[kind]
    for value in values:
        if not isinstance(value, wanted) or (isinstance(value, bool) and kind != "bool"):
            raise ValueError(f"label {_cut(repr(value))} is not of type {kind}")
    if kind == "str" and _uneven(values):
        return _objects(values)
    try:
        if kind == "unsigned" and min(values, default=0) < 0:
            raise OverflowError  # numpy 1.26 wraps negative numbers around
        return np.array(values, dtype=_TYPES[kind])
    except OverflowError:
        raise ValueError(f"a label does not fit the type {kind}") from None


def are_distinct(labels: NDArray) -> bool:
    """Whether no label stands twice; in linear time, whatever the labels are."""
    return len({_key(label) for label in labels.tolist()}) == len(labels)


def _key(label: Any) -> Any:
    """Equal for equal labels. Large whole numbers become text: their own hashes can be made to collide."""
    if isinstance(label, int | float) and abs(label) >= 2**63:
        return int, hex(int(label))
    return label


def _uneven(texts: list[Any]) -> bool:
    """Whether a numpy array of these strings, all as wide as the longest, is much larger than the strings."""
    return len(texts) * max(map(len, texts), default=0) > 8 * sum(map(len, texts)) + (1 << 16)


def _objects(values: list[Any]) -> NDArray:
    labels = np.empty(len(values), dtype=object)
    labels[:] = values
    return labels


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"expected numbers, found '{word[:60]}'") from None


def _past_blanks(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _json_values(text: str) -> list[Any]:
    """Strings, numbers, true and false parted by blanks; nothing that holds others."""
    import json

    decoder = json.JSONDecoder()
    values = []
    place = _past_blanks(text, 0)
    while place < len(text):
        if text[place] in "[{n":
            raise ValueError("a label must be a string, a number, true or false")
        try:
            value, end = decoder.raw_decode(text, place)
        except ValueError:
            found = text[place : place + 60]
            raise ValueError(f"expected strings in quotes, numbers, true or false, found '{found}'") from None
        values.append(value)
        place = _past_blanks(text, end)
        if place == end < len(text):
            raise ValueError("labels must be parted by blanks")
    return values
