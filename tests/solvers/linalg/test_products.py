"""Products of dense rows by blocks, and forward substitution, against numpy and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.solvers.linalg.dense import dense_gram, forward_substitution


@pytest.mark.parametrize("n", [0, 1, 3, 8, 31, 32, 33, 100])
@pytest.mark.parametrize("m", [1, 127, 128, 300])
def test_dense_gram(m, n):
    random = np.random.default_rng(m * n)
    X, c = random.normal(size=(m, n)), random.normal(size=m)
    c[::5] = 0
    gram = dense_gram(X, c, 1)
    assert gram == pytest.approx(X.T @ (c[:, None] * X), abs=1e-10)
    assert (gram == gram.T).all()
    assert (gram == dense_gram(X, c, 3)).all()


@pytest.mark.parametrize("n", [1, 5, 70])
@pytest.mark.parametrize("columns", [1, 31, 32, 33, 100])
def test_forward_substitution(n, columns):
    random = np.random.default_rng(n + columns)
    L = np.tril(random.normal(size=(n, n)), -1) * 0.2 + np.diag(random.uniform(1, 2, n))
    B, out = random.normal(size=(n, columns)), np.empty((columns, n))
    forward_substitution(L, B, out, 2)
    assert out == pytest.approx(solve_triangular(L, B, lower=True).T, abs=1e-9)


def test_rows_know_whether_they_are_dense():
    X = np.random.default_rng(0).normal(size=(6, 3))
    assert (Rows(Dataset.from_any(X)).dense() == X).all()
    assert Rows(Dataset.from_any(X), 1.0).dense() is None
    X[2, 1] = 0
    assert Rows(Dataset.from_any(X)).dense() is None
