"""KM-OMD in a few lines of numpy: objective, lower bound, and a slow solver by plain pair steps."""

from __future__ import annotations

import numpy as np


def quadratic(K, y, lam, weights=None):
    """Q with L = gamma' Q gamma."""
    ridge = np.ones(len(y)) if weights is None else 1 / np.asarray(weights, dtype=float)
    return (1 - lam) * K * np.outer(y, y) + lam * np.diag(ridge)


def objective(K, y, lam, gamma, weights=None):
    return float(gamma @ quadratic(K, y, lam, weights) @ gamma)


def tight_bound(K, y, lam, gamma, weights=None):
    """The bound D for lambda > 0, with rho_y by sorting."""
    weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    scores = K @ (y * gamma)
    z = (1 - lam) * y * scores
    bound = -(1 - lam) * float(gamma @ (y * scores))
    for side in (y > 0, y < 0):
        order = np.argsort(z[side], kind="stable")
        levels, w = z[side][order], weights[side][order]
        rho = (lam + np.cumsum(w * levels)) / np.cumsum(w)
        level = rho[np.flatnonzero(rho > levels)[-1]]
        bound += 2 * level - float((w * np.maximum(0, level - levels) ** 2).sum()) / lam
    return bound


def solve_by_pairs(K, y, lam, weights=None, violation=1e-12, most_steps=200_000):
    """gamma by first-order pair steps in float64."""
    y = np.asarray(y, dtype=float)
    Q = quadratic(K, y, lam, weights)
    gamma = np.zeros(len(y))
    for side in (y > 0, y < 0):
        gamma[side] = 1 / side.sum()
    h = Q @ gamma
    for _ in range(most_steps):
        worst = 0.0
        for side in (np.flatnonzero(y > 0), np.flatnonzero(y < 0)):
            r = side[np.argmin(h[side])]
            support = side[gamma[side] > 0]
            q = support[np.argmax(h[support])]
            worst = max(worst, h[q] - h[r])
            curvature = Q[r, r] + Q[q, q] - 2 * Q[r, q]
            if h[q] <= h[r] or curvature <= 0:
                continue
            step = (h[q] - h[r]) / curvature
            if step >= gamma[q]:
                step, gamma[q] = gamma[q], 0.0
            else:
                gamma[q] -= step
            gamma[r] += step
            h += step * (Q[r] - Q[q])
        if worst <= violation * abs(gamma @ h):
            return gamma
    raise AssertionError("the reference did not converge")
