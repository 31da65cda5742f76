"""predict_set: coverage on real rows, model files, and what is refused."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import odmlib
from odmlib.errors import ModelFormatError, ParameterError
from odmlib.model.text_format import load_model

from ..cli.tools import ROOT


def halves(name, seed=0, most=600):
    X, y = odmlib.read_data(ROOT / "data" / name)
    X = X.toarray()
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)
    order = np.random.default_rng(seed).permutation(len(y))[:most]
    train, test = order[::2], order[1::2]
    return X[train], y[train], X[test], y[test]


def coverage_of(model, X, y, coverage):
    inside = model.predict_set(X, coverage)
    return inside[np.arange(len(y)), model.codes_of(y)].mean()


@pytest.mark.parametrize("name", ["wdbc.txt", "digits.txt", "rings.txt", "wine.txt"])
@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_coverage_within_two_standard_errors(name, coverage):
    found, errors = [], []
    for seed in range(5):
        X, y, X_test, y_test = halves(name, seed)
        model = odmlib.train(X, y, coverage=True)
        assert model.report["label_sets"] == {"source": "leave-one-out", "rows": len(y)}
        found.append(coverage_of(model, X_test, y_test, coverage))
        errors.append(np.sqrt(coverage * (1 - coverage) * (1 / len(y) + 1 / len(y_test))))
    assert abs(np.mean(found) - coverage) < 2 * np.mean(errors)


@pytest.mark.parametrize("options", [{"machine": "svm"}, {"machine": "mcodm"}, {"multiclass": "ovr"}])
def test_other_machines_and_schemes(options):
    X, y, X_test, y_test = halves("wine.txt", most=178)
    model = odmlib.train(X, y, coverage=True, **options)
    expected = "leave-one-out" if "multiclass" in options else "5-fold cross-validation"
    assert model.report["label_sets"]["source"] == expected
    assert 0.8 < coverage_of(model, X_test, y_test, 0.9) <= 1.0


def test_sets_grow_with_coverage():
    X, y, X_test, _ = halves("digits.txt")
    model = odmlib.train(X, y, coverage=True)
    sets = [model.predict_set(X_test, coverage) for coverage in (0.5, 0.8, 0.9, 0.99)]
    for smaller, larger in pairwise(sets):
        assert (smaller <= larger).all()
    assert model.predict_set(X_test, 0.99999).all()  # more than 300 rows can promise


def test_model_file_keeps_them():
    X, y, X_test, _ = halves("wine.txt", most=178)
    model = odmlib.train(X, y, coverage=True, probability=True)
    again = load_model(model.to_bytes())
    assert again.extras == model.extras
    assert (again.predict_set(X_test, 0.9) == model.predict_set(X_test, 0.9)).all()
    alone = odmlib.train(X, y, probability=True)
    assert {key: model.extras[key] for key in alone.extras} == alone.extras
    text = model.to_bytes()
    line = next(line for line in text.split(b"\n") if line.startswith(b"coverage_margins"))
    for bad in (line + b" 1", line.rsplit(b" ", 1)[0], line + b"x", line.rsplit(b" ", 1)[0] + b" nan"):
        with pytest.raises(ModelFormatError, match="coverage_margins: expected 140 numbers"):
            load_model(text.replace(line, bad))


def test_a_model_without_them_says_how_to_train():
    X, y, X_test, _ = halves("wine.txt", most=178)
    model = odmlib.train(X, y)
    with pytest.raises(ParameterError, match=r"train it with coverage=True$") as caught:
        model.predict_set(X_test, 0.9)
    assert caught.value.shell.endswith("train it with odm-train --coverage 1")


def test_compression_lowers_the_thresholds_by_what_it_moved():
    X, y, X_test, y_test = halves("wine.txt", most=178)
    for multiclass, times in (("ovo", 1), ("ovr", 2)):
        model = odmlib.train(X, y, coverage=True, multiclass=multiclass)
        smaller = odmlib.compress(model, X, y, vectors=30)
        moved = times * smaller.report["compression"]["largest_change"]
        assert smaller.threshold_for(0.8) == model.threshold_for(0.8) - moved
        assert coverage_of(smaller, X_test, y_test, 0.9) >= 0.8
