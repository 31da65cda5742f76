"""Kernel SVM beside LIBSVM: python -m benchmarks.svm [--quick] [--sets splice]

odmlib's machine svm and LIBSVM's C-SVC (libsvm-official) on the same rows, scaled to [-1, 1], at most 12,000
of them. RBF with gamma = 1/features, C from 1 to 32768, one thread, both at their default tolerance: a
relative gap of 1e-3 on all rows, and violations of at most 1e-3. Processor seconds of training alone, the
better of two runs: other work on the machine changes them little. The two problems differ by LIBSVM's free
bias; `%` is the accuracy on the training rows.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from functools import partial

import numpy as np

import odmlib
from benchmarks._common import (
    Table,
    bounded,
    has_package,
    interruptible,
    load_set,
    parse_arguments,
    ratio,
    verdict,
)

SETS = ("german.numer", "svmguide1", "splice", "phishing", "a9a", "ijcnn1", "covtype.binary.5k", "ida_image")
COSTS = (1.0, 32.0, 1024.0, 32768.0)
MOST_ROWS, QUICK_ROWS = 12_000, 1_000
LIMIT = 120.0  # seconds for one peer
REPEATS = 2


def load(name, most_rows):
    """(X, y) scaled to [-1, 1]; None where the set is not there."""
    data = load_set(name)
    if data is None:
        return None
    X, y = data
    rows = np.sort(np.random.default_rng(0).permutation(len(y))[:most_rows])
    X, y = X[rows].toarray(), y[rows]
    lowest, highest = X.min(axis=0), X.max(axis=0)
    wide = highest > lowest
    return 2 * (X[:, wide] - lowest[wide]) / (highest - lowest)[wide] - 1, np.where(y == y.max(), 1, -1)


def processor_seconds(train):
    seconds = []
    for _ in range(REPEATS):
        begin = time.process_time()
        model = train()
        seconds.append(time.process_time() - begin)
    return min(seconds), model


def run_odmlib(X, y, C):
    """Seconds and accuracy."""
    options = {"machine": "svm", "C": C, "gamma": 1 / X.shape[1], "threads": 1, "time_limit": LIMIT / REPEATS}
    with warnings.catch_warnings():
        warnings.simplefilter("error", odmlib.ConvergenceWarning)  # what does not converge is not timed
        seconds, model = processor_seconds(partial(odmlib.train, X, y, **options))
    return seconds, 100 * float((model.predict(X) == y).mean())


def run_libsvm(X, y, C):
    """The same."""
    os.environ["OMP_NUM_THREADS"] = "1"  # its threads would wait for each other, and be counted
    from libsvm.svmutil import svm_parameter, svm_predict, svm_problem, svm_train

    problem = svm_problem(y, X)
    parameter = svm_parameter(f"-q -c {C} -g {1 / X.shape[1]}")
    seconds, model = processor_seconds(partial(svm_train, problem, parameter))
    return seconds, svm_predict(y, X, model, "-q")[1][0]


def main() -> int:
    arguments = parse_arguments(__doc__, lambda parser: parser.add_argument("--sets", default=",".join(SETS)))
    if not has_package("libsvm", "libsvm-official"):
        return 0
    table = Table(
        "kernel SVM, one thread: processor seconds",
        ("set", 18), ("rows", 6), ("C", 6), "odmlib", "LIBSVM", "ratio", "%", "% theirs",
    )  # fmt: skip
    ratios = []
    for name in arguments.sets.split(","):
        data = load(name, QUICK_ROWS if arguments.quick else MOST_ROWS)
        if data is None:
            continue
        for C in COSTS:
            ours = run_odmlib(*data, C)
            theirs = bounded(partial(run_libsvm, *data, C), LIMIT) or (None, None)
            ratios.append(ratio(ours[0], theirs[0]))
            table.add(name, len(data[1]), f"{C:g}", ours[0], theirs[0], ratios[-1], ours[1], theirs[1])
    verdict("kernel SVM against LIBSVM", ratios, None)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
