"""Steps along the last changes: the dual along directions, what a step keeps, and what it saves."""

import numpy as np
import pytest

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.kernels.cache import RowCache
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss
from odmlib.solvers.control import Control, Resources
from odmlib.solvers.kernel.block_steps import BlockSteps, WorkingSetTuning
from odmlib.solvers.kernel.extrapolation import Extrapolation
from odmlib.solvers.kernel.q_rows import KernelRows, LinearRows
from odmlib.solvers.kernel.working_set import solve_working_set
from odmlib.solvers.problem import KernelProblem, LinearProblem


def noisy(m, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d))
    return X, np.where(np.sin(X[:, :2]).sum(axis=1) + rng.standard_normal(m) > 0, 1.0, -1.0)


def kernel_problem(m, C, targets=None, seed=0, d=10):
    X, y = noisy(m, d, seed)
    kernel = Kernel(KernelFormula("rbf", gamma=1 / d), Dataset.from_any(X))
    return KernelProblem(kernel, y, np.full(m, C), BandLoss(0.2, 0.5), targets)


def in_float64(problem, size=32):
    cache = RowCache(problem.kernel, 1 << 24, True)
    return BlockSteps(KernelRows(cache, size), problem, np.ones(len(problem.y)), 0, WorkingSetTuning())


def dual_value(problem, Q, a):
    """1/2 a'Qa - t'a + sum conj_i(a_i), as docs/internals/mathematics.md has it."""
    loss, targets = problem.loss, problem.targets
    value = 0.5 * a @ Q @ a - (0.0 if targets is None else targets @ a)
    return value + sum(loss.evaluate("conjugate", *pair) for pair in zip(a, problem.costs, strict=True))


def signed_matrix(problem):
    return np.outer(problem.y, problem.y) * problem.kernel.block(np.arange(len(problem.y)), wide=True)


@pytest.mark.parametrize("with_targets", [False, True])
def test_the_dual_along_directions(with_targets):
    rng = np.random.default_rng(1)
    m = 60
    problem = kernel_problem(m, 3.0, rng.standard_normal(m) if with_targets else None)
    Q, steps = signed_matrix(problem), in_float64(problem)
    a, directions = rng.standard_normal(m), rng.standard_normal((3, m))
    a[:10], directions[:, :10] = 0, 0  # rows that rest
    steps.go_to(a, problem.y * (Q @ a))
    scores = problem.y * (directions @ Q)
    t = np.array([0.3, -0.2, 0.1])
    value, gradient, hessian = steps.state.along(directions, scores, t)
    start = steps.state.along(directions, scores, np.zeros(3))[0]

    def along(t):
        return dual_value(problem, Q, a + t @ directions)

    assert value - start == pytest.approx(along(t) - along(np.zeros(3)), rel=1e-9)
    for j, unit in enumerate(np.eye(3)):
        slope = (along(t + 1e-6 * unit) - along(t - 1e-6 * unit)) / 2e-6
        assert gradient[j] == pytest.approx(slope, rel=1e-4)
    assert (hessian == hessian.T).all()
    after = steps.state.along(directions, scores, t + 1e-6 * np.eye(3)[1])[1]
    assert hessian[1] == pytest.approx((after - gradient) / 1e-6, rel=1e-3)


def test_directions_of_the_wrong_shape_are_refused():
    steps = in_float64(kernel_problem(20, 1.0))
    with pytest.raises(ValueError, match="each of 2 directions needs a number for each of 20 rows"):
        steps.state.along(np.zeros((2, 19)), np.zeros((2, 20)), np.zeros(2))


def test_a_step_lowers_the_dual_and_the_scores_follow():
    problem = kernel_problem(300, 100.0)
    Q, steps = signed_matrix(problem), in_float64(problem)
    past = Extrapolation(steps.state, 3, 0.0, 1)
    taken = 0
    for _ in range(12):
        for _ in range(4):
            steps.state.measure()
            assert steps.improve(1e-9, Control()) is None
        before, additions = dual_value(problem, Q, steps.state.duals), steps.state.additions
        past.step()
        after = dual_value(problem, Q, steps.state.duals)
        assert after <= before + 1e-9 * abs(before)
        taken += after < before
        # the bound on the rounding knows of the step
        assert (steps.state.additions > additions) == (after < before)
        assert steps.state.scores == pytest.approx(problem.y * (Q @ steps.state.duals), rel=1e-9, abs=1e-9)
    assert taken and past.untidy


def test_nothing_moves_without_a_past():
    steps = in_float64(kernel_problem(100, 100.0))
    steps.state.measure()
    steps.improve(1e-9, Control())
    past, duals = Extrapolation(steps.state, 3, 0.0, 1), steps.state.duals.copy()
    past.step()
    past.forget()
    past.step()
    assert (steps.state.duals == duals).all() and not past.untidy


def test_weights_of_linear_rows_follow_too():
    X, y = noisy(400, 30, 0)
    X *= np.logspace(0, 2, 30)
    rows = Rows(Dataset.from_any(X))
    problem = LinearProblem(rows, y, np.full(400, 10.0), BandLoss(0.2, 0.5))
    tuning = WorkingSetTuning(block_rows=32, first_rows=32)
    steps = BlockSteps(LinearRows(rows, 32), problem, np.ones(400), 0, tuning)
    for _ in range(60):
        steps.state.measure()
        assert steps.improve(1e-9, Control()) is None
    assert steps.past.untidy
    assert np.asarray(steps.q.weights) == pytest.approx(X.T @ (y * steps.state.duals), rel=1e-8, abs=1e-8)
    assert steps.state.scores == pytest.approx(X @ steps.q.weights, rel=1e-8, abs=1e-8)


def solved(problem, tuning, threads=1, **control):
    return solve_working_set(problem, Control(**control), Resources(threads, 1 << 26), None, tuning)


def test_coupled_rows_need_far_fewer_blocks():
    problem = kernel_problem(2500, 100.0)
    tuning = WorkingSetTuning(block_rows=128)
    plain = WorkingSetTuning(block_rows=128, extrapolate_after=np.inf)
    with_steps, without = solved(problem, tuning), solved(problem, plain)
    assert with_steps.status == without.status == "converged"
    assert with_steps.iterations < 0.6 * without.iterations
    # either is within its gap of the optimum
    assert with_steps.primal >= without.dual and without.primal >= with_steps.dual


def test_steps_leave_no_more_support_vectors():
    problem = kernel_problem(2500, 100.0, seed=3)
    found, plain = (
        np.count_nonzero(solved(problem, WorkingSetTuning(block_rows=128, extrapolate_after=after)).duals)
        for after in (1.0, np.inf)
    )
    assert found < 1.03 * plain


def test_threads_change_no_bit():
    problem = kernel_problem(5000, 100.0)
    one, three = (solved(problem, WorkingSetTuning(), threads, max_iter=60) for threads in (1, 3))
    assert one.iterations == 60
    assert (one.duals == three.duals).all() and one.gap == three.gap


def test_rows_whose_own_step_leads_to_zero():
    problem = kernel_problem(50, 1.0)
    Q, steps = signed_matrix(problem), in_float64(problem)
    a = np.random.default_rng(2).standard_normal(50)
    a[::5] = 0
    steps.go_to(a, problem.y * (Q @ a))
    z, h = Q @ a, np.diag(Q)
    ends = [problem.loss.evaluate("dual_argmin", z[i] - h[i] * a[i], h[i], 1.0) for i in range(50)]
    expected = [i for i in range(50) if a[i] != 0 and ends[i] == 0]
    assert expected and steps.state.strays().tolist() == expected
