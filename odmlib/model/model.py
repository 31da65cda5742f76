"""Model: what training returns, what predicts, and what a model file holds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Codes, Floats
from odmlib.data.dataset import MAX_FEATURES, Dataset, column_names
from odmlib.data.labels import show_labels
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.model.functions import Function, KernelFunction, LinearFunction
from odmlib.model.schemes import margins_of, winners
from odmlib.names import CONVERTED
from odmlib.threads import resolve_threads
from odmlib.values import counted, shown_value

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from odmlib.data.files import Target


BLOCK_SCORES = 1 << 23  # outputs held at a time while predicting: 64 MB


@dataclass(frozen=True, repr=False, eq=False)
class Model:
    """A trained machine.

    `scheme` says what the outputs of `function` mean (model/schemes.py). With two classes the decision value
    of a row is positive for the first of `labels`. `report` says how training went: status, objective values,
    relative duality gap, margins; `odm-train --json` writes the same.
    """

    machine: str  #: its name
    formula: KernelFormula  #: the kernel with its numbers
    labels: NDArray  #: in order of first appearance, +1 before -1; none in regression
    n_features: int  #: width of the training rows
    function: Function  #: weights or support vectors
    parameters: dict[str, Any]  #: every parameter of machine and kernel, as used
    report: dict[str, Any]  #: how training went
    zero_based: bool = False  #: how the training file counted its features
    scheme: str = "binary"  #: or ovo, ovr, joint, regression
    extras: dict[str, Any] = field(
        default_factory=dict
    )  #: optional parts of the file: EXTRAS in model/text_writer.py
    lists: dict[str, tuple[float, ...]] = field(default_factory=dict)  #: LISTS in model/text_writer.py
    training_margins: Floats | None = None  #: of every training row; not part of the model file
    assigned: NDArray | None = None  #: labels found for the unlabeled rows, in their order; likewise
    columns: tuple[str, ...] | None = None  #: names of the features, where the training data had any

    def __repr__(self) -> str:
        support = "" if self.n_support is None else f", {self.n_support} support vectors"
        if self.is_regression:
            classes = counted(self.n_outputs, "output")
        else:
            few = self.n_classes <= 2
            classes = f"labels {show_labels(self.labels)}" if few else f"{self.n_classes} classes"
        return (
            f"<odmlib.Model {self.machine}, {self.formula.name} kernel, {self._width()}, {classes}"
            f"{support}, {self.report.get('status', 'untrained')}>"
        )

    def _width(self) -> str:
        # the width that readers give to a model of LIBSVM, whose file has none
        return "any features" if self.n_features == MAX_FEATURES else counted(self.n_features, "feature")

    def _repr_html_(self) -> str:
        """A card for notebooks."""
        from html import escape

        left = "style='text-align:left'"
        lines = "".join(
            f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(value)}</td></tr>"
            for name, value in self.summary()
        )
        return f"<table><caption>odmlib.Model</caption>{lines}</table>"

    def summary(self) -> list[tuple[str, str]]:
        """What the model is and how training went, as names and texts for people."""
        found = [("machine", self.machine), ("kernel", self.formula.name)]
        found += [
            (name, value if isinstance(value, str) else f"{value:g}")
            for name, value in self.parameters.items()
        ]
        regression = self.scheme == "regression"
        if regression:
            found.append(("outputs", str(self.n_outputs)))
        else:
            classes = f"{self.n_classes}" + ("" if self.scheme == "binary" else f", {self.scheme}")
            found += [("labels", show_labels(self.labels)), ("classes", classes)]
        found.append(("features", self._width().partition(" ")[0]))
        if self.columns is not None:
            found.append(("columns", show_labels(np.array(self.columns))))
        if self.n_support is not None:
            found.append(("support vectors", str(self.n_support)))
        if regression:
            found.append(("prediction intervals", "yes" if "residual_scores" in self.lists else "no"))
        elif "conformal_scores" in self.lists:
            found.append(("p-values", "yes"))
        else:
            found.append(("probabilities", "yes" if "probability_slopes" in self.extras else "no"))
        names = ("rows", "status", "solver", "iterations", "primal", "gap")
        told = {"primal": "objective", "gap": "relative gap", "rows": "training rows"}
        for name in names:
            if (value := self.report.get(name)) is not None:
                found.append((told.get(name, name), f"{value:g}" if isinstance(value, float) else str(value)))
        for name in ("mean", "variance", "min"):
            if (value := self.report.get("margin", {}).get(name)) is not None:
                found.append((f"{'residual' if regression else 'margin'} {name}", f"{value:g}"))
        return found

    @property
    def n_classes(self) -> int:
        """Number of labels."""
        return len(self.labels)

    @property
    def n_outputs(self) -> int:
        """Number of decision values per row: 1 (scheme binary), one per class, or one per pair of them."""
        return self.function.n_outputs

    def decision_function(self, X: Any, threads: int | None = None) -> Floats:
        """The decision values of every row.

        Two classes: one value, positive for labels[0], otherwise labels[1]. More: a line of values, one per
        class (scheme ovr, joint) or per pair of classes (scheme ovo; positive for the first of the pair).
        Regression: what `predict` returns.
        """
        rows = self.fitting(X)
        return self._shaped(self.function.scores(rows, resolve_threads(threads, rows.n_rows)))

    def _shaped(self, scores: Floats) -> Floats:
        one = self.scheme == "binary" or (self.is_regression and self.n_outputs == 1)
        return scores[:, 0] if one else scores

    @property
    def is_regression(self) -> bool:
        """Whether the outputs themselves are predicted; such a model has no labels."""
        return self.scheme == "regression"

    def predict(self, X: Any, threads: int | None = None) -> NDArray:
        """One label per row, of the type given to `train`; regression: a number, or a line of numbers."""
        if self.is_regression:
            return self.decision_function(X, threads)
        return self.labels[self.positions(X, threads)]

    def positions(self, X: Any, threads: int | None = None) -> Codes:
        """The position in `labels` of the label predicted for every row."""
        rows = self.fitting(X)
        found = np.empty(rows.n_rows, dtype=np.int64)
        for part, scores in self.score_blocks(rows, resolve_threads(threads, rows.n_rows)):
            found[part] = winners(self.scheme, scores, self.n_classes)
        return found

    def score_blocks(
        self, rows: Dataset, threads: int, most: int = BLOCK_SCORES
    ) -> Iterator[tuple[slice, Floats]]:
        """Outputs of some rows at a time: with many pairs of classes all of them are too much to hold."""
        step = max(1, most // self.n_outputs)
        if 0 < rows.n_rows <= step:
            yield slice(0, rows.n_rows), self.function.scores(rows, threads)
            return
        for begin in range(0, max(1, rows.n_rows), step):
            part = slice(begin, min(begin + step, rows.n_rows))
            yield part, self.function.scores(rows.part(part.start, part.stop), threads)

    def predict_proba(self, X: Any, threads: int | None = None) -> Floats:
        """The probability of every label, in the order of `labels`, for every row. The largest belongs to
        the predicted label, except in models of LIBSVM, which predicts the most probable label only where it
        gives probabilities. The model must have been trained with probability=True."""
        self.require_probabilities()
        rows = self.fitting(X)
        result = np.empty((rows.n_rows, self.n_classes))
        for part, scores in self.score_blocks(rows, resolve_threads(threads)):
            result[part] = self.probabilities_for(scores)
        return result

    def probabilities_for(self, scores: Floats) -> Floats:
        """The probabilities that belong to decision values."""
        from odmlib.model.probability import class_probabilities

        self.require_probabilities()
        slopes, offsets = (np.array(self.extras[f"probability_{name}"]) for name in ("slopes", "offsets"))
        scores = scores.reshape(-1, self.n_outputs)
        converted = self.report.get("status") == CONVERTED  # whose program predicts the most probable label
        places = None if converted else self.positions_for(scores)
        return class_probabilities(self.scheme, scores, slopes, offsets, places, self.n_classes)

    def require_probabilities(self) -> None:
        """Raise ParameterError unless the model was trained with probability=True."""
        if self.is_regression or self.machine == "odmo":
            raise ParameterError(f"machine {self.machine} has no probabilities: it tells no classes apart")
        if "probability_slopes" not in self.extras:
            none = "the model holds no probabilities; train it with"
            raise ParameterError(f"{none} probability=True", shell=f"{none} odm-train -b 1")

    def p_values(self, X: Any, threads: int | None = None) -> Floats:
        """Novelty detection: of every row, the part of rows like the training rows that look as novel."""
        return self.p_values_for(self.decision_function(X, threads))

    def p_values_for(self, values: Floats) -> Floats:
        """The p-values that belong to decision values."""
        if "conformal_scores" not in self.lists:
            raise ParameterError("the model holds no p-values; those are of machine odmo")
        scores, levels = (np.array(self.lists[f"conformal_{name}"]) for name in ("scores", "levels"))
        return np.append(levels, 1.0)[np.searchsorted(scores, values, side="right")]

    def predict_interval(self, X: Any, coverage: float = 0.9, threads: int | None = None) -> Floats:
        """Regression: the ends of an interval for every row that holds the target of a new row with this
        probability. The model must have been trained with coverage=True."""
        low, high = self.interval(coverage)
        return np.add.outer(self.predict(X, threads), np.array([low, high]))

    def interval(self, coverage: float) -> tuple[float, float]:
        """What is added to a prediction to get the ends of its interval."""
        if not self.is_regression:
            raise ParameterError(f"prediction intervals are of regression, found machine {self.machine}")
        if self.n_outputs > 1:
            raise ParameterError(
                f"prediction intervals are of models with one output, found {self.n_outputs} outputs"
            )
        if "residual_scores" not in self.lists:
            none = "the model holds no residuals of left-out rows; train it with"
            raise ParameterError(f"{none} coverage=True", shell=f"{none} odm-train --coverage 1")
        scores, levels = (np.array(self.lists[f"residual_{name}"]) for name in ("scores", "levels"))
        missed = (1 - coverage) / 2 * (1 + 1e-12)
        below, above = np.flatnonzero(levels <= missed), np.flatnonzero(1 - levels <= missed)
        if not 0 < coverage < 1 or len(below) == 0 or len(above) == 0:
            most = 1 - 2 * max(float(levels[0]), 1 - float(levels[-1]))
            raise ParameterError(f"coverage must be above 0 and at most {most:.4g} here, found {coverage}")
        return float(scores[below[-1]]), float(scores[above[0]])

    def predict_set(self, X: Any, coverage: float = 0.9, threads: int | None = None) -> NDArray[np.bool_]:
        """Which labels belong to the set of every row: a line per row, a column per label in the order of
        `labels`. The sets hold the true label of about `coverage` of the rows (docs/label-sets.md). The model
        must have been trained with coverage=True.

        >>> import numpy as np, odmlib
        >>> X, y = odmlib.read_data("data/wdbc.train.txt")
        >>> model = odmlib.train(X, y, coverage=True)
        >>> inside = model.predict_set(X, 0.9)
        >>> bool(0.85 < inside[np.arange(len(y)), model.codes_of(y)].mean() <= 1)
        True
        """
        threshold = self.threshold_for(coverage)
        rows = self.fitting(X)
        found = np.empty((rows.n_rows, self.n_classes), dtype=bool)
        for part, scores in self.score_blocks(rows, resolve_threads(threads, rows.n_rows)):
            found[part] = self.sets_for(scores, threshold)
        return found

    def sets_for(self, scores: Floats, threshold: float) -> NDArray[np.bool_]:
        """The sets that belong to decision values: the labels whose margin is at least the threshold."""
        from odmlib.model.label_sets import class_margins

        scores = scores.reshape(-1, self.n_outputs)
        return np.asarray(class_margins(self.scheme, scores, self.n_classes) >= threshold)

    def threshold_for(self, coverage: float) -> float:
        """The margin from which on a label belongs to the set."""
        from odmlib.model.label_sets import threshold_for

        if self.is_regression or self.machine == "odmo":
            more = "; predict_interval gives intervals" if self.is_regression else ""
            raise ParameterError(f"machine {self.machine} has no label sets: it tells no classes apart{more}")
        if "coverage_margins" not in self.extras:
            none = "the model holds no numbers for label sets; train it with"
            raise ParameterError(f"{none} coverage=True", shell=f"{none} odm-train --coverage 1")
        return threshold_for(self.extras["coverage_margins"], coverage)

    def labels_for(self, scores: Floats) -> NDArray:
        """The labels that belong to decision values."""
        return self.labels[self.positions_for(scores)]

    def positions_for(self, scores: Floats) -> Codes:
        """The position in `labels` of the label that belongs to each line of decision values."""
        return winners(self.scheme, scores.reshape(-1, self.n_outputs), self.n_classes)

    def margins(self, X: Any, y: Any, threads: int | None = None) -> Floats:
        """By how much the class of every row wins (model/schemes.py); two classes: its decision value, turned
        to be positive where y is predicted. Regression: the residual, prediction less target."""
        if self.is_regression:
            found = self.evaluate(X, y, threads)
            return self._shaped(found.predicted - found.targets)
        given, rows = np.asarray(y).ravel(), self.fitting(X)
        if len(given) != rows.n_rows:
            raise ParameterError(f"X has {rows.n_rows} rows but y has {len(given)} labels")
        codes = self.codes_of(given)
        margins = np.empty(rows.n_rows)
        for part, scores in self.score_blocks(rows, resolve_threads(threads)):
            margins[part] = margins_of(self.scheme, scores, codes[part], self.n_classes)
        return margins

    def evaluate(self, X: Any, y: Any, threads: int | None = None) -> Any:
        """How the model does on rows with the labels y: accuracy, errors per class, rankings (Evaluation).

        Regression: errors and residuals (TargetEvaluation).
        """
        from odmlib.model.evaluation import Evaluation, TargetEvaluation

        if self.is_regression:
            return TargetEvaluation.of(self, self.fitting(X), y, threads)
        return Evaluation.of(self, self.fitting(X), y, threads)

    def codes_of(self, given: NDArray) -> Codes:
        """The position in `labels` of every given label; a label that the model does not know is an error."""
        codes = self.known_codes(given)
        unknown = np.flatnonzero(codes < 0)
        if len(unknown):
            raise ParameterError(
                f"y[{unknown[0]}] is {shown_value(given[unknown[0]])}, which the model does not know"
            )
        return codes

    def known_codes(self, given: NDArray) -> Codes:
        """The position in `labels` of every given label, -1 where the model does not know it."""
        if self.machine == "odmo":  # as in Problem.of_one_class
            return (given == -1).astype(np.int64)
        codes = np.full(len(given), -1, dtype=np.int64)
        for place, label in enumerate(self.labels):
            codes[given == label] = place
        return codes

    def save(self, target: Target) -> None:
        """Write the model file, whole or not at all; to a path, `-` for standard output, or an open file.

        The file is text. A path that ends in .npz gets the binary form, which loads faster.
        """
        from odmlib.data.files import open_output
        from odmlib.model.text_writer import model_pieces

        with open_output(target) as stream:
            stream.writelines(model_pieces(self, target))

    def to_bytes(self) -> bytes:
        """The model file as bytes; `load_model` takes them."""
        from odmlib.model.text_writer import model_text

        return b"".join(model_text(self))

    def score(self, X: Any, y: Any, threads: int | None = None) -> float:
        """The accuracy on these rows, 0 to 1; a label that the model does not know counts as wrong.

        Regression: R^2, the part of the targets' variance that the predictions explain; the mean over the
        outputs.
        """
        predicted = self.predict(X, threads)
        if self.is_regression:
            from odmlib.data.problem import check_targets
            from odmlib.model.regression import r_squared

            return r_squared(predicted, check_targets(y))
        given = np.asarray(y).ravel()
        if len(given) != len(predicted):
            raise ParameterError(f"X has {len(predicted)} rows but y has {len(given)} labels")
        return float(np.mean(predicted == given))

    @property
    def weights(self) -> Floats:
        """The weight of every feature (features x outputs) of a linear machine, as a dense array.

        The bias and the offsets are not part of it. Kernel machines have none: AttributeError.
        """
        if not isinstance(self.function, LinearFunction):
            raise AttributeError(f"a machine with kernel {self.formula.name} has no weights of features")
        weights = np.zeros((self.n_features, self.n_outputs))
        weights[self.function.columns] = self.function.weights
        return weights

    @property
    def support_vectors(self) -> csr_array:
        """The support vectors of a kernel machine as a scipy.sparse.csr_array, one per row.

        Linear machines and precomputed kernels keep none: AttributeError.
        """
        if not isinstance(self.function, KernelFunction):
            raise AttributeError(f"a machine with kernel {self.formula.name} keeps no support vectors")
        return self.function.vectors.to_scipy()

    @property
    def n_support(self) -> int | None:
        """Number of support vectors; None for a linear machine, which keeps none."""
        return self.function.n_vectors

    def fitting(self, X: Any) -> Dataset:
        """X as rows of this model's width: narrower sparse rows are fine, wider ones are cut and told.

        Models of LIBSVM do not know their width and take any.
        """
        rows = Dataset.from_any(X)
        if self.columns is not None and (names := column_names(X)) is not None:
            self._check_columns(names)
        if rows.n_features == self.n_features:
            return rows
        sparse = isinstance(X, Dataset) or hasattr(X, "tocsr") or self.n_features == MAX_FEATURES
        if self.formula.name == "precomputed" or not sparse:
            what = "kernel values" if self.formula.name == "precomputed" else "features"
            raise ParameterError(
                f"X has {rows.n_features} {what} per row, the model was trained with {self.n_features}"
            )
        if rows.n_nonzeros and int(rows.indices.max()) >= self.n_features:
            warnings.warn(
                f"features above {self.n_features} were not seen in training and are left out "
                f"(X has {rows.n_features})",
                stacklevel=4,
            )
        return rows.with_features(self.n_features)

    def _check_columns(self, names: tuple[str, ...]) -> None:
        """The columns of a frame must be those of training, in their order."""
        known = self.columns or ()
        if names == known:
            return
        missing, unknown = [name for name in known if name not in names], [n for n in names if n not in known]
        if missing:
            fault = f"lacks {show_labels(np.array(missing))}"
        elif unknown:
            fault = f"has also {show_labels(np.array(unknown))}"
        else:
            fault = "has them in another order"
        raise ParameterError(
            f"X must have the columns of the training data, {show_labels(np.array(known))}, but it {fault}; "
            "X[list(model.columns)] selects them"
        )
