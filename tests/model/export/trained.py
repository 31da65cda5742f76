"""Trained models of all kinds, and how exact their scores can be."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import odmlib
from odmlib.data.dataset import Dataset
from odmlib.data.reading import read_dataset
from odmlib.kernels.expansion import kernel_scores
from odmlib.model.functions import LinearFunction

DATA = Path(__file__).parents[3] / "data"
TRAINED = {
    "two classes, rbf": ("wdbc.train.txt", {"gamma": 1e-5, "probability": True}),
    "two classes, linear": ("rings.txt", {"kernel": "linear", "probability": True}),
    "one-vs-one, rbf": ("iris.txt", {"probability": True}),
    "one-vs-one, linear": ("iris.txt", {"kernel": "linear", "multiclass": "ovo", "probability": True}),
    "one-vs-rest, linear": ("iris.txt", {"kernel": "linear", "probability": True}),
    "one-vs-rest, poly": ("iris.txt", {"kernel": "poly", "coef0": 1.0, "multiclass": "ovr"}),
    "sigmoid": ("rings.txt", {"kernel": "sigmoid", "gamma": 0.01, "machine": "svm"}),
    "mcodm": ("iris.txt", {"machine": "mcodm", "probability": True}),
    "mcodm, linear": ("wine.txt", {"machine": "mcodm", "kernel": "linear"}),
    "kmomd": ("iris.txt", {"machine": "kmomd", "bias": 2.0}),
    "odml": ("rings.txt", {"machine": "odml"}),
    "sodm": ("rings.txt", {"machine": "sodm"}),
    "odmo": ("rings.txt", {"machine": "odmo"}),
    "odmo over landmarks": ("rings.txt", {"machine": "odmo", "approx": "nystrom", "rank": 20}),
    "sparse, one-vs-one": ("digits.txt", {"gamma": 0.001}),
}


def size_of_terms(model, rows: Dataset) -> float:
    """The largest sum of |terms| of a score: rounding is in proportion to it, also where the terms cancel."""
    function, some = model.function, rows.part(0, min(100, rows.n_rows))
    if isinstance(function, LinearFunction):
        size = np.abs(some.to_dense()[:, function.columns]) @ np.abs(function.weights)
        size = size + np.abs(function.bias * function.bias_weights)
    else:
        units = np.eye(max(1, function.n_vectors))[: function.n_vectors]
        values = np.abs(kernel_scores(function.formula, function.vectors, units, some))
        size = values[:, : function.n_vectors] @ np.abs(function.coefficients)
    return float((size + np.abs(function.offsets)).max())


def trained(name: str):
    file, options = TRAINED[name]
    rows, y = read_dataset(DATA / file)
    return odmlib.train(rows, y, threads=1, **options), rows


REGRESSIONS = {
    "rbf": {},
    "linear": {"kernel": "linear", "C": 0.01},
    "poly": {"kernel": "poly", "gamma": 0.1, "coef0": 1.0},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.01},
    "over landmarks": {"approx": "nystrom", "rank": 20},
}


def trained_regression(name: str, outputs: int = 1):
    """A model that predicts the first column of iris, or two of them, from the others."""
    rows = read_dataset(DATA / "iris.txt")[0].to_dense()
    targets = rows[:, 0] if outputs == 1 else rows[:, :outputs]
    rest = Dataset.from_any(rows[:, outputs:])
    return odmlib.train(rest, targets, machine="odmr", threads=1, **REGRESSIONS[name]), rest


# training sets that have a test set NAME.t
REAL = {
    "pendigits": {"C": 10.0, "gamma": 1e-4},
    "letter": {"C": 10.0, "gamma": 0.5, "kernel": "rbf"},
    "dna.scale": {"machine": "mcodm", "kernel": "linear"},
    "svmguide1": {"kernel": "rbf", "gamma": 1e-3},
    "a9a": {"kernel": "rbf", "gamma": 0.03},
    "satimage.scale": {"kernel": "poly", "coef0": 1.0, "gamma": 0.1},
}
