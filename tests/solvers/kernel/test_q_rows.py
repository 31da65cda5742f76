"""Rows of Q: cached kernels and linear rows answer the same questions alike."""

import numpy as np
import pytest

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.kernels.cache import RowCache
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.solvers.kernel.q_rows import KernelRows, LinearRows, add_block

M, BLOCK = 40, np.array([7, 3, 39, 0, 21])
X = np.random.default_rng(0).integers(-3, 4, (M, 6)).astype(float)  # products are exact in float32
K = X @ X.T
SIGNS = np.where(np.arange(M) % 3, 1.0, -1.0)


def sources(threads=1):
    kernel = Kernel(KernelFormula("linear"), Dataset.from_any(X))
    return {
        "float32": KernelRows(RowCache(kernel, 1 << 20), 8, threads),
        "float64": KernelRows(RowCache(kernel, 1 << 20, True), 8, threads),
        "linear": LinearRows(Rows(Dataset.from_any(X)), 8, threads),
    }


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", ["float32", "float64", "linear"])
def test_a_block_and_what_its_change_does_to_all_scores(name, threads):
    q = sources(threads)[name]
    assert (q.n_rows, q.most_rows, q.float64) == (M, 8, name != "float32")
    assert q.diagonal == pytest.approx(np.diag(K))
    q.fetch(BLOCK)
    matrix = np.full((8, 16), np.nan)
    q.gather(SIGNS[BLOCK], matrix)
    signs = SIGNS[BLOCK]
    assert (matrix[:5, :5] == signs[:, None] * signs * K[np.ix_(BLOCK, BLOCK)]).all()
    assert np.isnan(matrix[5:]).all() and np.isnan(matrix[:, 5:]).all()
    scores = np.zeros(M)
    for factors in ([1.0, -2.0, 0.0, 3.0, 0.5], [0.0, 0.0, 4.0, 0.0, 0.0]):
        before = scores.copy()
        q.add(np.array(factors), scores)
        assert scores - before == pytest.approx(K[:, BLOCK] @ factors)
    q.fetch(BLOCK[:0])
    q.add(np.zeros(0), scores)
    assert scores == pytest.approx(K[:, BLOCK] @ [1.0, -2.0, 4.0, 3.0, 0.5])


def test_linear_rows_keep_the_weights_and_rebuild_them():
    q = sources()["linear"]
    scores = np.zeros(M)
    q.fetch(BLOCK)
    q.add(np.arange(5.0), scores)
    assert q.weights == pytest.approx(X[BLOCK].T @ np.arange(5.0))
    coefficients = np.random.default_rng(1).standard_normal(M)
    q.rebuild(coefficients, scores)
    assert q.weights == pytest.approx(X.T @ coefficients)
    assert scores == pytest.approx(K @ coefficients)


def test_only_rows_that_are_held_are_preferred():
    rows = sources()
    rows["float32"].fetch(BLOCK)
    held = np.isin(np.arange(M), BLOCK)
    for name, expected in (("float32", np.where(held, 2.0, 1.0)), ("linear", np.ones(M))):
        gains = np.ones(M)
        rows[name].prefer_held(gains, 2.0)
        assert (gains == expected).all()


@pytest.mark.parametrize("name", ["float64", "linear"])
def test_arrays_that_do_not_fit_are_refused(name):
    """They are raw memory to the compiled loops; python -O must refuse them too."""
    q = sources()[name]
    for rows, message in (([-1], "no row -1"), ([M], f"no row {M}"), (range(9), "at most 8 rows, found 9")):
        with pytest.raises(ValueError, match=message):
            q.fetch(np.array(rows))
    q.fetch(BLOCK)
    for signs, matrix in ((np.ones(4), np.empty((8, 8))), (np.ones(5), np.empty((4, 8)))):
        with pytest.raises(ValueError, match="too short"):
            q.gather(signs, matrix)
    for factors, scores in ((np.ones(4), np.zeros(M)), (np.ones(5), np.zeros(M - 1))):
        with pytest.raises(ValueError, match="are needed"):
            q.add(factors, scores)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_add_block(kind):
    sums = np.ones(M)
    add_block(K[:3].astype(kind), np.array([1.0, 2.0, 3.0]), sums, 2)
    assert sums == pytest.approx(1 + np.array([1.0, 2.0, 3.0]) @ K[:3])
    with pytest.raises(ValueError, match="are needed"):
        add_block(K[:3].astype(kind), np.ones(2), sums, 1)
    with pytest.raises(ValueError, match="are needed"):
        add_block(K[:3].astype(np.int64), np.ones(3), sums, 1)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("part", [0.02, 0.3, 1.0])
def test_blocks_of_sparse_linear_rows_are_gathered_exactly(part, threads):
    rng = np.random.default_rng(2)
    sparse = np.where(rng.random((M, 200)) < part, rng.integers(-3, 4, (M, 200)), 0).astype(float)
    sparse[5] = 0
    products = sparse @ sparse.T + 0.25
    q = LinearRows(Rows(Dataset.from_any(sparse), 0.5), 16, threads)
    for block in (np.arange(16), np.array([5, 39, 2, 30]), np.array([5]), np.arange(20, 36)):
        signs = SIGNS[block]
        matrix = np.full((16, 16), np.nan)
        q.fetch(block)
        q.gather(signs, matrix)
        n = len(block)
        assert (matrix[:n, :n] == signs[:, None] * signs * products[np.ix_(block, block)]).all()
