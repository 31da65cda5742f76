"""Multi-class ODM with a kernel against the linear solver and values written out."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.solvers.control import CONVERGED, MAX_ITER, TIME_LIMIT, Control, Resources
from odmlib.solvers.multiclass.kernel import TUNING, solve_mcodm_kernel
from odmlib.solvers.multiclass.linear import solve_mcodm_linear
from odmlib.solvers.multiclass.problem import McodmProblem
from tests.solvers.multiclass.test_linear import problem


def solve(
    X,
    labels,
    k,
    costs,
    formula=None,
    control=None,
    cache_bytes=1 << 24,
    mu=0.5,
    relaxation="majorise",
    threads=1,
    tuning=TUNING,
):
    kernel = Kernel(formula or KernelFormula("rbf", 0.3), Dataset.from_any(X))
    problem = McodmProblem(kernel, labels, k, costs, mu, 0.2, relaxation)
    resources = Resources(threads, cache_bytes)
    return solve_mcodm_kernel(problem, control or Control(tol=1e-6), resources, None, tuning)


def rbf(X, gamma=0.3):
    return np.exp(-gamma * np.square(X[:, None] - X[None]).sum(axis=2))


def written_out(K, labels, costs, mu, duals):
    scores = K @ duals
    rows = np.arange(len(labels))
    wrong = scores.copy()
    wrong[rows, labels] = -np.inf
    margins = scores[rows, labels] - wrong.max(axis=1)
    losses = np.maximum(0, 0.8 - margins) ** 2 + mu * np.maximum(0, margins - 1.2) ** 2
    return 0.5 * np.sum(duals * scores) + costs @ losses, margins


@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.parametrize("relaxation", ["majorise", "frozen"])
def test_report_is_true(mu, relaxation):
    X, labels = problem(20, m=300, k=5)
    costs = np.random.default_rng(0).uniform(0.5, 2, 300)
    control = Control(tol=1e-5, max_iter=400)
    result = solve(X, labels, 5, costs, mu=mu, relaxation=relaxation, control=control)
    J, margins = written_out(rbf(X), labels, costs, mu, result.duals)
    assert result.details["objective"] == pytest.approx(J, rel=1e-5)  # kernel values are float32
    np.testing.assert_allclose(result.margins, margins, atol=1e-5)
    if relaxation == "majorise":
        assert result.status == CONVERGED and result.gap <= 1e-5
        assert result.primal >= J * (1 - 1e-5)
        np.testing.assert_allclose(result.duals.sum(axis=1), 0, atol=1e-9)


def test_linear_kernel_is_the_linear_machine():
    X, labels = problem(21, m=200, k=4)
    costs = np.full(200, 0.2)
    rows = Rows(Dataset.from_any(X), 1.0)
    linear = solve_mcodm_linear(
        McodmProblem(rows, labels, 4, costs, 0.0, 0.2), Control(tol=1e-6), Resources()
    )
    result = solve(X, labels, 4, costs, KernelFormula("linear", bias=1.0), mu=0.0)
    assert result.status == CONVERGED
    assert result.primal == pytest.approx(linear.primal, rel=3e-6)
    weights = np.c_[X, np.ones(200)].T @ result.duals
    np.testing.assert_allclose(weights, linear.weights, atol=5e-3)


def test_cache_and_threads_change_nothing_of_weight():
    X, labels = problem(22, m=300, k=4)
    costs = np.full(300, 1.0)
    roomy = solve(X, labels, 4, costs)
    again = solve(X, labels, 4, costs, threads=3)
    tight = solve(X, labels, 4, costs, cache_bytes=40_000)  # about thirty rows
    assert roomy.duals.tobytes() == again.duals.tobytes()
    assert tight.details["block_rows"] < 40 and tight.status == CONVERGED
    assert tight.details["objective"] == pytest.approx(roomy.details["objective"], rel=1e-3)


def test_rows_without_weight_and_limits():
    X, labels = problem(23, m=200, k=4)
    costs = np.full(200, 1.0)
    costs[:20] = 0
    result = solve(X, labels, 4, costs)
    assert result.status == CONVERGED and not result.duals[:20].any()
    short = solve(X, labels, 4, costs, control=Control(tol=1e-9, max_iter=3))
    assert short.status == MAX_ITER and short.iterations == 3 and short.gap > 1e-9
    late = solve(X, labels, 4, costs, control=Control(tol=1e-9, time_limit=1e-9))
    assert late.status == TIME_LIMIT and np.isfinite(late.primal)


def test_few_rows_are_exact_at_any_tolerance():
    """The same rows in another order: other blocks, other steps, the same machine."""
    X, labels = problem(24, m=150, k=4)
    order = np.random.default_rng(0).permutation(150)
    rough = Control(tol=1e-2)
    ends = [solve(X[some], labels[some], 4, np.ones(150), control=rough) for some in (slice(None), order)]
    scores = [rbf(X, 0.3) @ ends[0].duals, rbf(X, 0.3)[:, order] @ ends[1].duals]
    assert [end.status for end in ends] == [CONVERGED, CONVERGED]
    assert max(end.gap for end in ends) < 1e-7
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-7, atol=1e-7)


def test_what_had_converged_stays_so():
    """The limits of a run that goes on after that do not change its status."""
    X, labels = problem(24, m=150, k=4)
    whole = solve(X, labels, 4, np.ones(150), control=Control(tol=1e-2))
    parts = [
        solve(X, labels, 4, np.ones(150), control=Control(tol=1e-2, max_iter=n))
        for n in range(whole.iterations)
    ]
    statuses = [part.status for part in parts]
    first = statuses.index(CONVERGED)
    assert statuses == [MAX_ITER] * first + [CONVERGED] * (len(parts) - first) and len(parts) - first > 1
    assert all(part.gap <= 1e-2 for part in parts[first:])
