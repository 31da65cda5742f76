"""Certificates against optima that our solvers had no part in: dual value <= minimum <= primal value.

Convex machines, on random small problems and on those that a search finds to be the worst. The oracles work
with the kernel in float64. What is printed must hold for it: dual <= minimum <= primal, gap = (primal - dual)
/ |primal|, and `converged` means that the gap is at most the tolerance.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import nnls

import odmlib
from odmlib.kernels.formula import KernelFormula
from tests.reference_hinge import paper_form
from tests.reference_kernel import kernel_matrix
from tests.reference_linear import Reference

pytestmark = pytest.mark.slow

ORACLE = 1e-11  # relative error of the oracles, which work in float64
LINEAR = 1e-9  # how near a linear machine comes to the minimum
MACHINES = ("svm", "odml", "odm", "sodm", "kmomd", "odmr", "odmo")
KERNELS = ("rbf", "poly", "precomputed")
N_PROBLEMS = 40
N_STEPS = 150


@dataclass(frozen=True)
class Case:
    """A problem, small enough for an oracle."""

    machine: str
    kernel: str
    seed: int
    n: int
    d: int
    C: float
    theta: float
    nu: float
    gamma: float
    scale: float
    tol: float

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        X = rng.normal(size=(self.n, self.d)) * self.scale
        targets = X[:, 0] / self.scale + 0.5 * rng.normal(size=self.n)
        if self.machine == "odmr":
            return X, targets
        if self.machine == "odmo":
            return X, np.ones(self.n)
        y = np.where(targets > 0, 1.0, -1.0)
        y[:2] = 1.0, -1.0
        return X, y

    def formula(self) -> KernelFormula:
        numbers = {"rbf": {"gamma": self.gamma}, "poly": {"gamma": self.gamma, "degree": 2, "coef0": 1.0}}
        return KernelFormula(
            "linear" if self.kernel == "precomputed" else self.kernel, **numbers.get(self.kernel, {})
        )

    @property
    def lam(self) -> float:
        """KM-OMD's lambda: that of the SVM with this C."""
        return 1 / (1 + self.C)

    def options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"machine": self.machine, "kernel": self.kernel, "tol": self.tol, "bias": 0}
        if self.kernel in ("rbf", "poly"):
            options["gamma"] = self.gamma
        if self.kernel == "poly":
            options |= {"degree": 2, "coef0": 1.0}
        if self.machine == "kmomd":
            del options["bias"]
            return options | {"lambda_": self.lam}
        own = {
            "svm": {},
            "odml": {"lambda1": 3 * self.C, "lambda2": self.C / 2},
            "odmr": {"epsilon": self.theta, "nu": self.nu},
            "odmo": {"theta": self.theta, "nu": 0.5},  # nu is the rate of false alarms
        }
        return options | {"C": self.C} | own.get(self.machine, {"theta": self.theta, "nu": self.nu})


def minimum(case: Case) -> tuple[float, float]:
    """Bounds of the smallest objective, by an oracle; mostly equal."""
    X, y = case.data()
    K = np.asarray(kernel_matrix(case.formula(), X), dtype=np.float64)
    if case.machine == "kmomd":
        return kmomd_bounds(K, y, case.lam)
    if case.machine in ("svm", "odml"):
        lambda1, lambda2 = (3 * case.C, case.C / 2) if case.machine == "odml" else (0.0, 0.0)
        _, p, value = paper_form(K, y, lambda1, lambda2, case.C)
        return hinge_dual(K, y, lambda1, lambda2, p), value
    values, vectors = np.linalg.eigh(K)
    kept = values > values.max() * 1e-15
    features = X if case.kernel == "linear" else vectors[:, kept] * np.sqrt(values[kept])
    if case.machine == "odmr":  # the band around a target is that around the margin 1, moved
        oracle = Reference(features, np.ones(case.n), np.full(case.n, case.C), case.theta, case.nu, y - 1)
    else:
        nu = 1.0 if case.machine == "odmo" else case.nu
        oracle = Reference(features, y, np.full(case.n, case.C / (1 - case.theta) ** 2), case.theta, nu)
    value = oracle.primal(oracle.solve())
    return value, value


def kmomd_bounds(K: np.ndarray, y: np.ndarray, lam: float) -> tuple[float, float]:
    """(lower, upper) bound of KM-OMD's objective; gamma by scipy's non-negative least squares.

    min |B gamma|^2 with the sum of each class = 1 is solved as least squares with both sums as heavy rows,
    then mended: any gamma >= 0 with the right sums is an upper bound, and its gradient a lower one (Frank and
    Wolfe).
    """
    H = (1 - lam) * K * y[:, None] * y + lam * np.eye(len(y))
    values, vectors = np.linalg.eigh(H)
    root = vectors.T * np.sqrt(np.maximum(values, 0.0))[:, None]
    sides = np.stack([y > 0, y < 0]).astype(float)
    best = (-np.inf, np.inf)
    for heavy in 10.0 ** np.arange(1, 7):
        heavy *= np.sqrt(values[-1])
        gamma, _ = nnls(np.vstack([root, heavy * sides]), np.append(np.zeros(len(y)), [heavy, heavy]))
        if not (sides @ gamma > 0).all():
            continue
        free = gamma > 0
        n_free = int(free.sum())
        system = np.block([[H[np.ix_(free, free)], sides[:, free].T], [sides[:, free], np.zeros((2, 2))]])
        exact = np.linalg.lstsq(system, np.append(np.zeros(n_free), [1.0, 1.0]), rcond=None)[0][:n_free]
        for candidate in (gamma[free], exact):
            point = np.zeros(len(y))
            point[free] = np.maximum(candidate, 0.0)
            point /= (sides @ point)[(y < 0).astype(int)]
            slopes = H @ point
            upper = float(point @ slopes)
            least = slopes[y > 0].min() + slopes[y < 0].min()
            best = max(best[0], 2 * least - upper), min(best[1], upper)
    return best


def hinge_dual(K: np.ndarray, y: np.ndarray, lambda1: float, lambda2: float, p: np.ndarray) -> float:
    """A lower bound of SVM's and ODM^L's objective for any duals p of the hinge."""
    m = len(y)
    Q = K * y[:, None] * y
    A = (lambda1 / m) * (np.eye(m) - 1 / m)
    shifted = p + lambda2 / m
    return float(p.sum() - 0.5 * shifted @ Q @ np.linalg.solve(np.eye(m) + 2 * A @ Q, shifted))


def report(case: Case) -> dict[str, Any]:
    X, y = case.data()
    rows = X @ X.T if case.kernel == "precomputed" else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", odmlib.ConvergenceWarning)
        return odmlib.train(rows, y, threads=1, **case.options()).report


def excess(case: Case) -> float:
    """By how much, relative to the minimum, the minimum lies outside of [dual, primal]; negative inside."""
    found, (low, high) = report(case), minimum(case)
    return max(found["dual"] - high, low - found["primal"]) / abs(high)


def cases(machine: str, kernels: tuple[str, ...], n_cases: int, seed: int = 0) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    for k in range(n_cases):
        yield Case(
            machine,
            kernels[k % len(kernels)],
            seed=int(rng.integers(2**32)),
            n=int(rng.integers(4, 61)),
            d=int(rng.integers(1, 7)),
            C=float(10 ** rng.uniform(-4, 2)),
            theta=float(rng.choice([0.0, 0.2, 0.9])),
            nu=float(rng.choice([0.1, 0.5, 1.0])),
            gamma=float(10 ** rng.uniform(-2, 1)),
            scale=float(10 ** rng.uniform(-1, 1)),
            tol=float(rng.choice([1e-3, 1e-6, 1e-9, 1e-12])),
        )


def check(case: Case) -> None:
    found, (low, high) = report(case), minimum(case)
    slack = ORACLE * abs(high)
    assert found["dual"] <= high + slack, case
    assert low <= found["primal"] + slack, case
    gap = (found["primal"] - found["dual"]) / abs(found["primal"])
    assert found["gap"] == pytest.approx(gap, rel=1e-6, abs=1e-15), case
    if found["status"] == "converged":
        assert found["gap"] <= case.tol, case


@pytest.mark.parametrize("machine", MACHINES)
def test_linear_machines_reach_the_minimum(machine):
    n_converged = 0
    for case in cases(machine, ("linear",), N_PROBLEMS):
        case = replace(case, tol=1e-10)
        found, (low, high) = report(case), minimum(case)
        if found["status"] == "converged":
            n_converged += 1
            assert low - LINEAR * abs(low) <= found["primal"] <= high + LINEAR * abs(high), case
    assert n_converged >= 0.9 * N_PROBLEMS


@pytest.mark.parametrize("machine", MACHINES)
def test_the_minimum_lies_between_dual_and_primal_of_linear_machines(machine):
    for case in cases(machine, ("linear",), N_PROBLEMS, seed=1):
        check(case)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_minimum_lies_between_dual_and_primal_of_kernel_machines(machine, kernel):
    for case in cases(machine, (kernel,), N_PROBLEMS, seed=2):
        check(case)


def worse(case: Case, rng: np.random.Generator) -> Case:
    """A neighbour."""
    changes: dict[str, Any] = {
        "seed": int(rng.integers(2**32)),
        "n": int(np.clip(case.n + rng.integers(-8, 9), 4, 60)),
        "C": float(np.clip(case.C * 10 ** rng.normal(), 1e-5, 1e3)),
        "theta": float(rng.choice([0.0, 0.2, 0.5, 0.9])),
        "gamma": float(np.clip(case.gamma * 10 ** rng.normal(), 1e-3, 30)),
        "scale": float(np.clip(case.scale * 10 ** (rng.normal() / 2), 0.05, 20)),
        "tol": float(rng.choice([1e-3, 1e-6, 1e-9, 1e-12])),
    }
    names = rng.choice(list(changes), size=rng.integers(1, 3), replace=False)
    return replace(case, **{str(name): changes[str(name)] for name in names})


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_a_search_finds_no_violation(kernel):
    """Steps to problems where the certificate is tighter, or wrong."""
    rng = np.random.default_rng(3)
    case = next(cases("odm", (kernel,), 1, seed=4))
    worst = excess(case)
    for _ in range(N_STEPS):
        other = worse(case, rng)
        found = excess(other)
        if found >= worst:
            case, worst = other, found
    assert worst <= ORACLE, case
