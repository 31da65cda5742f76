"""The outer loop over q: what it decides on certificates; and problems that a state refuses."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.solvers.control import CONVERGED, Control
from odmlib.solvers.multiclass._mcodm import LinearState
from odmlib.solvers.multiclass.problem import OUTER, Certificate, McodmProblem, OuterLoop


def problem(relaxation="majorise", nu=0.5, labels=(0, 1, 2), n_classes=3):
    rows = Rows(Dataset.from_any(np.eye(3)), 0.0)
    return McodmProblem(rows, np.array(labels), n_classes, np.ones(3), nu, 0.2, relaxation)


def at(gap, objective=10.0, misplaced=0):
    return Certificate(objective, 10.0, 10.0 * gap, misplaced)


def test_early_problems_are_solved_roughly():
    loop = OuterLoop(problem(), Control(tol=1e-3), OUTER)
    assert loop.decide(at(0.2, misplaced=5)) == "solve"
    assert loop.decide(at(0.09, misplaced=5)) == "reassign"
    assert loop.tolerance == pytest.approx(0.03) and loop.steps == 1
    assert loop.decide(at(0.04, misplaced=5)) == "solve"
    assert loop.decide(at(0.02)) == "solve"  # q is right already
    assert loop.decide(at(0.0009)) == "converged"


def test_the_end_needs_q_or_the_objective_to_stand_still():
    loop = OuterLoop(problem(), Control(tol=1e-3), OUTER)
    assert loop.decide(at(0.0009, misplaced=1)) == "reassign"
    assert loop.decide(at(0.0009, 9.9, misplaced=1)) == "reassign"
    verdict, status = loop.step(at(0.0009, 9.5, misplaced=1), 7, 100)
    assert verdict == "reassign" and status is None  # a small gap, but q moves
    assert loop.step(at(0.0009, 9.501, misplaced=1), 8, 100) == ("converged", CONVERGED)


def test_frozen_problems_are_solved_whole():
    loop = OuterLoop(problem("frozen"), Control(tol=1e-3), OUTER)
    assert loop.decide(at(0.01)) == "solve"
    assert loop.decide(at(0.0009)) == "reassign"
    assert loop.decide(at(0.0009)) == "converged"
    # without an upper side nothing is frozen
    assert OuterLoop(problem("frozen", nu=0.0), Control(tol=1e-3), OUTER).decide(at(0.0009)) == "converged"


def test_labels_that_are_no_classes_are_refused():
    for labels, n_classes in (((0, 1, 3), 3), ((0, -1, 2), 3), ((0, 0, 0), 1), ((0, 1), 2)):
        with pytest.raises(ValueError, match="labels"):
            LinearState(problem(labels=labels, n_classes=n_classes), 0)
