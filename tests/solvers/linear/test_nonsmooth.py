"""Linear machines with a kink: interior point, coordinate descent and their choice, against references."""

from __future__ import annotations

import math

import numpy as np
import pytest

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.losses.loss import HingeLoss, MeanVarianceLoss
from odmlib.solvers.control import Control, Resources, WarmStart
from odmlib.solvers.linear.nonsmooth import TUNING, interior_cost, solve_nonsmooth
from odmlib.solvers.problem import LinearProblem
from tests.reference_hinge import objective, paper_form
from tests.turns import Clock

SOLVERS = ("auto", "interior-point", "dcd")


def solve_hinged(rows, y, costs, loss, control, *, threads=1, seed=0, start=None, **options):
    problem = LinearProblem(rows, y, costs, loss)
    start = None if start is None else WarmStart(start)
    return solve_nonsmooth(problem, control, Resources(threads, seed=seed), start, **options)


class Case:
    def __init__(self, seed=0, m=60, d=5, bias=1.0, weights=None):
        rng = np.random.default_rng(seed)
        self.X = rng.standard_normal((m, d)) * rng.integers(0, 2, (m, d))
        self.y = np.where(self.X[:, 0] + 0.7 * rng.standard_normal(m) > 0, 1.0, -1.0)
        self.full = np.hstack([self.X, np.full((m, 1), bias)]) if bias else self.X
        self.rows = Rows(Dataset.from_any(self.X), bias)
        self.weights = np.ones(m) if weights is None else weights
        self.total = self.weights.sum()

    def solve(self, solver, lambda1, lambda2, C, tol=1e-9, **options):
        control = Control(tol, **{k: options.pop(k) for k in ("max_iter", "time_limit") if k in options})
        if lambda1 == lambda2 == 0:
            loss, costs = HingeLoss(), C * self.weights
        else:
            loss, costs = MeanVarianceLoss(lambda1 / self.total, lambda2 / self.total, C), self.weights
        result = solve_hinged(self.rows, self.y, costs, loss, control, solver=solver, **options)
        self.check(result, lambda1, lambda2, C)
        return result

    def check(self, result, lambda1, lambda2, C):
        """What every solver promises, whatever its status: the numbers belong to the weights."""
        w = result.weights
        z = self.y * (self.full @ w)
        primal = objective(
            z, w @ w, costs=self.weights, lambda1=lambda1, lambda2=lambda2, C=C, total=self.total
        )
        scale = max(1.0, abs(primal))
        assert result.primal == pytest.approx(primal, abs=1e-9 * scale)
        assert result.margins == pytest.approx(z, abs=1e-8 * max(1, np.abs(z).max()))
        assert result.gap == pytest.approx((result.primal - result.dual) / scale, abs=1e-10)
        # no weights have an objective below the dual value; those nearby come close to it
        rng = np.random.default_rng(0)
        for size in (0.0, 1e-6, 1e-4, 1e-2, 1.0):
            other = w * (1 - 0.1 * size) + size * rng.standard_normal(len(w)) * np.abs(w).mean()
            value = objective(
                self.y * (self.full @ other),
                other @ other,
                costs=self.weights,
                lambda1=lambda1,
                lambda2=lambda2,
                C=C,
                total=self.total,
            )
            assert value >= result.dual - 1e-9 * scale


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("C", [2.0**-5, 1.0, 8.0])
@pytest.mark.parametrize(("lambda1", "lambda2"), [(0, 0), (1, 1), (60, 0), (0, 5), (30, 60)])
def test_optimum_is_the_references(solver, C, lambda1, lambda2):
    case = Case(1)
    tol = 1e-3 if solver == "dcd" else 1e-6  # slow for large C, which is why there is another
    result = case.solve(solver, lambda1, lambda2, C, tol=tol)
    assert result.status == "converged"
    assert result.gap <= tol
    _, _, best = paper_form(case.full @ case.full.T, case.y, lambda1, lambda2, C)
    scale = max(1.0, abs(best))
    assert result.dual - 1e-7 * scale <= best <= result.primal + 1e-7 * scale


@pytest.mark.parametrize("C", [2.0**-5, 1.0, 2.0**5, 2.0**10, 1e6])
@pytest.mark.parametrize(("lambda1", "lambda2"), [(0, 0), (1, 1), (1e4, 7.0)])
def test_interior_point_reaches_tight_gaps_for_every_C(C, lambda1, lambda2):
    case = Case(2, m=200, d=8)
    result = case.solve("interior-point", lambda1, lambda2, C, tol=1e-9)
    assert result.status == "converged"
    assert result.iterations <= 40


def test_auto_hands_over_where_coordinate_descent_is_slow():
    case = Case(3, m=200)
    easy, hard = case.solve("auto", 0, 0, 2.0**-5, tol=1e-3), case.solve("auto", 0, 0, 2.0**10, tol=1e-6)
    assert (easy.solver, hard.solver) == ("dcd", "interior-point")
    assert easy.status == hard.status == "converged"
    assert case.solve("auto", 1, 1, 1.0).solver == "interior-point"


def test_auto_hands_over_as_soon_as_the_rate_tells_and_not_where_sweeps_are_few():
    case = Case(5, m=400)
    hard, easy = case.solve("auto", 0, 0, 2.0**12, tol=1e-3), case.solve("auto", 0, 0, 0.25, tol=1e-3)
    alone = case.solve("dcd", 0, 0, 0.25, tol=1e-3)
    cost = interior_cost(case.rows)
    assert hard.solver == "interior-point"
    # the sweeps before were a part of what the interior-point method costs; its own steps are a few dozen
    assert hard.iterations <= math.ceil(TUNING.share * cost) + 50
    assert (easy.solver, easy.iterations) == ("dcd", alone.iterations)
    assert alone.iterations < cost


def test_the_cost_of_the_interior_point_method_grows_with_the_columns():
    narrow, wide = Case(6, m=400, d=5).rows, Case(6, m=400, d=60).rows
    assert 0 < interior_cost(narrow) < interior_cost(wide)
    assert interior_cost(Rows(Dataset.from_any(np.zeros((0, 3))), 1.0)) >= 0


def test_wide_rows_stay_with_coordinate_descent():
    rng = np.random.default_rng(4)
    X = np.where(rng.random((60, 3000)) < 0.01, 1.0, 0.0)
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    rows = Rows(Dataset.from_any(X), 0.0)
    for loss in (HingeLoss(), MeanVarianceLoss(0.1, 0.05, 1.0)):
        result = solve_hinged(rows, y, np.ones(60), loss, Control(1e-6))
        assert (result.solver, result.status) == ("dcd", "converged")
    _, _, best = paper_form(X @ X.T, y, 6.0, 3.0, 1.0)
    assert result.primal == pytest.approx(best, rel=1e-5)
    assert result.details["moves"] >= 1


def test_one_row_oracle():
    rows, y = Rows(Dataset.from_any([[1.0]]), 0.0), np.ones(1)
    for solver in SOLVERS:
        for lambda2, C in ((2.0, 1.0), (0.5, 0.2), (0.5, 3.0)):
            expected = lambda2 if lambda2 >= 1 else 1.0 if lambda2 + C >= 1 else lambda2 + C
            loss = MeanVarianceLoss(1.0, lambda2, C)
            result = solve_hinged(rows, y, np.ones(1), loss, Control(1e-10), solver=solver)
            assert result.weights[0] == pytest.approx(expected, abs=1e-4)


def test_average_margin_classifier():
    case = Case(5)
    for solver in SOLVERS:
        result = case.solve(solver, 0, 3.0, 0.0)
        assert result.weights == pytest.approx(3 * (case.y @ case.full) / 60, abs=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_weights_are_copies_and_zero_weight_is_absence(solver):
    rng = np.random.default_rng(6)
    counts = rng.integers(0, 4, 60)
    case = Case(7, weights=counts.astype(float))
    weighted = case.solve(solver, 12.0, 5.0, 1.0, tol=1e-8)
    copies = Case(7)
    where = np.repeat(np.arange(60), counts)
    copies.X, copies.y, copies.full = copies.X[where], copies.y[where], copies.full[where]
    copies.rows, copies.weights = Rows(Dataset.from_any(copies.X), 1.0), np.ones(len(where))
    copies.total = len(where)
    repeated = copies.solve(solver, 12.0, 5.0, 1.0, tol=1e-8)
    assert weighted.primal == pytest.approx(repeated.primal, rel=1e-7)
    assert weighted.weights == pytest.approx(repeated.weights, abs=1e-3)


@pytest.mark.parametrize("solver", SOLVERS)
def test_start_limits_and_nothing_to_do(solver):
    case = Case(8)
    for lambda1 in (0, 5):
        done = case.solve(solver, lambda1, 0, 1.0, tol=1e-6)
        again = case.solve(solver, lambda1, 0, 1.0, tol=1e-3, start=done.weights)
        assert again.status == "converged" and again.iterations <= done.iterations
        short = case.solve(solver, lambda1, 0, 1.0, tol=1e-12, max_iter=1)
        assert (short.status, short.iterations) == ("max_iter", 1)
    nothing = solve_hinged(
        case.rows, case.y, np.zeros(60), MeanVarianceLoss(1.0, 1.0, 1.0), Control(1e-6), solver=solver
    )
    assert (nothing.status, nothing.primal) == ("converged", 0.0)
    assert not nothing.weights.any()


def test_the_clock_is_looked_at():
    rng = np.random.default_rng(9)
    X = rng.standard_normal((20_000, 60))
    y = np.where(X[:, 0] + rng.standard_normal(20_000) > 0, 1.0, -1.0)
    rows = Rows(Dataset.from_any(X), 1.0)
    for solver in SOLVERS:
        for turns in (0, 1, 10):
            clock = Clock(turns)
            result = solve_hinged(
                rows, y, np.full(20_000, 100.0), HingeLoss(), Control(1e-14, over=clock.over), solver=solver
            )
            assert result.status == "time_limit"
            assert result.iterations <= turns and clock.asked <= turns + 2


def test_same_bytes_for_every_thread_count():
    rng = np.random.default_rng(10)
    X = rng.standard_normal((9000, 20))
    y = np.where(X[:, 0] + rng.standard_normal(9000) > 0, 1.0, -1.0)
    rows = Rows(Dataset.from_any(X), 1.0)
    for loss in (HingeLoss(), MeanVarianceLoss(0.5, 0.1, 1.0)):
        first, second = (
            solve_hinged(rows, y, np.full(9000, 4.0), loss, Control(1e-5), threads=t) for t in (1, 3)
        )
        assert first.weights.tobytes() == second.weights.tobytes()
