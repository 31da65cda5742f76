"""Reading speed and memory, side by side with peers: python -m benchmarks.reading [--megabytes 100]

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

Every time is the best of a few rounds; in a round all contestants run in turn, since the machine may be
busy. Wall-clock time suffers from other processes, CPU time (user and system) hardly: compare contestants
with one thread by CPU time, and several threads by wall-clock time on a machine that is otherwise idle.

Memory is the growth of the largest resident size of a fresh process while it reads, divided by the size of
the CSR arrays and the labels. On Linux that is VmHWM, not ru_maxrss: the latter starts at the size of the
process that launched the fresh one, which hides any growth below that.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from odmlib._core.threads import available_threads

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


def cpu_seconds() -> float:
    """User and system time of this process and of the processes it waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def seconds(run: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock and CPU time."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    run()
    return time.perf_counter() - wall, cpu_seconds() - cpu


def contestants(path: Path) -> dict[str, Callable[[], object]]:
    from sklearn.datasets import load_svmlight_file

    from odmlib.data.reading import read_dataset

    content = path.read_bytes()
    threads = available_threads()
    runs: dict[str, Callable[[], object]] = {"odmlib, 1 thread": lambda: read_dataset(path, threads=1)}
    if threads > 1:
        runs[f"odmlib, {threads} threads"] = lambda: read_dataset(path, threads=threads)
    runs["scikit-learn"] = lambda: load_svmlight_file(str(path))
    if shutil.which("liblinear-train"):
        command = ["liblinear-train", "-c", "-1", str(path)]
        runs["LIBLINEAR"] = lambda: subprocess.run(command, stderr=subprocess.PIPE)
    runs["memcpy"] = lambda: bytearray(content)
    return runs


def report_speed(path: Path, kind: str, rounds: int) -> None:
    runs = contestants(path)
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            taken[name].append(seconds(run))
    wall = {name: min(times)[0] for name, times in taken.items()}
    cpu = {name: min(time for _, time in times) for name, times in taken.items()}
    size = path.stat().st_size
    first = next(iter(runs))
    print(f"\n{kind}: {size / 1e6:.0f} MB; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"  {'':20s} {'wall s':>8s} {'MB/s':>7s} {'ratio':>7s}   {'CPU s':>8s} {'MB/s':>7s} {'ratio':>7s}")
    for name in runs:
        columns = [
            f"{t[name]:8.3f} {size / t[name] / 1e6:7.0f} {t[name] / t[first]:7.2f}" for t in (wall, cpu)
        ]
        print(f"  {name:20s} {'   '.join(columns)}")


def report_memory(path: Path, kind: str) -> None:
    for threads in sorted({1, available_threads()}):
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
    before = largest_resident_bytes()
    rows, labels = read_dataset(path, threads=threads)
    grown = largest_resident_bytes() - before
    needed = rows.indptr.nbytes + rows.indices.nbytes + rows.values.nbytes + labels.nbytes
    if grown < needed // 2:
        raise SystemExit(f"the arrays hold {needed} bytes, growth of {grown} is no measurement")
    print(grown, needed)


def largest_resident_bytes() -> int:
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) * 1024 for line in status.open() if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)  # the fresh process of report_memory
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        print_memory(options.memory_of, options.threads)
        return
    with tempfile.TemporaryDirectory() as directory:
        for kind in options.kinds:
            path = Path(directory) / f"{kind}.txt"
            write_file(path, kind, options.megabytes * 10**6)
            report_speed(path, kind, options.rounds)
            report_memory(path, kind)
            path.unlink()


if __name__ == "__main__":
    main()
