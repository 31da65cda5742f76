"""The golden table: what every machine finds on real data, to see that a rebuild changes no result.

    python -m benchmarks.golden --write          record benchmarks/golden.tsv with the installed odmlib
    python -m benchmarks.golden                  train again and compare with the table

An entry is one machine, kernel and set of ../shared/data: objective, gap, support vectors, accuracy and a
checksum of the scores on the training rows. "identical" means equal scores to the last bit. "certified" means
that the two objectives differ by no more than their two gaps allow, so both runs solved the same problem.
"lower" means a lower objective of a machine whose problem is not convex (mcODM, ssODM): another local
minimum. Anything else is "changed", and the command ends with 1. Checksums depend on the processor's
instructions: record and compare on one machine.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import odmlib
from benchmarks._common import data_path, interruptible, parse_arguments
from odmlib.model.regression import regression_measures

TABLE = Path(__file__).with_name("golden.tsv")
COLUMNS = ("machine", "kernel", "set", "objective", "gap", "support_vectors", "accuracy", "checksum")

TWO_CLASSES = (
    "heart_scale", "ionosphere", "sonar", "australian", "diabetes_scale", "german.numer", "svmguide3",
    "clean1", "colon-cancer", "rcv1_small", "splice", "banana",
)  # fmt: skip
MORE_CLASSES = ("iris", "wine.scale", "glass.scale", "vehicle.scale", "vowel.scale", "svmguide2", "dna.scale")
KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
NOT_CONVEX = ("mcodm", "ssodm")
MOST_ROWS = {
    "ssodm": 700,
    "precomputed": 1500,
    "sigmoid": 1500,
    "kmomd": 3500,
}  # larger sets are cut to these


def cases(quick: bool) -> Iterator[tuple[str, str, str]]:
    sets = (TWO_CLASSES[:3], MORE_CLASSES[:2]) if quick else (TWO_CLASSES, MORE_CLASSES)
    for machine in ("svm", "odml", "odm", "sodm", "kmomd", "ssodm", "mcodm", "odmr", "odmo"):
        for kernel in KERNELS:
            for name in (*sets[0], *sets[1]):
                if not (machine == "mcodm" and name in TWO_CLASSES[3:]):
                    yield machine, kernel, name


def entry(machine: str, kernel: str, name: str) -> dict[str, str] | None:
    path = data_path(name)
    if path is None:
        return None
    X, y = odmlib.read_data(path)
    most = min(MOST_ROWS.get(machine, len(y)), MOST_ROWS.get(kernel, len(y)), len(y))
    chosen = np.sort(np.random.default_rng(0).permutation(len(y))[:most])
    X, y = X[chosen], y[chosen]
    labels, y = np.unique(y, return_inverse=True)
    y = y + 1  # ssodm: 0 is the row without a label
    data = (X @ X.T).toarray() if kernel == "precomputed" else X
    known = y.copy()
    options: dict[str, Any] = {"machine": machine, "kernel": kernel, "threads": 1}
    if machine == "ssodm":
        known[np.random.default_rng(1).random(len(y)) < 0.7] = 0
        if len(np.unique(known[known > 0])) < len(labels):
            return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = odmlib.train(data, known, **options)
        except odmlib.OdmError as error:
            return dict.fromkeys(COLUMNS, "") | {"checksum": str(error)}
        scores = np.ascontiguousarray(model.decision_function(data))
        accuracy = quality(model, data, y)
    report = model.report
    return {
        "objective": repr(float(report["primal"])),
        "gap": repr(float(report["gap"])),
        "support_vectors": str(report["support_vectors"]),
        "accuracy": f"{accuracy:.6f}",
        "checksum": hashlib.sha256(scores.tobytes()).hexdigest()[:16],
    }


def quality(model: odmlib.Model, data: Any, y: Any) -> float:
    """The accuracy; odmr: the squared correlation with the numbers of the classes; odmo: the part of rows
    that are not called novel."""
    predicted = model.predict(data)
    if model.machine == "odmr":
        return regression_measures(predicted, y).squared_correlation
    return float(np.mean(predicted == (1 if model.machine == "odmo" else y)))


def verdict(before: dict[str, str], now: dict[str, str]) -> str:
    if before["checksum"] == now["checksum"]:
        return "identical"
    if not (before["objective"] and now["objective"]):
        return "changed"
    old, new, gaps = (
        float(before["objective"]),
        float(now["objective"]),
        float(before["gap"]) + float(now["gap"]),
    )
    if abs(old - new) <= gaps * max(1.0, abs(old), abs(new)):
        return "certified"
    return "lower" if before["machine"] in NOT_CONVEX and new < old else "changed"


def main() -> int:
    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--write", action="store_true", help="record the table instead of comparing")
        parser.add_argument("--only", default="", help="machines, separated by commas")

    arguments = parse_arguments(__doc__, add)
    only = arguments.only.split(",") if arguments.only else ()
    with TABLE.open(newline="") as file:
        known = {
            tuple(row[name] for name in COLUMNS[:3]): row for row in csv.DictReader(file, delimiter="\t")
        }
    rows = [row for row in known.values() if only and row["machine"] not in only]  # these stay as they are
    verdicts = Counter[str]()
    for case in cases(arguments.quick):
        if (only and case[0] not in only) or (not arguments.write and case not in known):
            continue
        found = entry(*case)
        if found is None:
            continue
        rows.append(found | dict(zip(COLUMNS[:3], case, strict=True)))
        if not arguments.write:
            said = verdict(known[case], found)
            verdicts[said] += 1
            if said != "identical":
                changes = [f"{name} {known[case][name]} -> {found[name]}" for name in COLUMNS[3:]]
                print(*case, f"{said}:", ", ".join(changes), flush=True)
    if arguments.write:
        with TABLE.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, delimiter="\t", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        print(f"{len(rows)} entries written to {TABLE.name}")
        return 0
    names = ("identical", "certified", "lower", "changed")
    print(", ".join(f"{verdicts[name]} {name}" for name in names))
    return int(verdicts["changed"] > 0)


if __name__ == "__main__":
    sys.exit(interruptible(main))
