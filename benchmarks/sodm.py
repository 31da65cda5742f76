"""SODM: partitioners level by level beside the exact machine and the paper; how Nystrom grows with the rows.

    python -m benchmarks.sodm [--quick] [--only partitions|growth|large] [--sets svmguide1,phishing]
                              [--rows 5000] [--kinds stratified,dc]

partitions: each set is scaled to [0, 1] and split at random; RBF kernel, nu 0.5, theta 0.2, 16 partitions.
Every partitioner is stopped at every level: test accuracy in percent, the relative duality gap of the average
model on all training rows, and the seconds until then. `dc` has no average but a machine per cluster, and its
gap is that of the clusters' problems. `exact` is plain ODM to a gap of 0.001. The paper's figures (its Tables
2 and 3: 80 cores, all rows, its own tuning) stand below each set.

growth: skin_nonskin, 10,000 to 200,000 rows: Nystrom beside plain ODM, which gets --limit seconds.

large (only where asked for): skin_nonskin (four fifths of it) and mnist (one-vs-rest), from data file to
model file by odm-train with 4 GB: exact ODM, SODM, and Nystrom where its rank is enough. Wall-clock seconds,
peak memory (with --spark that of the driver's Python only), accuracy on the test rows.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import odmlib
from benchmarks._common import (
    has_package,
    interruptible,
    load_set,
    n_threads,
    odm_tool,
    parse_arguments,
    run_program,
    timed,
)
from odmlib.names import PARTITIONERS

# set: gamma, C, and the paper's accuracies (seconds): ODM, SODM, cascade, DiP, DC
SETS = {
    "svmguide1": (8.0, 8.0, ".970", ".944 (28.7)", ".872", ".903", ".943"),
    "phishing": (0.5, 4.0, ".941", ".938 (25.2)", ".880", ".901", ".936"),
    "ijcnn1": (2.0, 8.0, "-", ".927 (40.3)", ".889", ".893", ".915"),
    "SUSY.30k": (1.0, 1.0, "-", ".760 (1004)", ".733", ".744", ".747"),
    "skin_nonskin": (10.0, 10.0, "-", ".956 (283)", ".806", ".830", ".962"),
}
LEVELS = 4
TEST_ROWS = 20_000
GROWTH = (10_000, 25_000, 50_000, 100_000, 200_000)
RANK = 200
LARGE = (  # set, flags of odm-train
    ("skin_nonskin", "-s 2 -g 10 -c 10 -m 3000"),
    ("skin_nonskin", "-s 6 -g 10 -c 10 -m 3000"),
    ("skin_nonskin", "-s 6 -g 10 -c 10 --approx nystrom --rank 100"),
    ("skin_nonskin", "-s 6 -g 10 -c 10 --approx nystrom --rank 300"),
    ("skin_nonskin", "-s 6 -g 10 -c 10 --approx nystrom --rank 100 --spark local[2]"),
    ("mnist", "-s 2 --multiclass ovr -g 0.03 -c 10 -m 3400"),
    ("mnist", "-s 6 --multiclass ovr -g 0.03 -c 10 -m 3400"),
)
LARGE_LIMIT = 900.0


def load(name, n_train, seed=0):
    """(X, y) for training and for testing, scaled to [0, 1]; None where the set is not there."""
    data = load_set(name)
    if data is None:
        return None
    X, y = data
    highest, lowest = X.max(axis=0).toarray().ravel(), X.min(axis=0).toarray().ravel()
    if (lowest < 0).any():  # dense from here on, as scaling makes it
        X = (X.toarray() - lowest) / np.where(highest > lowest, highest - lowest, 1)
    else:
        X = X.multiply(1 / np.where(highest > 0, highest, 1)).tocsr()
    order = np.random.default_rng(seed).permutation(len(y))
    n_train = min(n_train, int(0.8 * len(y)))
    inside, outside = order[:n_train], order[n_train : n_train + TEST_ROWS]
    return X[inside], y[inside], X[outside], y[outside]


def measured(train_X, train_y, test_X, test_y, **options):
    """(seconds, accuracy in percent, report) of one training run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", odmlib.ConvergenceWarning)
        seconds, model = timed(lambda: odmlib.train(train_X, train_y, threads=n_threads(), **options))
    return seconds, 100 * float((model.predict(test_X) == test_y).mean()), model.report


def partitions(names, rows, kinds=PARTITIONERS):
    for name in names:
        data = load(name, rows)
        if data is None:
            continue
        gamma, C, *paper = SETS[name]
        given = {"gamma": gamma, "C": C, "cache_mb": 500}
        seconds, accuracy, report = measured(*data, **given)
        n = report["rows"]
        print(f"\n{name}, {n} rows, gamma {gamma:g}, C {C:g}")
        print(f"{'exact':<17} {accuracy:6.2f} (gap {report['gap']:.0e}) {seconds:6.2f} s")
        heads = "".join(f"{f'K={2**level}':>26}" for level in range(LEVELS, -1, -1))
        print(f"{'partition':<17}{heads}")
        for partition in kinds:
            line = f"{partition:<17}"
            for level in range(LEVELS, -1, -1):
                wishes = {"partition": partition, "levels": LEVELS, "stop_level": level}
                seconds, accuracy, report = measured(*data, machine="sodm", **given, **wishes)
                gap = report["gap"]
                line += f"{f'{accuracy:.2f} {gap:.1e} {seconds:.2f} s':>26}"
            print(line, flush=True)
        print("paper: ODM {}, SODM {}, cascade {}, DiP {}, DC {}".format(*paper))


def growth(sizes, limit):
    gamma, C, *_ = SETS["skin_nonskin"]
    print(f"\nskin_nonskin, gamma {gamma:g}, C {C:g}: Nystrom of rank {RANK} and plain ODM")
    print(f"{'rows':>8} {'Nystrom':>20} {'trace left out':>15} {'plain ODM':>30}")
    for rows in sizes:
        data = load("skin_nonskin", rows)
        if data is None:
            return
        given = {"gamma": gamma, "C": C}
        seconds, accuracy, report = measured(*data, machine="sodm", approx="nystrom", rank=RANK, **given)
        error = report["approximation"]["trace_error"]
        plain, exact, plain_report = measured(*data, cache_mb=500, time_limit=limit, **given)
        nystrom, odm = f"{seconds:.1f} s {accuracy:.2f} %", f"{plain:.1f} s {exact:.2f} %"
        if plain_report["status"] != "converged":
            odm += f" (gap {plain_report['gap']:.1e})"
        print(f"{rows:>8} {nystrom:>20} {error:>15.1e} {odm:>30}", flush=True)


def large(limit):
    """Every run of LARGE that ends within the limit."""
    data = {"skin_nonskin": load("skin_nonskin", 250_000)}
    mnist, test = load_set("mnist"), load_set("mnist.t", features=780)
    data["mnist"] = (
        None if mnist is None or test is None else (mnist[0] / 255, mnist[1], test[0] / 255, test[1])
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for which, words in LARGE:
            found = data[which]
            if found is None or ("--spark" in words and not has_package("pyspark", "pyspark")):
                continue
            train, test, model = (folder / f"{which}.{part}" for part in ("train", "test", "model"))
            if not train.exists():
                odmlib.write_data(train, *found[:2])
                odmlib.write_data(test, *found[2:])
            used = run_program([*odm_tool("train"), "-q", *words.split(), train, model], limit)
            line = f"{which}: odm-train {words}: "
            if used is None:
                print(f"{line}more than {limit:g} s", flush=True)
                continue
            right = 100 * float((odmlib.load_model(model).predict(found[2]) == found[3]).mean())
            print(f"{line}{used[0]:.1f} s, {used[1] / 1e9:.2f} GB, {right:.2f} %", flush=True)


def main() -> int:
    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--only", choices=("partitions", "growth", "large"))
        parser.add_argument("--sets", default=",".join(SETS), help="of: " + ", ".join(SETS))
        parser.add_argument("--kinds", default=",".join(PARTITIONERS), help="of: " + ", ".join(PARTITIONERS))
        parser.add_argument("--rows", type=int, default=5000, help="training rows of `partitions`")
        parser.add_argument("--limit", type=float, default=120, help="seconds of plain ODM in `growth`")

    arguments = parse_arguments(__doc__, add)
    names = [name for name in arguments.sets.split(",") if name in SETS]
    if arguments.only in (None, "partitions"):
        partitions(
            names[:1] if arguments.quick else names,
            min(1500, arguments.rows) if arguments.quick else arguments.rows,
            [kind for kind in arguments.kinds.split(",") if kind in PARTITIONERS],
        )
    if arguments.only in (None, "growth"):
        growth(GROWTH[:1] if arguments.quick else GROWTH, arguments.limit)
    if arguments.only == "large":
        large(LARGE_LIMIT)
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
