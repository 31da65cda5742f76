"""The kernel problems of the benchmarks, and one run of odmlib on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks._common import load_set, median_time

THETA = 0.2
TOL = 1e-3
CACHE_MB = 4096
TEST_ROWS = 10_000


@dataclass(frozen=True)
class KernelSet:
    """gamma None: 1 / (columns x variance). `scaling`: "none", "unit" (columns to [0, 1]) or "pixels"."""

    name: str
    gamma: float | None
    C: float
    scaling: str = "none"
    first: float | None = None
    test: str | None = None


SETS = (
    KernelSet("svmguide1", None, 1.0, "unit", test="svmguide1.t"),
    KernelSet("phishing", None, 1.0, "unit"),
    KernelSet("a9a", 0.05, 1.0, test="a9a.t"),
    KernelSet("ijcnn1", 2.0, 10.0, test="ijcnn1.t"),
    KernelSet("SUSY.30k", None, 1.0, "unit"),
    KernelSet("mnist", None, 1.0, "pixels", first=3.0, test="mnist.t"),
)
BY_NAME = {one.name: one for one in SETS}


@dataclass
class KernelProblem:
    label: str
    X: Any
    y: Any
    gamma: float
    C: float
    X_test: Any  # the training rows where the set has no test rows
    y_test: Any
    own_test: bool

    def subset(self, rows: int) -> KernelProblem:
        """Random rows, always the same ones; all where there are no more than that."""
        if len(self.y) <= rows:
            return self
        chosen = np.sort(np.random.default_rng(0).permutation(len(self.y))[:rows])
        X, y = self.X[chosen], self.y[chosen]
        test = (self.X_test, self.y_test) if self.own_test else (X, y)
        return KernelProblem(self.label, X, y, self.gamma, self.C, *test, self.own_test)


def load_problem(given: KernelSet, rows: int | None = None) -> KernelProblem | None:
    """Dense rows, which suit all peers best at these widths; at most `rows` of them."""
    loaded = load_set(given.name, given.first)
    if loaded is None:
        return None
    X, y = loaded[0].toarray(), loaded[1]
    tested = load_set(given.test, given.first, X.shape[1]) if given.test else None
    X_test, y_test = (tested[0].toarray()[:TEST_ROWS], tested[1][:TEST_ROWS]) if tested else (X, y)
    if given.scaling == "pixels":
        X, X_test = X / 255, X_test / 255
    elif given.scaling == "unit":
        low, high = X.min(axis=0), X.max(axis=0)
        spread = np.where(high > low, high - low, 1)
        X, X_test = (X - low) / spread, (X_test - low) / spread
    gamma = 1 / (X.shape[1] * X.var()) if given.gamma is None else given.gamma
    label = f"{given.name}, gamma {gamma:.3g}, C {given.C:g}"
    problem = KernelProblem(label, X, y, gamma, given.C, X_test, y_test, tested is not None)
    return problem if rows is None else problem.subset(rows)


def train_odm(
    problem: KernelProblem,
    threads: int,
    limit: float,
    *,
    C: float | None = None,
    cache_mb: float = CACHE_MB,
    at_most: int = 3,
) -> tuple[float, Any]:
    """Median seconds of training kernel ODM with nu = 1 to the gap, and the model."""
    from odmlib.data.problem import Problem
    from odmlib.machines.training import train_problem
    from odmlib.options import TrainOptions

    options = TrainOptions(
        kernel="rbf", gamma=problem.gamma, C=problem.C if C is None else C, nu=1.0, theta=THETA, tol=TOL,
        cache_mb=cache_mb, threads=threads, time_limit=limit,
    )  # fmt: skip
    data = Problem.from_arrays(problem.X, problem.y)
    train_problem(data.take(few_rows(problem.y)), options)  # imports and first touches are not measured
    return median_time(partial(train_problem, data, options), at_most)


def few_rows(y: Any) -> Any:
    """Some rows of both classes."""
    return np.concatenate([np.flatnonzero(y == sign)[:50] for sign in (1, -1)])


def accuracy(scores: Any, y: Any) -> float:
    """Per cent of rows whose score has the sign of y."""
    return 100 * float(np.mean(np.where(scores > 0, 1, -1) == y))
