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

from odmlib.data.dataset import Dataset
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
        from scipy.linalg import solve_triangular

        return solve_triangular(self.factor, weights, lower=True, trans="T", check_finite=False)


def nystrom_features(
    kernel: Kernel, rank: int, seed: int = 0, out_of_time: Callable[[], object] = lambda: None
) -> NystromFeatures:
    """Features from at most `rank` landmarks; fewer where their span is complete or the time is over."""
    n = kernel.n_rows
    sample, searched = None, kernel
    size = max(SAMPLE_ROWS, SAMPLE_PER_LANDMARK * rank)
    if n > size:
        sample = np.sort(np.random.default_rng(seed).permutation(n)[:size])
        searched = kernel.restricted(sample)
    found = choose_landmarks(searched, rank, out_of_time)
    factor = np.tril(found.factor[found.rows])
    landmarks = found.rows if sample is None else sample[found.rows]
    del found, searched
    rank = len(landmarks)
    values = np.empty((n, rank))
    step = max(64, BLOCK_VALUES // max(1, rank))
    for begin in range(0, n, step):
        some = np.arange(begin, min(begin + step, n))
        block = kernel.block(landmarks, onto=kernel.restricted(some), wide=True)
        forward_substitution(factor, block, values[begin : begin + step], kernel.threads)
    diagonal = kernel.diagonal()
    left = float(np.maximum(0.0, diagonal - np.einsum("ij,ij->i", values, values)).sum())
    rows = Dataset(
        np.arange(n + 1, dtype=np.int64) * rank,
        np.tile(np.arange(rank, dtype=np.int32), n),
        values.reshape(-1),
        rank,
    )
    return NystromFeatures(landmarks, factor, rows, left / float(diagonal.sum()))
