"""What models of LIBSVM and of LIBLINEAR have in common: whole-number labels, a header of keys, no report."""

from __future__ import annotations

from typing import Any

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.data.labels import python_label
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.model.functions import Function
from odmlib.model.model import Model
from odmlib.model.text_format import ModelReader, whole
from odmlib.names import CONVERTED

LARGEST_LABEL = 2**31 - 1  # both programs keep labels as C's int
LARGEST_COUNT = 2**31 - 1


def whole_labels(model: Model, program: str) -> list[int]:
    """The labels as the other program can hold them; ParameterError names the first that it cannot."""
    labels = []
    for label in map(python_label, model.labels):
        is_whole = isinstance(label, int) and not isinstance(label, bool)
        if not is_whole or not -LARGEST_LABEL - 1 <= label <= LARGEST_LABEL:
            raise ParameterError(
                f"label {label!r} cannot be converted: labels of a {program} model are whole numbers from "
                f"{-LARGEST_LABEL - 1} to {LARGEST_LABEL}"
            )
        labels.append(label)
    return labels


# the machines of one output that have no classes: scheme and labels of their models
ONE_OUTPUT: dict[str, tuple[str, Any]] = {
    "odmr": ("regression", np.empty(0)),
    "odmo": ("binary", np.array([1.0, -1.0])),
}


def require_one_output(model: Model, program: str) -> None:
    if model.n_outputs > 1:
        raise ParameterError(
            f"{program} predicts one number per row, the model has {model.n_outputs} outputs"
        )


def refuse_overflow(program: str, *numbers: Any) -> None:
    """ParameterError unless all numbers that the file would hold are finite."""
    if not all(np.isfinite(part).all() for part in numbers):
        raise ParameterError(f"the numbers of the model overflow in {program}'s form; scale the data")


class ForeignReader(ModelReader):
    """A model file of another program; as ours it is read without trust."""

    has_magic = False

    def take_kind(self, key: str, what: str, known: tuple[str, ...]) -> str:
        """Which of the program's machines it is."""
        kind = self.take(key, str, what)
        if kind not in known:
            raise self.fault(f"{key}: only {', '.join(known)} can be converted, found '{kind[:60]}'")
        return kind

    def take_labels(self, n_classes: int) -> Floats:
        def convert(text: str) -> Floats:
            words = text.split()
            if len(words) != n_classes or not all(map(_is_whole, words)):
                raise ValueError
            labels = [int(word) for word in words]
            if len(set(labels)) != n_classes:
                raise ValueError
            return np.array(labels, dtype=np.float64)

        return self.take("label", convert, f"{n_classes} different whole numbers")

    def take_whole(self, key: str, least: int = 0) -> int:
        expected = "a whole number" + (f" of {least} or more" if least else "")
        return self.take(key, whole(LARGEST_COUNT, least), expected)

    def made(
        self,
        formula: KernelFormula,
        labels: Floats,
        n_features: int,
        function: Function,
        scheme: str,
        origin: str,
        zero_based: bool = False,
        extras: dict[str, Any] | None = None,
        machine: str = "svm",
    ) -> Model:
        """Our model; what the other program did not write down is None in its report."""
        parameters: dict[str, Any] = {"bias": formula.bias}
        parameters |= {name: getattr(formula, name) for name in formula.parameter_names}
        unknown = ("rows", "nonzeros", "iterations", "primal", "dual", "gap", "seconds", "threads", "seed")
        report = dict.fromkeys(unknown) | {
            "machine": machine,
            "kernel": formula.name,
            "parameters": dict(parameters),
            "features": n_features,
            "scheme": scheme,
            "labels": [python_label(label) for label in labels],
            "status": CONVERTED,
            "solver": origin,
            "margin": {},
            "support_vectors": function.n_vectors,
        }
        return Model(
            machine,
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


def _is_whole(word: str) -> bool:
    digits = word.removeprefix("-").removeprefix("+")
    return digits.isascii() and digits.isdigit() and len(digits) <= 10 and abs(int(word)) <= LARGEST_LABEL + 1
