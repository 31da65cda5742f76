"""Evaluation: how a model does on rows whose labels are known: errors per class, rankings, probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Codes, Floats
from odmlib.data.labels import python_label
from odmlib.data.problem import check_targets
from odmlib.errors import ParameterError
from odmlib.model.regression import check_shape, r_squared, regression_measures
from odmlib.model.schemes import class_scores, margins_of, winners
from odmlib.threads import resolve_threads

if TYPE_CHECKING:
    from odmlib.data.dataset import Dataset
    from odmlib.model.model import Model


@dataclass(frozen=True, repr=False, eq=False)
class TargetEvaluation:
    """What a model of regression says of rows whose targets are known."""

    predicted: Floats  # rows x outputs
    targets: Floats  # likewise

    @classmethod
    def of(cls, model: Model, rows: Dataset, y: Any, threads: int | None = None) -> TargetEvaluation:
        """Evaluate a model on rows of its width with the targets y."""
        targets = check_targets(y)
        predicted = model.function.scores(rows, resolve_threads(threads, rows.n_rows))
        check_shape(predicted, targets)
        return cls(predicted, targets)

    def __repr__(self) -> str:
        measures = ", ".join(f"{name}={value:g}" for name, value in self.report().items())
        return f"TargetEvaluation({measures}, n_rows={self.n_rows})"

    @property
    def n_rows(self) -> int:
        return len(self.targets)

    @property
    def residuals(self) -> Floats:
        """Prediction less target of every row; of several outputs the one that is farthest off."""
        found = self.predicted - self.targets
        worst = np.argmax(np.abs(found), axis=1)
        return found[np.arange(len(found)), worst]

    def report(self) -> dict[str, float]:
        """The errors: mean squared and mean absolute error, squared correlation, R^2."""
        errors = {"mean_absolute_error": float(np.mean(np.abs(self.predicted - self.targets)))}
        errors["r_squared"] = r_squared(self.predicted, self.targets)
        return regression_measures(self.predicted, self.targets)._asdict() | errors


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation:
    """What a model says of rows whose labels it knows."""

    labels: NDArray
    codes: Codes  # positions of the true labels
    predicted: Codes  # and of the predicted ones
    margins: Floats  # by how much the true class of every row wins
    class_scores: Floats  # rows x classes: model/schemes.py
    probabilities: Floats | None  # rows x classes; None: the model holds none
    n_unknown: int = 0  # further rows, with labels that the model does not know

    @classmethod
    def of(cls, model: Model, rows: Dataset, y: Any, threads: int | None = None) -> Evaluation:
        """Evaluate a model on rows of its width with the labels y."""
        given = np.asarray(y).ravel()
        if len(given) != rows.n_rows:
            raise ParameterError(f"X has {rows.n_rows} rows but y has {len(given)} labels")
        codes = model.known_codes(given)
        known = np.flatnonzero(codes >= 0)
        if len(known) == 0:
            raise ParameterError("no row has a label that the model knows")
        if len(known) < len(codes):
            rows = rows.take(known)
        n, k = len(known), model.n_classes
        codes = codes[known]
        predicted, margins, scores_of = np.empty(n, dtype=np.int64), np.empty(n), np.empty((n, k))
        probabilities = np.empty((n, k)) if "probability_slopes" in model.extras else None
        for part, scores in model.score_blocks(rows, resolve_threads(threads)):
            predicted[part] = winners(model.scheme, scores, k)
            margins[part] = margins_of(model.scheme, scores, codes[part], k)
            scores_of[part] = class_scores(model.scheme, scores, k)
            if probabilities is not None:
                probabilities[part] = model.probabilities_for(scores)
        return cls(model.labels, codes, predicted, margins, scores_of, probabilities, len(given) - n)

    def __repr__(self) -> str:
        rows = f"n_rows={self.n_rows}, n_unknown={self.n_unknown}"
        return f"Evaluation(accuracy={self.accuracy:g}, {rows}, {len(self.labels)} classes)"

    @property
    def n_rows(self) -> int:
        """All rows, also those with labels that the model does not know."""
        return len(self.codes) + self.n_unknown

    @property
    def names(self) -> list[str]:
        """The labels as words."""
        return [str(python_label(label)) for label in self.labels]

    @property
    def order(self) -> Codes:
        """The places of the labels in ascending order."""
        return np.argsort(self.labels, kind="stable")

    @property
    def accuracy(self) -> float:
        """Part of the rows with the right label, 0 to 1."""
        return float(np.sum(self.predicted == self.codes)) / self.n_rows

    def counts(self) -> Codes:
        """Rows by the position of their label and of the predicted one."""
        k = len(self.labels)
        return np.bincount(self.codes * k + self.predicted, minlength=k * k).reshape(k, k)

    def present(self) -> list[int]:
        """The classes that some rows have and others do not: those a curve can be drawn for."""
        rows = np.bincount(self.codes, minlength=len(self.labels))
        return [int(c) for c in self.order if 0 < rows[c] < len(self.codes)]

    def positive(self, label: Any = None) -> int:
        """The position of a label; of the larger of two where none is given."""
        if label is None:
            return int(self.order[-1])
        for place, known in enumerate(self.labels):
            if python_label(known) == label or str(python_label(known)) == str(label):
                return place
        raise ParameterError(f"the model does not know the label {label}")

    def ranking(self, place: int) -> Ranking:
        """The rows ranked by the score of one class."""
        return Ranking.of(self.codes == place, self.class_scores[:, place])


@dataclass(frozen=True)
class Ranking:
    """Rows of a class found, and of others taken for it, at every threshold from the highest down."""

    hits: Floats
    false_alarms: Floats

    @classmethod
    def of(cls, is_member: NDArray, scores: Floats) -> Ranking:
        """Of every row: whether it is one of the class, and its score."""
        if is_member.all() or not is_member.any():
            raise ParameterError("a ranking needs rows of the class and rows of others")
        descending = np.argsort(-scores, kind="stable")
        scores, is_member = scores[descending], is_member[descending]
        last = np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1)  # of equal scores
        hits = np.cumsum(is_member)[last].astype(np.float64)
        return cls(hits, last + 1.0 - hits)

    def roc(self) -> tuple[Floats, Floats]:
        """False positive rate and true positive rate, from (0, 0) to (1, 1)."""
        rates = (values / values[-1] for values in (self.false_alarms, self.hits))
        false, true = (np.concatenate([[0.0], rate]) for rate in rates)
        return false, true

    def auc(self) -> float:
        """Area under the ROC curve."""
        false, true = self.roc()
        return float(np.sum(np.diff(false) * (true[1:] + true[:-1])) / 2)

    def precision_recall(self) -> tuple[Floats, Floats]:
        """Recall (ascending) and precision at every threshold."""
        return self.hits / self.hits[-1], self.hits / (self.hits + self.false_alarms)

    def average_precision(self) -> float:
        """Mean of the precisions, each weighted by the recall that it adds."""
        recall, precision = self.precision_recall()
        return float(np.sum(np.diff(recall, prepend=0.0) * precision))
