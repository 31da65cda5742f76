"""Landmarks among rows on a cluster, and Nystrom features over them (solvers/distributed/landmarks.py).

The rows to search (all, or some thousand drawn at random: the same that one machine would draw) come together
in one task, which returns the landmarks. Features are computed where the rows are. So only the landmarks,
which are a part of the model, reach the driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from odmlib._core.arrays import Floats, Places
from odmlib.data.dataset import Dataset, dense_rows, stacked
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.solvers.distributed.landmarks import (
    TUNING,
    NystromTuning,
    choose_landmarks,
    features_over,
    rows_to_search,
)
from odmlib.spark.blocks import BLOCK_VALUES, RowBlock, Whole
from odmlib.spark.engine import NUMBERS_OF_PARTITION, Pairs, Spread, task_threads


class Found(NamedTuple):
    """Landmarks in the order in which they were chosen, and L of K_ZZ = L L'."""

    rows: Dataset
    factor: Floats


def find_landmarks(
    blocks: Spread,
    whole: Whole,
    formula: KernelFormula,
    count: int,
    seed: int,
    tuning: NystromTuning = TUNING,
) -> Found:
    """At most `count`; fewer where the rest lies in their span."""
    searched = rows_to_search(whole.n_rows, count, seed, tuning)
    first_rows = whole.first_rows

    def rows_of(block: RowBlock) -> Dataset:
        first = first_rows[block.number]
        low, high = np.searchsorted(searched, (first, first + block.rows.n_rows))
        return block.rows.take(searched[low:high] - first)

    def choose(key: int, parts: list[Dataset]) -> Found:
        rows = stacked(parts)
        found = choose_landmarks(Kernel(formula, rows, task_threads()), count)
        return Found(rows.take(found.rows), np.tril(found.factor[found.rows]))

    ((_, found),) = blocks.map(rows_of).grouped(1, lambda number, rows: 0, choose).collect()
    return found


def feature_blocks(blocks: Spread, found: Found, formula: KernelFormula) -> Spread:
    """Pairs of a RowBlock of features and (sum of k(x, x), part of it outside the landmarks' span)."""
    landmarks, factor = found

    def features_of(rows: Dataset) -> Dataset:
        return dense_rows(features_over(landmarks, factor, rows, formula, task_threads())[0])

    def features(some: Iterable[tuple[int, RowBlock]]) -> Pairs:
        made: Counter[int] = Counter()
        for _, block in some:
            first = block.number // NUMBERS_OF_PARTITION * NUMBERS_OF_PARTITION
            step = max(1, BLOCK_VALUES // max(1, landmarks.n_rows))
            for begin in range(0, block.rows.n_rows, step):
                rows = np.arange(begin, min(begin + step, block.rows.n_rows))
                values, diagonal = features_over(
                    landmarks, factor, block.rows.take(rows), formula, task_threads()
                )
                left = np.maximum(0.0, diagonal - np.einsum("ij,ij->i", values, values))
                number = first + made[first]
                held = block.held if begin == 0 else None
                one = RowBlock(
                    number,
                    dense_rows(values),
                    block.labels[rows],
                    block.weights[rows],
                    None if held is None else held.with_rows(features_of),
                )
                yield number, (one, (float(diagonal.sum()), float(left.sum())))
                made[first] += 1

    return blocks.through(features)


def nearest_landmarks(found: Found, rows: Dataset, formula: KernelFormula, threads: int) -> Places:
    """For every row the landmark nearest to it in feature space, the first one of several."""
    kernel = Kernel(formula, stacked([found.rows, rows]), threads)
    count = found.rows.n_rows
    diagonal = kernel.diagonal()
    nearest, strata = np.full(rows.n_rows, np.inf), np.zeros(rows.n_rows, dtype=np.int64)
    others = kernel.restricted(np.arange(count, kernel.n_rows))
    for s in range(count):
        values = kernel.block([s], onto=others, wide=True)[0]
        distance = diagonal[count:] + (diagonal[s] - 2 * values)
        closer = distance < nearest
        nearest[closer], strata[closer] = distance[closer], s
    return strata
