"""Problem: what a user may hand over as labels and weights, and what not."""

from __future__ import annotations

import numpy as np
import pytest

import odmlib
from odmlib.data.problem import Problem, check_sample_weights, encode_labels
from odmlib.errors import ParameterError

X = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [0.0, 3.0]])


class Series:
    """As pandas: an object that numpy can take, with an index of its own."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)

    def __len__(self):
        return len(self.values)


class Wrapper:
    """A label of an unknown type."""


@pytest.mark.parametrize(
    ("y", "labels", "codes"),
    [
        ([3, 1, 3, 1], [3, 1], [0, 1, 0, 1]),
        ([-1, 1, -1, 1], [1, -1], [1, 0, 1, 0]),
        ([-1.0, 1.0, 1.0, -1.0], [1.0, -1.0], [1, 0, 0, 1]),
        ([1, -1, 1, 1], [1, -1], [0, 1, 0, 0]),
        ([0, 1, 1, 0], [0, 1], [0, 1, 1, 0]),
        ([1, 0, 1, 0], [1, 0], [0, 1, 0, 1]),
        ((-1, 2, 2, -1), [-1, 2], [0, 1, 1, 0]),
        (["b", "a", "b", "a"], ["b", "a"], [0, 1, 0, 1]),
        ([True, False, True, True], [True, False], [0, 1, 0, 0]),
        (np.array([5, 7, 7, 5], np.uint8), [5, 7], [0, 1, 1, 0]),
        (np.array([[1], [2], [2], [1]]), [1, 2], [0, 1, 1, 0]),
        (np.array([1.5, 2.5, 1.5, 2.5], np.float32), [1.5, 2.5], [0, 1, 0, 1]),
        (np.array(["x", "y", "y", "x"], object), ["x", "y"], [0, 1, 1, 0]),
        (np.array([1, "y", "y", 1], object), [1, "y"], [0, 1, 1, 0]),
        (np.array([10**30, 1, 1, 10**30], object), [10**30, 1], [0, 1, 1, 0]),
        (Series([4, 5, 5, 4]), [4, 5], [0, 1, 1, 0]),
        (Series(["s", "t", "t", "s"]), ["s", "t"], [0, 1, 1, 0]),
        ([2, 0, 1, 2], [2, 0, 1], [0, 1, 2, 0]),
        (np.array([b"p", b"q", b"p", b"q"]), [b"p", b"q"], [0, 1, 0, 1]),
        (range(4), [0, 1, 2, 3], [0, 1, 2, 3]),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_labels(y, labels, codes):
    problem = Problem.from_arrays(X, y)
    assert problem.labels.tolist() == labels
    assert problem.codes.tolist() == codes
    assert problem.weights.tolist() == [1.0] * 4
    assert problem.total_weight == 4


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 2, 1], "X has 4 rows but y has 3 labels"),
        ([1, 2, 1, 2, 1], "X has 4 rows but y has 5 labels"),
        ([], "X has 4 rows but y has 0 labels"),
        ([[1, 2], [1, 2], [1, 2], [1, 2]], "y must have one dimension"),
        (3, "y must have one dimension"),
        (None, "y is missing"),
        ([1, np.nan, 1, 2], "y holds NaN or infinity"),
        ([1, np.inf, 1, 2], "y holds NaN or infinity"),
        ([1, None, 1, 2], r"y\[1\] is None"),
        (np.array(["a", np.nan, "a", "b"], object), r"y\[1\] is nan"),
        (np.array(["a", np.float64(np.nan), "a", "b"], object), r"y\[1\] is"),
        ([1, 2j, 1, 2], "complex"),
        ([1, Wrapper(), 1, 2], r"y\[1\] is of type Wrapper"),
        ([1, [2], 1, 2], "y "),
        (np.array([{}, 1, 2, 1], object), r"y\[0\] is of type dict"),
    ],
)
def test_bad_labels(y, message):
    with pytest.raises(ParameterError, match=message):
        Problem.from_arrays(X, y)


def test_no_rows():
    with pytest.raises(ParameterError, match="X has no rows"):
        Problem.from_arrays(np.zeros((0, 2)), [])


@pytest.mark.parametrize(
    ("weights", "expected"),
    [(None, [1, 1, 1, 1]), ([1, 2, 3, 0], [1, 2, 3, 0]), (2, [2, 2, 2, 2]),
     (Series([1, 2, 3, 4]), [1, 2, 3, 4]), (np.array([True, False, True, True]), [1, 0, 1, 1]),
     ([0.5, 1e-300, 1e300, 1], [0.5, 1e-300, 1e300, 1])],
)  # fmt: skip
def test_sample_weights(weights, expected):
    assert check_sample_weights(weights, 4).tolist() == expected


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 1, 1], "expected 4 row weights"),
        (np.ones((4, 1)), "expected 4 row weights"),
        ([1, -1, 1, 1], "row weight 2 is -1"),
        ([1, 1, np.nan, 1], "row weight 3 is nan"),
        ([1, 1, np.inf, 1], "row weight 3 is inf"),
        ([0, 0, 0, 0], "all row weights are zero"),
        (["a", 1, 1, 1], "cannot be read as numbers"),
        ([1, None, 1, 1], "row weight 2 is nan"),
        ([1, 1j, 1, 1], "holds complex128, expected real numbers"),
        ([[1], [1, 2], 1, 1], "cannot be read as numbers"),
    ],
)
def test_bad_sample_weights(weights, message):
    with pytest.raises(ParameterError, match=message):
        check_sample_weights(weights, 4)


def test_class_weights():
    y = ["a", "b", "a", "a"]
    assert Problem.from_arrays(X, y, None, {"b": 3}).weights.tolist() == [1, 3, 1, 1]
    assert Problem.from_arrays(X, y, [1, 2, 3, 4], {"b": 3, "a": 0.5}).weights.tolist() == [0.5, 6, 1.5, 2]
    assert Problem.from_arrays(X, y, [1, 2, 3, 4], {"b": 3}).total_weight == 10
    balanced = Problem.from_arrays(X, y, None, "balanced")
    assert np.allclose(balanced.weights, [4 / 6, 2, 4 / 6, 4 / 6])
    assert Problem.from_arrays(X, [1.0, 2.0, 1.0, 1.0], None, {2: 5}).weights.tolist() == [1, 5, 1, 1]


def test_class_weight_of_an_unknown_label():
    with pytest.raises(ParameterError, match=r"label c, which is not in the data \(a, b\)"):
        Problem.from_arrays(X, ["a", "b", "a", "a"], None, {"c": 3})
    with pytest.raises(ParameterError, match="'balanced' or a mapping"):
        Problem.from_arrays(X, ["a", "b", "a", "a"], None, "even")


def test_two_classes_with_weight_are_needed():
    Problem.from_arrays(X, [1, 2, 1, 2]).require_classes("odm")
    with pytest.raises(
        ParameterError, match=r"all rows have the same label \(7\); odm needs rows of two classes"
    ):
        Problem.from_arrays(X, [7, 7, 7, 7]).require_classes("odm")
    Problem.from_arrays(X, [1, 2, 3, 1]).require_classes("odm")
    with pytest.raises(ParameterError, match="no weight is left for label 2"):
        Problem.from_arrays(X, [1, 2, 1, 1], [1, 0, 1, 1]).require_classes("odm")
    with pytest.raises(ParameterError, match="no weight is left for label 1, 3"):
        Problem.from_arrays(X, [1, 2, 3, 1], None, {1: 0, 3: 0}).require_classes("odm")
    with pytest.raises(ParameterError, match="every row has weight 0"):
        Problem.from_arrays(X, [1, 2, 1, 1], None, {1: 0, 2: 0}).require_classes("odm")


def test_problem_of_some_classes():
    problem = Problem.from_arrays(X, ["a", "b", "c", "b"], [1, 2, 3, 4], {"c": 5})
    part = problem.of_present_classes(np.array([1, 2]))
    assert part.labels.tolist() == ["b", "c"]
    assert part.codes.tolist() == [0, 1, 0]
    assert part.weights.tolist() == [2, 15, 4]
    assert np.array_equal(part.rows.to_dense(), problem.rows.to_dense()[1:])


def test_take_keeps_what_is_known():
    problem = Problem.from_arrays(X, ["a", "b", "a", "b"], [1, 2, 3, 4], {"b": 10})
    part = problem.take(np.array([3, 0]))
    assert part.rows.to_dense().tolist() == [[0, 3], [1, 0]]
    assert (part.codes.tolist(), part.labels.tolist()) == ([1, 0], ["a", "b"])
    assert part.weights.tolist() == [40, 1]
    assert part.signs().tolist() == [-1, 1]


def test_large_integers_are_not_rounded():
    codes, labels = encode_labels([2**53, 2**53 + 1, 2**53])
    assert codes.tolist() == [0, 1, 0]
    assert labels.tolist() == [2**53, 2**53 + 1]


# ---------------------------------------------------------------------------------------- odmlib.train


@pytest.mark.parametrize(
    "y",
    [
        ["b", "a", "b", "a"],
        [True, False, True, False],
        [7, 9, 7, 9],
        [2**53, 2**53 + 1] * 2,
        [1.5, 1.7, 1.5, 1.7],
    ],
)
def test_predictions_are_of_the_type_given(y):
    data = np.array([[1.0], [-1.0], [2.0], [-2.0]])
    model = odmlib.train(data, y, kernel="linear")
    assert model.predict(data).tolist() == y
    assert type(model.predict(data).tolist()[0]) is type(y[0])
    assert (model.margins(data, y) > 0).all()


def test_margins_need_known_labels():
    data = np.array([[1.0], [-1.0], [2.0], [-2.0]])
    model = odmlib.train(data, [1, -1, 1, -1], kernel="linear")
    with pytest.raises(ParameterError, match=r"y\[2\] is .*5.*, which the model does not know"):
        model.margins(data, [1, -1, 5, 1])
    with pytest.raises(ParameterError, match="X has 4 rows but y has 2 labels"):
        model.margins(data, [1, -1])


def test_rows_of_another_width():
    data = np.array([[1.0, 0.5], [-1.0, 0.5], [2.0, 0.5], [-2.0, 0.5]])
    model = odmlib.train(data, [1, -1, 1, -1], kernel="linear")
    with pytest.raises(ParameterError, match="X has 3 features per row, the model was trained with 2"):
        model.predict(np.ones((2, 3)))
    with pytest.raises(ParameterError, match="two dimensions"):
        model.predict(np.ones(2))
    with pytest.raises(ParameterError, match="NaN"):
        model.predict([[np.nan, 1.0]])
    with pytest.warns(UserWarning, match="features above 2 were not seen") as caught:
        model.predict(odmlib.Dataset.from_any(np.ones((2, 3))))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert len(model.predict(odmlib.Dataset.from_any(np.ones((2, 1))))) == 2


MASKED = np.ma.array([1.0, -1.0, 1.0], mask=[True, False, False])


@pytest.mark.parametrize("machine", ["odm", "odmr"])
def test_what_numpy_would_take_in_silence_is_refused(machine):
    """numpy drops masks and imaginary parts, and counts seconds."""
    X, y = [[1.0], [2.0], [3.0]], [1.0, -1.0, 1.0]
    for labels, message in (
        (MASKED, "y has masked entries"),
        (np.array(y) + 1j, "complex"),
        (np.array([1, 2, 3]).astype("datetime64[s]"), "y holds datetime64"),
    ):
        if machine == "odm" and "datetime" in message:  # may be names of classes
            continue
        with pytest.raises(ParameterError, match=message):
            odmlib.train(X, labels, machine=machine)
    for weights, message in (
        (MASKED, "sample_weight has masked entries"),
        (np.ones(3) + 0j, "sample_weight holds complex128, expected real numbers"),
        (np.ones(3).astype("timedelta64[s]"), "sample_weight holds timedelta64"),
    ):
        with pytest.raises(ParameterError, match=message):
            odmlib.train(X, y, machine=machine, sample_weight=weights)
    with pytest.raises(ParameterError, match="y of block 1 has masked entries"):
        odmlib.train_stream([(X, MASKED)])


def test_labels_of_long_doubles_become_what_a_model_file_holds():
    labels = np.array([1, -1, 1], dtype=np.longdouble) + np.longdouble("1e-18")
    model = odmlib.train([[1.0], [2.0], [3.0]], labels)
    assert model.labels.dtype == np.float64
