"""The time of one answer: one dense row through predict, beside scikit-learn and LIBSVM.

    python -m benchmarks.latency [--quick]

Every machine is trained on the same 569 rows of 30 features (data/wdbc.txt, standardised), linear and RBF.
Printed are microseconds of processor time for a call with one row, one thread: the least of five runs.
`model` is odmlib.train's, `estimator` ours for scikit-learn; SVC and LinearSVC are scikit-learn's, oneDAL is
scikit-learn-intelex's SVC where it is installed, and LIBSVM is svm_predict of libsvm-official with a row that
was converted before. `kernel` is the compiled kernel expansion alone.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # set before the peers are loaded

import numpy as np

import odmlib
from benchmarks._common import ROOT, Table, bounded, has_package, interruptible, parse_arguments, verdict

CALLS, QUICK_CALLS = 2000, 50
RUNS = 5
TARGET = 20.0  # microseconds, linear


def microseconds(call: Callable[[], Any], calls: int) -> float:
    best = np.inf
    for _ in range(RUNS):
        started = time.process_time()
        for _ in range(calls):
            call()
        best = min(best, (time.process_time() - started) / calls)
    return 1e6 * best


def rows() -> tuple[Any, Any]:
    X, y = odmlib.read_data(ROOT / "data" / "wdbc.txt")
    X = X.toarray()
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def ours(kernel: str, calls: int) -> dict[str, tuple[float, float]]:
    X, y = rows()
    model, row = odmlib.train(X, y, kernel=kernel, threads=1), X[:1].copy()
    found = {"model": times(model, row, calls)}
    if has_package("sklearn", "scikit-learn"):
        from odmlib.sklearn import ODMClassifier

        found["estimator"] = times(ODMClassifier(kernel=kernel).fit(X, y), row, calls)
    if kernel == "rbf":
        from odmlib.data.dataset import Dataset

        prepared = Dataset.from_any(row)
        alone = microseconds(lambda: model.function.scores(prepared, 1), calls)
        found["kernel"] = (alone, alone)
    return found


def times(machine: Any, row: Any, calls: int) -> tuple[float, float]:
    return (
        microseconds(lambda: machine.predict(row), calls),
        microseconds(lambda: machine.decision_function(row), calls),
    )


def sklearn_times(kernel: str, calls: int) -> tuple[float, float]:
    from sklearn.svm import SVC, LinearSVC

    X, y = rows()
    return times((LinearSVC() if kernel == "linear" else SVC()).fit(X, y), X[:1].copy(), calls)


def onedal_times(kernel: str, calls: int) -> tuple[float, float]:
    from sklearnex.svm import SVC

    X, y = rows()
    return times(SVC(kernel=kernel).fit(X, y), X[:1].copy(), calls)


def libsvm_times(kernel: str, calls: int) -> tuple[float, float]:
    from libsvm.svm import gen_svm_nodearray, libsvm
    from libsvm.svmutil import svm_train

    X, y = rows()
    model = svm_train(y, X, f"-q -t {0 if kernel == 'linear' else 2}")
    node, _ = gen_svm_nodearray(X[0])
    taken = microseconds(lambda: libsvm.svm_predict(model, node), calls)
    return taken, taken


def main() -> int:
    arguments = parse_arguments(__doc__)
    calls = QUICK_CALLS if arguments.quick else CALLS
    peers = {
        "scikit-learn": ("sklearn", sklearn_times),
        "oneDAL": ("sklearnex", onedal_times),
        "LIBSVM": ("libsvm", libsvm_times),
    }
    linear: list[float | None] = []
    for kernel in ("linear", "rbf"):
        table = Table(f"{kernel}: microseconds for one row", ("who", 14), "predict", "decision")
        for name, found in ours(kernel, calls).items():
            table.add(name, *found)
            if kernel == "linear" and name == "model":
                linear += found
        for name, (module, measure) in peers.items():
            if has_package(module, name):
                found = bounded(lambda measure=measure, kernel=kernel: measure(kernel, calls), 120)
                table.add(name, *(found or (None, None)))
    verdict("one row by a linear model, microseconds", linear, TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
