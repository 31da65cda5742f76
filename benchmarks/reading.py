"""Reading speed and memory, side by side with peers: python -m benchmarks.reading [--megabytes 250] [--quick]

One file is generated per kind of number (temporary directory, removed afterwards):
  short    values with up to 6 digits, about 40 of 5000 features in a row
  long     values with 16 or 17 digits, the same rows
  mixed    half of the rows of each kind
  counts   whole numbers from 1 to 255, about 150 of 784 features in a row (like mnist)

Peers read the same file in the same run:
  scikit-learn   load_svmlight_file, float64
  LIBLINEAR      `liblinear-train -c -1 FILE`. LIBLINEAR reads the whole file before it looks at the
                 parameters, then refuses C = -1: nothing is trained, so the time is that of its C reader
                 (and of starting a process, about a millisecond).
  memcpy         copying the file's bytes in memory once: the ceiling

Times are medians of wall-clock time; `ratio` is the time of odmlib on two threads divided by the
contestant's.

Memory is the growth of the largest resident size of a fresh process while it reads, divided by the size of
the CSR arrays and the labels. On Linux that is VmHWM, not ru_maxrss: the latter starts at the size of the
process that launched the fresh one, which hides any growth below that.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks._common import (
    Table,
    growth_of_memory,
    has_package,
    interruptible,
    median_time,
    met,
    n_threads,
    parse_arguments,
    verdict,
)

ROUNDS = 5  # fewer of what takes long
TARGETS = {"scikit-learn": 0.05, "LIBLINEAR": 0.15}
THREADS_TARGET = 1.7
KINDS = ("short", "long", "mixed", "counts")


def write_file(path: Path, kind: str, n_bytes: int) -> None:
    """Repeat some thousands of random rows until the file is large enough."""
    generator = random.Random(0)
    lines = []
    for k in range(4000):
        width, n_items = (784, 150) if kind == "counts" else (5000, 40)
        columns = sorted(
            generator.sample(range(1, width + 1), generator.randrange(n_items // 2, n_items * 3 // 2))
        )
        if kind == "counts":
            numbers = [str(generator.randrange(1, 256)) for _ in columns]
        elif kind == "long" or (kind == "mixed" and k % 2):
            numbers = [repr(generator.uniform(-1, 1)) for _ in columns]
        else:
            numbers = [f"{generator.uniform(-1, 1):.6g}" for _ in columns]
        items = " ".join(f"{column}:{number}" for column, number in zip(columns, numbers, strict=True))
        lines.append(f"{generator.choice(['+1', '-1'])} {items}\n")
    text = "".join(lines).encode()
    with path.open("wb") as stream:
        for _ in range(max(1, n_bytes // len(text))):
            stream.write(text)


def contestants(path: Path) -> dict[str, Callable[[], object]]:
    from sklearn.datasets import load_svmlight_file

    from odmlib.data.reading import read_dataset

    content = path.read_bytes()
    threads = n_threads()
    read_dataset(b"1 1:1\n")  # everything is loaded
    runs: dict[str, Callable[[], object]] = {"odmlib, 1 thread": lambda: read_dataset(path, threads=1)}
    runs[f"odmlib, {threads} threads"] = lambda: read_dataset(path, threads=threads)
    runs["scikit-learn"] = lambda: load_svmlight_file(str(path))
    if shutil.which("liblinear-train"):
        command = ["liblinear-train", "-c", "-1", str(path)]
        runs["LIBLINEAR"] = lambda: subprocess.run(command, stderr=subprocess.PIPE)
    else:
        print("liblinear-train is not installed (Debian: liblinear-tools): left out")
    runs["memcpy"] = lambda: bytearray(content)
    return runs


def report_speed(path: Path, kind: str) -> dict[str, float]:
    """Print the speeds; median seconds per contestant."""
    runs = contestants(path)
    taken = {name: median_time(run, ROUNDS)[0] for name, run in runs.items()}
    size = path.stat().st_size
    ours = taken[f"odmlib, {n_threads()} threads"]
    table = Table(
        f"{kind}: {size / 1e6:.0f} MB; load {os.getloadavg()[0]:.1f}",
        ("", 20), ("seconds", 8), ("MB/s", 7), ("ratio", 7), ("target", 6), ("", 7),
    )  # fmt: skip
    for name, seconds in taken.items():
        target = TARGETS.get(name)
        value = ours / seconds
        table.add(
            name,
            seconds,
            f"{size / seconds / 1e6:.0f}",
            value,
            target,
            "" if target is None else met(value, target),
        )
    return {name: ours / seconds for name, seconds in taken.items()}


def report_memory(path: Path, kind: str) -> None:
    for threads in sorted({1, n_threads()}):
        command = [
            sys.executable,
            "-m",
            "benchmarks.reading",
            "--memory-of",
            str(path),
            "--threads",
            str(threads),
        ]
        grown, needed = map(
            int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        )
        print(
            f"  memory, {threads} thread(s): CSR {needed / 1e6:.0f} MB, grown by {grown / 1e6:.0f} MB: "
            f"{grown / needed:.2f} times ({kind})"
        )


def print_memory(path: str, threads: int) -> None:
    from odmlib.data.reading import read_dataset

    read_dataset(b"1 1:1\n", threads=threads)  # everything is loaded
    grown, (rows, labels) = growth_of_memory(lambda: read_dataset(path, threads=threads))
    needed = rows.indptr.nbytes + rows.indices.nbytes + rows.values.nbytes + labels.nbytes
    if grown < needed // 2:
        raise SystemExit(f"the arrays hold {needed} bytes, growth of {grown} is no measurement")
    print(grown, needed)


def main() -> int:
    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--megabytes", type=float, default=250)
        parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
        parser.add_argument("--memory-of", help=argparse.SUPPRESS)  # the fresh process of report_memory
        parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)

    options = parse_arguments(__doc__, add)
    if options.memory_of:
        print_memory(options.memory_of, options.threads)
        return 0
    if not has_package("sklearn", "scikit-learn"):
        return 0
    megabytes = min(options.megabytes, 10) if options.quick else options.megabytes
    ratios: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as directory:
        for kind in options.kinds:
            path = Path(directory) / f"{kind}.txt"
            write_file(path, kind, int(megabytes * 1e6))
            ratios.append(report_speed(path, kind))
            report_memory(path, kind)
            path.unlink()
    print()
    for name, target in TARGETS.items():
        verdict(f"reading {megabytes:g} MB against {name}", [r[name] for r in ratios if name in r], target)
    verdict("reading / memcpy of the file", [r["memcpy"] for r in ratios], None)
    if n_threads() > 1:
        speed_ups = [1 / r["odmlib, 1 thread"] for r in ratios]
        verdict("two threads against one, reading", speed_ups, THREADS_TARGET, at_least=True)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
