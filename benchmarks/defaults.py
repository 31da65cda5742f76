"""What the default parameters are worth: mean 5-fold accuracy on all small binary sets that are here.

    python -m benchmarks.defaults

Features are scaled to [0, 1]; theta 0.2, nu 0.5. ODM with the RBF kernel at two gammas and four C beside
scikit-learn's SVC (LIBSVM), and the linear ODM with and without a bias beside its LinearSVC (LIBLINEAR).
The folds are the same for all.
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


def main() -> int:
    arguments = parse_arguments(__doc__)
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
