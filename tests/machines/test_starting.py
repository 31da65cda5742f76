"""A model to begin from, read in the terms of another problem."""

from __future__ import annotations

import numpy as np
import pytest

import odmlib
from odmlib.data.dataset import Dataset
from odmlib.data.problem import Problem
from odmlib.errors import ParameterError
from odmlib.machines.starting import Start
from odmlib.machines.tasks import make_tasks

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(60, 4)) + 2 * np.repeat(np.eye(4)[:3], 20, axis=0)
Y = np.repeat([7, 3, 5], 20)
OTHER_ORDER = RANDOM.permutation(60)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_labels_in_another_order_give_the_same_margins(scheme, kernel):
    model = odmlib.train(X, Y, kernel=kernel, multiclass=scheme)
    problem = Problem.from_arrays(X[OTHER_ORDER], Y[OTHER_ORDER])
    assert problem.labels.tolist() != model.labels.tolist()
    start = Start(model, problem, scheme)
    again = odmlib.train(X[OTHER_ORDER], Y[OTHER_ORDER], kernel=kernel, multiclass=scheme, tol=1e-6)
    scores = again.decision_function(X[OTHER_ORDER])
    for task in make_tasks(problem, scheme):
        rows = slice(None) if task.rows is None else task.rows
        margins = start.margins(task, problem.rows, 1)
        expected = task.signs * scores[rows, task.output]
        assert margins == pytest.approx(expected, abs=0.2)  # what another run to the same tolerance finds


def test_weights_come_on_the_columns_asked_for():
    model = odmlib.train(X, Y == 7, kernel="linear", bias=2.0)
    problem = Problem.from_arrays(X, Y == 7)
    (task,) = make_tasks(problem, "binary")
    start = Start(model, problem, "binary")
    weights = start.weights(task, np.array([1, 3, 9], dtype=np.int32), 0.5)
    own = model.function.weights[:, 0]
    assert weights.tolist() == [own[1], own[3], 0.0, 2.0 * model.function.bias_weights[0] / 0.5]
    kernel_model = odmlib.train(X, Y == 7, kernel="rbf")
    assert Start(kernel_model, problem, "binary").weights(task, np.arange(4, dtype=np.int32), 0.0) is None


def test_what_does_not_fit_is_refused():
    model = odmlib.train(X, Y, multiclass="ovo")
    with pytest.raises(ParameterError, match="the model to start from has labels"):
        Start(model, Problem.from_arrays(X, Y + 1), "ovo")
    with pytest.raises(ParameterError, match="is of scheme ovo, this training is of scheme ovr"):
        Start(model, Problem.from_arrays(X, Y), "ovr")
    square = odmlib.train(X @ X.T, Y, kernel="precomputed")
    start = Start(square, Problem.from_arrays(X @ X.T, Y), "ovo")
    (task, *_) = make_tasks(Problem.from_arrays(X, Y), "ovo")
    with pytest.raises(ParameterError, match=r"4 kernel values per row, .* was trained with 60"):
        start.margins(task, Dataset.from_any(X), 1)
