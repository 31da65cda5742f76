"""Numbers for label sets (model/label_sets.py), from scores of rows that did not take part: --coverage 1.

The scores are those that probabilities are fitted to: leave-one-out where one fit gives it, otherwise 5-fold
cross-validation. Rows without a label and rows of weight 0 do not count; others count once.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.data.problem import Problem
from odmlib.model.label_sets import thresholds
from odmlib.model.model import Model
from odmlib.model.schemes import margins_of


def with_label_sets(model: Model, problem: Problem, scores: Floats, source: str) -> Model:
    """The model with the numbers that predict_set needs; `scores`: NaN where none is known."""
    known = np.isfinite(scores).all(axis=1) & (problem.codes >= 0) & (problem.weights > 0)
    margins = margins_of(model.scheme, scores[known], problem.codes[known], model.n_classes)
    model = dataclasses.replace(model, extras=model.extras | {"coverage_margins": thresholds(margins)})
    model.report["label_sets"] = {"source": source, "rows": int(known.sum())}
    return model
