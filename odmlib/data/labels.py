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
    """A label as a plain Python object; whole floating-point numbers, which is how files give labels, as int."""
    label = label.item() if isinstance(label, np.generic) else label
    if isinstance(label, float) and label.is_integer() and abs(label) < 1e20:
        return int(label)
    return label.decode("utf-8", "replace") if isinstance(label, bytes) else label


def show_labels(labels: NDArray, most: int = 10) -> str:
    """The labels in a message."""
    shown = ", ".join(str(python_label(label)) for label in labels[:most])
    return shown + (", ..." if len(labels) > most else "")


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
    return kind, " ".join(json.dumps(label) for label in plain)


def read_labels(kind: str, text: str) -> NDArray:
    """The labels that `write_labels` wrote; ValueError says what is wrong."""
    if kind != "mixed" and kind not in _TYPES:
        raise ValueError(f"unknown label type '{kind}'")
    values = [_number(word) for word in text.split()] if kind == "float" else _json_values(text)
    if not all(math.isfinite(value) for value in values if isinstance(value, float)):
        raise ValueError("labels must be finite")
    if kind == "mixed":
        labels = np.empty(len(values), dtype=object)
        labels[:] = values
        return labels
    wanted = {"float": float, "int": int, "unsigned": int, "bool": bool, "str": str}[kind]
    for value in values:
        if not isinstance(value, wanted) or (isinstance(value, bool) and kind != "bool"):
            raise ValueError(f"label {value!r} is not of type {kind}")
    try:
        labels = np.array(values, dtype=_TYPES[kind])
    except OverflowError:
        raise ValueError(f"a label does not fit the type {kind}") from None
    return labels


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"expected numbers, found '{word[:60]}'") from None


def _json_values(text: str) -> list[Any]:
    """Strings, numbers, true and false parted by blanks; nothing that holds others."""
    import json

    decoder = json.JSONDecoder()
    values = []
    while text := text.strip():
        if text[0] in "[{n":
            raise ValueError("a label must be a string, a number, true or false")
        try:
            value, end = decoder.raw_decode(text)
        except ValueError:
            raise ValueError(f"expected strings in quotes, numbers, true or false, found '{text[:60]}'") from None
        if end < len(text) and not text[end].isspace():
            raise ValueError("labels must be parted by blanks")
        values.append(value)
        text = text[end:]
    return values
