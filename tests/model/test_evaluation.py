"""Evaluation against scikit-learn's metrics, which share no code with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

import odmlib
from odmlib.model.evaluation import Ranking
from odmlib.model.schemes import class_scores

RANDOM = np.random.default_rng(5)


def made(n_classes: int, **options):
    X = RANDOM.normal(size=(120, 3))
    y = np.digitize(X[:, 0] + 0.5 * RANDOM.normal(size=120), np.linspace(-1, 1, n_classes + 1)[1:-1]) + 3
    return odmlib.train(X, y, **options), X, y


def test_class_scores_are_scikit_learns():
    from sklearn.utils.multiclass import _ovr_decision_function

    scores = RANDOM.normal(size=(40, 10)).round(1)
    wanted = _ovr_decision_function(scores <= 0, -scores, 5)
    np.testing.assert_allclose(class_scores("ovo", scores, 5), wanted, atol=1e-12)
    np.testing.assert_array_equal(class_scores("ovr", scores, 10), scores)
    np.testing.assert_array_equal(class_scores("binary", scores[:, :1], 2), scores[:, [0, 0]] * [1, -1])


@given(
    st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=40).filter(
        lambda rows: len({member for member, _ in rows}) == 2
    )
)
def test_ranking_is_scikit_learns(rows):
    member, scores = np.array([row[0] for row in rows]), np.array([float(row[1]) for row in rows])
    ranking = Ranking.of(member, scores)
    assert ranking.auc() == pytest.approx(metrics.roc_auc_score(member, scores), abs=1e-12)
    wanted = metrics.average_precision_score(member, scores)
    assert ranking.average_precision() == pytest.approx(wanted, abs=1e-12)
    false, true, _ = metrics.roc_curve(member, scores, drop_intermediate=False)
    np.testing.assert_allclose(ranking.roc(), (false, true), atol=1e-12)


def test_a_ranking_needs_both_sides():
    with pytest.raises(odmlib.ParameterError, match="rows of the class and rows of others"):
        Ranking.of(np.array([True, True]), np.array([1.0, 2.0]))


@pytest.mark.parametrize("options", [{}, {"kernel": "linear"}, {"machine": "mcodm", "kernel": "linear"}])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_evaluation(n_classes, options):
    model, X, y = made(n_classes, probability=True, **options)
    found = model.evaluate(X, y)
    predicted = model.predict(X)
    assert found.accuracy == pytest.approx(np.mean(predicted == y))
    order = found.order
    counts = found.counts()[np.ix_(order, order)]
    np.testing.assert_array_equal(counts, metrics.confusion_matrix(y, predicted))
    np.testing.assert_allclose(found.margins, model.margins(X, y), rtol=1e-12)
    np.testing.assert_allclose(found.probabilities, model.predict_proba(X), rtol=1e-12)
    assert model.labels[found.positive()] == max(model.labels)
    assert model.labels[found.positive(3)] == model.labels[found.positive("3")] == 3


def test_unknown_labels_are_wrong():
    model, X, y = made(2)
    y = y.copy()
    y[:10] = 77
    found = model.evaluate(X, y)
    assert (found.n_unknown, found.n_rows, len(found.codes)) == (10, 120, 110)
    assert found.accuracy == pytest.approx(np.mean(model.predict(X) == y))
    with pytest.raises(odmlib.ParameterError, match="no row has a label"):
        model.evaluate(X, np.full(120, 77))
    with pytest.raises(odmlib.ParameterError, match="120 rows but y has 3"):
        model.evaluate(X, y[:3])
    with pytest.raises(odmlib.ParameterError, match="does not know the label 9"):
        found.positive(9)
