"""The sets in data/ are what data/make.py makes and what data/README.md says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

DATA = Path(__file__).parent.parent / "data"


def test_make_reproduces_the_files(tmp_path):
    pytest.importorskip("sklearn", reason="scikit-learn, which ships the sets, is not installed")
    subprocess.run([sys.executable, str(DATA / "make.py"), str(tmp_path)], check=True)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    kept = {path.name: path.read_bytes() for path in DATA.glob("*.txt")}
    assert sorted(made) == sorted(kept)
    for name, content in made.items():
        assert content == kept[name], name


@pytest.mark.parametrize(
    ("name", "n_rows", "n_features", "n_classes"),
    [
        ("wdbc", 569, 30, 2),
        ("wdbc.train", 398, 30, 2),
        ("wdbc.test", 171, 30, 2),
        ("iris", 150, 4, 3),
        ("wine", 178, 13, 3),
        ("digits", 1797, 64, 10),
        ("rings", 600, 2, 2),
    ],
)
def test_sizes_are_those_of_the_readme(name, n_rows, n_features, n_classes):
    rows = [line.split() for line in (DATA / f"{name}.txt").read_text().splitlines()]
    assert len(rows) == n_rows
    assert len(Counter(row[0] for row in rows)) == n_classes
    assert max(int(item.split(":")[0]) for row in rows for item in row[1:]) == n_features


def test_the_two_parts_of_wdbc_are_disjoint_and_complete():
    def lines(name):
        return (DATA / name).read_text().splitlines()

    assert sorted(lines("wdbc.train.txt") + lines("wdbc.test.txt")) == sorted(lines("wdbc.txt"))
    assert Counter(line[:2] for line in lines("wdbc.test.txt")) == {"+1": 64, "-1": 107}


def test_every_file_is_in_the_readme():
    named = set(re.findall(r"`([\w.]+\.txt)`", (DATA / "README.md").read_text()))
    assert named >= {path.name for path in DATA.glob("*.txt")}
