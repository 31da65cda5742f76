"""The decision functions a model may hold: sums over columns, over support vectors, or over serials."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula

Floats = NDArray[np.float64]

MAX_DENSE_COLUMNS = 1 << 24  # wider weight vectors stay sparse: a huge feature index costs no memory


@dataclass(frozen=True)
class LinearFunction:
    """f(x) = sum over columns of weight x_column + bias bias_weight; other columns weigh nothing."""

    columns: NDArray[np.int32]  # ascending
    weights: Floats
    bias: float
    bias_weight: float

    def scores(self, rows: Dataset, threads: int) -> Floats:
        from odmlib._core.rows import Rows

        if rows.n_features <= MAX_DENSE_COLUMNS:
            dense = np.zeros(rows.n_features)
            known = self.columns < rows.n_features
            dense[self.columns[known]] = self.weights[known]
            result = Rows(rows).product(dense, threads)
        else:
            result = Rows(rows.on_columns(self.columns)).product(self.weights, threads)
        return result + self.bias * self.bias_weight


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
        from odmlib._core.rows import Rows

        dense = np.zeros(rows.n_features)
        dense[self.serials - 1] = self.coefficients
        return Rows(rows).product(dense, threads) + self.bias**2 * float(self.coefficients.sum())


Function = LinearFunction | KernelFunction | PrecomputedFunction
