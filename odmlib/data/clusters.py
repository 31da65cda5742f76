"""K-means on sparse rows, for partitions of the data: Lloyd's steps from random rows, repeatable by seed."""

from __future__ import annotations

import numpy as np

from odmlib._core.arrays import Floats, Places
from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset

MAX_STEPS = 20  # partitions need no more
BLOCK_VALUES = 1 << 22  # distances held at a time


def k_means(
    rows: Dataset, count: int, seed: int = 0, threads: int = 1, block_values: int = BLOCK_VALUES
) -> Places:
    """The cluster of every row, from 0 to count - 1; a cluster may end up empty.

    >>> k_means(Dataset.from_any([[0.0], [5.0], [0.1], [5.1]]), 2).tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])
    True
    """
    from scipy.sparse import csr_array

    first = np.random.default_rng(seed).permutation(rows.n_rows)[:count]
    centres = rows.take(np.sort(first)).to_dense()
    clusters = np.full(rows.n_rows, -1, dtype=np.int64)
    data, values = Rows(rows), rows.to_scipy()
    every, ones = np.arange(rows.n_rows), np.ones(rows.n_rows)
    for _ in range(MAX_STEPS):
        nearest = _nearest(data, centres, threads, block_values)
        if (nearest == clusters).all():
            break
        clusters = nearest
        sizes = np.bincount(clusters, minlength=len(centres))
        members = csr_array((ones, (clusters, every)), shape=(len(centres), rows.n_rows))
        sums = (members @ values).toarray()
        filled = sizes > 0
        centres[filled] = sums[filled] / sizes[filled, None]
    return clusters


def _nearest(rows: Rows, centres: Floats, threads: int, block_values: int) -> Places:
    """argmin over centres of |x - centre|^2 = |x|^2 - 2 <x, centre> + |centre|^2."""
    half_squares = 0.5 * np.square(centres).sum(axis=1)
    step = max(1, block_values // max(1, rows.n_rows))
    best, nearest = np.full(rows.n_rows, -np.inf), np.zeros(rows.n_rows, dtype=np.int64)
    for begin in range(0, len(centres), step):
        weights = np.ascontiguousarray(centres[begin : begin + step].T)
        closeness = rows.products(weights, threads) - half_squares[begin : begin + step]
        place = np.argmax(closeness, axis=1)
        value = closeness[np.arange(rows.n_rows), place]
        better = value > best
        best[better], nearest[better] = value[better], begin + place[better]
    return nearest
