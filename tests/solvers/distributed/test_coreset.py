"""A core that stands for all rows: the cover, and the machine that is right for all rows in the end."""

from __future__ import annotations

import numpy as np
import pytest

import odmlib
from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss
from odmlib.solvers.control import Control, Resources, WarmStart
from odmlib.solvers.distributed.coreset import cover, solve_csvrg
from odmlib.solvers.linear.newton import solve_newton
from odmlib.solvers.problem import LinearProblem

LOSS = BandLoss(0.2, 0.5)


def clumps(n=600, spread=0.02, seed=0):
    """Rows in twelve clumps of the plane, of two classes that overlap."""
    random = np.random.default_rng(seed)
    places = random.normal(size=(12, 2))
    which = random.integers(0, 12, n)
    X = places[which] + spread * random.normal(size=(n, 2))
    y = np.where((places[which] @ [1.0, -0.5] > 0) ^ (random.random(n) < 0.1), 1.0, -1.0)
    return X, y


@pytest.mark.parametrize("chunk", [3, 64, 10_000])
def test_cover(chunk):
    X, y = clumps()
    kernel = Kernel(KernelFormula("linear"), Dataset.from_any(X))
    for radius in (0.0, 0.03, 0.5, 10.0):
        core, stands_for = cover(kernel, y > 0, radius, len(y), chunk)
        assert (y[core][stands_for] == y).all()
        distances = np.linalg.norm(X - X[core][stands_for], axis=1)
        assert (distances <= radius + 1e-7).all()
        assert (stands_for[core] == np.arange(len(core))).all()
        for side in (core[y[core] > 0], core[y[core] < 0]):  # no core row is needless, and the first is first
            between = np.linalg.norm(X[side][:, None] - X[side], axis=2)
            assert (between[~np.eye(len(side), dtype=bool)] > radius - 1e-7).all()
            assert (np.diff(side) > 0).all()
    assert len(core) == 2
    assert cover(kernel, y > 0, 0.0, 100, chunk) is None
    assert cover(kernel, y > 0, 1.0, len(y), chunk, lambda: "time_limit") is None


def test_repeated_rows_need_no_more_than_the_core():
    X, y = clumps(40, seed=3)
    many = np.repeat(np.arange(40), 25)
    problem = LinearProblem(Rows(Dataset.from_any(X[many]), 1.0), y[many], np.full(1000, 0.01), LOSS)
    best = solve_newton(problem, Control(1e-12), Resources())
    result = solve_csvrg(problem, Control(1e-6), Resources())
    assert result.status == "converged" and result.solver == "csvrg"
    assert result.details["core"] <= 40
    assert best.primal - 1e-9 <= result.primal <= best.primal + result.gap * max(1, result.primal) + 1e-9
    assert result.weights == pytest.approx(best.weights, abs=2e-3)
    again = solve_csvrg(problem, Control(1e-4), Resources(), WarmStart(result.weights))
    assert again.iterations == 0


def test_the_radius_shrinks_until_the_gap_on_all_rows_is_small():
    X, y = clumps()
    problem = LinearProblem(Rows(Dataset.from_any(X), 1.0), y, np.full(len(y), 0.005), LOSS)
    best = solve_newton(problem, Control(1e-12), Resources())
    told = []
    result = solve_csvrg(problem, Control(1e-3, callback=told.append), Resources())
    assert result.status == "converged"
    assert result.primal - best.primal <= 1e-3 * max(1, best.primal)
    assert len(told) >= 3 and told[1].gap > 1e-3 >= told[-1].gap
    exact = solve_csvrg(problem, Control(1e-9), Resources())
    assert exact.solver in ("csvrg", "csvrg+svrg") and exact.gap <= 1e-9


def test_as_a_machine_with_limits():
    X, y = clumps(300)
    given = {"machine": "sodm", "kernel": "linear", "solver": "csvrg", "C": 0.01}
    model = odmlib.train(X, y, **given)
    exact = odmlib.train(X, y, kernel="linear", C=0.01, tol=1e-6)
    assert model.report["primal"] == pytest.approx(exact.report["primal"], rel=2e-3)
    assert model.report["details"]["core"] > 0
    assert model.training_margins == pytest.approx(model.margins(X, y), abs=1e-9)
    assert odmlib.train(X, y, **given).to_bytes().split(b"report")[0] == model.to_bytes().split(b"report")[0]
    with pytest.warns(odmlib.ConvergenceWarning, match="limit of"):
        odmlib.train(X, y, max_iter=1, tol=1e-9, **given)
    three = odmlib.train(X, np.digitize(X[:, 0], [-0.5, 0.5]), multiclass="ovr", **given)
    assert three.scheme == "ovr" and three.report["status"] == "converged"
    same = odmlib.train(np.ones((4, 2)), [1, 1, 0, 0], **given)  # a radius of 0
    assert same.report["status"] == "converged"
