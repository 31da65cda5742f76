"""Newton's method on a block of the multi-class kernel machine: its systems, and where it is needed."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import odmlib
from odmlib.data.dataset import Dataset
from odmlib.kernels.cache import RowCache
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.solvers.control import CONVERGED, MAX_ITER, STALLED, TIME_LIMIT, Control
from odmlib.solvers.linalg.dense import STEP_WIDTH, inverse_step, scratch_size
from odmlib.solvers.multiclass._block_system import NewtonSystem, solve_directly
from odmlib.solvers.multiclass._mcodm import KernelState
from odmlib.solvers.multiclass.block import BlockNewton
from odmlib.solvers.multiclass.kernel import TUNING
from odmlib.solvers.multiclass.problem import McodmProblem
from tests.real_data import real_set
from tests.solvers.multiclass.test_kernel import rbf, solve, written_out
from tests.solvers.multiclass.test_linear import problem


def state_of(kernel, labels, k, costs, frozen=False, nu=0.5):
    problem = McodmProblem(kernel, labels, k, costs, nu, 0.2, "frozen" if frozen else "majorise")
    return KernelState(problem, RowCache(kernel, 1 << 24, True), len(labels), 1, 0)


def solve_by_classes(*arguments):
    *system, right, threads = arguments
    by_class = NewtonSystem(*system, threads)
    by_class.prepare()
    assert all(by_class.eliminate(label) for label in range(system[0].n_classes))
    scratch = np.empty(scratch_size(len(by_class.couplings)))
    for first in range(0, len(by_class.couplings), STEP_WIDTH):
        assert inverse_step(by_class.couplings, first, scratch, threads)
    return by_class.solve(right)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("method", [solve_directly, solve_by_classes])
def test_newton_system_is_the_derivative(frozen, method):
    """d = r - w solves d + J K d = r, J by differences of the rows' steps, which are piecewise linear."""
    X, labels = problem(3, m=90, k=5)
    random = np.random.default_rng(1)
    kernel = Kernel(KernelFormula("rbf", 0.3), Dataset.from_any(X))
    state = state_of(kernel, labels, 5, random.uniform(0.5, 5, 90), frozen)
    state.references[:] = random.normal(size=90)
    state.open_block(np.arange(90))
    K, t = rbf(X), 0.3
    shape = (90, state.padded)
    f, center, residual = (np.zeros(shape) for _ in range(3))
    for matrix, width in ((f, 2.0), (center, 0.3), (residual, 1.0)):
        matrix[:, :5] = width * random.normal(size=(90, 5))
    center[:9] = 0
    f[np.arange(9), labels[:9]] = -np.inf
    f[np.arange(9), labels[:9]] = f[:9, :5].max(axis=1) + 1  # in the middle of the band
    state.others[:9] = np.where(np.eye(5)[labels[:9]] > 0, -np.inf, f[:9, :5]).argmax(axis=1)
    state.references[:9] = f[np.arange(9), labels[:9]] - 1
    zeta, v, beta = np.zeros(shape), np.zeros(shape), np.zeros(90)
    state.proximal_block(t, f, center, zeta, beta, v)
    active = (zeta > 0).any(axis=1)
    kinds = {(bool(a), bool(b)) for a, b in zip(active, beta > 0, strict=True)}
    assert len(kinds) == 4  # rows of every kind: below the band, above it, both, neither
    np.testing.assert_allclose(state.block_times(residual)[:, :5], K @ residual[:, :5], atol=1e-10)
    w = method(state, K, t, zeta, beta, state.block_times(residual), 1)
    direction = residual - w
    change, step = np.zeros(shape), 1e-7
    change[:, :5] = K @ direction[:, :5]
    zeta_there, v_there, beta_there = np.zeros(shape), np.zeros(shape), np.zeros(90)
    state.proximal_block(t, f + step * change, center, zeta_there, beta_there, v_there)
    assert ((zeta > 0) == (zeta_there > 0)).all() and ((beta > 0) == (beta_there > 0)).all()
    np.testing.assert_allclose(direction - (v_there - v) / step, residual, atol=2e-5)


def impatient(**block):
    """Newton's method almost from the start."""
    block = dataclasses.replace(TUNING.block, **block)
    return dataclasses.replace(TUNING, judged_blocks=1, patience=0.0, block=block)


@pytest.mark.parametrize("small", [0.0, np.inf])
@pytest.mark.parametrize("relaxation", ["majorise", "frozen"])
def test_large_costs(small, relaxation):
    """Newton's method almost from the start; its systems solved directly or class by class."""
    tuning = impatient(small_cost=small, class_factor=1e-6)
    X, labels = problem(20, m=300, k=5)
    costs = np.full(300, 3000.0)
    control = Control(tol=1e-6, max_iter=60)
    result = solve(
        X, labels, 5, costs, relaxation=relaxation, control=control, cache_bytes=1 << 22, tuning=tuning
    )
    J, margins = written_out(rbf(X), labels, costs, 0.5, result.duals)
    assert result.details["newton_steps"] > 10
    assert result.details["objective"] == pytest.approx(J, rel=2e-3)
    np.testing.assert_allclose(result.margins, margins, atol=1e-3)
    if relaxation == "majorise":
        assert result.status == CONVERGED and result.gap <= 1e-6
        np.testing.assert_allclose(result.duals.sum(axis=1), 0, atol=1e-6)


def test_threads_change_no_bit():
    tuning = impatient(class_factor=0.01)
    X, labels = problem(22, m=300, k=4)
    costs = np.full(300, 1000.0)
    one, three = (solve(X, labels, 4, costs, threads=n, tuning=tuning) for n in (1, 3))
    assert one.details["newton_steps"] > 10
    assert one.duals.tobytes() == three.duals.tobytes()


@pytest.mark.parametrize("formula", [KernelFormula("rbf", 0.3), KernelFormula("sigmoid", 0.5, coef0=-1.0)])
def test_dual_never_falls(formula):
    """Block after block, with a kernel that is not positive definite, too."""
    X, labels = problem(25, m=250, k=4)
    kernel = Kernel(formula, Dataset.from_any(X))
    state = state_of(kernel, labels, 4, np.full(250, 500.0), nu=0.0)
    newton = BlockNewton(state, Control(), 1)
    rows = state.movable()
    random = np.random.default_rng(2)
    values, moved = [], 0
    for _ in range(8):
        state.open_block(np.sort(random.permutation(rows)[:150]))
        moved += newton.improve(0.0)
        state.close_block()
        _, relaxed, gap, _ = state.measure()
        values.append(relaxed - gap)
    assert moved > 0 or formula.name == "sigmoid"
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(values))
    K = RowCache(kernel, 1 << 24, True).rows(np.arange(250))
    scale = np.abs(state.scores).max()
    np.testing.assert_allclose(state.scores, state.duals().T @ K, atol=1e-9 * scale)


def test_sigmoid_ends_in_a_known_state():
    """Training shifts an indefinite kernel; the solver alone runs out of numbers, and says so."""
    X, labels = problem(26, m=200, k=3)
    model = odmlib.train(X, labels, machine="mcodm", kernel="sigmoid", gamma=0.5, coef0=-1, C=1000)
    assert model.report["status"] == CONVERGED and model.report["gap"] <= 1e-3
    formula = KernelFormula("sigmoid", 0.5, coef0=-1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        result = solve(X, labels, 3, np.full(200, 1000.0), formula, Control(tol=1e-6, max_iter=2000))
    assert result.status in (STALLED, MAX_ITER)


def test_time_limit_inside_a_block():
    X, labels = problem(27, m=900, k=6, spread=0.5)
    result = solve(X, labels, 6, np.full(900, 1000.0), control=Control(tol=1e-9, time_limit=0.3))
    assert result.status == TIME_LIMIT
    assert written_out(rbf(X), labels, np.full(900, 1000.0), 0.5, result.duals)[0] == pytest.approx(
        result.details["objective"], rel=0.05
    )


@pytest.mark.parametrize("gamma", [0.1, 1.0])
def test_vowel_at_large_C(gamma):
    X, y = real_set("vowel.scale")
    model = odmlib.train(X, y, machine="mcodm", kernel="rbf", gamma=gamma, C=1024)
    assert model.report["status"] == CONVERGED and model.report["gap"] <= 1e-3
    assert model.report["iterations"] < 100
