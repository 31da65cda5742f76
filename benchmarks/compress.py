"""Compressed ODMs beside LIBSVM's C-SVC: test accuracy with no more support vectors than the C-SVC has.

    python -m benchmarks.compress [--quick] [--sets letter,shuttle] [--rows 15000] [--refit]

Both machines are RBF, one-vs-one, and tuned over the same grid (benchmarks/multiclass.py) on 6,000 training
rows at most; then they are trained on all of them, ijcnn1 and a9a on --rows drawn at random. The ODM is
compressed to as many support vectors as the C-SVC has (`odmlib.compress`, training rows given). `points` is
the test accuracy that compression loses, `predict` is the processor time of predicting the test rows,
compressed / whole and compressed / C-SVC (svm_predict), `fewest` is the number of vectors that
accuracy_loss=0.1 on the training rows finds, and `points` behind it what that loses on the test rows.
--refit adds the points lost with coefficients of the projection alone (rows_weight 0) and of the scores
nearly alone (1000).
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import sys
import time
import warnings
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # LIBSVM's threads spin; set before it is loaded

import numpy as np

import odmlib
from benchmarks._common import Table, has_package, interruptible, parse_arguments, verdict
from benchmarks.multiclass import load, odm, some_rows, svm, tuned
from odmlib.model.compression import TUNING

COSTS = {"shuttle": (16.0, 64.0, 256.0, 1024.0)}
USUAL_COSTS = (1.0, 4.0, 16.0)
GAMMAS = (0.5, 1.0, 2.0)  # times 1 / (features x variance)
SETS = ("letter", "pendigits", "shuttle", "ijcnn1", "a9a")
WHOLE = ("letter", "pendigits", "shuttle")
SEARCH_ROWS, QUICK_ROWS = 6_000, 1_500
ALLOWED = 0.2  # points


def processor_time(run: Any) -> tuple[float, Any]:
    started = time.process_time()
    result = run()
    return time.process_time() - started, result


def points(model: Any, X: Any, y: Any) -> float:
    return 100 * float(np.mean(model.predict(X, 1) == y))


def measure(name: str, arguments: argparse.Namespace, table: Table) -> tuple[float, float] | None:
    """Points lost, and the time of prediction as a part of the whole model's."""
    loaded = load(name)
    if loaded is None:
        print(f"{name}: skipped, not in the data folder", flush=True)
        return None
    X, y, X_test, y_test = loaded
    most = QUICK_ROWS if arguments.quick else len(y) if name in WHOLE else arguments.rows
    X, y = some_rows(X, y, most, seed=0)
    X_search, y_search = some_rows(X, y, SEARCH_ROWS, seed=2)
    gamma = 1 / (X.shape[1] * float(X.toarray().var()))
    grid = list(itertools.product(COSTS.get(name, USUAL_COSTS), [gamma * times for times in GAMMAS]))
    _, theirs = tuned(svm, X_search, y_search, grid, 1)
    _, ours = tuned(odm, X_search, y_search, grid, 1)
    model = odmlib.train(X, y, C=ours[0], gamma=ours[1], threads=1)
    count, svm_right, svm_seconds = c_svc(X, y, X_test, y_test, theirs)
    seconds, smaller = processor_time(lambda: odmlib.compress(model, X, y, vectors=count, threads=1))
    whole_seconds, before = processor_time(lambda: points(model, X_test, y_test))
    small_seconds, after = processor_time(lambda: points(smaller, X_test, y_test))
    fewest = odmlib.compress(model, X, y, accuracy_loss=0.1, threads=1)
    cells = [
        name, len(y), count, f"{svm_right:.2f}", model.n_support, f"{before:.2f}", f"{after:.2f}",
        f"{before - after:.2f}", f"{small_seconds / whole_seconds:.2f}", f"{small_seconds / svm_seconds:.2f}",
        f"{seconds:.1f}", fewest.n_support, f"{before - points(fewest, X_test, y_test):.2f}",
    ]  # fmt: skip
    for weight in (0.0, 1000.0) if arguments.refit else ():
        tuning = dataclasses.replace(TUNING, rows_weight=weight)
        other = odmlib.compress(model, X, y, vectors=count, threads=1, tuning=tuning)
        cells.append(f"{before - points(other, X_test, y_test):.2f}")
    table.add(*cells)
    return before - after, small_seconds / whole_seconds


def c_svc(X: Any, y: Any, X_test: Any, y_test: Any, setting: Any) -> tuple[int, float, float]:
    """Support vectors, accuracy and processor seconds of prediction of LIBSVM's machine."""
    from libsvm.svm import svm_problem
    from libsvm.svmutil import svm_predict, svm_train
    from scipy.sparse import csr_matrix

    model = svm_train(svm_problem(y, csr_matrix(X)), f"-q -t 2 -c {setting[0]!r} -g {setting[1]!r} -m 200")
    rows = csr_matrix(X_test)
    seconds, (predicted, _, _) = processor_time(lambda: svm_predict([], rows, model, "-q"))
    return model.get_nr_sv(), 100 * float(np.mean(np.array(predicted) == y_test)), seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--rows", type=int, default=15_000, help="training rows of ijcnn1 and a9a")
    parser.add_argument("--refit", action="store_true", help="other coefficients as well")


def main() -> int:
    arguments = parse_arguments(__doc__, add_arguments)
    if not has_package("libsvm", "libsvm-official"):
        return 0
    warnings.simplefilter("ignore", odmlib.ConvergenceWarning)
    refits = ("weight 0", "weight 1000") if arguments.refit else ()
    table = Table(
        "support vectors and accuracy on test rows, one thread", ("set", 10), ("rows", 6), ("C-SVC SV", 8),
        ("%", 6), ("ODM SV", 7), ("%", 6), ("compr. %", 8), ("points", 7), ("predict", 7), ("/ C-SVC", 7),
        ("seconds", 7), ("fewest", 7), ("points", 7), *refits,
    )  # fmt: skip
    found = [measure(name, arguments, table) for name in arguments.sets.split(",")]
    known = [one for one in found if one is not None]
    verdict("points of test accuracy lost with the C-SVC's number of vectors", [a for a, _ in known], ALLOWED)
    verdict("prediction time, compressed / whole", [b for _, b in known], None)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
