"""Landmarks: the oracle, and what pivoted Cholesky promises; Nystrom features: products and functions."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.solvers.distributed.landmarks import (
    TUNING,
    NystromTuning,
    choose_landmarks,
    coefficients,
    nystrom_features,
)
from tests.reference_kernel import kernel_matrix

LINE = np.array([[0.0], [1.0], [2.0], [3.0], [10.0]])
RBF = KernelFormula("rbf", gamma=0.5)


def kernel_of(X, formula=RBF):
    return Kernel(formula, Dataset.from_any(X))


def test_oracle_order_and_schur_complements():
    assert choose_landmarks(kernel_of(LINE), 5).rows.tolist() == [0, 4, 3, 1, 2]
    one = choose_landmarks(kernel_of(LINE), 1)
    assert one.residual == pytest.approx([0, 0.632120558829, 0.981684361111, 0.999876590196, 1], abs=1e-12)
    three = choose_landmarks(kernel_of(LINE), 3)
    assert three.residual == pytest.approx([0, 0.615581242827, 0.615581242827, 0, 0], abs=1e-12)
    assert three.strata.tolist() == [0, 0, 2, 2, 1]


@pytest.mark.parametrize("formula", [RBF, KernelFormula("poly", 0.3, 2, 1.0, bias=1.0)])
def test_factor_is_the_nystrom_approximation(formula):
    X = np.random.default_rng(3).normal(size=(60, 4))
    K = np.asarray(kernel_matrix(formula, X), dtype=float)
    found = choose_landmarks(kernel_of(X, formula), 9)
    Z = found.rows
    nystrom = K[:, Z] @ np.linalg.solve(K[np.ix_(Z, Z)], K[Z])
    assert found.factor @ found.factor.T == pytest.approx(nystrom, abs=1e-9 * K.max())
    assert found.residual == pytest.approx(np.diag(K - nystrom), abs=1e-9 * K.max())
    # each was the farthest from the span of those before
    for s, z in enumerate(Z):
        before = choose_landmarks(kernel_of(X, formula), s).residual if s else np.diag(K)
        assert before[z] == pytest.approx(before.max(), abs=1e-12 * K.max())


def test_stops_where_the_span_is_complete():
    X = np.random.default_rng(1).normal(size=(30, 3))
    assert len(choose_landmarks(kernel_of(X, KernelFormula("linear")), 20).rows) == 3
    assert len(choose_landmarks(kernel_of(np.ones((7, 2))), 5).rows) == 1


def test_stops_when_the_time_is_over_but_has_one():
    X = np.random.default_rng(1).normal(size=(30, 3))
    found = choose_landmarks(kernel_of(X), 20, out_of_time=lambda: "time_limit")
    assert len(found.rows) == 1 and found.factor.shape == (30, 1)


def test_pivots_are_the_distances_at_which_landmarks_were_chosen():
    kernel = kernel_of(np.random.default_rng(3).normal(size=(60, 4)))
    found = choose_landmarks(kernel, 9)
    before = [choose_landmarks(kernel, s).residual.max() for s in range(1, 9)]
    assert found.pivots == pytest.approx([1.0, *before])


def test_gives_up_where_the_goal_is_out_of_reach():
    X = np.random.default_rng(1).normal(size=(200, 3))
    assert len(choose_landmarks(kernel_of(X, KernelFormula("rbf", gamma=20.0)), 80, goal=1e-3).rows) == 10
    flat = kernel_of(X, KernelFormula("rbf", gamma=0.01))
    enough = choose_landmarks(flat, 80, negligible=1e-3)
    assert choose_landmarks(flat, 80, negligible=1e-3, goal=1e-3).rows.tolist() == enough.rows.tolist()
    assert enough.residual.max() <= 1e-3


FORMULA = KernelFormula("rbf", gamma=0.4, bias=0.5)


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(2).normal(size=(150, 3))


def features_of(X, rank, **details):
    return nystrom_features(Kernel(FORMULA, Dataset.from_any(X), 2), rank, **details)


@pytest.mark.parametrize("sampled", [False, True])
def test_products_are_the_kernel_on_the_landmarks_span(X, sampled):
    tuning = NystromTuning(sample_rows=60, block_values=1) if sampled else TUNING
    found = features_of(X, 12, tuning=tuning)
    assert len(set(found.landmarks.tolist())) == 12
    K = np.asarray(kernel_matrix(FORMULA, X), dtype=float)
    Z, Phi = found.landmarks, found.rows.to_dense()
    expected = K[:, Z] @ np.linalg.solve(K[np.ix_(Z, Z)], K[Z])
    assert Phi @ Phi.T == pytest.approx(expected, abs=1e-9)
    assert found.trace_error == pytest.approx(1 - np.trace(expected) / np.trace(K), abs=1e-9)
    w = np.random.default_rng(1).normal(size=(12, 2))
    beta = coefficients(found.factor, w)
    assert K[:, Z] @ beta == pytest.approx(Phi @ w, abs=1e-9)
    assert beta[:, 0] @ K[np.ix_(Z, Z)] @ beta[:, 0] == pytest.approx(w[:, 0] @ w[:, 0])


def test_sample_decides_by_seed_and_threads_change_nothing(X):
    sampled = {"tuning": NystromTuning(sample_rows=50)}
    one = features_of(X, 8, seed=1, **sampled)
    assert (one.rows.values == features_of(X, 8, seed=1, **sampled).rows.values).all()
    assert (one.landmarks != features_of(X, 8, seed=2, **sampled).landmarks).any()
    single = nystrom_features(Kernel(FORMULA, Dataset.from_any(X), 1), 8, seed=1, **sampled)
    assert (single.rows.values == one.rows.values).all()


def test_rank_ends_where_the_span_is_complete():
    found = features_of(np.repeat(np.eye(3), 5, axis=0), 9)
    assert len(found.landmarks) == 3 and found.trace_error == pytest.approx(0, abs=1e-12)
