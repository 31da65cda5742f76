"""Linear training side by side with other programs: time to the same relative accuracy of the objective.

    python -m benchmarks.linear [--machines odm,svm] [--sets a9a,ijcnn1] [--C 0.03125,1,32] [--quick]

With nu = 1 these state the very same problem as odm: LIBLINEAR -s 11 (-p theta -c C/(1-theta)^2 -B 1) and
ReHLine, by its sums of squared hinges. For svm they are LIBLINEAR's -s 3 and Snap ML's hinge. All
get the data in their own structure in memory; only training is timed. odmlib has two threads; LIBLINEAR
(liblinear-multicore) runs with one and with two, Snap ML with two, ReHLine has none. Packages that are not
installed are left out with a line.

odmlib runs with the accuracy as its relative duality gap. No peer's tolerance promises an accuracy, so that
each is run down a ladder of tolerances, and the loosest one counts whose objective is within the accuracy of
the best objective known (odmlib's at a much smaller gap, or any seen). `off` is how far above that each
objective lies, relative. The fastest peer is named and compared with; the last column has them all. A run of
a peer is ended when it takes ten times as long as odmlib to 1e-6, but not before 15 s and not after 90 s;
`<` then marks the ratio as an upper bound.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks._common import (
    Table,
    bounded,
    has_package,
    interruptible,
    load_set,
    median_time,
    met,
    n_threads,
    parse_arguments,
    ratio,
    verdict,
)

# label of the first class, for sets of more than two classes
SETS = {
    "a9a": None,
    "ijcnn1": None,
    "phishing": None,
    "skin_nonskin": None,
    "connect-4": 1.0,
    "news20": 1.0,
    "mnist": 1.0,
}
QUICK_SETS = ("a9a", "phishing")
THETA = 0.2
ACCURACIES = (1e-3, 1e-6)
BEST = 1e-10  # gap of the run that gives the best known objective
LADDER = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
LIMIT, LEAST_LIMIT, BEST_LIMIT = 90.0, 15.0, 15.0
DENSE_BYTES = 1e9  # beyond, rows are not made dense for a program that needs that
# of each machine: the accuracy that counts, the part of the best peer's time that is wanted, and never more
TARGETS = {"odm": (1e-6, 0.5, 1.0), "svm": (1e-3, 1.0, 1.0)}

# a tolerance -> (seconds, weights with that of the constant feature 1 last)
Train = Callable[[float], tuple[float, Any]]


@dataclass(frozen=True)
class Run:
    seconds: float
    objective: float
    note: str


def excess(objective: float, best: float) -> float:
    """How far an objective lies above the best one, relative."""
    return (objective - best) / max(1.0, abs(best))


def loosest(runs: Sequence[Run], best: float, accuracy: float) -> Run | None:
    """The first run of the ladder that is within the accuracy."""
    return next((run for run in runs if excess(run.objective, best) <= accuracy), None)


def objective(machine: str, X: Any, y: Any, weights: Any, C: float) -> float:
    """P with the constant feature 1 as last weight; nu = 1."""
    z = y * (X @ weights[:-1] + weights[-1])
    half = 0.5 * float(weights @ weights)
    if machine == "svm":
        return half + C * float(np.maximum(0, 1 - z).sum())
    beyond = np.maximum(0, np.abs(1 - z) - THETA)
    return half + C / (1 - THETA) ** 2 * float(beyond @ beyond)


# -- odmlib


def run_odmlib(problem: Any, machine: str, C: float, **more: Any) -> tuple[Run, Any]:
    """Our run, and its model."""
    from odmlib.machines.training import make_settings, train_problem

    own = {"nu": 1.0, "theta": THETA} if machine == "odm" else {}
    how = {"machine": machine, "kernel": "linear", "C": C, "bias": 1.0, "threads": n_threads()}
    options = make_settings({"time_limit": LIMIT} | how | own | more)
    seconds, model = median_time(partial(train_problem, problem, options))
    report = model.report
    note = f"{report['solver']} {report['iterations']}"
    if report["status"] != "converged":
        note += f", {report['status']}, gap {report['gap']:.1e}"
    return Run(seconds, report["primal"], note), model


# -- peers: what each needs is made once for a set and a C


def liblinear(machine: str, X: Any, y: Any, C: float, threads: int) -> Train:
    from liblinear.liblinear import parameter, problem
    from liblinear.liblinearutil import train
    from scipy.sparse import csr_matrix

    data = problem(y, csr_matrix(X), 1)
    of = f"-s 3 -c {C!r}" if machine == "svm" else f"-s 11 -p {THETA} -c {C / (1 - THETA) ** 2!r}"

    def run(e: float) -> tuple[float, Any]:
        seconds, model = median_time(partial(train, data, parameter(f"{of} -e {e!r} -B 1 -m {threads} -q")))
        weights, intercept = model.get_decfun()
        weights = np.array([*weights, intercept])
        return seconds, weights if model.get_labels()[0] == 1 or machine == "odm" else -weights

    return run


def rehline(X: Any, y: Any, C: float) -> Train:
    from rehline import ReHLine

    rows = np.hstack([X.toarray(), np.ones((X.shape[0], 1))])
    size = np.sqrt(2 * C / (1 - THETA) ** 2)  # ReHLine halves squares
    signs = np.vstack([-y, y]) * size
    offsets = np.repeat([[size * (1 - THETA)], [-size * (1 + THETA)]], len(y), axis=1)

    def run(tol: float) -> tuple[float, Any]:
        machine = ReHLine(C=1.0, tol=tol, max_iter=1_000_000)
        machine._S, machine._T, machine._Tau = signs, offsets, np.full(signs.shape, np.inf)
        seconds, fitted = median_time(partial(machine.fit, rows))
        return seconds, fitted.coef_

    return run


def snap(X: Any, y: Any, C: float) -> Train:
    from scipy.sparse import csr_matrix

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy 2 has renamed what 1.17 asks for AVX2, which it then leaves
        from snapml import SupportVectorMachine

    rows = csr_matrix(X)

    def run(tol: float) -> tuple[float, Any]:
        machine = SupportVectorMachine(
            loss="hinge", fit_intercept=True, regularizer=1 / C, n_jobs=n_threads(), tol=tol, max_iter=100_000
        )
        seconds, _ = median_time(partial(machine.fit, rows, y))
        return seconds, np.concatenate([np.ravel(machine.coef_), np.ravel(machine.intercept_)])

    return run


def peers_of(machine: str, X: Any, y: Any, C: float) -> dict[str, Callable[[], Train]]:
    """What is installed, by name; a peer's own data is made when it is asked for."""
    peers: dict[str, Callable[[], Train]] = {}
    if has_package("liblinear", "liblinear-multicore"):
        for threads in (1, n_threads()):
            peers[f"LIBLINEAR -m {threads}"] = partial(liblinear, machine, X, y, C, threads)
    if machine == "svm" and has_package("snapml", "snapml"):
        peers["Snap ML"] = partial(snap, X, y, C)
    dense = 8 * X.shape[0] * X.shape[1] <= DENSE_BYTES
    if machine == "odm" and dense and has_package("rehline", "rehline"):
        peers["ReHLine"] = partial(rehline, X, y, C)
    return peers


def climb(
    prepare: Callable[[], Train], value: Callable[[Any], float], best: float, limit: float
) -> list[Run]:
    """A peer's runs down the ladder, until the finest accuracy or the limit is reached."""
    train = prepare()
    runs: list[Run] = []
    for tol in LADDER:
        answer = bounded(partial(train, tol), limit)
        if answer is None:
            break
        seconds, weights = answer
        runs.append(Run(seconds, value(weights), f"{tol:g}"))
        if excess(runs[-1].objective, best) <= min(ACCURACIES):
            break
    return runs


def main() -> int:
    def add(parser: Any) -> None:
        parser.add_argument("--machines", default=",".join(TARGETS))
        parser.add_argument("--sets", help=f"some of {','.join(SETS)}")
        parser.add_argument("--C", default="0.03125,1,32")

    from odmlib.data.problem import Problem

    arguments = parse_arguments(__doc__, add)
    names = arguments.sets.split(",") if arguments.sets else QUICK_SETS if arguments.quick else SETS
    ratios: dict[tuple[str, float], list[float | None]] = {}
    for machine in arguments.machines.split(","):
        table = Table(
            f"{machine}: seconds to an accuracy; odmlib on {n_threads()} thread(s), nu 1",
            ("set", 14), ("C", 7), ("accuracy", 8), ("odmlib", 7), ("off", 8), ("best peer", 14), "seconds",
            ("off", 8), ("ratio", 7), ("target", 6), ("", 7), ("odmlib; peers", 0),
        )  # fmt: skip
        for name in names:
            loaded = load_set(name, SETS.get(name))
            if loaded is None:
                continue
            X, y = loaded
            problem = Problem.from_arrays(X, y)
            for C in map(float, arguments.C.split(",")):
                peers = peers_of(machine, X, y, C)
                if not peers:
                    return 0
                for cell in _cells(machine, X, y, C, problem, peers):
                    value = add_line(table, machine, name, C, *cell)
                    ratios.setdefault((machine, cell[0]), []).append(value)
    print()
    for (machine, accuracy), values in ratios.items():
        counts, wanted, most = TARGETS[machine]
        verdict(
            f"linear {machine} at {accuracy:g} against the best peer",
            values,
            wanted if accuracy == counts else None,
        )
        if accuracy == counts and most != wanted:
            verdict("the same, never above", values, most)
    return 0


def _cells(
    machine: str, X: Any, y: Any, C: float, problem: Any, peers: dict[str, Callable[[], Train]]
) -> list[tuple[Any, ...]]:
    """For each accuracy: (accuracy, our run, all runs of each peer, best objective, limit)."""
    ours = {}
    for accuracy in ACCURACIES:
        ours[accuracy], model = run_odmlib(problem, machine, C, tol=accuracy)
    finest, _ = run_odmlib(problem, machine, C, tol=BEST, init=model, time_limit=BEST_LIMIT)
    best = min(finest.objective, *(run.objective for run in ours.values()))
    limit = min(LIMIT, max(LEAST_LIMIT, 10 * ours[min(ACCURACIES)].seconds))
    value = partial(objective, machine, X, y, C=C)
    theirs = {name: climb(prepare, value, best, limit) for name, prepare in peers.items()}
    best = min([best, *(run.objective for runs in theirs.values() for run in runs)])
    return [(accuracy, ours[accuracy], theirs, best, limit) for accuracy in ACCURACIES]


def add_line(
    table: Table,
    machine: str,
    name: str,
    C: float,
    accuracy: float,
    ours: Run,
    theirs: dict[str, list[Run]],
    best: float,
    limit: float,
) -> float | None:
    """Print one cell; its ratio to the fastest peer that reached the accuracy, or that was ended."""
    off = excess(ours.objective, best)
    reached = {peer: run for peer, runs in theirs.items() if (run := loosest(runs, best, accuracy))}
    notes, peer, seconds, shown = [ours.note], "none", None, "-"
    for one, runs in theirs.items():
        if run := reached.get(one):
            notes.append(f"{one} {run.seconds:.3g} at {run.note}")
        elif len(runs) == len(LADDER):
            notes.append(f"{one} not reached")
        else:
            notes.append(f"{one} > {limit:.3g}")
            seconds = limit
    if reached:
        peer = min(reached, key=lambda one: reached[one].seconds)
        seconds, shown = reached[peer].seconds, f"{excess(reached[peer].objective, best):.0e}"
    value = float("inf") if off > accuracy else ratio(ours.seconds, seconds)
    counts, wanted, _ = TARGETS[machine]
    target = wanted if accuracy == counts else None
    table.add(
        name, C, f"{accuracy:g}", ours.seconds, f"{off:.0e}", peer, seconds, shown,
        "-" if value is None else f"{'' if reached else '<'}{value:.2g}",
        "-" if target is None else f"{target:g}",
        "" if target is None else met(value, target), "; ".join(notes),
    )  # fmt: skip
    return value


if __name__ == "__main__":
    sys.exit(interruptible(main))
