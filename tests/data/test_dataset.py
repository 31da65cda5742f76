"""Dataset: the border where foreign matrices come in."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sparse

import odmlib
from odmlib.data.dataset import Dataset, from_entries, summed_rows
from odmlib.errors import ParameterError

DENSE = np.array([[0.0, 1.5, 0.0, -2.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, 4.0, 0.5], [0.0, 0.0, 0.0, 0.0]])


def check(rows, expected):
    expected = np.asarray(expected, dtype=np.float64)
    assert (rows.indptr.dtype, rows.indices.dtype, rows.values.dtype) == (np.int64, np.int32, np.float64)
    assert rows.shape == expected.shape
    assert rows.to_dense().tolist() == expected.tolist()
    for start, end in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        assert (np.diff(rows.indices[start:end]) > 0).all()
    for array in (rows.indptr, rows.indices, rows.values):
        assert array.flags.c_contiguous
        assert not array.flags.writeable


SPARSE_KINDS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


@pytest.mark.parametrize("kind", SPARSE_KINDS)
@pytest.mark.parametrize("family", ["array", "matrix"])
def test_sparse_kinds(kind, family):
    X = getattr(sparse, f"{kind}_{family}")(DENSE)
    check(Dataset.from_any(X), DENSE)


@pytest.mark.parametrize(
    "dtype", [bool, np.int8, np.uint64, np.int64, np.float16, np.float32, np.longdouble, object]
)
def test_dense_types(dtype):
    X = np.abs(np.round(DENSE)).astype(dtype)
    check(Dataset.from_any(X), X)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float32])
def test_sparse_types(dtype):
    X = sparse.csr_array(np.abs(np.round(DENSE)).astype(dtype))
    check(Dataset.from_any(X), X.toarray())


def test_layouts_of_dense(tmp_path):
    check(Dataset.from_any(DENSE.tolist()), DENSE)
    check(Dataset.from_any(np.asfortranarray(DENSE)), DENSE)
    check(Dataset.from_any(np.repeat(DENSE, 2, axis=1)[:, ::2]), DENSE)
    check(Dataset.from_any(DENSE[::-1, ::-1]), DENSE[::-1, ::-1])
    np.save(tmp_path / "x.npy", DENSE)
    check(Dataset.from_any(np.load(tmp_path / "x.npy", mmap_mode="r")), DENSE)


def test_read_only_memory_map_in_a_sparse_matrix(tmp_path):
    X = sparse.csr_array(DENSE)
    parts = []
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(X, name))
        parts.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    check(Dataset.from_any(sparse.csr_array(tuple(parts), shape=X.shape)), DENSE)


def test_wide_unsorted_and_repeated_indices():
    wide = sparse.csr_array(DENSE)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    check(Dataset.from_any(wide), DENSE)
    unsorted = sparse.csr_array(([4.0, 3.0, 1.0], [2, 0, 1], [0, 2, 3]), shape=(2, 3))
    check(Dataset.from_any(unsorted), [[3, 0, 4], [0, 1, 0]])
    assert unsorted.indices.tolist() == [2, 0, 1]  # the caller's matrix is as it was
    repeated = sparse.csr_array(([1.0, 2.0, 5.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    check(Dataset.from_any(repeated), [[0, 3], [5, 0]])
    assert repeated.data.tolist() == [1, 2, 5]


@pytest.mark.parametrize("kind", ["csr", "coo"])
def test_repeated_narrow_integers_do_not_wrap(kind):
    X = sparse.coo_array((np.array([100, 100], dtype=np.int8), ([0, 0], [1, 1])), shape=(1, 2))
    if kind == "csr":
        X = sparse.csr_array((X.data, [1, 1], [0, 2]), shape=(1, 2))
    check(Dataset.from_any(X), [[0, 200]])


def test_spare_room_behind_the_stored_values():
    X = sparse.csr_array(([1.0, 2.0, 99.0], [0, 1, 77], [0, 1, 2]), shape=(2, 2))
    check(Dataset.from_any(X), [[1, 0], [0, 2]])


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty_shapes(shape):
    for X in (np.zeros(shape), sparse.csr_array(shape), sparse.coo_array(shape)):
        rows = Dataset.from_any(X)
        check(rows, np.zeros(shape))
        assert rows.squared_norms().shape == (shape[0],)
        assert rows.variance() == 0
        assert rows.to_scipy().shape == shape
        assert rows.take(np.arange(shape[0])).shape == shape
        assert rows.used_columns().tolist() == []


def test_the_callers_arrays_stay_writable_and_unchanged():
    X = sparse.csr_array(DENSE)
    dense = DENSE.copy()
    for source in (X, dense):
        rows = Dataset.from_any(source)
        with pytest.raises(ValueError, match="read-only"):
            rows.values[0] = 7
    for array in (X.data, X.indices, X.indptr, dense):
        assert array.flags.writeable
    assert X.toarray().tolist() == dense.tolist() == DENSE.tolist()
    parts = (X.indptr.astype(np.int64), X.indices, X.data)
    Dataset(*parts, 4)
    assert all(array.flags.writeable for array in parts)


# since scipy 1.13; older ones make it a matrix of one row
VECTOR = sparse.coo_array(np.ones(3))
ONE_DIMENSION = [(VECTOR, "two dimensions")] if VECTOR.ndim == 1 else []


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ([1.0, 2.0], "two dimensions.*reshape"),
        (np.zeros((2, 2, 2)), "two dimensions"),
        (5, "two dimensions"),
        (None, "two dimensions"),
        *ONE_DIMENSION,
        ([[1, 2], [3]], "X cannot be read as a matrix"),
        ([["a", "b"]], "expected numbers"),
        ([["1", "2"]], "expected numbers"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "expected numbers"),
        ([[None, 1]], "NaN|cannot be read"),
        ([[1j]], "complex"),
        (sparse.csr_array([[1j]]), "complex"),
        ([[np.nan, 1]], "NaN or infinity"),
        ([[1, -np.inf]], "NaN or infinity"),
        (sparse.csr_array([[np.nan, 1]]), "NaN or infinity"),
        (np.array([["1e400"]]).astype(np.longdouble), "NaN or infinity"),
        (np.ma.masked_equal([[1.0, 2.0]], 2.0), "masked"),
        (sparse.csr_array((1, 2**31)), "the limit is"),
    ],
)
def test_refused(X, words):
    with pytest.raises(ParameterError, match=words):
        Dataset.from_any(X)


@pytest.mark.parametrize(
    ("indices", "indptr"),
    [([0, 5], [0, 1, 2]), ([0, -1], [0, 1, 2]), ([0, 1], [0, 2, 1]), ([0, 1], [1, 1, 2])],
)
def test_broken_index_arrays_are_refused(indices, indptr):
    X = sparse.csr_array(np.eye(2))
    X.indices, X.indptr = np.array(indices, dtype=np.int32), np.array(indptr, dtype=np.int32)
    with pytest.raises(ParameterError, match="index arrays"):
        Dataset.from_any(X)


def test_methods_against_dense():
    generator = np.random.default_rng(3)
    for _ in range(50):
        dense = generator.normal(size=(6, 5)) * (generator.random((6, 5)) < generator.choice([0.1, 0.5, 1.0]))
        rows = Dataset.from_any(dense)
        order = generator.integers(0, 6, size=9)
        columns = np.flatnonzero(generator.random(5) < 0.5).astype(np.int32)
        assert np.allclose(rows.squared_norms(), (dense**2).sum(axis=1), rtol=1e-15, atol=0)
        assert rows.variance() == pytest.approx(dense.var())
        check(rows.take(order), dense[order])
        check(rows.on_columns(columns), dense[:, columns])
        check(rows.with_features(3), dense[:, :3])
        check(rows.with_features(7), np.pad(dense, ((0, 0), (0, 2))))
        assert rows.used_columns().tolist() == np.flatnonzero(dense.any(axis=0)).tolist()
        assert rows.to_scipy().toarray().tolist() == dense.tolist()


def test_squared_norms_before_empty_rows_at_the_end():
    assert Dataset.from_any([[1, 2], [0, 0]]).squared_norms().tolist() == [5, 0]


def test_pickle_and_repr():
    rows = Dataset.from_any(DENSE)
    back = pickle.loads(pickle.dumps(rows))
    check(back, DENSE)
    assert repr(back) == "Dataset(4 rows, 4 features, 5 nonzeros)"


def test_a_dataset_passes_through():
    rows = Dataset.from_any(DENSE)
    assert Dataset.from_any(rows) is rows


def test_rows_from_entries_in_any_order():
    generator = np.random.default_rng(5)
    rows, columns = generator.integers(0, 7, size=60), generator.integers(0, 4, size=60)
    values = generator.integers(1, 9, size=60).astype(float)
    dense = np.zeros((7, 4))
    np.add.at(dense, (rows, columns), values)
    check(from_entries(rows, columns, values, (7, 4)), dense)
    nothing = np.zeros(0, dtype=np.int64)
    check(from_entries(nothing, nothing, np.zeros(0), (3, 2)), np.zeros((3, 2)))
    places = generator.integers(0, 3, size=7)
    summed = np.zeros((4, 4))
    np.add.at(summed, places, dense)
    check(summed_rows(Dataset.from_any(dense), places, 4), summed)


def test_dense_rows_without_zeros_in_any_layout():
    whole = np.arange(1.0, 25).reshape(4, 6)
    for X in (
        whole,
        whole.T,
        whole[:1],
        whole.T[:1],
        whole[:, 1:3],
        whole[::2],
        whole[:, ::-1],
        whole[:, :1],
    ):
        rows = Dataset.from_any(X)
        assert rows.values.flags.c_contiguous
        assert rows.n_nonzeros == X.size
        assert rows.to_dense().tolist() == X.tolist()
        assert rows.dense_view().tolist() == X.tolist()
    assert np.shares_memory(Dataset.from_any(whole).values, whole)
    assert Dataset.from_any(np.empty((3, 0))).shape == (3, 0)
    assert Dataset.from_any(np.empty((0, 3))).shape == (0, 3)


# ---- the constructor is public: it believes nothing


GOOD = {
    "indptr": np.array([0, 2, 3], np.int64),
    "indices": np.array([0, 2, 1], np.int32),
    "values": np.array([1.0, 2.0, 3.0]),
    "n_features": 3,
}


def test_sound_arrays_of_any_width_are_taken():
    expected = [[1, 0, 2], [0, 3, 0]]
    check(Dataset(**GOOD), expected)
    check(Dataset([0, 2, 3], [0, 2, 1], [1, 2, 3], np.int64(3)), expected)
    wide = {name: GOOD[name].astype(np.int64) for name in ("indptr", "indices")}
    check(Dataset(**(GOOD | wide)), expected)
    check(Dataset(**(GOOD | {"values": np.repeat(GOOD["values"], 2)[::2].astype(np.float32)})), expected)
    check(Dataset([0, 0], [], [], 0), np.zeros((1, 0)))
    check(Dataset([0], [], [], 5), np.zeros((0, 5)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"indices": np.array([0, 200_000_000, 1])}, "index arrays that do not fit its shape \\(2, 3\\)"),
        ({"indices": np.array([0, -1, 1])}, "index arrays"),
        ({"indices": np.array([0, 2**32, 1])}, "index arrays"),
        ({"indices": np.array([0.0, 2.0, 1.0])}, "index arrays"),
        ({"indices": np.array([2, 0, 1])}, "ascend"),
        ({"indices": np.array([2, 2, 1])}, "ascend"),
        ({"indices": np.array([[0, 2, 1]])}, "one dimension"),
        ({"indices": np.array([0, 2, 1, 0])}, "indptr ends at 3"),
        ({"indices": np.array([0, 2])}, "index arrays"),
        ({"indptr": np.array([0, 4, 3])}, "index arrays"),
        ({"indptr": np.array([0, 2, 2**40])}, "index arrays"),
        ({"indptr": np.array([1, 2, 3])}, "index arrays"),
        ({"indptr": np.array([-1, 2, 3])}, "index arrays"),
        ({"indptr": np.array([0, 2, 2])}, "indptr ends at 2"),
        ({"indptr": np.array([0.0, 2.0, 3.0])}, "index arrays"),
        ({"indptr": np.array([], np.int64)}, "index arrays"),
        ({"indptr": 3}, "one dimension"),
        ({"values": np.array([1.0, np.nan, 2.0])}, "NaN or infinity"),
        ({"values": np.array([1.0, -np.inf, 2.0])}, "NaN or infinity"),
        ({"values": np.array([1.0, 2.0])}, "index arrays"),
        ({"values": np.array([1.0, 2.0, 3.0, 4.0])}, "indptr ends at 3"),
        ({"values": np.array(["a", "b", "c"])}, "expected numbers"),
        ({"n_features": 2}, "index arrays"),
        ({"n_features": -1}, "n_features must be from 0"),
        ({"n_features": 2**31}, "n_features must be from 0"),
        ({"n_features": 3.5}, "n_features must be a whole number"),
    ],
)
def test_arrays_that_break_a_promise_are_refused(changes, words):
    with pytest.raises(ParameterError, match=words):
        Dataset(**(GOOD | changes))


def test_a_dataset_does_not_change():
    rows = Dataset(**GOOD)
    for name, value in GOOD.items():
        with pytest.raises(AttributeError, match="never changed"):
            setattr(rows, name, value)
    kept = Dataset(GOOD["indptr"].copy(), indices := GOOD["indices"].copy(), GOOD["values"], 3)
    indices[:] = 200_000_000
    check(kept, [[1, 0, 2], [0, 3, 0]])


def test_flags_of_scipy_are_not_believed():
    X = sparse.csr_array(np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 4.0]]))
    assert X.has_canonical_format
    assert X.has_sorted_indices
    X.indices[:2] = [2, 0]  # the flags stay
    check(Dataset.from_any(X), [[2, 0, 1], [0, 3, 4]])
    X.indices[:2] = [1, 1]
    check(Dataset.from_any(X), [[0, 3, 0], [0, 3, 4]])
    assert X.indices[:2].tolist() == [1, 1]
    X.indices[0] = 200_000_000
    with pytest.raises(ParameterError, match="index arrays"):
        Dataset.from_any(X)


def test_index_arrays_belong_to_the_dataset():
    X = sparse.csr_array(DENSE)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int64)
    rows = Dataset.from_any(X)
    assert not np.shares_memory(rows.indices, X.indices)
    assert not np.shares_memory(rows.indptr, X.indptr)
    assert np.shares_memory(rows.values, X.data)


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo"])
@pytest.mark.parametrize("place", [200_000_000, -200_000_000])
def test_indices_are_checked_before_scipy_follows_them(kind, place):
    X = getattr(sparse, f"{kind}_array")(np.eye(4))
    check(Dataset.from_any(X), np.eye(4))
    for array in (X.row, X.col) if kind == "coo" else (X.indices, X.indptr):
        kept = array[1]
        array[1] = place
        with pytest.raises(ParameterError, match="index arrays that do not fit"):
            Dataset.from_any(X)
        array[1] = kept
    check(Dataset.from_any(X), np.eye(4))


@pytest.mark.parametrize("n", [2, 7, 300])
def test_mean_distance(n):
    from scipy.spatial.distance import pdist

    X = np.random.default_rng(n).normal(size=(n, 3)) * [1, 10, 0]
    assert Dataset.from_any(X).mean_distance() == pytest.approx(pdist(X).mean(), rel=1e-12)


def test_mean_distance_of_a_sample_and_of_equal_rows():
    X = np.random.default_rng(0).normal(size=(3000, 2))
    data = Dataset.from_any(X)
    assert data.mean_distance(seed=1) == data.mean_distance(seed=1) != data.mean_distance(seed=2)
    assert data.mean_distance() == pytest.approx(
        np.sqrt(np.pi), rel=0.05
    )  # of two normal points in the plane
    assert Dataset.from_any(np.full((5, 3), 1 / 3)).mean_distance() == 0
    assert Dataset.from_any(X[:1]).mean_distance() == 0


@pytest.mark.parametrize("width", [np.int32, np.int64, np.uint32, np.int16])
def test_columns_are_judged_by_their_copies(width):
    from scipy.sparse import csr_array

    def given(columns, starts=(0, 2, 2, 5)):
        rows = csr_array((3, 6))
        rows.indptr, rows.data = np.array(starts, dtype=np.int64), np.arange(1.0, 6.0)
        rows.indices = np.array(columns, dtype=width)
        return rows

    good = given([4, 5, 0, 4, 5])
    kept = Dataset.from_any(good)
    good.indices[:] = 999
    assert kept.indices.tolist() == [4, 5, 0, 4, 5]
    assert Dataset.from_any(given([5, 4, 5, 4, 0])).indices.tolist() == [4, 5, 0, 4, 5]
    bad = [[0, 6, 0, 1, 2], [0, 1, 0, 1, 30000]]
    if width is not np.uint32:
        bad.append([-1, 1, 0, 1, 2])
    if width is np.int64:
        bad += [[0, 1, 0, 1, 2**31], [0, 1, 0, 1, 2**32 + 3], [0, 1, 0, 1, -(2**63)]]
    for columns in bad:
        with pytest.raises(ParameterError, match="index arrays that do not fit"):
            Dataset.from_any(given(columns))


def test_order_is_seen_across_chunks():
    """The check works on chunks of columns: a fall at their seam counts, unless a row begins there."""
    from scipy.sparse import csr_array

    n, seam = 10_000, 4096
    columns, values = np.arange(n, dtype=np.int32), np.ones(n)
    swapped = columns.copy()
    swapped[[seam - 1, seam]] = swapped[[seam, seam - 1]]
    rows = Dataset.from_any(csr_array((values, swapped, np.array([0, n])), shape=(1, n)))
    assert (rows.indices == columns).all()
    two = np.concatenate([columns[:seam], columns[: n - seam]])
    rows = Dataset.from_any(csr_array((values, two, np.array([0, 0, seam, seam, n])), shape=(4, n)))
    assert (rows.indices == two).all()
    with pytest.raises(ParameterError, match="ascend"):
        Dataset([0, n], two, values, n)


@pytest.mark.parametrize("place", [0, 1, 6, 7])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_every_place_is_looked_at(place, value):
    X = np.full((2, 4), 1e308)
    X[place // 4, place % 4] = value
    with pytest.raises(ParameterError, match="NaN or infinity"):
        Dataset.from_any(X)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [("d.txt", [1, 2], "X is the text 'd.txt'; odmlib.read_data or read_table reads a file"),
     (Path("d.txt"), [1, 2], "X is the text 'd.txt'; odmlib.read_data or read_table reads a file"),
     ([[1.0], [2.0]], None, "y is missing; it holds one label per row (machine='odmo' needs none)"),
     ([[1.0, 2.0], [3.0, np.nan]], [1, 2], "every value must be finite (X[1, 1] is nan)"),
     ([[1.0, 2.0], [np.inf, 3.0]], [1, 2], "every value must be finite (X[1, 0] is inf)")],
)  # fmt: skip
def test_slips_of_beginners(X, y, message):
    with pytest.raises(odmlib.ParameterError) as caught:
        odmlib.train(X, y)
    assert message in str(caught.value)


def test_a_kernel_of_ones_own_is_precomputed():
    with pytest.raises(odmlib.ParameterError, match="a kernel of your own is a matrix: kernel='precomputed'"):
        odmlib.train([[1.0], [2.0]], [1, 2], kernel=lambda a, b: a @ b.T)
