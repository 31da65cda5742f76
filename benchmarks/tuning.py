"""The measurement behind each tuning number: python -m benchmarks.tuning [--only linear,working-set]

Each number of a solver's tuning value is halved and doubled, alone, and the solver's problems are solved
again; a part of something, below 1, goes at most half of the way to 1. A cell is the processor time of one
thread, divided by the time with the number as it is: 1.20 means a fifth more time for all problems together.
The worst single problem stands in brackets. "fails" means that a run does not converge. Numbers that no
problem here depends on show 1.00 twice: they guard rare cases.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks._common import Table, interruptible, load_set, parse_arguments

FACTORS = (0.5, 2.0)
REPEATS = 3
TIME_LIMIT = 60.0  # of one run
Run = Callable[[Any], Any]  # a tuning value in, a SolverResult out


def scaled(name: str) -> tuple[Any, Any] | None:
    """Rows with columns of at most 1 in size, and labels of two classes."""
    loaded = load_set(name)
    if loaded is None:
        return None
    X, y = loaded
    top = abs(X).max(axis=0).toarray().ravel()
    top[top == 0] = 1
    return X.multiply(1 / top).tocsr(), y


def linear_runs(quick: bool) -> Iterator[Run]:
    from odmlib._core.rows import Rows
    from odmlib.data.dataset import Dataset
    from odmlib.losses.loss import BandLoss
    from odmlib.solvers.control import Control, Resources
    from odmlib.solvers.linear.auto import solve_linear
    from odmlib.solvers.problem import LinearProblem

    for name in (
        ("rcv1_small",) if quick else ("rcv1_small", "reuters_moneyfx", "colon-cancer", "phishing", "a9a")
    ):
        for C in (1.0, 100.0):
            if (loaded := scaled(name)) is not None:
                rows = Rows(Dataset.from_any(loaded[0]), 1.0)
                problem = LinearProblem(rows, loaded[1], np.full(rows.n_rows, C / 0.64), BandLoss(0.2, 0.5))
                yield lambda tuning, problem=problem: solve_linear(
                    problem, Control(1e-3, time_limit=TIME_LIMIT), Resources(), None, tuning
                )


def kernel_runs(quick: bool) -> Iterator[Run]:
    from odmlib.data.dataset import Dataset
    from odmlib.kernels.formula import KernelFormula
    from odmlib.kernels.kernel import Kernel
    from odmlib.losses.loss import BandLoss, HingeLoss
    from odmlib.solvers.control import Control, Resources
    from odmlib.solvers.kernel.working_set import solve_working_set
    from odmlib.solvers.problem import KernelProblem

    for name in ("svmguide1",) if quick else ("svmguide1", "splice", "ida_image", "phishing"):
        loaded = scaled(name)
        if loaded is None:
            continue
        X, y = loaded
        gamma = 1 / (X.shape[1] * X.toarray().var())
        for C in (1.0, 100.0):
            for loss, cost in ((BandLoss(0.2, 0.5), C / 0.64), (HingeLoss(), C)):
                kernel = Kernel(KernelFormula("rbf", gamma=gamma), Dataset.from_any(X))
                problem = KernelProblem(kernel, y, np.full(len(y), cost), loss)
                yield lambda tuning, problem=problem: solve_working_set(
                    problem, Control(1e-3, time_limit=TIME_LIMIT), Resources(1, 200 << 20), None, tuning
                )


def studies() -> dict[str, tuple[Any, Callable[[bool], Iterator[Run]]]]:
    from odmlib.solvers.kernel.working_set import TUNING as WORKING_SET
    from odmlib.solvers.linear.auto import TUNING as LINEAR

    return {"linear": (LINEAR, linear_runs), "working-set": (WORKING_SET, kernel_runs)}


def numbers(tuning: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    """The numbers of a tuning value, with those of the values inside of it."""
    for field in dataclasses.fields(tuning):
        value = getattr(tuning, field.name)
        if dataclasses.is_dataclass(value):
            yield from numbers(value, (*path, field.name))
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and np.isfinite(value):
            yield (*path, field.name), value


def changed(tuning: Any, path: tuple[str, ...], value: float) -> Any:
    """The tuning with one number replaced; whole numbers stay whole."""
    name, *rest = path
    old = getattr(tuning, name)
    new = changed(old, tuple(rest), value) if rest else max(1, int(value)) if isinstance(old, int) else value
    return dataclasses.replace(tuning, **{name: new})


def seconds_of(run: Run, tuning: Any) -> float | None:
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        try:
            result = run(tuning)
        except ValueError:  # a number that makes no sense
            return None
        times.append(time.process_time() - began)
        if result.status != "converged":
            return None
        if times[-1] > 1:
            break
    return min(times)


def main() -> int:
    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--only", default="", help="solvers, by commas")

    arguments = parse_arguments(__doc__, add)
    only = arguments.only.split(",") if arguments.only else list(studies())
    for name in only:
        tuning, make_runs = studies()[name]
        runs = list(make_runs(arguments.quick))
        usual = [seconds_of(run, tuning) for run in runs]
        kept = [k for k, seconds in enumerate(usual) if seconds is not None]
        table = Table(f"{name}: {len(kept)} problems", ("number", 28), "value", ("half", 16), ("double", 16))
        for path, value in numbers(tuning):
            cells = []
            for factor in FACTORS:
                wanted = min(factor * value, (1 + value) / 2) if value < 1 else factor * value
                tried = changed(tuning, path, wanted)
                times = [seconds_of(runs[k], tried) for k in kept]
                if any(seconds is None for seconds in times):
                    cells.append("fails")
                    continue
                ratios = [seconds / usual[k] for k, seconds in zip(kept, times, strict=True)]
                cells.append(f"{sum(times) / sum(usual[k] for k in kept):.2f} ({max(ratios):.2f})")
            table.add(".".join(path), value, *cells)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
