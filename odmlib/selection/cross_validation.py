"""k-fold cross-validation of one setting."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Codes, Floats
from odmlib.data.dataset import Dataset
from odmlib.data.folds import stratified_folds
from odmlib.data.problem import Problem
from odmlib.machines.building import kernel_formula
from odmlib.machines.ssodm import ssodm_weights
from odmlib.machines.training import train_problem
from odmlib.model.model import Model
from odmlib.model.schemes import class_pairs, n_outputs, pair_output
from odmlib.options import TrainOptions
from odmlib.solvers.control import CONVERGED


@dataclass(frozen=True)
class CrossValidation:
    """`predicted[i]` is the code of the label given to row i by the machine that did not see it, -1 for a row
    without a label: those are in every training part."""

    predicted: Codes
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
    folds = _trained_folds(problem, options, n_folds)
    for done, (outside, rows, present, model) in enumerate(folds, 1):
        if model is None:
            predicted[outside] = present[0] if len(present) else 0
        else:
            unfinished += model.report["status"] != CONVERGED
            predicted[outside] = present[model.positions(rows, options.threads)]
        fold_accuracies.append(float(np.mean(predicted[outside] == problem.codes[outside])))
        if tell is not None:
            tell(done)
    labeled = problem.codes >= 0
    accuracy = float(np.mean(predicted[labeled] == problem.codes[labeled]))
    return CrossValidation(predicted, accuracy, n_folds, unfinished, fold_accuracies)


def cross_scores(problem: Problem, options: TrainOptions, n_folds: int, scheme: str) -> Floats:
    """Scores (rows x outputs of the scheme) of every row by the machine that did not see it.

    NaN where that machine does not know one of the output's classes.
    """
    k = len(problem.labels)
    scores = np.full((problem.rows.n_rows, n_outputs(scheme, k)), np.nan)
    for outside, rows, present, model in _trained_folds(problem, options, n_folds):
        if model is None:
            continue
        if scheme == "ovo":
            pairs = zip(*class_pairs(len(present)), strict=True)
            outputs = np.array([pair_output(int(present[i]), int(present[j]), k) for i, j in pairs])
        elif model.scheme == scheme:
            outputs = np.zeros(1, dtype=np.int64) if scheme == "binary" else present
        else:  # two classes are left: one output for both, which says nothing of one against the rest
            continue
        scores[np.ix_(outside, outputs)] = model.function.scores(rows, options.n_threads)
    return scores


def of_whole_set(problem: Problem, options: TrainOptions, gamma: float | None = None) -> TrainOptions:
    """The options for a part of the problem, so that the part tests the machine that all rows would train.

    `gamma`: of the whole problem, where it is known.
    """
    gamma = kernel_formula(problem.rows, options).gamma if gamma is None else gamma
    options = dataclasses.replace(options, gamma=gamma)
    if options.machine == "kmomd":  # whose lambda does not depend on the number of rows
        return options
    if options.machine == "ssodm":
        C, lambda2 = ssodm_weights(problem, options)
        return dataclasses.replace(options, C=C, lambda1=None, lambda2=lambda2)
    return dataclasses.replace(options, C=options.weights_for(problem.total_weight)[0], lambda_=None)


def _trained_folds(
    problem: Problem, options: TrainOptions, n_folds: int
) -> Iterator[tuple[Codes, Dataset, Codes, Model | None]]:
    """Of each fold: the rows left out, as numbers and as data, the classes that are trained without them, and
    the machine (None for one class)."""
    labeled = problem.codes >= 0
    folds = np.full(len(labeled), -1)
    folds[labeled] = stratified_folds(problem.codes[labeled], n_folds, options.seed)
    options = of_whole_set(problem, options)
    for fold in range(n_folds):
        inside, outside = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        present = np.unique(problem.codes[inside][(problem.weights[inside] > 0) & labeled[inside]])
        inside = inside[np.isin(problem.codes[inside], present) | ~labeled[inside]]
        part = problem.take(inside).of_present_classes(present)
        rest = problem.rows.take(outside)
        if options.kernel == "precomputed":
            columns = inside.astype(np.int32)
            part.rows, rest = part.rows.on_columns(columns), rest.on_columns(columns)
        model = train_problem(part, options) if len(present) >= 2 else None
        yield outside, rest, present, model
