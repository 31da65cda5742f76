from __future__ import annotations

import numpy as np
import pytest

from odmlib.model.probability import sigmoid_probabilities, softmax_probabilities
from odmlib.selection.calibration import fit_sigmoid, fit_softmax


def noisy_scores(m: int, seed: int = 0):
    """Scores whose true P(positive) is 1 / (1 + exp(-(2 f - 0.5)))."""
    random = np.random.default_rng(seed)
    scores = random.normal(0.3, 1.2, m)
    return scores, random.random(m) < 1 / (1 + np.exp(0.5 - 2 * scores))


def test_sigmoid_finds_the_truth():
    scores, positive = noisy_scores(40_000)
    slope, offset = fit_sigmoid(scores, positive, np.ones(len(scores)))
    assert slope == pytest.approx(2, abs=0.06)
    assert offset == pytest.approx(-0.5, abs=0.06)


@pytest.mark.filterwarnings("ignore:Since FrozenEstimator does not appear")
@pytest.mark.parametrize("weighted", [False, True])
def test_sigmoid_is_scikit_learns(weighted):
    """Platt's method by a program that we did not write, through its public face."""
    calibration = pytest.importorskip("sklearn.calibration")
    frozen = pytest.importorskip("sklearn.frozen")
    from sklearn.base import BaseEstimator, ClassifierMixin

    class FirstColumn(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def decision_function(self, X):
            return X[:, 0]

        def predict(self, X):
            return X[:, 0] > 0

    scores, positive = noisy_scores(300, seed=1)
    weights = np.random.default_rng(2).random(300) * 3 if weighted else np.ones(300)
    X = scores[:, None]
    machine = FirstColumn().fit(X, positive)
    theirs = calibration.CalibratedClassifierCV(frozen.FrozenEstimator(machine), method="sigmoid")
    theirs.fit(X, positive, sample_weight=weights)
    slope, offset = fit_sigmoid(scores, positive, weights)
    # all rows are one fold's test part, so the calibrators are alike: their mean is any of them
    ours = sigmoid_probabilities(scores, slope, offset)[:, 0]
    assert theirs.calibrated_classifiers_[0].calibrators[0].a_ == pytest.approx(-slope, rel=1e-3)
    np.testing.assert_allclose(theirs.predict_proba(X)[:, 1], ours, atol=1e-4)


def test_a_row_of_weight_two_is_two_rows():
    scores, positive = noisy_scores(60, seed=3)
    counts = np.random.default_rng(4).integers(0, 4, 60)
    repeated = np.repeat(np.arange(60), counts)
    once = fit_sigmoid(scores, positive, counts.astype(float))
    twice = fit_sigmoid(scores[repeated], positive[repeated], np.ones(len(repeated)))
    np.testing.assert_allclose(once, twice, rtol=1e-6)
    table = np.column_stack([scores, -scores, scores**2])
    codes = np.where(positive, 0, np.where(scores > 1, 1, 2))
    slope, offsets = fit_softmax(table, codes, counts.astype(float))
    slope_2, offsets_2 = fit_softmax(table[repeated], codes[repeated], np.ones(len(repeated)))
    assert slope == pytest.approx(slope_2, rel=1e-6)
    np.testing.assert_allclose(offsets, offsets_2, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1.0, 1e6, 1e200])
def test_the_scale_of_the_scores_does_not_matter(scale):
    scores, positive = noisy_scores(200, seed=5)
    slope, offset = fit_sigmoid(scores, positive, np.ones(200))
    scaled_slope, scaled_offset = fit_sigmoid(scale * scores, positive, np.ones(200))
    assert scaled_slope * scale == pytest.approx(slope, rel=1e-6)
    assert scaled_offset == pytest.approx(offset, abs=1e-6)


def test_separable_scores_stay_finite():
    scores = np.concatenate([np.linspace(1, 2, 50), np.linspace(-2, -1, 50)])
    slope, offset = fit_sigmoid(scores, scores > 0, np.ones(100))
    p = sigmoid_probabilities(scores, slope, offset)[:, 0]
    assert 0.9 < p[:50].min() < p[:50].max() < 1
    slope, offsets = fit_softmax(np.eye(3)[[0, 1, 2] * 20], np.array([0, 1, 2] * 20), np.ones(60))
    assert np.isfinite(slope)
    assert np.isfinite(offsets).all()


def test_scores_that_tell_nothing_give_the_frequencies():
    positive = np.arange(100) < 30
    for scores in (np.zeros(100), np.ones(100), np.where(positive, -1.0, 1.0)):
        slope, offset = fit_sigmoid(scores, positive, np.ones(100))
        p = sigmoid_probabilities(scores, slope, offset)
        assert slope >= 0
        np.testing.assert_allclose(p[:, 0], 0.3, atol=0.02)
        np.testing.assert_allclose(p.sum(axis=1), 1)
    slope, offsets = fit_softmax(np.zeros((100, 2)), np.where(positive, 0, 1), np.ones(100))
    np.testing.assert_allclose(softmax_probabilities(np.zeros((1, 2)), slope, offsets)[0, 0], 0.3, atol=0.02)


def test_softmax_of_two_classes_is_the_sigmoid():
    scores, positive = noisy_scores(500, seed=6)
    table = np.column_stack([scores, -scores])
    slope, offsets = fit_softmax(table, np.where(positive, 0, 1), np.ones(500))
    expected = sigmoid_probabilities(scores, *fit_sigmoid(scores, positive, np.ones(500)))
    np.testing.assert_allclose(softmax_probabilities(table, slope, offsets), expected, atol=1e-6)


def test_softmax_is_the_maximum_of_the_likelihood():
    optimize = pytest.importorskip("scipy.optimize")
    random = np.random.default_rng(7)
    scores = random.normal(size=(150, 4))
    codes = (scores + random.gumbel(size=scores.shape)).argmax(axis=1)
    weights = random.random(150)
    slope, offsets = fit_softmax(scores, codes, weights)
    totals = np.bincount(codes, weights, 4)
    own = (totals + 1) / (totals + 2)
    targets = np.repeat((1 - own[codes])[:, None] / 3, 4, axis=1)
    targets[np.arange(150), codes] = own[codes]

    def loss(point):
        return -float(weights @ (targets * np.log(softmax_probabilities(scores, point[0], point[1:]))).sum(1))

    best = optimize.minimize(loss, np.zeros(5), tol=1e-12)
    assert loss(np.concatenate([[slope], offsets])) <= best.fun * (1 + 1e-10)
    assert offsets.sum() == pytest.approx(0, abs=1e-12)
