"""Compression of kernel functions: the greedy choice and the fit against brute force with numpy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.model.compression import TUNING, Compression, FitRows
from odmlib.model.functions import KernelFunction

RBF = KernelFormula("rbf", gamma=0.5)
ONE_ROUND = dataclasses.replace(TUNING, growth=10.0, least_round=64, looked_at=64)


def matrix(a, b, gamma=0.5):
    return np.exp(-gamma * ((a[:, None] - b[None]) ** 2).sum(axis=2))


def function_of(n=40, outputs=1, seed=0, formula=RBF):
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((n, 3))
    return vectors, KernelFunction(formula, Dataset.from_any(vectors), rng.standard_normal((n, outputs)))


def compression_of(function, rows, n_classes=2, scheme="binary", **details):
    data = Dataset.from_any(rows)
    scores = function.scores(data, 1) + function.offsets
    codes = np.arange(len(rows)) % n_classes
    return Compression(function, FitRows(data, scores, codes), n_classes, scheme, **details)


def best_next(vectors, alpha, chosen):
    """The vector that lowers |f - P f|^2 most, by trying all of them."""

    def left(kept):
        K = matrix(vectors[kept], vectors[kept])
        f = matrix(vectors[kept], vectors) @ alpha
        return -np.sum(f * np.linalg.solve(K, f))

    others = [i for i in range(len(vectors)) if i not in chosen]
    return min(others, key=lambda i: left([*chosen, i]))


@pytest.mark.parametrize("outputs", [1, 4])
def test_choice_is_the_best_single_step(outputs):
    vectors, function = function_of(25, outputs)
    compression = compression_of(function, vectors, tuning=ONE_ROUND)
    compression.at(6)
    chosen = []
    for _ in range(6):
        chosen.append(best_next(vectors, function.coefficients, chosen))
    assert compression.chosen.tolist() == chosen


def test_coefficients_minimise_norm_and_squares_on_the_rows():
    vectors, function = function_of(30, 2)
    rows = np.random.default_rng(1).standard_normal((50, 3))
    smaller = compression_of(function, rows).at(8)
    Z = smaller.vectors.to_dense()
    K, KX, alpha = matrix(Z, Z), matrix(rows, Z), function.coefficients
    f_Z, f_X = matrix(Z, vectors) @ alpha, matrix(rows, vectors) @ alpha
    expected = np.linalg.solve(K + KX.T @ KX, f_Z + KX.T @ f_X)
    np.testing.assert_allclose(smaller.coefficients, expected, rtol=1e-6)


def test_norm_of_change_bounds_every_score():
    vectors, function = function_of(60)
    compression = compression_of(function, vectors)
    smaller = compression.at(20)
    difference = np.concatenate([function.coefficients[:, 0], -smaller.coefficients[:, 0]])
    both = np.concatenate([vectors, smaller.vectors.to_dense()])
    norm = np.sqrt(difference @ matrix(both, both) @ difference)
    assert compression.norm_of_change(smaller)[0] == pytest.approx(norm, rel=1e-6)
    rows = Dataset.from_any(3 * np.random.default_rng(5).standard_normal((500, 3)))
    change = np.abs(function.scores(rows, 1) - smaller.scores(rows, 1))
    assert 0 < change.max() <= norm  # k(x, x) = 1


def test_rounds_change_little():
    vectors, function = function_of(200, seed=3)
    few = compression_of(function, vectors).at(60)
    one = compression_of(function, vectors, tuning=ONE_ROUND).at(60)
    rows = Dataset.from_any(vectors)
    errors = [np.square(f.scores(rows, 1) - function.scores(rows, 1)).sum() for f in (few, one)]
    assert errors[0] < 3 * errors[1]


def test_vectors_in_the_span_are_enough():
    vectors = np.repeat(np.random.default_rng(0).standard_normal((5, 3)), 10, axis=0)
    function = KernelFunction(RBF, Dataset.from_any(vectors), np.arange(1.0, 51.0))
    smaller = compression_of(function, vectors).at(20)
    assert smaller.n_vectors == 5
    rows = Dataset.from_any(vectors)
    np.testing.assert_allclose(smaller.scores(rows, 1), function.scores(rows, 1), rtol=1e-7)


@pytest.mark.parametrize(
    "formula", [KernelFormula("sigmoid", gamma=0.5, coef0=-0.5), KernelFormula("poly", coef0=-1.0)]
)
def test_kernels_that_are_not_positive(formula):
    vectors, function = function_of(60, formula=formula)
    compression = compression_of(function, vectors)
    smaller = compression.at(30)
    assert compression.norm_of_change(smaller) is None
    rows = Dataset.from_any(vectors)
    scores = function.scores(rows, 1)
    assert np.abs(smaller.scores(rows, 1) - scores).max() < 0.1 * np.abs(scores).max()


def test_many_duels_keep_their_vectors():
    """One-vs-one: with many classes a vector has coefficients in the duels of its class only."""
    from odmlib.model.schemes import class_pairs

    k, rng = 30, np.random.default_rng(0)
    vectors = rng.standard_normal((90, 3))
    classes, (first, second) = np.arange(90) % k, class_pairs(k)
    own = (classes[:, None] == first) | (classes[:, None] == second)
    function = KernelFunction(RBF, Dataset.from_any(vectors), own * rng.standard_normal(own.shape))
    smaller = compression_of(function, vectors, k, "ovo").at(45)
    kept = [int(np.flatnonzero((vectors == z).all(axis=1))[0]) for z in smaller.vectors.to_dense()]
    assert not smaller.coefficients[~own[kept]].any()
    assert smaller.terms.n_nonzeros == 45 * (k - 1)


def test_threads_change_nothing():
    vectors, function = function_of(150, 3)
    one, two = (compression_of(function, vectors, threads=n).at(50) for n in (1, 2))
    assert one.vectors.values.tobytes() == two.vectors.values.tobytes()
    assert one.terms.values.tobytes() == two.terms.values.tobytes()


def test_one_vector_and_several_outputs():
    vectors, function = function_of(2, 2)
    compression = compression_of(function, vectors, scheme="joint")
    assert compression.at(1).vectors.n_rows == 1


def test_a_function_that_is_0_needs_no_vector():
    function = KernelFunction(RBF, Dataset.from_any(np.ones((2, 3))), np.array([[1.0], [-1.0]]))
    smaller = compression_of(function, np.ones((2, 3))).at(1)
    assert smaller.vectors.n_rows == 0
    assert (smaller.scores(Dataset.from_any(np.ones((2, 3))), 1) == 0).all()
