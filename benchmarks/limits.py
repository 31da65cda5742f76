"""Kernel training at its limits: little cache, large and small C, one thread against two.

    python -m benchmarks.limits [--quick]

cache    the time with 500 and 200 MB of cache divided by the time with 4 GB, same data, same gap. `cache` is
         what the cached rows may hold at most, `grown` how much the process grew during training: cached
         rows, the data in single precision, and the block's own matrices.
C        the gap reached and the time from C = 2^-5 to 2^10 on at most 10,000 rows
threads  one thread's time divided by two threads'
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from benchmarks._common import (
    Table,
    bounded,
    growth_of_memory,
    interruptible,
    met,
    n_threads,
    parse_arguments,
    ratio,
    verdict,
)
from benchmarks._kernel_sets import BY_NAME, CACHE_MB, TOL, KernelProblem, load_problem, train_odm

LIMIT = 120.0
CACHES_MB = (CACHE_MB, 500, 200)
CACHE_SETS = ("a9a", "ijcnn1", "SUSY.30k", "mnist")  # their matrices take 3.6 to 14 GB
LARGE = 55_000  # rows beyond which 200 MB are not tried: a minute each
C_SETS, C_ROWS = ("a9a", "ijcnn1", "svmguide1"), 10_000
POWERS = (-5, 0, 5, 10)
THREAD_SETS = ("a9a", "ijcnn1", "SUSY.30k")
CACHE_TARGET, THREADS_TARGET = 2.0, 1.7


def run(problem: KernelProblem, threads: int, **options: Any) -> tuple[float, dict[str, Any], int]:
    """Seconds, report and growth of memory."""
    grown, (seconds, model) = growth_of_memory(
        partial(train_odm, problem, threads, LIMIT, at_most=1, **options)
    )
    return seconds, model.report, grown


def child(problem: KernelProblem, threads: int, **options: Any) -> tuple[float, dict[str, Any], int] | None:
    """The same in a child, which has the machine's memory for itself."""
    return bounded(partial(run, problem, threads, **options), 2 * LIMIT)


def cached_bytes(report: dict[str, Any]) -> int:
    """What the cached kernel rows hold at most."""
    details = report["details"]
    return details["cache_rows"] * report["rows"] * (8 if details["float64"] else 4)


def problems_of(names: tuple[str, ...], rows: int | None) -> list[KernelProblem]:
    found = (load_problem(BY_NAME[name], rows) for name in names)
    return [problem for problem in found if problem is not None]


def report_caches(problems: list[KernelProblem], caches: tuple[int, ...]) -> None:
    table = Table(
        "little cache",
        ("set", 33), ("rows", 6), ("MB", 6), ("seconds", 8), ("gap", 8), ("ratio", 7), ("target", 6), ("", 7),
        ("cache MB", 9), ("grown MB", 9), ("under cap", 9),
    )  # fmt: skip
    ratios: dict[int, list[float | None]] = {cache: [] for cache in caches[1:]}
    within = []
    for problem in problems:
        whole: float | None = None
        for cache in caches if len(problem.y) < LARGE else caches[:2]:
            answer = child(problem, n_threads(), cache_mb=cache)
            if answer is None:
                table.add(problem.label, len(problem.y), cache, f"> {2 * LIMIT:g}")
                continue
            seconds, report, grown = answer
            held = cached_bytes(report)
            within.append(held / (cache * 2**20))
            if cache == caches[0]:
                whole, value, words = seconds, None, ("-", "")
            else:
                value = ratio(seconds, whole) if report["status"] == "converged" else float("inf")
                words = (f"{CACHE_TARGET:g}", met(value, CACHE_TARGET))
                ratios[cache].append(value)
            table.add(
                problem.label, len(problem.y), cache, seconds, f"{report['gap']:.1e}", value, *words,
                f"{held / 2**20:.0f}", f"{grown / 2**20:.0f}", "yes" if held <= cache * 2**20 else "NO",
            )  # fmt: skip
    print()
    for cache, values in ratios.items():
        verdict(f"-m {cache} against its own time with {caches[0]} MB", values, CACHE_TARGET)
    verdict("cached rows / cap", within, 1.0)


def report_costs(problems: list[KernelProblem]) -> None:
    table = Table(
        f"C, at most {C_ROWS} rows, {n_threads()} thread(s)",
        ("set", 12), ("C", 8), ("seconds", 8), ("gap", 8), ("status", 10), ("SV", 6), ("iterations", 10),
        ("float64", 7), ("", 7),
    )  # fmt: skip
    gaps = []
    for problem in problems:
        name = problem.label.split(",")[0]
        for power in POWERS:
            answer = child(problem, n_threads(), C=2.0**power)
            if answer is None:
                table.add(name, f"2^{power}", f"> {2 * LIMIT:g}")
                gaps.append(1.0)
                continue
            seconds, report, _ = answer
            gaps.append(report["gap"])
            words = report["status"], report["support_vectors"], report["iterations"]
            wide = "yes" if report["details"]["float64"] else "no"
            table.add(
                name, f"2^{power}", seconds, f"{report['gap']:.1e}", *words, wide, met(report["gap"], TOL)
            )
    print()
    verdict("gap reached, C from 2^-5 to 2^10", gaps, TOL)


def report_threads(problems: list[KernelProblem]) -> None:
    if n_threads() < 2:
        print("\nthreads: skipped, there is one core")
        return
    table = Table(
        "threads", ("set", 33), ("rows", 6), "1 thread", "2 threads", "speed-up", ("target", 6), ("", 7)
    )
    values = []
    for problem in problems:
        answers = [child(problem, threads) for threads in (1, 2)]
        one, two = (None if answer is None else answer[0] for answer in answers)
        values.append(ratio(one, two))
        words = values[-1], THREADS_TARGET, met(values[-1], THREADS_TARGET, at_least=True)
        table.add(problem.label, len(problem.y), one, two, *words)
    print()
    verdict("two threads against one, kernel training", values, THREADS_TARGET, at_least=True)


def main() -> int:
    arguments = parse_arguments(__doc__)
    quick = 2_000 if arguments.quick else None
    if problems := problems_of(CACHE_SETS[:2] if quick else CACHE_SETS, quick):
        report_caches(problems, (CACHE_MB, 8, 4) if quick else CACHES_MB)
    if problems := problems_of(C_SETS, quick or C_ROWS):
        report_costs(problems)
    if problems := problems_of(THREAD_SETS, quick):
        report_threads(problems)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
