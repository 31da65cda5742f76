"""Data frames where users expect to hand them in: training, prediction, weights and writing."""

from __future__ import annotations

import io

import numpy as np
import pytest

import odmlib
from odmlib.data.dataset import Dataset

from .test_docs import ROOT


@pytest.fixture(scope="module")
def iris():
    X, y = odmlib.read_data(ROOT / "data" / "iris.txt")
    return X.toarray(), y


def check(iris, frame, labels, weights):
    X, y = iris
    expected = odmlib.train(X, y, sample_weight=np.arange(1.0, 151))
    model = odmlib.train(frame, labels, sample_weight=weights)
    assert model.predict(frame).tolist() == expected.predict(X).tolist()
    assert np.array_equal(model.decision_function(frame), expected.decision_function(X))
    assert np.array_equal(model.margins(frame, labels), expected.margins(X, y))
    ours, theirs = io.BytesIO(), io.BytesIO()
    odmlib.write_data(ours, frame, labels)
    odmlib.write_data(theirs, X, y)
    assert ours.getvalue() == theirs.getvalue()


def test_pandas(iris):
    pandas = pytest.importorskip("pandas")
    X, y = iris
    frame, weights = pandas.DataFrame(X, columns=list("abcd")), pandas.Series(np.arange(1.0, 151))
    check(iris, frame, pandas.Series(y), weights)
    check(iris, frame.astype("Float64"), pandas.Series(y).astype("Float64"), weights)
    model = odmlib.train(frame, pandas.Series(y).map({1: "a", 2: "b", 3: "c"}).astype("category"))
    assert model.predict(frame[:1]).tolist() == ["a"]
    missing = frame.astype("Float64")
    missing.iloc[3, 1] = pandas.NA
    with pytest.raises(odmlib.ParameterError, match="X"):
        odmlib.train(missing, y)
    frame["e"] = "text"
    with pytest.raises(odmlib.ParameterError, match=r"X cannot be read as numbers: column .* holds text"):
        odmlib.train(frame, y)


def test_sparse_pandas_frames_stay_sparse():
    pandas = pytest.importorskip("pandas")
    dense = np.array([[0.0, 2, 0], [3, 0, 0], [0, 0, 0]])
    frame = pandas.DataFrame({j: pandas.arrays.SparseArray(dense[:, j], fill_value=0.0) for j in range(3)})
    rows = Dataset.from_any(frame)
    assert Dataset.from_any(pandas.DataFrame(dense, columns=["sparse", "b", "c"])).n_nonzeros == 2
    assert rows.n_nonzeros == 2
    assert rows.to_dense().tolist() == dense.tolist()


def test_polars(iris):
    polars = pytest.importorskip("polars")
    X, y = iris
    frame = polars.DataFrame(X, schema=list("abcd"))
    check(iris, frame, polars.Series(y), polars.Series(np.arange(1.0, 151)))
    model = odmlib.train(frame, polars.Series(np.array(["a", "b", "c"])[y.astype(int) - 1]))
    assert model.predict(frame[:1]).tolist() == ["a"]
    with pytest.raises(odmlib.ParameterError, match="X holds NaN"):
        odmlib.train(frame.with_columns(polars.lit(None).alias("z")), y)


def test_bytes_and_file_objects(iris, tmp_path):
    model = odmlib.train(*iris)
    text, binary = io.StringIO(), io.BytesIO()
    for target in (text, binary, tmp_path / "m"):
        model.save(target)
    assert model.to_bytes() == binary.getvalue() == text.getvalue().encode() == (tmp_path / "m").read_bytes()
    with open(tmp_path / "m", encoding="utf-8") as file:
        for source in (model.to_bytes(), tmp_path / "m", file, io.BytesIO(binary.getvalue())):
            again = odmlib.load_model(source)
            assert np.array_equal(again.decision_function(iris[0]), model.decision_function(iris[0]))


def test_columns_are_remembered_and_checked(iris):
    pandas = pytest.importorskip("pandas")
    X, y = iris
    frame = pandas.DataFrame(X, columns=["a", "b b", 'c"', "d"])
    model = odmlib.load_model(odmlib.train(frame, y).to_bytes())
    assert model.columns == tuple(frame.columns)
    assert model.score(frame, y) == model.score(X, y)  # an array has no names to check
    with pytest.raises(odmlib.ParameterError, match="in another order"):
        model.predict(frame[["b b", "a", 'c"', "d"]])
    with pytest.raises(odmlib.ParameterError, match="lacks d"):
        model.predict(frame[["a", "b b", 'c"']])
    with pytest.raises(odmlib.ParameterError, match="has also e"):
        model.predict(frame.assign(e=1.0))
    assert odmlib.train(X, y).columns is None
    assert odmlib.train(pandas.DataFrame(X), y).columns is None  # numbers are no names


def test_a_column_of_text_is_named():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "colour": ["red", "blue", "red"]})
    with pytest.raises(odmlib.ParameterError, match=r"column 'colour' holds text \('red'\).*get_dummies"):
        odmlib.train(frame, [1, 2, 1])
