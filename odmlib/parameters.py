"""The numbers and choices of each machine, as reports and model files name them.

One table for the trainer, the report and the model file's reader and writer: a new machine adds one entry
to MACHINE_PARAMETERS, and to PARAMETERS whatever it is the first to use. Light: no numpy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from odmlib.names import BALANCES, RELAXATIONS


@dataclass(frozen=True)
class Parameter:
    """A number from `low` to `high`, both included where finite; or one of `choices`."""

    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()

    def read(self, text: str) -> float | str:
        """The value that `text` says; ValueError if it is none."""
        if self.choices:
            if text not in self.choices:
                raise ValueError
            return text
        value = float(text)
        if "_" in text or not math.isfinite(value) or not self.low <= value <= self.high:
            raise ValueError
        return value

    @property
    def expected(self) -> str:
        return "one of " + ", ".join(self.choices) if self.choices else "a number in range"


MAX_DEGREE = 100  # of the poly kernel

PARAMETERS = {
    "C": Parameter(0),
    "lambda": Parameter(0),
    "lambda1": Parameter(0),
    "lambda2": Parameter(0),
    "nu": Parameter(0, 1),
    "theta": Parameter(0, math.nextafter(1, 0)),
    "threshold": Parameter(choices=("midpoint", "kkt", "none")),
    "decision_scale": Parameter(choices=("unit", "svm")),
    "bias": Parameter(0),
    "tol": Parameter(0, 1),
    "relaxation": Parameter(choices=RELAXATIONS),
    "balance": Parameter(choices=BALANCES),
    "max_disagree": Parameter(0, 1),
}

# what a machine has besides the bias, the tolerance and the kernel's own numbers
MACHINE_PARAMETERS = {
    "svm": ("C", "lambda"),
    "odml": ("C", "lambda", "lambda1", "lambda2"),
    "odm": ("C", "lambda", "nu", "theta"),
    "mcodm": ("C", "lambda", "nu", "theta", "relaxation"),
    "sodm": ("C", "lambda", "nu", "theta"),
    "kmomd": ("lambda", "threshold", "decision_scale"),
    "ssodm": ("C", "lambda1", "lambda2", "nu", "theta", "balance", "max_disagree"),
}
COMMON_PARAMETERS = ("bias", "tol")


def parameter_names(machine: str) -> tuple[str, ...]:
    """All of a machine's parameters, in the order of reports and files; those of the kernel come behind."""
    return MACHINE_PARAMETERS[machine] + COMMON_PARAMETERS
