"""What the protocols of the papers share: scaling, splits, and parameters by cross-validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import odmlib
from benchmarks import data
from odmlib.data.problem import Problem
from odmlib.machines.training import make_settings
from odmlib.selection.cross_validation import cross_validate
from odmlib.selection.path_run import FoldPaths, PathRun, Rate
from odmlib.solvers.control import Control

FIT_SECONDS = 10.0  # of one training while parameters are chosen
Options = Mapping[str, Any]


def scaled(name: str, most_rows: int | None = None, seed: int = 0) -> tuple[Any, Any]:
    """Rows with features in [0, 1], as all papers but KM-OMD's have them; at most so many, drawn at random.

    Sparse rows without negative values stay sparse.
    """
    X, y = data.load(name)
    low, high = X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
    if most_rows is not None and len(y) > most_rows:
        rows = np.random.default_rng(seed).permutation(len(y))[:most_rows]
        X, y = X[rows], y[rows]
    spread = np.where(high > low, high - low, 1.0)
    if X.shape[1] > 1000 and not (low < 0).any():
        return X.multiply(1 / spread).tocsr(), y
    return (X.toarray() - low) / spread, y


def two_classes(y: Any) -> Any:
    return np.where(y == y.max(), 1, -1)


def split(n: int, part: float, repeat: int) -> tuple[Any, Any]:
    """(training rows, test rows), at random."""
    order = np.random.default_rng(1000 + repeat).permutation(n)
    n_train = round(part * n)
    return order[:n_train], order[n_train:]


def chosen(
    X: Any, y: Any, points: Sequence[Options], fixed: Options, folds: int = 5, seed: int = 0
) -> Options:
    """The point with the best cross-validated accuracy on these rows; the first of several.

    Points that differ in lambda only are validated along it, each from the solution of the one before, where
    the machine can: with the grid of the ODM paper that takes a third of the time.
    """
    if len(points) == 1:
        return points[0]
    problem = Problem.from_arrays(X, y)
    paths, rates = FoldPaths(problem, folds, seed), np.zeros(len(points))
    chains: dict[tuple[tuple[str, Any], ...], list[int]] = {}
    for place, point in enumerate(points):
        rest = {name: value for name, value in point.items() if name != "lambda_"}
        chains.setdefault(tuple(rest.items()), []).append(place)
    # the kernel rows of one gamma stay for all of its chains
    for chain in sorted(chains.values(), key=lambda chain: str(points[chain[0]].get("gamma"))):
        chain.sort(key=lambda place: points[place].get("lambda_", 0.0))
        options = {"threads": 1, "seed": seed, "time_limit": FIT_SECONDS}
        settings = [make_settings({**fixed, **points[place], **options}) for place in chain]
        if len(chain) == 1 or not paths.suits(settings[0]):
            for place, setting in zip(chain, settings, strict=True):
                rates[place] = cross_validate(problem, setting, folds).accuracy
            continue
        control = Control(settings[0].tol, settings[0].max_iter, FIT_SECONDS * len(chain) * folds)

        def keep(place: int, rate: Rate, chain: list[int] = chain) -> None:
            rates[chain[place]] = rate.score

        PathRun(paths, settings, control, keep).run()
    return points[int(rates.argmax())]


def trained(X: Any, y: Any, *options: Options) -> odmlib.Model:
    together: dict[str, Any] = {"threads": 1}
    for one in options:
        together |= one
    return odmlib.train(X, y, **together)


def accuracy(model: odmlib.Model, X: Any, y: Any) -> float:
    return float((model.predict(X, threads=1) == y).mean())
