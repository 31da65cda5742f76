"""Writing data in LIBSVM format and reading it back."""

import io
import math
import random
import struct

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from odmlib.data.dataset import Dataset
from odmlib.data.reading import read_data, read_dataset
from odmlib.data.writing import format_blocks, format_rows, write_data
from odmlib.errors import ParameterError


def written(X, y=None, **options):
    stream = io.BytesIO()
    write_data(stream, X, y, **options)
    return stream.getvalue()


def random_doubles(count, seed):
    generator = random.Random(seed)
    numbers = (struct.unpack("<d", generator.randbytes(8))[0] for _ in range(2 * count))
    return [number for number in numbers if math.isfinite(number) and number != 0][:count]


def test_the_text():
    assert written([[0.5, 0, 2], [0, 0, 0], [0, 1e-7, 0]], [1, -1, 2.5]) == b"1 1:0.5 3:2\n-1\n2.5 2:1e-07\n"
    assert written([[0.5, 0, 2]], zero_based=True) == b"0 0:0.5 2:2\n"


def test_round_trip_on_random_bits():
    numbers = random_doubles(20_000, seed=10)
    X = np.array(numbers[:18_000]).reshape(1000, 18)
    y = np.array(numbers[18_000:19_000])
    back, labels = read_data(written(X, y))
    assert back.toarray().tobytes() == X.tobytes()
    assert labels.tobytes() == y.tobytes()


@given(
    st.lists(
        st.lists(
            st.one_of(st.just(0.0), st.floats(allow_nan=False, allow_infinity=False)), min_size=3, max_size=3
        ),
        min_size=1,
        max_size=6,
    ),
    st.booleans(),
)
def test_round_trip(rows, zero_based):
    X = np.array(rows)
    back, _ = read_dataset(written(X, zero_based=zero_based), features=3, zero_based=zero_based)
    assert back.to_dense().tolist() == X.tolist()


def test_round_trip_of_a_file(tmp_path):
    X = scipy.sparse.random(300, 1000, density=0.05, format="csr", random_state=1)
    y = np.arange(300.0)
    write_data(tmp_path / "out", X, y)
    back, labels = read_data(tmp_path / "out", features=1000)
    assert (back != X).nnz == 0
    assert labels.tolist() == y.tolist()


def test_large_indices():
    X = scipy.sparse.csr_array(([1.0], ([0], [2**31 - 2])), shape=(1, 2**31 - 1))
    assert written(X) == b"0 2147483647:1\n"


@pytest.mark.parametrize("block_values", [1, 2, 3, 7, 1000])
def test_blocks_join_to_the_whole(block_values):
    X = scipy.sparse.random(50, 20, density=0.1, format="csr", random_state=2)
    dataset = Dataset.from_any(X)
    labels = np.arange(50.0)
    blocks = list(format_blocks(dataset, labels, block_values=block_values))
    assert b"".join(blocks) == format_rows(dataset, labels)
    assert all(blocks)


def test_format_rows_takes_a_range():
    dataset = Dataset.from_any([[1, 0], [0, 2], [3, 0]])
    assert format_rows(dataset.part(1, 3), np.zeros(2)) == b"0 2:2\n0 1:3\n"
    assert format_rows(dataset.part(2, 2), np.zeros(0)) == b""
    for first, last in [(-1, 2), (2, 1), (0, 4)]:
        with pytest.raises(IndexError):
            dataset.part(first, last)
    with pytest.raises(IndexError):
        format_rows(dataset, np.zeros(2))


def test_no_rows_make_an_empty_file():
    assert written(np.zeros((0, 3))) == b""


@pytest.mark.parametrize(
    "y",
    [
        [1, 2],
        [[1], [2], [3]],
        ["a", "b", "c"],
        [1, 2, np.nan],
        [1, 2, np.inf],
        [1, 2, None],
        [1, 2, 2**53 + 1],
        [1j, 2, 3],
        [1, 2, 10**400],
        5,
    ],
)
def test_bad_labels(y, tmp_path):
    with pytest.raises(ParameterError, match=r"^y "):
        write_data(tmp_path / "out", np.eye(3), y)
    assert list(tmp_path.iterdir()) == []


def test_labels_of_many_types():
    for y in (
        [1, 0, 1],
        np.array([1, 0, 1], dtype=bool),
        np.array([1, 0, 1], dtype=np.uint8),
        [1.0, -0.0, 1],
    ):
        assert written(np.eye(3), y) == b"1 1:1\n0 2:1\n1 3:1\n"
    assert written([[1]], np.array([2**63], dtype=np.uint64)) == b"9.223372036854776e+18 1:1\n"


def test_not_finite_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="NaN"):
        write_data(tmp_path / "out", [[np.nan]])
    assert list(tmp_path.iterdir()) == []
