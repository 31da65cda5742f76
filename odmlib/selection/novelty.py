"""The threshold of a novelty detector, and the p-values of its decision values.

A machine of one class is trained on all rows (machines/odmo.py); then every row is left out once. By the
outputs v_i of the left-out rows with weights s_i, a row with output v has the conformal p-value

    p(v) = (1 + sum of s_i over v_i <= v) / (1 + sum of all s_i),

which is at most nu for about a part nu of new rows that are like the training rows. These are called novel:
the threshold is the smallest v with p(v) > nu. The outputs come from one fit (left_out.py), which is exact
where theta = 0, or from folds (unseen.py).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from odmlib.data.problem import Problem
from odmlib.machines.training import train_problem
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.selection.conformal import kept_lists, levels_of
from odmlib.selection.unseen import unseen_scores

PART_OF_NU = 0.1  # by which rows that leave-one-out may get wrong can move the rate of false alarms


def train_detector(problem: Problem, options: TrainOptions) -> Model:
    """A machine of one class with its threshold."""
    return with_threshold(train_problem(problem, options), problem, options)


def with_threshold(model: Model, problem: Problem, options: TrainOptions) -> Model:
    """The model whose decision values are positive for all but about a part nu of rows like these."""
    scores, source = unseen_scores(model, problem, options, PART_OF_NU * options.nu)
    ascending, levels = levels_of(scores[:, 0], problem.sample_weights)
    place = max(0, int(np.searchsorted(levels, options.nu, side="right")) - 1)
    threshold = float(np.nextafter(ascending[place], -np.inf))  # the row at the threshold is no novelty
    report = model.report | {
        "novelty": {"source": source, "threshold": threshold, "false_alarms": float(levels[place])}
    }
    return dataclasses.replace(
        model,
        function=dataclasses.replace(model.function, offsets=np.array([threshold])),
        lists=kept_lists("conformal", ascending - threshold, levels),
        report=report,
    )
