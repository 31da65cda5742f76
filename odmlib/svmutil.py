"""The functions of LIBSVM's Python module `svmutil` for our machines: its call shapes and option strings.

    from odmlib.svmutil import svm_read_problem, svm_train, svm_predict

    y, x = svm_read_problem("data/wdbc.train.txt")
    m = svm_train(y, x, "-s 0 -c 4")
    labels, (accuracy, mse, scc), values = svm_predict(y, x, m)

Options are those of odm-train, so that `-s` names our machines (0 svm, 2 odm, ...; default odm), `-g` is
`scale` unless given, and what is wrong raises ValueError with what was found. Linear machines (`-t 0`) with
more than two classes have LIBLINEAR's values, one per class.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.cli.parser import Finished, UsageError
from odmlib.cli.train import make_options, make_parser
from odmlib.cli.training import as_in_file, read_weights
from odmlib.data.advice import targets_message
from odmlib.data.dataset import Dataset, refuse_masked
from odmlib.data.files import Source, Target
from odmlib.data.labels import python_label
from odmlib.data.precomputed import test_values, training_matrix
from odmlib.data.reading import read_dataset
from odmlib.errors import ConvergenceWarning, DataWarning, ParameterError
from odmlib.machines.building import convergence_message
from odmlib.machines.training import make_problem
from odmlib.model.functions import KernelFunction, LinearFunction, PrecomputedFunction
from odmlib.model.model import Model
from odmlib.model.regression import regression_measures
from odmlib.model.text_format import load_model
from odmlib.names import MACHINES
from odmlib.selection.cross_validation import cross_validate, cross_validate_targets
from odmlib.selection.training import train_model
from odmlib.solvers.control import CONVERGED

__all__ = [
    "evaluations",
    "svm_load_model",
    "svm_model",
    "svm_parameter",
    "svm_predict",
    "svm_problem",
    "svm_read_problem",
    "svm_save_model",
    "svm_train",
]

# options of odm-train that say something about files
FILE_OPTIONS = ("json", "margins", "features", "zero_based", "loo", "csv", "label", "one_hot", "no_header")


def svm_read_problem(data_source: Source, return_scipy: bool = False) -> tuple[Any, Any]:
    """(y, x) of a file in LIBSVM format: a list of labels and one of dicts from index to value; with
    `return_scipy` an array and a csr_matrix. A file that uses index 0 keeps it (precomputed kernels).

    >>> svm_read_problem(b"+1 1:0.5 3:2\\n-1 2:1\\n")
    ([1.0, -1.0], [{1: 0.5, 3: 2.0}, {2: 1.0}])
    """
    rows, labels = read_dataset(data_source, zero_based=True)
    if return_scipy:
        from scipy.sparse import csr_matrix

        matrix = csr_matrix(rows.to_scipy())
        from_zero = rows.n_nonzeros > 0 and int(rows.indices.min()) == 0
        return labels, matrix if from_zero else matrix[:, 1:]
    return labels.tolist(), _dicts(rows, 0)


class svm_problem:
    """Labels and rows: a list of dicts (index from 1), lists or tuples, an array, a sparse matrix or a frame.

    `isKernel`: the rows are those of a precomputed kernel, with the serial at index 0.
    """

    def __init__(self, y: Any, x: Any, isKernel: bool = False):
        self.y = _labels(y)
        self.rows = _rows(x, isKernel)
        self.isKernel = isKernel
        if len(self.y) != self.rows.n_rows:
            raise ValueError(f"y has {len(self.y)} labels but x has {self.rows.n_rows} rows")

    @property
    def l(self) -> int:  # noqa: E743
        return len(self.y)

    @property
    def n(self) -> int:
        return self.rows.n_features


class svm_parameter:
    """Options of odm-train, as a string or a list of words."""

    def __init__(self, options: str | Sequence[str] | None = None):
        if not isinstance(options, str | list | tuple | type(None)):
            raise TypeError(f"options must be a string or a list of words, found {type(options).__name__}")
        words = options.split() if isinstance(options, str) else list(options or [])
        try:
            arguments = copy_context().run(make_parser().parse, ["x", *words])
            self.options = make_options(arguments)
        except UsageError as error:
            raise ValueError(str(error)) from None
        except Finished:
            raise ValueError("--help and --version are for odm-train") from None
        if arguments.training_set_file != "x" or arguments.model_file is not None:
            raise ValueError(f"expected options only, found '{arguments.training_set_file}'")
        for name in FILE_OPTIONS:
            if getattr(arguments, name):
                raise ValueError(f"--{name.replace('_', '-')} is for odm-train; the data are given here")
        self.n_folds: int | None = arguments.v
        self.weights_file: str | None = arguments.weights
        self.quiet: bool = arguments.quiet


class svm_model:
    """A trained machine with LIBSVM's and LIBLINEAR's questions; `model` is the odmlib.Model inside."""

    def __init__(self, model: Model):
        self.model = model

    def get_svm_type(self) -> int:
        """The number of the machine, as -s takes it."""
        return MACHINES.index(self.model.machine)

    def get_nr_class(self) -> int:
        return self.model.n_classes

    def get_labels(self) -> list[Any]:
        return [python_label(label) for label in self.model.labels]

    def is_probability_model(self) -> bool:
        return "probability_slopes" in self.model.extras

    def get_nr_sv(self) -> int:
        return self.model.n_support or 0

    def get_sv_indices(self) -> list[int]:
        """The training rows, counted from 1; a model from a file does not know them."""
        match self.model.function:
            case KernelFunction(rows=rows) if rows is not None:
                return (rows + 1).tolist()
            case PrecomputedFunction(serials=serials):
                return serials.tolist()
        raise ValueError("this model does not know which training rows its support vectors were")

    def get_sv_coef(self) -> list[tuple[float, ...]]:
        """A coefficient per output and support vector."""
        function = self.model.function
        return [] if isinstance(function, LinearFunction) else [*map(tuple, function.coefficients.tolist())]

    def get_SV(self) -> list[dict[int, float]]:
        match self.model.function:
            case KernelFunction(vectors=vectors):
                return _dicts(vectors, 1)
            case PrecomputedFunction(serials=serials):
                return [{0: float(serial)} for serial in serials]
        return []

    def get_nr_feature(self) -> int:
        return self.model.n_features

    def get_decfun_coef(self, feat_idx: int, label_idx: int = 0) -> float:
        """Weight of a feature (from 1) in the value of a label (from 0); linear machines only."""
        return self.get_decfun(label_idx)[0][feat_idx - 1]

    def get_decfun_bias(self, label_idx: int = 0) -> float:
        return self.get_decfun(label_idx)[1]

    def get_decfun(self, label_idx: int = 0) -> tuple[list[float], float]:
        """(weights, constant) of a label's value; linear machines only."""
        function = self.model.function
        if not isinstance(function, LinearFunction):
            raise ValueError("only linear machines (-t 0) have weights of features")
        sign, output = 1.0, label_idx
        if self.model.scheme == "binary":  # one value for both
            sign, output = 1.0 - 2.0 * label_idx, 0
        weights = np.zeros(self.model.n_features)
        weights[function.columns] = function.weights[:, output]
        constant = function.bias * function.bias_weights[output] - function.offsets[output]
        return (sign * weights).tolist(), float(sign * constant)


def svm_train(arg1: Any, arg2: Any = None, arg3: Any = None) -> Any:
    """svm_train(y, x [, options]), svm_train(prob [, options]), svm_train(prob, param) -> svm_model, or with
    -v N in the options the accuracy in percent (odmr: the mean squared error).

    >>> m = svm_train([1, 1, -1, -1], [{1: 1}, {1: 2}, {1: -1}, [-2]], "-t 0 -c 10 -q")
    >>> svm_predict([1, -1], [[3], [-3]], m)[0]
    Accuracy = 100% (2/2) (classification)
    [1.0, -1.0]
    """
    data, given = (arg1, arg2) if isinstance(arg1, svm_problem) else (None, arg3)
    parameter = given if isinstance(given, svm_parameter) else svm_parameter(given)
    options = parameter.options
    if data is None:
        data = svm_problem(arg1, arg2, isKernel=options.kernel == "precomputed")
    rows, serials, n_columns = data.rows, None, data.n
    if options.kernel == "precomputed":
        rows, serials, n_columns = training_matrix(rows, "x")
    weights = None if parameter.weights_file is None else read_weights(parameter.weights_file, rows.n_rows)
    problem = make_problem(rows, data.y, options.but(sample_weight=weights))
    problem.require_classes(options.machine)
    if (message := targets_message(problem, "-s 7")) is not None:
        warnings.warn(message, DataWarning, stacklevel=2)
    if parameter.n_folds is not None and problem.targets is not None:
        measures = cross_validate_targets(problem, options, parameter.n_folds).measures
        print(*measures.lines("Cross Validation "), sep="\n")
        return measures.mean_squared_error
    if parameter.n_folds is not None:
        accuracy = 100.0 * cross_validate(problem, options, parameter.n_folds).accuracy
        print(f"Cross Validation Accuracy = {accuracy:g}%")
        return accuracy
    model = train_model(problem, options)
    if model.report["status"] != CONVERGED:
        warnings.warn(convergence_message(model.report, options.tol), ConvergenceWarning, stacklevel=2)
    if not parameter.quiet:
        print(f"optimization finished, #iter = {model.report['iterations']}")
        print(f"obj = {model.report['primal']:f}, relative gap = {model.report['gap']:g}")
        if model.n_support is not None:
            print(f"Total nSV = {model.n_support}")
    return svm_model(as_in_file(model, False, serials, n_columns))


def svm_predict(
    y: Any, x: Any, m: svm_model | Model, options: str = ""
) -> tuple[list[float], tuple[float, float, float], list[list[float]]]:
    """(labels, (accuracy in percent, mean squared error, squared correlation), values) for the rows x.

    y: the true labels, or [] where they are not known. Options: -b 1 for probabilities in the order of
    the model's labels, -q to print nothing. Values: one per pair of classes, positive for the first (LIBSVM);
    linear machines one per class, two classes one (LIBLINEAR).
    """
    probability, quiet = _predict_options(options)
    model = m.model if isinstance(m, svm_model) else m
    if not isinstance(model, Model):
        raise TypeError(f"expected a model of svm_train, found {type(m).__name__}")
    precomputed = model.formula.name == "precomputed"
    rows = _rows(x, precomputed)
    if rows.n_rows == 0:
        raise ParameterError("x has no rows to predict")
    if precomputed:
        rows = test_values(rows, model.n_features, "x")
    has_probabilities = "probability_slopes" in model.extras
    if probability:
        if not has_probabilities:
            raise ValueError("Model does not support probabiliy estimates")  # LIBSVM's words
        values = model.predict_proba(rows)
        places = values.argmax(axis=1)
    else:
        if has_probabilities and not quiet:
            print("Model supports probability estimates, but disabled in predicton.")
        values = model.decision_function(rows).reshape(rows.n_rows, -1)
        places = None if model.is_regression else model.positions_for(values)
    predicted = values[:, 0] if places is None else model.labels[places].astype(np.float64)
    truth = _labels(y) if len(y) else np.zeros(rows.n_rows)
    metrics = evaluations(truth, predicted)
    if not quiet and model.is_regression:
        print(*regression_measures(predicted, truth).lines(behind=" (regression)"), sep="\n")
    elif not quiet:
        right = int((truth == predicted).sum())
        print(f"Accuracy = {metrics[0]:g}% ({right}/{rows.n_rows}) (classification)")
    return predicted.tolist(), metrics, values.tolist()


def svm_save_model(model_file_name: Target, model: svm_model | Model) -> None:
    """Write a model file (odm-predict reads it) to a path or an open file; OSError where that fails."""
    (model.model if isinstance(model, svm_model) else model).save(model_file_name)


def svm_load_model(model_file_name: Source) -> svm_model:
    """Read a model file from a path, an open file or bytes; errors are raised, not printed."""
    return svm_model(load_model(model_file_name))


def evaluations(ty: Any, pv: Any, useScipy: bool = True) -> tuple[float, float, float]:
    """(accuracy in percent, mean squared error, squared correlation coefficient) of predictions `pv`.

    >>> evaluations([1, -1, 1, 1], [1, -1, -1, 1])
    (75.0, 1.0, 0.3333333333333333)
    """
    truth, predicted = np.asarray(ty, dtype=np.float64), np.asarray(pv, dtype=np.float64)
    if len(truth) != len(predicted):
        raise ValueError("len(ty) must be equal to len(pv)")
    n = len(truth)
    products = n * (predicted @ truth) - predicted.sum() * truth.sum()
    spread = n * (predicted @ predicted) - predicted.sum() ** 2
    spread *= n * (truth @ truth) - truth.sum() ** 2
    correlation = products**2 / spread if spread != 0 else np.nan
    accuracy, error = 100.0 * float((truth == predicted).mean()), float(np.square(truth - predicted).mean())
    return accuracy, error, float(correlation)


def _predict_options(options: str) -> tuple[bool, bool]:
    """(-b 1, -q)"""
    words, probability, quiet = options.split(), False, False
    while words:
        match words:
            case ["-q", *words]:
                quiet = True
            case ["-b", "0" | "1" as value, *words]:
                probability = value == "1"
            case _:
                raise ValueError(f"Wrong options: expected -b 0|1 and -q, found '{' '.join(words)}'")
    return probability, quiet


def _labels(y: Any) -> Floats:
    refuse_masked(y, "y")
    try:
        given = np.asarray(y)
        if given.dtype.kind in "cmM":
            raise TypeError
        labels = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError("y must be a list of numbers; odmlib.train takes any labels") from None
    if labels.ndim != 1:
        raise ValueError(f"y must have one dimension, found shape {labels.shape}")
    return labels


def _rows(x: Any, from_zero: bool) -> Dataset:
    """Rows of any form; `from_zero`: dicts hold index 0 too, else the first feature is index 1."""
    if not isinstance(x, list | tuple):
        return Dataset.from_any(x, "x")
    if all(isinstance(row, list | tuple) for row in x) and len({len(row) for row in x}) == 1:
        return Dataset.from_any(np.array(x, dtype=object), "x")
    from scipy.sparse import csr_array

    base = 0 if from_zero else 1
    indptr, columns, values = [0], [], []
    for number, row in enumerate(x):
        items = _items(row, base, number)
        columns += [index - base for index, _ in items]
        values += [value for _, value in items]
        indptr.append(len(columns))
    width = max(columns, default=-1) + 1
    try:
        data = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ParameterError(f"x cannot be read as numbers: {error}") from None
    return Dataset.from_any(csr_array((data, columns, indptr), shape=(len(x), width)), "x")


def _items(row: Any, base: int, number: int) -> list[tuple[int, Any]]:
    if isinstance(row, Mapping):
        try:
            items = sorted(row.items())
            if not all(isinstance(index, Integral) and int(index) >= base for index, _ in items):
                raise TypeError
        except TypeError:
            raise ParameterError(f"x[{number}]: indices must be whole numbers from {base}") from None
        return items
    try:
        return list(enumerate(row, base))
    except TypeError:
        raise ParameterError(f"x[{number}] is {type(row).__name__}, expected a dict, list or tuple") from None


def _dicts(rows: Dataset, base: int) -> list[dict[int, float]]:
    bounds, columns, values = rows.indptr.tolist(), (rows.indices + base).tolist(), rows.values.tolist()
    return [dict(zip(columns[a:b], values[a:b], strict=True)) for a, b in pairwise(bounds)]
