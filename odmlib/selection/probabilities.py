"""Probabilities for a trained model, from scores of rows that did not take part: -b 1.

The scores are those of leave-one-out (leave_one_out.py) where one fit gives them and the memory allows it:
scores of very nearly the machine to be calibrated. Otherwise they come from 5-fold cross-validation with
folds that the seed decides. Rows count by row weight x class weight, as in training.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import cast

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.data.problem import Problem
from odmlib.errors import ParameterError
from odmlib.machines.tasks import make_tasks
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.selection.calibration import fit_sigmoid, fit_softmax
from odmlib.selection.fold_training import cross_scores
from odmlib.selection.leave_one_out import LeaveOneOut, leave_one_out_of

# scores (rows x outputs) by machines that did not see the row (NaN: none known), and what they are called
ScoresOf = Callable[[Model, Problem, TrainOptions], tuple[Floats, str]]

FOLDS = 5
LEAST = 1e-300  # of a probability in the logarithm


def with_probabilities(
    model: Model, problem: Problem, options: TrainOptions, scores_of: ScoresOf | None = None
) -> Model:
    """The model with the numbers that predict_proba needs; `problem` and `options` are what trained it.

    `scores_of`: where the scores of rows that the machine has not seen come from; None: from leave-one-out
    where that is possible.
    """
    started = time.perf_counter()
    scores, source = (scores_of or left_out_scores)(model, problem, options)
    slopes, offsets = fit_scheme(model.scheme, problem, scores)
    extras = model.extras | {"probability_slopes": tuple(slopes), "probability_offsets": tuple(offsets)}
    model = dataclasses.replace(model, extras=extras)
    known = np.flatnonzero(np.isfinite(scores).all(axis=1))
    own = model.probabilities_for(scores[known])[np.arange(len(known)), problem.codes[known]]
    weights = problem.weights[known]
    model.report["probability"] = {
        "source": source,
        "log_loss": float(-(weights @ np.log(np.maximum(own, LEAST))) / weights.sum())
        if weights.any()
        else None,
        "seconds": time.perf_counter() - started,
    }
    return model


def left_out_scores(model: Model, problem: Problem, options: TrainOptions) -> tuple[Floats, str]:
    """Those of leave-one-out, or else of cross-validation."""
    if options.declaration.calibrated_by_folds:
        return cross_validated_scores(model, problem, options)
    try:
        result = cast(LeaveOneOut, leave_one_out_of(model, problem, options))
    except ParameterError:  # another machine, too large, or too ill-conditioned
        return cross_validated_scores(model, problem, options)
    model.report["leave_one_out"] = result.report()
    return result.scores.reshape(-1, model.n_outputs), "leave-one-out"


def cross_validated_scores(model: Model, problem: Problem, options: TrainOptions) -> tuple[Floats, str]:
    n_folds = min(FOLDS, problem.rows.n_rows - problem.n_unlabeled)
    return cross_scores(problem, options, n_folds, model.scheme), f"{n_folds}-fold cross-validation"


def fit_scheme(scheme: str, problem: Problem, scores: Floats) -> tuple[Floats, Floats]:
    """Slopes and offsets, one per output (model/probability.py); rows with a score of NaN are passed over."""
    if scheme in ("binary", "ovo"):
        slopes, offsets = np.zeros(scores.shape[1]), np.zeros(scores.shape[1])
        for task in make_tasks(problem, scheme):
            values = scores[:, task.output] if task.rows is None else scores[task.rows, task.output]
            known = np.isfinite(values)
            slopes[task.output], offsets[task.output] = fit_sigmoid(
                values[known], task.signs[known] > 0, task.weights[known]
            )
        return slopes, offsets
    known = np.isfinite(scores).all(axis=1)
    slope, offsets = fit_softmax(scores[known], problem.codes[known], problem.weights[known])
    return np.full(scores.shape[1], slope), offsets
