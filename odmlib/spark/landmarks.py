"""Landmarks among rows on a cluster, and Nystrom features over them (solvers/distributed/landmarks.py).

The rows to search (all, or some thousand drawn at random: the same that one machine would draw) come together
in one task, which returns the landmarks. Features are computed where the rows are. So only the landmarks,
which are a part of the model, reach the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

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
from odmlib.spark.blocks import BLOCK_VALUES, RowBlock, Whole, task_threads

if TYPE_CHECKING:
    from pyspark import RDD


class Found(NamedTuple):
    """Landmarks in the order in which they were chosen, and L of K_ZZ = L L'."""

    rows: Dataset
    factor: Floats


def find_landmarks(
    blocks: RDD, whole: Whole, formula: KernelFormula, count: int, seed: int, tuning: NystromTuning = TUNING
) -> Found:
    """At most `count`; fewer where the rest lies in their span."""
    searched = rows_to_search(whole.n_rows, count, seed, tuning)
    first_rows = whole.first_rows
    sent = blocks.context.broadcast(searched)

    def rows_of(block: RowBlock) -> tuple[int, tuple[int, Dataset]]:
        first = first_rows[block.number]
        low, high = np.searchsorted(sent.value, (first, first + block.rows.n_rows))
        return 0, (first, block.rows.take(sent.value[low:high] - first))

    def choose(parts: Iterable[tuple[int, Dataset]]) -> Found:
        rows = stacked([part for _, part in sorted(parts, key=lambda part: part[0])])
        found = choose_landmarks(Kernel(formula, rows, task_threads()), count)
        return Found(rows.take(found.rows), np.tril(found.factor[found.rows]))

    ((_, found),) = blocks.map(rows_of).groupByKey(1).mapValues(choose).collect()
    sent.unpersist()
    return found


def feature_blocks(blocks: RDD, found: Found, formula: KernelFormula) -> RDD:
    """Pairs of a RowBlock of features and (sum of k(x, x), part of it outside the landmarks' span)."""
    n_partitions = blocks.getNumPartitions()
    sent = blocks.context.broadcast(found)

    def features(partition: int, some: Iterable[RowBlock]) -> Iterator[tuple[RowBlock, tuple[float, float]]]:
        landmarks, factor = sent.value
        number = partition
        for block in some:
            step = max(1, BLOCK_VALUES // max(1, landmarks.n_rows))
            for begin in range(0, block.rows.n_rows, step):
                rows = np.arange(begin, min(begin + step, block.rows.n_rows))
                values, diagonal = features_over(
                    landmarks, factor, block.rows.take(rows), formula, task_threads()
                )
                left = np.maximum(0.0, diagonal - np.einsum("ij,ij->i", values, values))
                made = RowBlock(number, dense_rows(values), block.labels[rows], block.weights[rows])
                yield made, (float(diagonal.sum()), float(left.sum()))
                number += n_partitions

    return blocks.mapPartitionsWithIndex(features)


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
