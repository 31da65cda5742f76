"""Plans and partitions: even at every level, of every key."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib.data.dataset import Dataset
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.names import PARTITIONERS
from odmlib.solvers.distributed.landmarks import choose_landmarks
from odmlib.solvers.distributed.partitions import Plan, deal, make_partitions, make_plan

RANDOM = np.random.default_rng(11)
X = RANDOM.normal(size=(203, 3))
SIGNS = np.where(RANDOM.random(203) < 0.2, 1.0, -1.0)
ROWS = Dataset.from_any(X)
KERNEL = Kernel(KernelFormula("rbf", gamma=0.5), ROWS)


def spread(counts):
    return counts.max() - counts.min()


@pytest.mark.parametrize("kind", [kind for kind in PARTITIONERS if kind != "dc"])
def test_sizes_differ_by_at_most_one_at_every_level(kind):
    plan = Plan(3, 3)
    partitions = make_partitions(kind, plan, KERNEL, SIGNS, ROWS, seed=4)
    for level in range(4):
        assert spread(np.bincount(partitions.at(level), minlength=3**level)) <= 1
    for level in range(3):  # a merge joins whole partitions
        pairs = set(zip(partitions.at(level + 1).tolist(), partitions.at(level).tolist(), strict=True))
        assert len(pairs) == 3 ** (level + 1)


def test_every_class_and_stratum_is_spread_evenly():
    plan = Plan(2, 3)
    partitions = make_partitions("stratified-class", plan, KERNEL, SIGNS, ROWS, landmarks=5)
    strata = choose_landmarks(KERNEL, 5).strata
    for level in range(1, 4):
        part = partitions.at(level)
        for sign in (-1, 1):
            assert spread(np.bincount(part[sign == SIGNS], minlength=2**level)) <= 1
            for stratum in range(5):
                cell = part[(sign == SIGNS) & (strata == stratum)]
                assert spread(np.bincount(cell, minlength=2**level)) <= 1


def test_dip_spreads_clusters_and_dc_keeps_them_together():
    X = np.concatenate([RANDOM.normal(size=(40, 2)), RANDOM.normal(size=(40, 2)) + 20])
    rows, signs = Dataset.from_any(X), np.where(np.arange(80) % 2, 1.0, -1.0)
    kernel = Kernel(KernelFormula("rbf", gamma=0.1), rows)
    there = np.arange(80) >= 40
    dip = make_partitions("dip", Plan(2, 1), kernel, signs, rows, landmarks=2).at(1)
    assert spread(np.bincount(dip[there])) == 0
    dc = make_partitions("dc", Plan(2, 1), kernel, signs, rows).at(1)
    assert (dc == dc[0]).tolist() in (there.tolist(), (~there).tolist())


def test_seed_decides_and_repeats():
    keys = np.zeros(50, dtype=np.int64)
    assert (deal(keys, 7, 1) == deal(keys, 7, 1)).all()
    assert (deal(keys, 7, 1) != deal(keys, 7, 2)).any()


@pytest.mark.parametrize(
    ("rows", "smaller", "partitions", "levels", "plan"),
    [
        (500, 100, None, None, Plan(2, 0)),
        (8000, 4000, None, None, Plan(2, 3)),
        (100_000, 5, None, None, Plan(2, 2)),  # every partition needs a row of the smaller class
        (1000, 500, 8, None, Plan(2, 3)),
        (1000, 500, 9, None, Plan(3, 2)),
        (1000, 500, 6, None, Plan(6, 1)),
        (1000, 500, 1, None, Plan(2, 0)),
        (1000, 500, 1, 0, Plan(2, 0)),
        (1000, 500, 64, 3, Plan(4, 3)),
        (1000, 500, None, 4, Plan(2, 4)),
    ],
)
def test_plans(rows, smaller, partitions, levels, plan):
    assert make_plan(rows, smaller, partitions, levels) == plan


def test_plans_that_cannot_be():
    with pytest.raises(ParameterError, match=r"to the power of levels 2, found 8"):
        make_plan(1000, 500, 8, 2)
    with pytest.raises(ParameterError, match=r"levels 0, found 4"):
        make_plan(1000, 500, 4, 0)
    with pytest.raises(ParameterError, match=r"16 partitions .* the smaller class has 15 rows"):
        make_plan(1000, 15, None, 4)


def test_dip_needs_rows():
    with pytest.raises(ParameterError, match="dip needs the rows"):
        make_partitions("dip", Plan(2, 1), KERNEL, SIGNS, None)
