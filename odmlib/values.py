"""What an option may hold: a Kind reads a value from a word of the command line, and checks it from anywhere.

`fault` says what is wrong with a value, as a message says it behind `must be`. Light: no numpy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

from odmlib.errors import ParameterError


def read_number(text: str) -> float:
    try:
        return float(_plain(text))
    except ValueError:
        raise ValueError(f"expected a number, found {shown_word(text)}") from None


def read_whole(text: str) -> int:
    try:
        return int(_plain(text))
    except ValueError:
        raise ValueError(f"expected a whole number, found {shown_word(text)}") from None


def shown_word(text: str) -> str:
    return f"'{text}'" if text else "nothing"


def shown_value(value: Any) -> str:
    """A value in a message; numpy's numbers as plain ones.

    >>> shown_value("a"), shown_value(2.0)
    ("'a'", '2.0')
    """
    return repr(value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value)


def counted(number: int, noun: str) -> str:
    """A number of things in words.

    >>> counted(1, "row"), counted(2, "row")
    ('1 row', '2 rows')
    """
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _plain(text: str) -> str:
    """Refuse what only Python takes for a number: `1_000`, digits of other scripts."""
    if "_" in text or not text.isascii():
        raise ValueError
    return text


def as_float(value: Any) -> float:
    """NaN for what is no number; text is none, even if it could be read as one."""
    try:
        return float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        return math.inf


def with_flag(name: str, usage: str) -> str:
    """How messages name an option: `theta (-p)`."""
    return f"{name} ({usage.split()[0]})" if usage else name


def wrong(shown: str, fault: str) -> ParameterError:
    """The error about an option, as messages show it."""
    return ParameterError(f"{shown} must be {fault}")


class Kind:
    """Any value at all; as text it stays text, or becomes what `read` makes of it."""

    expected = "a number in range"

    def read(self, text: str) -> Any:
        return text

    def fault(self, value: Any) -> str | None:
        return None

    def checked(self, text: str) -> Any:
        """The good value that `text` says; ValueError if it is none."""
        value = self.read(text)
        if self.fault(value) is not None:
            raise ValueError
        return value


class Number(Kind):
    """A finite number from `low` to `high`, whose infinite ends are always open; or one of `words`."""

    def __init__(
        self,
        low: float = -math.inf,
        high: float = math.inf,
        *,
        open_low: bool = False,
        open_high: bool = False,
        words: tuple[str, ...] = (),
    ):
        self.low, self.high, self.open_low, self.open_high = low, high, open_low, open_high
        self.words = words

    def read(self, text: str) -> str | float:
        return text if text in self.words else read_number(text)

    def fault(self, value: Any) -> str | None:
        if isinstance(value, str) and value in self.words:
            return None
        *others, last = map(repr, self.words or ("",))
        also = f", {', '.join(others)} or {last}" if self.words else ""
        if not isinstance(value, Real):
            return f"a number{also}, found {shown_value(value)}"
        number = as_float(value)
        fits = math.isfinite(number) and self.low <= number <= self.high
        fits = fits and not (self.open_low and number == self.low)
        if fits and not (self.open_high and number == self.high):
            return None
        ends = []
        if math.isfinite(self.low):
            ends.append(f"{'above' if self.open_low else 'at least'} {self.low:g}")
        if math.isfinite(self.high):
            ends.append(f"{'below' if self.open_high else 'at most'} {self.high:g}")
        return f"{' and '.join(ends) or 'finite'}{also}, found {shown_value(value)}"


class Whole(Kind):
    """A whole number from `low` to `high`, or `word`."""

    def __init__(self, low: int, high: int, word: str | None = None):
        self.low, self.high, self.word = low, high, word

    def read(self, text: str) -> int | str:
        return text if text == self.word else read_whole(text)

    def fault(self, value: Any) -> str | None:
        if isinstance(value, Integral) and self.low <= int(value) <= self.high:
            return None
        if isinstance(value, str) and value == self.word:
            return None
        also = "" if self.word is None else f" or {self.word!r}"
        return f"a whole number from {self.low} to {self.high}{also}, found {shown_value(value)}"


class Choice(Kind):
    """One of `names`. `numbered`: what they are, where their positions are LIBSVM's numbers for them.
    `elsewhere`: words of other programs, and what to say about them."""

    def __init__(
        self,
        names: tuple[str, ...],
        expected: str = "",
        numbered: str = "",
        elsewhere: Mapping[str, str] | None = None,
    ):
        self.names, self.numbered, self.elsewhere = names, numbered, elsewhere or {}
        self.expected = expected or "one of " + ", ".join(names)

    def fault(self, value: Any) -> str | None:
        if value in self.names:
            return None
        near = value.lower() if isinstance(value, str) else ""
        if self.numbered and isinstance(value, Integral) and 0 <= int(value) < len(self.names):
            near = self.names[int(value)]
        meant = f"; did you mean {near!r}?" if near in self.names else ""
        if callable(value) and "precomputed" in self.names:
            meant = "; a kernel of your own is a matrix: kernel='precomputed'"
        return f"{self.expected}, found {shown_value(value)}{meant}"

    def read(self, text: str) -> str:
        if text.lower() in self.names:
            return text.lower()
        if not self.numbered:
            return text
        if text.isascii() and text.isdigit() and int(text) < len(self.names):
            return self.names[int(text)]
        known = ", ".join(f"{number} {name}" for number, name in enumerate(self.names))
        hint = f"; {self.elsewhere[text]}" if text in self.elsewhere else ""
        raise ValueError(f"unknown {self.numbered} '{text}' (known: {known}){hint}")


class Switch(Kind):
    """0 or 1, False or True."""

    def fault(self, value: Any) -> str | None:
        return None if value in (False, True) else f"0 or 1, found {shown_value(value)}"

    def read(self, text: str) -> bool:
        if text not in ("0", "1"):
            raise ValueError(f"expected 0 or 1, found '{text}'")
        return text == "1"


class ClassWeight(Kind):
    """'balanced', or a mapping from label to weight."""

    def fault(self, value: Any) -> str | None:
        if not (isinstance(value, Mapping) or (isinstance(value, str) and value == "balanced")):
            return f"'balanced' or a mapping from label to weight, found {shown_value(value)}"
        for label, weight in value.items() if isinstance(value, Mapping) else ():
            if not 0 <= as_float(weight) < math.inf:
                raise ParameterError(
                    f"class weight (-w) of {label} must be finite and at least 0, found {shown_value(weight)}"
                )
        return None


class Function(Kind):
    def fault(self, value: Any) -> str | None:
        return None if callable(value) else f"a function, found {shown_value(value)}"


class Option(NamedTuple):
    """An option of training; None is a good value where it is the default. Without usage: Python only."""

    default: Any
    usage: str  # `-p --theta T`: flags, and what stands for the value in the help
    kind: Kind
    help: str
