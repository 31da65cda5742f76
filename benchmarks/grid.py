"""odm-grid beside LIBSVM's grid.py: python -m benchmarks.grid [--sets svmguide1] [--quick] [--halves N]

time    seconds of a whole search, from the file, 5 folds, 2 cores. LIBSVM's is what its grid.py does with two
        local workers: Debian's svm-train -c C -g G -v 5 for every point, two at a time. Ours are the commands
        odm-grid -s 0 (C-SVM, without a free bias), -s 2 (ODM) and -s 2 --loo (leave-one-out from one fit).
        The grid is grid.py's own, 11 x 10 points; with --quick 11 x 3. `cpu` is what the processes used,
        which other work on the machine changes little; the target is about the wall clock's ratio.
halves  accuracy of the chosen parameters: searched and trained on a random half, tested on the other, mean
        of --halves splits (2); ODM by 5-fold cross-validation and by leave-one-out, SVM by 5-fold
        cross-validation; the smaller grid.

Sets of ../shared/data, scaled to [-1, 1].
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks._common import (
    CORES,
    Table,
    data_path,
    interruptible,
    odm_tool,
    parse_arguments,
    ratio,
    tool_environment,
    verdict,
)

SETS = ("svmguide1", "splice", "german.numer")
LOG2C = (-5, 15, 2)
LOG2G, QUICK_LOG2G = (3, -15, -2), (1, -11, -6)
TARGET = 0.25
OURS = {"svm": ["-s", "svm"], "odm": ["-s", "odm"], "odm loo": ["-s", "odm", "--loo"]}
SEED = 1


def spanned(span: tuple[int, int, int]) -> list[int]:
    begin, end, step = span
    return list(range(begin, end + (1 if step > 0 else -1), step))


def scaled(name: str, folder: Path) -> Path | None:
    source = data_path(name)
    if source is None:
        return None
    target = folder / name
    with target.open("wb") as stream:
        command = [*odm_tool("scale"), "-q", source]
        subprocess.run(command, stdout=stream, env=tool_environment(), check=True)
    return target


def used(run) -> tuple[float, float, object]:
    """Wall-clock and processor seconds of what `run` starts, and its result."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    result = run()
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, result


def libsvm_grid(path: Path, log2g: tuple[int, int, int]) -> float:
    """The best rate of what grid.py does."""

    def rate(point: tuple[int, int]) -> float:
        command = ["svm-train", "-c", str(2.0 ** point[0]), "-g", str(2.0 ** point[1]), "-v", "5", str(path)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return float(next(line for line in output.splitlines() if "Cross" in line).split()[-1][:-1])

    with ThreadPoolExecutor(CORES) as workers:
        return max(workers.map(rate, [(c, g) for g in spanned(log2g) for c in spanned(LOG2C)]))


def odm_grid(path: Path, log2g: tuple[int, int, int], words: list[str]) -> list[str]:
    """The last line, in words."""
    ranges = ["-log2c", ",".join(map(str, LOG2C)), "-log2g", ",".join(map(str, log2g))]
    command = [*odm_tool("grid"), "-q", *words, *ranges, "-out", "null", "-gnuplot", "null", path]
    done = subprocess.run(command, capture_output=True, text=True, env=tool_environment(), check=True)
    return done.stdout.splitlines()[-1].split()


def times(paths: list[Path], log2g: tuple[int, int, int]) -> None:
    table = Table("time of a search", ("set", 14), "search", "wall s", "cpu s", "best", "wall/", "cpu/")
    ratios: dict[str, list[float | None]] = {name: [] for name in OURS}
    for path in paths:
        theirs = None
        if shutil.which("svm-train"):
            theirs = used(lambda path=path: libsvm_grid(path, log2g))
            table.add(path.name, "LIBSVM", *theirs, None, None)
        for name, words in OURS.items():
            wall, cpu, last = used(lambda path=path, words=words: odm_grid(path, log2g, words))
            against = (None, None) if theirs is None else (ratio(wall, theirs[0]), ratio(cpu, theirs[1]))
            ratios[name].append(against[0])
            table.add(path.name, name, wall, cpu, float(last[2]), *against)
    for name, values in ratios.items():
        verdict(f"search with {name} beside grid.py", values, TARGET if name == "svm" else None)


def halves(paths: list[Path], n_splits: int) -> None:
    import odmlib
    from odmlib.data.folds import stratified_folds

    table = Table("test accuracy of the chosen parameters, %", ("set", 14), "odm cv", "odm loo", "svm cv")
    for path in paths:
        X, y = odmlib.read_data(path)
        found: dict[str, list[float]] = {"odm cv": [], "odm loo": [], "svm cv": []}
        for split in range(n_splits):
            half = stratified_folds((y == y.max()).astype(np.int64), 2, SEED + split) == 0
            for name, accuracies in found.items():
                machine, how = name.split()
                searched = odmlib.grid_search(
                    X[half], y[half], log2c=LOG2C, log2g=QUICK_LOG2G, machine=machine, loo=how == "loo"
                )
                assert searched.best is not None
                model = odmlib.train(X[half], y[half], machine=machine, **searched.best.parameters)
                accuracies.append(100 * float((model.predict(X[~half]) == y[~half]).mean()))
        table.add(path.name, *(float(np.mean(values)) for values in found.values()))


def main() -> int:
    arguments = parse_arguments(
        __doc__,
        lambda parser: (
            parser.add_argument("--sets", default=",".join(SETS)),
            parser.add_argument("--halves", type=int, default=2, help="splits; 0: none"),
            parser.add_argument("--no-times", action="store_true"),
        ),
    )
    load = f"; load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{CORES} cores{load}")
    with tempfile.TemporaryDirectory() as folder:
        paths = [path for name in arguments.sets.split(",") if (path := scaled(name, Path(folder)))]
        if not arguments.no_times:
            times(paths, QUICK_LOG2G if arguments.quick else LOG2G)
        if arguments.halves:
            halves(paths, arguments.halves)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
