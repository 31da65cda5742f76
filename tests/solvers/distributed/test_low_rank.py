"""Starts from features of a kernel of little rank: near the optimum; other starts where they do not suit."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss, HingeLoss
from odmlib.solvers.control import CONVERGED, TIME_LIMIT, Control, Resources, WarmStart
from odmlib.solvers.distributed.low_rank import Features, LowRank, LowRankTuning
from odmlib.solvers.kernel.working_set import solve_working_set
from odmlib.solvers.problem import KernelProblem

RANDOM = np.random.default_rng(4)
X = RANDOM.uniform(-1, 1, size=(700, 3))
Y = np.where(X[:, 0] * X[:, 1] + 0.3 * RANDOM.normal(size=len(X)) > 0, 1.0, -1.0)
FLAT, STEEP = KernelFormula("rbf", gamma=0.05), KernelFormula("rbf", gamma=50.0)
RESOURCES = Resources(1, 10 << 20)
TOL = 1e-3
MEMORY = 100 << 20


def problem_of(formula=FLAT, cost=1.0, loss=None, **others):
    kernel = Kernel(formula, Dataset.from_any(X))
    return KernelProblem(kernel, Y, np.full(len(X), cost), loss or BandLoss(0.2, 0.5), **others)


def low_rank_of(problem, **tuning):
    cost = float(problem.costs.max())
    return LowRank(problem.kernel, (cost, cost), TOL, MEMORY, LowRankTuning(**tuning))


def iterations(problem, start):
    result = solve_working_set(problem, Control(TOL), RESOURCES, start)
    assert result.status == CONVERGED and result.gap <= TOL
    return result.iterations


@pytest.mark.parametrize("cost", [0.1, 100.0])
@pytest.mark.parametrize("formula", [FLAT, KernelFormula("poly", 0.3, 2, 1.0, bias=1.0)])
@pytest.mark.parametrize("targets", [None, X[:, 2].copy()])
def test_the_working_set_has_nothing_left_to_do(formula, cost, targets):
    problem = problem_of(formula, cost, targets=targets)
    start = Features(low_rank_of(problem)).start(problem, Control(TOL), RESOURCES, None)
    assert iterations(problem, start) <= 1 < iterations(problem, None)


def test_a_part_of_the_rows_takes_its_part_of_the_features():
    whole = problem_of()
    rows = np.flatnonzero(RANDOM.random(len(X)) < 0.9)
    problem = whole.restricted(rows)
    start = low_rank_of(whole).restricted(rows).start(problem, Control(TOL), RESOURCES, None)
    assert iterations(problem, start) <= 1


def test_costs_in_turn_take_as_many_features_as_each_needs():
    problems = [problem_of(cost=cost) for cost in (0.01, 1.0, 100.0)]
    low_rank = LowRank(problems[0].kernel, (0.01, 100.0), TOL, MEMORY)
    features, start = Features(low_rank), None
    for problem in [*problems, problems[0]]:
        start = features.start(problem, Control(TOL), RESOURCES, start)
        assert iterations(problem, start) <= 1


@pytest.mark.parametrize(
    ("problem", "tuning"),
    [
        (problem_of(STEEP), {}),  # as many features as rows
        (problem_of(loss=HingeLoss()), {}),  # Newton's method wants a smooth loss
        (problem_of(cost=0.0), {}),
        (problem_of().restricted(np.arange(300)), {}),  # one block is exact
        (problem_of(cost=1e12), {}),  # what rounding leaves would be too much
    ],
)
def test_what_does_not_suit_keeps_its_start(problem, tuning):
    start = WarmStart(duals=np.zeros(len(problem.y)))
    features = Features(low_rank_of(problem, **tuning))
    assert features.start(problem, Control(TOL), RESOURCES, start) is start


def test_the_end_of_the_time_is_noticed():
    problem, start = problem_of(), WarmStart(duals=np.zeros(len(X)))
    control = Control(TOL, over=lambda: TIME_LIMIT)
    assert Features(low_rank_of(problem)).start(problem, control, RESOURCES, start) is start


def test_features_take_a_quarter_of_the_memory_at_most():
    kernel = problem_of().kernel
    assert LowRank(kernel, (1.0, 1.0), TOL, 1 << 30).most_rank == LowRankTuning().most_rank(len(X))
    memory = 1 << 20
    small = LowRank(kernel, (1.0, 1.0), TOL, memory)
    assert 0 < small.most_bytes <= memory / 4
    assert LowRank(kernel, (1.0, 1.0), TOL, 1000).most_rank == 0
