"""Folds for cross-validation: stratified by label and decided by the seed alone."""

from __future__ import annotations

import numpy as np

from odmlib._core.arrays import Codes


def stratified_folds(codes: Codes, n_folds: int, seed: int) -> Codes:
    """The fold 0 .. n_folds-1 of each row; each class, and the whole, is spread as evenly as can be."""
    random = np.random.default_rng(seed)
    shuffled = random.permutation(len(codes))
    # rows in class order, random within a class, dealt like cards
    dealt = shuffled[np.argsort(codes[shuffled], kind="stable")]
    folds = np.empty(len(codes), dtype=np.int64)
    folds[dealt] = np.arange(len(codes)) % n_folds
    return folds
