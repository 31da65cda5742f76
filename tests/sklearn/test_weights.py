"""A row of weight 2 is that row twice, a row of weight 0 none at all: as near as the duality gap says."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.datasets import make_classification

from odmlib.sklearn import (
    KMOMDClassifier,
    LinearODM,
    MultiClassODM,
    ODMClassifier,
    ODMLClassifier,
    SVMClassifier,
)

MAKES = [LinearODM, ODMClassifier, ODMLClassifier, MultiClassODM, KMOMDClassifier, SVMClassifier]


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_weights_are_repetitions(make, class_weight):
    X, y = make_classification(80, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=1)
    counts = np.random.default_rng(2).integers(0, 4, len(y))
    # few rows with a kernel are exact at any tolerance, but for ODM^L
    tol = {LinearODM: 1e-13, ODMLClassifier: 1e-9}.get(make, 1e-3)
    weighted = make(tol=tol, class_weight=class_weight).fit(X, y, sample_weight=counts)
    repeated = make(tol=tol, class_weight=class_weight).fit(X.repeat(counts, axis=0), y.repeat(counts))
    assert np.abs(repeated.decision_function(X)).max() > 0.1
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), rtol=1e-5, atol=1e-5
    )


def test_variance_of_weighted_rows():
    from odmlib.data.dataset import Dataset

    X = np.array([[1.0, 0], [0, 3], [2, 2]])
    counts = np.array([2, 0, 3])
    found = Dataset.from_any(X).variance(counts.astype(float))
    assert found == pytest.approx(X.repeat(counts, axis=0).var())
    assert Dataset.from_any(X).variance(np.full(3, 2.0)) == Dataset.from_any(X).variance()
