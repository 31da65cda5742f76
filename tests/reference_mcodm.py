"""Slow, plain oracles for the multi-class machine (docs/internals/mathematics.md, "mcODM")."""

from __future__ import annotations

from fractions import Fraction

import numpy as np


def exact_block(scores, label, curvature, h, nu, theta, other=None, reference=0):
    """(zeta, beta) in exact arithmetic: prefixes of the sorted classes until the KKT conditions hold.

    `other` is q of the majorised problem, None the frozen one with its constant `reference`.
    """
    A, h, nu, theta = (Fraction(value) for value in (curvature, h, nu, theta))
    k = len(scores)
    B = [Fraction(value) + (0 if c == label else 1 - theta) for c, value in enumerate(scores)]
    wrong = [c for c in range(k) if c != label]
    for above in (False, True) if nu > 0 else (False,):
        allowed = [c for c in wrong if not (above and c == other)]
        order = sorted(allowed, key=lambda c: -B[c])
        for n in range(len(order) + 1):
            solution = _candidate(B, order[:n], label, other, reference, above, A, h, nu, theta)
            if _is_optimal(*solution, B, wrong, label, other, reference, A, h, nu, theta):
                zeta, beta = solution
                return [zeta.get(c, Fraction(0)) for c in range(k)], beta
    raise AssertionError("no KKT point found")


def _candidate(B, active, label, other, reference, above, A, h, nu, theta):
    """Stationary point with the given positive multipliers, by Gaussian elimination."""
    n = len(active)
    size = n + above
    M = [[Fraction(0)] * size for _ in range(size)]
    right = [Fraction(0)] * size
    for a, c in enumerate(active):  # A zeta_l + (A+h) T - A beta = B_l - B_y
        right[a] = B[c] - B[label]
        for b in range(n):
            M[a][b] = A + h + (A if a == b else 0)
        if above:
            M[a][n] = -A
    if above:
        if other is None:  # (A + h/nu) beta - A T = B_y - M - 1 - theta
            M[n][n] = A + h / nu
            right[n] = B[label] - Fraction(reference) - 1 - theta
        else:  # (2A + h/nu) beta - A T = B_y - B_q - 2 theta
            M[n][n] = 2 * A + h / nu
            right[n] = B[label] - B[other] - 2 * theta
        for b in range(n):
            M[n][b] = -A
    x = _solve(M, right)
    return dict(zip(active, x[:n], strict=True)), x[n] if above else Fraction(0)


def _solve(M, right):
    n = len(right)
    rows = [[*M[i], right[i]] for i in range(n)]
    for i in range(n):
        pivot = next(r for r in range(i, n) if rows[r][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for r in range(n):
            if r != i and rows[r][i] != 0:
                rows[r] = [a - rows[r][i] * b for a, b in zip(rows[r], rows[i], strict=True)]
    return [rows[i][n] for i in range(n)]


def _is_optimal(zeta, beta, B, wrong, label, other, reference, A, h, nu, theta):
    if beta < 0 or any(value < 0 for value in zeta.values()):
        return False
    T = sum(zeta.values(), Fraction(0))
    for c in wrong:
        v = -zeta.get(c, Fraction(0)) + (beta if c == other else 0)
        slope = -(A * v + B[c]) + A * (T - beta) + h * T + B[label]  # of the objective along zeta_l
        if slope < 0 or (zeta.get(c, 0) > 0 and slope != 0):
            return False
    if nu == 0:
        return beta == 0
    v_y = T - beta
    if other is None:
        slope = h / nu * beta + Fraction(reference) + 1 + theta - (A * v_y + B[label])
    else:
        v_q = beta - zeta.get(other, Fraction(0))
        slope = h / nu * beta + 2 * theta + (A * v_q + B[other]) - (A * v_y + B[label])
    return slope >= 0 and (beta == 0 or slope == 0)


def objective(X, labels, costs, nu, theta, weights):
    """J, and the margins; X has its bias column."""
    scores = X @ weights
    rows = np.arange(len(labels))
    own = scores[rows, labels]
    scores[rows, labels] = -np.inf
    margins = own - scores.max(axis=1)
    losses = np.maximum(0, 1 - theta - margins) ** 2 + nu * np.maximum(0, margins - 1 - theta) ** 2
    return 0.5 * np.sum(weights**2) + costs @ losses, margins


def relaxed_values(X, labels, costs, nu, theta, zeta, beta, others, references=None):
    """(w, primal, dual) of the relaxed problem at multipliers; others: q, or None with references M."""
    rows = np.arange(len(labels))
    v = -zeta.copy()
    T = zeta.sum(axis=1)
    v[rows, labels] += T - beta
    if others is not None:
        v[rows, others] += beta
    w = X.T @ v
    scores = X @ w
    own = scores[rows, labels]
    reference = references if others is None else scores[rows, others]
    wrong = scores.copy()
    wrong[rows, labels] = -np.inf
    below = np.maximum(0, 1 - theta - own + wrong.max(axis=1))
    above = np.maximum(0, own - reference - 1 - theta)
    h = 0.5 / costs
    half = 0.5 * np.sum(w**2)
    primal = half + costs @ (below**2 + nu * above**2)
    r = 1 + theta + (references if others is None else 0)
    curved = h * beta**2 / (2 * nu) if nu > 0 else 0
    dual = -half + np.sum((1 - theta) * T - h * T**2 / 2 - curved - r * beta)
    return w, primal, dual
