"""Nystrom features: their products, their landmarks, and functions made of weights on them."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.solvers import nystrom
from odmlib.solvers.nystrom import nystrom_features
from tests.reference_kernel import kernel_matrix

FORMULA = KernelFormula("rbf", gamma=0.4, bias=0.5)


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(2).normal(size=(150, 3))


def features_of(X, rank, **details):
    return nystrom_features(Kernel(FORMULA, Dataset.from_any(X), 2), rank, **details)


@pytest.mark.parametrize("sampled", [False, True])
def test_products_are_the_kernel_on_the_landmarks_span(X, sampled, monkeypatch):
    if sampled:
        monkeypatch.setattr(nystrom, "SAMPLE_ROWS", 60)
        monkeypatch.setattr(nystrom, "BLOCK_VALUES", 1)
    found = features_of(X, 12)
    assert len(set(found.landmarks.tolist())) == 12
    K = np.asarray(kernel_matrix(FORMULA, X), dtype=float)
    Z, Phi = found.landmarks, found.rows.to_dense()
    expected = K[:, Z] @ np.linalg.solve(K[np.ix_(Z, Z)], K[Z])
    assert Phi @ Phi.T == pytest.approx(expected, abs=1e-9)
    assert found.trace_error == pytest.approx(1 - np.trace(expected) / np.trace(K), abs=1e-9)
    w = np.random.default_rng(1).normal(size=(12, 2))
    beta = found.coefficients(w)
    assert K[:, Z] @ beta == pytest.approx(Phi @ w, abs=1e-9)
    assert beta[:, 0] @ K[np.ix_(Z, Z)] @ beta[:, 0] == pytest.approx(w[:, 0] @ w[:, 0])


def test_sample_decides_by_seed_and_threads_change_nothing(X, monkeypatch):
    monkeypatch.setattr(nystrom, "SAMPLE_ROWS", 50)
    one = features_of(X, 8, seed=1)
    assert (one.rows.values == features_of(X, 8, seed=1).rows.values).all()
    assert (one.landmarks != features_of(X, 8, seed=2).landmarks).any()
    single = nystrom_features(Kernel(FORMULA, Dataset.from_any(X), 1), 8, seed=1)
    assert (single.rows.values == one.rows.values).all()


def test_rank_ends_where_the_span_is_complete():
    found = features_of(np.repeat(np.eye(3), 5, axis=0), 9)
    assert len(found.landmarks) == 3 and found.trace_error == pytest.approx(0, abs=1e-12)
