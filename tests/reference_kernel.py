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
