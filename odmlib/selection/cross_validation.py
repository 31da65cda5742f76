"""k-fold cross-validation of one setting."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odmlib.data.dataset import Dataset
from odmlib.data.folds import stratified_folds
from odmlib.data.problem import Problem
from odmlib.machines.ssodm import ssodm_weights
from odmlib.machines.training import kernel_formula, train_problem
from odmlib.model.model import Model
from odmlib.model.schemes import class_pairs, n_outputs, pair_output
from odmlib.options import TrainOptions
from odmlib.solvers.control import CONVERGED

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class CrossValidation:
    """`predicted[i]` is the code of the label given to row i by the machine that did not see it, -1 for a row
    without a label: those are in every training part."""

    predicted: Codes
    accuracy: float  # of all labeled rows, 0 to 1
    n_folds: int
    unfinished: int  # folds whose training did not converge


@dataclass(frozen=True)
class Fold:
    """One fold: its rows, the classes that are trained without it, and the machine (None for one class)."""

    outside: Codes
    rows: Dataset  # those of `outside`
    present: Codes
    model: Model | None


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
    n_folds = min(n_folds, problem.rows.n_rows - problem.n_unlabeled)
    predicted = np.full(problem.rows.n_rows, -1, dtype=np.int64)
    unfinished = 0
    for place, fold in enumerate(_trained_folds(problem, options, n_folds)):
        if fold.model is None:
            predicted[fold.outside] = fold.present[0] if len(fold.present) else 0
        else:
            unfinished += fold.model.report["status"] != CONVERGED
            predicted[fold.outside] = fold.present[fold.model.positions(fold.rows, options.threads)]
        if tell is not None:
            tell(place + 1)
    labeled = problem.codes >= 0
    accuracy = float(np.mean(predicted[labeled] == problem.codes[labeled]))
    return CrossValidation(predicted, accuracy, n_folds, unfinished)


def cross_scores(problem: Problem, options: TrainOptions, n_folds: int, scheme: str) -> Floats:
    """Scores (rows x outputs of the scheme) of every row by the machine that did not see it.

    NaN where that machine does not know one of the output's classes.
    """
    k = len(problem.labels)
    scores = np.full((problem.rows.n_rows, n_outputs(scheme, k)), np.nan)
    for fold in _trained_folds(problem, options, n_folds):
        if fold.model is None:
            continue
        found = fold.model.function.scores(fold.rows, options.n_threads)
        if fold.model.scheme == "binary" and scheme != "binary":  # two classes are left: one output for both
            first, second = (int(code) for code in fold.present)
            if scheme == "ovo":
                scores[fold.outside, pair_output(first, second, k)] = found[:, 0]
            continue
        if scheme == "binary":
            outputs = np.zeros(1, dtype=np.int64)
        elif scheme == "ovo":
            pairs = zip(*class_pairs(len(fold.present)), strict=True)
            outputs = np.array([pair_output(int(fold.present[i]), int(fold.present[j]), k) for i, j in pairs])
        else:
            outputs = fold.present
        scores[np.ix_(fold.outside, outputs)] = found
    return scores


def _trained_folds(problem: Problem, options: TrainOptions, n_folds: int) -> Iterator[Fold]:
    labeled = problem.codes >= 0
    folds = np.full(len(labeled), -1)
    folds[labeled] = stratified_folds(problem.codes[labeled], n_folds, options.seed)
    # gamma and lambda are those of the whole set: each fold tests the machine that all rows would train
    gamma = kernel_formula(problem.rows, options).gamma
    options = dataclasses.replace(options, gamma=gamma, probability=False)
    if options.machine == "ssodm":
        C, lambda2 = ssodm_weights(problem, options)
        options = dataclasses.replace(options, C=C, lambda1=None, lambda2=lambda2)
    elif options.machine != "kmomd":  # whose lambda does not depend on the number of rows
        C, _ = options.weights_for(problem.total_weight)
        options = dataclasses.replace(options, C=C, lambda_=None)
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
        yield Fold(outside, rest, present, model)
