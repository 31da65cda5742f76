"""Two installed versions of odmlib side by side: python -m benchmarks.versions --before OTHER_PYTHON

Every cell is a piece of work through the public interface: training, a grid search, prediction, a tool's
start. A worker process of each version does it, in turn, and the ratio of the fastest runs is printed: now /
before. The processor time of all threads counts, so that a little other work on the machine does not decide;
a tool's start is measured by the wall clock. Both versions see the same rows, options and threads.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TARGET = 1.1
ROOT = Path(__file__).resolve().parent.parent
LEAST_SECONDS, MOST_REPEATS = 1.0, 9  # of a cell, in each version

LINEAR = ("a9a", "ijcnn1", "phishing", "rcv1_small", "reuters_moneyfx", "SUSY.30k", "skin_nonskin", "mnist")
KERNEL = ("svmguide1", "phishing", "banana", "splice", "ida_image", "ringnorm")
CLASSES = ("segment.scale", "pendigits", "letter", "shuttle", "news20", "mnist")


def cells() -> dict[str, tuple[Any, ...]]:
    """Name of a cell -> what the worker does: kind, set, options."""
    found: dict[str, tuple[Any, ...]] = {}
    for name in LINEAR:
        for C in (1, 100):
            found[f"linear odm {name} C={C}"] = ("train", name, {"kernel": "linear", "C": C})
    for name in LINEAR[:5]:
        for machine in ("svm", "odml"):
            found[f"linear {machine} {name}"] = ("train", name, {"machine": machine, "kernel": "linear"})
    for name in KERNEL:
        for machine in ("odm", "svm"):
            for C in (1, 100):
                found[f"rbf {machine} {name} C={C}"] = ("train", name, {"machine": machine, "C": C})
    found["rbf odml svmguide1"] = ("train", "svmguide1", {"machine": "odml"})
    found["rbf kmomd svmguide1"] = ("train", "svmguide1", {"machine": "kmomd"})
    found["rbf sodm ringnorm"] = ("train", "ringnorm", {"machine": "sodm"})
    found["linear kmomd phishing"] = ("train", "phishing", {"machine": "kmomd", "kernel": "linear"})
    for name in CLASSES:
        for C in (0.1, 1):
            options = {"machine": "mcodm", "kernel": "linear", "C": C}
            found[f"linear mcodm {name} C={C}"] = ("classes", name, options)
    for name in CLASSES[:2]:
        for C in (1, 100):
            found[f"rbf mcodm {name} C={C}"] = ("classes", name, {"machine": "mcodm", "C": C})
    found["linear ovr letter"] = ("classes", "letter", {"kernel": "linear"})
    found["rbf ovo pendigits"] = ("classes", "pendigits", {})
    found["grid svmguide1"] = ("grid", "svmguide1", {"log2c": (-3, 5, 4), "log2g": (-3, 1, 4)})
    found["predict rbf phishing"] = ("predict", "phishing", {})
    found["predict linear mnist"] = ("predict", "mnist", {"kernel": "linear"})
    found["start odm-train --help"] = ("tool", "train", {})
    found["start odm-predict --help"] = ("tool", "predict", {})
    return found


# -- in a worker


def load(name: str, kind: str) -> tuple[Any, Any]:
    import numpy as np

    import odmlib

    path = next((ROOT.parent / "shared" / "data").glob(f"{name}.libsvm*"))
    X, y = odmlib.read_data(path)
    top = abs(X).max(axis=0).toarray().ravel()
    top[top == 0] = 1
    X = X.multiply(1 / top).tocsr()
    return X, y if kind == "classes" else np.where(y == y.max(), 1, -1)


def prepared(kind: str, name: str, options: dict[str, Any], threads: int) -> Callable[[], Any]:
    import odmlib

    if kind == "tool":
        command = [sys.executable, "-P", "-m", f"odmlib.cli.{name}", "--help"]
        return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    X, y = load(name, kind)
    options = options | {"threads": threads}
    if kind == "grid":
        return lambda: odmlib.grid_search(X, y, folds=3, **options)
    if kind == "predict":
        model = odmlib.train(X, y, **options)
        return lambda: model.predict(X)
    return lambda: odmlib.train(X, y, **options)


def worker() -> None:
    """Answers lines of JSON: a cell in, seconds of processor time of one run out."""
    ready: dict[str, Callable[[], Any]] = {}
    for line in sys.stdin:
        cell, kind, name, options, threads = json.loads(line)
        try:
            if cell not in ready:
                ready.clear()
                ready[cell] = prepared(kind, name, options, threads)
            clock = time.perf_counter if kind == "tool" else time.process_time
            began = clock()
            ready[cell]()
            answer: Any = clock() - began
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


# -- the comparison


class Version:
    def __init__(self, python: str):
        # -P: the installed odmlib, not the one of this folder; only this file is run
        command = [python, "-P", "-W", "ignore", str(Path(__file__)), "--worker"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, **pipes)

    def run(self, *words: Any) -> float | str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else "the worker died"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", default=sys.executable, help="python of the other version's environment")
    parser.add_argument("--now", default=sys.executable, help="python of this version's environment")
    parser.add_argument("--only", default="", help="cells that begin with one of these words, by commas")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="one run of the first cells")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker()
        return 0
    before, now = Version(arguments.before), Version(arguments.now)
    ratios = {}
    chosen = [name for name in cells() if name.startswith(tuple(arguments.only.split(",")))]
    for name in chosen[: 3 if arguments.quick else None]:
        words = (name, *cells()[name], arguments.threads)
        times: dict[Version, list[float]] = {before: [], now: []}
        while not arguments.quick or not times[now]:
            answers = [(version, version.run(*words)) for version in (before, now)]
            failed = [answer for _, answer in answers if isinstance(answer, str)]
            if failed:
                print(f"{name}: {failed[0]}", flush=True)
                break
            for version, answer in answers:
                times[version].append(float(answer))
            if sum(times[now]) >= 3 * LEAST_SECONDS or len(times[now]) >= MOST_REPEATS:
                break
        if times[now]:
            least = min(times[before]), min(times[now])
            ratios[name] = least[1] / max(least[0], 1e-9)
            print(f"{name:36} {least[0]:9.4f} s {least[1]:9.4f} s  {ratios[name]:5.2f}", flush=True)
    if ratios:
        ordered = sorted(ratios.values())
        slower = [f"{name} {value:.2f}" for name, value in ratios.items() if value > TARGET]
        median = ordered[len(ordered) // 2]
        print(f"* now / before: median {median:.2f}, worst {ordered[-1]:.2f} of {len(ordered)}")
        print(f"* slower than {TARGET}: {', '.join(slower) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
