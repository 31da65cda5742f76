"""Which row goes into which partition, level by level (docs/internals/mathematics.md, SODM).

There are K = p^L partitions at level L, and p^l at level l: a merge joins p of them. Rows are ordered by a
key, at random where keys are equal, and dealt like cards: position t goes to partition t mod K. So the sizes
differ by at most 1, every key is spread evenly, and row i is in partition part(i) mod p^l at level l: both
stay true at every level.

    stratified-class  key: class, then the nearest landmark (solvers/distributed/landmarks.py)
    stratified        key: the nearest landmark (the SODM paper)
    class             key: the class
    random, cascade   no key
    dip               key: cluster of k-means on the rows themselves
    dc                not dealt: the clusters of k-means in feature space are partitions, anew at each level
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Floats, Places
from odmlib.data.clusters import k_means
from odmlib.data.dataset import Dataset
from odmlib.errors import ParameterError
from odmlib.kernels.kernel import Kernel
from odmlib.solvers.distributed.landmarks import Landmarks, choose_landmarks


@dataclass(frozen=True)
class PartitionTuning:
    """What is taken unless the user says otherwise."""

    usual_rows: int = 1000  # of a partition at the first level
    max_landmarks: int = 64  # more strata are no better
    rows_per_landmark: int = 10

    def landmarks(self, n_rows: int, wanted: int | None) -> int:
        """How many landmarks to look for among the rows."""
        if wanted is None:
            return min(self.max_landmarks, max(1, n_rows // self.rows_per_landmark))
        return min(wanted, n_rows)


TUNING = PartitionTuning()


@dataclass(frozen=True)
class Plan:
    """p^L partitions at level L, merged p at a time down to level 0, the whole."""

    merged: int  # p
    levels: int  # L

    def partitions(self, level: int) -> int:
        return self.merged**level


def make_plan(
    n_rows: int,
    smaller_class: int,
    partitions: int | None,
    levels: int | None,
    tuning: PartitionTuning = TUNING,
) -> Plan:
    """The plan that the wishes and the data allow; ParameterError if they contradict each other.

    >>> make_plan(8000, 3000, None, None), make_plan(8000, 3000, 9, None)
    (Plan(merged=2, levels=3), Plan(merged=3, levels=2))
    """
    if partitions is None and levels is None:
        wanted = round(np.log2(max(1.0, n_rows / tuning.usual_rows)))
        return Plan(2, min(wanted, int(np.log2(max(1, smaller_class)))))
    plan = Plan(2, levels or 0)
    if partitions is None:
        pass
    elif levels is None:
        if partitions > 1:  # as many merges as can be
            plan = next(Plan(root, depth) for depth in range(62, 0, -1) if (root := _root(partitions, depth)))
    else:
        root = (2 if partitions == 1 else None) if levels == 0 else _root(partitions, levels)
        if root is None:
            raise ParameterError(
                f"partitions (--partitions) must be a whole number to the power of levels (--levels) {levels}"
                f", found {partitions}"
            )
        plan = Plan(root, levels)
    if plan.partitions(plan.levels) > smaller_class:
        who = "there are" if smaller_class == n_rows else "the smaller class has"
        raise ParameterError(
            f"{plan.partitions(plan.levels)} partitions (--partitions, --levels) are too many: "
            f"{who} {smaller_class} rows, and every partition needs one"
        )
    return plan


def _root(number: int, depth: int) -> int | None:
    """The whole number p >= 2 with p^depth = number, if there is one."""
    root = round(number ** (1 / depth))
    return root if root >= 2 and root**depth == number else None


def check_stop_level(stop_level: int, plan: Plan) -> None:
    if stop_level > plan.levels:
        raise ParameterError(
            f"stop_level (--stop-level) must be at most {plan.levels}, the first level, found {stop_level}"
        )


@dataclass(frozen=True)
class Partitions:
    """The partition of every row at every level."""

    plan: Plan
    at: Callable[[int], Places]
    n_landmarks: int
    found: Landmarks | None = None  # of clusters in feature space


def make_partitions(
    kind: str,
    plan: Plan,
    kernel: Kernel,
    signs: Floats,
    rows: Dataset | None,
    *,
    landmarks: int | None = None,
    seed: int = 0,
    threads: int = 1,
    out_of_time: Callable[[], object] = lambda: None,
    tuning: PartitionTuning = TUNING,
) -> Partitions:
    """`rows` are those of the kernel (None where only the kernel's values are known)."""
    m = kernel.n_rows
    count = tuning.landmarks(m, landmarks)
    positive = (signs > 0).astype(np.int64)
    keys, used = np.zeros(m, dtype=np.int64), 0
    if plan.levels and kind in ("stratified", "stratified-class", "dc"):
        found = choose_landmarks(kernel, count, out_of_time)
        used = len(found.rows)
        if kind == "dc":
            features = Dataset.from_any(np.ascontiguousarray(found.factor))
            return Partitions(
                plan, lambda level: k_means(features, plan.partitions(level), seed, threads), used, found
            )
        keys = found.strata + (used * positive if kind == "stratified-class" else 0)
    elif kind == "class":
        keys = positive
    elif plan.levels and kind == "dip":
        if rows is None:
            raise ParameterError("partition dip needs the rows themselves, found a precomputed kernel")
        keys = k_means(rows, count, seed, threads)
    dealt = deal(keys, plan.partitions(plan.levels), seed)
    return Partitions(plan, lambda level: dealt % plan.partitions(level), used)


def deal(keys: Places, n_partitions: int, seed: int) -> Places:
    """The partition of every row: see the head of this file."""
    order = np.random.default_rng(seed).permutation(len(keys))
    order = order[np.argsort(keys[order], kind="stable")]
    partition = np.empty(len(keys), dtype=np.int64)
    partition[order] = np.arange(len(keys)) % n_partitions
    return partition
