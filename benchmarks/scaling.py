"""How training time grows with the rows: python -m benchmarks.scaling [--quick]

Generated rows with labels by a random hyperplane and noise, two threads, nu = 1, C = 1, gap 1e-3: kernel
machines (RBF, 20 columns, cache 4 GB) on 1,000 to 50,000 rows, linear ones (10 dense columns, in memory) on
10,000 to 10 million. `exponent` is the local one: time grows as rows to that power between two lines. A
size that would not fit the memory, and the sizes after one that took more than a minute, are left out.
"""

from __future__ import annotations

import math
import sys
from functools import partial
from typing import Any

import numpy as np

from benchmarks._common import (
    Table,
    bounded,
    generated_rows,
    interruptible,
    median_time,
    memory_available,
    n_threads,
    parse_arguments,
)

SIZES = {
    "rbf": (1_000, 2_000, 5_000, 10_000, 20_000, 50_000),
    "linear": (10_000, 100_000, 1_000_000, 10_000_000),
}
QUICK_SIZES = {"rbf": (1_000, 2_000), "linear": (10_000, 100_000)}
COLUMNS = {"rbf": 20, "linear": 10}
BYTES_PER_VALUE = 40  # dense rows, CSR and what the machine makes of them, at the worst
LIMIT = 60.0


def exponent(m: float, seconds: float, m_before: float, seconds_before: float) -> float:
    return math.log(seconds / seconds_before) / math.log(m / m_before)


def run(kernel: str, m: int) -> tuple[float, dict[str, Any]]:
    from odmlib.data.problem import Problem
    from odmlib.machines.training import train_problem
    from odmlib.options import TrainOptions

    X, y = generated_rows(m, COLUMNS[kernel])
    problem = Problem.from_arrays(X, y)
    del X
    options = TrainOptions(
        kernel=kernel,
        C=1.0,
        nu=1.0,
        tol=1e-3,
        gamma="auto",
        cache_mb=4096,
        threads=n_threads(),
        time_limit=LIMIT,
    )
    train_problem(problem.take(np.arange(100)), options)  # imports and first touches are not measured
    seconds, model = median_time(partial(train_problem, problem, options), 3)
    return seconds, model.report


def main() -> int:
    arguments = parse_arguments(__doc__)
    for kernel, sizes in (QUICK_SIZES if arguments.quick else SIZES).items():
        table = Table(
            f"{kernel}, {COLUMNS[kernel]} columns, {n_threads()} thread(s)",
            ("rows", 10), "seconds", "exponent", ("us per row", 10), ("gap", 8), ("iterations", 10),
            ("solver", 12),
        )  # fmt: skip
        before: tuple[int, float] | None = None
        for m in sizes:
            if m * COLUMNS[kernel] * BYTES_PER_VALUE > memory_available():
                print(f"{m} rows: left out, too little memory")
                break
            answer = bounded(partial(run, kernel, m), 5 * LIMIT)
            if answer is None:
                table.add(m, f"> {5 * LIMIT:g}")
                break
            seconds, report = answer
            power = None if before is None else exponent(m, seconds, *before)
            words = f"{report['gap']:.1e}", report["iterations"], report["solver"]
            table.add(m, seconds, power, 1e6 * seconds / m, *words)
            before = m, seconds
            if seconds > LIMIT:
                break
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
