"""k-fold cross-validation of one setting."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odmlib.data.folds import stratified_folds
from odmlib.data.problem import Problem
from odmlib.machines.training import kernel_formula, train_problem
from odmlib.options import TrainOptions
from odmlib.solvers.control import CONVERGED


@dataclass(frozen=True)
class CrossValidation:
    """`predicted[i]` is the code of the label given to row i by the machine that did not see it."""

    predicted: NDArray[np.int64]
    accuracy: float  # of all rows, 0 to 1
    n_folds: int
    unfinished: int  # folds whose training did not converge


def cross_validate(
    problem: Problem,
    options: TrainOptions,
    n_folds: int,
    tell: Callable[[int], object] | None = None,
) -> CrossValidation:
    """Train on all folds but one and predict that one, in turn. `tell` hears how many folds are done.

    A class whose rows are all in one fold is unknown to the machine of that fold; a training part with rows
    of one class only predicts that class.
    """
    n_folds = min(n_folds, problem.rows.n_rows)
    folds = stratified_folds(problem.codes, n_folds, options.seed)
    predicted = np.empty(problem.rows.n_rows, dtype=np.int64)
    unfinished = 0
    # gamma and lambda are those of the whole set: each fold tests the machine that all rows would train
    C, _ = options.weights_for(problem.total_weight)
    gamma = kernel_formula(problem.rows, options).gamma
    options = dataclasses.replace(options, C=C, lambda_=None, gamma=gamma)
    for fold in range(n_folds):
        inside, outside = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        present = np.unique(problem.codes[inside][problem.weights[inside] > 0])
        inside = inside[np.isin(problem.codes[inside], present)]
        part = problem.take(inside).of_present_classes(present)
        rest = problem.rows.take(outside)
        if options.kernel == "precomputed":
            columns = inside.astype(np.int32)
            part.rows, rest = part.rows.on_columns(columns), rest.on_columns(columns)
        if len(present) < 2:
            predicted[outside] = present[0] if len(present) else 0
        else:
            model = train_problem(part, options)
            unfinished += model.report["status"] != CONVERGED
            predicted[outside] = present[model.positions(rest, options.threads)]
        if tell is not None:
            tell(fold + 1)
    accuracy = float(np.mean(predicted == problem.codes))
    return CrossValidation(predicted, accuracy, n_folds, unfinished)
