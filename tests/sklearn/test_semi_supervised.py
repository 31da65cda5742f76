"""SemiSupervisedODM: the mark of rows without a label, and what is found for them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import StandardScaler

from odmlib.sklearn import SemiSupervisedODM


def test_two_classes():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:200]
    y = y[:200]
    seen = np.where(np.arange(200) < 40, y, -1)
    machine = SemiSupervisedODM().fit(X, seen)
    assert machine.classes_.tolist() == [0, 1]
    assert machine.transduction_[:40].tolist() == y[:40].tolist()
    assert set(machine.transduction_[40:]) <= {0, 1}
    assert (machine.transduction_ == y).mean() > 0.85
    assert machine.predict(X).tolist() == (machine.decision_function(X) > 0).astype(int).tolist()
    other = SemiSupervisedODM(unlabeled=7).fit(X, np.where(seen == -1, 7, seen))
    assert np.array_equal(other.decision_function(X), machine.decision_function(X))


def test_more_classes_take_the_shares_of_the_labeled_rows():
    X, y = load_iris(return_X_y=True)
    seen = np.where(np.arange(150) % 5 == 0, y, -1)
    machine = SemiSupervisedODM().fit(X, seen)
    assert (machine.transduction_ == y).mean() > 0.8
    assert np.bincount(machine.transduction_).tolist() == pytest.approx([50, 50, 50], abs=12)


def test_no_label_at_all():
    with pytest.raises(ValueError, match="class"):
        SemiSupervisedODM().fit([[1.0], [2.0]], [-1, -1])
