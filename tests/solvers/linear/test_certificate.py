"""Bounds of linear machines against exact arithmetic: no rounding, no slack."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.data.row_store import RowStore, Sample
from odmlib.losses.loss import BandLoss, HingeLoss, MeanVarianceLoss
from odmlib.solvers.control import CONVERGED, STALLED, Control, Resources
from odmlib.solvers.distributed.blocks import LocalBlocks, solve_dsvrg, solve_lbfgs, solve_newton, split
from odmlib.solvers.distributed.streamed import Passes, Side, StreamedTask, StreamTuning, solve_streamed
from odmlib.solvers.linear.auto import solve_linear
from odmlib.solvers.linear.certificate import certificate
from odmlib.solvers.linear.nonsmooth import solve_nonsmooth
from odmlib.solvers.problem import LinearProblem
from odmlib.spark.linear import OneTask, ValidatedBlock
from tests.reference_exact import BandProblem, exact, inner

THETA, NU = 0.25, 0.5  # without rounding in binary


def make(seed: int, n: int = 20, d: int = 2, offset: float = 0.0, C: float = 4.0, loss=None) -> LinearProblem:
    """Rows far from 0 make w and the margins differences of large numbers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + offset
    y = np.where(X[:, 0] - offset + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return LinearProblem(Rows(Dataset.from_any(X)), y, np.full(n, C), loss or BandLoss(THETA, NU))


def signed_rows(problem: LinearProblem) -> list[list[Fraction]]:
    dataset = problem.rows.dataset()
    X = dataset.values.reshape(dataset.n_rows, -1)
    return [[Fraction(float(y)) * value for value in exact(x)] for x, y in zip(X, problem.y, strict=True)]


def exact_objective(problem: LinearProblem, w: list[Fraction]) -> Fraction:
    margins, loss = [inner(row, w) for row in signed_rows(problem)], problem.loss
    costs = exact(problem.costs)
    total = inner(w, w) / 2
    if isinstance(loss, BandLoss):
        low, high, nu = Fraction(1) - Fraction(loss.theta), 1 + Fraction(loss.theta), Fraction(loss.nu)
        parts = [max(0, low - z) ** 2 + nu * max(0, z - high) ** 2 for z in margins]
    else:
        v, u, h = Fraction(loss.variance), Fraction(loss.mean), Fraction(loss.hinge)
        mean = sum(c * z for c, z in zip(costs, margins, strict=True)) / sum(costs)
        parts = [v * (z - mean) ** 2 - u * z + h * max(0, 1 - z) for z in margins]
    return total + sum(c * part for c, part in zip(costs, parts, strict=True))


def exact_minimum(problem: LinearProblem, w: np.ndarray) -> Fraction:
    """ODM's smallest objective."""
    low, high = 1 - Fraction(THETA), 1 + Fraction(THETA)
    rows, targets = signed_rows(problem), [Fraction(0)] * len(problem.y)
    band = BandProblem(rows, targets, exact(problem.costs), low, high, Fraction(NU))
    return band.minimum(exact(w))


@pytest.mark.parametrize("solver", ["newton", "dcd", "blocks", "svrg"])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_the_exact_minimum_lies_between_dual_and_primal(solver, offset):
    for seed in range(8):
        problem = make(seed, offset=offset, C=4.0 / (1 + offset**2))
        control = Control(tol=1e-16, max_iter=300)
        result = solve_linear(problem, control, Resources(threads=1), solver=solver)
        least = exact_minimum(problem, result.weights)
        assert Fraction(result.dual) <= least <= exact_objective(problem, exact(result.weights)), seed
        assert exact_objective(problem, exact(result.weights)) <= Fraction(result.primal), seed
        assert result.status != CONVERGED


@pytest.mark.parametrize("loss", [HingeLoss(), MeanVarianceLoss(0.5, 0.25, 1.0)])
@pytest.mark.parametrize("solver", ["interior-point", "dcd"])
def test_bounds_of_hinge_machines_hold_in_exact_arithmetic(solver, loss):
    """Every exact objective is above the dual value, and that of the weights below the primal value."""
    for seed in range(8):
        problem = make(seed, C=0.125, loss=loss.__reduce__()[0](*loss.__reduce__()[1]))
        result = solve_nonsmooth(
            problem, Control(tol=1e-15, max_iter=2000), Resources(threads=1), solver=solver
        )
        value = exact_objective(problem, exact(result.weights))
        assert Fraction(result.dual) <= value <= Fraction(result.primal), seed
        assert result.gap < 1e-3
        if result.status == CONVERGED:
            assert result.gap <= 1e-15


BLOCKS = {"newton": solve_newton, "lbfgs": solve_lbfgs, "dsvrg": solve_dsvrg}


@pytest.mark.parametrize("solver", BLOCKS)
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_bounds_of_blocks_hold_in_exact_arithmetic(solver, offset):
    """What blocks of rows tell of rounding adds up, wherever they lie."""
    for seed in range(8):
        problem = make(seed, offset=offset, C=4.0 / (1 + offset**2))
        blocks = LocalBlocks(split(problem, np.arange(20) % 3), Resources(threads=1))
        result = BLOCKS[solver](blocks, Control(tol=1e-16, max_iter=300))
        least, value = exact_minimum(problem, result.weights), exact_objective(problem, exact(result.weights))
        assert Fraction(result.dual) <= least <= value <= Fraction(result.primal), seed
        assert result.status != CONVERGED
        assert solver == "dsvrg" or result.gap < 1e-9


class Rounds:
    """What a Spark session does in a round (spark/linear.py), in this process."""

    seed = 0

    def __init__(self, problem, n_blocks):
        parts = split(problem, np.arange(len(problem.y)) % n_blocks)
        self.parts = [
            ValidatedBlock(**{field.name: getattr(part, field.name) for field in fields(part)})
            for part in parts
        ]
        self.n_columns = problem.rows.n_columns

    def answer(self, request):
        total = sum(request.of(part, self.seed) for part in self.parts)
        assert len(total) == request.size(self.n_columns)
        return total


@pytest.mark.parametrize("solver", [solve_newton, solve_lbfgs])
def test_rounds_of_a_cluster_bring_the_rounding_home(solver):
    for seed in range(8):
        problem = make(seed, offset=100.0, C=4.0 / (1 + 100.0**2))
        rounds = Rounds(problem, 3)
        result = solver(OneTask(rounds, 0, rounds.answer), Control(tol=1e-16, max_iter=300))
        least, value = exact_minimum(problem, result.weights), exact_objective(problem, exact(result.weights))
        assert Fraction(result.dual) <= least <= value <= Fraction(result.primal), seed
        assert 1e-16 < result.gap < 1e-9


@pytest.mark.parametrize("loss", [BandLoss(THETA, NU), HingeLoss(), MeanVarianceLoss(0.5, 0.25, 1.0)])
@pytest.mark.parametrize("narrow", [0, 10])
@pytest.mark.parametrize("tol", [1e-16, 1e-9])
def test_bounds_of_rows_in_a_file_hold_in_exact_arithmetic(loss, narrow, tol, tmp_path):
    """Against the exact minimum of the band; of the others against exact objectives near it."""
    tuning = StreamTuning(narrow_columns=narrow)
    for seed in range(8):
        problem = make(seed, C=0.125, loss=loss.__reduce__()[0](*loss.__reduce__()[1]))
        result = solve_in_a_file(problem, tol, tuning, tmp_path / "rows")
        value = exact_objective(problem, exact(result.weights))
        if isinstance(loss, BandLoss):
            least = exact_minimum(problem, result.weights)
        else:
            control = Control(tol=1e-14, max_iter=2000)
            other = solve_nonsmooth(problem, control, Resources(threads=1), solver="interior-point")
            least = min(value, exact_objective(problem, exact(other.weights)))
        assert Fraction(result.dual) <= least <= value <= Fraction(result.primal), seed
        assert result.gap < 1e-6
        if result.status == CONVERGED:
            assert result.gap <= tol


def solve_in_a_file(problem, tol, tuning, path):
    dataset, y = problem.rows.dataset(), problem.y
    halves = np.array_split(np.arange(len(y)), 2)
    parts = [(dataset.take(some), y[some], np.ones(len(some))) for some in halves]
    sample = Sample(8)
    with RowStore.make(str(path), parts, 1, sample=sample) as store:
        side = Side(store.labels.found.index(1.0), np.ones(2))
        costs = lambda weights: problem.costs[0] * weights  # noqa: E731
        drawn = sample.block(dataset.n_features)
        about = side, problem.loss, costs, float(problem.costs.sum()), 0.0, 1
        task = StreamedTask(Passes(store, 1, 1), 0, *about, drawn, tuning)
        with np.errstate(all="ignore"):
            return solve_streamed(task, Control(tol=tol), lambda problem, loss: None)


def test_the_widening_is_small():
    """At the default tolerance nothing is lost by it."""
    problem = make(0, n=200, d=5)
    result = solve_linear(problem, Control(tol=1e-12), Resources(threads=1))
    assert result.status == CONVERGED
    found = certificate(problem, result.weights, None, 1)
    assert 0 < found.rounding < 1e-12 * found.primal


def test_a_tolerance_below_rounding_is_not_claimed():
    problem = make(0)
    result = solve_linear(problem, Control(tol=1e-17), Resources(threads=1))
    assert result.status == STALLED
    assert result.gap > 1e-17


def test_any_duals_and_weights_have_a_bound():
    """Also far from the optimum, where w is not made of the duals."""
    rng = np.random.default_rng(5)
    for seed in range(5):
        problem = make(seed)
        w, duals = rng.normal(size=2), rng.normal(size=20)
        found = certificate(problem, w, duals, 1)
        best = solve_linear(problem, Control(tol=1e-12), Resources(threads=1))
        assert found.primal - found.gap <= best.primal
        assert exact_objective(problem, exact(w)) <= Fraction(found.primal)
