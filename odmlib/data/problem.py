"""Problem: rows, labels and weights of a supervised training set, checked and encoded once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Codes, Floats
from odmlib.data.dataset import Dataset, column_names, refuse_masked
from odmlib.data.labels import python_label, show_labels
from odmlib.errors import ParameterError
from odmlib.values import shown_value


@dataclass(eq=False)
class Problem:
    """`codes[i]` is the position of row i's label in `labels`, -1 for a row without one (semi-supervised
    machines only); `weights[i]` is its sample weight times its class weight; `total_weight` is the sum of the
    sample weights, the m of lambda = C m."""

    rows: Dataset
    codes: Codes
    labels: NDArray
    sample_weights: Floats
    class_weights: Floats
    targets: Floats | None = None  # of regression, which has no labels: rows x outputs
    one_class: bool = False  # novelty detection: all rows are trained on as +1, whatever their labels
    columns: tuple[str, ...] | None = None  # names of the features, where they have any

    @property
    def weights(self) -> Floats:
        return self.sample_weights * np.append(self.class_weights, 1.0)[self.codes]  # code -1: the last

    @property
    def has_classes(self) -> bool:
        """Whether the labels are classes to tell apart: not in regression and novelty detection."""
        return self.targets is None and not self.one_class

    @property
    def n_unlabeled(self) -> int:
        return int(np.count_nonzero(self.codes < 0))

    @property
    def total_weight(self) -> float:
        return float(self.sample_weights.sum())

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        class_weight: Mapping | str | None = None,
        unlabeled: Any = None,
    ) -> Problem:
        """`unlabeled`: the mark in y of rows without a label; None: every row has one."""
        rows = Dataset.from_any(X)
        codes, labels = encode_labels(y) if unlabeled is None else encode_marked_labels(y, unlabeled)
        if len(codes) != rows.n_rows:
            raise ParameterError(f"X has {rows.n_rows} rows but y has {len(codes)} labels")
        if rows.n_rows == 0:
            raise ParameterError("X has no rows; at least two, of different classes, are needed")
        sample_weights = check_sample_weights(sample_weight, rows.n_rows)
        weights = class_weights(class_weight, labels, codes)
        return cls(rows, codes, labels, sample_weights, weights, columns=column_names(X))

    @classmethod
    def from_targets(cls, X: Any, y: Any, sample_weight: Any = None) -> Problem:
        """A problem of regression; y has a number, or a line of several numbers, for each row."""
        rows = Dataset.from_any(X)
        targets = check_targets(y)
        if len(targets) != rows.n_rows:
            raise ParameterError(f"X has {rows.n_rows} rows but y has {len(targets)} targets")
        if rows.n_rows == 0:
            raise ParameterError("X has no rows; at least one is needed")
        weights = check_sample_weights(sample_weight, rows.n_rows)
        codes = np.zeros(rows.n_rows, dtype=np.int64)
        return cls(rows, codes, np.empty(0), weights, np.empty(0), targets, columns=column_names(X))

    @classmethod
    def of_one_class(cls, X: Any, y: Any = None, sample_weight: Any = None) -> Problem:
        """A problem of novelty detection. Labels only tell how right predictions are: -1 is a novelty, any
        other label is none."""
        rows = Dataset.from_any(X)
        novel = np.zeros(rows.n_rows, dtype=bool) if y is None else np.asarray(_label_array(y) == -1)
        if len(novel) != rows.n_rows:
            raise ParameterError(f"X has {rows.n_rows} rows but y has {len(novel)} labels")
        if rows.n_rows < 2:
            raise ParameterError(f"X has {rows.n_rows} rows; novelty detection needs two or more")
        weights = check_sample_weights(sample_weight, rows.n_rows)
        labels = np.array([1, -1])
        columns = column_names(X)
        return cls(rows, novel.astype(np.int64), labels, weights, np.ones(2), one_class=True, columns=columns)

    def take(self, rows: Codes) -> Problem:
        """The problem on some of its rows; every label stays known."""
        return dataclasses.replace(
            self,
            rows=self.rows.take(rows),
            codes=self.codes[rows],
            sample_weights=self.sample_weights[rows],
            targets=None if self.targets is None else self.targets[rows],
        )

    def signs(self) -> Floats:
        """+1 for the first label, -1 for the second, 0 for none: binary machines only."""
        return self.signs_of(0)

    def signs_of(self, code: int) -> Floats:
        """+1 for the rows of a class, -1 for those of all others, 0 for rows without a label."""
        if self.one_class:
            return np.ones(len(self.codes))
        return np.where(self.codes == code, 1.0, np.where(self.codes < 0, 0.0, -1.0))

    def of_present_classes(self, present: Codes) -> Problem:
        """The rows of some classes (ascending codes), whose labels are then the only ones, and open rows."""
        rows = np.flatnonzero(np.isin(self.codes, present) | (self.codes < 0))
        part = self.take(rows)
        part.labels, part.class_weights = self.labels[present], self.class_weights[present]
        part.codes = np.where(part.codes < 0, -1, np.searchsorted(present, part.codes))
        return part

    def require_classes(self, machine: str) -> None:
        """Refuse what no classifier can learn from: fewer than two classes, or a class without weight."""
        if not self.has_classes:
            return
        labeled = self.codes >= 0
        codes, weights = self.codes[labeled], self.weights[labeled]
        if len(codes) == 0:
            raise ParameterError(f"no row has a label; {machine} needs labeled rows of two classes")
        n = len(self.labels)
        which, others = "all rows", ""
        if not labeled.all():
            which, others = "all labeled rows", ", the others count as unlabeled (--unlabeled LABEL)"
        sums = np.bincount(codes, weights, minlength=n)
        require_class_sums(self.labels, np.bincount(codes, minlength=n), sums, machine, which, others)


def require_class_sums(
    labels: NDArray,
    n_rows: NDArray,
    weights: NDArray,
    machine: str,
    which: str = "all rows",
    others: str = "",
) -> None:
    """`Problem.require_classes` from the number of rows of each label and the sum of their weights."""
    present = labels[n_rows > 0]
    if len(present) < 2:
        raise ParameterError(
            f"{which} have the same label ({show_labels(present)}){others}; "
            f"{machine} needs rows of two classes"
        )
    if not weights.any():
        raise ParameterError("every row has weight 0 (row weight times class weight); nothing to train on")
    if not weights.all():
        label = show_labels(labels[weights == 0])
        raise ParameterError(
            f"no weight is left for label {label}; {machine} needs rows of every class with weight"
        )


def encode_marked_labels(y: Any, unlabeled: Any) -> tuple[Codes, NDArray]:
    """`encode_labels` for the rows whose label is not the mark `unlabeled`; -1 for those where it is."""
    array = _label_array(y)
    if array.dtype.kind in "SU" and not isinstance(unlabeled, str | bytes):
        unlabeled = str(unlabeled)  # numpy turned the marks in a list with strings into strings too
    marked = np.broadcast_to(np.asarray(array == unlabeled, dtype=bool), array.shape)
    codes = np.full(len(array), -1, dtype=np.int64)
    codes[~marked], labels = encode_labels(array[~marked])
    return codes, labels


def encode_labels(y: Any) -> tuple[Codes, NDArray]:
    """Position of each label among the distinct ones, and these in order of first appearance.

    As in LIBSVM, {-1, +1} met with -1 first is turned round: +1 always is the first label.
    """
    array = _label_array(y)
    if array.dtype.kind == "c":
        raise ParameterError("labels must not be complex numbers")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ParameterError("y holds NaN or infinity; every label must be finite")
    if array.dtype.kind == "O":
        _check_object_labels(array)
        places: dict[Any, int] = {}
        codes = np.array([places.setdefault(label, len(places)) for label in array], dtype=np.int64)
        labels = np.empty(len(places), dtype=object)
        labels[:] = list(places)
    else:
        distinct, first, inverse = np.unique(array, return_index=True, return_inverse=True)
        order = np.argsort(first)
        labels = distinct[order]
        codes = np.argsort(order)[inverse].astype(np.int64)
    if len(labels) == 2 and labels.dtype.kind in "if" and labels[0] == -1 and labels[1] == 1:
        labels, codes = labels[::-1].copy(), 1 - codes
    return codes, labels


def _label_array(y: Any) -> NDArray:
    if y is None:
        raise ParameterError("y is missing; it holds one label per row (machine='odmo' needs none)")
    refuse_masked(y, "y")
    try:
        array = np.asarray(y)
    except ValueError as error:
        raise ParameterError(f"y cannot be read as labels: {error}") from None
    if array.dtype == np.longdouble:  # no model file holds more digits than float64
        array = array.astype(np.float64)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ParameterError(f"y must have one dimension, found shape {array.shape}")
    return array


def _check_object_labels(array: NDArray) -> None:
    for place, label in enumerate(array):
        if label is None or (isinstance(label, float) and not np.isfinite(label)):
            raise ParameterError(f"y[{place}] is {shown_value(label)}; every label must be given and finite")
        if not isinstance(label, (str, bytes, bool, int, float, np.generic)):
            raise ParameterError(
                f"y[{place}] is of type {type(label).__name__}, expected a string or a number"
            )


def check_targets(y: Any) -> Floats:
    """Finite numbers: rows x outputs."""
    if y is None:
        raise ParameterError("y is missing; it holds one target per row")
    targets = _numbers(y, "y")
    if targets.ndim not in (1, 2) or targets.size == 0:
        raise ParameterError(
            f"y must hold a target, or a line of them, for each row, found shape {targets.shape}"
        )
    targets = targets.reshape(len(targets), -1)
    wrong = np.argwhere(~np.isfinite(targets))
    if len(wrong):
        row, output = wrong[0]
        raise ParameterError(f"y[{row}] is {targets[row, output]}; every target must be finite")
    return targets


def _numbers(values: Any, name: str) -> Floats:
    refuse_masked(values, name)
    try:
        array = np.asarray(values)
        if array.dtype.kind in "cmM":  # numpy would drop the imaginary part, and count seconds
            raise ParameterError(f"{name} holds {array.dtype}, expected real numbers")
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, ParameterError):
            raise
        raise ParameterError(f"{name} cannot be read as numbers: {error}") from None


def check_sample_weights(sample_weight: Any, n_rows: int, whole: bool = True) -> Floats:
    """`whole`: these are all rows, so one of them must count."""
    if sample_weight is None:
        return np.ones(n_rows)
    weights = _numbers(sample_weight, "sample_weight")
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ParameterError(f"expected {n_rows} row weights, one per row, found shape {weights.shape}")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise ParameterError(
            f"row weight {wrong[0] + 1} is {weights[wrong[0]]:g}; weights must be finite and at least 0"
        )
    if whole and not weights.any():
        raise ParameterError("all row weights are zero; nothing to train on")
    return weights


def class_weights(wish: Mapping | str | None, labels: NDArray, codes: Codes) -> Floats:
    """The weight of each label, for rows with these codes."""
    return class_weights_of_counts(wish, labels, np.bincount(codes[codes >= 0], minlength=len(labels)))


def class_weights_of_counts(wish: Mapping | str | None, labels: NDArray, counts: NDArray) -> Floats:
    """The same from the number of rows of each label."""
    weights = np.ones(len(labels))
    if wish is None:
        return weights
    if isinstance(wish, str):
        if wish != "balanced":
            raise ParameterError(f"class_weight must be 'balanced' or a mapping, found {shown_value(wish)}")
        return counts.sum() / (len(labels) * counts)
    if not isinstance(wish, Mapping):
        raise ParameterError(f"class_weight must be 'balanced' or a mapping, found {type(wish).__name__}")
    for label, weight in wish.items():
        places = [k for k, known in enumerate(labels) if known == label]
        if not places:
            raise ParameterError(
                f"a class weight (-w) is given for label {python_label(label)}, "
                f"which is not in the data ({show_labels(labels)})"
            )
        weights[places[0]] = weight
    return weights
