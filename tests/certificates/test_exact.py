"""Linear band machines as users train them, in rational arithmetic: bias, weights, targets, large units."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import odmlib
from tests.reference_exact import BandProblem, exact

pytestmark = pytest.mark.slow

N_PROBLEMS = 150


def make(machine: str, rng: np.random.Generator) -> tuple[Any, Any, dict[str, Any], BandProblem]:
    """Rows, labels or targets, options, and the same problem in rational numbers."""
    n, d = int(rng.integers(3, 16)), int(rng.integers(1, 3))
    X = rng.standard_normal((n, d)) * 10 ** rng.uniform(-3, 3) + rng.choice([0.0, 1.0, 100.0, 1e4])
    X[rng.random(X.shape) < rng.choice([0.0, 0.5])] = 0.0
    C, nu = float(10 ** rng.uniform(-6, 4)), float(rng.choice([0.25, 0.5, 1.0]))
    bias, width = float(rng.choice([0.0, 0.5, 1.0])), float(rng.choice([0.0, 0.25, 0.5]))
    weights = rng.integers(0, 4, n).astype(float)
    weights[:2] = 1.0
    options: dict[str, Any] = {"C": C, "bias": bias, "sample_weight": weights}
    options |= {"solver": str(rng.choice(["auto", "newton", "dcd"]))}
    options |= {"tol": float(rng.choice([1e-16, 1e-13, 1e-9, 1e-3]))}
    signs, targets, cost = np.ones(n), np.zeros(n), Fraction(C)
    middle = Fraction(1)
    if machine == "odmr":
        y = targets = rng.standard_normal(n) * 10 ** rng.uniform(-3, 3) + rng.choice([0.0, 1e3, 1e6])
        options |= {"epsilon": width, "nu": nu}
        middle = Fraction(0)
    elif machine == "odmo":
        y = signs
        options |= {"theta": width, "nu": 0.6}  # the rate of false alarms
        nu = 1.0
    else:
        y = signs = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        y[:2] = 1.0, -1.0
        options |= {"theta": width, "nu": nu}
    if machine != "odmr":
        cost /= (1 - Fraction(width)) ** 2
    rows = np.column_stack([X, np.full(n, bias)]) * signs[:, None]
    band = middle - Fraction(width), middle + Fraction(width)
    costs = [cost * weight for weight in exact(weights)]
    return (
        X,
        y,
        options,
        BandProblem([exact(row) for row in rows], exact(targets), costs, *band, Fraction(nu)),
    )


@pytest.mark.parametrize("machine", ["odm", "odmr", "odmo"])
def test_the_minimum_lies_between_dual_and_primal_without_slack(machine):
    rng = np.random.default_rng(6)
    n_converged = 0
    for _ in range(N_PROBLEMS):
        X, y, options, problem = make(machine, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", odmlib.ConvergenceWarning)
            model = odmlib.train(X, y, machine=machine, kernel="linear", threads=1, **options)
        n_converged += check(model, problem, options)
    assert n_converged >= N_PROBLEMS / 3


def check(model: Any, problem: BandProblem, options: dict[str, Any]) -> bool:
    """Both bounds without slack; whether the run converged."""
    found = model.report
    w = np.zeros(len(problem.rows[0]))
    w[model.function.columns] = model.function.weights[:, 0]
    w[-1] = model.function.bias_weights[0] if options["bias"] else 0.0
    least, own = problem.minimum(exact(w)), problem.objective(exact(w))
    assert Fraction(found["dual"]) <= least <= own, options
    assert own <= Fraction(found["primal"]), options
    converged = found["status"] == "converged"
    assert not converged or found["gap"] <= options["tol"], options
    return converged


def test_so_it_does_for_rows_in_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(7)
    n_converged = 0
    for _ in range(N_PROBLEMS):
        X, y, options, problem = make("odm", rng)
        weights = options.pop("sample_weight")
        options["solver"] = "auto"
        blocks = [(X[some], y[some], weights[some]) for some in (slice(0, 2), slice(2, None))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", odmlib.ConvergenceWarning)
            model = odmlib.train_stream(blocks, threads=1, **options)
        n_converged += check(model, problem, options)
    assert n_converged >= N_PROBLEMS / 3
