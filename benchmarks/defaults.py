"""What the default parameters are worth: mean 5-fold accuracy on all small binary sets that are here.

    python -m benchmarks.defaults
    python -m benchmarks.defaults --classes       the class schemes of linear machines instead

Features are scaled to [0, 1]; theta 0.2, nu 0.5. ODM with the RBF kernel at two gammas and four C beside
scikit-learn's SVC (LIBSVM), and the linear ODM with and without a bias beside its LinearSVC (LIBLINEAR).
The folds are the same for all.

--classes: sets of three or more classes, at most 3,000 rows of each (seed 0), mean of two 5-fold validations
(seeds 0 and 1); columns of mean 0 and variance 1, text in rows of unit length. The rule of odmlib was chosen
on SEEN; HELD_OUT had no part in it.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks._common import has_package, interruptible, parse_arguments
from benchmarks.papers._protocol import scaled, two_classes
from odmlib.data.folds import stratified_folds
from odmlib.data.problem import Problem
from odmlib.machines.training import make_settings
from odmlib.selection.cross_validation import cross_validate

SETS = (
    "australian", "banana", "breast", "breast-cancer", "clean1", "colic", "colon-cancer", "credit-a",
    "credit-g",
    "diabetes", "fourclass", "german", "haberman", "heart-statlog", "hepatitis", "house", "ionosphere",
    "liverDisorders", "parkinsons", "planning", "promoters", "sonar", "svmguide3",
)  # fmt: skip
FOLDS, SEED = 5, 0
SEEN = (
    "iris", "wine.scale", "glass.scale", "svmguide2", "svmguide4", "vowel.scale", "vehicle.scale",
    "dna.scale", "segment.scale", "satimage.scale", "pendigits", "letter", "shuttle", "connect-4", "news20",
)  # fmt: skip
HELD_OUT = ("mnist", "digits")  # digits comes with scikit-learn
MOST_ROWS, SEEDS = 3000, (0, 1)
SCHEMES: dict[str, dict[str, Any]] = {
    "default": {}, "ovr": {"multiclass": "ovr"}, "ovo": {"multiclass": "ovo"}, "mcodm": {"machine": "mcodm"},
}  # fmt: skip


def columns() -> dict[str, dict[str, Any]]:
    rbf = {
        f"rbf, gamma {gamma}, C {C:g}": {"gamma": gamma, "C": C}
        for gamma in ("auto", "scale")
        for C in (0.25, 1, 4, 16)
    }
    linear = {
        f"linear, {'no bias' if bias < 0 else 'bias'}, C {C:g}": {"kernel": "linear", "bias": bias, "C": C}
        for bias in (-1, 1)
        for C in (0.1, 1, 10)
    }
    return rbf | linear


def peers() -> dict[str, Any]:
    if not has_package("sklearn", "scikit-learn"):
        return {}
    from sklearn.svm import SVC, LinearSVC

    found: dict[str, Any] = {
        f"SVC, gamma {gamma}, C {C}": SVC(gamma=gamma, C=C) for gamma in ("auto", "scale") for C in (1, 10)
    }
    return found | {"LinearSVC": LinearSVC()}


def peer_accuracy(machine: Any, X: Any, y: Any) -> float:
    folds = stratified_folds((y < 0).astype(np.int64), FOLDS, SEED)
    right = sum(
        int((machine.fit(X[folds != k], y[folds != k]).predict(X[folds == k]) == y[folds == k]).sum())
        for k in range(FOLDS)
    )
    return right / len(y)


def load_classes(name: str) -> tuple[Any, Any]:
    """At most MOST_ROWS rows; mnist as numbers from 0 to 1."""
    if name == "digits":
        from sklearn.datasets import load_digits

        return load_digits(return_X_y=True)
    X, y = data.load(name)
    some = np.random.default_rng(SEED).permutation(len(y))[:MOST_ROWS]
    X = X[some]
    return X if name == "news20" else X.toarray() / (255 if name == "mnist" else 1), y[some]


def scale_pair(name: str, training: Any, test: Any) -> tuple[Any, Any]:
    from sklearn.preprocessing import StandardScaler, normalize

    if name == "news20":
        return normalize(training), normalize(test)
    if name == "mnist":  # pixels that are nearly always 0 would become large numbers
        return training, test
    scaler = StandardScaler().fit(training)
    return scaler.transform(training), scaler.transform(test)


def scheme_accuracies(name: str) -> dict[str, float]:
    """Per cent right of LinearSVC and of each scheme."""
    from sklearn.svm import LinearSVC

    import odmlib

    X, y = load_classes(name)
    codes = np.unique(y, return_inverse=True)[1].astype(np.int64)
    right = dict.fromkeys(("LinearSVC", *SCHEMES), 0)
    for seed in SEEDS:
        folds = stratified_folds(codes, FOLDS, seed)
        for k in range(FOLDS):
            inside, outside = np.flatnonzero(folds != k), np.flatnonzero(folds == k)
            training, test = scale_pair(name, X[inside], X[outside])
            machine = LinearSVC(random_state=0).fit(training, y[inside])
            right["LinearSVC"] += int((machine.predict(test) == y[outside]).sum())
            for scheme, options in SCHEMES.items():
                model = odmlib.train(training, y[inside], kernel="linear", threads=1, **options)
                right[scheme] += int((model.predict(test) == y[outside]).sum())
    return {title: 100 * count / len(y) / len(SEEDS) for title, count in right.items()}


def compare_schemes(quick: bool) -> int:
    if not has_package("sklearn", "scikit-learn"):
        return 0
    warnings.simplefilter("ignore")
    print("set             " + "".join(f"{title:>11}" for title in ("LinearSVC", *SCHEMES)))
    for group, names in (("chosen on", SEEN[:3] if quick else SEEN), ("held out", HELD_OUT)):
        here = [name for name in names if name == "digits" or data.is_here(name)]
        found = {}
        for name in here:
            found[name] = list(scheme_accuracies(name).values())
            print(f"{name:<16}" + "".join(f"{value:11.2f}" for value in found[name]), flush=True)
        means = np.mean(list(found.values()), axis=0)
        print(f"{'mean, ' + group:<16}" + "".join(f"{value:11.2f}" for value in means), flush=True)
        behind = max(found, key=lambda name: found[name][0] - found[name][1])
        print(f"* {group}: default {means[1] - means[0]:+.2f} points in the mean (target at least 0)")
        least = found[behind][1] - found[behind][0]
        print(f"* {group}: default {least:+.2f} points at worst, {behind} (target at least -0.5)")
    return 0


def main() -> int:
    arguments = parse_arguments(
        __doc__, lambda parser: parser.add_argument("--classes", action="store_true", help="class schemes")
    )
    if arguments.classes:
        return compare_schemes(arguments.quick)
    names = [name for name in SETS if data.is_here(name)][: 3 if arguments.quick else None]
    found: dict[str, list[float]] = {}
    warnings.simplefilter("ignore")
    for name in names:
        X, y = scaled(name)
        y = two_classes(y)
        for title, options in columns().items():
            settings = make_settings({"threads": 1, "seed": SEED, **options})
            result = cross_validate(Problem.from_arrays(X, y), settings, FOLDS)
            found.setdefault(title, []).append(result.accuracy)
        for title, machine in peers().items():
            found.setdefault(title, []).append(peer_accuracy(machine, X, y))
        print(f"{name}: {len(y)} x {X.shape[1]}", file=sys.stderr, flush=True)
    print(f"mean accuracy over {len(names)} sets")
    for title, accuracies in found.items():
        print(f"{title:<28} {np.mean(accuracies):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
