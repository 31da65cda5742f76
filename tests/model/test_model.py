"""Model: what it says of itself, its score, weights and support vectors."""

from __future__ import annotations

import numpy as np
import pytest

import odmlib


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(5)
    X = random.normal(size=(40, 3))
    return X, np.where(X[:, 0] > 0, 1, -1)


def test_repr_is_one_line_and_the_card_has_the_parameters(data):
    model = odmlib.train(*data, C=3)
    support = f"{model.n_support} support vectors"
    assert repr(model) == f"<odmlib.Model odm, rbf kernel, 3 features, labels 1, -1, {support}, converged>"
    html = model._repr_html_()
    assert html.startswith("<table>") and "<th style='text-align:left'>C</th>" in html and ">3</td>" in html


def test_the_card_escapes_labels(data):
    X, y = data
    assert "<b>" not in odmlib.train(X, np.where(y > 0, "<b>", "x"))._repr_html_()


def test_score(data):
    X, y = data
    model = odmlib.train(X, y, kernel="linear")
    assert model.score(X, y) == np.mean(model.predict(X) == y)
    assert model.score(X, np.full(40, 7)) == 0.0  # a label that it does not know
    with pytest.raises(odmlib.ParameterError, match="40 rows but y has 2 labels"):
        model.score(X, [1, 1])


def test_weights_and_support_vectors(data):
    X, y = data
    linear, rbf = odmlib.train(X, y, kernel="linear", bias=-1), odmlib.train(X, y)
    np.testing.assert_allclose(X @ linear.weights[:, 0], linear.decision_function(X))
    assert rbf.support_vectors.shape == (rbf.n_support, 3)
    assert {tuple(row) for row in rbf.support_vectors.toarray()} <= {tuple(row) for row in X}
    with pytest.raises(AttributeError, match="no weights"):
        _ = rbf.weights
    with pytest.raises(AttributeError, match="no support vectors"):
        _ = linear.support_vectors


def test_probabilities_say_how_to_get_them(data):
    with pytest.raises(odmlib.ParameterError, match=r"train it with probability=True$"):
        odmlib.train(*data).predict_proba(data[0])


def test_unknown_labels_are_shown_as_plain_numbers(data):
    with pytest.raises(odmlib.ParameterError, match=r"y\[0\] is 7.0, which"):
        odmlib.train(*data).margins(data[0], np.full(40, 7.0))


def test_cross_validate_is_that_of_the_tool(data):
    X, y = data
    result = odmlib.cross_validate(X, y, folds=4, kernel="linear")
    assert result.accuracy > 0.8 and result.n_folds == 4
    with pytest.raises(odmlib.ParameterError, match="folds must be a whole number of at least 2, found 1"):
        odmlib.cross_validate(X, y, folds=1)


def test_public_names_only():
    assert dir(odmlib) == sorted(odmlib.__all__)


def test_regression_shows_its_outputs_and_scores_as_scikit_learn(data):
    metrics = pytest.importorskip("sklearn.metrics")
    X, t = data[0], np.stack([data[0][:, 0] ** 2, 5 + data[0][:, 1]], axis=1)
    one, two = odmlib.train(X, t[:, 0], machine="odmr"), odmlib.train(X, t, machine="odmr")
    assert "3 features, 1 output, " in repr(one) and "3 features, 2 outputs, " in repr(two)
    assert one.score(X, t[:, 0]) == pytest.approx(metrics.r2_score(t[:, 0], one.predict(X)))
    assert two.score(X, t) == pytest.approx(metrics.r2_score(t, two.predict(X)))
    assert one.score(X, np.ones(40)) == 0.0  # as scikit-learn: nothing varies, and the model errs
    with pytest.raises(odmlib.ParameterError, match=r"2 outputs .* 1 column"):
        two.score(X, t[:, 0])
    with pytest.raises(odmlib.ParameterError, match=r"2 outputs .* 1 column"):
        two.margins(X, t[:, 0])
    np.testing.assert_array_equal(two.margins(X, t), two.predict(X) - t)
    np.testing.assert_array_equal(one.margins(X, t[:, 0]), one.predict(X) - t[:, 0])
    with pytest.raises(odmlib.ParameterError, match="40 rows but y has 3"):
        one.score(X, [1.0, 2, 3])
    with pytest.raises(odmlib.ParameterError, match="odmr has no probabilities"):
        one.predict_proba(X)
    with pytest.raises(odmlib.ParameterError, match=r"train it with coverage=True$"):
        one.predict_interval(X)
    with pytest.raises(odmlib.ParameterError, match="one output, found 2 outputs"):
        odmlib.train(X, t, machine="odmr", coverage=True).predict_interval(X)
    with pytest.raises(odmlib.ParameterError, match=r"odmr has no label sets.*; predict_interval gives"):
        one.predict_set(X)
    detector = odmlib.train(X, machine="odmo")
    with pytest.raises(odmlib.ParameterError, match=r"odmo has no label sets: it tells no classes apart$"):
        detector.predict_set(X)
    with pytest.raises(odmlib.ParameterError, match="are of regression, found machine odmo"):
        detector.predict_interval(X)


def test_models_are_compared_as_objects(data):
    model = odmlib.train(*data)
    again = odmlib.load_model(model.to_bytes())
    assert model == model and model != again and len({model, again, model}) == 2


def test_an_evaluation_is_shown_in_a_line(data):
    assert repr(odmlib.train(*data).evaluate(*data)).startswith("Evaluation(accuracy=")
    assert len(repr(odmlib.train(*data).evaluate(*data))) < 200
