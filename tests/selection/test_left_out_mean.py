"""Leave-one-out of ODM^L from one fit, against machines that were trained without each row in turn."""

from __future__ import annotations

import numpy as np
import pytest

import odmlib
from odmlib.errors import ParameterError

EXACT = 1e-10


def two_clouds(m, seed=0, distance=0.5):
    random = np.random.default_rng(seed)
    y = np.where(np.arange(m) % 3 == 0, -1, 1)
    X = random.normal(size=(m, 3))
    X[:, 0] += distance * y
    return X, y


def pieces(margins):
    return np.where(np.abs(margins - 1) < 1e-5, 0, np.sign(margins - 1))


def refits(K, y, C, v, u):
    """Margins of the rows under machines trained without them, and where no other row changed its piece."""
    m = len(y)
    options = {"machine": "odml", "kernel": "precomputed", "bias": -1, "C": C, "tol": EXACT}
    before = pieces(odmlib.train(K, y, lambda1=v * C * m, lambda2=u * C * m, **options).margins(K, y))
    margins, settled = np.empty(m), np.zeros(m, dtype=bool)
    for i in range(m):
        rest = np.arange(m) != i
        part, total = K[np.ix_(rest, rest)], C * (m - 1)  # the other rows keep their weights
        model = odmlib.train(part, y[rest], lambda1=v * total, lambda2=u * total, **options)
        margins[i] = model.margins(K[[i]][:, rest], y[[i]])[0]
        settled[i] = (pieces(model.margins(part, y[rest])) == before[rest]).all()
    return margins, settled, before


@pytest.mark.parametrize(
    "linear, C, v, u, kinks",
    [
        (True, 1, 1, 1, 1),
        (False, 1, 1, 1, 5),
        (False, 10, 0.1, 0.1, 10),
        (True, 10, 0.01, 0.5, 1),
        (True, 0.1, 1, 0, 0),
    ],
)
def test_exact_where_no_other_row_changes_its_piece(linear, C, v, u, kinks):
    m = 40
    X, y = two_clouds(m)
    K = X @ X.T + 1 if linear else np.exp(-0.4 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    expected, settled, before = refits(K, y, C, v, u)
    assert settled.sum() >= 8 and (before == 0).sum() >= kinks
    weights = {"C": C, "lambda1": v * C * m, "lambda2": u * C * m}
    found = odmlib.leave_one_out(K, y, machine="odml", kernel="precomputed", bias=-1, **weights)
    sign = 1 if found.model.labels[0] == 1 else -1
    np.testing.assert_allclose((sign * y * found.scores)[settled], expected[settled], atol=2e-4)
    assert np.median(np.abs(sign * y * found.scores - expected) / (1 + np.abs(expected))) < 0.03
    assert abs(found.errors - (expected <= 0).sum()) <= 2
    assert found.bound is None


def test_the_printed_bound_is_zero_where_every_row_is_wrong():
    """Ten rows of the papers page: no hinge is active, so the sum of the paper's Theorem 2 is empty."""
    y = np.array([1, -1] * 5)
    K = (1.1 * np.eye(10) - 0.1) * np.outer(y, y)
    found = odmlib.leave_one_out(
        K, y, machine="odml", kernel="precomputed", bias=-1, C=0.1, lambda1=1, lambda2=200
    )
    assert found.model.margins(K, y).min() > 1.5
    assert found.errors == 10


@pytest.mark.parametrize("kernel", [{"kernel": "linear"}, {"gamma": 0.4}, {"gamma": 0.4, "bias": 1}])
def test_kernels_and_weights_are_those_of_a_given_matrix(kernel):
    X, y = two_clouds(50)
    weights = np.where(np.arange(50) % 7 == 0, 0.0, 1.0 + np.arange(50) % 2)
    found = odmlib.leave_one_out(X, y, machine="odml", sample_weight=weights, tol=1e-8, **kernel)
    if kernel.get("kernel") == "linear":
        K = X @ X.T + 1
    else:
        K = np.exp(-0.4 * ((X[:, None] - X[None]) ** 2).sum(axis=2)) + kernel.get("bias", 0)
    same = odmlib.leave_one_out(
        K, y, machine="odml", kernel="precomputed", bias=-1, sample_weight=weights, tol=1e-8
    )
    np.testing.assert_allclose(found.scores, same.scores, atol=1e-4)
    none = weights == 0  # had no part in the machine
    np.testing.assert_allclose(found.scores[none], found.model.decision_function(X)[none], atol=1e-8)


def test_several_classes():
    X, y = odmlib.read_data("data/iris.txt")
    found = odmlib.leave_one_out(X, y, machine="odml", C=0.1, gamma=0.5)
    assert found.scores.shape == (150, 3)
    refit = odmlib.cross_validate(X, y, folds=75, machine="odml", C=0.1, gamma=0.5).predicted
    assert abs((refit != np.unique(y, return_inverse=True)[1]).sum() - found.errors) <= 2


def test_what_it_cannot_do():
    X, y = two_clouds(400)
    with pytest.raises(ParameterError, match="lambda1"):
        odmlib.leave_one_out(X, y, machine="odml", C=1, lambda1=0)
    with pytest.raises(ParameterError, match=r"needs 3 MB for 400 rows, but cache_mb allows 1"):
        odmlib.leave_one_out(X, y, machine="odml", cache_mb=1)


def test_probabilities_come_from_folds():
    X, y = two_clouds(60)
    model = odmlib.train(X, y, machine="odml", probability=True)
    assert model.report["probability"]["source"] == "5-fold cross-validation"
