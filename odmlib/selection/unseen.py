"""What every row scores under a machine that has not seen it: thresholds and intervals rest on these scores.

They come from one fit by leave-one-out (leave_one_out.py), or from folds where the matrix that this needs is
larger than the cache may be. Leave-one-out keeps the landmarks of an approximation, which is exact for all
rows but the landmarks; these look less novel than they are. So folds, which choose landmarks of their own,
take over unless the landmarks are too few to matter.
"""

from __future__ import annotations

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.data.problem import Problem
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.selection.fold_training import trained_folds
from odmlib.selection.leave_one_out import LeftOutTargets, left_out_scores, targets_found
from odmlib.selection.left_out import NoRoom

LEFT_OUT = "leave-one-out"
FOLDS = 10
NEGLIGIBLE = 0.005  # of the rows: an interval of 95 % misses by no more than that where so many are wrong


def unseen_scores(
    model: Model, problem: Problem, options: TrainOptions, negligible: float
) -> tuple[Floats, str]:
    """Scores (rows x outputs), and where they are from; `negligible`: the part of rows that may be wrong."""
    if options.approx is None or (model.n_support or 0) <= negligible * problem.rows.n_rows:
        try:
            return left_out_scores(model, problem, options), LEFT_OUT
        except NoRoom:
            pass
    scores = np.zeros((problem.rows.n_rows, model.n_outputs))
    n_folds = min(FOLDS, problem.rows.n_rows)
    for outside, rows, _, part in trained_folds(problem, options, n_folds):
        if part is not None:
            scores[outside] = part.function.scores(rows, options.n_threads)
    return scores, f"{n_folds} folds"


def unseen_targets(model: Model, problem: Problem, options: TrainOptions) -> tuple[LeftOutTargets, str]:
    """The predictions for a model of regression, which keeps the residuals for prediction intervals."""
    scores, source = unseen_scores(model, problem, options, NEGLIGIBLE)
    return targets_found(model, problem, scores), source
