"""Many classes: ODM against LIBSVM's C-SVC, both one-vs-one with the RBF kernel.

    python -m benchmarks.multiclass [--sets letter,pendigits] [--C 1,4,16] [--gamma 0.5,1,2] [--rows 6000]

Both machines are tuned over the same small grid: C, and gamma as multiples of 1/(features x variance). Each
setting is trained on two thirds of the training rows and scored on the rest; the best is trained on all of
them and scored on the test set. Printed: accuracy on the test set, seconds to train and to predict there (the
data in memory, one thread unless --threads says otherwise), and their ratio, LIBSVM's divided by ours. Sets
larger than --rows are cut for the search, and for everything unless --whole is given.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # LIBSVM's threads spin; set before it is loaded

import numpy as np

import odmlib
from odmlib.data.reading import read_data

FOLDER = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
SETS = ("letter", "pendigits", "shuttle", "mnist")
SEED = 1


def path_of(name):
    for suffix in (".libsvm", ".libsvm.xz"):
        path = FOLDER / (name + suffix)
        if path.exists():
            return path
    return None


def load(name):
    """Training and test rows, scaled to [0, 1] by the training rows."""
    train, test = path_of(name), path_of(name + ".t")
    if train is None or test is None:
        return None
    X, y = read_data(train)
    X_test, y_test = read_data(test, features=None)
    width = max(X.shape[1], X_test.shape[1])
    X.resize((X.shape[0], width))
    X_test.resize((X_test.shape[0], width))
    low = X.min(axis=0).toarray().ravel()
    if (low < 0).any():  # shuttle: shift before scaling
        X, X_test = (type(X)(part.toarray() - low) for part in (X, X_test))
    most = np.maximum(X.max(axis=0).toarray().ravel(), 1e-300)
    return X.multiply(1 / most).tocsr(), y, X_test.multiply(1 / most).tocsr(), y_test


def some_rows(X, y, n, seed):
    if len(y) <= n:
        return X, y
    rows = np.sort(np.random.default_rng(seed).permutation(len(y))[:n])
    return X[rows], y[rows]


def odm(X, y, X_test, C, gamma, threads):
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", odmlib.ConvergenceWarning)
        model = odmlib.train(X, y, C=C, gamma=gamma, threads=threads)
    trained = time.perf_counter()
    predicted = model.predict(X_test, threads)
    note = f"{model.n_support} SV, {model.report['status']}"
    return predicted, trained - started, time.perf_counter() - trained, note


def svm(X, y, X_test, C, gamma, threads):
    from libsvm.svm import svm_problem
    from libsvm.svmutil import svm_predict, svm_train
    from scipy.sparse import csr_matrix

    problem, rows = svm_problem(y, csr_matrix(X)), csr_matrix(X_test)
    started = time.perf_counter()
    model = svm_train(problem, f"-q -t 2 -c {C!r} -g {gamma!r} -m 200")
    trained = time.perf_counter()
    predicted, _, _ = svm_predict([], rows, model, "-q")
    return np.array(predicted), trained - started, time.perf_counter() - trained, f"{model.get_nr_sv()} SV"


def tuned(machine, X, y, grid, threads):
    """The setting that is best on a third of the rows, and its accuracy there."""
    order = np.random.default_rng(SEED).permutation(len(y))
    inside, outside = np.sort(order[len(y) // 3 :]), np.sort(order[: len(y) // 3])

    def accuracy(setting):
        predicted, *_ = machine(X[inside], y[inside], X[outside], *setting, threads)
        return float(np.mean(predicted == y[outside]))

    return max(((accuracy(setting), setting) for setting in grid), key=lambda pair: pair[0])


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--C", default="1,4,16")
    parser.add_argument("--gamma", default="0.5,1,2", help="multiples of 1/(features x variance)")
    parser.add_argument("--rows", type=int, default=6000, help="training rows used, unless --whole")
    parser.add_argument("--whole", action="store_true", help="the last training has all rows")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args(argv)
    try:
        import libsvm.svmutil  # noqa: F401
    except ImportError:
        print("libsvm-official is not installed", file=sys.stderr)
        return 1
    for name in args.sets.split(","):
        data = load(name)
        if data is None:
            print(f"{name}: not found in {FOLDER}, skipped")
            continue
        X, y, X_test, y_test = data
        part, labels = some_rows(X, y, args.rows, SEED)
        if not args.whole:
            X, y = part, labels
            X_test, y_test = some_rows(X_test, y_test, args.rows, SEED)
        width = 1 / float(part.shape[1] * np.var(part.toarray()))
        factors = [float(word) * width for word in args.gamma.split(",")]
        grid = list(itertools.product(map(float, args.C.split(",")), factors))
        classes, rows, test_rows = len(np.unique(y)), len(y), len(y_test)
        print(f"\n{name}: {classes} classes, {rows} rows, {X.shape[1]} features, {test_rows} test rows")
        seconds = {}
        for title, machine in (("odmlib ODM", odm), ("LIBSVM C-SVC", svm)):
            held_out, (C, gamma) = tuned(machine, part, labels, grid, args.threads)
            predicted, train, predict, note = machine(X, y, X_test, C, gamma, args.threads)
            seconds[title] = train, predict
            print(
                f"  {title:13} C {C:<4g} gamma {gamma:<8.3g} held out {100 * held_out:6.2f}%  "
                f"test {100 * np.mean(predicted == y_test):6.2f}%  train {train:8.2f} s  "
                f"predict {predict:7.2f} s  {note}",
                flush=True,
            )
        ours, theirs = seconds.values()
        print(f"  ratio: train {theirs[0] / ours[0]:.2f}, predict {theirs[1] / ours[1]:.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
