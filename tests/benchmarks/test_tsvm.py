"""TSVM: exchanges lower the objective, the balance stays, and unlabeled rows move the boundary."""

from __future__ import annotations

import numpy as np

import odmlib
from benchmarks.papers.tsvm import exchanged, scores, train_tsvm


def objective(labels, found, weight_positive, weight_negative):
    """The part of the open rows for a fixed machine."""
    weights = np.where(labels > 0, weight_positive, weight_negative)
    return float(weights @ np.maximum(0, 1 - labels * found))


def test_exchanges_lower_the_objective():
    random, seen = np.random.default_rng(0), 0
    for _ in range(200):
        labels = random.choice([-1, 1], 12)
        found = 1.5 * labels + random.normal(0, 2, 12)
        unlabeled = np.flatnonzero(random.random(12) < 0.8)
        weights = random.uniform(0.1, 3, 2)
        pairs = exchanged(labels, found, unlabeled)
        assert set(pairs) <= set(unlabeled) and labels[pairs].sum() == 0 and len(set(pairs)) == len(pairs)
        after = labels.copy()
        after[pairs] *= -1
        if len(pairs):
            seen += 1
            assert objective(after, found, *weights) < objective(labels, found, *weights)
        else:  # no single pair would do
            losses = np.maximum(0, 1 - labels * found)
            ups, downs = (losses[unlabeled[labels[unlabeled] == side]] for side in (1, -1))
            assert not any(a > 0 and b > 0 and a + b > 2 for a in ups for b in downs)
    assert 20 < seen < 190


def test_unlabeled_rows_move_the_boundary():
    """Two long clusters: four labeled rows alone suggest a slanted boundary."""
    random = np.random.default_rng(0)
    y = np.where(np.arange(204) % 2, 1, -1)
    X = np.stack([2 * y + 0.4 * random.normal(size=204), 2 * random.normal(size=204)], axis=1)
    X[:4, 1] = 3 * y[:4]
    marked = np.where(np.arange(204) < 4, y, 0)
    alone = odmlib.train(X[:4], y[:4], machine="svm", kernel="linear", C=1)
    model = train_tsvm(X, marked, 1.0, kernel="linear")
    assert alone.score(X[4:], y[4:]) < 0.9
    assert model.score(X[4:], y[4:]) > 0.98
    np.testing.assert_array_equal(np.sign(scores(model, X)), model.predict(X))


def test_without_unlabeled_rows_it_is_the_svm():
    random = np.random.default_rng(1)
    y = np.where(np.arange(40) % 2, 1, -1)
    X = random.normal(size=(40, 3)) + y[:, None]
    same = odmlib.train(X, y, machine="svm", C=2.0)
    np.testing.assert_array_equal(train_tsvm(X, y, 2.0).decision_function(X), same.decision_function(X))
