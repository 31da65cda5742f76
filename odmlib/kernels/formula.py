"""KernelFormula: which kernel, with which numbers.

    linear       u'v
    poly         (gamma u'v + coef0)^degree
    rbf          exp(-gamma |u - v|^2)
    sigmoid      tanh(gamma u'v + coef0)
    precomputed  a matrix given by the caller

each plus bias^2 (a constant feature of value `bias` in the feature space; 0 means none).
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.errors import ParameterError
from odmlib.names import KERNEL_NUMBERS, KERNELS
from odmlib.parameters import MAX_DEGREE


@dataclass(frozen=True)
class KernelFormula:
    """A kernel by name with its numbers; those that the kernel does not use are not looked at.

    `degree` is a whole number >= 1: a fractional power of a negative number is not defined.
    """

    name: str = "rbf"
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0
    bias: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in KERNELS:
            raise ParameterError(f"kernel must be one of {', '.join(KERNELS)}, found {self.name!r}")
        used = self.parameter_names
        if "gamma" in used and not (math.isfinite(self.gamma) and self.gamma >= 0):
            raise ParameterError(f"gamma must be a finite number >= 0, found {self.gamma}")
        if "coef0" in used and not math.isfinite(self.coef0):
            raise ParameterError(f"coef0 must be a finite number, found {self.coef0}")
        if not (math.isfinite(self.bias) and self.bias >= 0):
            raise ParameterError(f"bias must be a finite number >= 0, found {self.bias}")
        if self.name == "poly":
            try:
                degree = operator.index(self.degree)
            except TypeError:
                degree = 0
            if not 1 <= degree <= MAX_DEGREE:
                raise ParameterError(
                    f"degree must be a whole number from 1 to {MAX_DEGREE}, found {self.degree}"
                )

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The numbers this kernel uses, besides the bias."""
        return KERNEL_NUMBERS[self.name]

    def bound(self, squared_norm: float) -> float:
        """No value between rows of at most this squared length is larger in size (infinity: overflow)."""
        bias_squared = self.bias * self.bias
        if self.name == "linear":
            return squared_norm + bias_squared
        if self.name == "poly":
            try:
                return (self.gamma * squared_norm + abs(self.coef0)) ** self.degree + bias_squared
            except OverflowError:
                return math.inf
        return 1.0 + bias_squared

    def on_diagonal(self, squared_norms: Floats) -> Floats:
        """k(x, x) for rows of these squared lengths."""
        if self.name == "linear":
            values = squared_norms
        elif self.name == "poly":
            values = (self.gamma * squared_norms + self.coef0) ** self.degree
        elif self.name == "sigmoid":
            values = np.tanh(self.gamma * squared_norms + self.coef0)
        else:
            values = np.ones_like(squared_norms)
        return values + self.bias * self.bias
