"""Data larger than memory: odm-train --stream beside SGDClassifier.partial_fit and Vowpal Wabbit.

    python -m benchmarks.stream [--megabytes 500] [--quick] [--wide]

A generated file of dense rows of 40 columns, labels by a hyperplane and noise; the last tenth is a file of
test rows. `-m` is 80 MB, the least that odm-train takes. "reads" is what the same work costs without any
training: one parse of the text into the cache and as many passes over the cache as odm-train made.

scikit-learn's SGDClassifier (hinge, default alpha) takes the parts of odmlib's own reader. Vowpal Wabbit is
the Python package (`pip install vowpalwabbit`) with the hinge and a cache file, on a file in its own format.
Both make one pass and five. Every program is a process of its own; seconds are those of the clock, with
everything included; peak MB is the largest resident size.
"""

from __future__ import annotations

import json
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks._common import (
    Table,
    has_package,
    interruptible,
    load_set,
    n_threads,
    odm_tool,
    parse_arguments,
    run_program,
    verdict,
)

COLUMNS, BLOCK_ROWS, MEMORY_MB = 40, 5_000, 80
LIMIT = 900.0
TARGET = 1.5  # of the reads

SGD = """
import sys
import numpy as np
from sklearn.linear_model import SGDClassifier
from odmlib.data.reading import read_parts
train, test, passes = sys.argv[1], sys.argv[2], int(sys.argv[3])
machine = SGDClassifier(random_state=0)
def parts(path):
    for rows, y in read_parts(path, False, 1, 40, 8 << 20):
        yield rows.to_scipy(), y
for _ in range(passes):
    for X, y in parts(train):
        machine.partial_fit(X, y, classes=[-1, 1])
pairs = [((machine.predict(X) == y).sum(), len(y)) for X, y in parts(test)]
right, rows = np.sum(pairs, axis=0)
open(sys.argv[4], "w").write(str(right / rows))
"""

READS = """
import os, sys
from odmlib.data.reading import read_parts
from odmlib.data.row_store import RowStore, read_ahead
train, cache, passes, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with read_ahead(read_parts(train, False, threads, None, 1 << 20), 1) as parts:
    store = RowStore.make(cache, parts, 1 << 20)
for _ in range(passes):
    sum(block.rows.n_rows for block in store.blocks())
open(sys.argv[5], "w").write(str(store.n_bytes))
store.close()
os.unlink(cache)
"""

VOWPAL = """
import sys
import numpy as np
from vowpalwabbit import Workspace
train, test, passes, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
learn = f"--quiet --loss_function hinge --holdout_off --passes {passes} -k --cache_file {folder}/cache"
Workspace(f"{learn} -d {train} -f {folder}/vw").finish()
Workspace(f"--quiet -t -i {folder}/vw -d {test} -p {folder}/found").finish()
labels = np.array([float(line.split(" ", 1)[0]) for line in open(test)])
found = np.loadtxt(f"{folder}/found", ndmin=1)
open(sys.argv[5], "w").write(str(((found > 0) == (labels > 0)).mean()))
"""


def blocks(n_bytes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows whose text takes about so many bytes, the same for every call."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(COLUMNS)
    for _ in range(max(10, round(n_bytes / (BLOCK_ROWS * COLUMNS * 11)))):
        X = rng.standard_normal((BLOCK_ROWS, COLUMNS)).round(5)
        yield X, np.where(X @ w + 3 * rng.standard_normal(BLOCK_ROWS) > 0, 1, -1)


def write_files(folder: Path, n_bytes: int, vowpal: bool) -> None:
    """train and test in LIBSVM format, and train.vw and test.vw where they are wanted."""
    parts = list(range(sum(1 for _ in blocks(n_bytes))))
    first_test = max(1, len(parts) * 9 // 10)
    for number, (X, y) in zip(parts, blocks(n_bytes), strict=True):
        name = "train" if number < first_test else "test"
        rows = [" ".join(f"{j}:{v!r}" for j, v in enumerate(row, 1)) for row in X.tolist()]
        for ending, gap in (("", " "), (".vw", " | ")) if vowpal else (("", " "),):
            with (folder / (name + ending)).open("a") as file:
                file.writelines(f"{sign}{gap}{row}\n" for sign, row in zip(y, rows, strict=True))


def seconds_of_reads(folder: Path, passes: int) -> tuple[float, float]:
    """(a process that parses into a cache and passes over it so often, the cache in MB)"""
    result = folder / "result"
    words = [str(folder / "train"), str(folder / "rows"), str(passes), str(n_threads()), str(result)]
    ran = run_program([sys.executable, "-P", "-c", READS, *words], LIMIT)
    if ran is None:
        raise SystemExit(f"the reads alone did not end within {LIMIT:g} s")
    return ran[0], float(result.read_text()) / 1e6


def wide_sets() -> None:
    """Passes over wide sparse sets, of which a twentieth fits into memory."""
    import odmlib

    table = Table(
        "wide data, memory of a twentieth of them",
        ("set", 16), ("machine", 7), ("C", 5), ("passes", 6), ("in memory", 20), ("gap", 8),
    )  # fmt: skip
    for name in ("rcv1_small", "reuters_moneyfx", "news20"):
        if (loaded := load_set(name)) is None:
            table.add(name, "not found")
            continue
        X, y = loaded
        for machine in ("odm", "svm"):
            for C in (0.01, 0.1, 1.0):
                blocks = ((X[i : i + 100], y[i : i + 100]) for i in range(0, len(y), 100))
                how = {"machine": machine, "C": C, "max_iter": 1000}
                found = odmlib.train_stream(blocks, cache_mb=12 * X.nnz / 20 / 2**20, **how).report
                known = odmlib.train(X, y, kernel="linear", **how).report
                passes = found["details"]["passes"]
                table.add(name, machine, C, passes, f"{known['solver']}, {known['iterations']}", found["gap"])


def main() -> int:
    def more(parser: ArgumentParser) -> None:
        parser.add_argument("--megabytes", type=float, default=500)
        parser.add_argument("--wide", action="store_true", help="passes over wide sets instead")

    arguments = parse_arguments(__doc__, more)
    if arguments.wide:
        wide_sets()
        return 0
    n_bytes = int(1e6 * (min(arguments.megabytes, 20) if arguments.quick else arguments.megabytes))
    peers = []
    if has_package("sklearn", "scikit-learn"):
        peers.append(("SGDClassifier", SGD, ""))
    if has_package("vowpalwabbit", "vowpalwabbit"):
        peers.append(("Vowpal Wabbit", VOWPAL, ".vw"))
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        write_files(folder, n_bytes, any(ending for _, _, ending in peers))
        measure(folder, peers)
    return 0


def measure(folder: Path, peers: list[tuple[str, str, str]]) -> None:
    train, test, model, report = (str(folder / name) for name in ("train", "test", "model", "report"))
    runs = {}
    for machine in ("odm", "svm"):
        command = [*odm_tool("train"), "-q", "-s", machine, "-t", "0", "--stream", "-m", str(MEMORY_MB)]
        command += ["--cache-dir", str(folder), "--json", report, train, model]
        ran = run_program(command, LIMIT)
        found = json.loads(Path(report).read_text()) if ran is not None else {}
        if ran is not None:
            predicted = str(folder / "predicted")
            run_program([*odm_tool("predict"), "-q", test, model, predicted], LIMIT)
            with open(test) as file:
                labels = np.array([line.split(" ", 1)[0] for line in file], float)
            right = np.loadtxt(predicted) == labels
            runs[machine] = ran, float(right.mean()), found["details"]["passes"]
    if "odm" not in runs:
        print(f"odm-train did not end within {LIMIT:g} s")
        return
    reads, cache = seconds_of_reads(folder, runs["odm"][2])
    mb = Path(train).stat().st_size / 1e6
    table = Table(
        f"{mb:.0f} MB of text, cache of {cache:.0f} MB, -m {MEMORY_MB}, {n_threads()} thread(s)",
        ("program", 30), ("passes", 6), ("seconds", 8), ("/ reads", 8), ("peak MB", 8), ("test %", 8),
    )  # fmt: skip
    table.add("reads alone", runs["odm"][2], reads, 1.0)
    for machine, ((seconds, peak), accuracy, passes) in runs.items():
        table.add(
            f"odm-train -s {machine} --stream",
            passes,
            seconds,
            seconds / reads,
            f"{peak / 1e6:.0f}",
            f"{100 * accuracy:.2f}",
        )
    for title, code, ending in peers:
        for passes in (1, 5):
            result = folder / "result"
            words = [
                train + ending,
                test + ending,
                str(passes),
                *([str(folder)] if ending else []),
                str(result),
            ]
            ran = run_program([sys.executable, "-P", "-c", code, *words], LIMIT)
            if ran is None:
                table.add(title, passes, f"> {LIMIT:g}")
                continue
            accuracy = float(result.read_text())
            table.add(title, passes, ran[0], ran[0] / reads, f"{ran[1] / 1e6:.0f}", f"{100 * accuracy:.2f}")
    print()
    verdict("odm-train --stream / its reads alone", [runs["odm"][0][0] / reads], TARGET)
    verdict("passes of odm-train --stream, the first parse left out", [float(runs["odm"][2])], 5)
    verdict("peak memory of odm-train --stream / -m", [runs["odm"][0][1] / (MEMORY_MB * 2**20)], 1.0)


if __name__ == "__main__":
    sys.exit(interruptible(main))
