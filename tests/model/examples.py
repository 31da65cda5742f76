"""Small models built by hand, one of each kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.model.functions import Function, KernelFunction, LinearFunction, PrecomputedFunction
from odmlib.model.model import Model

KINDS = ("linear", "rbf", "poly", "sigmoid", "precomputed")


def make_model(kind: str = "linear", labels: Any = (1.0, -1.0), n_features: int = 6, **changes: Any) -> Model:
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
