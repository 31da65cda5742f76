"""LIBSVM's file form of precomputed kernels."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from odmlib.data.dataset import Dataset
from odmlib.data.precomputed import split_serials, square_matrix
from odmlib.data.precomputed import test_values as values_of_test_rows
from odmlib.data.reading import read_dataset
from odmlib.errors import DataFormatError

HUGE = 2**31 - 2


def rows_of(text: str) -> Dataset:
    return read_dataset(text.encode(), zero_based=True)[0]


def test_serials_are_split_off():
    serials, values = split_serials(rows_of("1 0:2 1:0.5 2:7\n-1 0:1 1:3\n"), "f")
    assert serials.tolist() == [2, 1]
    assert values.to_dense().tolist() == [[0.5, 7], [3, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:1\n", "f: row 1: a precomputed kernel's row must start with 0:serial"),
        ("1 0:1 1:1\n1\n", "f: row 2: a precomputed kernel's row must start with 0:serial"),
        ("1\n1 0:1 1:1\n", "f: row 1: a precomputed kernel's row must start with 0:serial"),
        ("1\n1\n", "f: row 1: a precomputed kernel's row must start with 0:serial"),
        ("1 0:0 1:1\n", "f: row 1: a precomputed kernel's row must start with 0:serial"),
        ("1 0:1 1:1\n1 0:2 1:1\n", "f: row 2: expected a serial from 1 to 1, found 2"),
        ("1 0:1.5 1:1\n", "f: row 1: expected a serial from 1 to 1, found 1.5"),
        ("1 0:-1 1:1\n", "f: row 1: expected a serial from 1 to 1, found -1"),
        ("1 0:1e300 1:1\n", "f: row 1: expected a serial from 1 to 1, found 1e+300"),
        ("1 0:1 1:0\n1 0:2 1:0\n", "f: row 2: expected a serial from 1 to 1, found 2"),
    ],
)
def test_bad_serials(text, message):
    with pytest.raises(DataFormatError) as caught:
        split_serials(rows_of(text), "f")
    assert str(caught.value).startswith(message)


def test_square_matrix_follows_the_serials():
    """Entry [i, j] is the value of row i in the column of row j's serial."""
    random = np.random.default_rng(0)
    K = random.normal(size=(9, 9)) * (random.random((9, 9)) < 0.7)
    order = random.permutation(9)[:6]
    found = square_matrix(order + 1, Dataset.from_any(K[order]), "f")
    assert found.to_dense().tolist() == K[np.ix_(order, order)].tolist()
    for i in range(6):
        assert (np.diff(found.indices[found.indptr[i] : found.indptr[i + 1]]) > 0).all()


def test_serials_must_differ():
    with pytest.raises(DataFormatError, match="f: serial 2 stands in two rows"):
        square_matrix(np.array([2, 1, 2]), Dataset.from_any(np.ones((3, 3))), "f")


def test_test_rows():
    rows = rows_of("1 0:7 1:0.5 3:2\n1 2:4\n1\n")
    assert values_of_test_rows(rows, 4, "f").to_dense().tolist() == [[0.5, 0, 2, 0], [0, 4, 0, 0], [0, 0, 0, 0]]
    with pytest.raises(DataFormatError, match="f: found 3 kernel values in a row, the model was trained with 2"):
        values_of_test_rows(rows, 2, "f")
    assert values_of_test_rows(rows_of("1\n"), 2, "f").shape == (1, 2)


def test_far_columns_take_no_memory():
    rows = rows_of(f"1 0:{HUGE} {HUGE}:1\n-1 0:5 5:2\n")
    tracemalloc.start()
    try:
        serials, values = split_serials(rows, "f")
        square = square_matrix(serials, values, "f")
        test = values_of_test_rows(rows, HUGE, "f")
        with pytest.raises(DataFormatError):
            values_of_test_rows(rows, 5, "f")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
    assert square.to_dense().tolist() == [[1, 0], [0, 2]]
    assert test.indices.tolist() == [HUGE - 1, 4]
