"""ssODM the slow way: oracles, and small problems solved by scipy."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize


@dataclass(frozen=True)
class Tiny:
    """A tiny problem with the labeled rows first; `n_plus` of the open ones are positive."""

    x: np.ndarray
    y: np.ndarray  # of the labeled rows
    lambda1: float
    lambda2: float
    nu: float
    theta: float
    n_plus: int
    gamma: float | None = None  # RBF; None: linear
    bias: float = 0.0

    @property
    def given(self) -> np.ndarray:
        return np.concatenate([self.y, np.zeros(len(self.x) - len(self.y))]).astype(np.int8)

    @property
    def weights(self) -> np.ndarray:
        n_open = len(self.x) - len(self.y)
        return np.concatenate(
            [np.full(len(self.y), self.lambda1 / len(self.y)), np.full(n_open, self.lambda2 / n_open)]
        )

    @property
    def costs(self) -> np.ndarray:
        return self.weights / (1 - self.theta) ** 2

    @property
    def K(self) -> np.ndarray:
        if self.gamma is None:
            return self.x @ self.x.T + self.bias**2
        squares = np.square(self.x[:, None] - self.x[None]).sum(axis=2)
        return np.exp(-self.gamma * squares)

    def assignments(self) -> np.ndarray:
        """All of B (rows x members), positives in lexicographic order."""
        n_open = len(self.x) - len(self.y)
        columns = []
        for chosen in itertools.combinations(range(n_open), self.n_plus):
            labels = -np.ones(n_open)
            labels[list(chosen)] = 1
            columns.append(np.concatenate([self.y, labels]))
        return np.ascontiguousarray(np.array(columns, dtype=np.int8).T)


def objective(tiny: Tiny, labels: np.ndarray) -> float:
    """min_w P(w; labels) by a general method on the dual."""
    Q = tiny.K * np.outer(labels, labels)
    return -_minimise(lambda a: _dual(tiny, a, [Q]), len(labels))[0]


def relaxed(tiny: Tiny, members: np.ndarray) -> tuple[float, np.ndarray]:
    """J on the given members, and a*: max delta subject to G(a, yhat_k) >= delta, by SLSQP."""
    m = len(members)
    Qs = [tiny.K * np.outer(labels, labels) for labels in members.T]

    def split(x):
        return x[:m] - x[m : 2 * m]

    def part(x, Q):
        a, zeta, beta = split(x), x[:m], x[m : 2 * m]
        bend = (1 - tiny.theta) ** 2 / (2 * tiny.weights)
        value = 0.5 * a @ Q @ a + 0.5 * (bend * (zeta**2 + beta**2 / tiny.nu)).sum()
        value += (-(1 - tiny.theta) * zeta + (1 + tiny.theta) * beta).sum()
        slope = Q @ a
        return value, np.concatenate(
            [
                slope + bend * zeta - (1 - tiny.theta),
                -slope + bend * beta / tiny.nu + (1 + tiny.theta),
            ]
        )

    constraints = [
        {
            "type": "ineq",
            "fun": lambda x, Q=Q: -x[-1] - part(x, Q)[0],
            "jac": lambda x, Q=Q: np.append(-part(x, Q)[1], -1.0),
        }
        for Q in Qs
    ]
    result = minimize(
        lambda x: (-x[-1], np.append(np.zeros(2 * m), -1.0)),
        np.append(np.full(2 * m, 1e-2), -10.0),
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * (2 * m) + [(None, None)],
        constraints=constraints,
        options={"maxiter": 2000, "ftol": 1e-13},
    )
    return float(result.x[-1]), split(result.x)


def _dual(tiny: Tiny, a: np.ndarray, Qs: list[np.ndarray]) -> tuple[float, np.ndarray]:
    bend = (1 - tiny.theta) ** 2 / (2 * tiny.weights) * np.where(a > 0, 1.0, 1 / tiny.nu)
    value = 0.5 * a @ Qs[0] @ a + (-a + tiny.theta * np.abs(a) + 0.5 * bend * a * a).sum()
    return value, Qs[0] @ a


def _minimise(function, m: int) -> tuple[float, np.ndarray]:
    """A convex function with kinks at 0: in a = zeta - beta, both >= 0, it has none."""

    def smooth(x):
        return function(x[:m] - x[m:])[0] if not (x[:m] * x[m:]).any() else _above(x)

    def _above(x):
        shared = np.minimum(x[:m], x[m:])
        return function(x[:m] - x[m:])[0] + 10 * shared.sum()

    best = minimize(
        smooth, np.full(2 * m, 1e-3), method="L-BFGS-B", bounds=[(0, None)] * 2 * m, options={"maxiter": 5000}
    )
    return float(best.fun), best.x[:m] - best.x[m:]


_LINE = np.array([[2.0], [-2.0], [1.0], [-1.0]])
_PLANE = np.array([[0.0, 0.0], [3.0, 3.0], [1.0, 0.0], [0.0, 1.0], [2.0, 3.0], [3.0, 2.0]])
_SIGNS = np.array([1.0, -1.0])
A = Tiny(_LINE, _SIGNS, 2.0, 2.0, 1.0, 0.0, 1)
B = Tiny(_LINE, _SIGNS, 4.0, 2.0, 0.5, 0.5, 1)
C = Tiny(_PLANE, _SIGNS, 10.0, 10.0, 0.5, 0.2, 2, bias=1.0)
C_RBF = replace(C, gamma=0.5, bias=0.0)
D = replace(
    C_RBF,
    x=np.array([[0.0, 0.0], [3.0, 3.0], [1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [3.0, 2.0]]),
    lambda2=100.0,
)
# tiny problem, P of every member of B, J(B)
ORACLES = {
    "A": (A, [4 / 7, 76 / 21], 2 / 5),
    "B": (B, [2 / 17, 582 / 145], 2 / 17),
    "C": (
        C,
        [0.789924606, 13.257146363, 2.242775060, 2.242775060, 13.257146363, 19.250794040],
        0.729802192,
    ),
    "C with RBF": (C_RBF, None, 0.905795525),
    "D": (
        D,
        [1.373434590, 2.628063451, 4.508480102, 3.614682538, 3.644980352, 4.782191834],
        1.354647108,
    ),
}
