"""Kernel Newton: oracles, certificates, agreement with a dense reference and with the working set."""

import numpy as np
import pytest

from odmlib.data.dataset import Dataset
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss
from odmlib.solvers.control import CONVERGED, MAX_ITER, STOPPED, TIME_LIMIT, Control
from odmlib.solvers.kernel import solve_kernel
from odmlib.solvers.kernel_newton import NotPositive, Preconditioner, fits, solve_kernel_newton
from odmlib.solvers.working_set import solve_working_set

ROOM = 1 << 28


def rings(n_rows, seed=0):
    """Two noisy rings: not linearly separable."""
    random = np.random.default_rng(seed)
    y = np.where(random.random(n_rows) < 0.5, 1.0, -1.0)
    angle = random.random(n_rows) * 2 * np.pi
    radius = np.where(y > 0, 1.0, 1.6) + 0.25 * random.standard_normal(n_rows)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def solve(X, y, C, theta=0.2, nu=0.5, gamma=1.0, tol=1e-8, **more):
    kernel = Kernel(KernelFormula("rbf", gamma=gamma), Dataset.from_any(X), 1)
    costs = np.full(len(y), C / (1 - theta) ** 2)
    control = more.pop("control", Control(tol))
    return solve_kernel_newton(
        kernel, y, costs, BandLoss(theta, nu), control, cache_bytes=ROOM, **more
    ), kernel


def objective(kernel, y, duals, C, theta, nu):
    """P(w(duals)), by definition and from the plain matrix."""
    K = kernel.block(np.arange(len(y))).astype(np.float64)
    c = y * duals
    z = y * (K @ c)
    short, over = np.maximum(0, 1 - theta - z), np.maximum(0, z - 1 - theta)
    return 0.5 * c @ K @ c + C / (1 - theta) ** 2 * np.sum(short**2 + nu * over**2)


def precomputed(gram, y, costs, theta, nu, tol=1e-17):
    kernel = Kernel(KernelFormula("precomputed"), np.array(gram, dtype=np.float64))
    return solve_kernel_newton(
        kernel, np.array(y), np.array(costs), BandLoss(theta, nu), Control(tol), cache_bytes=ROOM
    )


def test_oracle_one_row():
    # x = 1, y = +1, m = 1, theta = 0, lambda = 1: w = 2/3, P = 1/3
    result = precomputed([[1.0]], [1.0], [1.0], 0.0, 0.5)
    assert result.primal == pytest.approx(1 / 3, abs=1e-12)
    assert result.margins == pytest.approx([2 / 3], abs=1e-12)


def test_oracle_two_rows():
    # x = 1 and 3, m = 2, lambda = 1, nu = 1, theta = 0: w = 4/11, a = (7/11, -1/11)
    result = precomputed([[1.0, 3.0], [3.0, 9.0]], [1.0, 1.0], [0.5, 0.5], 0.0, 1.0)
    assert result.duals == pytest.approx([7 / 11, -1 / 11], abs=1e-8)


@pytest.mark.parametrize("C", [2.0**-5, 1.0, 32.0, 1024.0])
@pytest.mark.parametrize("nu, theta", [(0.5, 0.2), (1.0, 0.0), (0.0, 0.0), (0.0, 0.5)])
def test_certificate_and_agreement_with_the_working_set(C, nu, theta):
    X, y = rings(300)
    result, kernel = solve(X, y, C, theta, nu, tol=1e-6)
    assert result.status == CONVERGED
    assert 0 <= result.gap <= 1e-6
    assert result.primal == pytest.approx(objective(kernel, y, result.duals, C, theta, nu), rel=1e-9)
    costs = np.full(len(y), C / (1 - theta) ** 2)
    other = solve_working_set(kernel, y, costs, BandLoss(theta, nu), Control(1e-6), cache_bytes=ROOM)
    # both objectives lie within their gaps above the optimum
    assert abs(result.primal - other.primal) <= 2e-6 * max(1.0, result.primal)


def test_threads_do_not_change_a_bit():
    X, y = rings(700)
    first, _ = solve(X, y, 5.0, threads=1)
    second, _ = solve(X, y, 5.0, threads=2)
    assert first.duals.tobytes() == second.duals.tobytes()


def test_warm_start_at_the_optimum_needs_no_step():
    X, y = rings(200)
    first, _ = solve(X, y, 2.0, tol=1e-9)
    again, _ = solve(X, y, 2.0, tol=1e-6, start=first.duals)
    assert again.iterations == 0


def test_limits_and_callback():
    X, y = rings(200)
    assert solve(X, y, 100.0, control=Control(1e-12, max_iter=1))[0].status == MAX_ITER
    assert solve(X, y, 100.0, control=Control(1e-12, time_limit=1e-9))[0].status == TIME_LIMIT
    seen = []
    stopped = solve(X, y, 100.0, control=Control(1e-12, callback=lambda p: seen.append(p) or len(seen) > 1))[
        0
    ]
    assert stopped.status == STOPPED
    assert [progress.iteration for progress in seen] == [0, 1]


def test_rows_without_weight_and_twins():
    X, y = rings(100)
    X = np.concatenate([X, X[:10], X[:5]])
    y = np.concatenate([y, -y[:10], y[:5]])  # twins with opposite and with equal labels
    costs = np.full(len(y), 10.0)
    costs[-5:] = 0
    kernel = Kernel(KernelFormula("rbf"), Dataset.from_any(X), 1)
    result = solve_kernel_newton(kernel, y, costs, BandLoss(0.1, 0.3), Control(1e-8), cache_bytes=ROOM)
    assert result.status == CONVERGED
    assert not result.duals[-5:].any()


def test_indefinite_kernel_is_noticed_and_left_to_the_working_set():
    gram = np.array([[0.0, 5.0], [5.0, 0.0]])
    kernel = Kernel(KernelFormula("precomputed"), gram)
    arguments = (kernel, np.array([1.0, 1.0]), np.array([10.0, 10.0]), BandLoss(0.0, 1.0))
    with pytest.raises(NotPositive):
        solve_kernel_newton(*arguments, Control(1e-6), cache_bytes=ROOM, start=np.array([1.0, -1.0]))
    with pytest.raises(ParameterError, match="positive semidefinite"):
        solve_kernel(
            *arguments, Control(1e-6), solver="newton", cache_bytes=ROOM, start=np.array([1.0, -1.0])
        )


def test_choice_by_memory():
    X, y = rings(600)
    kernel = Kernel(KernelFormula("rbf"), Dataset.from_any(X), 1)
    arguments = (kernel, y, np.full(len(y), 1.0), BandLoss(0.2, 0.5))
    assert fits(600, 1 << 24) and not fits(600, 1 << 20)
    assert solve_kernel(*arguments, Control(1e-3), cache_bytes=1 << 24).solver == "newton"
    assert solve_kernel(*arguments, Control(1e-3), cache_bytes=1 << 20).solver == "working-set"
    with pytest.raises(ParameterError, match="cache_mb"):
        solve_kernel(*arguments, Control(1e-3), solver="newton", cache_bytes=1 << 20)


def test_preconditioner_inverts_its_own_matrix():
    X, _ = rings(120)
    kernel = Kernel(KernelFormula("rbf"), Dataset.from_any(X), 1)
    preconditioner = Preconditioner(kernel, 30, 120, seed=0)
    random = np.random.default_rng(0)
    inside = random.random(120) < 0.7
    ridge = np.where(inside, 0.1 + random.random(120), 0.0)
    preconditioner.prepare(inside, ridge)
    L = preconditioner.factor.astype(np.float64).T[inside]
    matrix = L @ L.T + np.diag(ridge[inside])
    v = np.where(inside, random.standard_normal(120), 0.0)
    expected = np.linalg.solve(matrix, v[inside])
    np.testing.assert_allclose(preconditioner.apply(v)[inside], expected, atol=1e-4)
    assert not preconditioner.apply(v)[~inside].any()
    preconditioner.grow()
    assert preconditioner.rank == 60
