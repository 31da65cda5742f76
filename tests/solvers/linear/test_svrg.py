"""SVRG: the lazy updates equal the plain ones, stages never raise the objective."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.losses.loss import BandLoss
from odmlib.solvers.linear._svrg import InnerLoop
from tests.reference_linear import random_problem
from tests.solvers.linear.linear_case import Case, check_result


def splitmix(state):
    """The generator of random.pxd in plain Python."""
    mask = 2**64 - 1
    while True:
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        yield z ^ (z >> 31)


@pytest.mark.parametrize("eta", [1e-3, 0.05, 0.999])
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_lazy_steps_are_the_plain_steps(eta, bias):
    """eta = 0.999 makes the scale underflow many times: the working vector must be refreshed in time."""
    X, y = random_problem(n=12, d=4, seed=50)
    X = X * (np.random.default_rng(0).random(X.shape) < 0.6) * 0.1
    case = Case(X, y, C=0.01, bias=bias)
    reference = case.reference
    snapshot = np.linspace(-1, 1, reference.X.shape[1])
    slopes = -reference.duals(snapshot)
    mu = reference.X.T @ (y * slopes)

    lazy = snapshot.copy()
    inner = InnerLoop(case.rows, case.loss, case.y, case.costs, 9)
    inner.begin_stage(lazy, mu, slopes, eta)
    inner.advance(100)
    inner.advance(100)
    inner.end_stage()

    plain, words = snapshot.copy(), splitmix(9)
    for _ in range(200):
        i = next(words) % 12
        change = -reference.duals(plain)[i] - slopes[i]
        plain = plain - eta * (plain + mu + 12 * change * y[i] * reference.X[i])
    np.testing.assert_allclose(lazy, plain, rtol=1e-9, atol=1e-12)


def test_stages_never_raise_the_objective():
    case = Case(*random_problem(n=300, d=5, seed=51), C=0.5)
    told = []
    case.solve("svrg", 1e-6, max_iter=60, callback=lambda progress: told.append(progress.primal))
    assert len(told) > 3
    assert all(later <= earlier for earlier, later in itertools.pairwise(told))


def test_converges_on_a_problem_of_its_kind():
    """Many rows and a small C: a few passes are enough."""
    case = Case(*random_problem(n=5000, d=10, seed=52), C=1e-3)
    result = case.solve("svrg", 1e-3)
    assert result.status == "converged" and result.iterations < 60
    check_result(case, result)


def test_starts_from_given_weights():
    case = Case(*random_problem(n=200, d=5, seed=53), C=0.05)
    cold = case.solve("svrg", 1e-6)
    start = cold.weights.copy()
    again = case.solve("svrg", 1e-6, weights=start)
    assert again.iterations == 0 < cold.iterations
    np.testing.assert_array_equal(start, cold.weights)


def test_rows_without_loss_need_no_step():
    rows = Rows(Dataset.from_any(np.zeros((3, 2))))
    inner = InnerLoop(rows, BandLoss(0.2, 0.5), np.ones(3), np.ones(3), 0)
    w = np.array([1.0, -1.0])
    inner.begin_stage(w, np.zeros(2), np.full(3, -1.6), 1.0)  # eta = 1 makes the scale 0 at once
    inner.advance(5)
    inner.end_stage()
    np.testing.assert_array_equal(w, [0.0, 0.0])


def test_steps_in_a_given_order():
    """Without replacement: each row at most once."""
    X, y = random_problem(n=12, d=4, seed=50)
    case = Case(X, y, C=0.01, bias=0.0)
    reference = case.reference
    snapshot = np.linspace(-1, 1, reference.X.shape[1])
    slopes = -reference.duals(snapshot)
    mu = reference.X.T @ (y * slopes)
    order = np.random.default_rng(1).permutation(12)

    lazy, plain = snapshot.copy(), snapshot.copy()
    inner = InnerLoop(case.rows, case.loss, case.y, case.costs, 9)
    inner.begin_stage(lazy, mu, slopes, 0.05, order)
    inner.advance(5)
    inner.advance(7)
    with pytest.raises(ValueError, match="more steps than rows"):
        inner.advance(1)
    inner.end_stage()
    for i in order:
        change = -reference.duals(plain)[i] - slopes[i]
        plain = plain - 0.05 * (plain + mu + 12 * change * y[i] * reference.X[i])
    np.testing.assert_allclose(lazy, plain, rtol=1e-9, atol=1e-12)
