"""Blocks of rows and sums over them: what runs inside the tasks, mostly without Spark."""

import numpy as np
import pytest

import odmlib

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.ml.linalg import Vectors

from odmlib.spark.blocks import Fault, added, blocks_of_rows, dataset_of, joined, tree_sum


def test_vectors_become_rows():
    dense, sparse = Vectors.dense([1.0, 0.0, -2.0]), Vectors.sparse(3, [1], [4.0])
    for vectors in ([dense, dense], [dense, sparse], [sparse, sparse]):
        rows = dataset_of(vectors)
        np.testing.assert_array_equal(rows.to_dense(), [vector.toArray() for vector in vectors])
        assert rows.indices.dtype == np.int32
    for wrong in (Vectors.dense([np.nan, 0, 1]), Vectors.sparse(3, [0], [np.inf])):
        with pytest.raises(odmlib.ParameterError, match="NaN or infinity"):
            dataset_of([sparse, wrong])
        with pytest.raises(odmlib.ParameterError, match="NaN or infinity"):
            dataset_of([wrong, dense])


def test_many_rows_become_several_blocks():
    records = [(Vectors.dense([k, 1.0, 2.0]), float(k % 2), 1.0 + k) for k in range(5)]
    made = list(blocks_of_rows(1, 4, records, 6))
    assert [(block.number, block.rows.n_rows) for block in made] == [(1, 2), (5, 2), (9, 1)]
    assert np.concatenate([block.labels for block in made]).tolist() == [0, 1, 0, 1, 0]
    assert made[1].summary.labels == ((0.0, 1, 3.0), (1.0, 1, 4.0))
    whole = joined([block.summary for block in made], 4, files=False)
    assert (whole.n_rows, whole.class_rows, whole.class_weights) == (5, (2, 3), (6.0, 9.0))
    assert whole.first_rows == {1: 0, 5: 2, 9: 4}
    assert whole.classes.signs(made[0]).tolist() == [-1, 1]
    assert whole.variance == pytest.approx(np.var([record[0].array for record in records]), rel=1e-12)
    assert list(blocks_of_rows(1, 4, [])) == []


def test_a_wrong_row_is_told_and_not_raised():
    vector = Vectors.dense([1.0])
    for record, message in (
        ((None, 1.0, 1.0), "no features"),
        ((vector, None, 1.0), "label is missing"),
        ((vector, 1.0, None), "weight is missing"),
    ):
        (fault,) = blocks_of_rows(0, 1, [(vector, 1.0, 1.0), record])
        assert isinstance(fault, Fault)
        assert message in fault.summary.fault


def test_order_of_arrival_does_not_matter():
    parts = [(k, np.array([10.0**k, 1.0])) for k in range(-8, 9)]
    expected = added(parts)
    shuffled = np.random.default_rng(0).permutation(len(parts))
    assert added([parts[k] for k in shuffled]).tolist() == expected.tolist()
    assert added([(0, None)]) is None


def test_tree_sum(spark):
    values = [(k, np.array([0.1 * k, 1.0])) for k in range(20)]
    parts = spark.sparkContext.parallelize(values, 11)
    totals = [tree_sum(parts, depth) for depth in (1, 2, 3, 3)]
    for total in totals:
        np.testing.assert_allclose(total, [19.0, 20.0], rtol=1e-14)
    assert totals[3].tolist() == totals[2].tolist()
