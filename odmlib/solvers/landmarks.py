"""Landmarks: rows that span the feature space of a kernel well, by pivoted Cholesky (spec/sodm.md section 4).

Each step takes the row whose squared distance to the span of those chosen so far is largest, the lowest one
where several are equal. With k = K(all rows, z) and d the squared distances,

    L[:, s] = (k - L[:, :s] L[z, :s]') / sqrt(d[z]),   d <- d - L[:, s]^2

so that L L' is the Nystrom approximation of the kernel matrix, and the rows of L are features for it. Costs
rows x landmarks kernel values and as many numbers of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odmlib.kernels.kernel import Kernel
from odmlib.solvers._working_set import add_block

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

NEGLIGIBLE = 1e-10  # of the largest k(x, x): a squared distance that small is rounding


@dataclass(frozen=True)
class Landmarks:
    rows: Places  # the rows chosen, in their order
    factor: Floats  # L: (all rows x landmarks)
    residual: Floats  # squared distance of every row to their span
    strata: Places  # for every row the landmark nearest to it, by position in `rows`


def choose_landmarks(
    kernel: Kernel,
    count: int,
    out_of_time: Callable[[], object] = lambda: None,
    negligible: float = NEGLIGIBLE,
) -> Landmarks:
    """At most `count` landmarks: fewer where the rest lies in their span, or where the time is over.

    `negligible`: the squared distance, as a part of the largest k(x, x), at which a row lies in the span.

    >>> from odmlib.data.dataset import Dataset
    >>> from odmlib.kernels.formula import KernelFormula
    >>> points = Dataset.from_any([[0.0], [1.0], [2.0], [3.0], [10.0]])
    >>> choose_landmarks(Kernel(KernelFormula("rbf", gamma=0.5), points), 3).rows.tolist()
    [0, 4, 3]
    """
    n, diagonal = kernel.n_rows, kernel.diagonal()
    count = min(count, n)
    residual = diagonal.copy()
    enough = negligible * float(diagonal.max(initial=0.0))
    transposed = np.empty((count, n))  # L', a landmark's column in one piece
    chosen: list[int] = []
    nearest, strata = np.full(n, np.inf), np.zeros(n, dtype=np.int64)
    for s in range(count):
        z = int(np.argmax(residual))
        if residual[z] <= enough or (s > 0 and out_of_time() is not None):
            break
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
    return Landmarks(np.array(chosen, dtype=np.int64), transposed[: len(chosen)].T, residual, strata)
