"""Quality of probabilities side by side with scikit-learn on real sets.

    python -m benchmarks.calibration [--sets german.numer,splice] [--repeats 3] [--rows 1500]

Each set is scaled to [0, 1], split at random into a training part (two thirds, at most --rows rows) and a
test part, --repeats times; every program gets the same parts and the same RBF kernel, gamma = 1/(features x
variance). Printed: mean log-loss and mean Brier score (both: less is better) and accuracy on the test part,
and seconds for training with probabilities.

    odm -b 1             ours: sigmoid on leave-one-out scores of the one fit (more classes: coupled pairs)
    odm, 5 folds         ours, forced to cross-validated scores
    sklearn on odm       CalibratedClassifierCV(sigmoid, cv=5, ensemble=False) around our decision function
    sklearn on SVC       the same around scikit-learn's SVC at C = 1
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

import odmlib
from odmlib.data.problem import Problem
from odmlib.data.reading import read_data
from odmlib.options import TrainOptions
from odmlib.selection.probabilities import cross_validated_scores, with_probabilities

FOLDER = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
SETS = ("german.numer", "splice", "ida_image", "a9a", "segment.scale", "vowel.scale")


def load(name):
    for suffix in (".libsvm", ".libsvm.xz"):
        path = FOLDER / (name + suffix)
        if path.exists():
            X, y = read_data(path)
            X = X.toarray()
            spread = X.max(axis=0) - X.min(axis=0)
            return (X - X.min(axis=0)) / np.where(spread > 0, spread, 1), y.astype(int)
    return None


def run_odm(X, y, X_test, gamma, folds=False):
    model = odmlib.train(X, y, gamma=gamma, probability=not folds)
    if folds:
        options = TrainOptions(gamma=gamma)
        model = with_probabilities(model, Problem.from_arrays(X, y), options, cross_validated_scores)
    return model.labels, model.predict_proba(X_test), model.predict(X_test)


def run_odm_folds(X, y, X_test, gamma):
    return run_odm(X, y, X_test, gamma, folds=True)


def calibrated(machine, X, y, X_test):
    from sklearn.calibration import CalibratedClassifierCV

    found = CalibratedClassifierCV(machine, method="sigmoid", cv=5, ensemble=False).fit(X, y)
    return found.classes_, found.predict_proba(X_test), found.predict(X_test)


def run_sklearn_on_odm(X, y, X_test, gamma):
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Odm(ClassifierMixin, BaseEstimator):
        def __init__(self, gamma=1.0):
            self.gamma = gamma

        def fit(self, X, y):
            self.classes_ = np.unique(y)
            self.model_ = odmlib.train(X, y, gamma=self.gamma, multiclass="ovr")
            return self

        def decision_function(self, X):
            """In scikit-learn's order of the classes."""
            scores, labels = self.model_.decision_function(X), self.model_.labels.tolist()
            if scores.ndim == 1:
                return scores if labels[0] == self.classes_[1] else -scores
            return scores[:, [labels.index(label) for label in self.classes_]]

        def predict(self, X):
            return self.model_.predict(X)

    return calibrated(Odm(gamma), X, y, X_test)


def run_sklearn_on_svc(X, y, X_test, gamma):
    from sklearn.svm import SVC

    return calibrated(SVC(C=1.0, gamma=gamma), X, y, X_test)


PROGRAMS = {
    "odm -b 1": run_odm,
    "odm, 5 folds": run_odm_folds,
    "sklearn on odm": run_sklearn_on_odm,
    "sklearn on SVC": run_sklearn_on_svc,
}


def scored(labels, p, predicted, y):
    places = np.argsort(labels)[np.searchsorted(np.sort(labels), y)]
    truth = np.eye(len(labels))[places]
    log_loss = -np.log(np.clip(p[np.arange(len(y)), places], 1e-15, 1)).mean()
    return log_loss, np.square(p - truth).sum(axis=1).mean() / 2, (predicted == y).mean()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.calibration", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1500)
    args = parser.parse_args()
    print(f"{'set':<15} {'program':<15} {'log-loss':>9} {'Brier':>8} {'accuracy':>9} {'seconds':>8}")
    for name in args.sets.split(","):
        data = load(name)
        if data is None:
            print(f"{name:<15} not there")
            continue
        X, y = data
        random = np.random.default_rng(0)
        parts = []
        for _ in range(args.repeats):
            order = random.permutation(len(y))
            n = min(args.rows, len(y) * 2 // 3)
            parts.append((order[:n], order[n : n + 5000]))
        for program, run in PROGRAMS.items():
            results = []
            for inside, outside in parts:
                gamma = float(1 / (X.shape[1] * X[inside].var()))
                started = time.perf_counter()
                labels, p, predicted = run(X[inside], y[inside], X[outside], gamma)
                seconds = time.perf_counter() - started
                results.append((*scored(labels, p, predicted, y[outside]), seconds))
            log_loss, brier, accuracy, seconds = np.mean(results, axis=0)
            print(
                f"{name:<15} {program:<15} {log_loss:9.4f} {brier:8.4f} {accuracy:9.4f} {seconds:8.2f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
