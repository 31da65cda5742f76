"""What models of LIBSVM and of LIBLINEAR have in common: whole-number labels, a header of keys, no report."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib.data._reader import parse_number
from odmlib.data.labels import python_label
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.model.functions import Function, LinearFunction
from odmlib.model.model import Model
from odmlib.model.text_reader import ModelReader
from odmlib.names import CONVERTED

LARGEST_LABEL = 2**31 - 1  # both programs keep labels as C's int
LARGEST_COUNT = 2**31 - 1


def whole_labels(model: Model, program: str) -> list[int]:
    """The labels as the other program can hold them; ParameterError names the first that it cannot."""
    labels = []
    for label in map(python_label, model.labels):
        whole = isinstance(label, int) and not isinstance(label, bool)
        if not whole or not -LARGEST_LABEL - 1 <= label <= LARGEST_LABEL:
            raise ParameterError(
                f"label {label!r} cannot be converted: labels of a {program} model are whole numbers from "
                f"{-LARGEST_LABEL - 1} to {LARGEST_LABEL}"
            )
        labels.append(label)
    return labels


def number_text(value: float) -> str:
    """A text that C's strtod reads back to the same number."""
    return repr(float(value)).removesuffix(".0")


def numbers_text(values: Any) -> str:
    return " ".join(map(number_text, values))


class ForeignReader(ModelReader):
    """A model file of another program; as ours it is read without trust."""

    has_magic = False

    def take_numbers(self, key: str, count: int) -> NDArray[np.float64]:
        """A header field of so many finite numbers."""

        def convert(text: str) -> NDArray[np.float64]:
            numbers = [parse_number(word.encode()) for word in text.split()]
            if len(numbers) != count or any(n is None or not math.isfinite(n) for n in numbers):
                raise ValueError
            return np.array(numbers, dtype=np.float64)

        expected = f"{count} number" + ("s" if count != 1 else "")
        return self.take(key, convert, expected)

    def take_labels(self, n_classes: int) -> NDArray[np.float64]:
        def convert(text: str) -> NDArray[np.float64]:
            words = text.split()
            if len(words) != n_classes or len(set(words)) != n_classes or not all(map(_is_whole, words)):
                raise ValueError
            return np.array([int(word) for word in words], dtype=np.float64)

        return self.take("label", convert, f"{n_classes} different whole numbers")

    def take_classes(self) -> int:
        return self.take("nr_class", whole_from(2), "a whole number of 2 or more")

    def refuse_rest(self) -> None:
        if self.fields:
            key, (_, line) = next(iter(self.fields.items()))
            raise self.fault(f"unknown key '{key[:60]}'", line)

    def made(
        self,
        formula: KernelFormula,
        labels: NDArray[np.float64],
        n_features: int,
        function: Function,
        scheme: str,
        origin: str,
        zero_based: bool = False,
        extras: dict[str, Any] | None = None,
    ) -> Model:
        """Our model; what the other program did not write down is None in its report."""
        parameters: dict[str, Any] = {"bias": formula.bias}
        parameters |= {name: getattr(formula, name) for name in formula.parameter_names}
        unknown = ("rows", "nonzeros", "iterations", "primal", "dual", "gap", "seconds", "threads", "seed")
        report = dict.fromkeys(unknown) | {
            "machine": "svm",
            "kernel": formula.name,
            "parameters": dict(parameters),
            "features": n_features,
            "scheme": scheme,
            "labels": [python_label(label) for label in labels],
            "status": CONVERTED,
            "solver": origin,
            "margin": {},
            "support_vectors": None if isinstance(function, LinearFunction) else function.n_vectors,
        }
        return Model(
            "svm",
            formula,
            labels,
            n_features,
            function,
            parameters,
            report,
            zero_based,
            scheme,
            extras or {},
        )


def whole_from(low: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not low <= int(text[:12]) <= LARGEST_COUNT:
            raise ValueError
        return int(text)

    return convert


def _is_whole(word: str) -> bool:
    digits = word.removeprefix("-").removeprefix("+")
    return digits.isascii() and digits.isdigit() and len(digits) <= 10 and abs(int(word)) <= LARGEST_LABEL + 1
