"""Blocks of rows: what runs inside the tasks, without Spark."""

import pickle

import numpy as np
import pytest

import odmlib
from odmlib.data.dataset import Dataset

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow

from odmlib.spark.blocks import Fault, RowBlock, blocks_of_batches, joined
from odmlib.spark.vectors import rows_of


def vectors_of(rows):
    """Arrow's form of vectors: a list is dense, (size, indices, values) is sparse."""
    parts = {"type": pyarrow.int8(), "size": pyarrow.int32()}
    lists = {"indices": pyarrow.list_(pyarrow.int32()), "values": pyarrow.list_(pyarrow.float64())}
    kind = pyarrow.struct(list((parts | lists).items()))
    names = "size", "indices", "values"
    made = [
        row and ({"type": 0} | dict(zip(names, row, strict=True)) if isinstance(row, tuple)
                 else {"type": 1, "values": row})
        for row in rows
    ]  # fmt: skip
    return pyarrow.array(made, kind)


def batch(rows, labels, weights=None):
    weights = [1.0] * len(rows) if weights is None else weights
    columns = [vectors_of(rows), pyarrow.array(labels, "double"), pyarrow.array(weights, "double")]
    return pyarrow.RecordBatch.from_arrays(columns, ["features", "label", "weight"])


def made_of(batches, block_values=1 << 20):
    return [block for _, (block, _) in blocks_of_batches(batches, block_values)]


def test_vectors_become_rows():
    dense, sparse = [1.0, 0.0, -2.0], (3, [1], [4.0])
    as_dense = {id(dense): dense, id(sparse): [0.0, 4.0, 0.0]}
    for rows in ([dense, dense], [dense, sparse], [sparse, sparse], [sparse, (3, [], [])]):
        found = rows_of(vectors_of(rows), 3)
        expected = [as_dense.get(id(row), [0.0] * 3) for row in rows]
        np.testing.assert_array_equal(found.to_dense(), expected)
        assert found.indices.dtype == np.int32


def test_many_rows_become_several_blocks():
    rows = [[k + 1.0, 1.0, 2.0] for k in range(5)]
    batches = [
        batch(rows[a:b], [float(k % 2) for k in range(a, b)], [1.0 + k for k in range(a, b)])
        for a, b in ((0, 2), (2, 3), (3, 4), (4, 5))
    ]
    made = made_of(batches, 6)
    assert [(block.number, block.rows.n_rows) for block in made] == [(0, 2), (1, 2), (2, 1)]
    assert np.concatenate([block.labels for block in made]).tolist() == [0, 1, 0, 1, 0]
    assert made[1].summary.labels == ((0.0, 1, 3.0), (1.0, 1, 4.0))
    whole = joined([block.summary for block in reversed(made)], files=False)
    assert (whole.n_rows, whole.class_rows, whole.class_weights) == (5, (2, 3), (6.0, 9.0))
    assert whole.first_rows == {0: 0, 1: 2, 2: 4}
    assert whole.classes.signs(made[0]).tolist() == [-1, 1]
    assert whole.variance == pytest.approx(np.var(rows), rel=1e-12)
    assert made_of([]) == []


@pytest.mark.parametrize("X", [np.ones((2, 3)), np.eye(3)])
def test_a_block_travels_as_it_is(X):
    """Full rows go without their columns."""
    block = RowBlock(7, Dataset.from_any(X), np.arange(len(X)), np.ones(len(X)))
    again = pickle.loads(pickle.dumps(block, protocol=5))
    assert again.number == 7 and again.labels.tolist() == block.labels.tolist()
    for name in ("indptr", "indices", "values"):
        np.testing.assert_array_equal(getattr(again.rows, name), getattr(block.rows, name))


def test_a_wrong_row_is_told_and_not_raised():
    good = [1.0]
    for row, label, weight, message in (
        (None, 1.0, 1.0, "no features"),
        (good, None, 1.0, "label is missing"),
        (good, 1.0, None, "weight is missing"),
        ([1.0, 2.0], 1.0, 1.0, "different numbers of features: 1 and 2"),
        ((1, [0], [np.inf]), 1.0, 1.0, "NaN or infinity"),
        ([np.nan], 1.0, 1.0, "NaN or infinity"),
    ):
        (fault,) = made_of([batch([good], [1.0]), batch([row], [label], [weight])])
        assert isinstance(fault, Fault)
        assert message in fault.summary.fault
        with pytest.raises(odmlib.ParameterError, match=message):
            joined([fault.summary], files=False)
