"""Small dense systems against numpy."""

import numpy as np
import pytest

from odmlib.solvers.linalg.dense import solve_positive


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 16, 63, 64, 65, 129, 300])
def test_agrees_with_numpy(n):
    random = np.random.default_rng(n)
    root = random.standard_normal((n, n + 3))
    matrix = np.ascontiguousarray(root @ root.T) + np.eye(n)
    kept = matrix.copy()
    right = random.standard_normal(n)
    np.testing.assert_allclose(solve_positive(matrix, right), np.linalg.solve(matrix, right), rtol=1e-8)
    np.testing.assert_array_equal(matrix, kept)


@pytest.mark.parametrize(
    "matrix", [[[-1.0]], [[1.0, 2.0], [2.0, 1.0]], [[0.0]], [[np.nan]], [[1.0, 1.0], [1.0, 1.0]]]
)
def test_what_is_not_positive_has_no_solution(matrix):
    assert solve_positive(np.array(matrix), np.ones(len(matrix))) is None
