"""Outputs to labels and margins: by hand, by brute force, and as LIBSVM does it."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib.model.schemes import class_pairs, margins_of, n_outputs, pair_output, winners


def test_counts_and_order_of_outputs():
    assert [n_outputs("ovo", k) for k in (2, 3, 10)] == [1, 3, 45]
    assert [n_outputs(scheme, 5) for scheme in ("ovr", "joint")] == [5, 5]
    assert n_outputs("binary", 2) == 1
    first, second = class_pairs(4)
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == [
        (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)
    ]  # fmt: skip
    for place, (i, j) in enumerate(zip(*class_pairs(7), strict=True)):
        assert pair_output(int(i), int(j), 7) == place


def test_binary_by_hand():
    scores = np.array([[0.5], [-0.5], [0.0]])
    assert winners("binary", scores, 2).tolist() == [0, 1, 1]  # 0 is the second label's, as in LIBSVM
    assert margins_of("binary", scores, np.array([0, 0, 1]), 2).tolist() == [0.5, -0.5, 0]


def test_one_vs_rest_by_hand():
    scores = np.array([[0.1, 0.3, 0.2], [-1.0, -1.0, -2.0], [5.0, 5.0, 5.0]])
    for scheme in ("ovr", "joint"):
        assert winners(scheme, scores, 3).tolist() == [1, 0, 0]  # equal values: the earlier label
        margins = margins_of(scheme, scores, np.array([1, 1, 2]), 3)
        np.testing.assert_allclose(margins, [0.1, 0, 0])
        assert margins_of(scheme, scores, np.array([0, 2, 2]), 3).tolist() == pytest.approx([-0.2, -1, 0])


def test_one_vs_one_by_hand():
    # pairs (0,1) (0,2) (1,2)
    scores = np.array([[1.0, 2.0, 9.0], [-1.0, 1.0, -1.0], [0.0, 0.0, 0.0], [-0.5, -3.0, 2.0]])
    # 0 beats both; each beats one: the earlier label; 0 counts for the second of a pair; 1 beats both
    assert winners("ovo", scores, 3).tolist() == [0, 0, 2, 1]
    assert margins_of("ovo", scores, np.array([0, 0, 2, 1]), 3).tolist() == [1, -1, 0, 0.5]
    assert margins_of("ovo", scores, np.array([1, 2, 0, 2]), 3).tolist() == [-1, -1, 0, -2]


@pytest.mark.parametrize("k", [2, 3, 6, 11])
def test_one_vs_one_by_brute_force(k):
    random = np.random.default_rng(k)
    scores = random.integers(-2, 3, size=(300, n_outputs("ovo", k))).astype(float)  # many ties and zeros
    codes = random.integers(0, k, size=300)
    for row, found, margin, code in zip(
        scores, winners("ovo", scores, k), margins_of("ovo", scores, codes, k), codes, strict=True
    ):
        votes, duels = [0] * k, []
        place = 0
        for i in range(k):
            for j in range(i + 1, k):
                votes[i if row[place] > 0 else j] += 1
                if code in (i, j):
                    duels.append(row[place] if code == i else -row[place])
                place += 1
        assert found == votes.index(max(votes))
        assert margin == min(duels)
        assert margin <= 0 or found == code


@pytest.mark.parametrize("k", [3, 5, 8])
def test_votes_are_libsvms(k):
    """LIBSVM's own decision values give LIBSVM's own labels."""
    svmutil = pytest.importorskip("libsvm.svmutil")
    random = np.random.default_rng(k)
    X = random.normal(size=(48, 2))
    y = random.permutation(np.arange(48) % k) * 3.0 - 4  # labels carry no order and no information
    rows = [dict(enumerate(row, 1)) for row in X.tolist()]
    model = svmutil.svm_train(y.tolist(), rows, "-q -t 2 -g 3 -c 1")
    predicted, _, values = svmutil.svm_predict(y.tolist(), rows, model, "-q")
    labels = np.array(model.get_labels(), dtype=float)
    found = labels[winners("ovo", np.array(values), k)]
    assert found.tolist() == predicted
