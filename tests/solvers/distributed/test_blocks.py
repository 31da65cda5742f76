"""Linear machines on blocks: the optimum of Newton's method, certificates that hold, repeatable blocks."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import odmlib
from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.losses.loss import BandLoss
from odmlib.solvers.control import Control, Resources, WarmStart
from odmlib.solvers.distributed.blocks import SOLVERS, TUNING, LocalBlocks, solve_dsvrg, solve_lbfgs, split
from odmlib.solvers.distributed.blocks import solve_newton as solve_by_newton
from odmlib.solvers.linear.newton import solve_newton
from odmlib.solvers.problem import LinearProblem
from tests.reference_linear import random_problem

LOSS = BandLoss(0.2, 0.5)
ALL_SOLVERS = SOLVERS | {"newton": solve_by_newton}


@pytest.fixture(scope="module")
def problem():
    X, y = random_problem(n=400, d=12, seed=5)
    random = np.random.default_rng(0)
    X = X * (random.random(X.shape) < 0.6)
    costs = random.uniform(0.5, 2, 400) / 64  # cocoa is for small C
    return LinearProblem(Rows(Dataset.from_any(X), 1.0), y.astype(float), costs, LOSS)


def blocks_of(problem, n_blocks=4, **resources):
    return LocalBlocks(split(problem, np.arange(len(problem.y)) % n_blocks), Resources(**resources))


def optimum(problem):
    return solve_newton(problem, Control(1e-12), Resources())


@pytest.mark.parametrize("solver", ALL_SOLVERS)
@pytest.mark.parametrize("n_blocks", [1, 4, 7])
def test_reaches_the_optimum_and_the_gap_holds(problem, solver, n_blocks):
    best = optimum(problem)
    for tol in (1e-2, 1e-5):
        result = ALL_SOLVERS[solver](blocks_of(problem, n_blocks), Control(tol))
        assert result.status == "converged" and result.gap <= tol
        assert best.primal - 1e-9 <= result.primal
        assert result.primal - best.primal <= result.gap * max(1, result.primal) + 1e-9
    assert result.weights == pytest.approx(best.weights, abs=np.sqrt(2e-5 * best.primal))


@pytest.mark.parametrize("solver", ALL_SOLVERS)
def test_starts_from_weights(problem, solver):
    best = optimum(problem)
    result = ALL_SOLVERS[solver](blocks_of(problem), Control(1e-4), WarmStart(best.weights))
    assert result.iterations == 0


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_newton_takes_few_rounds_whatever_the_costs(problem, scale):
    scaled = replace(problem, costs=scale * problem.costs)
    result = solve_by_newton(blocks_of(scaled), Control(1e-8))
    assert result.status == "converged" and result.iterations <= 25
    assert result.primal == pytest.approx(optimum(scaled).primal, rel=1e-7)


def test_one_shot_average_of_copies_is_the_solution_of_one(problem):
    """Blocks that are copies stand for the whole: with sweeps enough their average is the optimum."""
    twice = np.concatenate([np.arange(400), np.arange(400)])
    rows = Rows(problem.rows.dataset().take(twice), 1.0)
    doubled = LinearProblem(rows, problem.y[twice], problem.costs[twice] / 2, LOSS)
    copies = LocalBlocks(split(doubled, np.repeat([0, 1], 400)), Resources())
    start = copies.one_shot(TUNING.one_shot_sweeps)
    best = optimum(problem)
    w, value = start, copies.sums(start)[0]
    assert 0.5 * w @ w + value < 1.01 * best.primal
    summed = 2 * start  # what concatenation without rescaling would start from
    assert 0.5 * summed @ summed + copies.sums(summed)[0] > 1.2 * best.primal


def test_a_block_that_runs_again_elsewhere_says_the_same(problem):
    block = blocks_of(problem).blocks[2]
    again = pickle.loads(pickle.dumps(block))
    w = np.random.default_rng(1).normal(size=13)
    assert block.sums(w)[0] == again.sums(w)[0]
    assert (block.sums(w)[1] == again.sums(w)[1]).all()
    assert (block.one_shot(3, 5) == again.one_shot(3, 5)).all()


def test_any_number_of_threads_gives_the_same_bits(problem):
    one, three = (solve_lbfgs(blocks_of(problem, threads=threads), Control(1e-6)) for threads in (1, 3))
    assert (one.weights == three.weights).all()


def test_limits_and_the_callback(problem):
    for solve in SOLVERS.values():
        assert solve(blocks_of(problem), Control(1e-12, max_iter=2)).status == "max_iter"
        assert solve(blocks_of(problem), Control(1e-12, time_limit=1e-9)).status == "time_limit"
        stopped = solve(blocks_of(problem), Control(1e-12, callback=lambda progress: True))
        assert stopped.status == "stopped" and np.isfinite(stopped.gap)


def test_stalls_instead_of_hanging(problem):
    result = solve_lbfgs(blocks_of(problem), Control(1e-300))
    assert result.status in ("stalled", "converged", "max_iter") and result.gap < 1e-9


@pytest.mark.parametrize("solver", SOLVERS)
def test_as_a_machine(solver):
    X, y = random_problem(n=200, d=5, seed=2)
    X = np.c_[X, np.zeros((200, 3000))]  # most columns are empty: they are left out and come back
    exact = odmlib.train(X, y, kernel="linear", C=0.02, tol=1e-6)
    given = {"machine": "sodm", "kernel": "linear", "solver": solver, "C": 0.02}
    model = odmlib.train(X, y, partitions=5, tol=1e-4, **given)
    assert model.report["solver"] == solver
    assert model.report["primal"] == pytest.approx(exact.report["primal"], rel=2e-4)
    assert model.training_margins == pytest.approx(model.margins(X, y), abs=1e-9)
    again = odmlib.train(X, y, partitions=5, tol=1e-3, init=model, **given)
    assert again.report["status"] == "converged" and again.report["iterations"] <= 1
    three = odmlib.train(X, np.digitize(X[:, 0], [-0.5, 0.5]), **given)
    assert three.scheme == "ovr" and three.report["status"] == "converged"


@pytest.mark.parametrize("wishes", [
    {"partition": "stratified"}, {"landmarks": 6}, {"partition": "random"}, {"partition": "dip"},
])  # fmt: skip
def test_strata_for_blocks(wishes):
    """The paper's Algorithm 2 deals the rows of each stratum out to the blocks; the machine is the same."""
    X, y = random_problem(n=200, d=5, seed=2)
    given = {
        "machine": "sodm",
        "kernel": "linear",
        "solver": "dsvrg",
        "C": 0.02,
        "partitions": 4,
        "tol": 1e-5,
    }
    plain, model = odmlib.train(X, y, **given), odmlib.train(X, y, **given, **wishes)
    assert model.report["primal"] == pytest.approx(plain.report["primal"], rel=2e-5)
    assert model.training_margins.tolist() != plain.training_margins.tolist()  # other blocks
    three = odmlib.train(X, np.digitize(X[:, 0], [-0.5, 0.5]), **given, **wishes)
    assert three.report["status"] == "converged"


def test_wishes_that_make_no_sense():
    for wishes, message in (
        (
            {"landmarks": 3, "solver": "newton"},
            "landmarks has no meaning with kernel linear and solver newton",
        ),
        (
            {"solver": "dsvrg", "partition": "dc"},
            "partition.* must be one of .* for blocks of a linear machine",
        ),
        ({"levels": 2, "solver": "lbfgs"}, "levels has no meaning with kernel linear and solver lbfgs"),
        ({"partitions": 2, "solver": "dcd"}, "partitions has no meaning with kernel linear and solver dcd"),
        ({"solver": "ksvrg"}, "solver.* must be one of auto"),
    ):
        with pytest.raises(odmlib.ParameterError, match=message):
            odmlib.train([[0.0], [1.0]], [1, 2], machine="sodm", kernel="linear", **wishes)
    with pytest.raises(odmlib.ParameterError, match="for kernel linear, found 'lbfgs'"):
        odmlib.train([[0.0], [1.0]], [1, 2], kernel="linear", solver="lbfgs")


def test_published_stages_of_dsvrg(problem):
    """Fixed steps, rows without replacement until a block is used up, the iterate passed from block to block:
    the same by hand."""
    eta, steps, stages = 1e-3, 150, 3
    blocks = blocks_of(problem, 4, seed=3)
    result = solve_dsvrg(blocks, Control(1e-12, max_iter=stages), eta=eta, inner_steps=steps)
    X = np.c_[problem.rows.dataset().to_dense(), np.ones(400)]
    orders = [
        np.flatnonzero(np.arange(400) % 4 == k % 4)[np.random.default_rng(3 + k).permutation(100)]
        for k in range(8)
    ]
    drawn = iter(np.concatenate(orders))
    w = np.zeros(13)

    def slopes(at):
        return problem.slopes_and_curvatures(problem.y * (X @ at))[1] * problem.y

    objectives = []
    for _ in range(stages):
        old, snapshot = slopes(w), w.copy()
        mu = X.T @ old
        for _ in range(steps):
            i = next(drawn)
            w = w - eta * (w + mu + 400 * (slopes(w)[i] - old[i]) * X[i])
        objectives.append(0.5 * w @ w + problem.slopes_and_curvatures(problem.y * (X @ w))[0])
        assert objectives[-1] < 0.5 * snapshot @ snapshot + problem.costs.sum() * 2
    assert result.primal == pytest.approx(min(objectives), rel=1e-9)
    assert result.iterations == stages and result.details["eta"] == eta


def test_a_step_that_is_too_long_does_not_pretend(problem):
    """The published algorithm has no safeguard; the best snapshot and its gap are told."""
    result = solve_dsvrg(blocks_of(problem), Control(1e-6), eta=10.0)
    assert result.status == "stalled" and result.gap > 1e-6
    assert np.isfinite(result.primal) and np.isfinite(result.weights).all()
    X, y = random_problem(n=200, d=5, seed=2)
    options = {"machine": "sodm", "kernel": "linear", "solver": "dsvrg", "C": 10, "eta": 10}
    with pytest.warns(odmlib.ConvergenceWarning, match=r"with this eta .* lower eta \(--eta\)$"):
        odmlib.train(X, y, **options)


def test_options_of_the_stages():
    X, y = random_problem(n=200, d=5, seed=2)
    given = {"machine": "sodm", "kernel": "linear", "C": 0.02}
    exact = odmlib.train(X, y, **given)
    model = odmlib.train(X, y, solver="dsvrg", eta=0.002, inner_steps=100, **given)
    assert model.report["primal"] == pytest.approx(exact.report["primal"], rel=2e-3)
    assert model.report["details"]["eta"] == 0.002
    for name in ("eta", "inner_steps"):
        with pytest.raises(odmlib.ParameterError, match="no meaning with solver lbfgs"):
            odmlib.train(X, y, solver="lbfgs", **{name: 1}, **given)
