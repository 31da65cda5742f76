"""How good predicted numbers are, by LIBSVM's two measures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.errors import ParameterError
from odmlib.values import counted


class RegressionMeasures(NamedTuple):
    mean_squared_error: float
    squared_correlation: float  # NaN where the predictions or the targets are all the same

    def lines(self, before: str = "", behind: str = "") -> tuple[str, str]:
        """What svm-predict and svm-train -v print."""
        return (
            f"{before}Mean squared error = {self.mean_squared_error:g}{behind}",
            f"{before}Squared correlation coefficient = {self.squared_correlation:g}{behind}",
        )


def regression_measures(predicted: Floats, targets: Floats) -> RegressionMeasures:
    """Several outputs count as so many rows.

    >>> regression_measures(np.array([2.0, 4.0, 5.0, 7.0]), np.array([1.0, 3.0, 4.0, 6.0]))
    RegressionMeasures(mean_squared_error=1.0, squared_correlation=1.0)
    """
    predicted, targets = (np.asarray(numbers, dtype=np.float64).ravel() for numbers in (predicted, targets))
    with np.errstate(over="ignore"):  # an infinite error says so
        error = float(np.mean(np.square(predicted - targets)))
    first, second = (_in_unit(numbers - numbers.mean()) for numbers in (predicted, targets))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.square(first @ second) / ((first @ first) * (second @ second))
    return RegressionMeasures(error, float(correlation))


def r_squared(predicted: Floats, targets: Floats) -> float:
    """The part of the targets' variance that is explained, as scikit-learn's r2_score: the mean over outputs.

    >>> r_squared(np.array([1.0, 2.0, 4.0]), np.array([[1.0], [2.0], [3.0]]))
    0.5
    """
    predicted = predicted.reshape(len(predicted), -1)
    check_shape(predicted, targets)
    errors = np.square(predicted - targets).sum(axis=0)
    spreads = np.square(targets - targets.mean(axis=0)).sum(axis=0)
    unexplained = np.where(errors == 0, 0.0, 1.0)  # where the targets are all the same
    np.divide(errors, spreads, out=unexplained, where=spreads > 0)
    return float(np.mean(1 - unexplained))


def check_shape(predicted: Floats, targets: Floats) -> None:
    """Both are rows x outputs."""
    if len(predicted) != len(targets):
        raise ParameterError(f"X has {len(predicted)} rows but y has {len(targets)} targets")
    if predicted.shape != targets.shape:
        outputs, columns = counted(len(predicted.T), "output"), counted(len(targets.T), "column")
        raise ParameterError(f"the model has {outputs} but y has {columns}")


def _in_unit(numbers: Floats) -> Floats:
    """Divided by a power of 2, without rounding, so that squares of squares neither overflow nor vanish."""
    return np.ldexp(numbers, -_exponent(numbers))


def _exponent(numbers: Floats) -> int:
    return int(np.frexp(np.abs(numbers).max(initial=0.0))[1])


class RegressionSums:
    """The same measures for rows that come part by part."""

    def __init__(self) -> None:
        self.n, self.shift = 0, 0.0
        self.exponents = 0, 0  # of the units that the moments count in
        self.error, self.distance, self.moments = 0.0, 0.0, np.zeros(5)

    def add(self, predicted: Floats, targets: Floats) -> None:
        if self.n == 0 and len(targets):
            self.shift = float(targets[0])  # keeps the sums small
        first, second = predicted - self.shift, targets - self.shift
        if self.n == 0:
            self.exponents = _exponent(first), _exponent(second)
        first, second = np.ldexp(first, -self.exponents[0]), np.ldexp(second, -self.exponents[1])
        self.n += len(targets)
        with np.errstate(over="ignore"):  # an infinite error says so
            self.error += float(np.square(predicted - targets).sum())
            self.distance += float(np.abs(predicted - targets).sum())
            self.moments += [first.sum(), second.sum(), first @ first, second @ second, first @ second]

    def measures(self) -> RegressionMeasures:
        p, t, pp, tt, pt = self.moments
        spread = (self.n * pp - p * p) * (self.n * tt - t * t)
        with np.errstate(invalid="ignore", divide="ignore"):
            correlation = np.square(self.n * pt - p * t) / np.float64(spread)
        return RegressionMeasures(self.error / self.n, float(correlation))

    def report(self) -> dict[str, float]:
        """These measures and others; NaN where the targets are all the same."""
        _, t, _, tt, _ = self.moments
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            spread = np.ldexp(np.float64(tt - t * t / self.n), 2 * self.exponents[1])
            r_squared = 1 - self.error / spread if spread > 0 else np.nan
        more = {"mean_absolute_error": self.distance / self.n, "r_squared": float(r_squared)}
        return self.measures()._asdict() | more
