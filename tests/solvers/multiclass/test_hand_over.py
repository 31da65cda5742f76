"""When coordinate ascent gives way to Newton's method."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.solvers.control import CONVERGED, Control, Resources
from odmlib.solvers.multiclass._mcodm import LinearState
from odmlib.solvers.multiclass.hand_over import TUNING, HandOver
from odmlib.solvers.multiclass.linear import solve_mcodm_linear
from odmlib.solvers.multiclass.newton import TUNING as PROXIMAL
from odmlib.solvers.multiclass.problem import McodmProblem
from tests.real_data import real_set
from tests.solvers.multiclass.test_linear import problem, solve


def model(m=400, d=19, k=4, listed=False, **proximal):
    """The cost model of m full rows with d columns and a bias."""
    rows = Rows(Dataset.from_any(np.ones((m, d))), 1.0)
    state = LinearState(McodmProblem(rows, np.arange(m) % k, k, np.ones(m), 0.5, 0.2), 0)
    return HandOver(state, rows, listed, TUNING, dataclasses.replace(PROXIMAL, **proximal))


def test_costs_written_out():
    visit = 2 * 400 * 20 * 4
    factorised = 12 * (1.2 + (3 * 400 * 20**2 / 2 + (20 * 4) ** 3 / 6) / 5 / visit)
    iterative = 150 * (0.3 + 2 * 20**2 / (400 * 20))
    assert model().explicit and model().newton == pytest.approx(factorised)
    assert model(max_explicit=0).newton == pytest.approx(iterative)
    assert not model(max_explicit=0).explicit
    assert model(max_explicit=0, max_block_values=0).newton == pytest.approx(15_000 * 0.3)
    # visits that look at 24 of 80 classes are cheaper, so that Newton's method takes more of them
    listed, every = (model(m=4000, k=80, max_explicit=0, listed=listed) for listed in (True, False))
    assert listed.newton == pytest.approx(every.newton * 80 / 24)


def test_ascent_goes_on_while_its_forecast_is_cheaper():
    cost = model(max_explicit=0)  # 60 visits
    assert cost.newton == pytest.approx(60)
    assert not cost.due(8.9, 1.0, 1e-3)  # too early to know anything
    assert cost.due(9.1, 1.0, 1e-3)
    assert cost.due(9.1, 0.4, 1e-3)  # 9.1 visits bring the gap to 0.4: 60 to come
    assert not cost.due(9.1, 0.2, 1e-3)  # 30 to come
    assert not cost.due(59.0, 1.01e-3, 1e-3)
    assert cost.due(60.0, 1.01e-3, 1e-3)  # no more than twice the cost in any case


def test_solvers_that_are_asked_for():
    cost = model()
    assert cost.takes_start(5.0) and not model(m=100, max_explicit=0).takes_start(5.0)
    cost.choose("newton")
    assert cost.due(0.1, 0.5, 1e-3) and cost.takes_start(0.0)
    cost = model()
    cost.choose("dcd")
    assert cost.newton == math.inf and not cost.due(1e9, 1.0, 1e-3) and not cost.takes_start(5.0)
    cost = model(max_matrix_values=0)
    cost.choose("newton")
    assert cost.newton == math.inf


def test_separable_data_are_left_to_ascent():
    """At a large C their gap stays near 1 on the first visits; Newton's method takes ten times as long."""
    X, labels = problem(22, m=600, d=120, k=20)
    result = solve(X, labels, 20, lambda_=1e5, bias=1.0, control=Control(tol=1e-3))
    assert result.status == CONVERGED and result.solver == "dcd"


def test_noisy_data_are_given_to_newton():
    X, labels = problem(23, m=4000, d=160, k=10, spread=0.05)
    result = solve(X, labels, 10, lambda_=4e4, bias=1.0, control=Control(tol=1e-3))
    assert result.status == CONVERGED and result.solver == "newton"
    assert result.details["epochs"] < 20


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_mnist_is_solved_by_newton_with_blocks():
    """780 columns, 10 classes: ascent alone was still at a gap of 0.08 after a hundred epochs."""
    X, y = real_set("mnist")
    rows = Rows(Dataset.from_any(X * (1 / 255)), 1.0)
    problem_ = McodmProblem(rows, y.astype(int), 10, np.full(len(y), 0.1 / 0.64), 0.5, 0.2)
    result = solve_mcodm_linear(problem_, Control(tol=1e-3), Resources())
    assert result.status == CONVERGED and result.solver == "newton"
    assert 0 < result.details["newton_steps"] <= 40 and result.details["cg_steps"] <= 300
