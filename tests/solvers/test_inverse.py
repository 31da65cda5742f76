from __future__ import annotations

import numpy as np
import pytest

from odmlib.solvers.inverse import BLOCK, inverse_diagonal, inverse_factor, inverse_product


def positive_matrix(n: int):
    half = np.random.default_rng(n).standard_normal((n, n // 2 + 1))
    return half @ half.T + np.eye(n)


@pytest.mark.parametrize("n", [0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 30])
def test_inverse(n):
    matrix = positive_matrix(n)
    expected = np.linalg.inv(matrix)
    work = np.tril(matrix)
    work[np.triu_indices(n, 1)] = np.nan  # not to be read
    assert inverse_factor(work)
    np.testing.assert_allclose(work.T @ work, expected, atol=1e-12)
    np.testing.assert_allclose(inverse_diagonal(work), expected.diagonal(), rtol=1e-11)
    right = np.linspace(-1, 1, n)
    np.testing.assert_allclose(inverse_product(work, right), expected @ right, atol=1e-12)


@pytest.mark.parametrize("place", [0, BLOCK + 3])
@pytest.mark.parametrize("pivot", [-1.0, 0.0, np.nan])
def test_a_matrix_that_is_not_positive_definite_is_noticed(place, pivot):
    matrix = np.eye(BLOCK + 10)
    matrix[place, place] = pivot
    assert not inverse_factor(matrix)
