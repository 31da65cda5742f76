"""nu above 1: more weight above the band than below, as in the ODM paper's grid of C1 and C2."""

from __future__ import annotations

import io

import numpy as np
import pytest
from scipy.optimize import minimize

import odmlib

NU, THETA, C = 8.0, 0.2, 2.0


def clouds():
    random = np.random.default_rng(3)
    y = np.where(np.arange(80) % 2, 1, -1)
    return random.normal(size=(80, 4)) + np.outer(y, [1.0, 0.5, 0, 0]), y


def lowest_objective(Q):
    """Of the dual, for Q = y k y', by a general optimiser: a = up - down."""
    n, cost = len(Q), C / (1 - THETA) ** 2

    def objective(both):
        up, down = both[:n], both[n:]
        a = up - down
        z = Q @ a
        value = a @ z / 2 - (1 - THETA) * up.sum() + (1 + THETA) * down.sum()
        value += (up @ up + down @ down / NU) / (4 * cost)
        slope_up, slope_down = up / (2 * cost) - (1 - THETA), down / (2 * cost * NU) + 1 + THETA
        return value, np.concatenate([z + slope_up, slope_down - z])

    bounds = [(0, None)] * (2 * n)
    found = minimize(objective, np.zeros(2 * n), jac=True, bounds=bounds, method="L-BFGS-B",
                     options={"maxiter": 20000, "maxfun": 40000, "ftol": 1e-15, "gtol": 1e-9})  # fmt: skip
    return -found.fun


@pytest.mark.parametrize("options", [
    {"solver": "newton"}, {"solver": "dcd"}, {"solver": "svrg"}, {"solver": "blocks"},
    {"machine": "sodm"}, {"machine": "sodm", "solver": "dsvrg", "partitions": 4},
])  # fmt: skip
def test_linear_solvers(options):
    X, y = clouds()
    expected = lowest_objective(np.outer(y, y) * (X @ X.T + 1))
    model = odmlib.train(X, y, kernel="linear", nu=NU, theta=THETA, C=C, tol=1e-6, **options)
    assert model.report["primal"] == pytest.approx(expected, rel=3e-6)


@pytest.mark.parametrize("options", [{}, {"machine": "sodm", "partitions": 4, "levels": 1}])
def test_kernel_solvers(options):
    X, y = clouds()
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    expected = lowest_objective(np.outer(y, y) * np.exp(-0.3 * squares))
    model = odmlib.train(X, y, gamma=0.3, nu=NU, theta=THETA, C=C, tol=1e-6, **options)
    assert model.report["primal"] == pytest.approx(expected, rel=3e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_multiclass_and_leave_one_out(kernel):
    X, y = clouds()
    labels = np.where(X[:, 2] > 0.5, 3, y)
    model = odmlib.train(X, labels, machine="mcodm", kernel=kernel, nu=NU, gamma=0.3)
    assert model.report["status"] == "converged"
    result = odmlib.leave_one_out(X, y, kernel=kernel, nu=NU, gamma=0.3, tol=1e-8)
    assert result.errors <= result.bound < 80


@pytest.mark.parametrize("options", [
    {}, {"kernel": "linear"}, {"machine": "sodm"}, {"machine": "mcodm"}, {"machine": "odmr"},
])  # fmt: skip
def test_a_saved_model_comes_back(options):
    X, y = clouds()
    model = odmlib.train(X, y, nu=NU, **options)
    again = odmlib.load_model(io.BytesIO(model.to_bytes()))
    assert again.parameters["nu"] == NU
    assert np.array_equal(again.predict(X), model.predict(X))


def test_where_nu_has_an_end_a_file_has_it_too():
    X, y = clouds()
    y = np.where(np.arange(80) < 40, y, 0)
    text = odmlib.train(X, y, machine="ssodm").to_bytes()
    with pytest.raises(odmlib.ModelFormatError, match="nu: expected a number in range, found '8'"):
        odmlib.load_model(io.BytesIO(text.replace(b"\nnu 0.5\n", b"\nnu 8\n")))


@pytest.mark.parametrize("machine, most", [("odm", np.inf), ("ssodm", 1.0)])
def test_a_search_goes_where_the_machine_can(machine, most):
    X, y = clouds()
    options = {"machine": machine, "log2c": None, "log2g": None, "folds": 2, "C": 1.0}
    result = odmlib.grid_search(X, y, nu=(0.5, 1, 0.25), refine=2, extend=3, **options)
    assert max(result.axes["nu"]) <= most
    if machine == "odm":
        result = odmlib.grid_search(X, y, nu=(1, 17, 8), refine=1, **options)
        near = [abs(value - result.best.parameters["nu"]) for value in result.axes["nu"]]
        assert len(result.axes["nu"]) > 3 and sorted(near)[1] == 4
