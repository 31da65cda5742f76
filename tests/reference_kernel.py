"""Slow and plain NumPy versions of what the kernel parts compute, for comparison in tests."""

from __future__ import annotations

import numpy as np

from odmlib.kernels.formula import KernelFormula


def kernel_matrix(formula: KernelFormula, A, B=None) -> np.ndarray:
    """k(a, b) in extended precision, distances from differences."""
    A = np.asarray(A, dtype=np.longdouble)
    B = A if B is None else np.asarray(B, dtype=np.longdouble)
    if formula.name == "rbf":
        squared = np.array([np.square(B - a).sum(axis=1) for a in A]).reshape(len(A), len(B))
        values = np.exp(-formula.gamma * squared)
    else:
        values = A @ B.T
        if formula.name != "linear":
            values = formula.gamma * values + formula.coef0
        if formula.name == "poly":
            values = values**formula.degree
        elif formula.name == "sigmoid":
            values = np.tanh(values)
    return values + formula.bias**2


def random_rows(rng: np.random.Generator, n: int, d: int, density: float = 1.0) -> np.ndarray:
    return rng.standard_normal((n, d)) * (rng.random((n, d)) < density)


class BandReference:
    """The ODM loss and its conjugate on arrays: the formulas of docs/internals/mathematics.md."""

    def __init__(self, theta: float, nu: float, costs):
        self.theta, self.nu, self.costs = theta, nu, np.asarray(costs, dtype=float)

    def loss(self, z):
        below, above = np.maximum(0, 1 - self.theta - z), np.maximum(0, z - 1 - self.theta)
        return self.costs * (below**2 + self.nu * above**2)

    def conjugate(self, a):
        side = np.where(a > 0, self.costs, self.nu * self.costs)
        square = np.divide(a * a, 4 * side, out=np.where(a == 0, 0.0, np.inf), where=(side > 0) & (a != 0))
        return -a + self.theta * np.abs(a) + square

    def primal(self, Q, a):
        return 0.5 * a @ Q @ a + self.loss(Q @ a).sum()

    def dual(self, Q, a):
        return -0.5 * a @ Q @ a - self.conjugate(a).sum()


def solve_by_coordinates(Q, theta: float, nu: float, costs, gap: float = 1e-12, sweeps: int = 100_000):
    """Plain cyclic coordinate descent on the dual of ODM in float64 until the gap (relative) is closed."""
    reference = BandReference(theta, nu, costs)
    a = np.zeros(len(Q))
    z = Q @ a
    for sweep in range(sweeps):
        for i in range(len(Q)):
            u = 1 - (z[i] - Q[i, i] * a[i])
            side = costs[i] if u > theta else nu * costs[i]
            new = 0.0
            if abs(u) > theta and side > 0:
                new = (u - np.sign(u) * theta) / (Q[i, i] + 1 / (2 * side))
            z += (new - a[i]) * Q[i]
            a[i] = new
        if sweep % 10 == 9:
            z = Q @ a
            primal = reference.primal(Q, a)
            if primal - reference.dual(Q, a) <= gap * max(1.0, primal):
                return a, primal
    raise AssertionError("the reference did not converge")
