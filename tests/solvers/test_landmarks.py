"""Landmarks: the oracle of spec/sodm.md, and what pivoted Cholesky promises."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.solvers.landmarks import choose_landmarks
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
