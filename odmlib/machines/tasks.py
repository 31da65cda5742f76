"""Any number of classes as tasks of two sides, and the margins that belong to them (model/schemes.py)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from odmlib._core.arrays import Floats, Places
from odmlib.data.problem import Problem
from odmlib.machines.machine import Task
from odmlib.model.schemes import class_pairs, margins_of, winners
from odmlib.solvers.control import SolverResult


def make_tasks(problem: Problem, scheme: str) -> Iterator[Task]:
    """The tasks in the order of the outputs, made one at a time."""
    codes, weights = problem.codes, problem.weights
    if scheme == "ovo":
        members = [np.flatnonzero(codes == code) for code in range(len(problem.labels))]
        for output, (first, second) in enumerate(zip(*class_pairs(len(members)), strict=True)):
            rows = np.sort(np.concatenate([members[first], members[second]]))
            signs = np.where(codes[rows] == first, 1.0, -1.0)
            yield Task(output, (int(first), int(second)), signs, weights[rows], rows)
    elif problem.targets is not None:
        ones = np.ones(len(codes))
        for output, targets in enumerate(np.ascontiguousarray(problem.targets.T)):
            yield Task(output, (output, None), ones, weights, targets=targets)
    elif scheme == "ovr":
        for code in range(len(problem.labels)):
            yield Task(code, (code, None), problem.signs_of(code), weights)
    else:
        yield Task(0, (0, 1), problem.signs(), weights)


class TrainingMargins:
    """Margins of all rows, gathered task by task in any order; memory does not grow with the tasks."""

    def __init__(self, scheme: str, n_rows: int):
        self.scheme = scheme
        self.own = np.full(n_rows, 0.0 if scheme == "regression" else np.inf)
        self.best_other = np.full(n_rows, -np.inf if scheme == "ovr" else 0.0)

    def add(self, task: Task, margins: Floats) -> None:
        if self.scheme == "regression":  # the largest residual of several
            self.own = np.where(np.abs(margins) >= np.abs(self.own), margins, self.own)
        elif self.scheme == "ovr":
            positive = task.signs > 0
            self.own[positive] = margins[positive]
            rest = task.signs < 0
            self.best_other[rest] = np.maximum(self.best_other[rest], -margins[rest])
        else:
            rows = slice(None) if task.rows is None else task.rows
            self.own[rows] = np.minimum(self.own[rows], margins)

    def result(self) -> Floats:
        return self.own - self.best_other


class OpenRows:
    """The rows without a label: what the tasks say about them."""

    def __init__(self, scheme: str, rows: Places, n_outputs: int):
        self.scheme, self.rows = scheme, rows
        self.scores = np.zeros((len(rows), n_outputs))
        self.codes: Places | None = None

    def add(self, task: Task, result: SolverResult) -> None:
        if len(self.rows) == 0:
            return
        self.scores[:, task.output] = (result.signs * result.margins)[self.rows]
        if self.scheme == "binary":
            self.codes = np.where(result.signs[self.rows] > 0, 0, 1).astype(np.int64)

    def assigned(self) -> Places:
        """The class of every open row: as the machine labeled it, or the largest output of one-vs-rest."""
        return winners(self.scheme, self.scores, self.scores.shape[1]) if self.codes is None else self.codes

    def complete(self, margins: Floats) -> Floats:
        """The margins of all rows, those of open rows under the classes assigned to them."""
        if len(self.rows):
            margins[self.rows] = margins_of(
                self.scheme, self.scores, self.assigned(), max(2, self.scores.shape[1])
            )
        return margins
