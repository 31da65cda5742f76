"""Label sets from one fit beside split conformal: coverage and size on 20 real sets.

    python -m benchmarks.conformal [--quick] [--coverage 0.9] [--repeats 10] [--rows 1000]

Each set is standardised and split at random into a training half and a test half, of at most --rows rows
each, --repeats times. `one fit` are the sets of odmlib.train(coverage=True): leave-one-out margins of the
machine that predicts. `split` trains on one half of the training rows and takes the same quantile of the
margins of the other half, which is guaranteed to cover. `folds` takes 5-fold cross-validated margins, as
machines without leave-one-out do. Printed are the mean coverage on the test rows and the mean number of
labels per set. `se` is the standard error of the coverage on one split, over the choice of both halves. All
machines are ODMs with the RBF kernel and default parameters; one thread.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

import numpy as np

import odmlib
from benchmarks._common import Table, data_path, interruptible, parse_arguments, verdict
from odmlib.data.problem import Problem
from odmlib.model.label_sets import threshold_for, thresholds
from odmlib.options import TrainOptions
from odmlib.selection.label_sets import with_label_sets
from odmlib.selection.probabilities import cross_validated_scores

SETS = (
    "australian", "breast-cancer", "diabetes_scale", "fourclass", "german.numer", "heart_scale", "ionosphere",
    "iris", "liver-disorders", "sonar", "splice", "svmguide1", "svmguide3", "svmguide4", "vehicle.scale",
    "vowel.scale", "wine.scale", "segment.scale", "satimage.scale", "dna.scale",
)  # fmt: skip
QUICK = ("heart_scale", "iris", "vehicle.scale")


def standardised(name: str) -> tuple[Any, Any] | None:
    path = data_path(name)
    if path is None:
        return None
    X, y = odmlib.read_data(path)
    X = X.toarray()
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1), y


def covered(inside: Any, codes: Any) -> tuple[float, float]:
    """Part of the rows whose label is in their set, and labels per set."""
    return float(inside[np.arange(len(codes)), codes].mean()), float(inside.sum(axis=1).mean())


def one_fit(X: Any, y: Any, X_test: Any, y_test: Any, coverage: float) -> tuple[float, float]:
    model = odmlib.train(X, y, coverage=True, threads=1)
    return covered(model.predict_set(X_test, coverage), model.codes_of(y_test))


def split(X: Any, y: Any, X_test: Any, y_test: Any, coverage: float) -> tuple[float, float]:
    half = len(y) // 2
    model = odmlib.train(X[:half], y[:half], threads=1)
    known = thresholds(model.margins(X[half:], y[half:]))
    inside = model.sets_for(model.decision_function(X_test), threshold_for(known, coverage))
    return covered(inside, model.codes_of(y_test))


def folds(X: Any, y: Any, X_test: Any, y_test: Any, coverage: float) -> tuple[float, float]:
    options, problem = TrainOptions(threads=1), Problem.from_arrays(X, y)
    model = odmlib.train(X, y, threads=1)
    model = with_label_sets(model, problem, *cross_validated_scores(model, problem, options))
    return covered(model.predict_set(X_test, coverage), model.codes_of(y_test))


METHODS = {"one fit": one_fit, "split": split, "folds": folds}


def measure(name: str, arguments: argparse.Namespace, table: Table) -> tuple[float, float] | None:
    """Distance from the coverage in standard errors, and the size beside split conformal."""
    data = standardised(name)
    if data is None:
        return None
    X, y = data
    size = min(arguments.rows, len(y) // 2)
    found = np.zeros((arguments.repeats, len(METHODS), 2))
    for repeat in range(arguments.repeats):
        order = drawn(y, repeat)
        train, test = order[:size], order[size : 2 * size]
        for place, method in enumerate(METHODS.values()):
            found[repeat, place] = method(X[train], y[train], X[test], y[test], arguments.coverage)
    means = found.mean(axis=0)
    c = arguments.coverage
    error = float(np.sqrt(c * (1 - c) * 2 / size))
    table.add(name, size, f"{error:.3f}", *(f"{value:.3f}" for pair in means for value in pair))
    return abs(float(means[0, 0]) - c) / error, float(means[0, 1] / means[1, 1])


def drawn(y: Any, seed: int) -> Any:
    """A random order whose first rows have every class, so that all machines know all labels."""
    order = np.random.default_rng(seed).permutation(len(y))
    _, firsts = np.unique(y[order], return_index=True)
    rest = np.setdiff1d(np.arange(len(y)), firsts)
    return order[np.concatenate([firsts, np.sort(rest)])]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--coverage", type=float, default=0.9)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1000)


def main() -> int:
    arguments = parse_arguments(__doc__, add_arguments)
    warnings.simplefilter("ignore")
    columns = [f"{name} {what}" for name in METHODS for what in ("cov.", "size")]
    table = Table(
        f"label sets, coverage {arguments.coverage:g}", ("set", 16), ("rows", 5), ("se", 6), *columns
    )
    found = [measure(name, arguments, table) for name in (QUICK if arguments.quick else SETS)]
    known = [one for one in found if one is not None]
    verdict("standard errors between the coverage and its target", [a for a, _ in known], 2.0)
    verdict("labels per set, one fit / split", [b for _, b in known], None)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
