"""What the benchmarks share: data, clock, medians, tables, verdicts, and runs in a child with a time limit.

A run that may take long, or that must not meet another library's threads, goes through `bounded`: a forked
child does it and sends back what it returns. Peers with thread pools of their own are imported in such
children only.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import inspect
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from benchmarks.data import find, folders

ROOT = Path(__file__).resolve().parent.parent
CORES = 2  # what the targets are stated for
VERDICT = "* "  # begins the lines that `python -m benchmarks` gathers into its summary


def parse_arguments(
    module_doc: str | None, add: Callable[[argparse.ArgumentParser], object] | None = None
) -> argparse.Namespace:
    """Arguments of a benchmark module: --quick and its own. All work is then held on two cores."""
    parser = argparse.ArgumentParser(
        description=module_doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: a trial, not a measurement")
    if add is not None:
        add(parser)
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # also for the peers and all children
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    return arguments


class OneLineParser(argparse.ArgumentParser):
    """Mistakes are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def interruptible(main: Callable[[], int]) -> int:
    """Run a benchmark; Ctrl-C ends it without a traceback."""
    try:
        return main()
    except KeyboardInterrupt:
        return 130


def n_threads() -> int:
    from odmlib.threads import available_threads

    return min(CORES, available_threads())


# -- data


def data_path(name: str) -> Path | None:
    """A set of $ODMLIB_DATA or ../shared/data, or None with a line that says so."""
    if (path := find(name)) is None:
        print(f"{name}: skipped, not in {' or '.join(map(str, folders()))}", flush=True)
    return path


def load_set(name: str, first: float | None = None, features: int | None = None) -> tuple[Any, Any] | None:
    """(X as scipy.sparse rows, y of +1 for the label `first` (None: the largest) and -1 for all others)."""
    from odmlib.data.reading import read_data

    path = data_path(name)
    if path is None:
        return None
    X, y = read_data(path, **({} if features is None else {"features": features}))
    return X, np.where(y == (y.max() if first is None else first), 1.0, -1.0)


def generated_rows(m: int, d: int, seed: int = 0) -> tuple[Any, Any]:
    """Dense normal rows; labels by a random hyperplane, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d))
    noise = 2 * rng.standard_normal(m)
    return X, np.where(X @ rng.standard_normal(d) + noise > 0, 1.0, -1.0)


def has_package(module: str, package: str) -> bool:
    if importlib.util.find_spec(module) is not None:
        return True
    print(f"{package} is not installed: skipped", flush=True)
    return False


def memory_available() -> int:
    """Bytes that may be used without swapping; where that is not known, plenty."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 1 << 62
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


# -- clock


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def repeats_for(seconds: float) -> int:
    """How often a run of this length is measured in all."""
    return 7 if seconds < 0.3 else 3 if seconds < 3 else 1


def median_time(run: Callable[[], Any], at_most: int = 7) -> tuple[float, Any]:
    """Median over repeats, as many as the length of the first run allows, and the first run's result."""
    first, result = timed(run)
    times = [first] + [timed(run)[0] for _ in range(min(at_most, repeats_for(first)) - 1)]
    return statistics.median(times), result


def bounded(run: Callable[[], Any], limit: float) -> Any | None:
    """What `run` returns, done in a forked child; None when that takes longer than `limit` seconds.

    A generator may yield ever more complete answers: the last one within the limit counts.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_answer, args=(run, receiver, sender), daemon=True)
    child.start()
    sender.close()
    answer, deadline = None, time.perf_counter() + limit
    try:
        while receiver.poll(max(0.0, deadline - time.perf_counter())):
            try:
                kind, value = receiver.recv()
            except EOFError:
                raise RuntimeError("the child of a benchmark ended without an answer") from None
            if kind == "failed":
                raise RuntimeError(value)
            if kind == "done":
                break
            answer = value
        return answer
    finally:
        child.kill()
        child.join()
        receiver.close()


def _answer(run: Callable[[], Any], receiver: Any, sender: Any) -> None:
    receiver.close()
    try:
        result = run()
        for answer in result if inspect.isgenerator(result) else (result,):
            sender.send(("answer", answer))
        sender.send(("done", None))
    except KeyboardInterrupt:
        pass
    except BaseException:
        sender.send(("failed", traceback.format_exc(limit=-3).strip()))


def growth_of_memory(run: Callable[[], Any]) -> tuple[int, Any]:
    """Largest growth of this process's resident memory while `run` works, and its result.

    For a fresh process or child: what was freed before is used again without growth.
    """
    before = resident_bytes("VmRSS")
    result = run()
    return resident_bytes("VmHWM") - before, result


def resident_bytes(field: str, process: int | str = "self") -> int:
    """VmRSS or VmHWM of a process; 0 where it has ended. Not ru_maxrss: that starts at its parent's size."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), 0)


def run_program(command: Sequence[str | Path], limit: float) -> tuple[float, int] | None:
    """Wall-clock seconds and peak resident bytes of a program; None beyond the limit."""
    started, peak = time.perf_counter(), 0
    with subprocess.Popen(
        command, env=tool_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        try:
            while True:
                try:
                    code = process.wait(0.01)
                    break
                except subprocess.TimeoutExpired:
                    peak = max(peak, resident_bytes("VmHWM", process.pid))
                    if time.perf_counter() - started > limit:
                        return None
            seconds = time.perf_counter() - started
            if code:
                assert process.stderr is not None
                raise RuntimeError(f"{command[0]} failed: {process.stderr.read().decode().strip()}")
            return seconds, peak
        finally:
            process.kill()


def tool_environment() -> dict[str, str]:
    """The environment in which `python -m odmlib.cli.train` finds the odmlib that is measured."""
    import odmlib

    environment = {**os.environ, "PYTHONPATH": str(Path(odmlib.__file__).parent.parent)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its byte code
    return environment


def odm_tool(name: str) -> list[str]:
    return [sys.executable, "-P", "-m", f"odmlib.cli.{name}"]  # -P: not from the current folder


# -- output


def shown(cell: object) -> str:
    if cell is None:
        return "-"
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)


class Table:
    """Lines of cells under titles, printed as they come; a number behind a title is the column's width."""

    def __init__(self, title: str, *columns: str | tuple[str, int]):
        pairs = [(c, max(9, len(c))) if isinstance(c, str) else c for c in columns]
        self.widths = [width for _, width in pairs]
        print(f"\n{title}" if title else "")
        self.add(*(name for name, _ in pairs))

    def add(self, *cells: object) -> None:
        print(table_line(cells, self.widths), flush=True)


def table_line(cells: Sequence[object], widths: Sequence[int]) -> str:
    """The first cell to the left, the others to the right of their columns."""
    texts = [shown(cell) for cell in cells]
    first = f"{texts[0]:<{widths[0]}}"
    return "  ".join([first, *(f"{text:>{w}}" for text, w in zip(texts[1:], widths[1:], strict=False))])


def ratio(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or theirs is None else ours / theirs


def met(value: float | None, target: float, at_least: bool = False) -> str:
    if value is None:
        return "-"
    return "met" if (value >= target if at_least else value <= target) else "not met"


def verdict(work: str, values: Sequence[float | None], target: float | None, at_least: bool = False) -> None:
    """One line for the summary: the worst of the values, against the target if there is one."""
    known = [float(value) for value in values if value is not None]
    if not known:
        print(f"{VERDICT}{work}: not measured", flush=True)
        return
    worst = min(known) if at_least else max(known)
    text = shown(worst)
    if len(known) > 1:
        text = f"median {shown(statistics.median(known))}, worst {text} of {len(known)}"
    if target is not None:
        reached = sum(met(value, target, at_least) == "met" for value in known)
        within = f", {reached} of {len(known)} within" if len(known) > 1 else ""
        text += f"{within} (target {'>=' if at_least else '<='} {target:g}): {met(worst, target, at_least)}"
    print(f"{VERDICT}{work}: {text}", flush=True)


@functools.cache
def debian_version(package: str) -> str | None:
    try:
        found = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True
        )
    except OSError:
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None
