"""The verbs of problems, against plain formulas."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss, HingeLoss
from odmlib.solvers.problem import KernelProblem, LinearProblem, best_multiple, conjugates
from tests.reference_linear import random_problem


@pytest.fixture
def problem():
    X, y = random_problem(n=50, d=4, seed=3)
    return LinearProblem(Rows(Dataset.from_any(X), 1.0), y, np.linspace(0.1, 2, 50), BandLoss(0.2, 0.5))


def test_margins_weights_and_gradient_belong_together(problem):
    X = np.hstack([problem.rows.dataset().to_dense(), np.ones((50, 1))])
    w = np.linspace(-1, 1, 5)
    z = problem.y * (X @ w)
    assert problem.margins(w) == pytest.approx(z)
    a = np.linspace(-1, 2, 50)
    assert problem.weights_of(a) == pytest.approx(X.T @ (problem.y * a))
    margins, curvatures = np.empty((2, 50))
    total, gradient = problem.evaluate(w, margins, curvatures)
    losses, slopes, known = problem.slopes_and_curvatures(margins)
    assert (margins == problem.margins(w)).all() and (curvatures == known).all()
    assert total == pytest.approx(losses)
    assert gradient == pytest.approx(X.T @ (problem.y * slopes))
    assert (problem.duals_of(margins) == -slopes).all()


def test_the_gap_is_zero_for_duals_that_belong_to_the_margins(problem):
    margins = problem.margins(np.linspace(-1, 1, 5))
    duals = problem.duals_of(margins)
    losses, gap = problem.losses_and_gap(duals, margins)
    assert 0 <= gap <= 1e-12 * losses
    assert problem.losses_and_gap(duals + 0.1, margins)[1] > 0


@pytest.mark.parametrize("loss", [BandLoss(0.2, 0.5), HingeLoss()])
def test_the_best_multiple_has_the_largest_dual_value(loss):
    rng = np.random.default_rng(1)
    costs = rng.uniform(0.5, 2, 30)
    duals = costs * rng.uniform(0.1, 0.5, 30)
    root = rng.standard_normal((30, 30))
    square = float(duals @ (root @ root.T / 30) @ duals)

    def dual_value(t):
        return -0.5 * t * t * square - conjugates(loss, costs, t * duals)

    t = best_multiple(loss, costs, duals, square)
    assert t > 0
    for other in (0.0, 0.5 * t, 0.99 * t, 1.01 * t, 2 * t):
        assert dual_value(t) >= dual_value(other) - 1e-12
    assert best_multiple(loss, costs, np.zeros(30), 0.0) == 0.0


def test_a_kernel_problem_on_some_rows():
    X, y = random_problem(n=20, d=3, seed=4)
    kernel = Kernel(KernelFormula("rbf", gamma=0.5), Dataset.from_any(X))
    some = np.array([2, 3, 11])
    part = KernelProblem(kernel, y, np.arange(20.0), HingeLoss()).restricted(some)
    assert part.kernel.n_rows == 3
    assert (part.y == y[some]).all() and part.costs.tolist() == [2, 3, 11]
