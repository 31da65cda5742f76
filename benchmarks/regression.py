"""Regression beside scikit-learn's SVR and LIBLINEAR: python -m benchmarks.regression [--quick]

Accuracy: diabetes, Friedman's three functions and two other generated sets. 5 splits into halves; C and gamma
by 5-fold cross-validation on the training half, the same grid for both; features and targets scaled by the
training half; epsilon 0.1. R^2 on the other half.

Speed: processor seconds of one thread for training to the same accuracy of the objective, ours divided by the
peer's. LIBLINEAR -s 11 (both to 1e-6 of the optimum), LIBSVM's epsilon-SVR (kernel rbf; another loss).
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import odmlib
from benchmarks._common import Table, has_package, interruptible, parse_arguments, verdict

EPSILON, SPLITS = 0.1, 5
GRID = {"C": [2.0**k for k in range(-3, 10, 2)], "gamma": [2.0**k for k in range(-9, 2, 2)]}


def sets(quick: bool) -> Iterator[tuple[str, Any, Any]]:
    from sklearn import datasets

    yield "diabetes", *datasets.load_diabetes(return_X_y=True)
    for name, noise in (("friedman1", 1.0), ("friedman2", 100.0), ("friedman3", 0.1)):
        yield name, *getattr(datasets, f"make_{name}")(300, noise=noise, random_state=0)
    if quick:
        return
    yield "sparse", *datasets.make_sparse_uncorrelated(400, 10, random_state=0)
    yield "swiss roll", *datasets.make_swiss_roll(400, noise=0.5, random_state=0)


def r_squared(make: Any, X: Any, y: Any, splits: int) -> list[float]:
    from sklearn.model_selection import GridSearchCV

    found = []
    for split in range(splits):
        rows = np.random.default_rng(split).permutation(len(y))
        train, test = rows[: len(y) // 2], rows[len(y) // 2 :]
        centre, spread = X[train].mean(axis=0), X[train].std(axis=0)
        rows_of = (X - centre) / np.where(spread > 0, spread, 1.0)
        targets = (y - y[train].mean()) / y[train].std()
        search = GridSearchCV(make(), GRID, cv=5).fit(rows_of[train], targets[train])
        found.append(search.score(rows_of[test], targets[test]))
    return found


def accuracy(quick: bool) -> None:
    from sklearn.svm import SVR

    from odmlib.sklearn import ODMRegressor

    table = Table("R^2 on held-out rows", ("set", 12), "odmr", "SVR", "difference", "+-")
    differences = []
    for name, X, y in sets(quick):
        splits = 2 if quick else SPLITS
        ours = np.array(r_squared(lambda: ODMRegressor(epsilon=EPSILON, n_jobs=1), X, y, splits))
        theirs = np.array(r_squared(lambda: SVR(epsilon=EPSILON), X, y, splits))
        change = ours - theirs
        error = change.std(ddof=1) / np.sqrt(splits)
        differences.append(change.mean())
        table.add(name, f"{ours.mean():.4f}", f"{theirs.mean():.4f}", f"{change.mean():+.4f}", f"{error:.4f}")
    verdict("regression: mean R^2 less that of SVR", [np.mean(differences)], 0.0, at_least=True)


def objective(X: Any, y: Any, w: Any, C: float) -> float:
    excess = np.maximum(0, np.abs(X @ w[:-1] + w[-1] - y) - EPSILON)
    return 0.5 * w @ w + C * excess @ excess


def processor_seconds(train: Any) -> tuple[float, Any]:
    best, result = np.inf, None
    for _ in range(3):
        begin = time.process_time()
        result = train()
        best = min(best, time.process_time() - begin)
    return best, result


def speed(quick: bool) -> None:
    if not has_package("liblinear", "liblinear-official"):
        print("liblinear-official is not installed: no speed")
        return
    from liblinear.liblinearutil import parameter as liblinear_parameter
    from liblinear.liblinearutil import problem as liblinear_problem
    from liblinear.liblinearutil import train as train_liblinear

    table = Table(
        "linear, seconds of the processor", ("rows", 12), "C", "odmr", "LIBLINEAR", "ratio", "excess, theirs"
    )
    rng = np.random.default_rng(0)
    m, d = (5_000, 10) if quick else (50_000, 30)
    X = rng.standard_normal((m, d))
    y = X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(m)
    ratios = []
    for C in (0.03125, 1.0, 32.0):
        options = {"machine": "odmr", "kernel": "linear", "C": C, "epsilon": EPSILON, "threads": 1}
        ours, _ = processor_seconds(lambda: odmlib.train(X, y, tol=1e-6, **options))  # noqa: B023
        best = odmlib.train(X, y, tol=1e-13, **options).report["primal"]
        data = liblinear_problem(y, X)
        for digits in range(2, 12):  # the loosest tolerance that is good enough
            words = liblinear_parameter(f"-s 11 -p {EPSILON} -c {C} -B 1 -e 1e-{digits} -q")
            theirs, other = processor_seconds(lambda: train_liblinear(data, words))  # noqa: B023
            weights = np.array([*other.get_decfun()[0], other.get_decfun()[1]])
            excess = objective(X, y, weights, C) / best - 1
            if excess <= 1e-6:
                break
        ratios.append(ours / theirs)
        table.add(
            f"{m} x {d}", f"{C:g}", f"{ours:.3f}", f"{theirs:.3f}", f"{ratios[-1]:.2f}", f"{excess:.0e}"
        )
    verdict("regression, linear: time / LIBLINEAR -s 11", ratios, 0.5)


def kernel_speed(quick: bool) -> None:
    from sklearn.datasets import make_friedman1
    from sklearn.svm import SVR

    table = Table("rbf, seconds of the processor", ("rows", 12), "C", "odmr", "LIBSVM", "ratio")
    X, y = make_friedman1(1_000 if quick else 5_000, noise=1.0, random_state=0)
    y = (y - y.mean()) / y.std()
    ratios = []
    for C in (1.0, 32.0):
        options = {"C": C, "gamma": 0.5, "epsilon": EPSILON}
        ours, _ = processor_seconds(lambda: odmlib.train(X, y, machine="odmr", threads=1, **options))  # noqa: B023
        theirs, _ = processor_seconds(lambda: SVR(**options).fit(X, y))  # noqa: B023
        ratios.append(ours / theirs)
        table.add(f"{len(y)} x {X.shape[1]}", f"{C:g}", f"{ours:.3f}", f"{theirs:.3f}", f"{ratios[-1]:.2f}")
    verdict("regression, rbf: time / LIBSVM epsilon-SVR", ratios, 0.4)


def main() -> int:
    arguments = parse_arguments(__doc__)
    warnings.simplefilter("ignore")
    accuracy(arguments.quick)
    speed(arguments.quick)
    kernel_speed(arguments.quick)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
