"""Accuracies published with the author's program LIBODM on svmguide1, scaled to [0, 1] as odm-scale does."""

from __future__ import annotations

import numpy as np
import pytest

import odmlib
from odmlib.data.scaling import Scaling
from tests.real_data import real_set


@pytest.fixture(scope="module")
def svmguide1():
    (X, y), (X_test, y_test) = real_set("svmguide1"), real_set("svmguide1.t")
    rows, test_rows = odmlib.Dataset.from_any(X), odmlib.Dataset.from_any(X_test)
    scaling = Scaling.fit(rows, lower=0, upper=1)
    return scaling.apply(rows), y, scaling.apply(test_rows), y_test


def accuracy(svmguide1, **options):
    X, y, X_test, y_test = svmguide1
    return 100 * np.mean(odmlib.train(X, y, **options).predict(X_test) == y_test)


def test_linear(svmguide1):
    found = accuracy(svmguide1, kernel="linear", lambda_=64, nu=0.4, theta=0.9, bias=1)
    assert found == pytest.approx(95.65, abs=0.1)


def test_rbf(svmguide1):
    pytest.importorskip("odmlib.solvers.kernel.working_set")
    found = accuracy(svmguide1, kernel="rbf", lambda_=4096, nu=0.3, theta=0.1, gamma=16, bias=-1)
    assert found == pytest.approx(97.075, abs=0.1)
