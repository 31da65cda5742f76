"""How far a kernel matrix is from positive semidefinite, and the shift that mends it.

Training minimises over functions of a positive semidefinite kernel. The sigmoid kernel, a poly kernel with
coef0 < 0 and some precomputed matrices are not: the dual is then unbounded below for large C. They are
trained as k(i, j) + shift [i = j], with shift a little above -(smallest eigenvalue): a kernel in which every
row has a coordinate of its own, so that new rows are scored by k alone.

A gap is a bound only where the trained matrix is positive semidefinite. Up to SAMPLE_ROWS rows that is so
(up to NEGLIGIBLE of the largest eigenvalue). Beyond, it is an estimate, and so is the gap: the report says
so.
"""

from __future__ import annotations

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel

SAMPLE_ROWS = 1000  # eigenvalues of larger matrices are estimated on so many rows
NEGLIGIBLE = 1e-6  # of the largest eigenvalue: rounding of float32 rows
SAFETY = 1.05  # on all rows
SAMPLE_SAFETY = 2.0  # on a sample


def surely_positive(formula: KernelFormula) -> bool:
    """Whether the formula alone promises a positive semidefinite matrix."""
    return formula.name in ("linear", "rbf") or (formula.name == "poly" and formula.coef0 >= 0)


def sampled_rows(kernel: Kernel) -> int | None:
    """On how many of its rows a kernel is judged, where these are not all: then its gap is an estimate."""
    return SAMPLE_ROWS if kernel.n_rows > SAMPLE_ROWS and not surely_positive(kernel.formula) else None


def needed_shift(kernel: Kernel, seed: int = 0) -> float:
    """The shift for this kernel; 0 where it is positive semidefinite up to rounding."""
    n = kernel.n_rows
    if n == 0 or surely_positive(kernel.formula):
        return 0.0
    rows = np.arange(n)
    if sampled_rows(kernel):
        rows = np.sort(np.random.default_rng(seed).permutation(n)[:SAMPLE_ROWS])
    values = np.empty((len(rows), len(rows)))
    for place in range(0, len(rows), 64):  # only a few whole rows in memory at a time
        values[place : place + 64] = kernel.block(rows[place : place + 64])[:, rows]
    if _surely_positive_matrix(values):  # many times faster than the eigenvalues
        return 0.0
    eigenvalues = np.linalg.eigvalsh(values)
    lowest, highest = float(eigenvalues[0]), float(eigenvalues[-1])
    if lowest >= -NEGLIGIBLE * max(highest, 0.0):
        return 0.0
    # eigenvalues of a kernel matrix grow in proportion to its rows
    return -lowest * (SAFETY if len(rows) == n else SAMPLE_SAFETY * n / len(rows))


def _surely_positive_matrix(values: Floats) -> bool:
    """Whether no eigenvalue is below -NEGLIGIBLE x the largest one: with less than that on its diagonal the
    matrix has a factor. The largest eigenvalue is at least sum of entries / rows and every diagonal entry."""
    n = len(values)
    largest = max(float(values.sum()) / n, float(np.diagonal(values).max()))
    if not largest > 0:
        return False
    try:
        np.linalg.cholesky(values + NEGLIGIBLE * largest * np.eye(n))
    except np.linalg.LinAlgError:
        return False
    return True
