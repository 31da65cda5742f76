"""Kernel training side by side with oneDAL and LIBSVM.

    python -m benchmarks.kernels [--sets a9a,ijcnn1] [--quick]

RBF ODM with nu = 1 to a relative duality gap of 1e-3, against epsilon-SVR on the labels with epsilon =
theta and the same kernel and C, at the peers' tolerance 1e-3 and the same cache of 4 GB. nu = 1 gives ODM
the two-sided band of SVR; its loss beyond the band is squared where SVR's is linear, so objectives cannot
be compared: accuracies on test rows (training rows where the set has no test rows, marked t) stand beside
the times. C-SVC solves another problem too. oneDAL (scikit-learn-intelex) uses two threads as odmlib does;
`float32` gives it the rows in single precision, in which odmlib keeps its kernel values. LIBSVM
(scikit-learn's, dense rows) has no threads and gets at most 12,000 rows, and odmlib is timed on the same
rows for that ratio. A peer that takes many times as long as odmlib is ended; `<` marks the ratio as an
upper bound.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks._common import (
    Table,
    bounded,
    has_package,
    interruptible,
    median_time,
    met,
    n_threads,
    parse_arguments,
    repeats_for,
    timed,
    verdict,
)
from benchmarks._kernel_sets import (
    BY_NAME,
    CACHE_MB,
    SETS,
    THETA,
    TOL,
    KernelProblem,
    accuracy,
    few_rows,
    load_problem,
    train_odm,
)

LIMIT = 100.0  # seconds for one run of anything
LEAST_LIMIT = 10.0
ONEDAL_PATIENCE, LIBSVM_PATIENCE = 2.5, 10  # a peer that takes so many times our time has shown enough
LOADING = 10.0  # seconds for a peer's libraries
LIBSVM_ROWS = 12_000
QUICK_ROWS = 2_000
ONEDAL_TARGET, LIBSVM_TARGET = 1.0, 0.2


def run_odmlib(problem: KernelProblem) -> tuple[float, float, str]:
    """Seconds, accuracy, and how it ended."""
    seconds, model = train_odm(problem, n_threads(), LIMIT)
    report = model.report
    scores = model.decision_function(problem.X_test) * model.labels[0]
    end = f"{report['support_vectors']} SV, {report['iterations']} it."
    if report["status"] != "converged":
        end += f", {report['status']}, gap {report['gap']:.1e}"
    return seconds, accuracy(scores, problem.y_test), end


def run_peer(
    problem: KernelProblem, package: str, machine: str, single: bool = False
) -> Iterator[tuple[float, float | None]]:
    """Seconds and accuracy of SVR or SVC by oneDAL (sklearnex) or LIBSVM (sklearn), as they become known."""
    svm: Any = importlib.import_module(f"{package}.svm")
    options = {"kernel": "rbf", "gamma": problem.gamma, "C": problem.C, "tol": TOL, "cache_size": CACHE_MB}
    X = problem.X.astype(np.float32) if single else problem.X
    peer = svm.SVR(epsilon=THETA, **options) if machine == "SVR" else svm.SVC(**options)
    few = few_rows(problem.y)
    peer.fit(X[few], problem.y[few])  # libraries are loaded
    seconds, _ = timed(partial(peer.fit, X, problem.y))
    yield seconds, None
    if repeats_for(seconds) > 1:
        seconds, _ = median_time(partial(peer.fit, X, problem.y), 3)
    scores = peer.predict(problem.X_test.astype(X.dtype))  # SVC: labels, as good
    yield seconds, accuracy(scores, problem.y_test)


def wait_for(problem: KernelProblem, limit: float, *which: Any) -> tuple[float, float | None] | None:
    """The peer's answer; None if its training alone took longer than the limit."""
    return bounded(partial(run_peer, problem, *which), limit + LOADING)


def limit_for(ours: float, patience: float) -> float:
    return min(LIMIT, max(LEAST_LIMIT, patience * ours))


def cells(answer: tuple[float, float | None] | None, limit: float) -> tuple[str, str]:
    """Seconds and accuracy as shown."""
    if answer is None:
        return f"> {limit:.3g}", "-"
    return f"{answer[0]:.3g}", "-" if answer[1] is None else f"{answer[1]:.2f}"


def against(ours: float, peer: tuple[float, float | None] | None, limit: float) -> tuple[float, str]:
    """Our time divided by the peer's, and that as shown."""
    value = ours / (limit if peer is None else peer[0])
    return value, f"{'<' if peer is None else ''}{value:.2g}"


def compare_onedal(problems: list[KernelProblem]) -> None:
    if not has_package("sklearnex", "scikit-learn-intelex"):
        return
    table = Table(
        f"odmlib and oneDAL, {n_threads()} thread(s), cache {CACHE_MB} MB: seconds and % right",
        ("set", 33), ("rows", 6), ("odmlib", 7), ("%", 6), ("SVR", 7), ("%", 6), ("ratio", 6), ("target", 6),
        ("", 7), ("float32", 7), ("ratio", 6), ("SVC", 7), ("%", 6), ("ratio", 6), ("odmlib", 0),
    )  # fmt: skip
    ratios, single_ratios = [], []
    for problem in problems:
        mark = "" if problem.own_test else "t"
        ours = bounded(partial(run_odmlib, problem), 3 * LIMIT)
        if ours is None:
            print(f"{problem.label}: odmlib was ended after {3 * LIMIT:g} s")
            ratios.append(float("inf"))
            continue
        limit = limit_for(ours[0], ONEDAL_PATIENCE)
        svr = wait_for(problem, limit, "sklearnex", "SVR")
        single = wait_for(problem, limit, "sklearnex", "SVR", True)
        svc = wait_for(problem, limit, "sklearnex", "SVC")
        value, text = against(ours[0], svr, limit)
        single_value, single_text = against(ours[0], single, limit)
        ratios.append(value)
        single_ratios.append(single_value)
        table.add(
            problem.label, len(problem.y), ours[0], f"{ours[1]:.2f}{mark}", *cells(svr, limit), text,
            ONEDAL_TARGET, met(value, ONEDAL_TARGET), cells(single, limit)[0], single_text,
            *cells(svc, limit),
            against(ours[0], svc, limit)[1], ours[2],
        )  # fmt: skip
    print()
    verdict("RBF ODM at gap 1e-3 against oneDAL's SVR", ratios, ONEDAL_TARGET)
    verdict("the same against oneDAL's SVR on float32 rows", single_ratios, None)


def compare_libsvm(problems: list[KernelProblem]) -> None:
    if not has_package("sklearn", "scikit-learn"):
        return
    table = Table(
        f"odmlib ({n_threads()} thread(s)) and LIBSVM on at most {LIBSVM_ROWS} rows: seconds and % right",
        ("set", 33), ("rows", 6), ("odmlib", 7), ("%", 6), ("SVR", 7), ("%", 6), ("ratio", 7), ("target", 6),
        ("", 7), ("SVC", 7), ("%", 6), ("ratio", 7),
    )  # fmt: skip
    ratios = []
    for problem in problems:
        part = problem.subset(LIBSVM_ROWS)
        # predicting takes LIBSVM as long as training
        part = replace(part, X_test=part.X_test[:2000], y_test=part.y_test[:2000])
        ours = bounded(partial(run_odmlib, part), 3 * LIMIT)
        if ours is None:
            print(f"{part.label}: odmlib was ended after {3 * LIMIT:g} s")
            continue
        limit = limit_for(ours[0], LIBSVM_PATIENCE)
        svr = wait_for(part, limit, "sklearn", "SVR")
        svc = wait_for(part, limit, "sklearn", "SVC")
        value, text = against(ours[0], svr, limit)
        ratios.append(value)
        table.add(
            part.label, len(part.y), ours[0], f"{ours[1]:.2f}{'' if part.own_test else 't'}",
            *cells(svr, limit), text, LIBSVM_TARGET, met(value, LIBSVM_TARGET),
            *cells(svc, limit), against(ours[0], svc, limit)[1],
        )  # fmt: skip
    print()
    verdict(f"RBF ODM against LIBSVM's SVR, at most {LIBSVM_ROWS} rows", ratios, LIBSVM_TARGET)


def main() -> int:
    arguments = parse_arguments(
        __doc__, lambda parser: parser.add_argument("--sets", default=",".join(one.name for one in SETS))
    )
    rows = QUICK_ROWS if arguments.quick else None
    problems = [load_problem(BY_NAME[name], rows) for name in arguments.sets.split(",")]
    found = [problem for problem in problems if problem is not None]
    if found:
        compare_onedal(found)
        compare_libsvm(found)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
