"""Nystrom features: a kernel machine over landmarks as a linear machine (spec/sodm.md section 4).

With landmarks z_1..z_r (landmarks.py) and K_ZZ = L L', the features  phi(x) = L^-1 k_Z(x)  have the products
k_Z(x)' K_ZZ^-1 k_Z(u), which is k(x, u) between projections onto the landmarks' span. A linear machine w on
them is the function

    f(x) = <w, phi(x)> = sum_s beta_s k(z_s, x),   beta = L^-T w,   |f|^2 = |w|^2:

an ordinary kernel expansion. So training on the features minimises the machine's own objective over the span
of the landmarks: its value is exact for f, and an upper bound of what all rows could reach.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odmlib.data.dataset import Dataset, dense_rows, stacked
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.solvers._dense import forward_substitution
from odmlib.solvers.landmarks import choose_landmarks

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

SAMPLE_ROWS = 5000  # among which landmarks are looked for ...
SAMPLE_PER_LANDMARK = 4  # ... or so many for each of them, where that is more
BLOCK_VALUES = 1 << 22  # kernel values held at a time: 32 MB


@dataclass(frozen=True)
class NystromFeatures:
    landmarks: Places  # rows, in the order of the features
    factor: Floats  # L of K_ZZ = L L'
    rows: Dataset  # a feature per landmark, for every row
    trace_error: float  # part of the kernel matrix's trace that lies outside the landmarks' span

    def coefficients(self, weights: Floats) -> Floats:
        """beta = L^-T w of one or more weight vectors (columns)."""
        return coefficients(self.factor, weights)


def coefficients(factor: Floats, weights: Floats) -> Floats:
    """beta = L^-T w of one or more weight vectors (columns)."""
    from scipy.linalg import solve_triangular

    return solve_triangular(factor, weights, lower=True, trans="T", check_finite=False)


def nystrom_features(
    kernel: Kernel, rank: int, seed: int = 0, out_of_time: Callable[[], object] = lambda: None
) -> NystromFeatures:
    """Features from at most `rank` landmarks; fewer where their span is complete or the time is over."""
    n = kernel.n_rows
    sample, searched = rows_to_search(n, rank, seed), kernel
    if len(sample) < n:
        searched = kernel.restricted(sample)
    found = choose_landmarks(searched, rank, out_of_time)
    factor = np.tril(found.factor[found.rows])
    landmarks = sample[found.rows]
    del found, searched
    values = _projected(kernel, landmarks, np.arange(n), factor)
    diagonal = kernel.diagonal()
    left = float(np.maximum(0.0, diagonal - np.einsum("ij,ij->i", values, values)).sum())
    return NystromFeatures(landmarks, factor, dense_rows(values), left / float(diagonal.sum()))


def rows_to_search(n_rows: int, count: int, seed: int) -> Places:
    """The rows, ascending, among which to look for so many landmarks: all, or some drawn at random."""
    size = max(SAMPLE_ROWS, SAMPLE_PER_LANDMARK * count)
    if n_rows <= size:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, size, replace=False, shuffle=False))


def features_over(
    landmarks: Dataset, factor: Floats, rows: Dataset, formula: KernelFormula, threads: int
) -> tuple[Floats, Floats]:
    """Features of rows that lie elsewhere than the landmarks do, and k(x, x) of these rows."""
    kernel = Kernel(formula, stacked([landmarks, rows]), threads)
    some = np.arange(landmarks.n_rows, kernel.n_rows)
    return _projected(kernel, np.arange(landmarks.n_rows), some, factor), kernel.diagonal()[some]


def _projected(kernel: Kernel, landmarks: Places, rows: Places, factor: Floats) -> Floats:
    """L^-1 k_Z(x) of the given rows of the kernel, which has the landmarks among its rows."""
    rank = len(landmarks)
    values = np.empty((len(rows), rank))
    step = max(64, BLOCK_VALUES // max(1, rank))
    for begin in range(0, len(rows), step):
        some = kernel.restricted(rows[begin : begin + step])
        block = kernel.block(landmarks, onto=some, wide=True)
        forward_substitution(factor, block, values[begin : begin + step], kernel.threads)
    return values
