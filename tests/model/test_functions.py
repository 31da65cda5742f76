"""Decision functions at the end of the number range."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib.data.dataset import Dataset
from odmlib.errors import ParameterError
from odmlib.model.foreign.files import foreign_text
from odmlib.model.functions import KernelFunction, LinearFunction, PrecomputedFunction
from odmlib.model.model import Model
from odmlib.model.text_format import load_model
from odmlib.model.text_writer import model_text

from .examples import make_model

ROWS = Dataset.from_any(np.ones((2, 6)))
VECTORS = Dataset.from_any(np.eye(6)[:3])
HUGE = np.array([1e308, 1e308, 1e308])


def with_bias(model: Model, bias: float) -> Model:
    text = b"".join(model_text(model))
    assert b"\nbias 0.5\n" in text
    return load_model(text.replace(b"\nbias 0.5\n", f"\nbias {bias}\n".encode()))


def linear(bias: float = 0.5, bias_weights: float = 2.5, offsets: list[float] | None = None) -> Model:
    columns, weights = np.array([0, 2, 5], np.int32), np.array([9e307, 1.0, 1.0])
    return with_bias(make_model(function=LinearFunction(columns, weights, 0.5, bias_weights, offsets)), bias)


def kernel(terms: list[float], offset: float) -> Model:
    formula = make_model("rbf").formula
    return make_model("rbf", function=KernelFunction(formula, VECTORS, np.array(terms), [offset]))


def precomputed(bias: float) -> Model:
    function = PrecomputedFunction(np.array([2, 1, 6]), HUGE / 1e290, 0.5)
    return with_bias(make_model("precomputed", function=function), bias)


@pytest.mark.parametrize(
    "model",
    [
        linear(offsets=[-1.7e308]),
        linear(bias=1e300, bias_weights=1e100),
        linear(bias=1e300, bias_weights=1e100, offsets=[1e308]),
        kernel([1e307, 1.0, 1.0], -1.79e308),
        precomputed(1e200),
        precomputed(1e160),
    ],
)
def test_scores_that_overflow_are_refused(model):
    for same in (model, load_model(b"".join(model_text(model)))):
        with pytest.raises(ParameterError, match=r"^decision values overflow on these rows; scale the data$"):
            same.decision_function(ROWS)


@pytest.mark.parametrize(
    ("model", "form"),
    [
        (linear(bias=1e300, bias_weights=1e100), "libsvm"),
        (linear(bias=1e300, bias_weights=1e100, offsets=[1.0]), "liblinear"),
        (precomputed(1e200), "libsvm"),
        (kernel([1e308, 1e308, 1e308], -1.0), "libsvm"),
        (
            make_model("linear ovr", labels=(3.0, -1.0, 2.0, 7.0), function=LinearFunction(
                np.array([0], np.int32), np.array([[1.5e308, -1.5e308, 0, 0]]), 0.0, np.zeros(4),
                [-1.5e308, 1.5e308, 0, 0])),
            "libsvm",
        ),
    ],
)  # fmt: skip
def test_no_infinity_reaches_other_programs(model, form):
    with pytest.raises(ParameterError, match="overflow"):
        b"".join(foreign_text(model, form))


@pytest.mark.parametrize("key", ["primal", "dual", "gap"])
def test_numbers_that_the_reader_refuses_are_not_written(key):
    model = make_model()
    model.report[key] = np.nan
    with pytest.raises(ParameterError, match=f"{key} is nan"):
        model.to_bytes()


def test_what_a_function_keeps_stays_out_of_pickles_and_changes_nothing():
    import pickle

    from .examples import SEVERAL, make_model

    rng = np.random.default_rng(0)
    for kind in ("linear", "rbf", *SEVERAL):
        function = make_model(kind).function
        wide = Dataset.from_any(rng.standard_normal((200, 6)))
        for rows in (wide, wide.with_features(4), wide):  # another width in between
            together = function.scores(rows, 2)
            for i in (0, 57, 199):
                assert (function.scores(rows.part(i, i + 1), 1) == together[i]).all()
        assert not any(name.startswith("_") for name in pickle.loads(pickle.dumps(function)).__dict__)
