"""Model: what training returns, what predicts, and what a model file holds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Codes, Floats
from odmlib.data.dataset import Dataset
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.model.functions import Function
from odmlib.model.schemes import margins_of, winners
from odmlib.names import CONVERTED
from odmlib.threads import resolve_threads

if TYPE_CHECKING:
    from odmlib.data.files import Target


BLOCK_SCORES = 1 << 23  # outputs held at a time while predicting: 64 MB


@dataclass(frozen=True)
class Model:
    """A trained machine.

    `scheme` says what the outputs of `function` mean (model/schemes.py). With two classes the decision value
    of a row is positive for the first of `labels`. `report` says how training went: status, objective values,
    relative duality gap, margins; `odm-train --json` writes the same.
    """

    machine: str  #: its name
    formula: KernelFormula  #: the kernel with its numbers
    labels: NDArray  #: in order of first appearance, +1 before -1
    n_features: int  #: width of the training rows
    function: Function  #: weights or support vectors
    parameters: dict[str, Any]  #: every parameter of machine and kernel, as used
    report: dict[str, Any]  #: how training went
    zero_based: bool = False  #: how the training file counted its features
    scheme: str = "binary"  #: or ovo, ovr, joint
    extras: dict[str, Any] = field(
        default_factory=dict
    )  #: optional parts of the file: EXTRAS in model/text_writer.py
    training_margins: Floats | None = None  #: of every training row; not part of the model file
    assigned: NDArray | None = None  #: labels found for the unlabeled rows, in their order; likewise

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
        """
        scores = self.function.scores(self._fitting(X), resolve_threads(threads))
        return scores[:, 0] if self.scheme == "binary" else scores

    def predict(self, X: Any, threads: int | None = None) -> NDArray:
        """One label per row, of the type given to `train`."""
        return self.labels[self.positions(X, threads)]

    def positions(self, X: Any, threads: int | None = None) -> Codes:
        """The position in `labels` of the label predicted for every row."""
        rows = self._fitting(X)
        found = np.empty(rows.n_rows, dtype=np.int64)
        for part, scores in self.score_blocks(rows, resolve_threads(threads)):
            found[part] = winners(self.scheme, scores, self.n_classes)
        return found

    def score_blocks(
        self, rows: Dataset, threads: int, most: int = BLOCK_SCORES
    ) -> Iterator[tuple[slice, Floats]]:
        """Outputs of some rows at a time: with many pairs of classes all of them are too much to hold."""
        step = max(1, most // self.n_outputs)
        for begin in range(0, max(1, rows.n_rows), step):
            part = slice(begin, min(begin + step, rows.n_rows))
            yield part, self.function.scores(rows.part(part.start, part.stop), threads)

    def predict_proba(self, X: Any, threads: int | None = None) -> Floats:
        """The probability of every label, in the order of `labels`, for every row. The largest belongs to
        the predicted label, except in models of LIBSVM, which predicts the most probable label only where it
        gives probabilities. The model must have been trained with probability=True."""
        self.require_probabilities()
        rows = self._fitting(X)
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
        if "probability_slopes" not in self.extras:
            raise ParameterError(
                "the model holds no probabilities; train it with odm-train -b 1 (in Python: probability=True)"
            )

    def labels_for(self, scores: Floats) -> NDArray:
        """The labels that belong to decision values."""
        return self.labels[self.positions_for(scores)]

    def positions_for(self, scores: Floats) -> Codes:
        """The position in `labels` of the label that belongs to each line of decision values."""
        return winners(self.scheme, scores.reshape(-1, self.n_outputs), self.n_classes)

    def margins(self, X: Any, y: Any, threads: int | None = None) -> Floats:
        """By how much the class of every row wins (model/schemes.py); two classes: its decision value, turned
        to be positive where y is predicted."""
        given, rows = np.asarray(y).ravel(), self._fitting(X)
        if len(given) != rows.n_rows:
            raise ParameterError(f"X has {rows.n_rows} rows but y has {len(given)} labels")
        codes = self.codes_of(given)
        margins = np.empty(rows.n_rows)
        for part, scores in self.score_blocks(rows, resolve_threads(threads)):
            margins[part] = margins_of(self.scheme, scores, codes[part], self.n_classes)
        return margins

    def codes_of(self, given: NDArray) -> Codes:
        """The position in `labels` of every given label; a label that the model does not know is an error."""
        codes = np.full(len(given), -1, dtype=np.int64)
        for place, label in enumerate(self.labels):
            codes[given == label] = place
        unknown = np.flatnonzero(codes < 0)
        if len(unknown):
            raise ParameterError(f"y[{unknown[0]}] is {given[unknown[0]]!r}, which the model does not know")
        return codes

    def save(self, target: Target) -> None:
        """Write the model file: text, whole or not at all; to a path, `-` for standard output, or an open
        file (binary or text)."""
        from odmlib.data.files import open_output
        from odmlib.model.text_writer import model_text

        with open_output(target) as stream:
            stream.writelines(model_text(self))

    def to_bytes(self) -> bytes:
        """The model file as bytes; `load_model` takes them."""
        from odmlib.model.text_writer import model_text

        return b"".join(model_text(self))

    @property
    def n_support(self) -> int | None:
        """Number of support vectors; None for a linear machine, which keeps none."""
        return self.function.n_vectors

    def _fitting(self, X: Any) -> Dataset:
        """X as rows of this model's width: narrower sparse rows are fine, wider ones are cut and told."""
        rows = Dataset.from_any(X)
        if rows.n_features == self.n_features:
            return rows
        sparse = isinstance(X, Dataset) or hasattr(X, "tocsr")
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
