"""Bias and gamma of the rbf kernel where neither is given: ODM beside scikit-learn's SVC with all defaults.

    python -m benchmarks.rbf_defaults                      all sets, 5 folds, 10 repeats
    python -m benchmarks.rbf_defaults --repeats 2 --only heart ionosphere

Accuracy in % by cross-validation, C = 1, all classes of a set. A set with more rows than --rows gives as
many of them, drawn anew for each repeat. Features are scaled in two ways: to mean 0 and variance 1, and to
[0, 1]. Folds, rows and scaling are the same for all columns. The sets of CHOOSE are there to choose a
default, those of VERIFY to see whether the choice holds; sets of the same origin are in the same half.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks._common import Table, has_package, interruptible, parse_arguments
from odmlib.data.folds import stratified_folds
from odmlib.data.problem import Problem
from odmlib.machines.training import make_settings, train_problem

CHOOSE = (
    "australian", "banana", "breast-cancer", "chess-krvkp", "colic", "colon-cancer", "credit-a", "diabetes",
    "dna.scale", "fourclass", "glass", "hepatitis", "ionosphere", "letter", "liverDisorders", "mnist",
    "phishing", "planning", "sonar", "splice", "svmguide1", "svmguide2", "thyroid", "titanic", "vehicle",
)  # fmt: skip
VERIFY = (
    "a9a", "breast", "clean1", "connect-4", "covtype.binary.5k", "echocardiogram", "german", "credit-g",
    "haberman", "heart-statlog", "house", "ijcnn1", "image", "iris", "parkinsons", "pendigits", "promoters",
    "ringnorm", "satimage", "segment", "shuttle", "svmguide3", "svmguide4", "twonorm", "vowel", "waveform",
    "wdbc", "wine",
)  # fmt: skip
FOLDS = 5
COLUMNS: dict[str, dict[str, Any]] = {
    f"{gamma}, {'bias ' + format(bias, 'g') if bias > 0 else 'none'}": {"gamma": gamma, "bias": bias}
    for gamma in ("scale", "auto", "mean")
    for bias in (-1, 1)
}


def standard(X: Any) -> Any:
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def unit_range(X: Any) -> Any:
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / np.where(high > low, high - low, 1.0)


SCALINGS: dict[str, Callable[[Any], Any]] = {"standard": standard, "[0, 1]": unit_range}


def folds_of(name: str, scaling: str, repeat: int, most_rows: int) -> Iterator[tuple[Any, Any, Any, Any]]:
    """(training rows, their labels, test rows, their labels) of each fold."""
    X, y = data.load(name)
    if len(y) > most_rows:
        rows = np.random.default_rng(repeat).permutation(len(y))[:most_rows]
        X, y = X[rows], y[rows]
    X, codes = SCALINGS[scaling](X.toarray()), np.unique(y, return_inverse=True)[1]
    folds = stratified_folds(codes, FOLDS, repeat)
    for k in range(FOLDS):
        yield X[folds != k], codes[folds != k], X[folds == k], codes[folds == k]


def ours(options: dict[str, Any]) -> Callable[[Any, Any, Any], Any]:
    def predicted(X: Any, y: Any, test: Any) -> Any:
        settings = make_settings({"threads": 1, **options})
        return train_problem(Problem.from_arrays(X, y), settings).predict(test, threads=1)

    return predicted


def peer(X: Any, y: Any, test: Any) -> Any:
    from sklearn.svm import SVC

    return SVC().fit(X, y).predict(test)


def measure(
    name: str, scaling: str, who: dict[str, Callable[[Any, Any, Any], Any]], repeats: int, most_rows: int
) -> tuple[list[float], list[float]]:
    """Mean accuracy in % and processor seconds of each."""
    right, seconds, tested = np.zeros(len(who)), np.zeros(len(who)), 0
    for repeat in range(repeats):
        for X, y, test, labels in folds_of(name, scaling, repeat, most_rows):
            tested += len(labels)
            for k, predicted in enumerate(who.values()):
                started = time.process_time()
                right[k] += int((predicted(X, y, test) == labels).sum())
                seconds[k] += time.process_time() - started
    return list(100 * right / tested), list(seconds)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", default=[*CHOOSE, *VERIFY], help="names of sets")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1000, help="at most so many of a set")
    parser.add_argument("--scaling", nargs="+", choices=list(SCALINGS), default=list(SCALINGS))
    parser.add_argument("--bias", nargs="+", type=float, help="measure these values with gamma scale instead")
    parser.add_argument("--C", nargs="+", type=float, help="measure these values with gamma scale instead")


def main() -> int:
    arguments = parse_arguments(__doc__, add_arguments)
    warnings.simplefilter("ignore")
    columns = COLUMNS
    if arguments.bias:
        columns = {f"scale, bias {bias:g}": {"bias": bias} for bias in arguments.bias}
    if arguments.C:
        columns = {f"scale, C {C:g}": {"C": C} for C in arguments.C}
    who = {title: ours(options) for title, options in columns.items()}
    if has_package("sklearn", "scikit-learn"):
        who["SVC"] = peer
    repeats = 1 if arguments.quick else arguments.repeats
    for scaling in arguments.scaling:
        table = Table(f"features scaled: {scaling}", ("set", 18), *who)
        for title, half in (("choose", CHOOSE), ("verify", VERIFY)):
            names = [name for name in half if name in arguments.only and data.is_here(name)]
            found, times = [], np.zeros(len(who))
            for name in names:
                accuracies, seconds = measure(name, scaling, who, repeats, arguments.rows)
                found.append(accuracies)
                times += seconds
                table.add(name, *(f"{accuracy:.2f}" for accuracy in accuracies))
            if found:
                table.add(f"mean, {title}", *(f"{mean:.2f}" for mean in np.mean(found, axis=0)))
                table.add("seconds", *(f"{total:.1f}" for total in times))
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
