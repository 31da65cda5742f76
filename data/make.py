#!/usr/bin/env python3
"""Make the example sets of this folder again, byte for byte: python data/make.py [folder]

Needs scikit-learn, which ships the real sets. Nothing here depends on scikit-learn's own random splits or
on the platform's mathematical library beyond the sixth decimal, so that any version gives the same files.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from sklearn import datasets

Row = tuple[str, Sequence[float]]  # a label as it will be written, and the features


def main(folder: Path) -> None:
    wdbc = read_wdbc()
    train, test = split(wdbc, test_share=0.3, seed=1)
    write(folder / "wdbc.txt", wdbc)
    write(folder / "wdbc.train.txt", train)
    write(folder / "wdbc.test.txt", test)
    write(folder / "iris.txt", numbered_from_one(datasets.load_iris()))
    write(folder / "wine.txt", numbered_from_one(datasets.load_wine()))
    write(folder / "digits.txt", [(str(label), row) for label, row in rows_of(datasets.load_digits())])
    write(folder / "rings.txt", make_rings(n_rows=600, seed=1))


def read_wdbc() -> list[Row]:
    """Malignant, the finding that must not be missed, is +1 (scikit-learn's class 0)."""
    return [("+1" if label == 0 else "-1", row) for label, row in rows_of(datasets.load_breast_cancer())]


def numbered_from_one(bunch) -> list[Row]:
    return [(str(label + 1), row) for label, row in rows_of(bunch)]


def rows_of(bunch) -> Iterable[tuple[int, list[float]]]:
    return zip(bunch.target.tolist(), bunch.data.tolist(), strict=True)


def make_rings(n_rows: int, seed: int) -> list[Row]:
    """Two noisy rings around one centre, radius 1 (+1) and 2 (-1): no line parts them, a circle does."""
    draw = random.Random(seed)
    rows = []
    for i in range(n_rows):
        label, radius = ("+1", 1.0) if i % 2 == 0 else ("-1", 2.0)
        angle = 2 * math.pi * draw.random()
        # the sum of twelve uniform draws less six: a bell curve that every Python version draws alike
        distance = radius + 0.3 * (sum(draw.random() for _ in range(12)) - 6.0)
        features = [distance * math.cos(angle), distance * math.sin(angle)]
        rows.append((label, [round(value, 6) for value in features]))
    return rows


def split(rows: list[Row], test_share: float, seed: int) -> tuple[list[Row], list[Row]]:
    """Stratified: every class gives `test_share` of its rows to the test set; both keep the rows' order."""
    draw = random.Random(seed)
    in_test = set()
    for label in sorted({label for label, _ in rows}):
        members = [i for i, row in enumerate(rows) if row[0] == label]
        keyed = sorted((draw.random(), i) for i in members)
        in_test.update(i for _, i in keyed[: round(test_share * len(members))])
    train = [row for i, row in enumerate(rows) if i not in in_test]
    return train, [row for i, row in enumerate(rows) if i in in_test]


def write(path: Path, rows: list[Row]) -> None:
    lines = []
    for label, features in rows:
        items = [f"{j}:{number(value)}" for j, value in enumerate(features, start=1) if value != 0]
        lines.append(" ".join([label, *items]) + "\n")
    path.write_bytes("".join(lines).encode("ascii"))


def number(value: float) -> str:
    """The shortest text that reads back to the same number."""
    return repr(value).removesuffix(".0")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
