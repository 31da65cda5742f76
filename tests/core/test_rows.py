"""Products with rows against dense NumPy algebra, and the same bits for any number of threads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from odmlib._core.rows import CHUNK_NONZEROS, Rows
from odmlib.data.dataset import Dataset


def random_matrix(n, d, density, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * (rng.random((n, d)) < density)


def with_bias(dense, bias):
    return np.hstack([dense, np.full((len(dense), 1), bias)]) if bias else dense


CASES = {
    "full": random_matrix(40, 6, 1.0),
    "sparse": random_matrix(60, 9, 0.3),
    "some full, some not": np.vstack([random_matrix(20, 5, 1.0), random_matrix(20, 5, 0.4, 1)]),
    "empty rows": random_matrix(30, 4, 0.3) * (np.arange(30) % 3 != 0)[:, None],
    "all empty": np.zeros((5, 3)),
    "empty columns": random_matrix(10, 4, 1.0) * np.array([1, 0, 1, 0]),
    "no columns": np.zeros((4, 0)),
    "no rows": np.zeros((0, 3)),
    "nothing": np.zeros((0, 0)),
    "one row": random_matrix(1, 3, 1.0),
    "one entry": np.array([[2.0]]),
}


@pytest.fixture(params=CASES)
def dense(request):
    return CASES[request.param]


@pytest.fixture(params=[0.0, 1.0, -2.5])
def bias(request):
    return request.param


def test_shape_and_norms(dense, bias):
    rows = Rows(Dataset.from_any(dense), bias)
    full = with_bias(dense, bias)
    assert (rows.n_rows, rows.n_columns) == full.shape
    assert rows.n_nonzeros == np.count_nonzero(dense)
    np.testing.assert_allclose(rows.squared_norms(), np.square(full).sum(axis=1), rtol=1e-14)


@pytest.mark.parametrize("threads", [1, 3])
def test_products(dense, bias, threads):
    rows, full = Rows(Dataset.from_any(dense), bias), with_bias(dense, bias)
    rng = np.random.default_rng(1)
    w, u = rng.standard_normal(full.shape[1]), rng.standard_normal(full.shape[0])
    c = rng.random(full.shape[0]) * (rng.random(full.shape[0]) < 0.7)  # some rows do not count
    np.testing.assert_allclose(rows.product(w, threads), full @ w, atol=1e-13)
    M = rng.standard_normal((full.shape[1], full.shape[1]))
    M += M.T
    forms = np.einsum("ij,jk,ik->i", full, M, full)
    np.testing.assert_allclose(rows.quadratic_forms(M, threads), forms, atol=1e-12)
    np.testing.assert_allclose(rows.transposed_product(u, threads), full.T @ u, atol=1e-13)
    np.testing.assert_allclose(rows.hessian_product(c, w, threads), full.T @ (c * (full @ w)), atol=1e-12)
    np.testing.assert_allclose(rows.hessian_diagonal(c, threads), c @ np.square(full), atol=1e-13)
    gram = rows.gram(c, threads)
    np.testing.assert_allclose(gram, full.T @ (c[:, None] * full), atol=1e-12)
    np.testing.assert_array_equal(gram, gram.T)


def test_negative_coefficients_take_rows_away(dense, bias):
    rows = Rows(Dataset.from_any(dense), bias)
    c = np.ones(rows.n_rows)
    np.testing.assert_allclose(rows.gram(c) + rows.gram(-c), np.zeros((rows.n_columns,) * 2), atol=0)


def test_sparse_input_is_the_same(bias):
    from scipy.sparse import csr_array, random

    matrix = csr_array(random(50, 200, density=0.05, random_state=3))
    sparse, dense = Rows(Dataset.from_any(matrix), bias), Rows(Dataset.from_any(matrix.toarray()), bias)
    w = np.linspace(-1, 1, sparse.n_columns)
    assert sparse.product(w).tobytes() == dense.product(w).tobytes()
    np.testing.assert_allclose(sparse.product(w), with_bias(matrix.toarray(), bias) @ w, atol=1e-13)


def many_rows(density, n_columns):
    """Enough work for several chunks, with rows of very unequal length."""
    rng = np.random.default_rng(7)
    n = int(6 * CHUNK_NONZEROS / (n_columns * density))
    filled = rng.random((n, n_columns)) < density * (2 * rng.random((n, 1)))
    return Rows(Dataset.from_any(rng.standard_normal((n, n_columns)) * filled), 1.0)


@pytest.mark.parametrize(("density", "n_columns"), [(1.0, 12), (0.3, 40)])
def test_any_number_of_threads_gives_the_same_bits(density, n_columns):
    rows = many_rows(density, n_columns)
    rng = np.random.default_rng(8)
    w, u, c = rng.standard_normal(rows.n_columns), rng.standard_normal(rows.n_rows), rng.random(rows.n_rows)

    def results(threads):
        return [
            rows.product(w, threads).tobytes(),
            rows.transposed_product(u, threads).tobytes(),
            rows.hessian_product(c, w, threads).tobytes(),
            rows.hessian_diagonal(c, threads).tobytes(),
            rows.gram(c, threads).tobytes(),
        ]

    alone = results(1)
    for threads in (2, 3, 7):
        assert results(threads) == alone


def test_large_sums_are_right():
    """Several chunks: the partial sums are added up, each row counts once."""
    rows = many_rows(1.0, 12)
    ones = np.ones(rows.n_rows)
    assert rows.transposed_product(ones, 2)[-1] == rows.n_rows
    assert rows.hessian_diagonal(ones, 2)[-1] == rows.n_rows
    assert rows.gram(ones, 2)[-1, -1] == rows.n_rows
    np.testing.assert_allclose(np.diag(rows.gram(ones, 2)), rows.hessian_diagonal(ones, 2), rtol=1e-12)
    np.testing.assert_allclose(rows.gram(ones, 2)[-1], rows.transposed_product(ones, 2), rtol=1e-12)


def test_read_only_arrays_are_taken():
    rows = Rows(Dataset.from_any(np.eye(3)))
    w = np.arange(3.0)
    w.flags.writeable = False
    np.testing.assert_array_equal(rows.product(w), [0, 1, 2])
    np.testing.assert_array_equal(rows.hessian_product(w, w), [0, 1, 4])


@pytest.mark.parametrize("call", ["product", "transposed_product", "hessian_diagonal", "gram"])
def test_wrong_lengths_are_refused(call):
    rows = Rows(Dataset.from_any(np.ones((2, 3))), 1.0)
    with pytest.raises(ValueError, match="as many entries"):
        getattr(rows, call)(np.ones(7))


def test_any_object_with_the_arrays_will_do():
    class Source(NamedTuple):
        indptr: np.ndarray
        indices: np.ndarray
        values: np.ndarray
        n_features: int

    rows = Rows(Source(np.array([0, 1, 3]), np.array([0, 0, 1], np.int32), np.array([2.0, 3.0, 4.0]), 2), 1.0)
    np.testing.assert_array_equal(rows.product(np.array([1.0, 10.0, 100.0])), [102, 143])
    part = rows.restricted(np.array([1])).dataset()
    assert isinstance(part, Source)
    assert (part.indptr.tolist(), part.values.tolist(), part.n_features) == ([0, 2], [3, 4], 2)
    with pytest.raises(ValueError, match="do not fit together"):
        Rows(Source(np.array([0, 4]), np.array([0], np.int32), np.array([2.0]), 2))


@pytest.mark.parametrize("n_outputs", [1, 2, 7])
@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_products_with_several_outputs(dense, bias, n_outputs):
    rows, full = Rows(Dataset.from_any(dense), bias), with_bias(dense, bias)
    weights = np.random.default_rng(2).standard_normal((full.shape[1], n_outputs))
    found = rows.products(weights, 2)
    assert found.shape == (len(dense), n_outputs)
    np.testing.assert_allclose(found, full @ weights, atol=1e-12)
    for place in range(n_outputs):
        assert np.array_equal(found[:, place], rows.product(np.ascontiguousarray(weights[:, place])))


@pytest.mark.parametrize("bias", [0.0, 1.5])
@pytest.mark.parametrize("n_features", [1, 2, 7])
def test_gram_of_full_rows_and_others(bias, n_features):
    """Four full rows go at once, rows with a hole stand between, some have no coefficient; sums are exact."""
    random = np.random.default_rng(n_features)
    X = random.integers(1, 9, size=(203, n_features)).astype(float)
    X[::5, 0] = 0
    c = random.integers(-4, 5, size=203) * 0.25
    whole = np.column_stack([X, np.full(203, bias)]) if bias else X
    found = Rows(Dataset.from_any(X), bias).gram(c)
    np.testing.assert_array_equal(found, whole.T @ (c[:, None] * whole))
