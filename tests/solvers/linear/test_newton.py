"""Newton's method: its two forms of the Hessian, warm starts, the bound from outside."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.solvers.linear.newton import TUNING, NewtonTuning, add_gram, prefers_explicit_hessian
from tests.reference_linear import random_problem
from tests.solvers.linear.linear_case import Case, check_result


@pytest.fixture(params=[True, False], ids=["explicit", "conjugate gradients"])
def explicit(request):
    return request.param


def newton(case, explicit, tol, **options):
    return case.solve("newton", tol, tuning=NewtonTuning(explicit=explicit), **options)


@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_both_forms_reach_the_reference(explicit, C):
    case = Case(*random_problem(n=200, d=8, seed=30), C=C)
    result = newton(case, explicit, 1e-13)
    w, _ = case.optimum()
    assert result.status == "converged"
    assert result.details["hessian"] == ("explicit" if explicit else "conjugate gradients")
    assert (result.details["cg_steps"] > 0) is (not explicit)
    np.testing.assert_allclose(result.weights, w, atol=1e-6)
    check_result(case, result)


def test_ends_after_a_handful_of_steps(explicit):
    for seed in range(5):
        case = Case(*random_problem(n=500, d=10, seed=seed), C=1.0)
        assert newton(case, explicit, 1e-10).iterations <= 15


def test_the_objective_falls_at_every_step(explicit):
    case = Case(*random_problem(n=300, d=8, seed=31), C=10.0, theta=0.5)
    told = []
    newton(case, explicit, 1e-12, callback=lambda progress: told.append(progress.primal))
    assert len(told) > 2
    assert all(later < earlier + 1e-12 * earlier for earlier, later in itertools.pairwise(told))


def test_the_bound_only_rises(explicit):
    case = Case(*random_problem(n=300, d=8, seed=32), C=10.0)
    told = []
    newton(case, explicit, 1e-12, callback=lambda p: told.append(p.primal - p.gap * max(1.0, p.primal)))
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(told))


def test_starts_from_given_weights(explicit):
    case = Case(*random_problem(n=300, d=8, seed=33), C=1.0)
    cold = newton(case, explicit, 1e-10)
    again = newton(case, explicit, 1e-9, weights=cold.weights)
    assert again.iterations == 0
    near = cold.weights + 1e-3
    assert newton(case, explicit, 1e-10, weights=near).iterations < cold.iterations
    np.testing.assert_array_equal(near, cold.weights + 1e-3)  # the start is not written to


def test_a_known_bound_is_used(explicit):
    case = Case(*random_problem(n=300, d=8, seed=34), C=1.0)
    _, best = case.optimum()
    told = newton(case, explicit, 1e-3, bound=best - 1e-9)
    assert told.iterations <= newton(case, explicit, 1e-3).iterations
    assert told.dual >= best - 1e-8
    check_result(case, told)


def test_forms_h_only_where_that_is_cheap():
    wide = Case(np.zeros((3, TUNING.explicit_columns + 1)), [1.0, -1.0, 1.0])
    assert not prefers_explicit_hessian(wide.rows)
    narrow = Case(*random_problem(n=100, d=10))
    assert prefers_explicit_hessian(narrow.rows)


@pytest.mark.parametrize("bias", [0.0, 1.5])
@pytest.mark.parametrize("stored", [1.0, 0.6, 0.2])  # parts of all values; the last is added row by row
def test_adds_the_same_hessian_by_blocks_and_row_by_row(bias, stored):
    random = np.random.default_rng(4)
    X, c = random.normal(size=(500, 70)), random.normal(size=500)
    X[random.random(X.shape) > stored] = 0
    c[::7] = 0
    rows, n = Rows(Dataset.from_any(X), bias), 70 + (bias > 0)
    blocks, plain = np.eye(n), np.eye(n)
    add_gram(blocks, rows, c, 2, NewtonTuning(slice_products=1))  # many slices
    add_gram(plain, rows, c, 2, NewtonTuning(dense_columns=n + 1))
    assert blocks == pytest.approx(plain, abs=1e-10)
    assert (blocks == blocks.T).all()
    again = np.eye(n)
    add_gram(again, rows, c, 1, NewtonTuning(slice_products=1))
    assert (again == blocks).all()
