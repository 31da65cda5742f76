"""What the certificate costs: python -m benchmarks.certificate [--tol 1e-3]

Each set is trained twice, in turn, in one process with one thread: as users train, and with a solver that
believes its own scores (no scores computed anew, no bounds of rounding, no run that goes on because of them).
Printed is the ratio of the fastest processor times; other work on the machine does not count much.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any
from unittest import mock

import numpy as np

import odmlib
from benchmarks._common import VERDICT, interruptible, load_set, parse_arguments
from odmlib.solvers.kernel.certificate import Scores

SETS = ("svmguide1", "splice", "phishing", "banana", "ringnorm", "ida_image", "a9a", "ijcnn1")
QUICK = SETS[:2]
TARGET = 1.05
MOST_ROWS = 10_000  # of kernel machines
REPEATS, LEAST_SECONDS = 5, 2.0


def _believed(problem: Any, duals: Any, scores: Any, *more: Any) -> Scores:
    return Scores(scores, np.zeros(len(scores)))


@contextmanager
def _no_certificate() -> Iterator[None]:
    kernel, linear = "odmlib.solvers.kernel.shrinking.", "odmlib.solvers.linear."

    def solved(solve: Callable[..., Any], problem: Any, control: Any, start: Any, threads: int) -> Any:
        return solve(control, start)

    with (
        mock.patch(kernel + "known_scores", _believed),
        mock.patch(kernel + "exact_scores", lambda problem, duals, rough, *more: rough),
        mock.patch(kernel + "rounding", lambda *more: (0.0, 0.0)),
        mock.patch(linear + "auto.certified", solved),
        mock.patch(linear + "nonsmooth.certified", solved),
    ):
        yield


def _processor_time(run: Callable[[], Any]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def ratio(run: Callable[[], Any]) -> tuple[float, float]:
    """(seconds with the certificate, ratio to those without)"""
    run()
    seconds: list[list[float]] = [[], []]
    while len(seconds[0]) < REPEATS or sum(seconds[0]) < LEAST_SECONDS:
        seconds[0].append(_processor_time(run))
        with _no_certificate():
            seconds[1].append(_processor_time(run))
    return min(seconds[0]), min(seconds[0]) / min(seconds[1])


def main() -> int:
    arguments = parse_arguments(
        __doc__, lambda parser: parser.add_argument("--tol", type=float, default=1e-3)
    )
    print("| set | machine | kernel | C | seconds | with / without |\n|---|---|---|---|---|---|")
    found: dict[str, list[float]] = {"rbf": [], "linear": []}
    for name in QUICK if arguments.quick else SETS:
        data = load_set(name)
        if data is None:
            continue
        for kernel in found:
            X, y = data
            if kernel == "rbf" and len(y) > MOST_ROWS:
                chosen = np.sort(np.random.default_rng(0).permutation(len(y))[:MOST_ROWS])
                X, y = X[chosen], y[chosen]
            for machine in ("svm", "odm"):
                for C in (1.0, 100.0):
                    options = {"machine": machine, "kernel": kernel, "C": C, "tol": arguments.tol}
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", odmlib.ConvergenceWarning)
                        seconds, part = ratio(lambda: odmlib.train(X, y, threads=1, **options))  # noqa: B023
                    found[kernel].append(part)
                    print(
                        f"| {name} | {machine} | {kernel} | {C:g} | {seconds:.3f} | {part:.2f} |", flush=True
                    )
    for kernel, ratios in found.items():
        if ratios:
            middle, worst = median(ratios), max(ratios)
            verdict = "met" if middle <= TARGET else "missed"
            print(
                f"{VERDICT}certificate, {kernel}: with / without, median {middle:.2f}, worst {worst:.2f} "
                f"(target {TARGET} at the median): {verdict}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
