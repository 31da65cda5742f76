"""Decision values of RBF machines side by side with oneDAL and LIBSVM: 20,000 rows x 20,000 support vectors.

    python -m benchmarks.prediction [--quick]

Support vectors are real rows. Their coefficients are those of oneDAL's SVR on random labels with a tiny C,
which makes nearly every row a support vector (where oneDAL is missing: random numbers); the very same
expansion then goes to odmlib (kernel_scores, float64), to oneDAL's predict (float64 and float32 rows) and,
through a model file, to LIBSVM's svm_predict of libsvm-official, which gets 1,000 of the rows (its time is
multiplied accordingly) and whichever of one and two OpenMP threads is faster for it. `differ` is the
largest difference to odmlib's scores, relative to the largest score.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._common import (
    Table,
    bounded,
    generated_rows,
    has_package,
    interruptible,
    median_time,
    met,
    n_threads,
    parse_arguments,
    ratio,
    verdict,
)
from benchmarks._kernel_sets import BY_NAME, load_problem

ROWS = 20_000
LIBSVM_ROWS = 1_000
QUICK_SHARE = 20
LIMIT = 120.0
SETS = ("ijcnn1", "mnist")
TINY_C = 1e-4
ONEDAL_TARGET, LIBSVM_TARGET, THREADS_TARGET = 1.0, 0.1, 1.7


def fit_and_predict_onedal(X: Any, T: Any, gamma: float, single: bool) -> tuple[Any, Any, float, float, Any]:
    """Support rows, coefficients, offset, median seconds of predict, and its values."""
    from sklearnex.svm import SVR

    if single:
        X, T = X.astype(np.float32), T.astype(np.float32)
    y = np.random.default_rng(0).choice([-1.0, 1.0], len(X)).astype(X.dtype)
    machine = SVR(kernel="rbf", gamma=gamma, C=TINY_C, epsilon=0.0, cache_size=4096).fit(X, y)
    seconds, values = median_time(partial(machine.predict, T), 3)
    return machine.support_, machine.dual_coef_[0], float(machine.intercept_[0]), seconds, values


def predict_libsvm(support: Any, coefficients: Any, gamma: float, T: Any, threads: int) -> tuple[float, Any]:
    """Seconds and values of LIBSVM's own loop over support vectors, row by row; in a fresh child only."""
    os.environ["OMP_NUM_THREADS"] = str(threads)  # read when the library is loaded
    from libsvm.svm import gen_svm_nodearray, libsvm
    from libsvm.svmutil import svm_load_model

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        write_libsvm_model(path, support, coefficients, gamma)
        model = svm_load_model(str(path))
    nodes = [gen_svm_nodearray({int(j) + 1: row[j] for j in np.flatnonzero(row)})[0] for row in T]
    predict = libsvm.svm_predict_values
    value = (ctypes.c_double * 1)()

    def predict_all() -> list[float]:
        values = []
        for row in nodes:
            predict(model, row, value)
            values.append(value[0])
        return values

    seconds, values = median_time(predict_all, 3)
    return seconds, np.array(values)


def write_libsvm_model(path: Path, support: Any, coefficients: Any, gamma: float) -> None:
    """The expansion as an epsilon-SVR model with offset 0."""
    with path.open("w") as file:
        file.write(f"svm_type epsilon_svr\nkernel_type rbf\ngamma {gamma!r}\nnr_class 2\n")
        file.write(f"total_sv {len(support)}\nrho 0\nSV\n")
        for row, coefficient in zip(support, coefficients, strict=True):
            items = " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row.tolist()) if value)
            file.write(f"{float(coefficient)!r} {items}\n")


def difference(values: Any, scores: Any) -> str:
    return f"{np.abs(values - scores[: len(values)]).max() / np.abs(scores).max():.0e}"


def load_rows(name: str, share: int) -> tuple[Any, Any, float] | None:
    """Support rows, other rows to score, gamma."""
    if name == "generated":
        X, gamma = generated_rows(2 * ROWS // share, 20)[0], 1 / 20
    else:
        problem = load_problem(BY_NAME[name])
        if problem is None:
            return None
        X, gamma = problem.X, problem.gamma
    order = np.random.default_rng(1).permutation(len(X))
    half = ROWS // share
    return X[order[:half]], X[order[half : 2 * half]], float(gamma)


def main() -> int:
    from odmlib.data.dataset import Dataset
    from odmlib.kernels.expansion import kernel_scores
    from odmlib.kernels.formula import KernelFormula

    arguments = parse_arguments(__doc__)
    share = QUICK_SHARE if arguments.quick else 1
    onedal = has_package("sklearnex", "scikit-learn-intelex")
    libsvm = has_package("libsvm", "libsvm-official")
    table = Table(
        f"{ROWS // share} rows x as many support vectors, {n_threads()} thread(s); seconds",
        ("rows of", 22), ("SV", 6), ("odmlib", 7), ("oneDAL", 7), ("differ", 6), ("ratio", 6), ("", 7),
        ("float32", 7), ("ratio", 6), ("LIBSVM", 7), ("differ", 6), ("ratio", 6), ("", 7), ("1 thread", 8),
        ("speed-up", 8), ("", 7),
    )  # fmt: skip
    ratios: dict[str, list[float | None]] = {"oneDAL": [], "LIBSVM": [], "threads": []}
    for name in (*SETS, "generated"):
        loaded = load_rows(name, share)
        if loaded is None:
            continue
        X, T, gamma = loaded
        theirs = bounded(partial(fit_and_predict_onedal, X, T, gamma, False), LIMIT) if onedal else None
        single = bounded(partial(fit_and_predict_onedal, X, T, gamma, True), LIMIT) if onedal else None
        support, coefficients, offset = (
            np.arange(len(X)),
            np.random.default_rng(2).standard_normal(len(X)),
            0.0,
        )
        if theirs is not None:
            support, coefficients, offset = theirs[:3]
        vectors, rows = Dataset.from_any(X[support]), Dataset.from_any(T)
        score = partial(kernel_scores, KernelFormula("rbf", gamma=gamma), vectors, coefficients, rows)
        ours, scores = median_time(partial(score, n_threads()), 3)
        alone = median_time(partial(score, 1), 3)[0] if n_threads() > 1 else None
        some = T[: LIBSVM_ROWS // (1 if share == 1 else 10)]
        peer = None
        if libsvm:
            predict = partial(predict_libsvm, X[support], coefficients, gamma, some)
            answers = [bounded(partial(predict, threads), LIMIT) for threads in range(1, n_threads() + 1)]
            peer = min((answer for answer in answers if answer), key=lambda answer: answer[0], default=None)
        peer_time = None if peer is None else peer[0] * len(T) / len(some)
        values = {
            "oneDAL": ratio(ours, theirs[3] if theirs else None),
            "LIBSVM": ratio(ours, peer_time),
            "threads": ratio(alone, ours),
        }
        for key, value in values.items():
            ratios[key].append(value)
        table.add(
            f"{name}, {X.shape[1]} columns", len(support), ours,
            theirs[3] if theirs else None, difference(theirs[4] - offset, scores) if theirs else None,
            values["oneDAL"], met(values["oneDAL"], ONEDAL_TARGET),
            single[3] if single else None, ratio(ours, single[3] if single else None),
            peer_time, difference(peer[1], scores) if peer else None,
            values["LIBSVM"], met(values["LIBSVM"], LIBSVM_TARGET),
            alone, values["threads"], met(values["threads"], THREADS_TARGET, at_least=True),
        )  # fmt: skip
    print()
    verdict("RBF decision values against oneDAL's SVR", ratios["oneDAL"], ONEDAL_TARGET)
    verdict("RBF decision values against LIBSVM", ratios["LIBSVM"], LIBSVM_TARGET)
    verdict("two threads against one, prediction", ratios["threads"], THREADS_TARGET, at_least=True)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
