from __future__ import annotations

import numpy as np
import pytest

from odmlib.solvers.linalg.dense import STEP_WIDTH
from odmlib.solvers.linalg.inverse import inverse_bytes, inverse_diagonal, inverse_factor, inverse_product


def positive_matrix(n: int):
    half = np.random.default_rng(n).standard_normal((n, n // 2 + 1))
    return np.einsum("ik,jk->ij", half, half) + np.eye(n)


def lower(matrix):
    """The lower triangle; what is above must not matter."""
    work = np.tril(matrix)
    work[np.triu_indices(len(matrix), 1)] = np.nan
    return work


@pytest.mark.parametrize(
    "n", [0, 1, 2, 3, 4, 5, 7, 8, 11, STEP_WIDTH - 1, STEP_WIDTH, STEP_WIDTH + 1, 200, 301]
)
def test_inverse(n):
    matrix = positive_matrix(n)
    found = [lower(matrix), lower(matrix)]
    assert inverse_factor(found[0], threads=1)
    assert inverse_factor(found[1], threads=3)
    assert (found[0] == found[1]).all()
    expected = np.linalg.inv(matrix)
    np.testing.assert_allclose(found[0].T @ found[0], expected, atol=1e-12)
    np.testing.assert_allclose(inverse_diagonal(found[0]), expected.diagonal(), rtol=1e-11)
    right = np.linspace(-1, 1, n)
    np.testing.assert_allclose(inverse_product(found[0], right), expected @ right, atol=1e-12)


def test_baseline_instructions_give_the_same():
    """The loops without AVX2, which processors of today would never run."""
    import subprocess
    import sys

    from tests.cli.tools import environment

    script = (
        "from tests.solvers.linalg.test_inverse import *; m = positive_matrix(150);"
        "work = lower(m); inverse_factor(work);"
        "np.testing.assert_allclose(work.T @ work, np.linalg.inv(m), atol=1e-12)"
    )
    subprocess.run([sys.executable, "-c", script], env=environment(ODMLIB_BASELINE="1"), check=True)


def test_ill_conditioned_matrices_keep_their_diagonal():
    """Condition 1e10, as kernel matrices at a large C have it."""
    n = 150
    q, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((n, n)))
    values = np.logspace(-10, 0, n)
    matrix = (q * values) @ q.T
    expected = ((q / values) * q).sum(axis=1)
    work = (matrix + matrix.T) / 2
    assert inverse_factor(work)
    np.testing.assert_allclose(inverse_diagonal(work), expected, rtol=1e-4)


@pytest.mark.parametrize("place", [0, STEP_WIDTH + 3])
@pytest.mark.parametrize("pivot", [-1.0, 0.0, np.nan, np.inf])
def test_a_matrix_that_is_not_positive_definite_is_noticed(place, pivot):
    matrix = np.eye(STEP_WIDTH + 10)
    matrix[place, place] = pivot
    assert not inverse_factor(matrix)


def test_memory_is_that_of_one_matrix():
    assert 8 * 5000**2 < inverse_bytes(5000) < 8.3 * 5000**2
