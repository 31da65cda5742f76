"""The bounds of mcODM hold in rational arithmetic, without slack: for any weights, multipliers and q."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.kernels.cache import RowCache
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.solvers.control import CONVERGED, STALLED, Control, Resources
from odmlib.solvers.kernel.precision import score_errors
from odmlib.solvers.multiclass._mcodm import KernelState, LinearState
from odmlib.solvers.multiclass.certificate import of_scores, of_weights
from odmlib.solvers.multiclass.kernel import solve_mcodm_kernel
from odmlib.solvers.multiclass.linear import solve_mcodm_linear
from odmlib.solvers.multiclass.problem import McodmProblem
from tests.reference_exact import Numbers, exact, inner

ZERO = Fraction(0)
Matrix = list[Numbers]


def matrix(values) -> Matrix:
    return [exact(row) for row in values]


def product(a: Matrix, b: Matrix) -> Matrix:
    """a b"""
    columns = [list(column) for column in zip(*b, strict=True)]
    return [[inner(row, column) for column in columns] for row in a]


def exact_losses(problem, scores: Matrix, others, references, frozen) -> tuple[Fraction, Fraction]:
    """(losses of J, losses of Q)"""
    theta, nu = Fraction(problem.theta), Fraction(problem.nu)
    own = relaxed = ZERO
    for i, f in enumerate(scores):
        y, cost = problem.labels[i], Fraction(problem.costs[i])
        best = max(f[label] for label in range(len(f)) if label != y)
        below = max(ZERO, 1 - theta - f[y] + best) ** 2
        f_q = Fraction(references[i]) if frozen else f[others[i]]
        own += cost * (below + nu * max(ZERO, f[y] - best - 1 - theta) ** 2)
        relaxed += cost * (below + nu * max(ZERO, f[y] - f_q - 1 - theta) ** 2)
    return own, relaxed


def exact_duals(problem, zeta, beta, others, references, frozen) -> tuple[Matrix, Fraction]:
    """v (rows x classes), and the dual value without -1/2 |sum_i x_i v_i'|^2"""
    theta, nu = Fraction(problem.theta), Fraction(problem.nu)
    duals, value = [], ZERO
    for i, y in enumerate(problem.labels):
        z, b = exact(zeta[i][: problem.n_classes]), Fraction(float(beta[i]))
        v, total = [-x for x in z], sum(z, ZERO)
        v[y] += total - b
        if not frozen:
            v[others[i]] += b
        duals.append(v)
        if problem.costs[i] == 0:
            assert total == b == 0
            continue
        h = 1 / (2 * Fraction(problem.costs[i]))
        reference = Fraction(references[i]) if frozen else ZERO
        value += (1 - theta) * total - h * total**2 / 2 - (1 + theta + reference) * b
        value -= h * b**2 / (2 * nu) if b else ZERO
    return duals, value


def square(a: Matrix) -> Fraction:
    return sum((inner(row, row) for row in a), ZERO)


def random_problem(rng, relaxation="majorise", nu=None):
    m, k = int(rng.integers(2, 12)), int(rng.integers(2, 6))
    X = rng.standard_normal((m, int(rng.integers(1, 5)))) * 10 ** rng.uniform(-3, 3)
    X[rng.random(X.shape) < 0.2] = 0
    costs = 10 ** rng.uniform(-4, 4, m)
    costs[rng.random(m) < 0.1] = 0
    nu = float(rng.choice([0.25, 0.5, 1.0])) if nu is None else nu
    theta = float(rng.choice([0.0, 0.2, 0.5]))
    bias = float(rng.choice([0.0, 1.0, 0.3]))
    rows = Rows(Dataset.from_any(X), bias)
    whole = np.column_stack([X, np.full(m, bias)]) if bias else X
    return McodmProblem(rows, rng.integers(0, k, m), k, costs, nu, theta, relaxation), whole


def random_multipliers(rng, problem):
    """Some of zeta, beta and q; one side of a row's multipliers is nearly always 0."""
    m, k = problem.data.n_rows, problem.n_classes
    zeta = np.where(rng.random((m, k)) < 0.5, 10 ** rng.uniform(-6, 2, (m, k)), 0.0)
    zeta[np.arange(m), problem.labels] = 0
    beta = np.where(rng.random(m) < 0.4, 10 ** rng.uniform(-6, 2, m), 0.0)
    still = problem.costs == 0
    if isinstance(problem.data, Rows):
        still |= problem.data.squared_norms() == 0
    zeta[still], beta[still] = 0, 0
    others = np.array([rng.choice([label for label in range(k) if label != y]) for y in problem.labels])
    return zeta, beta, others.astype(np.int32), rng.standard_normal(m)


@pytest.mark.parametrize("relaxation", ["majorise", "frozen"])
@pytest.mark.parametrize("how", ["made of the multipliers", "close to them", "anything"])
def test_bounds_of_weights_hold_exactly(relaxation, how):
    rng = np.random.default_rng(1)
    for _ in range(60):
        problem, whole = random_problem(rng, relaxation)
        state = LinearState(problem, 0)
        k = problem.n_classes
        zeta, beta, others, references = random_multipliers(rng, problem)
        state.return_to((zeta, beta, others, references))
        state.rebuild()
        made = state.weights.copy()
        if how != "made of the multipliers":
            size = 1e-9 if how == "close to them" else 1.0
            state.weights[:, :k] += size * np.abs(made).max() * rng.standard_normal(made[:, :k].shape)
        away = state.weights - made
        distance = 0.5 * float((away**2).sum())
        frozen = problem.frozen
        w = matrix(state.weights[:, :k])
        own, relaxed = exact_losses(problem, product(matrix(whole), w), others, references, frozen)
        v, value = exact_duals(problem, zeta, beta, others, references, frozen)
        dual = value - square(product([list(c) for c in zip(*matrix(whole), strict=True)], v)) / 2
        # empty rows have the best multipliers by definition
        for i in np.flatnonzero((whole == 0).all(axis=1)):
            dual += Fraction(problem.costs[i]) * (1 - Fraction(problem.theta)) ** 2
            if frozen:
                above = max(ZERO, -Fraction(references[i]) - 1 - Fraction(problem.theta))
                dual += Fraction(problem.costs[i]) * Fraction(problem.nu) * above**2
        half = square(w) / 2
        for fine in (False, True):
            measured = state.measure(1, None, state.score_errors(fine))
            found = of_weights(state, measured, distance)
            assert half + own <= Fraction(found.objective)
            assert half + relaxed <= Fraction(found.relaxed)
            assert Fraction(found.relaxed) - Fraction(found.gap) <= max(dual, ZERO)
            # and are no wider than rounding is
            wider = max(found.relaxed - measured[1], found.gap - measured[2] - distance)
            assert wider <= 1e-8 * (measured[1] + abs(float(dual)) + abs(measured[2]))


def test_bounds_of_scores_hold_exactly():
    rng = np.random.default_rng(2)
    for _ in range(60):
        linear, whole = random_problem(rng)
        whole = np.rint(8 * whole / np.abs(whole).max())  # products without rounding
        kernel = Kernel(KernelFormula("precomputed"), whole @ whole.T)
        problem = McodmProblem(kernel, linear.labels, linear.n_classes, linear.costs, linear.nu, linear.theta)
        state = KernelState(problem, RowCache(kernel, 1 << 20, True), 8, 1, 0)
        zeta, beta, others, references = random_multipliers(rng, problem)
        state.return_to((zeta, beta, others, references))
        v, value = exact_duals(problem, zeta, beta, others, references, False)
        K = matrix(whole @ whole.T)
        scores = product(K, v)
        duals = state.duals()
        state.scores[:] = (whole @ whole.T @ duals).T
        errors = score_errors(kernel, duals, True)
        found = of_scores(state, state.measure(1, None, errors.max(axis=1)), duals, errors)
        half = sum((inner(a, b) for a, b in zip(v, scores, strict=True)), ZERO) / 2
        own, relaxed = exact_losses(problem, scores, others, references, False)
        dual = value - half
        for i in np.flatnonzero((whole == 0).all(axis=1)):  # these have the best multipliers by definition
            old = exact_duals(
                McodmProblem(
                    kernel, problem.labels[i : i + 1], problem.n_classes, problem.costs[i : i + 1],
                    problem.nu, problem.theta,
                ),
                zeta[i : i + 1], beta[i : i + 1], others[i : i + 1], references[i : i + 1], False,
            )[1]  # fmt: skip
            dual += Fraction(problem.costs[i]) * (1 - Fraction(problem.theta)) ** 2 - old
        assert half + own <= Fraction(found.objective)
        assert half + relaxed <= Fraction(found.relaxed)
        assert Fraction(found.relaxed) - Fraction(found.gap) <= max(dual, ZERO)


@pytest.mark.parametrize("solver", ["auto", "dcd", "newton"])
@pytest.mark.parametrize("tol", [1e-3, 1e-10, 1e-16])
@pytest.mark.parametrize("max_iter", [None, 2])
def test_linear_results_enclose_the_minimum(solver, tol, max_iter):
    """With nu = 0 the problem is convex: the dual value lies below every objective."""
    rng = np.random.default_rng(3)
    n_converged = 0
    for _ in range(10):
        problem, whole = random_problem(rng, nu=0.0)
        resources = Resources()
        found = solve_mcodm_linear(problem, Control(tol, max_iter), resources, solver=solver)
        best = solve_mcodm_linear(problem, Control(1e-14), resources, solver="newton")
        objectives = []
        for weights in (found.weights, best.weights):
            w = matrix(weights)
            own, _ = exact_losses(problem, product(matrix(whole), w), problem.labels, [], False)
            objectives.append(square(w) / 2 + own)
        assert objectives[0] <= Fraction(found.primal)
        assert Fraction(found.dual) <= min(objectives)
        if found.status == CONVERGED:
            n_converged += 1
            assert found.gap <= tol
        else:
            # ascent is slow where lengths of rows or costs differ much
            assert max_iter or tol < 1e-9 or solver == "dcd", found.status
    assert n_converged or max_iter or tol < 1e-9


@pytest.mark.parametrize("tol", [1e-3, 1e-10, 1e-16])
@pytest.mark.parametrize("max_iter", [None, 1])
def test_kernel_results_enclose_the_minimum(tol, max_iter):
    rng = np.random.default_rng(4)
    for _ in range(10):
        linear, whole = random_problem(rng, nu=0.0)
        whole = np.rint(8 * whole / np.abs(whole).max())
        kernel = Kernel(KernelFormula("precomputed"), whole @ whole.T)
        problem = McodmProblem(kernel, linear.labels, linear.n_classes, linear.costs, 0.0, linear.theta)
        resources = Resources(cache_bytes=1 << 20)
        found = solve_mcodm_kernel(problem, Control(tol, max_iter), resources)
        best = solve_mcodm_kernel(problem, Control(1e-14), resources)
        objectives = []
        for duals in (found.duals, best.duals):
            v = matrix(duals)
            scores = product(matrix(whole @ whole.T), v)
            own, _ = exact_losses(problem, scores, problem.labels, [], False)
            half = sum((inner(a, b) for a, b in zip(v, scores, strict=True)), ZERO) / 2
            objectives.append(half + own)
        assert objectives[0] <= Fraction(found.primal)
        assert Fraction(found.dual) <= min(objectives)
        assert found.status != CONVERGED or found.gap <= tol
        assert max_iter or found.status in (CONVERGED, STALLED)
