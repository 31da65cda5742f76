"""Training beside other Python threads: the interpreter lock, shared data, forks."""

from __future__ import annotations

import multiprocessing
import threading

import numpy as np
import pytest

import odmlib
from odmlib._core.rows import Rows
from odmlib.losses.loss import BandLoss
from odmlib.solvers.linear._dcd import Sweeper
from odmlib.solvers.linear._svrg import InnerLoop
from tests.reference_linear import random_problem
from tests.turns import turns_during


@pytest.fixture(scope="module")
def compiled_calls():
    """One call into each compiled loop, which takes milliseconds and never returns to Python meanwhile."""
    X, y = random_problem(n=50_000, d=100, seed=70)
    rows = Rows(odmlib.Dataset.from_any(X), 1.0)
    loss, costs = BandLoss(0.2, 0.5), np.full(len(y), 1e-3)
    sweeper = Sweeper(rows, loss, y, costs, np.zeros(len(y)), np.zeros(rows.n_columns), 0)
    inner = InnerLoop(rows, loss, y, costs, 0)

    def sweep():
        sweeper.begin_sweep()
        sweeper.advance(10**12, -1.0)

    def steps():
        inner.begin_stage(np.zeros(rows.n_columns), np.zeros(rows.n_columns), np.zeros(len(y)), 1e-6)
        inner.advance(100_000)

    return {"gram": lambda: rows.gram(costs), "dcd sweep": sweep, "svrg steps": steps}


@pytest.mark.parametrize("name", ["gram", "dcd sweep", "svrg steps"])
def test_compiled_loops_release_the_lock(compiled_calls, name):
    def enough(turns, seconds):
        return turns >= max(2, 20 * seconds)

    found = turns_during(compiled_calls[name], enough)
    assert enough(*found), found


def trained_weights(X, y, **options):
    model = odmlib.train(X, y, kernel="linear", threads=1, **options)
    return model.function.weights.tobytes(), model.function.bias_weights[0]


@pytest.mark.parametrize("solver", ["newton", "dcd", "blocks", "svrg", "auto"])
def test_trainings_in_several_threads_do_not_disturb_each_other(solver):
    X, y = random_problem(n=2000, d=10, seed=71)
    X = odmlib.Dataset.from_any(X)
    settings = [{"C": C, "solver": solver, "tol": 1e-4} for C in (1e-4, 1e-3, 3e-3, 1e-2)] * 2
    one_after_the_other = [trained_weights(X, y, **setting) for setting in settings]
    together: list = [None] * len(settings)

    def work(place):
        together[place] = trained_weights(X, y, **settings[place])

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(settings))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == one_after_the_other


def _train_in_child(queue, X, y):
    queue.put(odmlib.train(X, y, kernel="linear", threads=2).decision_function(X).tobytes())


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_fork_after_training_can_train():
    """No pool of threads is left behind that a child would wait for."""
    X, y = random_problem(n=20_000, d=20, seed=72)
    expected = odmlib.train(X, y, kernel="linear", threads=2).decision_function(X).tobytes()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_train_in_child, args=(queue, X, y))
    child.start()
    try:
        assert queue.get(timeout=300) == expected
    finally:
        child.join(timeout=300)
        if child.is_alive():
            child.kill()
