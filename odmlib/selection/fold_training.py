"""Machines trained without the rows of a fold: what cross-validation, probabilities and thresholds share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from odmlib._core.arrays import Codes, Floats
from odmlib.data.dataset import Dataset
from odmlib.data.folds import stratified_folds
from odmlib.data.problem import Problem
from odmlib.machines.building import kernel_formula
from odmlib.machines.ssodm import ssodm_weights
from odmlib.machines.training import train_problem, with_scheme
from odmlib.model.model import Model
from odmlib.model.schemes import class_pairs, n_outputs, pair_output
from odmlib.options import TrainOptions


def cross_scores(problem: Problem, options: TrainOptions, n_folds: int, scheme: str) -> Floats:
    """Scores (rows x outputs of the scheme) of every row by the machine that did not see it.

    NaN where that machine does not know one of the output's classes.
    """
    k = len(problem.labels)
    scores = np.full((problem.rows.n_rows, n_outputs(scheme, k)), np.nan)
    for outside, rows, present, model in trained_folds(problem, options, n_folds):
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
    options = dataclasses.replace(with_scheme(problem, options), gamma=gamma)
    if options.machine == "kmomd":  # whose lambda does not depend on the number of rows
        return options
    if options.machine == "ssodm":
        C, lambda2 = ssodm_weights(problem, options)
        return dataclasses.replace(options, C=C, lambda1=None, lambda2=lambda2)
    return dataclasses.replace(options, C=options.weights_for(problem.total_weight)[0], lambda_=None)


def trained_folds(
    problem: Problem,
    options: TrainOptions,
    n_folds: int,
    train: Callable[[Problem, TrainOptions], Model] = train_problem,
) -> Iterator[tuple[Codes, Dataset, Codes, Model | None]]:
    """Of each fold: the rows left out, as numbers and as data, the classes that are trained without them, and
    the machine (None for one class)."""
    labeled = problem.codes >= 0
    folds = np.full(len(labeled), -1)
    folds[labeled] = stratified_folds(problem.codes[labeled], n_folds, options.seed)
    options = of_whole_set(problem, options)
    for fold in range(n_folds):
        inside, outside = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        weighty = problem.weights[inside] > 0
        present = np.unique(problem.codes[inside][weighty & labeled[inside]])
        inside = inside[np.isin(problem.codes[inside], present) | ~labeled[inside]]
        part = problem.take(inside)
        if problem.has_classes:
            part = part.of_present_classes(present)
        rest = problem.rows.take(outside)
        if options.kernel == "precomputed":
            columns = inside.astype(np.int32)
            part.rows, rest = part.rows.on_columns(columns), rest.on_columns(columns)
        enough = len(present) >= 2 if problem.has_classes else bool(weighty.any())
        model = train(part, options) if enough else None
        yield outside, rest, present, model
