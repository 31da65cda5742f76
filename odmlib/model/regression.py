"""How good predicted numbers are, by LIBSVM's two measures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmlib._core.arrays import Floats


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
    error = float(np.mean(np.square(predicted - targets)))
    first, second = predicted - predicted.mean(), targets - targets.mean()
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.square(first @ second) / ((first @ first) * (second @ second))
    return RegressionMeasures(error, float(correlation))


class RegressionSums:
    """The same measures for rows that come part by part."""

    def __init__(self) -> None:
        self.n, self.shift = 0, 0.0
        self.error, self.moments = 0.0, np.zeros(5)

    def add(self, predicted: Floats, targets: Floats) -> None:
        if self.n == 0 and len(targets):
            self.shift = float(targets[0])  # keeps the sums small
        first, second = predicted - self.shift, targets - self.shift
        self.n += len(targets)
        self.error += float(np.square(predicted - targets).sum())
        self.moments += [first.sum(), second.sum(), first @ first, second @ second, first @ second]

    def measures(self) -> RegressionMeasures:
        p, t, pp, tt, pt = self.moments
        spread = (self.n * pp - p * p) * (self.n * tt - t * t)
        with np.errstate(invalid="ignore", divide="ignore"):
            correlation = np.square(self.n * pt - p * t) / np.float64(spread)
        return RegressionMeasures(self.error / self.n, float(correlation))
