from __future__ import annotations

import numpy as np
import pytest

from odmlib.data.folds import stratified_folds


@pytest.mark.parametrize(("counts", "n_folds"), [((30, 12), 5), ((7, 3), 4), ((9, 1), 5), ((5, 5, 5), 3), ((4,), 4)])
def test_classes_are_spread_evenly(counts, n_folds):
    codes = np.random.default_rng(1).permutation(np.repeat(np.arange(len(counts)), counts))
    folds = stratified_folds(codes, n_folds, seed=0)
    sizes = np.bincount(folds, minlength=n_folds)
    assert sizes.max() - sizes.min() <= 1
    assert len(sizes) == n_folds
    for code in range(len(counts)):
        inside = np.bincount(folds[codes == code], minlength=n_folds)
        assert inside.max() - inside.min() <= 1


def test_the_seed_decides_alone():
    codes = np.repeat([0, 1], 20)
    state = np.random.get_state()[1].copy()
    first = stratified_folds(codes, 5, seed=3)
    assert (first == stratified_folds(codes, 5, seed=3)).all()
    assert (first != stratified_folds(codes, 5, seed=4)).any()
    assert (np.random.get_state()[1] == state).all()


def test_leave_one_out():
    assert sorted(stratified_folds(np.array([0, 1, 1, 0, 1]), 5, seed=0)) == [0, 1, 2, 3, 4]
