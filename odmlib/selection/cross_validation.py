"""k-fold cross-validation of one setting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from odmlib._core.arrays import Codes, Floats
from odmlib.data.problem import Problem
from odmlib.machines.training import train_problem
from odmlib.model.regression import RegressionMeasures, regression_measures
from odmlib.options import TrainOptions
from odmlib.selection.fold_training import trained_folds
from odmlib.selection.novelty import train_detector
from odmlib.solvers.control import CONVERGED


@dataclass(frozen=True)
class CrossValidation:
    """`predicted[i]` is the code of the label given to row i by the machine that did not see it, -1 for a row
    without a label: those are in every training part."""

    predicted: Codes = field(repr=False)
    accuracy: float  # of all labeled rows, 0 to 1
    n_folds: int
    unfinished: int  # folds whose training did not converge
    fold_accuracies: list[float]  # of the rows left out by each fold

    @property
    def standard_error(self) -> float:
        """Of the accuracy, from the spread of the folds' accuracies."""
        return (
            float(np.std(self.fold_accuracies, ddof=1) / np.sqrt(self.n_folds)) if self.n_folds > 1 else 0.0
        )


def cross_validate(
    problem: Problem, options: TrainOptions, n_folds: int, tell: Callable[[int], object] | None = None
) -> CrossValidation:
    """Train on all folds but one and predict that one, in turn. `tell` is called with the number of
    folds done.

    A class whose rows are all in one fold is unknown to the machine of that fold; a training part with rows
    of one class only predicts that class.
    """
    n_folds = min(n_folds, problem.rows.n_rows - problem.n_unlabeled)
    predicted = np.full(problem.rows.n_rows, -1, dtype=np.int64)
    unfinished, fold_accuracies = 0, []
    train = train_detector if problem.one_class else train_problem
    folds = trained_folds(problem, options, n_folds, train)
    for done, (outside, rows, present, model) in enumerate(folds, 1):
        if model is None:
            predicted[outside] = present[0] if len(present) else 0
        else:
            unfinished += model.report["status"] != CONVERGED
            places = model.positions(rows, options.threads)
            predicted[outside] = present[places] if problem.has_classes else places
        fold_accuracies.append(float(np.mean(predicted[outside] == problem.codes[outside])))
        if tell is not None:
            tell(done)
    labeled = problem.codes >= 0
    accuracy = float(np.mean(predicted[labeled] == problem.codes[labeled]))
    return CrossValidation(predicted, accuracy, n_folds, unfinished, fold_accuracies)


@dataclass(frozen=True)
class TargetValidation:
    """What cross-validation of a regression finds: `predicted[i]` is what the machine that did not see row i
    says, a line of its outputs."""

    predicted: Floats = field(repr=False)
    measures: RegressionMeasures
    n_folds: int
    unfinished: int  # folds whose training did not converge


def cross_validate_targets(problem: Problem, options: TrainOptions, n_folds: int) -> TargetValidation:
    """`cross_validate` for a problem of regression."""
    assert problem.targets is not None
    n_folds = min(n_folds, problem.rows.n_rows)
    predicted, unfinished = np.zeros_like(problem.targets), 0
    for outside, rows, _, model in trained_folds(problem, options, n_folds):
        if model is not None:
            unfinished += model.report["status"] != CONVERGED
            predicted[outside] = model.function.scores(rows, options.n_threads)
    measures = regression_measures(predicted, problem.targets)
    return TargetValidation(predicted, measures, n_folds, unfinished)
