"""check_data: every fault at its place, never fewer than the strict reader finds, and honest statistics."""

from __future__ import annotations

import contextlib
import gzip
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import odmlib
from odmlib.data.checking import check_data, count_duplicates, statistics
from odmlib.data.dataset import Dataset
from tests.real_data import real_path

# (line, what is wrong: column and a word of each message)
FAULTS = [
    (b"1 1:0.5 2:x 3:nan", [(11, "number as value"), (15, "finite number")]),
    (b"-1 2:1 1:3 1:4 3:1", [(8, "above 2"), (12, "above 2")]),
    (b"-1 5:x 3:1 6:1", [(6, "number as value"), (8, "above 5")]),
    (b"abc 1:1", [(1, "number as label")]),
    (b"nan 1:inf", [(1, "finite"), (7, "finite")]),
    (b"1 0:3 5: ", [(3, "1 or more"), (10, "end of the line")]),
    (b"1 2:3 a:4 -3:1", [(7, "index:value"), (11, "not negative")]),
    (b"1,2 1:1", [(1, "one label")]),
    (b"1:3 2:4", [(1, "label before")]),
    (b"+1 3:4 5 6:1", [(8, "index:value")]),
    (b"1 4294967297:3 1:1e400", [(3, "at most"), (18, "finite")]),
    (b"1 1:2 2:6.6e-0114:8.7", [(9, "run together")]),
    (b"1 qid:x 1:1", [(3, "qid:N")]),
    (b"1 1:1\r2:2", [(6, "carriage")]),
    (b"1 1:\x002", [(5, "number as value")]),
    (b"9007199254740993 1:1", [(1, "exactly")]),
    (b"1 3 : 4", [(3, "index:value"), (5, "index:value")]),
]
GOOD = b"1 1:0.25 3:2\n-1 2:1 # comment\n\n1 qid:3 4:1e-3\r\n"


@pytest.mark.parametrize(("line", "wanted"), FAULTS)
def test_faults_of_one_line(line, wanted):
    found = check_data(GOOD + line + b"\n" + GOOD)
    assert [(fault.line, fault.column) for fault in found.faults] == [(5, column) for column, _ in wanted]
    for fault, (_, word) in zip(found.faults, wanted, strict=True):
        assert word in fault.message
    assert (found.n_faulty_lines, found.n_lines, found.statistics["rows"]) == (1, 9, 6)
    assert not found.good
    # the first is what the strict reader says, word for word
    with pytest.raises(odmlib.DataFormatError) as strict:
        odmlib.read_data(GOOD + line + b"\n")
    first = found.faults[0]
    assert (strict.value.line, strict.value.column) == (first.line, first.column)
    assert strict.value.message == first.message


def test_all_faulty_lines_at_once():
    text = b"".join(GOOD + line + b"\n" for line, _ in FAULTS)
    found = check_data(text)
    assert found.n_faults == sum(len(wanted) for _, wanted in FAULTS)
    assert found.n_faulty_lines == len(FAULTS)
    assert found.statistics["rows"] == 3 * len(FAULTS)
    some = check_data(text, max_faults=3)
    assert some.faults == found.faults[:3] and some.n_faults == found.n_faults


TOKENS = [
    "1",
    "-1",
    "1:2",
    "2:3",
    "1:x",
    "7:0.5",
    "2:nan",
    "#",
    "qid:1",
    "a",
    "0:1",
    "\r",
    "3:",
    "\t",
    "5:1:2",
    "\0",
]


@given(st.lists(st.lists(st.sampled_from(TOKENS), max_size=6).map(" ".join), max_size=8))
def test_agrees_with_the_strict_reader(lines):
    """A file has faults exactly if the reader refuses it; good lines are those it takes alone."""
    text = "\n".join(lines).encode()
    found = check_data(text)
    good = 0
    for line in text.split(b"\n"):
        with contextlib.suppress(odmlib.DataFormatError):
            good += len(odmlib.read_data(line + b"\n1 1:1\n")[1]) - 1
    assert found.statistics.get("rows", 0) == good
    try:
        X, y = odmlib.read_data(text)
    except odmlib.DataFormatError as error:
        assert not found.good
        assert (error.line, error.column) == (found.faults[0].line, found.faults[0].column)
        assert error.message == found.faults[0].message
    else:
        assert found.good
        assert (found.statistics["rows"], found.statistics["nonzeros"]) == (len(y), X.nnz)


def test_no_rows_is_a_fault():
    for text in (b"", b"\n\n", b"# only words\n"):
        found = check_data(text)
        assert [fault.message for fault in found.faults] == ["no rows found"]


def test_packed_files_and_marks():
    assert check_data(gzip.compress(GOOD)).good
    assert check_data(b"\xef\xbb\xbf1 1:x\n").faults[0].column == 5
    with pytest.raises(odmlib.DataFormatError, match="UTF-16"):
        check_data("1 1:1\n".encode("utf-16"))
    with pytest.raises(odmlib.DataFormatError, match="gzip data"):
        check_data(gzip.compress(GOOD)[:-5])


def check_faulty_lines(n):
    found = check_data(b"1 1:x 2:1\n1 1:1\n" * n, max_faults=10)
    assert (found.n_faulty_lines, found.statistics["rows"]) == (n, n)


def check_faulty_line(n):
    found = check_data(b"x" * 25 * n + b" 1:y" * n)
    assert found.n_faulty_lines == 1 and found.n_faults == 20


@pytest.mark.parametrize(("check", "n"), [(check_faulty_lines, 2000), (check_faulty_line, 40_000)])
def test_many_faults_take_no_longer_than_they_must(check, n):
    """16 times the faults take 16 times the work, not 256 times."""

    def work(n):
        started = time.process_time()
        check(n)
        return time.process_time() - started

    few, many = (min(work(size) for _ in range(3)) for size in (n, 16 * n))
    assert many < 64 * few


def test_statistics_by_hand():
    text = b"1 1:2 3:5\n1 1:2 3:-1\n-1 1:2 3:5\n-1 1:2 4:40000\n1 1:2 3:5\n-1 1:2 4:0\n"
    found = check_data(text)
    numbers = found.statistics
    assert numbers["rows"] == 6 and numbers["features"] == 4 and numbers["nonzeros"] == 11
    assert numbers["density"] == 11 / 24
    assert (numbers["lowest"], numbers["highest"]) == (-1, 40000)
    assert numbers["constant_features"] == 2  # 1 is always 2, 2 is always 0
    assert numbers["constant_nonzero"] == [1]
    assert numbers["widest_feature"] == 4 and numbers["widest_range"] == 40000
    assert numbers["narrowest_range"] == 6
    assert numbers["duplicate_rows"] == 2 and numbers["unavoidable_errors"] == 1
    assert numbers["class_counts"] == {"-1": 3, "1": 3}
    assert any("features range from -1 to 40,000: scale first" in line for line in found.advice)
    assert any("errs on at least 1 row (" in line for line in found.advice)


def test_zeros_of_full_columns_do_not_count():
    numbers = check_data(b"1 1:5 2:7\n-1 1:6 2:9\n").statistics
    assert (numbers["lowest"], numbers["highest"]) == (5, 9)


def test_duplicates_against_a_plain_count():
    random = np.random.default_rng(1)
    X = random.integers(0, 2, size=(300, 6)) * random.integers(1, 3, size=(300, 6))
    y = random.integers(0, 3, size=300).astype(float)
    groups: dict = {}
    for row, label in zip(X.tolist(), y, strict=True):
        groups.setdefault(tuple(row), []).append(label)
    duplicates = sum(len(labels) - 1 for labels in groups.values())
    unavoidable = sum(len(labels) - max(map(labels.count, labels)) for labels in groups.values())
    assert count_duplicates(Dataset.from_any(X), y) == (duplicates, unavoidable)
    assert duplicates > 50 and unavoidable > 40


def test_advice():
    def advice(text: bytes) -> str:
        return "\n".join(check_data(text).advice)

    assert advice(b"1 1:1\n-1 1:-1\n" * 4 + b"1 1:0.5\n").count("scale") == 0
    assert "ranges from 0.001 to 2 wide: scale" in advice(b"1 1:0.001 2:1\n-1 2:-1\n-1 2:-1\n1 2:1\n")
    assert "needs two classes" in advice(b"1 1:1\n1 1:2\n")
    assert "label 2 has 1" not in advice(b"1 1:1\n" * 50 + b"2 1:2\n2 1:3\n")
    assert "label 2 has 2 of 52 rows (3.8%)" in advice(b"1 1:1\n" * 50 + b"2 1:2\n2 1:3\n")
    assert "-w2 25" in advice(b"1 1:1\n" * 50 + b"2 1:2\n2 1:3\n")
    assert "label 2 stands once" in advice(b"1 1:1\n1 1:2\n2 1:3\n")
    assert "not whole numbers" in advice(b"1.5 1:1\n2 1:2\n")
    assert "regression" in advice(b"".join(b"%d 1:%d\n" % (i, i) for i in range(200)))
    assert "1 row with nothing but zeros" in advice(b"1\n2 1:1\n")
    assert "1 line blank" in advice(b"# hi\n1 1:1\n2 1:2\n")


@pytest.mark.parametrize("name", ["heart", "svmguide1", "titanic", "glass.scale"])
def test_real_sets(name):
    path = real_path(name)
    found = check_data(path)
    X, y = odmlib.read_data(path)
    dense = X.toarray()
    numbers = found.statistics
    assert found.good and numbers["rows"] == len(y)
    assert numbers["lowest"] == dense.min() and numbers["highest"] == dense.max()
    assert numbers["constant_features"] == int((dense.min(axis=0) == dense.max(axis=0)).sum())
    assert numbers["duplicate_rows"] == len(dense) - len(np.unique(dense, axis=0))


def test_wide_data_cost_no_table():
    numbers = statistics(odmlib.Dataset.from_any(odmlib.read_data(b"1 2147483647:1\n2 1:1\n")[0]), np.ones(2))
    assert numbers["features"] == 2**31 - 1 and numbers["used_features"] == 2
