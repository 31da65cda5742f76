"""Precision, recall, F1 and AUC against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

import odmlib
from odmlib.model.metrics import area_under_curve, classification_report
from odmlib.model.schemes import class_scores


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_against_scikit_learn(n_classes, scheme):
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(n_classes)
    X = random.normal(size=(200, 3)).round(1)
    y = np.digitize(X[:, 0] + random.normal(size=200), np.linspace(-1, 1, n_classes - 1))
    model = odmlib.train(X, y, kernel="linear", multiclass=scheme)
    scores = class_scores(model.scheme, model.decision_function(X).reshape(200, -1), n_classes)
    found = classification_report(model.labels, y, model.positions(X), scores)
    predicted = model.predict(X)
    assert found["accuracy"] == metrics.accuracy_score(y, predicted)
    expected = metrics.precision_recall_fscore_support(y, predicted, labels=model.labels, zero_division=0)
    for place, label in enumerate(model.labels):
        one = found["classes"][place]
        assert one["label"] == label and one["rows"] == expected[3][place]
        numbers = [one[name] or 0.0 for name in ("precision", "recall", "f1")]
        np.testing.assert_allclose(numbers, [part[place] for part in expected[:3]])
        assert one["auc"] == pytest.approx(metrics.roc_auc_score(y == label, scores[:, place]))
    assert found["confusion"] == metrics.confusion_matrix(y, predicted, labels=model.labels).tolist()
    if scheme == "ovr" or n_classes == 2:
        assert (scores.argmax(axis=1) == model.positions(X)).all()


def test_what_cannot_be_said_is_none():
    found = classification_report(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 9.0]), np.array([0, 1, 0]))
    assert found["unknown_labels"] == 1 and found["right"] == 1 and found["accuracy"] == 1 / 3
    assert (
        found["classes"][0] | {"precision": 0.5, "recall": 0.5, "f1": 0.5, "auc": None} == found["classes"][0]
    )
    assert found["classes"][1]["recall"] is None and found["classes"][2]["precision"] is None
    assert area_under_curve(np.array([True, True]), np.zeros(2)) is None
