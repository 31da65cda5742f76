"""The decision functions a model may hold: sums over columns, over support vectors, or over serials."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odmlib.data.dataset import Dataset
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula

Floats = NDArray[np.float64]

DENSE_COLUMNS = 1 << 16  # wider weight vectors stay sparse unless the rows are large too


def weighted_sums(rows: Dataset, columns: NDArray[np.int32], weights: Floats, threads: int) -> Floats:
    """Sum over ascending columns of weight x_column, for every row; a huge column number costs no memory."""
    from odmlib._core.rows import Rows

    if rows.n_features <= max(DENSE_COLUMNS, rows.n_nonzeros):
        dense = np.zeros(rows.n_features)
        known = columns < rows.n_features
        dense[columns[known]] = weights[known]
        sums = Rows(rows).product(dense, threads)
    else:
        sums = Rows(rows.on_columns(columns)).product(weights, threads)
    if not np.isfinite(sums).all():
        raise ParameterError("decision values overflow on these rows; scale the data")
    return sums


@dataclass(frozen=True)
class LinearFunction:
    """f(x) = sum over columns of weight x_column + bias bias_weight; other columns weigh nothing."""

    columns: NDArray[np.int32]  # ascending
    weights: Floats
    bias: float
    bias_weight: float

    def scores(self, rows: Dataset, threads: int) -> Floats:
        return weighted_sums(rows, self.columns, self.weights, threads) + self.bias * self.bias_weight


@dataclass(frozen=True)
class KernelFunction:
    """f(x) = sum over support vectors of coefficient k(x, vector)."""

    formula: KernelFormula
    vectors: Dataset
    coefficients: Floats

    def scores(self, rows: Dataset, threads: int) -> Floats:
        from odmlib.kernels.expansion import kernel_scores

        return kernel_scores(self.formula, self.vectors, self.coefficients, rows, threads)


@dataclass(frozen=True)
class PrecomputedFunction:
    """f = sum over support vectors of coefficient (K[x, serial] + bias^2); serials count from 1."""

    serials: NDArray[np.int64]
    coefficients: Floats
    bias: float

    def scores(self, rows: Dataset, threads: int) -> Floats:
        serials, places = np.unique(self.serials, return_inverse=True)  # a serial may stand twice
        weights = np.bincount(places, self.coefficients, minlength=len(serials))
        constant = self.bias**2 * float(self.coefficients.sum())
        return weighted_sums(rows, (serials - 1).astype(np.int32), weights, threads) + constant


Function = LinearFunction | KernelFunction | PrecomputedFunction
