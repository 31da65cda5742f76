"""Landmarks, rows that span the feature space of a kernel well, and Nystrom features over them.

docs/internals/mathematics.md has the mathematics (SODM).

Pivoted Cholesky: each step takes the row whose squared distance to the span of those chosen so far is
largest, the lowest one where several are equal. With k = K(all rows, z) and d the squared distances,

    L[:, s] = (k - L[:, :s] L[z, :s]') / sqrt(d[z]),   d <- d - L[:, s]^2

so that L L' is the Nystrom approximation of the kernel matrix, and the rows of L are features for it. Costs
rows x landmarks kernel values and as many numbers of memory.

With landmarks z_1..z_r and K_ZZ = L L', the Nystrom features  phi(x) = L^-1 k_Z(x)  have the products
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

from odmlib._core.arrays import Floats, Places
from odmlib.data.dataset import Dataset, dense_rows, stacked
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.solvers.kernel.q_rows import add_block
from odmlib.solvers.linalg.dense import forward_substitution

JUDGED_FROM = 1 / 8  # of the landmarks allowed: whether they will be enough
NEGLIGIBLE = 1e-10  # of the largest k(x, x): a squared distance that small is rounding


@dataclass(frozen=True)
class Landmarks:
    rows: Places  # the rows chosen, in their order
    factor: Floats  # L: (all rows x landmarks)
    residual: Floats  # squared distance of every row to their span
    strata: Places  # for every row the landmark nearest to it, by position in `rows`
    pivots: Floats  # squared distance of each landmark to the span of those before it


def choose_landmarks(
    kernel: Kernel,
    count: int,
    out_of_time: Callable[[], object] = lambda: None,
    negligible: float = NEGLIGIBLE,
    goal: float = 0.0,
) -> Landmarks:
    """At most `count` landmarks: fewer where the rest lies in their span, or where the time is over.

    `negligible`: the squared distance, as a part of the largest k(x, x), at which a row lies in the span.
    `goal`: fewer also where `count` of them would not bring the distances down to that part. The logarithm
    of the largest distance falls more and more slowly, so it must be ahead of a steady fall.

    >>> from odmlib.data.dataset import Dataset
    >>> from odmlib.kernels.formula import KernelFormula
    >>> points = Dataset.from_any([[0.0], [1.0], [2.0], [3.0], [10.0]])
    >>> choose_landmarks(Kernel(KernelFormula("rbf", gamma=0.5), points), 3).rows.tolist()
    [0, 4, 3]
    """
    n, diagonal = kernel.n_rows, kernel.diagonal()
    count = min(count, n)
    residual = diagonal.copy()
    largest = float(diagonal.max(initial=0.0))
    enough = negligible * largest
    transposed = np.empty((count, n))  # L', a landmark's column in one piece
    chosen: list[int] = []
    pivots: list[float] = []
    nearest, strata = np.full(n, np.inf), np.zeros(n, dtype=np.int64)
    for s in range(count):
        z = int(np.argmax(residual))
        if residual[z] <= enough or (s > 0 and out_of_time() is not None):
            break
        if goal > 0 and s >= JUDGED_FROM * count and residual[z] > largest * goal ** (s / count):
            break
        pivots.append(float(residual[z]))
        values = kernel.block([z], wide=True)[0]
        transposed[s] = values
        add_block(transposed[:s], -transposed[:s, z], transposed[s], kernel.threads)
        transposed[s] /= np.sqrt(residual[z])
        residual -= np.square(transposed[s])
        np.maximum(residual, 0.0, out=residual)
        chosen.append(z)
        residual[chosen] = 0.0
        distance = diagonal + (diagonal[z] - 2 * values)
        closer = distance < nearest
        nearest[closer], strata[closer] = distance[closer], s
    found = np.array(chosen, dtype=np.int64), transposed[: len(chosen)].T, residual, strata
    return Landmarks(*found, np.array(pivots))


@dataclass(frozen=True)
class NystromTuning:
    sample_rows: int = 5000  # among which landmarks are looked for ...
    sample_per_landmark: int = 4  # ... or so many for each of them, where that is more
    block_values: int = 1 << 22  # kernel values held at a time: 32 MB


TUNING = NystromTuning()


@dataclass(frozen=True)
class NystromFeatures:
    landmarks: Places  # rows, in the order of the features
    factor: Floats  # L of K_ZZ = L L'
    rows: Dataset  # a feature per landmark, for every row
    trace_error: float  # part of the kernel matrix's trace that lies outside the landmarks' span


def coefficients(factor: Floats, weights: Floats) -> Floats:
    """beta = L^-T w of one or more weight vectors (columns)."""
    from scipy.linalg import solve_triangular

    return solve_triangular(factor, weights, lower=True, trans="T", check_finite=False)


def nystrom_features(
    kernel: Kernel,
    rank: int,
    seed: int = 0,
    out_of_time: Callable[[], object] = lambda: None,
    tuning: NystromTuning = TUNING,
) -> NystromFeatures:
    """Features from at most `rank` landmarks; fewer where their span is complete or the time is over."""
    n = kernel.n_rows
    sample, searched = rows_to_search(n, rank, seed, tuning), kernel
    if len(sample) < n:
        searched = kernel.restricted(sample)
    found = choose_landmarks(searched, rank, out_of_time)
    factor = np.tril(found.factor[found.rows])
    landmarks = sample[found.rows]
    del found, searched
    values = _projected(kernel, landmarks, np.arange(n), factor, tuning)
    diagonal = kernel.diagonal()
    left = float(np.maximum(0.0, diagonal - np.einsum("ij,ij->i", values, values)).sum())
    return NystromFeatures(landmarks, factor, dense_rows(values), left / float(diagonal.sum()))


def rows_to_search(n_rows: int, count: int, seed: int, tuning: NystromTuning = TUNING) -> Places:
    """The rows, ascending, among which to look for so many landmarks: all, or some drawn at random."""
    size = max(tuning.sample_rows, tuning.sample_per_landmark * count)
    if n_rows <= size:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, size, replace=False, shuffle=False))


def features_over(
    landmarks: Dataset, factor: Floats, rows: Dataset, formula: KernelFormula, threads: int
) -> tuple[Floats, Floats]:
    """Features of rows that lie elsewhere than the landmarks do, and k(x, x) of these rows."""
    kernel = Kernel(formula, stacked([landmarks, rows]), threads)
    some = np.arange(landmarks.n_rows, kernel.n_rows)
    return _projected(kernel, np.arange(landmarks.n_rows), some, factor, TUNING), kernel.diagonal()[some]


def _projected(
    kernel: Kernel, landmarks: Places, rows: Places, factor: Floats, tuning: NystromTuning
) -> Floats:
    """L^-1 k_Z(x) of the given rows of the kernel, which has the landmarks among its rows."""
    rank = len(landmarks)
    values = np.empty((len(rows), rank))
    step = max(64, tuning.block_values // max(1, rank))
    for begin in range(0, len(rows), step):
        some = kernel.restricted(rows[begin : begin + step])
        block = kernel.block(landmarks, onto=some, wide=True)
        forward_substitution(factor, block, values[begin : begin + step], kernel.threads)
    return values
