"""A slow and plain NumPy solver of the linear machine's primal, for comparison in tests.

Full Newton steps on dense arrays, halved until P falls, polished until the gradient stops shrinking. It
shares no code with odmlib.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Reference:
    X: np.ndarray  # bias column included
    y: np.ndarray
    costs: np.ndarray
    theta: float
    nu: float
    targets: np.ndarray | float = 0.0  # taken off the scores

    def parts(self, w):
        z = self.y * (self.X @ w) - self.targets
        return np.maximum(0, 1 - self.theta - z), np.maximum(0, z - 1 - self.theta)

    def primal(self, w) -> float:
        short, over = self.parts(w)
        return 0.5 * w @ w + np.sum(self.costs * (short**2 + self.nu * over**2))

    def gradient(self, w):
        short, over = self.parts(w)
        return w + self.X.T @ (self.y * 2 * self.costs * (self.nu * over - short))

    def duals(self, w):
        short, over = self.parts(w)
        return 2 * self.costs * (short - self.nu * over)

    def hessian(self, w):
        short, over = self.parts(w)
        coefficients = 2 * self.costs * ((short > 0) + self.nu * (over > 0))
        return np.eye(len(w)) + self.X.T @ (coefficients[:, None] * self.X)

    def solve(self):
        w = np.zeros(self.X.shape[1])
        for _ in range(200):
            gradient = self.gradient(w)
            if np.linalg.norm(gradient) <= 1e-14 * np.abs(self.duals(w)).sum():
                return w
            step = np.linalg.solve(self.hessian(w), -gradient)
            t = 1.0
            while self.primal(w + t * step) > self.primal(w) and t > 1e-10:
                t /= 2
            closer = w + t * step
            smaller = np.linalg.norm(self.gradient(closer)) < np.linalg.norm(gradient)
            if not smaller and self.primal(closer) >= (1 - 1e-15) * self.primal(w):
                return w
            w = closer
        # 1/2 |gradient|^2 bounds what is left to gain
        assert 0.5 * self.gradient(w) @ self.gradient(w) <= 1e-13 * self.primal(w), (
            "the reference did not settle"
        )
        return w


def with_bias(X, bias):
    X = np.asarray(X, dtype=float)
    return np.hstack([X, np.full((len(X), 1), float(bias))]) if bias else X


def reference(X, y, *, C=1.0, nu=0.5, theta=0.2, bias=1.0, weights=None) -> Reference:
    """The problem that odmlib.train(X, y, kernel="linear", ...) states; y is +1 or -1."""
    weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    return Reference(
        with_bias(X, bias), np.asarray(y, dtype=float), C * weights / (1 - theta) ** 2, theta, nu
    )


def random_problem(n=60, d=5, seed=0, noise=0.5):
    """Rows of two overlapping classes, the first of them +1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.where(X @ rng.standard_normal(d) + noise * rng.standard_normal(n) > 0.3, 1.0, -1.0)
    y[:2] = [1, -1]
    return X, y
