"""What all estimators share: from scikit-learn's arguments to odmlib's options, and its results back.

A subclass names its machine and its parameters: options of `odmlib.train`, with the defaults that these
have there, and those of OWN_PARAMETERS. scikit-learn's order of the classes is another one than odmlib's:
`classes_` is sorted, and with two classes positive decision values mean classes_[1]. The model inside is
therefore trained with the larger label as its first.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, OutlierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from odmlib._core.arrays import Floats, Places
from odmlib.data.dataset import Dataset
from odmlib.data.labels import show_labels
from odmlib.data.problem import Problem, check_sample_weights, class_weights
from odmlib.errors import ParameterError
from odmlib.machines.building import convergence_message
from odmlib.model.functions import KernelFunction, LinearFunction, PrecomputedFunction
from odmlib.model.model import Model
from odmlib.model.probability import class_probabilities
from odmlib.model.schemes import class_pairs, votes
from odmlib.options import DEFAULTS, TrainOptions, option_fields
from odmlib.selection.training import train_model
from odmlib.solvers.control import CONVERGED
from odmlib.threads import FEW_ROWS, available_threads

LARGEST_SEED = 2**31 - 1

# what scikit-learn's users know under another name, or what is of no use to odmlib.train
OWN_PARAMETERS: dict[str, Any] = {
    "C": 1.0,
    "decision_function_shape": "ovr",
    "leave_one_out": False,
    "n_jobs": None,
    "random_state": None,
    "warm_start": False,
}


def _has_probabilities(estimator: MarginClassifier) -> bool:
    if not estimator.probability:
        raise AttributeError(f"predict_proba needs {type(estimator).__name__}(probability=True)")
    return True


class MarginEstimator(BaseEstimator):
    """Base of all estimators: `machine` is what `odmlib.train` calls it."""

    machine: ClassVar[str]
    # parameters that every estimator has
    n_jobs: int | None
    random_state: Any
    warm_start: bool
    # set by fit
    model_: Model
    n_features_in_: int
    n_iter_: int
    duality_gap_: float
    _sparse: bool
    _support: Places | None  # of a kernel that is a function: the training rows,
    _vectors: Any  # and what stood in them

    def __init_subclass__(
        cls,
        machine: str = "",
        parameters: Sequence[str] = (),
        defaults: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> None:
        """Give the estimator an `__init__` of these parameters, all by name; a base has no machine."""
        super().__init_subclass__(**others)
        if not machine:
            return
        cls.machine = machine
        known: dict[str, Any] = {option.name: option.default for option in option_fields()}
        known |= DEFAULTS | OWN_PARAMETERS | dict(defaults or {})
        keyword = inspect.Parameter.KEYWORD_ONLY
        given = [inspect.Parameter(name, keyword, default=known[name]) for name in parameters]
        signature = inspect.Signature(
            [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *given]
        )

        def __init__(self: Any, *values: Any, **named: Any) -> None:
            try:
                bound = signature.bind(self, *values, **named)
            except TypeError as error:
                raise TypeError(f"{cls.__name__}() {error}") from None
            bound.apply_defaults()
            for name in parameters:
                setattr(self, name, bound.arguments[name])

        __init__.__signature__ = signature  # type: ignore[attr-defined]
        __init__.__qualname__ = f"{cls.__qualname__}.__init__"
        cls.__init__ = __init__  # type: ignore[method-assign]

    def _rows_of(self, X: Any) -> tuple[Dataset, Any]:
        """The training rows, and the kernel where it is a function: then the rows are its values."""
        kernel = self._kernel() if callable(self._kernel()) else None
        return Dataset.from_any(X if kernel is None else _kernel_values(kernel, X, X)), kernel

    def _learn(self, X: Any, problem: Problem, kernel: Any, previous: Model | None) -> TrainOptions:
        """Train and keep the model; `previous`: where to begin, if it fits."""
        if previous is not None and not (
            np.array_equal(previous.labels, problem.labels) and previous.n_features == problem.rows.n_features
        ):
            previous = None  # other classes, or another width
        options = self._train_options(problem, previous)
        model = train_model(problem, options)
        if model.report["status"] != CONVERGED:
            warnings.warn(convergence_message(model.report, options.tol), ConvergenceWarning, stacklevel=3)
        self._keep_estimates(model, problem, options)
        self._sparse, self._support, self._vectors = issparse(X), None, None
        if kernel is not None:
            model = self._keep_vectors(model, X)
        self.model_ = model
        self.n_iter_ = model.report["iterations"]
        self.duality_gap_ = model.report["gap"]
        return options

    def _keep_estimates(self, model: Model, problem: Problem, options: TrainOptions) -> None:
        """What an estimator wants to know of a model before it loses touch with the training rows."""

    # ------------------------------------------------------------------------------------ what was learned

    @property
    def margins_(self) -> Floats:
        """The margin of every training row: by how much its class wins over the next one."""
        margins = self._fitted().training_margins
        if margins is None:
            raise AttributeError("this model does not hold the margins of its training rows")
        return margins

    @property
    def coef_(self) -> Floats:
        """Weights of the features, a line per output; linear machines only."""
        function = self._fitted().function
        if not isinstance(function, LinearFunction):
            raise AttributeError("coef_ is for linear machines; this one has dual_coef_ and support vectors")
        weights = np.zeros((function.n_outputs, self.n_features_in_))
        weights[:, function.columns] = function.weights.T
        return self._outputs(weights)

    @property
    def intercept_(self) -> Floats:
        """What is added to each output: the weight of the constant feature, less the threshold."""
        function = self._fitted().function
        if isinstance(function, LinearFunction):
            constants = function.bias * function.bias_weights
        else:
            bias = self.model_.formula.bias
            constants = bias * bias * function.coefficients.sum(axis=0)
        return self._outputs(constants - function.offsets)

    @property
    def dual_coef_(self) -> Floats:
        """Coefficients of the support vectors, a line per output; kernel machines only."""
        return self._outputs(self._expansion().coefficients.T)

    @property
    def support_(self) -> Places:
        """The training rows that are support vectors, ascending; kernel machines only."""
        function = self._expansion()
        if isinstance(function, KernelFunction):
            rows = function.rows
        else:
            rows = function.serials - 1 if self._support is None else self._support
        if rows is None:
            raise AttributeError("this model does not know which training rows are its support vectors")
        return rows

    @property
    def support_vectors_(self) -> Any:
        """The support vectors; a sparse array where X was one. Precomputed kernels: none."""
        function = self._expansion()
        if self._vectors is not None:
            return self._vectors
        if not isinstance(function, KernelFunction):
            return np.empty((0, 0))
        return function.vectors.to_scipy() if self._sparse else function.vectors.to_dense()

    @property
    def n_support_(self) -> Places:
        """Number of support vectors; kernel machines only."""
        return np.array([self._expansion().n_vectors])

    def _fitted(self) -> Model:
        check_is_fitted(self)
        return self.model_

    def _expansion(self) -> KernelFunction | PrecomputedFunction:
        function = self._fitted().function
        if isinstance(function, LinearFunction):
            raise AttributeError("a linear machine keeps its weights (coef_) and no support vectors")
        return function

    def _outputs(self, values: Floats) -> Any:
        """Lines of outputs as the estimator shows them."""
        return values

    # ------------------------------------------------------------------------------------ how it learns

    def _kernel(self) -> Any:
        return getattr(self, "kernel", "linear")

    def _threads(self) -> int:
        """n_jobs as joblib counts; None: all cores of this process, their share inside a joblib worker."""
        cores = available_threads()
        if self.n_jobs is None:
            return cores
        if self.n_jobs == 0:
            raise ValueError("n_jobs must not be 0; 1 is one thread, -1 all cores")
        return int(self.n_jobs) if self.n_jobs > 0 else max(1, (os.cpu_count() or cores) + 1 + self.n_jobs)

    def _seed(self) -> int:
        if self.random_state is None:  # training is repeatable unless the user wants otherwise
            return 0
        return int(check_random_state(self.random_state).randint(LARGEST_SEED))

    def _train_options(self, problem: Problem, previous: Model | None) -> TrainOptions:
        known = {option.name for option in option_fields()}
        options = {name: value for name, value in self.get_params(deep=False).items() if name in known}
        if options.get("lambda_") is not None:
            options.pop("C", None)
        if callable(self._kernel()):
            options["kernel"] = "precomputed"
        elif isinstance(options.get("gamma"), str) and options["gamma"] == "scale":
            # rows count by their weights here too
            spread = problem.rows.n_features * problem.rows.variance(problem.sample_weights)
            options["gamma"] = 1 / spread if 0 < spread < np.inf else "scale"
        options |= {"machine": self.machine, "threads": self._threads(), "seed": self._seed()}
        return TrainOptions(**{"kernel": "linear"} | options | {"init": previous})

    def _keep_vectors(self, model: Model, X: Any) -> Model:
        """A kernel given as a function needs the support vectors, and their values only."""
        if not isinstance(model.function, PrecomputedFunction):
            raise TypeError("a model of kernel values was expected")
        support = model.function.serials - 1
        self._support, self._vectors = support, X[support]
        serials = np.arange(1, len(support) + 1)
        function = dataclasses.replace(model.function, serials=serials)
        return dataclasses.replace(model, function=function, n_features=len(serials))

    # ------------------------------------------------------------------------------------ how it decides

    def _rows(self, X: Any) -> Dataset:
        if self._is_plain(X):
            try:
                return Dataset.from_any(X)
            except ParameterError:
                pass  # values that are not finite: scikit-learn words it below
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if self._vectors is not None:
            X = _kernel_values(self._kernel(), X, self._vectors)
        return Dataset.from_any(X)

    def _is_plain(self, X: Any) -> bool:
        """Whether X needs no look by scikit-learn, which takes longer than the prediction of a row."""
        return (
            type(X) is np.ndarray
            and X.dtype == np.float64
            and X.ndim == 2
            and len(X) > 0
            and "model_" in self.__dict__
            and X.shape[1] == self.n_features_in_
            and "feature_names_in_" not in self.__dict__
            and self._vectors is None
        )

    def _by_blocks(self, rows: Dataset, values_of: Any, out: NDArray) -> Any:
        """Fill `out` from the scores of some rows at a time: those of many pairs of classes are too much."""
        threads = 1 if self.n_jobs is None and rows.n_rows <= FEW_ROWS else self._threads()
        for part, scores in self.model_.score_blocks(rows, threads):
            out[part] = values_of(scores)
        return out

    # ------------------------------------------------------------------------------------ for scikit-learn

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__  # the parameter lambda_ looks like a result to scikit-learn

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        kernel = self._kernel()
        tags.input_tags.pairwise = isinstance(kernel, str) and kernel == "precomputed"
        return tags


class MarginClassifier(ClassifierMixin, MarginEstimator):
    """Base of the classifiers."""

    probability: bool
    class_weight: Any
    classes_: NDArray
    loo_score_: float

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Train on the rows of X (array, sparse matrix or data frame) with the labels y.

        sample_weight: a row of weight 2 counts as that row twice, one of weight 0 not at all.
        """
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2
        )
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        previous = self.__dict__.get("model_") if self.warm_start else None
        self.classes_, codes = self._encode(y)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y holds one class only ({show_labels(self.classes_)}); at least two classes are needed"
            )
        rows, kernel = self._rows_of(X)
        self._learn(X, self._problem(rows, codes, sample_weight), kernel, previous)
        return self

    def decision_function(self, X: Any) -> Floats:
        """Two classes: one value per row, positive for classes_[1]. More: a value per class, the largest wins
        (decision_function_shape="ovr"), or those of the pairs (1,2) (1,3) ... (2,3) ..., positive for
        the first of the pair ("ovo", where the machine was trained that way)."""
        rows = self._rows(X)
        if getattr(self, "decision_function_shape", "ovr") == "ovo" and self.model_.scheme == "ovo":
            return self.model_.function.scores(rows, self._threads())
        shape = (rows.n_rows, len(self.classes_)) if len(self.classes_) > 2 else rows.n_rows
        return self._by_blocks(rows, self._class_values, np.empty(shape))

    def predict(self, X: Any) -> NDArray:
        """The label of every row: the class with the largest decision value."""
        rows = self._rows(X)
        places = self._by_blocks(rows, self._places, np.empty(rows.n_rows, dtype=np.int64))
        return self.classes_[places]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Floats:
        """The probability of every class, in the order of `classes_`; the predicted one's is the largest."""
        rows = self._rows(X)
        return self._by_blocks(rows, self._probabilities, np.empty((rows.n_rows, len(self.classes_))))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Floats:
        """The logarithm of predict_proba."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _outputs(self, values: Floats) -> Floats:
        """Lines of outputs as decision_function has them: two classes are one output."""
        if len(self.classes_) == 2 and len(values) == 2:
            return values[:1] - values[1:]
        return values

    def _encode(self, y: NDArray) -> tuple[NDArray, Places]:
        """The sorted classes and the position of each row's; a semi-supervised machine gives -1 for none."""
        classes, codes = np.unique(y, return_inverse=True)
        return classes, codes.astype(np.int64)

    def _problem(self, rows: Dataset, codes: Places, sample_weight: Any) -> Problem:
        weights = check_sample_weights(sample_weight, rows.n_rows)
        labels, known = self.classes_, codes >= 0
        if len(labels) == 2:  # odmlib's positive class is the first
            labels, codes = labels[::-1].copy(), np.where(known, 1 - codes, codes)
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            totals = np.bincount(codes[known], weights[known], minlength=len(labels))
            with np.errstate(divide="ignore"):  # a class without weight is refused by the machine
                per_class = totals.sum() / (len(labels) * totals)
        else:
            per_class = class_weights(self.class_weight, labels, codes)
        return Problem(rows, codes, labels, weights, np.where(np.isfinite(per_class), per_class, 1.0))

    def _keep_estimates(self, model: Model, problem: Problem, options: TrainOptions) -> None:
        """loo_score_ where it was asked for, or made on the way to probabilities."""
        self.__dict__.pop("loo_score_", None)
        if getattr(self, "leave_one_out", False) and "leave_one_out" not in model.report:
            from odmlib.selection.leave_one_out import leave_one_out_of

            model.report["leave_one_out"] = leave_one_out_of(model, problem, options).report()
        if "leave_one_out" in model.report:
            self.loo_score_ = model.report["leave_one_out"]["accuracy"]

    def _class_values(self, scores: Floats) -> Floats:
        """One value for two classes, else one per class; one-vs-one: votes, then the sum of the duels."""
        n_classes = len(self.classes_)
        if n_classes == 2:
            return scores[:, 0] - scores[:, 1] if scores.shape[1] == 2 else scores[:, 0]
        if self.model_.scheme != "ovo":
            return scores
        sums = np.zeros((len(scores), n_classes))
        for output, (first, second) in enumerate(zip(*class_pairs(n_classes), strict=True)):
            sums[:, first] += scores[:, output]
            sums[:, second] -= scores[:, output]
        return votes(scores, n_classes) + sums / (3 * (np.abs(sums) + 1))  # never worth half a vote

    def _places(self, scores: Floats) -> Places:
        values = self._class_values(scores)
        return (values > 0).astype(np.int64) if values.ndim == 1 else values.argmax(axis=1)

    def _probabilities(self, scores: Floats) -> Floats:
        model, places = self.model_, self._places(scores)
        model.require_probabilities()
        slopes, offsets = (np.array(model.extras[f"probability_{name}"]) for name in ("slopes", "offsets"))
        if len(self.classes_) == 2:  # the model's order is the other one
            return class_probabilities(model.scheme, scores, slopes, offsets, 1 - places, 2)[:, ::-1]
        return class_probabilities(model.scheme, scores, slopes, offsets, places, len(self.classes_))


class MarginRegressor(MultiOutputMixin, RegressorMixin, MarginEstimator):
    """Base of the estimators of regression."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Train on the rows of X (array, sparse matrix or data frame) with the targets y: a number, or a line
        of numbers, for each row.

        sample_weight: a row of weight 2 counts as that row twice, one of weight 0 not at all.
        """
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], y_numeric=True, multi_output=True
        )
        previous = self.__dict__.get("model_") if self.warm_start else None
        rows, kernel = self._rows_of(X)
        problem = Problem.from_targets(rows, y, sample_weight)
        if previous is not None and previous.n_outputs != y.reshape(len(y), -1).shape[1]:
            previous = None
        self._learn(X, problem, kernel, previous)
        self._one_output = y.ndim == 1
        return self

    def predict(self, X: Any) -> Floats:
        """The number predicted for every row; a line of numbers where y had lines."""
        scores = self._by_blocks_of_outputs(self._rows(X))
        return scores[:, 0] if self._one_output else scores

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Floats:
        """The ends of an interval for every row that holds the target of a new row with this probability;
        leave_one_out=True and one output."""
        low, high = self._fitted().interval(coverage)
        return np.add.outer(self.predict(X), np.array([low, high]))

    def _by_blocks_of_outputs(self, rows: Dataset) -> Floats:
        return self._by_blocks(rows, lambda scores: scores, np.empty((rows.n_rows, self.model_.n_outputs)))

    def _outputs(self, values: Floats) -> Any:
        """One output has no line of its own, as in scikit-learn's regressors."""
        return values[0] if self._one_output else values

    def _keep_estimates(self, model: Model, problem: Problem, options: TrainOptions) -> None:
        """loo_predictions_ and loo_score_ where they were asked for."""
        for name in ("loo_predictions_", "loo_score_"):
            self.__dict__.pop(name, None)
        if getattr(self, "leave_one_out", False):
            from sklearn.metrics import r2_score

            from odmlib.selection.unseen import unseen_targets

            predicted = unseen_targets(model, problem, options)[0].predicted
            self.loo_predictions_ = predicted[:, 0] if predicted.shape[1] == 1 else predicted
            self.loo_score_ = r2_score(problem.targets, predicted, sample_weight=problem.sample_weights)


class MarginDetector(OutlierMixin, MarginEstimator):
    """Base of the novelty detectors."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Train on the rows of X (array, sparse matrix or data frame), all of which are taken as normal.

        sample_weight: a row of weight 2 counts as that row twice, one of weight 0 not at all.
        """
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2)
        previous = self.__dict__.get("model_") if self.warm_start else None
        rows, kernel = self._rows_of(X)
        self._learn(X, Problem.of_one_class(rows, None, sample_weight), kernel, previous)
        return self

    @property
    def offset_(self) -> float:
        """The threshold: decision_function is score_samples less this."""
        return float(self._fitted().function.offsets[0])

    def decision_function(self, X: Any) -> Floats:
        """One value per row: positive for rows like the training rows, negative for novelties."""
        rows = self._rows(X)
        return self._by_blocks(rows, lambda scores: scores[:, 0], np.empty(rows.n_rows))

    def score_samples(self, X: Any) -> Floats:
        """The output of the machine: the higher, the more a row is like the training rows."""
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> Places:
        """+1 for rows like the training rows, -1 for novelties."""
        return np.where(self.decision_function(X) > 0, 1, -1)

    def p_values(self, X: Any) -> Floats:
        """For every row the part of rows like the training rows that look as novel as it; `predict` says -1
        where it is at most nu."""
        return self.model_.p_values_for(self.decision_function(X))


def _kernel_values(kernel: Callable[[Any, Any], Any], X: Any, others: Any) -> Floats:
    """The values of a kernel given as a function: (rows of X x rows of the others)."""
    values = kernel(X, others)
    values = np.asarray(values.toarray() if issparse(values) else values, dtype=np.float64)
    if values.shape != (X.shape[0], others.shape[0]):
        raise ValueError(
            f"the kernel function gave values of shape {values.shape}, "
            f"expected {(X.shape[0], others.shape[0])}: a line per row of its first argument"
        )
    return values
