"""mcODM (Zhang and Zhou 2017): Table 2 and Figures 1, 2, 3.

Protocol as printed: features in [0, 1], four fifths of the rows train, parameters by 5 folds on them:
lambda or C from 2^0, 2^2 .. 2^20, mu (our nu) and theta from 0.2 .. 0.8; linear kernel, no bias. mcODM
has 176 points of the grid and the others 11. The columns "11 points" and "with bias" are ours: mcODM with
nu 0.5 and theta 0.2, and the two best known machines with a bias. mcSVM is LIBLINEAR -s 4; ecocSVM has the
printed exhaustive codes up to 7 classes, and 63 of them, drawn at random, for more.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks._common import bounded
from benchmarks.papers._protocol import FIT_SECONDS, accuracy, chosen, scaled, split, trained
from benchmarks.papers._study import Numbers, Study

METHODS = (
    "mcSVM",
    "ovaSVM",
    "ovoSVM",
    "ecocSVM",
    "mcODM",
    "mcODM, 11 points",
    "mcODM, with bias",
    "mcSVM, with bias",
)
MOST_ROWS, QUICK_ROWS = 20_000, 1_500
MOST_CODES = 63  # all of 7 classes: exhaustive codes train 2^(k-1) - 1 machines

TABLE2 = {  # mcSVM, ovaSVM, ovoSVM, ecocSVM, mcODM
    "iris": (84.7, 82.0, 73.0, 73.3, 87.3),
    "wine": (96.5, 97.0, 96.8, 91.6, 98.4),
    "glass": (62.0, 57.8, 62.4, 60.4, 68.2),
    "svmguide2": (80.9, 81.5, 74.6, 79.0, 84.1),
    "svmguide4": (86.6, 77.2, 77.1, 74.2, 87.8),
    "vehicle": (80.5, 78.5, 73.5, 76.9, 85.6),
    "vowel": (65.4, 44.1, 71.1, 43.1, 65.6),
    "segment": (95.3, 92.3, 93.2, 90.7, 96.7),
    "dna": (95.1, 95.1, 93.0, 90.9, 95.6),
    "satimage": (81.8, 80.1, 77.4, 76.0, 89.1),
    "usps": (95.1, 94.2, 94.5, 92.3, 95.1),
    "sector": (93.3, 93.1, 89.9, None, 93.6),
    "pendigits": (94.8, 91.8, 95.7, 87.6, 96.7),
    "news20": (83.3, 83.0, 69.4, None, 83.6),
    "letter": (76.9, 64.9, 75.7, None, 82.7),
    "protein": (68.7, 68.7, 68.1, 66.5, 70.2),
    "shuttle": (97.2, 89.9, 97.4, 84.2, 99.6),
    "connect-4": (75.7, 75.7, 75.7, 75.1, 94.4),
    "mnist": (92.5, 91.5, 90.9, 87.6, 95.2),
    "aloi": (90.1, 82.2, None, None, 91.4),
    "rcv1": (92.8, 92.7, 92.1, None, 93.0),
    "covtype": (71.7, 71.2, 72.7, 70.6, 72.8),
}


def machine_of(method: str) -> dict[str, Any]:
    name, _, more = method.partition(", ")
    kinds = {
        "ovaSVM": {"machine": "svm", "multiclass": "ovr"},
        "ovoSVM": {"machine": "svm", "multiclass": "ovo"},
        "mcODM": {"machine": "mcodm"},
    }
    return kinds[name] | {"kernel": "linear", "bias": 1 if more == "with bias" else -1}


def points(method: str, quick: bool) -> list[dict[str, Any]]:
    powers = range(0, 21, 5 if quick else 2)
    if not method.startswith("mcODM"):
        return [{"C": 2.0**k} for k in powers]
    inner = (0.2, 0.6) if quick else (0.2, 0.4, 0.6, 0.8)
    pairs = [(0.5, 0.2)] if method.endswith("points") else list(itertools.product(inner, inner))
    return [{"lambda_": 2.0**k, "nu": nu, "theta": theta} for k in powers for nu, theta in pairs]


Fit = Callable[[Any, Any, float, Any], tuple[Any, float] | None]


def liblinear(X: Any, y: Any, C: float, Z: Any, bias: int, limit: float) -> tuple[Any, float] | None:
    """mcSVM: labels of the rows Z, and seconds of training; None when that takes too long."""
    from liblinear.liblinearutil import predict, train
    from scipy.sparse import csr_matrix

    def work() -> tuple[Any, float]:
        started = time.process_time()
        model = train(y, csr_matrix(X), f"-s 4 -c {C!r} -B {bias} -q")
        seconds = time.process_time() - started
        return np.array(predict([], csr_matrix(Z), model, "-q")[0]), seconds

    return bounded(work, limit)


def code_table(n_classes: int) -> Any:
    """A row per class, a column for each way to divide the classes in two; of very many some at random."""
    n_codes = 2 ** (n_classes - 1) - 1
    if n_codes <= MOST_CODES:
        numbers = np.arange(1, n_codes + 1)
    else:
        numbers = 1 + np.random.default_rng(0).choice(n_codes, MOST_CODES, replace=False)
    return np.where(numbers >> np.arange(n_classes)[:, None] & 1, -1, 1)  # the last class is always 1


def output_codes(X: Any, y: Any, C: float, Z: Any) -> tuple[Any, float]:
    """ecocSVM: a machine for each column of the table; the nearest code by Hamming distance."""
    labels = np.unique(y)
    table = code_table(len(labels))
    fixed = {"machine": "svm", "kernel": "linear", "bias": -1, "C": C, "time_limit": FIT_SECONDS}
    started = time.process_time()
    machines = [trained(X, column[np.searchsorted(labels, y)], fixed) for column in table.T]
    seconds = time.process_time() - started
    return labels[(table @ np.array([one.predict(Z) for one in machines])).argmax(axis=0)], seconds


def by_folds(X: Any, y: Any, Cs: list[float], fit: Fit, folds: int, seed: int) -> float:
    """The best C of a machine that is not ours; the first of several."""
    from odmlib.data.folds import stratified_folds

    places = stratified_folds(np.unique(y, return_inverse=True)[1], folds, seed)

    def right(C: float) -> int:
        total = 0
        for fold in range(folds):
            inside, outside = places != fold, places == fold
            found = fit(X[inside], y[inside], C, X[outside])
            if found is None:
                return -1
            total += int((found[0] == y[outside]).sum())
        return total

    return max(Cs, key=right)


def table_cell(name: str, repeat: int, method: str, quick: bool) -> Numbers:
    X, y = scaled(name, QUICK_ROWS if quick else MOST_ROWS, seed=repeat)
    inside, outside = split(len(y), 0.8, repeat)
    return evaluated(X[inside], y[inside], X[outside], y[outside], repeat, method, quick)


def evaluated(X: Any, y: Any, X_test: Any, y_test: Any, repeat: int, method: str, quick: bool) -> Numbers:
    """Accuracy in percent, and processor seconds of the last training."""
    folds = 3 if quick else 5
    if method.startswith("mcSVM") or method == "ecocSVM":
        bias = 1 if method.endswith("bias") else -1
        fit: Fit = (
            output_codes
            if method == "ecocSVM"
            else partial(liblinear, bias=bias, limit=2.0 if quick else FIT_SECONDS)
        )
        C = by_folds(X, y, [point["C"] for point in points(method, quick)], fit, folds, repeat)
        found = fit(X, y, C, X_test)
        if found is None:
            return {}
        return {"accuracy": 100 * float((found[0] == y_test).mean()), "seconds": found[1]}
    fixed = machine_of(method)
    best = chosen(X, y, points(method, quick), fixed, folds=folds, seed=repeat)
    started = time.process_time()
    model = trained(X, y, fixed, best)
    seconds = time.process_time() - started
    return {"accuracy": 100 * accuracy(model, X_test, y_test), "seconds": seconds}


def accuracy_by_classes(name: str, repeat: int, method: str, quick: bool) -> Numbers:
    """Accuracy on the first k classes."""
    X, y = scaled(name, QUICK_ROWS if quick else None, seed=repeat)
    labels, found = np.unique(y), {}
    for k in range(2, len(labels) + 1):
        rows = np.flatnonzero(y <= labels[k - 1])
        inside, outside = split(len(rows), 0.8, repeat)
        train, test = rows[inside], rows[outside]
        numbers = evaluated(X[train], y[train], X[test], y[test], repeat, method, quick)
        if "accuracy" in numbers:
            found[str(k)] = numbers["accuracy"]
    return found


def margin_curve(name: str, repeat: int, method: str, quick: bool) -> Numbers:
    """Part of the training rows with a margin below x; margins are divided by their mean absolute value."""
    X, y = scaled(name)
    inside, _ = split(len(y), 0.8, repeat)
    X, y = X[inside], np.unique(y[inside], return_inverse=True)[1]
    fixed = machine_of(method)
    model = trained(X, y, fixed, chosen(X, y, points(method, quick), fixed, folds=3, seed=repeat))
    scores = model.decision_function(X)
    rows, own = np.arange(len(y)), np.argsort(model.labels)[y]
    margins = scores[rows, own].copy()
    scores[rows, own] = -np.inf
    margins = (margins - scores.max(axis=1)) / np.abs(margins - scores.max(axis=1)).mean()
    return {f"{x:.2f}": float((margins <= x).mean()) for x in np.linspace(-1, 4, 51)}


PRINTED = {
    name: {method: value for method, value in zip(METHODS, values, strict=False) if value is not None}
    for name, values in TABLE2.items()
}
SMALL = ("iris", "wine", "glass", "svmguide2", "svmguide4", "vehicle", "vowel")
LIMITED = f"At most {MOST_ROWS:,} rows of a set ({QUICK_ROWS:,} with --quick), drawn anew in each repeat."
STUDIES = (
    Study(
        "mcodm.table2",
        "accuracy in percent, linear kernel",
        tuple(TABLE2),
        METHODS,
        table_cell,
        repeats=10,
        quick_repeats=3,
        hours=60,
        against="mcODM",
        paper=PRINTED,
        note=LIMITED,
        quick_sets=SMALL,
    ),
    Study(
        "mcodm.figure1",
        "accuracy by the number of classes",
        ("segment",),
        METHODS[:5],
        accuracy_by_classes,
        repeats=10,
        quick_repeats=1,
        hours=8,
        axes=("classes", "accuracy in percent"),
    ),
    Study(
        "mcodm.figure2",
        "cumulative margins at all classes",
        ("segment",),
        ("ovaSVM", "mcODM"),
        margin_curve,
        repeats=1,
        quick_repeats=1,
        hours=0.2,
        axes=("margin / mean absolute margin", "part of the rows"),
    ),
    Study(
        "mcodm.figure3",
        "processor seconds of the last training",
        tuple(TABLE2),
        ("mcSVM", "ovaSVM", "ovoSVM", "mcODM"),
        table_cell,
        repeats=3,
        quick_repeats=1,
        hours=15,
        measure="seconds",
        smaller_is_better=True,
        against="mcODM",
        quick_sets=SMALL,
        note=f"The paper has seconds per iteration; here it is a whole training. {LIMITED}",
    ),
)
