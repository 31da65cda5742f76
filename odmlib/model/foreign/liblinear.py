"""Models as LIBLINEAR writes them: weights, a line per feature with a number per output.

LIBLINEAR takes the first label of two where f > 0, and the class with the largest f of more. Its bias is a
last feature of value b; a threshold of ours is put into that feature's weight. A model of two classes with a
function each (mcODM) is the difference of the two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from odmlib._core.arrays import Codes, Floats
from odmlib.data._reader import parse_number
from odmlib.data.dataset import Dataset
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.model.foreign.common import (
    ONE_OUTPUT,
    ForeignReader,
    refuse_overflow,
    require_one_output,
    whole_labels,
)
from odmlib.model.functions import LinearFunction
from odmlib.model.model import Model
from odmlib.model.text_writer import number_text, numbers_text

# the solver of LIBLINEAR that is nearest to the machine: for prediction all these are one
SOLVERS = {"svm": "L2R_L1LOSS_SVC_DUAL", "mcodm": "MCSVM_CS", "odmr": "L2R_L2LOSS_SVR"}
ONE_CLASS = "ONECLASS_SVM"
OTHERS = dict.fromkeys(("L2R_L2LOSS_SVR", "L2R_L2LOSS_SVR_DUAL", "L2R_L1LOSS_SVR_DUAL"), "odmr")
OTHERS[ONE_CLASS] = "odmo"
ANY_SOLVER = "L2R_L2LOSS_SVC"
LOGISTIC = ("L2R_LR", "L2R_LR_DUAL", "L1R_LR")
CLASSIFIERS = (
    "L2R_L2LOSS_SVC_DUAL", "L2R_L2LOSS_SVC", "L2R_L1LOSS_SVC_DUAL", "MCSVM_CS", "L1R_L2LOSS_SVC", *LOGISTIC,
)  # fmt: skip
WIDEST = 1 << 24  # features that are written even if they weigh nothing: a line each
BLOCK_LINES = 1 << 14


def liblinear_text(model: Model) -> Iterator[bytes]:
    """The model file in pieces; ParameterError where LIBLINEAR cannot hold the model."""
    function = model.function
    if not isinstance(function, LinearFunction):
        raise ParameterError(f"a model with {model.formula.name} kernel cannot become a LIBLINEAR model")
    if model.scheme == "ovo":
        raise ParameterError("LIBLINEAR has no one-vs-one models; convert to LIBSVM, or train with ovr")
    labels = ""
    if model.machine in ONE_OUTPUT:
        require_one_output(model, "LIBLINEAR")
    else:
        labels = f"label {' '.join(map(str, whole_labels(model, 'LIBLINEAR')))}\n"
    terms, bias_weights, offsets = function.terms, function.bias_weights, function.offsets
    if model.n_classes == 2 and model.scheme != "binary":
        with np.errstate(over="ignore"):  # refused below
            difference = function.weights[:, :1] - function.weights[:, 1:]
            bias_weights, offsets = bias_weights[:1] - bias_weights[1:], offsets[:1] - offsets[1:]
        refuse_overflow("LIBLINEAR", difference)
        terms = Dataset.from_any(difference)
    n_features = model.n_features
    if n_features > WIDEST:
        n_features = int(function.columns.max()) + 1 if len(function.columns) else 0
    if model.machine == "odmo":  # LIBLINEAR subtracts rho, and has no bias
        rho = offsets - function.bias * bias_weights
        refuse_overflow("LIBLINEAR", terms.values, rho)
        yield f"solver_type {ONE_CLASS}\nnr_class 2\nnr_feature {n_features}\n".encode()
        yield f"bias -1\nrho {numbers_text(rho)}\nw\n".encode()
        yield from _weight_lines(function.columns.astype(np.int64), terms, n_features)
        return
    bias, last = (function.bias, bias_weights) if function.bias else (-1.0, None)
    if offsets.any():
        with np.errstate(over="ignore", invalid="ignore"):
            bias, last = 1.0, function.bias * bias_weights - offsets
    refuse_overflow("LIBLINEAR", terms.values, [] if last is None else last)
    solver = ANY_SOLVER if model.n_classes == 2 else SOLVERS.get(model.machine, ANY_SOLVER)
    n_classes = 2 if model.is_regression else model.n_classes
    yield (
        f"solver_type {solver}\nnr_class {n_classes}\n{labels}"
        f"nr_feature {n_features}\nbias {number_text(bias)}\nw\n"
    ).encode()
    yield from _weight_lines(function.columns.astype(np.int64), terms, n_features)
    if last is not None:
        yield numbers_text(last.tolist()).encode() + b" \n"


def _weight_lines(columns: Codes, terms: Dataset, n_features: int) -> Iterator[bytes]:
    """Every feature has its line, in the order of features; LIBLINEAR ends each number with a blank."""
    for begin in range(0, n_features, BLOCK_LINES):
        end = min(begin + BLOCK_LINES, n_features)
        first, last = np.searchsorted(columns, [begin, end])
        weights = np.zeros((end - begin, terms.n_features))
        weights[columns[first:last] - begin] = terms.part(first, last).to_dense()
        yield "".join(numbers_text(row) + " \n" for row in weights.tolist()).encode()


class LiblinearReader(ForeignReader):
    """A LIBLINEAR model on its way to ours."""

    sections = ("w",)

    def read(self, features: int | None) -> Model:
        solver = self.take_kind("solver_type", "a solver", (*CLASSIFIERS, *OTHERS))
        k = self.take_whole("nr_class", 2)
        machine = OTHERS.get(solver, "svm")
        if machine == "svm":
            labels = self.take_labels(k)
        else:
            labels = ONE_OUTPUT[machine][1]
            self.fields.pop("label", None)
        rho = self.take_numbers("rho", 1) if solver == ONE_CLASS else np.zeros(1)
        n_features = self.take_whole("nr_feature")
        bias = float(self.take_numbers("bias", 1)[0])
        self.refuse_rest()
        if features is not None and features < n_features:
            raise ParameterError(f"features: the model has {n_features}, not {features}")
        outputs = 1 if k == 2 and solver != "MCSVM_CS" else k
        weights = self._weights(n_features, bias >= 0, outputs)
        if k == 2:
            weights = weights[:, :1]  # of the two functions of MCSVM_CS LIBLINEAR looks at the first
        bias_weights = weights[n_features] if bias >= 0 else np.zeros(weights.shape[1])
        used = np.flatnonzero(weights[:n_features].any(axis=1))
        # a bias feature of value 0 is none
        bias = max(bias, 0.0)
        function = LinearFunction(
            used.astype(np.int32), weights[used], bias, bias_weights if bias else 0 * bias_weights
        )
        if solver == ONE_CLASS:
            function = dataclasses.replace(function, offsets=rho)
        formula = KernelFormula("linear", bias=bias)
        extras = {}
        if k == 2 and solver in LOGISTIC:
            extras = {"probability_slopes": (1.0,), "probability_offsets": (0.0,)}
        scheme = "binary" if k == 2 else "joint" if solver == "MCSVM_CS" else "ovr"
        if machine != "svm":
            scheme = ONE_OUTPUT[machine][0]
        width, origin = n_features if features is None else features, f"LIBLINEAR {solver}"
        return self.made(formula, labels, width, function, scheme, origin, extras=extras, machine=machine)

    def _weights(self, n_features: int, has_bias: bool, outputs: int) -> Floats:
        n_lines = n_features + has_bias
        lines = bytes(memoryview(self.text)[self.body_start :]).split(b"\n")
        while lines and not lines[-1].strip():
            lines.pop()
        if len(lines) != n_lines:
            raise self.fault(f"nr_feature and bias ask for {n_lines} lines of weights, found {len(lines)}")
        weights = np.empty((n_lines, outputs))
        for place, line in enumerate(lines):
            numbers = [parse_number(word) for word in line.split()]
            if len(numbers) != outputs or any(value is None for value in numbers):
                raise self.fault(f"expected {outputs} numbers in the line", self.body_line + place)
            weights[place] = numbers
        if not np.isfinite(weights).all():
            place = int(np.argmin(np.isfinite(weights).all(axis=1)))
            raise self.fault("expected finite numbers", self.body_line + place)
        return weights
