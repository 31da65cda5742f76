"""odm-subset: the lines it takes, and how it is used."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from odmlib.cli import subset
from odmlib.data.subset import choose_rows, class_shares
from odmlib.errors import ParameterError

from .tools import ROOT, files, run

IRIS = ROOT / "data" / "iris.txt"


def drawn(tools, *words, stdin=None):
    return tools._run(subset.main, words, stdin)


def labels(lines):
    return Counter(line.split()[0] for line in lines)


def test_two_parts_are_the_whole(tools):
    assert drawn(tools, IRIS, "45 a b").code == 0
    whole = IRIS.read_text().splitlines(keepends=True)
    a, b = (Path(name).read_text().splitlines(keepends=True) for name in "ab")
    assert len(a) == 45 and set(labels(a).values()) == {15}
    assert sorted(a + b) == sorted(whole)
    rest = iter(whole)
    assert all(line in rest for line in a)  # in their order
    drawn(tools, IRIS, "45 again")
    assert Path("again").read_text() == Path("a").read_text()
    drawn(tools, "--seed 1", IRIS, "45 other")
    assert Path("other").read_text() != Path("a").read_text()
    drawn(tools, "-s 1", IRIS, "45 random")
    drawn(tools, "--method random", IRIS, "30% percent")
    assert Path("random").read_text() == Path("percent").read_text() != Path("a").read_text()


def test_lines_stay_as_they_are(tools):
    text = b"# head\n+1 1:0.50 \r\n\n  -1\t2:1e0 # note\n1.0 3:1\n-1 1:1"
    Path("d").write_bytes(gzip.compress(text))
    code, out, err = drawn(tools, "d", "4")
    assert code == 0 and out == "+1 1:0.50 \r\n  -1\t2:1e0 # note\n1.0 3:1\n-1 1:1\n"
    assert err == "odm-subset: 4 of 4 rows, stratified, seed 0\n"
    code, out, _ = drawn(tools, "-q d 2")  # +1 and 1.0 are one class
    assert {float(line.split()[0]) for line in out.splitlines()} == {1.0, -1.0}


def test_pipe(tools):
    there = run("subset", IRIS, "60", "here")
    assert there.returncode == 0
    piped = run("subset", "-q", "-", "60", input=IRIS.read_bytes())
    assert piped.stdout == Path("here").read_bytes() and piped.stderr == b""


def test_misuse(tools):
    Path("d").write_text("1 1:1\n-1 1:2\n")
    for words in (
        "d 0",
        "d x",
        "d 120%",
        "d 1 d",
        "d 1 a a",
        "d",
        "d 1 - -",
        "-s 2 d 1",
        "--seed -1 d 1",
        "d 1 a b c",
    ):
        code, out, err = drawn(tools, words)
        assert (code, out) == (2, "") and err.count("\n") == 1, words
    code, _, err = drawn(tools, "d 3 a")
    assert (code, err) == (1, "odm-subset: d: 3 rows are asked for, the file has 2\n")
    Path("bad").write_text("1 1:1\n x 1:2\n")
    code, _, err = drawn(tools, "bad 1 a")
    assert (code, err) == (1, "odm-subset: bad:2:2: expected a number as label, found 'x'\n")
    assert drawn(tools, "/dev/null 1 a").code == 1
    assert files() == ["bad", "d"]


def test_shares():
    random = np.random.default_rng(0)
    for _ in range(200):
        counts = random.integers(1, 50, size=random.integers(1, 8))
        size = int(random.integers(1, counts.sum() + 1))
        shares = class_shares(counts, size)
        assert shares.sum() == size and (shares <= counts).all()
        assert (shares >= 1).all() or size < len(counts)
        free = np.abs(shares - counts * size / counts.sum())
        assert (free < 1).all() or (counts * size / counts.sum() < 1).any()


def test_choice_is_even():
    """Every row is taken about as often as any other."""
    y = [1] * 12 + [2] * 6
    times = sum(choose_rows(y, 6, seed=seed).astype(int) for seed in range(600))
    assert times.min() > 150 and times.max() < 250
    with pytest.raises(ParameterError, match="method must be"):
        choose_rows(y, 6, "systematic")


TABLE = b'\xef\xbb\xbfsize,kind,"the, note"\r\n' + b"".join(
    b'%d,%s,"a ""note""\r\nof two lines, %d"\r\n' % (k, b"apple" if k % 4 else b"lemon", k) for k in range(40)
)


@pytest.mark.parametrize("source", ["d.csv", "d.csv.gz", "-"])
def test_tables_keep_their_header_and_lines(tools, source):
    Path("d.csv").write_bytes(TABLE)
    Path("d.csv.gz").write_bytes(gzip.compress(TABLE))
    words = ["--csv", "--label", "kind", source, "12", "a", "b"]
    assert drawn(tools, *words, stdin=TABLE if source == "-" else None).code == 0
    plain = TABLE.removeprefix(b"\xef\xbb\xbf")
    header, rows = plain.split(b"\r\n", 1)[0], re.findall(rb"\d+,\w+,\"[^,]*, \d+\"\r\n", plain)
    parts = [Path(name).read_bytes() for name in "ab"]
    for part, size in zip(parts, (12, 28), strict=True):
        head, rest = part.split(b"\r\n", 1)
        found = re.findall(rb"\d+,\w+,\"[^,]*, \d+\"\r\n", rest)
        assert head == header and b"".join(found) == rest and len(found) == size
        assert found == [row for row in rows if row in found]  # in their order
        assert sum(b"lemon" in row for row in found) == size // 4


def test_tables_without_header_and_refusals(tools):
    Path("t.csv").write_text("1,x\n2,y\n3,x\n4,y\n")
    assert drawn(tools, "t.csv 2 a b").code == 0
    assert sorted((Path("a").read_text() + Path("b").read_text()).splitlines()) == [
        "1,x",
        "2,y",
        "3,x",
        "4,y",
    ]
    assert drawn(tools, "--label nothing t.csv 2").err.startswith(
        "odm-subset: t.csv: there is no column 'nothing'"
    )
    Path("t.parquet").write_bytes(b"PAR1")
    assert "odm-subset reads CSV and TSV tables" in drawn(tools, "t.parquet 2").err
    Path("t.txt").write_text("a,b\n1,2\n")
    assert "--csv" in drawn(tools, "t.txt 1").err
