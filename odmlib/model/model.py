"""Model: what training returns, what predicts, and what a model file holds."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.threads import resolve_threads
from odmlib.data.dataset import Dataset
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.model.functions import Function, KernelFunction, LinearFunction, PrecomputedFunction

if TYPE_CHECKING:
    from odmlib.data.files import Target

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Model:
    """A trained machine.

    The decision value of a row is positive for the first of `labels`. `report` says how training went:
    status, objective values, relative duality gap, margins; `odm-train --json` writes the same.
    """

    machine: str
    formula: KernelFormula
    labels: NDArray
    n_features: int
    function: Function
    parameters: dict[str, Any]
    report: dict[str, Any]
    zero_based: bool = False  # how the training file counted its features

    def decision_function(self, X: Any, threads: int | None = None) -> Floats:
        """One value per row: positive for labels[0], otherwise labels[1]."""
        return self.function.scores(self._fitting(X), resolve_threads(threads))

    def predict(self, X: Any, threads: int | None = None) -> NDArray:
        """One label per row, of the type given to `train`."""
        return self.labels_for(self.decision_function(X, threads))

    def labels_for(self, scores: Floats) -> NDArray:
        """The labels that belong to decision values."""
        return self.labels[np.where(scores > 0, 0, 1)]

    def margins(self, X: Any, y: Any, threads: int | None = None) -> Floats:
        """Signed margin of every row: its decision value, turned to be positive where y is predicted."""
        given = np.asarray(y).ravel()
        scores = self.decision_function(X, threads)
        if len(given) != len(scores):
            raise ParameterError(f"X has {len(scores)} rows but y has {len(given)} labels")
        first, second = given == self.labels[0], given == self.labels[1]
        unknown = np.flatnonzero(~(first | second))
        if len(unknown):
            raise ParameterError(f"y[{unknown[0]}] is {given[unknown[0]]!r}, which the model does not know")
        return np.where(first, scores, -scores)

    def save(self, target: Target) -> None:
        """Write the model file: text, whole or not at all."""
        from odmlib.model.text_format import save_model

        save_model(self, target)

    @property
    def n_support(self) -> int | None:
        """Number of support vectors; None for a linear machine, which keeps none."""
        match self.function:
            case LinearFunction():
                return None
            case KernelFunction() | PrecomputedFunction():
                return len(self.function.coefficients)

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
