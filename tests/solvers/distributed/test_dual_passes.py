"""Dual coordinate ascent in passes over a file against training in memory."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.data.row_store import RowStore, Sample
from odmlib.machines.odm import Odm
from odmlib.machines.svm import Svm
from odmlib.machines.training import make_settings
from odmlib.solvers.control import Control, Resources
from odmlib.solvers.distributed.dual_passes import DualTuning, StoredDuals
from odmlib.solvers.distributed.streamed import Passes, Side, StreamedTask, StreamTuning, solve_streamed
from odmlib.solvers.linear.dcd import solve_dcd
from odmlib.solvers.problem import LinearProblem

WIDE = StreamTuning(narrow_columns=0)


def rare(n_rows=600, n_features=800, seed=0):
    """Sparse rows of length 1, a fifth of them positive: blocks differ in their share."""
    random = np.random.default_rng(seed)
    X = random.random((n_rows, n_features)) * (random.random((n_rows, n_features)) < 0.02)
    X /= np.maximum(np.sqrt((X * X).sum(axis=1)), 1e-9)[:, None]
    scores = X @ random.normal(size=n_features) + 0.3 * random.normal(size=n_rows)
    return csr_array(X), np.where(scores > np.quantile(scores, 0.8), 1.0, -1.0)


def solved(X, y, machine, bias=1.0, tol=1e-3, tuning=WIDE, threads=1, n_blocks=30, weights=None):
    """The result on rows in a file, the one in memory to a tiny gap, and the passes."""
    weights = np.ones(len(y)) if weights is None else weights
    loss, total = machine.loss(), float(machine.costs(weights).sum())
    size = -(-len(y) // n_blocks)
    parts = [
        (Dataset.from_any(X[some]), y[some], weights[some])
        for some in (slice(first, first + size) for first in range(0, len(y), size))
    ]
    sample = Sample(20_000)
    with RowStore.make("rows", parts, 1, sample=sample) as store:
        side = Side(store.labels.found.index(1.0), np.ones(2))
        passes = Passes(store, 1, 1)
        task = StreamedTask(
            passes, 0, side, loss, machine.costs, total, bias, threads, sample.block(X.shape[1]), tuning
        )
        found = solve_streamed(task, Control(tol=tol), lambda problem, loss: None)
        n_passes = store.passes
    os.unlink("rows")
    assert os.listdir() == []
    problem = LinearProblem(Rows(Dataset.from_any(X), bias), y, machine.costs(weights), loss)
    return found, solve_dcd(problem, Control(tol=1e-9), Resources(threads=1)), n_passes


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


MACHINES = [
    kind(make_settings({"machine": name, "kernel": "linear"}), 600.0)
    for name, kind in (("odm", Odm), ("svm", Svm))
]


@pytest.mark.parametrize("bias", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("machine", MACHINES, ids=["odm", "svm"])
def test_both_values_enclose_the_minimum(machine, bias):
    X, y = rare()
    weights = np.random.default_rng(1).random(len(y)) * (np.arange(len(y)) % 5 > 0)  # some are 0
    found, exact, _ = solved(X, y, machine, bias, tol=1e-5, weights=weights)
    assert (found.status, found.solver) == ("converged", "dcd")
    assert found.dual <= exact.primal * (1 + 1e-12)
    assert exact.dual <= found.primal * (1 + 1e-12)
    assert found.primal - found.dual <= 1e-5 * found.primal


@pytest.mark.parametrize("machine", MACHINES, ids=["odm", "svm"])
def test_the_bias_does_not_cost_passes(machine):
    """It is fixed during a pass, so blocks that hold one class only are no trap."""
    X, y = rare()
    order = np.argsort(y, kind="stable")  # the worst: no block has both classes
    assert solved(X[order], y[order], machine)[2] <= 20


def test_results_do_not_depend_on_threads():
    X, y = rare()
    one, two = (solved(X, y, MACHINES[0], threads=n)[0] for n in (1, 3))
    assert one.weights.tobytes() == two.weights.tobytes()
    assert (one.primal, one.dual) == (two.primal, two.dual)


def test_it_hands_over_where_it_would_not_get_on():
    X, y = rare()
    tuning = replace(WIDE, dual=DualTuning(first_forecast=2, patience=0.0))
    found, exact, _ = solved(X, y, MACHINES[0], tuning=tuning)
    assert (found.status, found.solver) == ("converged", "lbfgs")
    assert found.dual <= exact.primal <= found.primal * (1 + 1e-12)


def test_stored_duals_are_0_until_they_are_written():
    duals = StoredDuals("rows", 10)
    assert duals.read(0, 10).tolist() == [0.0] * 10
    duals.write(7, np.array([1.5, -2.0]))
    assert duals.read(6, 4).tolist() == [0.0, 1.5, -2.0, 0.0]
    assert os.listdir() == []  # nothing that a killed process could leave
    duals.close()
