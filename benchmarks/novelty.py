"""Novelty detection beside scikit-learn: python -m benchmarks.novelty [--quick]

One class of a real set is normal, and all other classes are novelties. A detector is trained on half of the
normal rows, at most 400, scaled by their mean and standard deviation; the other half and as many novelties
are the test rows. Odmlib's odmo, OneClassSVM, IsolationForest and LocalOutlierFactor (novelty=True), all with
their default parameters; nu (contamination) is 0.1.

First table: mean AUC over the classes of each set. Second table: the part of held-out normal rows that is
called novel, promised 0.1, with its standard error over the splits.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks._common import Table, data_path, interruptible, parse_arguments, verdict

NU = 0.1
MOST_ROWS, MOST_CLASSES, SPLITS = 400, 4, 10
SETS = ("satimage.scale", "letter", "shuttle", "pendigits")  # of ../shared/data; digits, wdbc: scikit-learn's


def sets(quick: bool) -> Iterator[tuple[str, Any, Any]]:
    from sklearn.datasets import load_breast_cancer, load_digits

    from odmlib.data.reading import read_data

    yield "digits", *load_digits(return_X_y=True)
    yield "wdbc", *load_breast_cancer(return_X_y=True)
    for name in () if quick else SETS:
        if (path := data_path(name)) is not None:
            X, y = read_data(path)
            rows = np.sort(np.random.default_rng(0).permutation(len(y))[:12_000])
            yield name, X[rows].toarray(), y[rows]


def detectors() -> dict[str, Any]:
    from sklearn.ensemble import IsolationForest
    from sklearn.neighbors import LocalOutlierFactor
    from sklearn.svm import OneClassSVM

    from odmlib.sklearn import OneClassODM

    return {
        "odmo": lambda: OneClassODM(nu=NU),
        "OneClassSVM": lambda: OneClassSVM(nu=NU),
        "IsolationForest": lambda: IsolationForest(contamination=NU, random_state=0),
        "LOF": lambda: LocalOutlierFactor(novelty=True, contamination=NU),
    }


def measure(X: Any, y: Any, label: Any, splits: int) -> dict[str, Any]:
    """{detector: (AUC, false alarms) of every split}"""
    from sklearn.metrics import roc_auc_score

    normal, others = np.flatnonzero(y == label), np.flatnonzero(y != label)
    found: dict[str, Any] = {name: [] for name in detectors()}
    for split in range(splits):
        rng = np.random.default_rng(split)
        rows = rng.permutation(normal)
        half = min(MOST_ROWS, len(rows) // 2)
        train, new = rows[:half], rows[half : half + MOST_ROWS]
        test = np.concatenate([new, rng.permutation(others)[: len(new)]])
        centre, spread = X[train].mean(axis=0), X[train].std(axis=0)
        scaled = (X - centre) / np.where(spread > 0, spread, 1.0)
        for name, make in detectors().items():
            detector = make().fit(scaled[train])
            scores = detector.decision_function(scaled[test])
            area = roc_auc_score(np.isin(test, new), scores)
            found[name].append((area, float(np.mean(detector.predict(scaled[new]) == -1))))
    return found


def main() -> int:
    arguments = parse_arguments(__doc__)
    warnings.simplefilter("ignore")
    names = list(detectors())
    areas = Table("mean AUC", ("set", 16), "classes", *names)
    alarms = []
    all_areas, kept, cases = [], 0, 0
    for name, X, y in sets(arguments.quick):
        labels, counts = np.unique(y, return_counts=True)
        labels = [label for label, count in zip(labels, counts, strict=True) if count >= 100][:MOST_CLASSES]
        means = []
        for label in labels:
            found = measure(X, y, label, 2 if arguments.quick else SPLITS)
            numbers = {peer: np.array(values) for peer, values in found.items()}
            means.append([numbers[peer][:, 0].mean() for peer in names])
            words = []
            for peer in names:
                rate = numbers[peer][:, 1]
                error = rate.std(ddof=1) / np.sqrt(len(rate))
                words.append(f"{rate.mean():.3f} {error:.3f}")
                if peer == "odmo":
                    cases += 1
                    kept += abs(rate.mean() - NU) <= 2 * max(
                        error, 1 / min(MOST_ROWS, (y == label).sum() / 2)
                    )
            alarms.append((f"{name}, {label:g}", min(MOST_ROWS, int((y == label).sum() / 2)), *words))
        areas.add(name, len(labels), *(f"{value:.4f}" for value in np.mean(means, axis=0)))
        all_areas += means
    overall = np.mean(all_areas, axis=0)
    areas.add("mean", len(all_areas), *(f"{value:.4f}" for value in overall))
    columns = [(f"{name} +-", max(14, len(name) + 3)) for name in names]
    table = Table(
        f"part of new normal rows called novel, promised {NU}", ("set, class", 18), "rows", *columns
    )
    for line in alarms:
        table.add(*line)
    verdict("novelty: mean AUC less that of OneClassSVM", [overall[0] - overall[1]], 0.0, at_least=True)
    verdict("novelty: part of the cases within two errors of the promise", [kept / cases], 0.9, at_least=True)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
