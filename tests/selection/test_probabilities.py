"""Probabilities end to end: trained, stored, read back, and never against the predicted label."""

from __future__ import annotations

import io

import numpy as np
import pytest

import odmlib
from odmlib.data.problem import Problem
from odmlib.options import TrainOptions
from odmlib.selection.fold_training import cross_scores
from odmlib.selection.probabilities import cross_validated_scores, with_probabilities

random = np.random.default_rng(0)
CODES = random.integers(0, 3, 150)
X = random.normal(size=(150, 2)) + 1.5 * np.array([[1, 0], [-1, 0.5], [0, -1.5]])[CODES]
NEW = random.normal(size=(400, 2)) * 2.5
Y3 = np.array([7, 3, 5])[CODES]
Y2 = np.where(CODES == 0, "yes", "no")

CASES = {
    "binary linear": (Y2, {"kernel": "linear"}),
    "binary rbf": (Y2, {"kernel": "rbf", "class_weight": {"yes": 4}}),
    "ovo": (Y3, {"kernel": "rbf", "gamma": 0.5}),
    "ovr": (Y3, {"kernel": "linear"}),
}


@pytest.fixture(params=["leave-one-out", "5-fold cross-validation"])
def source(request):
    return request.param


def train(X, y, source, **options):
    """With probabilities from this source."""
    if source == "leave-one-out":
        return odmlib.train(X, y, probability=True, **options)
    settings, problem = TrainOptions(**options), Problem.from_arrays(X, y, None, options.get("class_weight"))
    return with_probabilities(odmlib.train(X, y, **options), problem, settings, cross_validated_scores)


@pytest.mark.parametrize("case", CASES)
def test_probabilities_agree_with_labels_and_survive_the_file(case, source):
    y, options = CASES[case]
    model = train(X, y, source, **options)
    assert model.report["probability"]["source"] == source
    p = model.predict_proba(NEW)
    assert p.shape == (400, len(model.labels))
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert (model.labels[p.argmax(axis=1)] == model.predict(NEW)).all()
    # better than the frequencies, and what the report says about rows not seen is about what rows seen show
    own = p_of(model, X, y)
    frequencies = np.array([(y == label).mean() for label in model.labels])
    prior = -np.mean(np.log([(y == label).mean() for label in y]))
    assert -np.log(own).mean() < 0.8 * prior
    assert 0 < model.report["probability"]["log_loss"] < prior
    assert frequencies.sum() == pytest.approx(1)
    # the decision function is that of a model without probabilities
    plain = odmlib.train(X, y, **options)
    assert (plain.decision_function(NEW) == model.decision_function(NEW)).all()
    stream = io.BytesIO()
    model.save(stream)
    again = odmlib.load_model(stream.getvalue())
    assert (again.predict_proba(NEW) == p).all()
    # one row at a time gives the same bits
    assert (np.vstack([model.predict_proba(NEW[[i]]) for i in range(20)]) == p[:20]).all()


def p_of(model, X, y):
    places = [model.labels.tolist().index(label) for label in y.tolist()]
    return model.predict_proba(X)[np.arange(len(y)), places]


def test_same_seed_same_bytes_for_any_number_of_threads(source):
    texts = []
    for threads in (1, 2):
        stream = io.BytesIO()
        train(X, Y3, source, seed=3, threads=threads).save(stream)
        texts.append(stream.getvalue())
    assert texts[0] == texts[1]


def test_weights_count_as_rows():
    counts = 1 + np.arange(150) % 3
    repeated = np.repeat(np.arange(150), counts)
    options = {"probability": True, "tol": 1e-9, "gamma": 0.5, "kernel": "rbf", "multiclass": "ovr"}
    weighted = odmlib.train(X, Y3, sample_weight=counts, **options)
    doubled = odmlib.train(X, Y3, class_weight={7: 2, 3: 2, 5: 2}, sample_weight=counts / 2, **options)
    for key in ("probability_slopes", "probability_offsets"):
        np.testing.assert_allclose(weighted.extras[key], doubled.extras[key], rtol=1e-4)
    # leaving out one of several equal rows is not leaving out the row: only roughly the same
    rows = odmlib.train(X[repeated], Y3[repeated], **options)
    np.testing.assert_allclose(weighted.predict_proba(NEW), rows.predict_proba(NEW), atol=0.15)


def test_machines_without_leave_one_out_are_cross_validated():
    model = odmlib.train(X, Y2, machine="svm", probability=True)
    assert model.report["probability"]["source"] == "5-fold cross-validation"


def test_a_model_without_says_how_to_get_them():
    model = odmlib.train(X, Y2)
    with pytest.raises(odmlib.ParameterError, match=r"no probabilities; train it with probability=True"):
        model.predict_proba(X)


def test_files_with_half_of_the_numbers_are_refused():
    stream = io.BytesIO()
    odmlib.train(X, Y3, kernel="linear", probability=True).save(stream)
    text = stream.getvalue()
    lines = text.splitlines(keepends=True)
    for missing in (b"probability_slopes", b"probability_offsets"):
        cut = b"".join(line for line in lines if not line.startswith(missing))
        with pytest.raises(odmlib.ModelFormatError, match="belong together; one is missing"):
            odmlib.load_model(cut)
    offsets = next(line for line in lines if line.startswith(b"probability_offsets"))
    for wrong in (
        b"probability_offsets 1 2\n",
        b"probability_offsets 1 2 nan\n",
        b"probability_offsets 1 2 x\n",
    ):
        with pytest.raises(odmlib.ModelFormatError, match="probability_offsets: expected 3 numbers"):
            odmlib.load_model(text.replace(offsets, wrong))


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_a_class_of_one_row_still_gets_a_probability(multiclass, source):
    y = Y3.copy()
    y[0] = 11
    model = train(X, y, source, gamma=0.5, multiclass=multiclass)
    p = model.predict_proba(NEW)
    assert np.isfinite(p).all()
    assert (model.labels[p.argmax(axis=1)] == model.predict(NEW)).all()


def test_two_rows(source):
    model = train(X[:2], np.array(["a", "b"]), source)
    p = model.predict_proba(NEW)
    assert np.isfinite(p).all()
    assert (model.labels[p.argmax(axis=1)] == model.predict(NEW)).all()


def test_cross_scores_are_those_of_machines_that_did_not_see_the_row():
    from odmlib.data.folds import stratified_folds

    problem = Problem.from_arrays(X, Y3)
    for scheme, kernel in (("ovo", "rbf"), ("ovr", "linear")):
        given = {"kernel": kernel, "gamma": 0.5, "seed": 1, "multiclass": scheme}
        options = TrainOptions(**given)
        scores = cross_scores(problem, options, 4, scheme)
        folds = stratified_folds(problem.codes, 4, 1)
        for fold in range(4):
            inside = problem.take(np.flatnonzero(folds != fold))
            model = odmlib.train(inside.rows, problem.labels[inside.codes], **given)
            outside = model.decision_function(X[folds == fold])
            if model.labels.tolist() == problem.labels.tolist():
                np.testing.assert_allclose(scores[folds == fold], outside)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_cross_scores_of_unknown_classes_are_missing(scheme):
    y = np.where(np.arange(60) == 0, 2, np.arange(60) % 2)  # one row of the first class
    problem = Problem.from_arrays(X[:60], y)
    options = TrainOptions(kernel="linear", multiclass=scheme)
    scores = cross_scores(problem, options, 5, scheme)
    assert np.isnan(scores[0]).any()  # the single row: trained without its class
    assert np.isfinite(scores).all(axis=1).sum() >= 40
    if scheme == "ovo":
        assert np.isfinite(scores[:, 2]).all()  # the two others know each other


def test_precomputed_kernel():
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(2))
    direct = odmlib.train(X, Y3, gamma=0.5, tol=1e-8, probability=True)
    given = odmlib.train(K, Y3, kernel="precomputed", tol=1e-8, probability=True)
    np.testing.assert_allclose(direct.predict_proba(X), given.predict_proba(K), atol=1e-4)
