from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odmlib.model.probability import agreeing, couple_pairs


def test_consistent_pairs_give_back_their_probabilities():
    p = np.random.default_rng(8).dirichlet(np.ones(5), 20)
    first, second = np.triu_indices(5, 1)
    pairs = p[:, first] / (p[:, first] + p[:, second])
    np.testing.assert_allclose(couple_pairs(pairs, 5), p, atol=1e-6)
    np.testing.assert_allclose(couple_pairs(pairs[:, :1], 2)[:, 0], pairs[:, 0], atol=1e-6)


def test_coupling_minimises_its_objective():
    optimize = pytest.importorskip("scipy.optimize")
    pairs = np.random.default_rng(9).random((3, 6))
    ours = couple_pairs(pairs, 4)
    np.testing.assert_allclose(ours.sum(axis=1), 1)
    for row, p in zip(pairs, ours, strict=True):
        r = np.zeros((4, 4))
        r[np.triu_indices(4, 1)] = row
        r.T[np.triu_indices(4, 1)] = 1 - row

        def objective(p, r=r):
            return float(np.square(r.T * p[:, None] - r * p[None]).sum())

        simplex = {"type": "eq", "fun": lambda p: p.sum() - 1}
        best = optimize.minimize(
            objective, np.full(4, 0.25), bounds=[(0, 1)] * 4, constraints=simplex, options={"ftol": 1e-15}
        )
        np.testing.assert_allclose(p, best.x, atol=1e-4)
        assert objective(p) <= best.fun + 1e-9


@given(st.integers(2, 6), st.integers(0, 2**32 - 1), st.floats(0.05, 5))
def test_the_predicted_class_is_the_most_probable(k, seed, spread):
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.full(k, spread), 10)
    p[0] = 1 / k  # all alike
    predicted = random.integers(0, k, 10)
    result = agreeing(p, predicted)
    assert (result.argmax(axis=1) == predicted).all()
    np.testing.assert_allclose(result.sum(axis=1), 1, rtol=1e-12)
    assert (result >= 0).all()
    untouched = p.argmax(axis=1) == predicted
    untouched[0] = False
    assert (result[untouched] == p[untouched]).all()


def test_disagreeing_probabilities_move_to_the_nearest_that_agree():
    np.testing.assert_allclose(agreeing(np.array([[0.3, 0.7]]), np.array([0])), [[0.5, 0.5]], atol=1e-9)
    result = agreeing(np.array([[0.1, 0.5, 0.36, 0.04]]), np.array([0]))
    np.testing.assert_allclose(result, [[0.32, 0.32, 0.32, 0.04]], atol=1e-9)
    result = agreeing(np.array([[0.4, 0.5, 0.06, 0.04]]), np.array([0]))
    np.testing.assert_allclose(result, [[0.45, 0.45, 0.06, 0.04]], atol=1e-9)
