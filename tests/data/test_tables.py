"""Tables: separators, headers, quotes, labels, one-hot columns, faults with their lines, pyarrow's files."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import odmlib
from odmlib.data.tables import load_table, read_table, rows_like, training_rows
from odmlib.errors import DataFormatError, OdmError


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_separators_headers_and_line_ends(separator, end):
    lines = [["a", "b", "y"], ["1", "2.5", "7"], ["-3", "0", "9"]]
    text = end.join(separator.join(line) for line in lines).encode()
    X, y, names = read_table(text)
    assert X.tolist() == [[1, 2.5], [-3, 0]] and y.tolist() == [7, 9] and names == ("a", "b")
    without = read_table(text.partition(end.encode())[2])
    assert without[0].tolist() == X.tolist() and without[2] is None


@pytest.mark.parametrize("label", ["target", 1, "1"])
def test_labels_by_name_and_number(label):
    X, y, names = read_table(b"target,b,class\n1,2,3\n4,5,6\n", label=label)
    assert y.tolist() == [1, 4] and names == ("b", "class") and X.tolist() == [[2, 3], [5, 6]]
    assert read_table(b"target,b,class\n1,2,3\n4,5,6\n")[1].tolist() == [3, 6]  # the first known name
    assert read_table(b"a,b,c\n1,2,3\n4,5,6\n")[1].tolist() == [3, 6]  # else the last


@given(st.lists(st.tuples(st.text("ab\",;\n '", min_size=1, max_size=6), st.integers(0, 9)), min_size=1))
def test_quoted_text_comes_back(rows):
    file = io.StringIO()
    csv.writer(file).writerows([("size", "class"), *((number, f"x{text}x") for text, number in rows)])
    X, y, _ = read_table(file.getvalue().encode())
    assert y.tolist() == [f"x{text}x" for text, _ in rows]
    assert X[:, 0].tolist() == [number for _, number in rows]


def test_one_hot():
    text = b"size,colour,class\n1.5,red,a\n2,blue,b\n3,red,b\n"
    X, _, names = read_table(text, one_hot=True)
    assert names == ("size", "colour=blue", "colour=red")
    assert X.tolist() == [[1.5, 0, 1], [2, 1, 0], [3, 0, 1]]
    with pytest.raises(odmlib.DataFormatError, match=r"<bytes>:2: column 'colour' holds text \('red'\)"):
        read_table(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "no rows found"),
        (b"a,b\n", "no rows found behind the header"),
        (b"a,b\n1,2\n3\n", ":3: expected 2 columns as in the first line, found 1"),
        (b"a,b\n1,2\n,3\n", ":3: column 'a' is empty; fill in missing values"),
        (b"a,b\n1,2\nnan,3\n", ":3: column 'a': expected a finite number, found 'nan'"),
        (b"a,b\n1,2\n1_0,3\n", ":3: column 'a' holds text"),
        (b"a,a\n1,2\n", ":1: two columns are named 'a'"),
        (b"a,b\n1,2\n\xff,3\n", "not UTF-8"),
        (b'a,b\n1,"2\n', "broken CSV"),
        (b"1 2:3\n", "commas, semicolons or tabs (this looks like LIBSVM"),
        (b"words in one line\n", "found one column, expected columns parted by commas"),
    ],
)
def test_faults(text, message):
    with pytest.raises(odmlib.DataFormatError) as caught:
        read_table(text)
    assert message in str(caught.value)


def test_columns_are_found_by_name():
    table = load_table(b"colour,class,size,other\nred,a,1,5\ngreen,b,2,6\n")
    found = rows_like(table, None, ("size", "colour=blue", "colour=red"), 3)
    assert found.rows.to_dense().tolist() == [[1, 0, 1], [2, 0, 0]]  # green was not seen in training
    assert found.labels.tolist() == ["a", "b"]
    assert rows_like(load_table(b"size\t\n1\t2\n", True), None, ("size",), 1).labels.tolist() == [2]
    with pytest.raises(odmlib.OdmError, match="the model was trained with column 'weight'"):
        rows_like(table, None, ("size", "weight"), 2)


@pytest.mark.parametrize("end", ["parquet", "feather", "arrow"])
def test_parquet_and_arrow(tmp_path, end):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    table = pyarrow.table({"a": [1, 2], "c": ["x", "y"], "b": [0.5, None], "f": [True, False]})
    path = tmp_path / f"t.{end}"
    write = parquet.write_table if end == "parquet" else feather.write_feather
    write(table.drop_columns(["b"]), path)
    X, y, names = read_table(path, label="f", one_hot=True)
    assert X.tolist() == [[1, 1, 0], [2, 0, 1]] and y.tolist() == [1, 0] and names == ("a", "c=x", "c=y")
    write(table, path)
    with pytest.raises(odmlib.DataFormatError, match="column 'b' has empty entries"):
        read_table(path, one_hot=True)
    path.write_bytes(b"junk")
    with pytest.raises(odmlib.DataFormatError, match="not a table that pyarrow can read"):
        read_table(path)


def test_an_open_file_stays_open():
    file = io.BytesIO(b"a,b\n1,2\n")
    assert read_table(file)[0].tolist() == [[1.0]]
    assert not file.closed
    assert np.array_equal(read_table(b"\xef\xbb\xbfa,b\n1,2\n")[2], ["a"])


@pytest.mark.parametrize(
    ("cell", "message"),
    [("1,5", "column 'a': expected a number with a decimal point, found '1,5'"),
     ("-0,25", "column 'a': expected a number with a decimal point, found '-0,25'"),
     ("red", "column 'a' holds text ('red'); one_hot=True makes a column of 0 and 1 of each value")],
)  # fmt: skip
def test_numbers_with_a_decimal_comma(cell, message):
    with pytest.raises(DataFormatError, match=re.escape(f"<bytes>:2: {message}")) as caught:
        read_table(f"a;class\n{cell};x\n2;y\n".encode())
    assert "one_hot" not in caught.value.shell and ("--one-hot" in caught.value.shell) == (cell == "red")
    if cell != "red":  # not even as text
        with pytest.raises(DataFormatError, match="decimal point"):
            read_table(f"a;class\n{cell};x\n2;y\n".encode(), one_hot=True)


def test_one_hot_columns_without_a_header():
    def same(text, label=None):
        found = rows_like(load_table(text), label, known.names, known.rows.n_features)
        assert found.rows.to_dense().tolist() == known.rows.to_dense().tolist()
        return None if found.labels is None else found.labels.tolist()

    known = training_rows(load_table(b"1.5,red,a\n2,blue,b\n"), None, one_hot=True)
    assert known.names == ("1", "2=blue", "2=red")
    assert same(b"1.5,red,a\n2,blue,b\n") == ["a", "b"]
    assert same(b"1.5,red\n2,blue\n") is None
    known = training_rows(load_table(b"a,1.5,red\nb,2,blue\n"), 1, one_hot=True)
    assert known.names == ("2", "3=blue", "3=red")
    assert same(b"a,1.5,red\nb,2,blue\n") == ["a", "b"]
    assert same(b"1.5,red\n2,blue\n") is None
    with pytest.raises(OdmError, match="the model was trained with column '2', which is not here"):
        same(b"1.5\n2\n")


def test_values_that_training_never_saw_are_told():
    known = training_rows(load_table(b"x,colour,class\n1,red,a\n2,blue,b\n"), None, one_hot=True)
    new = load_table(b"x,colour\n1,green\n2,blue\n3,mauve\n4,green\n")
    found = rows_like(new, None, known.names, 3)
    assert found.notes == ("column 'colour' has values that were not in training: green, mauve (3 rows)",)
    assert rows_like(load_table(b"x,colour\n1,red\n"), None, known.names, 3).notes == ()


def test_a_table_of_one_column_has_no_features():
    with pytest.raises(DataFormatError, match="found one column, expected columns parted by"):
        read_table(b"1 1:2\n2 1:3\n")
    known = training_rows(load_table(b"x,class\n1,a\n2,b\n"), None, one_hot=False)
    found = rows_like(load_table(b"x\n5\n"), None, known.names, 1)
    assert found.rows.to_dense().tolist() == [[5.0]] and found.labels is None


@pytest.mark.parametrize("mark", ["NA", "n/a", "?", "null", " - "])
@pytest.mark.parametrize("one_hot", [False, True])
def test_marks_of_missing_numbers_are_no_categories(mark, one_hot):
    message = f":3: column 'a' holds '{re.escape(mark.strip())}' for a missing value"
    with pytest.raises(DataFormatError, match=message):
        read_table(f"a,class\n1.5,x\n{mark},y\n2,x\n".encode(), one_hot=one_hot)
    X, _, names = read_table(f"a,class\nred,x\n{mark},y\nblue,x\n".encode(), one_hot=True)
    assert X.shape == (3, 3) and f"a={mark.strip()}" in names  # a category like others
