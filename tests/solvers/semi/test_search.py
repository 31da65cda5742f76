"""The search for labels: the best of all assignments, and when the supervised machine stays."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss
from odmlib.solvers.control import Control, Resources
from odmlib.solvers.semi.assignments import Assignments, Balance
from odmlib.solvers.semi.engine import SemiProblem
from odmlib.solvers.semi.outcome import DISAGREEMENT, NO_OPEN_ROWS, NO_WEIGHT
from odmlib.solvers.semi.search import SearchTuning, solve_semi
from tests.reference_ssodm import ORACLES, Tiny, objective

RESOURCES = Resources(1, 1 << 22)


def problem_of(tiny: Tiny, way: str = "kernel") -> SemiProblem:
    data = Kernel(KernelFormula("precomputed"), tiny.K)
    if way == "linear":
        data = Rows(Dataset.from_any(tiny.x), tiny.bias)
    assignments = Assignments(tiny.given, Balance(tiny.n_plus, tiny.n_plus))
    return SemiProblem(data, assignments, tiny.costs, BandLoss(tiny.theta, tiny.nu))


WAYS = [(name, "kernel") for name in ORACLES]
WAYS += [(name, "linear") for name, (tiny, _, _) in ORACLES.items() if tiny.gamma is None]


@pytest.mark.parametrize("solver", ["master", "mp", "smp"])
@pytest.mark.parametrize("name, way", WAYS)
def test_finds_the_best_assignment(name, way, solver):
    tiny, _, _ = ORACLES[name]
    tol = 1e-6 if solver == "master" else 1e-2
    result = solve_semi(problem_of(tiny, way), Control(tol), RESOURCES, solver=solver)
    values = [objective(tiny, labels) for labels in tiny.assignments().T]
    assert result.search.fallback is None
    assert result.signs.tolist() == tiny.assignments()[:, int(np.argmin(values))].tolist()
    assert result.primal == pytest.approx(min(values), abs=2 * tol * max(1, min(values)))
    assert result.primal == result.search.primal
    assert result.search.relaxation.objective <= min(values) + 2 * tol * max(1, min(values))
    assert result.solver.startswith(f"{solver}+")
    assert result.search.assigned_positive == tiny.n_plus


def test_without_open_rows_or_weight_the_supervised_machine_is_the_result():
    tiny, _, _ = ORACLES["C"]
    n = len(tiny.y)
    whole = problem_of(tiny, "linear")
    weightless = dataclasses.replace(whole, costs=np.where(whole.assignments.given != 0, whole.costs, 0.0))
    labeled = SemiProblem(
        Rows(Dataset.from_any(tiny.x[:n]), tiny.bias),
        Assignments(tiny.given[:n], Balance(0, 0)),
        tiny.costs[:n],
        whole.loss,
    )
    for problem, reason in ((weightless, NO_WEIGHT), (labeled, NO_OPEN_ROWS)):
        result = solve_semi(problem, Control(1e-6), RESOURCES)
        assert result.search.fallback == reason and result.search.relaxation is None
        assert result.primal == result.search.supervised_primal
        assert len(result.margins) == len(problem.costs)


def test_labels_that_contradict_the_supervised_machine_are_refused():
    tiny, _, _ = ORACLES["A"]
    for way in ("linear", "kernel"):
        free = solve_semi(problem_of(tiny, way), Control(1e-6), RESOURCES)
        if free.search.disagreement == 0:
            continue
        held = solve_semi(problem_of(tiny, way), Control(1e-6), RESOURCES, max_disagree=0.0)
        assert held.search.fallback == DISAGREEMENT
        assert held.search.disagreement == free.search.disagreement
        assert held.primal == held.search.supervised_primal


@pytest.mark.parametrize("way", ["linear", "kernel"])
def test_the_relaxation_is_left_out_where_it_would_take_long(way):
    tiny, _, _ = ORACLES["C"]
    tuning = SearchTuning(cheap_values=0)
    by_size = solve_semi(problem_of(tiny, way), Control(1e-6), RESOURCES, tuning)
    by_wish = solve_semi(problem_of(tiny, way), Control(1e-6), RESOURCES, max_cuts=0)
    asked_for = solve_semi(problem_of(tiny, way), Control(1e-6), RESOURCES, tuning, max_cuts=3)
    assert (by_size.search.relaxation is None) == (way == "linear")  # kernels: by the room for their rows
    assert by_wish.search.relaxation is None and "+" not in by_wish.solver
    assert 0 <= asked_for.search.relaxation.cuts <= 3
