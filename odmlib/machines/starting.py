"""Training that begins from another model: what that model says about each task.

The other model may have any kernel and take the same labels in any order, but it must have the same scheme.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Floats
from odmlib.data.dataset import Dataset
from odmlib.data.labels import show_labels
from odmlib.data.problem import Problem
from odmlib.errors import ParameterError
from odmlib.machines.machine import Task
from odmlib.model.functions import Function, LinearFunction
from odmlib.model.model import Model
from odmlib.model.schemes import pair_output


class Start:
    """A model to begin from, read in the terms of the problem at hand."""

    def __init__(self, init: Model, problem: Problem, scheme: str):
        theirs, ours = init.labels.tolist(), problem.labels.tolist()
        if len(theirs) != len(ours) or set(theirs) != set(ours):
            raise ParameterError(
                f"the model to start from has labels {show_labels(init.labels)}, "
                f"the data have {show_labels(problem.labels)}"
            )
        if init.scheme != scheme:
            raise ParameterError(
                f"the model to start from is of scheme {init.scheme}, this training is of scheme {scheme}"
            )
        if problem.targets is not None and init.n_outputs != problem.targets.shape[1]:
            raise ParameterError(
                f"the model to start from has {init.n_outputs} outputs, "
                f"the data have {problem.targets.shape[1]} targets per row"
            )
        self.init = init
        self.position = [theirs.index(label) for label in ours]

    def _output(self, task: Task) -> tuple[float, Function]:
        """Their function for a task and +1, or -1 where they take its sides the other way round."""
        if task.targets is not None:
            return 1.0, self.init.function.output(task.output)
        first, second = task.sides
        a = self.position[first]
        if second is None:
            return 1.0, self.init.function.output(a)
        b = self.position[second]
        place = pair_output(min(a, b), max(a, b), len(self.position))
        return (1.0 if a < b else -1.0), self.init.function.output(place)

    def weights(self, task: Task, columns: NDArray[np.int32], bias: float) -> Floats | None:
        """Another linear machine's weights on the given columns, then the bias column's."""
        sign, function = self._output(task)
        return sign * weights_on(columns, bias, function) if isinstance(function, LinearFunction) else None

    def class_weights(self, columns: NDArray[np.int32], bias: float) -> Floats | None:
        """The same of a model with one output per label: a column per label of the problem."""
        functions = [self.init.function.output(place) for place in self.position]
        known = [weights_on(columns, bias, some) for some in functions if isinstance(some, LinearFunction)]
        return np.stack(known, axis=1) if known else None

    def margins(self, task: Task, rows: Dataset, threads: int) -> Floats:
        """Margins of all the task's rows (`rows` are those of the whole problem) under the other model."""
        sign, function = self._output(task)
        if task.rows is not None:
            rows = rows.take(task.rows)
        margins = sign * task.signs * function.scores(self._readable(rows), threads)[:, 0]
        return margins if task.targets is None else margins - task.targets

    def scores(self, rows: Dataset, threads: int) -> Floats:
        """Scores under another model with one output per label, in the order of the problem's labels."""
        return self.init.function.scores(self._readable(rows), threads)[:, self.position]

    def _readable(self, rows: Dataset) -> Dataset:
        """The rows with as many features as the other model knows."""
        if self.init.formula.name != "precomputed":  # columns that only one of the two knows do no harm
            rows = rows.with_features(self.init.n_features)
        elif rows.n_features != self.init.n_features:
            raise ParameterError(
                f"X has {rows.n_features} kernel values per row, "
                f"the model to start from was trained with {self.init.n_features}"
            )
        return rows


def weights_on(columns: NDArray[np.int32], bias: float, function: LinearFunction) -> Floats:
    weights = np.zeros(len(columns) + (1 if bias else 0))
    _, ours, theirs = np.intersect1d(columns, function.columns, assume_unique=True, return_indices=True)
    weights[ours] = function.weights[theirs, 0]
    if bias:
        weights[-1] = function.bias * function.bias_weights[0] / bias
    return weights
