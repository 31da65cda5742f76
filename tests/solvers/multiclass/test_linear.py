"""Linear multi-class ODM: exact problems, certificates and invariants."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.losses.loss import BandLoss
from odmlib.solvers.control import CONVERGED, MAX_ITER, STOPPED, TIME_LIMIT, Control, Resources, WarmStart
from odmlib.solvers.linear.newton import solve_newton
from odmlib.solvers.multiclass._mcodm import LinearState
from odmlib.solvers.multiclass.linear import TUNING, CheckPlan, solve_mcodm_linear
from odmlib.solvers.multiclass.problem import McodmProblem
from odmlib.solvers.problem import LinearProblem
from tests.reference_mcodm import objective, relaxed_values

SOLVERS = ("dcd", "newton", "auto")


def solve(
    X,
    labels,
    k,
    lambda_=1.0,
    mu=0.5,
    theta=0.2,
    bias=0.0,
    weights=None,
    control=None,
    relaxation="majorise",
    threads=1,
    seed=0,
    start=None,
    tuning=TUNING,
    **options,
):
    X = np.asarray(X, dtype=float)
    m = len(labels)
    weights = np.ones(m) if weights is None else np.asarray(weights, dtype=float)
    costs = lambda_ * weights / (m * (1 - theta) ** 2)
    problem = McodmProblem(
        Rows(Dataset.from_any(X), bias), np.asarray(labels), k, costs, mu, theta, relaxation
    )
    resources = Resources(threads, seed=seed)
    known = None if start is None else WarmStart(weights=start)
    return solve_mcodm_linear(problem, control or Control(tol=1e-10), resources, known, tuning, **options)


def state_of(X, labels, costs, k, nu=0.5, theta=0.2, frozen=False, bias=0.0, seed=0):
    rows, relaxation = Rows(Dataset.from_any(X), bias), "frozen" if frozen else "majorise"
    return LinearState(McodmProblem(rows, np.asarray(labels), k, costs, nu, theta, relaxation), seed)


def problem(seed=0, m=60, d=5, k=4, spread=1.5):
    random = np.random.default_rng(seed)
    centres = random.normal(size=(k, d)) * spread
    labels = np.r_[np.arange(k), random.integers(k, size=m - k)]
    return centres[labels] + random.normal(size=(m, d)), labels


# ---------------------------------------------------------------- oracles


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("x", "k", "lambda_", "weights", "J"),
    [
        ([1], 2, 1, [0.4, -0.4], 0.2),
        ([1], 3, 1, [0.5, -0.25, -0.25], 0.25),
        ([1, 3], 2, 2, [8 / 41, -8 / 41], 18 / 41),
        ([1, 3], 3, 2, [8 / 31, -4 / 31, -4 / 31], 14 / 31),
    ],
)
def test_exact_problems(solver, x, k, lambda_, weights, J):
    X = np.array(x, dtype=float)[:, None]
    result = solve(X, [0] * len(x), k, lambda_, mu=1.0, theta=0.0, solver=solver, control=Control(tol=1e-12))
    assert result.status == CONVERGED and result.gap <= 1e-12
    # 1/2 |w - w*|^2 <= gap
    np.testing.assert_allclose(result.weights, [weights], atol=2e-6)
    assert result.details["objective"] == pytest.approx(J, rel=1e-11)
    assert result.primal == pytest.approx(J, rel=1e-11)


@pytest.mark.parametrize("solver", SOLVERS)
def test_frozen_fixed_point(solver):
    X = np.array([[1.0], [3.0]])
    options = {"k": 2, "lambda_": 2, "mu": 1.0, "theta": 0.0, "relaxation": "frozen", "solver": solver}
    result = solve(X, [0, 0], control=Control(tol=1e-11), **options)
    assert result.status == CONVERGED
    np.testing.assert_allclose(result.weights, [[-16 / 23, -26 / 23]], atol=1e-5)
    assert result.details["objective"] == pytest.approx(684 / 529, rel=1e-5)


def test_first_frozen_problem():
    X = np.array([[1.0], [3.0]])
    state = state_of(X, [0, 0], [1.0, 1.0], 2, 1.0, 0.0, True)
    for _ in range(400):
        state.begin_epoch()
        assert state.advance(10**9, True, False)
    np.testing.assert_allclose(state.weights[:, :2], [[20 / 59, -26 / 59]], rtol=1e-9)
    assert state.beta[1] == pytest.approx(2 / 59, rel=1e-8)
    assert state.measure()[0] == pytest.approx(1.9959781672, rel=1e-9)


# ---------------------------------------------------------------- certificates


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("relaxation", ["majorise", "frozen"])
@pytest.mark.parametrize("mu", [0.0, 0.4, 1.0])
def test_report_is_true(solver, relaxation, mu):
    """J and the margins as numpy computes them from the weights; the gap as promised."""
    X, labels = problem()
    # `frozen` need not come to rest
    limit = None if relaxation == "majorise" else 2000
    control = Control(tol=1e-6, max_iter=limit)
    result = solve(X, labels, 4, 50.0, mu, bias=1.0, solver=solver, relaxation=relaxation, control=control)
    if relaxation == "majorise" or mu == 0:
        assert result.status == CONVERGED and 0 <= result.gap <= 1e-6
    costs = np.full(60, 50.0 / (60 * 0.64))
    J, margins = objective(np.c_[X, np.ones(60)], labels, costs, mu, 0.2, result.weights)
    assert result.details["objective"] == pytest.approx(J, rel=1e-10)
    np.testing.assert_allclose(result.margins, margins, atol=1e-9)
    assert result.primal - result.dual == pytest.approx(
        result.gap * max(1, result.primal), rel=1e-6, abs=1e-12
    )
    if relaxation == "majorise":
        assert result.primal >= J * (1 - 1e-12)
        if result.details["misplaced"] == 0:
            assert result.primal == pytest.approx(J, rel=1e-10)


@pytest.mark.parametrize("frozen", [False, True])
def test_certificate_of_a_state(frozen):
    """Gap on all rows against primal and dual written out; invariants after every epoch; D never falls."""
    X, labels = problem(1, m=40, k=5)
    costs = np.random.default_rng(2).uniform(0.1, 5, 40)
    state = state_of(X, labels, costs, 5, frozen=frozen, seed=3)
    if frozen:
        state.references[:] = np.linspace(-1, 1, 40)
    before = -np.inf
    for _ in range(12):
        state.begin_epoch()
        assert state.advance(10**9)
        J, primal, gap, _ = state.measure()
        zeta, beta, _ = state.multipliers()
        zeta = np.ascontiguousarray(zeta[:, :5])
        assert (zeta >= 0).all() and (beta >= 0).all() and not zeta[np.arange(40), labels].any()
        others = None if frozen else state.others
        w, expected_primal, expected_dual = relaxed_values(
            X, labels, costs, 0.5, 0.2, zeta, beta, others, state.references if frozen else None
        )
        np.testing.assert_allclose(state.weights[:, :5], w, atol=1e-11)
        assert primal == pytest.approx(expected_primal, rel=1e-11)
        assert gap == pytest.approx(expected_primal - expected_dual, rel=1e-9, abs=1e-9)
        assert expected_dual >= before - 1e-11 * abs(before)
        before = expected_dual
        if not frozen:
            assert primal >= J * (1 - 1e-12)
            np.testing.assert_allclose(state.weights.sum(axis=1), 0, atol=1e-11)
            assert not (zeta[np.arange(40), others] * beta).any()
    assert not state.weights[:, 5:].any()
    drifted = state.weights.copy()
    state.rebuild()
    np.testing.assert_allclose(state.weights, drifted, atol=1e-12)
    if not frozen:  # a moved beta keeps w the sum of its rows
        state.measure()
        state.reassign()
        moved = state.weights.copy()
        state.rebuild()
        np.testing.assert_allclose(state.weights, moved, atol=1e-12)


def test_a_visited_row_has_no_violation():
    X, labels = problem(3, m=1, k=1)
    state = state_of(X, labels, [2.0], 6)
    state.begin_epoch()
    state.advance(10**9)
    moved = state.weights.copy()
    assert np.abs(moved).max() > 0.01
    state.begin_epoch()
    state.advance(10**9)
    assert state.visits == 2
    np.testing.assert_allclose(state.weights, moved, atol=1e-13)


def test_rows_take_a_new_label_when_they_are_visited():
    X, labels = problem(21, m=200, k=6, spread=4)
    state = state_of(X, labels, np.full(200, 5.0), 6)
    for _ in range(8):
        state.begin_epoch()
        state.advance(10**9)
    state.measure()
    before, weights = state.others.copy(), state.weights.copy()
    state.reassign()
    moving = state.wanted != state.others
    assert moving.any() and (state.beta[moving] > 0).all()
    assert np.array_equal(state.weights, weights) and (before != state.wanted).sum() >= moving.sum()
    state.begin_epoch()
    state.advance(10**9)
    assert np.array_equal(state.others, state.wanted)
    weights = state.weights.copy()
    state.rebuild()
    np.testing.assert_allclose(weights, state.weights, rtol=1e-10, atol=1e-10)


def test_objective_falls_from_label_to_label():
    """J_new <= J_old + gap_new for every q."""
    X, labels = problem(4, m=80, k=6, spread=3)
    state = state_of(X, labels, np.full(80, 20.0), 6, nu=0.8, bias=1.0)
    values = []
    for _ in range(6):
        for _ in range(40):
            state.begin_epoch()
            state.advance(10**9)
        J, _, gap, misplaced = state.measure()
        values.append((J, gap, misplaced))
        state.reassign()
    assert values[0][2] > 0
    for (old, _, _), (new, gap, _) in itertools.pairwise(values):
        assert new <= old + gap + 1e-12 * old


# ---------------------------------------------------------------- invariants


@pytest.mark.parametrize("solver", ["dcd", "newton"])
def test_two_classes_are_binary_odm(solver):
    """J_mc(lambda) = 1/2 J_binary(2 lambda), w_0 - w_1 = u."""
    X, labels = problem(5, k=2)
    result = solve(X, labels, 2, 30.0, 0.4, 0.1, bias=1.0, solver=solver)
    costs = np.full(60, 2 * 30.0 / (60 * 0.81))
    y = np.where(labels == 0, 1.0, -1.0)
    problem_ = LinearProblem(Rows(Dataset.from_any(X), 1.0), y, costs, BandLoss(0.1, 0.4))
    binary = solve_newton(problem_, Control(tol=1e-12), Resources())
    assert result.status == CONVERGED
    assert 2 * result.details["objective"] == pytest.approx(binary.primal, rel=1e-9)
    np.testing.assert_allclose(result.weights[:, 0], binary.weights / 2, atol=1e-4)
    np.testing.assert_allclose(result.weights[:, 1], -binary.weights / 2, atol=1e-4)


@pytest.mark.parametrize("solver", ["dcd", "newton"])
def test_weight_two_is_a_duplicate(solver):
    X, labels = problem(6)
    weights = np.ones(60)
    weights[[3, 17]] = 2
    doubled = np.r_[np.arange(60), 3, 17]
    a = solve(X, labels, 4, 20.0, mu=0.0, weights=weights, solver=solver)
    b = solve(X[doubled], labels[doubled], 4, 20.0 * 62 / 60, mu=0.0, solver=solver)
    assert a.primal == pytest.approx(b.primal, rel=1e-8)
    np.testing.assert_allclose(a.weights, b.weights, atol=1e-4)


@pytest.mark.parametrize("solver", ["dcd", "newton"])
def test_rows_that_move_nothing(solver):
    """Rows of weight 0 and empty rows: finite values, and the other rows' solution (mu = 0: it is unique)."""
    X, labels = problem(7)
    longer = np.r_[X, X[:3] * 5, np.zeros((2, 5))]
    more = np.r_[labels, 1, 2, 3, 0, 1]
    weights = np.r_[np.ones(60), np.zeros(3), np.ones(2)]
    a = solve(X, labels, 4, 20.0, mu=0.0, solver=solver)
    b = solve(longer, more, 4, 20.0 * 65 / 60, mu=0.0, weights=weights, solver=solver)
    assert b.status == CONVERGED
    np.testing.assert_allclose(a.weights, b.weights, atol=1e-4)
    # an empty row has margin 0 and so loss c (1 - theta)^2, whatever w is
    assert b.primal - a.primal == pytest.approx(2 * 20.0 / 60, rel=1e-6)


def test_scaling_law():
    X, labels = problem(8)
    a = solve(3 * X, labels, 4, 10.0)
    b = solve(X, labels, 4, 90.0)
    assert b.primal == pytest.approx(9 * a.primal, rel=1e-8)
    np.testing.assert_allclose(b.weights, 3 * a.weights, atol=1e-3)


@pytest.mark.parametrize("solver", ["dcd", "newton"])
def test_order_of_rows_and_classes(solver):
    """nu = 0: one convex problem, so the minimiser is unique."""
    X, labels = problem(9)
    random = np.random.default_rng(0)
    rows, classes = random.permutation(60), random.permutation(4)
    a = solve(X, labels, 4, 40.0, mu=0.0, solver=solver)
    b = solve(X[rows], classes[labels[rows]], 4, 40.0, mu=0.0, solver=solver, seed=5)
    bound = np.sqrt(2 * (a.primal - a.dual)) + np.sqrt(2 * (b.primal - b.dual))
    assert np.linalg.norm(b.weights[:, classes] - a.weights) <= bound + 1e-12


def test_solvers_meet_on_one_convex_problem():
    X, labels = problem(10, m=120, k=7)
    results = [
        solve(X, labels, 7, 100.0, mu=0.0, bias=1.0, solver=solver, control=Control(tol=1e-7))
        for solver in SOLVERS
    ]
    for result in results:
        assert result.status == CONVERGED
        assert result.primal == pytest.approx(results[0].primal, rel=1e-6)


@pytest.mark.parametrize("k", [2, 3, 4, 5, 12, 25, 50, 70])
def test_every_width_of_stripes(k):
    """Padding, register groups and the scatter of few changes; rows sparse and full."""
    X, labels = problem(11, m=150, d=30, k=k)
    X[np.random.default_rng(1).random(X.shape) < 0.6] = 0
    result = solve(X, labels, k, 30.0, bias=0.5, solver="dcd", control=Control(tol=1e-5))
    assert result.status == CONVERGED
    costs = np.full(150, 30.0 / (150 * 0.64))
    J, _ = objective(np.c_[X, np.full(150, 0.5)], labels, costs, 0.5, 0.2, result.weights)
    assert result.details["objective"] == pytest.approx(J, rel=1e-10)


@pytest.mark.parametrize("solver", SOLVERS)
def test_threads_change_nothing(solver):
    X, labels = problem(12, m=1500, d=40, k=5)
    results = [
        solve(X, labels, 5, 100.0, bias=1.0, solver=solver, threads=threads, control=Control(tol=1e-3))
        for threads in (1, 3)
    ]
    assert results[0].weights.tobytes() == results[1].weights.tobytes()


def test_memory_follows_the_active_multipliers():
    X, labels = problem(13, m=2000, d=30, k=200, spread=4)
    result = solve(X, labels, 200, 200.0, bias=1.0, solver="dcd", control=Control(tol=1e-2))
    assert result.details["active_multipliers"] < 20 * 2000
    assert result.details["multiplier_bytes"] < 0.5 * 8 * 2000 * 200


# ---------------------------------------------------------------- large C, and the ends of a run


@pytest.mark.parametrize("lambda_", [2.0**14, 2.0**20])
def test_large_lambda_converges(lambda_):
    """Coordinate ascent alone would not end here."""
    X, labels = problem(14, m=120, d=6, k=5, spread=2)
    result = solve(X * 3, labels, 5, lambda_, 0.4, 0.4, bias=1.0, control=Control(tol=1e-6))
    assert result.status == CONVERGED and result.gap <= 1e-6
    assert result.solver == "newton"


@pytest.mark.parametrize("m", [1, 15, 16, 37])
def test_an_epoch_visits_every_row_once(m):
    """Rows come by blocks of neighbours; of rows that share no column each visit leaves a multiplier."""
    state = state_of(np.eye(m), np.arange(m) % 3, np.ones(m), 3)
    state.begin_epoch()
    assert state.advance(10**9)
    assert state.visits == m
    assert (state.multipliers()[0].sum(axis=1) > 0).all()


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_visits_that_look_at_listed_classes(frozen, bias):
    """w is made of the multipliers, D never falls and the gap is true, whatever the visits look at."""
    X, labels = problem(20, m=300, d=6, k=80)
    state = state_of(X, labels, np.full(300, 0.1), 80, frozen=frozen, bias=bias)
    state.list_classes()
    dual = -np.inf
    for epoch in range(60):
        state.begin_epoch()
        assert state.advance(10**9, True, False)
        before = state.weights.copy()
        state.rebuild()
        np.testing.assert_allclose(state.weights, before, atol=1e-10)
        if epoch % 6 == 5:  # lists are made anew here
            _, relaxed, gap, _ = state.measure()
            assert gap >= 0 and relaxed - gap >= dual - 1e-9
            dual = relaxed - gap
            if epoch == 5:
                first = gap / relaxed
    assert gap / relaxed < 0.1 * first
    columns = np.c_[X, np.full(300, bias)][:, : state.n_columns]
    zeta, beta, v = state.multipliers()
    expected = -zeta
    expected[np.arange(300), labels] -= expected.sum(axis=1) + beta
    if not frozen:
        expected[np.arange(300), state.others] += beta
    np.testing.assert_allclose(v, expected, atol=1e-12)
    np.testing.assert_allclose(state.weights[:, :80], columns.T @ v[:, :80], atol=1e-10)


def test_label_shrinking_changes_no_solution():
    X, labels = problem(21, m=400, d=8, k=100)
    options = {"lambda_": 40.0, "mu": 0.0, "solver": "dcd", "control": Control(tol=1e-7)}
    listed, all_classes = (
        solve(X, labels, 100, shrinking=shrinking, **options) for shrinking in (True, False)
    )
    assert listed.status == all_classes.status == CONVERGED
    assert listed.details["objective"] == pytest.approx(all_classes.details["objective"], rel=1e-6)
    np.testing.assert_allclose(listed.weights, all_classes.weights, atol=1e-2)
    upper = solve(X, labels, 100, **options | {"mu": 0.5})  # a local minimum, certified
    assert upper.status == CONVERGED and upper.gap <= 1e-7


def test_a_start_that_is_worse_than_none():
    """Weights of a small C ask for multipliers at a large C whose sum throws w far off."""
    X, labels = problem(22, m=600, d=120, k=20)
    control = Control(tol=1e-3)
    first = solve(X, labels, 20, lambda_=1e2, bias=1.0, control=control)
    cold, warm = (
        solve(X, labels, 20, lambda_=1e5, bias=1.0, control=control, start=start, solver="dcd")
        for start in (None, first.weights)
    )
    assert warm.status == CONVERGED
    assert warm.iterations <= 2 * cold.iterations


def test_certificates_are_planned_where_the_gap_would_be_small():
    checks = CheckPlan()
    checks.restart(10.0)
    assert checks.next == 11.0
    checks.plan(11.0, 0.1, 0.001)
    assert checks.next == 13.0  # nothing to go by yet
    checks.plan(13.0, 0.01, 0.001)
    assert checks.next == pytest.approx(15.0)  # a factor of ten in two visits
    checks.plan(15.0, 0.009, 0.001)
    assert checks.next == 21.0  # far away: look in between all the same
    checks.plan(21.0, 0.02, 0.001)
    assert checks.next == 23.0  # it rose
    checks.plan(23.0, 0.00101, 0.001)
    assert 23.0 < checks.next < 24.0


@pytest.mark.parametrize("solver", ["dcd", "newton"])
def test_limits_give_the_best_point_with_its_certificate(solver):
    X, labels = problem(16)
    result = solve(X, labels, 4, 1e5, solver=solver, control=Control(tol=1e-12, max_iter=6))
    assert result.status == MAX_ITER and result.iterations == 6 and result.gap > 1e-12
    costs = np.full(60, 1e5 / (60 * 0.64))
    J, margins = objective(X, labels, costs, 0.5, 0.2, result.weights)
    assert result.details["objective"] == pytest.approx(J, rel=1e-9)
    np.testing.assert_allclose(result.margins, margins, atol=1e-8)
    stopped = solve(X, labels, 4, 1e5, solver=solver, control=Control(tol=1e-12, callback=lambda p: True))
    assert stopped.status == STOPPED
    late = solve(X, labels, 4, 1e5, solver=solver, control=Control(tol=1e-12, time_limit=1e-9))
    assert late.status == TIME_LIMIT and np.isfinite(late.primal)


def test_start_from_known_weights():
    X, labels = problem(17)
    cold = solve(X, labels, 4, 5000.0, bias=1.0, solver="newton", control=Control(tol=1e-6))
    warm = solve(X, labels, 4, 5000.0, bias=1.0, start=cold.weights, control=Control(tol=1e-6))
    assert warm.status == CONVERGED
    assert warm.details["newton_steps"] < cold.details["newton_steps"]
    assert warm.details["objective"] <= cold.details["objective"] * (1 + 2e-6)
