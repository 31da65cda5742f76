"""Small models built by hand, one of each kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.model.functions import Function, KernelFunction, LinearFunction, PrecomputedFunction
from odmlib.model.model import Model
from odmlib.model.schemes import n_outputs
from odmlib.names import QUANTILES

KINDS = ("linear", "rbf", "poly", "sigmoid", "precomputed")
SEVERAL = ("linear ovr", "linear ovo", "rbf joint", "poly ovo", "precomputed ovo", "precomputed ovr")


def make_model(kind: str = "linear", labels: Any = None, n_features: int = 6, **changes: Any) -> Model:
    """`kind` is a kernel, or a kernel and a scheme of several outputs: then with four labels and offsets."""
    kind, _, scheme = kind.partition(" ")
    if scheme:
        return _several_outputs(kind, scheme, labels, n_features, changes)
    labels = (1.0, -1.0) if labels is None else labels
    numbers = {"gamma": 0.3, "degree": 2, "coef0": 0.25}
    used = {name: numbers[name] for name in KernelFormula(kind).parameter_names}
    formula = KernelFormula(kind, bias=0.5, **used)
    function: Function
    coefficients = np.array([0.1, -1 / 3, 1e-300])
    if kind == "linear":
        function = LinearFunction(np.array([0, 2, 5], np.int32), np.array([0.1, -1 / 3, 1e-300]), 0.5, 2.5)
    elif kind == "precomputed":
        function = PrecomputedFunction(np.array([2, 1, 6]), coefficients, 0.5)
    else:
        vectors = Dataset.from_any([[1 / 3, 0, 0, 0, 0, 7], [0] * 6, [0, -1e-5, 0, 2.5e10, 0, 0]])
        function = KernelFunction(formula, vectors.with_features(n_features), coefficients)
    parameters = {"C": 1.5, "lambda": 15.0, "nu": 0.5, "theta": 0.2, "bias": 0.5, "tol": 1e-3} | used
    report = {
        "rows": 10,
        "nonzeros": 33,
        "status": "converged",
        "solver": "newton",
        "iterations": 7,
        "primal": 12.5,
        "dual": 12.25,
        "gap": 0.02,
        "seed": 3,
        "margin": {"mean": 0.7, "variance": 0.1, "min": -0.25},
    }
    labels = labels if isinstance(labels, np.ndarray) else np.array(labels)
    parts = {
        "machine": "odm",
        "formula": formula,
        "labels": labels,
        "n_features": n_features,
        "function": function,
        "parameters": parameters,
        "report": report,
    }
    return Model(**(parts | changes))


def _several_outputs(kind: str, scheme: str, labels: Any, n_features: int, changes: Any) -> Model:
    labels = (3.0, -1.0, 2.5, 7.0) if labels is None else labels
    one = make_model(kind, n_features=n_features).function
    outputs = n_outputs(scheme, len(labels))
    terms = np.array([0.5, 0.0, -1 / 3, 2.0, 1e-300, -7.0, 0.1])[(np.arange(3 * outputs) * 3) % 7]
    terms = terms.reshape(3, outputs)
    offsets = np.linspace(-0.5, 0.75, outputs)
    function: Function
    if isinstance(one, LinearFunction):
        function = LinearFunction(one.columns, terms, 0.5, np.arange(outputs) / 4, offsets)
    elif isinstance(one, KernelFunction):
        function = KernelFunction(one.formula, one.vectors, terms, offsets)
    else:
        function = PrecomputedFunction(one.serials, terms, 0.5, offsets)
    changes = {"scheme": scheme, "function": function} | changes
    model = make_model(kind, labels, n_features, **changes)
    model.report["margin"]["quantiles"] = dict(zip(QUANTILES, (-0.2, 0.1, 0.5, 0.9, 1.1), strict=True))
    return model
