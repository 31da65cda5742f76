"""Tasks of the class schemes, and margins and labels put together from them."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib.data.problem import Problem
from odmlib.machines.tasks import OpenRows, TrainingMargins, make_tasks
from odmlib.model.schemes import margins_of, n_outputs
from odmlib.solvers.control import CONVERGED, SolverResult

X = np.arange(7.0)[:, None]
PROBLEM = Problem.from_arrays(X, ["a", "b", "c", "a", "c", "b", "c"], np.arange(1.0, 8), {"c": 10})


def test_one_task_for_two_classes():
    problem = Problem.from_arrays(X[:3], [5, 2, 5], [1, 2, 3])
    (task,) = make_tasks(problem, "binary")
    assert (task.output, task.sides, task.rows) == (0, (0, 1), None)
    assert task.signs.tolist() == [1, -1, 1] and task.weights.tolist() == [1, 2, 3]


def test_a_task_per_class_has_all_rows():
    tasks = list(make_tasks(PROBLEM, "ovr"))
    assert [task.sides for task in tasks] == [(0, None), (1, None), (2, None)]
    for task in tasks:
        assert task.rows is None
        assert (task.signs > 0).tolist() == (PROBLEM.codes == task.output).tolist()
        assert (task.weights == PROBLEM.weights).all()


def test_a_task_per_pair_has_their_rows():
    tasks = list(make_tasks(PROBLEM, "ovo"))
    assert [task.sides for task in tasks] == [(0, 1), (0, 2), (1, 2)]
    for output, task in enumerate(tasks):
        assert task.output == output
        assert task.rows.tolist() == np.flatnonzero(np.isin(PROBLEM.codes, task.sides)).tolist()
        assert (task.signs > 0).tolist() == (PROBLEM.codes[task.rows] == task.sides[0]).tolist()
        assert (task.weights == PROBLEM.weights[task.rows]).all()


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_margins_are_those_of_the_scores_in_any_order_of_tasks(scheme):
    scores = np.random.default_rng(0).normal(size=(7, n_outputs(scheme, 3)))
    expected = margins_of(scheme, scores, PROBLEM.codes, 3)
    tasks = list(make_tasks(PROBLEM, scheme))
    for order in (tasks, tasks[::-1]):
        margins = TrainingMargins(scheme, 7)
        for task in order:
            rows = slice(None) if task.rows is None else task.rows
            margins.add(task, task.signs * scores[rows, task.output])
        np.testing.assert_array_equal(margins.result(), expected)


def test_open_rows_are_labeled_as_the_machine_says_or_by_the_largest_output():
    problem = Problem.from_arrays(X[:4], [1, 2, 0, 0], None, None, 0)
    (task,) = make_tasks(problem, "binary")
    open_rows = OpenRows("binary", np.array([2, 3]), 1)
    signs, margins = np.array([1.0, -1, -1, 1]), np.array([2.0, 1, 0.5, -0.25])
    open_rows.add(task, SolverResult(CONVERGED, 0, 0, 0, 0, "none", margins=margins, signs=signs))
    assert open_rows.assigned().tolist() == [1, 0]  # the last row's score says otherwise; the label counts
    assert open_rows.complete(margins.copy()).tolist() == margins.tolist()

    several = OpenRows("ovr", np.array([2, 3]), 3)
    scores = np.array([[0.0, 0, 3, 1], [0, 0, 1, 2], [0, 0, 2, 5]])
    for task in make_tasks(PROBLEM, "ovr"):
        found = SolverResult(CONVERGED, 0, 0, 0, 0, "none", margins=scores[task.output], signs=np.ones(4))
        several.add(task, found)
    assert several.assigned().tolist() == [0, 2]
    assert several.complete(np.zeros(4)).tolist() == [0, 0, 1, 3]
