"""Kernel training and prediction beside C-SVC: python -m benchmarks.csvc [--jobs pairs,wide] [--quick]

odmlib's machines svm and odm beside the C-SVC of LIBSVM (libsvm-official), oneDAL (scikit-learn-intelex)
and ThunderSVM (thundersvm-cpu), which a user would run instead. `--programs` names those that take part.
ODM solves another problem; so does svm, by LIBSVM's free bias. Kernel rbf, all at their default tolerances,
one thread each. Processor seconds, the least of several runs: other work on the machine changes them
little. The jobs:

    pairs    4,000 rows of 6 to 10 classes (one-vs-one), and shuttle as a whole
    binary   8,000 rows of columns of zeros and ones, nearly separable, C = 100
    wide     2,600 rows of 500 and 780 dense columns: training, and decision values of 5,000 rows
    large    5,000 to 20,000 rows of 10 to 60 columns, C = 1 and 100
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # LIBSVM's threads spin; set before it is loaded

import numpy as np

import odmlib
from benchmarks._common import (
    Table,
    bounded,
    generated_rows,
    has_package,
    interruptible,
    load_set,
    parse_arguments,
    ratio,
    verdict,
)
from benchmarks.data import find
from odmlib.data.reading import read_data

SEED = 0
LIMIT = 120.0  # seconds for all runs of one cell
LONG = 0.5  # seconds after which a run is not repeated more than once


@dataclass(frozen=True)
class Job:
    """Rows to train on, and the costs to train with; `test`: rows whose decision values are wanted, too."""

    name: str
    X: Any
    y: Any
    costs: tuple[float, ...]
    gamma: float | None = None  # None: 1 / (columns x variance)
    test: Any = None

    @property
    def width(self) -> float:
        return self.gamma or 1 / float(self.X.shape[1] * self.X.var())


# -- data


def unit_columns(X: Any) -> Any:
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / np.where(high > low, high - low, 1)


def some_rows(X: Any, y: Any, n: int) -> tuple[Any, Any]:
    rows = np.sort(np.random.default_rng(SEED).permutation(len(y))[:n])
    return X[rows], y[rows]


def real(name: str, rows: int | None = None, multiclass: bool = False) -> tuple[Any, Any] | None:
    """At most so many rows, columns scaled to [0, 1]."""
    if multiclass:
        path = find(name)
        loaded = None if path is None else read_data(path)
    else:
        loaded = load_set(name)
    if loaded is None:
        return None
    X, y = loaded[0].toarray(), loaded[1]
    X, y = some_rows(X, y, rows or len(y))
    return unit_columns(X), y


def clusters(m: int, d: int, k: int, spread: float) -> tuple[Any, Any]:
    rng = np.random.default_rng(SEED)
    centres, y = rng.standard_normal((3 * k, d)), rng.integers(0, 3 * k, m)
    return centres[y] + spread * rng.standard_normal((m, d)), (y % k).astype(float)


def binary_columns(m: int, d: int, noise: float) -> tuple[Any, Any]:
    """One-hot columns, as of a table of categories; labels by a few rules, some of them wrong."""
    rng = np.random.default_rng(SEED)
    sizes = []
    while sum(sizes) < d:
        sizes.append(min(int(rng.integers(2, 10)), d - sum(sizes)))
    kind = rng.integers(0, 12, m)  # rows of a kind are alike
    columns = []
    for size in sizes:
        likely = rng.integers(0, size, 12)[kind]
        found = np.where(rng.random(m) < 0.6, likely, rng.integers(0, size, m))
        columns.append(np.eye(size)[found])
    X = np.hstack(columns)
    parts = rng.standard_normal(d)
    score = X @ parts + 1.5 * (X[:, 0] * X[:, -1] + X[:, 1] * X[:, -2] - X[:, 3] * X[:, -4])
    y = np.where(score > np.median(score), 1.0, -1.0)
    return X, np.where(rng.random(m) < noise, -y, y)


def curved(m: int, d: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((m, d))
    score = np.sin(X[:, :3]).sum(axis=1) + 0.4 * X[:, 3] * X[:, 4] + 0.3 * rng.standard_normal(m)
    return X, np.where(score > 0, 1.0, -1.0)


def pairs(quick: bool) -> Iterator[Job]:
    most = 1000 if quick else 4000
    for name in ("satimage.scale", "pendigits", "segment.scale", "shuttle", "mnist"):
        if data := real(name, most, True):
            X, y = data
            yield Job(name, X[:, X.any(axis=0)], y, (1.0, 16.0))
    for k, spread in ((6, 1.0), (10, 0.5)):
        yield Job(f"{k} clusters", *clusters(most, 16, k, spread), (1.0, 16.0))
    if not quick and (data := real("shuttle", None, True)):
        yield Job("shuttle, whole", *data, (16.0, 1024.0))


def binary(quick: bool) -> Iterator[Job]:
    most = 1500 if quick else 8000
    for name in ("phishing", "chess-krvkp", "a9a", "connect-4"):
        if data := real(name, most):
            yield Job(name, *data, (100.0,))
    for noise in (0.0, 0.003):
        yield Job(f"112 columns, noise {noise:g}", *binary_columns(most, 112, noise), (100.0,))


def wide(quick: bool) -> Iterator[Job]:
    most = 600 if quick else 2600
    for d in (500, 780):
        X, y = generated_rows(most, d)
        yield Job(f"normal, {d} columns", X, y, (1.0, 100.0), test=generated_rows(2 * most, d, 1)[0])
    if data := real("mnist", 3 * most):
        X, y = data
        X = X[:, X.any(axis=0)]
        yield Job("mnist", X[:most], y[:most], (1.0,), test=X[most:])


def large(quick: bool) -> Iterator[Job]:
    most = 2000 if quick else 20_000
    names = ("SUSY.30k", "covtype.binary.5k", "ida_waveform", "ringnorm", "twonorm", "phishing")
    for name, gamma in (("ijcnn1", 2.0), *((name, None) for name in names)):
        if data := real(name, most if gamma is None else 5 * most):
            yield Job(name, *data, (1.0, 100.0), gamma)
    for m, d in ((5000, 60), (20_000, 10)):
        yield Job(f"curved, {d} columns", *curved(min(most, m), d), (1.0, 100.0))


JOBS: dict[str, Callable[[bool], Iterator[Job]]] = {
    "pairs": pairs,
    "binary": binary,
    "wide": wide,
    "large": large,
}


PACKAGES = {
    "LIBSVM": ("libsvm", "libsvm-official"),
    "oneDAL": ("sklearnex", "scikit-learn-intelex"),
    "ThunderSVM": ("thundersvm", "thundersvm-cpu"),
}


# -- programs: each a (training, decision values) pair


def run_odmlib(machine: str, job: Job, C: float) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    options = {"machine": machine, "C": C, "gamma": job.width, "threads": 1, "cache_mb": 2048}
    return partial(odmlib.train, job.X, job.y, **options), lambda model: model.decision_function(job.test, 1)


def run_libsvm(job: Job, C: float) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    from libsvm.svmutil import svm_predict, svm_problem, svm_train
    from scipy.sparse import csr_matrix

    problem = svm_problem(job.y, csr_matrix(job.X))
    test = None if job.test is None else csr_matrix(job.test)
    text = f"-q -t 2 -m 2048 -c {C!r} -g {job.width!r}"
    return partial(svm_train, problem, text), lambda model: svm_predict([], test, model, "-q")


def run_onedal(job: Job, C: float) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    import daal4py
    from sklearnex.svm import SVC

    daal4py.daalinit(nthreads=1)
    machine = SVC(kernel="rbf", gamma=job.width, C=C, cache_size=2048)
    return partial(machine.fit, job.X, job.y), lambda model: model.decision_function(job.test)


def run_thunder(job: Job, C: float) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    from thundersvm import SVC

    machine = SVC(kernel="rbf", gamma=job.width, C=C, n_jobs=1, verbose=False)
    return partial(machine.fit, job.X, job.y), lambda model: model.decision_function(job.test)


def seconds_of(
    run: Callable[..., tuple[Callable[[], Any], Callable[[Any], Any]]], *arguments: Any
) -> Iterator[tuple[float, float | None]]:
    """Processor seconds of training, and of decision values where they are wanted."""
    train, decide = run(*arguments)
    job = next(argument for argument in arguments if isinstance(argument, Job))
    with warnings.catch_warnings():
        warnings.simplefilter("error", odmlib.ConvergenceWarning)  # what does not converge is not timed
        trained, model = least_time(train)
    yield trained, None
    if job.test is not None:
        yield trained, least_time(partial(decide, model))[0]


def least_time(run: Callable[[], Any]) -> tuple[float, Any]:
    times: list[float] = []
    while len(times) < 2 or (len(times) < 7 and sum(times) < LONG):
        begin = time.process_time()
        result = run()
        times.append(time.process_time() - begin)
        if times[0] > 10 * LONG:
            break
    return min(times), result


def compare(name: str, jobs: Iterator[Job], programs: tuple[str, ...]) -> None:
    runs = {
        "svm": partial(run_odmlib, "svm"),
        "odm": partial(run_odmlib, "odm"),
        "LIBSVM": run_libsvm,
        "oneDAL": run_onedal,
        "ThunderSVM": run_thunder,
    }
    table = Table(
        f"{name}: processor seconds, and ratios",
        ("set", 24), ("rows", 6), ("columns", 7), ("C", 5), *programs,
        *(f"{ours}/{theirs}" for ours in ("svm", "odm") for theirs in programs if theirs in PACKAGES),
    )  # fmt: skip
    ratios: dict[str, list[float | None]] = {}
    for job in jobs:
        for C in job.costs:
            found = {one: bounded(partial(seconds_of, runs[one], job, C), LIMIT) for one in programs}
            for place, what in enumerate(("training", "decision values")):
                if place == 1 and job.test is None:
                    continue
                times = {one: None if pair is None else pair[place] for one, pair in found.items()}
                shown = {}
                for ours in ("svm", "odm"):
                    for theirs in programs:
                        if theirs in PACKAGES:
                            key = f"{ours} against {theirs}, {what}"
                            shown[key] = ratio(times.get(ours), times[theirs])
                            ratios.setdefault(key, []).append(shown[key])
                label = job.name if place == 0 else "  decision values"
                table.add(label, *job.X.shape, f"{C:g}", *times.values(), *shown.values())
    for key, values in ratios.items():
        verdict(f"{name}: {key}", values, None)


def main() -> int:
    def add(parser: Any) -> None:
        parser.add_argument("--jobs", default=",".join(JOBS))
        parser.add_argument("--sets", help="only sets whose names hold this")
        parser.add_argument("--programs", default="svm,odm,LIBSVM,oneDAL,ThunderSVM")

    arguments = parse_arguments(__doc__, add)
    programs = tuple(
        one for one in arguments.programs.split(",") if one not in PACKAGES or has_package(*PACKAGES[one])
    )
    for name in arguments.jobs.split(","):
        jobs = (job for job in JOBS[name](arguments.quick) if (arguments.sets or "") in job.name)
        compare(name, jobs, programs)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
