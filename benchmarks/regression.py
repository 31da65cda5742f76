"""Regression beside SVR, LIBLINEAR and oneDAL: python -m benchmarks.regression [--quick] [--speed]

Accuracy: diabetes, Friedman's three functions and two other generated sets. 5 splits into halves; C and gamma
by 5-fold cross-validation on the training half, the same grid for both; features and targets scaled by the
training half; epsilon 0.1. R^2 on the other half. --only SET and --splits N look at one set more closely.

Speed (--speed: only that): processor seconds, summed over the threads, ours divided by the peer's. Linear: to
1e-6 of the optimum, LIBLINEAR -s 11 (liblinear-multicore) by
the loosest of its tolerances that gets there. rbf: epsilon-SVR has another loss, so each machine goes to 1e-3
of its own optimum; LIBSVM and oneDAL (scikit-learn-intelex), also by their loosest tolerance.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import odmlib
from benchmarks._common import Table, bounded, has_package, interruptible, parse_arguments, verdict

EPSILON, SPLITS = 0.1, 5
PATIENCE = 600  # seconds for a peer's tolerances
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


def accuracy(quick: bool, only: str | None, splits: int) -> None:
    from sklearn.svm import SVR

    from odmlib.sklearn import ODMRegressor

    table = Table("R^2 on held-out rows", ("set", 12), "odmr", "SVR", "difference", "+-")
    differences = []
    for name, X, y in sets(quick):
        if only not in (None, name):
            continue
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
    """The least of three runs, all threads together, and the last result."""
    best, result = np.inf, None
    for _ in range(3):
        begin = time.process_time()
        result = train()
        best = min(best, time.process_time() - begin)
    return best, result


def speed(quick: bool) -> None:
    if not has_package("liblinear", "liblinear-multicore"):
        return
    from liblinear.liblinearutil import parameter as liblinear_parameter
    from liblinear.liblinearutil import problem as liblinear_problem
    from liblinear.liblinearutil import train as train_liblinear

    table = Table(
        "linear, processor seconds, LIBLINEAR-multicore",
        *(("rows", 12), "C", "threads", "odmr", "LIBLINEAR", "ratio", "excess, theirs"),
    )
    rng = np.random.default_rng(0)
    m, d = (5_000, 10) if quick else (50_000, 30)
    X = rng.standard_normal((m, d))
    y = X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(m)
    data = liblinear_problem(y, X)
    ratios = []
    for C in (0.03125, 1.0, 32.0):
        options = {"machine": "odmr", "kernel": "linear", "C": C, "epsilon": EPSILON}
        best = odmlib.train(X, y, tol=1e-13, **options).report["primal"]
        for threads in (1, 2):
            ours, _ = processor_seconds(lambda: odmlib.train(X, y, tol=1e-6, threads=threads, **options))  # noqa: B023
            for digits in range(2, 12):
                words = f"-s 11 -p {EPSILON} -c {C} -B 1 -e 1e-{digits} -m {threads} -q"
                settings = liblinear_parameter(words)
                theirs, other = processor_seconds(lambda: train_liblinear(data, settings))  # noqa: B023
                weights = np.array([*other.get_decfun()[0], other.get_decfun()[1]])
                excess = objective(X, y, weights, C) / best - 1
                if excess <= 1e-6:
                    break
            ratios.append(ours / theirs)
            numbers = f"{C:g}", threads, f"{ours:.3f}", f"{theirs:.3f}", f"{ratios[-1]:.2f}", f"{excess:.0e}"
            table.add(f"{m} x {d}", *numbers)
    verdict("regression, linear: time / LIBLINEAR -s 11", ratios, 0.5)


def svr_seconds(package: str, X: Any, y: Any, options: dict[str, float]) -> tuple[float, float, float]:
    """(processor seconds, tolerance, excess): the loosest tolerance with the objective within 1e-3."""
    machine = importlib.import_module(f"{package}.svm").SVR
    K = rbf_matrix(X, options["gamma"])

    def value(model: Any) -> float:
        duals = np.zeros(len(y))
        duals[model.support_] = model.dual_coef_.ravel()
        change = K @ duals
        residuals = np.abs(change + model.intercept_ - y) - options["epsilon"]
        return float(0.5 * duals @ change + options["C"] * np.maximum(0, residuals).sum())

    best = value(machine(tol=1e-5, **options).fit(X, y))
    for tol in (0.3, 0.1, 0.03, 0.01, 0.003, 1e-3, 3e-4, 1e-4):
        excess = value(machine(tol=tol, **options).fit(X, y)) / best - 1
        if excess <= 1e-3:
            break
    seconds, _ = processor_seconds(lambda: machine(tol=tol, **options).fit(X, y))
    return seconds, tol, excess


def rbf_matrix(X: Any, gamma: float) -> Any:
    lengths = np.square(X).sum(axis=1)
    return np.exp(-gamma * np.maximum(0, lengths[:, None] + lengths - 2 * X @ X.T))


def kernel_speed(quick: bool) -> None:
    from sklearn.datasets import make_friedman1

    columns = ("rows", 12), "C", ("peer", 8), "odmr", "peer's", "ratio", "its tol", "excess"
    table = Table("rbf, processor seconds, 1e-3 of the own optimum", *columns)
    X, y = make_friedman1(1_000 if quick else 3_000, noise=1.0, random_state=0)
    y = (y - y.mean()) / y.std()
    for peer, package, project in (
        ("LIBSVM", "sklearn", "scikit-learn"),
        ("oneDAL", "sklearnex", "scikit-learn-intelex"),
    ):
        if not has_package(package, project):
            continue
        ratios = []
        for C in (1.0, 32.0):
            options = {"C": C, "gamma": 0.5, "epsilon": EPSILON}
            ours, _ = processor_seconds(
                lambda: odmlib.train(X, y, machine="odmr", tol=1e-3, threads=1, **options)  # noqa: B023
            )
            found = bounded(partial(svr_seconds, package, X, y, options), PATIENCE)
            if found is None:
                print(f"{peer}: no answer in {PATIENCE} seconds")
                continue
            theirs, tol, excess = found
            ratios.append(ours / theirs)
            numbers = f"{ours:.3f}", f"{theirs:.3f}", f"{ratios[-1]:.2f}", f"{tol:g}", f"{excess:.0e}"
            table.add(f"{len(y)} x {X.shape[1]}", f"{C:g}", peer, *numbers)
        if ratios:
            verdict(f"regression, rbf: time / {peer} epsilon-SVR", ratios, 0.4)


def main() -> int:
    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--speed", action="store_true", help="only the speed")

        parser.add_argument("--only", metavar="SET", help="only the accuracy, on this set")
        parser.add_argument("--splits", type=int, help=f"splits of a set into halves (default: {SPLITS})")

    arguments = parse_arguments(__doc__, add)
    warnings.simplefilter("ignore")
    if not arguments.speed:
        accuracy(arguments.quick, arguments.only, arguments.splits or (2 if arguments.quick else SPLITS))
    if arguments.only:
        return 0
    speed(arguments.quick)
    kernel_speed(arguments.quick)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
