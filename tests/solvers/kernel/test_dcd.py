"""Dual coordinate descent with a kernel, against the working set and by hand."""

from __future__ import annotations

import numpy as np
import pytest

import odmlib
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss
from odmlib.solvers.control import Control, Resources, WarmStart
from odmlib.solvers.kernel.dcd import KernelDcdTuning, solve_kernel_dcd
from odmlib.solvers.problem import KernelProblem


def clouds(n=120, seed=0):
    random = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1, -1)
    return random.normal(size=(n, 3)) + 0.7 * y[:, None], y


def test_two_rows_by_hand():
    """Rows 1 and 3 with label +1, linear, nu 1, theta 0, cost 1/2: a = (7/11, -1/11)."""
    kernel = Kernel(KernelFormula("linear"), Dataset.from_any([[1.0], [3.0]]))
    problem = KernelProblem(kernel, np.ones(2), np.full(2, 0.5), BandLoss(0.0, 1.0))
    result = solve_kernel_dcd(problem, Control(tol=1e-13), Resources(1, 1 << 20))
    np.testing.assert_allclose(result.duals, [7 / 11, -1 / 11], atol=1e-6)


@pytest.mark.parametrize("options", [
    {"gamma": 0.3}, {"gamma": 0.3, "C": 20, "nu": 3.0},
    {"kernel": "poly", "degree": 2, "gamma": 0.2, "coef0": 1},
    {"kernel": "sigmoid", "gamma": 0.3, "coef0": -1, "C": 0.3},
])  # fmt: skip
def test_same_machine_as_the_working_set(options):
    X, y = clouds()
    ours, other = (
        odmlib.train(X, y, tol=1e-6, solver=solver, **options) for solver in ("dcd", "working-set")
    )
    assert ours.report["solver"] == "dcd" and ours.report["status"] == "converged"
    assert ours.report["primal"] == pytest.approx(other.report["primal"], rel=2e-6)
    np.testing.assert_allclose(ours.decision_function(X), other.decision_function(X), atol=2e-2)


def test_small_slices_and_starts():
    X, y = clouds()
    kernel = Kernel(KernelFormula("rbf", gamma=0.3), Dataset.from_any(X))
    problem = KernelProblem(kernel, y.astype(float), np.ones(120), BandLoss(0.2, 0.5))
    whole = solve_kernel_dcd(problem, Control(tol=1e-8), Resources(1, 1 << 24))
    sliced = solve_kernel_dcd(
        problem, Control(tol=1e-8), Resources(1, 1 << 24), tuning=KernelDcdTuning(slice_values=500)
    )
    np.testing.assert_allclose(sliced.duals, whole.duals, atol=1e-12)
    again = solve_kernel_dcd(problem, Control(tol=1e-7), Resources(1, 1 << 24), WarmStart.of(whole))
    assert again.iterations == 0 and again.status == "converged"


def test_limits():
    X, y = clouds(300)
    with pytest.warns(odmlib.ConvergenceWarning, match="limit of 2 iterations"):
        odmlib.train(X, y, C=100, solver="dcd", max_iter=2, tol=1e-9)
