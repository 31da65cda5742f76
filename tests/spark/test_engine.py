"""Objects in a DataFrame: they arrive whole, in order, and in their groups."""

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from odmlib.spark.engine import PIECE_BYTES, Spread, added, tree_sum

from .conftest import fails_once


def test_order_of_arrival_does_not_matter():
    parts = [(k, np.array([10.0**k, 1.0])) for k in range(-8, 9)]
    expected = added(parts)
    shuffled = np.random.default_rng(0).permutation(len(parts))
    assert added([parts[k] for k in shuffled]).tolist() == expected.tolist()
    assert added([(0, None)]) is None


def two_of(task):
    for k in (2 * task, 2 * task + 1):
        yield k, np.array([0.1 * k, 1.0])


def test_tree_sum(spark):
    parts = Spread.of_tasks(spark, 10, two_of)
    totals = [tree_sum(parts, range(20), depth) for depth in (1, 3)]
    for total in totals:
        np.testing.assert_allclose(total, [19.0, 20.0], rtol=1e-14)
    again = tree_sum(parts.through(fails_once), range(20), 3)
    assert again.tolist() == totals[1].tolist()


def large(task):
    yield task, np.full(PIECE_BYTES // 8 * (1 + 2 * task) + task, float(task))


def test_large_objects_are_kept_and_grouped(spark):
    """An object is many rows; groups get theirs by number, a note is read without its object."""
    kept = Spread.of_tasks(spark, 3, large).map(lambda one: (one, len(one))).kept()
    try:
        sizes = kept.notes()
        objects = kept.objects.collect()
        groups = kept.objects.grouped(2, lambda number, one: number % 2, lambda key, some: some).collect()
    finally:
        kept.release()
    assert sizes == [(number, len(one)) for number, one in objects]
    for number, one in objects:
        np.testing.assert_array_equal(one, next(large(number))[1])
    assert [(key, [one[0] for one in some]) for key, some in groups] == [(0, [0.0, 2.0]), (1, [1.0])]
