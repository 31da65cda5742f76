"""The decision functions a model may hold: sums over columns, over support vectors, or over serials.

A function has one or more outputs. What multiplies them (weights of columns, coefficients of vectors) is kept
as sparse rows, one per column or vector with an entry per output: with many pairs of classes a vector takes
part in few of them. `offsets` are subtracted from the outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from odmlib._core.arrays import Columns, Floats, Places
from odmlib.data._border import all_finite
from odmlib.data.dataset import Dataset, sound_rows, summed_rows
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula

DENSE_COLUMNS = 1 << 16  # wider weight vectors stay sparse unless the rows are large too
BLOCK_WEIGHTS = 1 << 22  # weights that are held dense at a time: 32 MB
KEPT_WEIGHTS = 1 << 16  # weights that a function keeps dense from one call to the next: 512 kB


def weighted_sums(rows: Dataset, columns: Columns, terms: Dataset, threads: int) -> Floats:
    """Sums over ascending columns of weight x_column: (rows x outputs).

    A huge column number costs no memory.
    """
    if rows.n_features <= max(DENSE_COLUMNS, rows.n_nonzeros):
        known = columns < rows.n_features
        if not known.all():
            columns, terms = columns[known], terms.take(np.flatnonzero(known))
        width, places = rows.n_features, columns.astype(np.int64)
    else:
        rows = rows.on_columns(columns)
        width, places = len(columns), np.arange(len(columns))
    place_of_each, n_outputs = places[terms.row_of_each()], terms.n_features
    step = max(1, BLOCK_WEIGHTS // max(1, width))
    sums = np.empty((rows.n_rows, n_outputs))
    for first in range(0, n_outputs, step):
        last = min(first + step, n_outputs)
        inside = slice(None) if step >= n_outputs else (terms.indices >= first) & (terms.indices < last)
        weights = np.zeros((width, last - first))
        weights[place_of_each[inside], terms.indices[inside] - first] = terms.values[inside]
        sums[:, first:last] = _products(rows, weights, threads)
    return sums


def _products(rows: Dataset, weights: Floats, threads: int) -> Floats:
    """X W for dense weights, a column per output."""
    from odmlib._core.rows import Rows

    if weights.shape[1] == 1:
        return np.asarray(Rows(rows).product(weights[:, 0], threads)).reshape(-1, 1)
    return np.asarray(Rows(rows).products(weights, threads))


def _less_offsets(sums: Floats, offsets: Floats, constants: Floats | None = None) -> Floats:
    """The scores of a function; ParameterError unless all of them are finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        scores = (sums if constants is None else sums + constants) - offsets
    if not all_finite(scores.reshape(-1)):
        raise ParameterError("decision values overflow on these rows; scale the data")
    return scores


def as_terms(values: Dataset | ArrayLike, n: int) -> Dataset:
    """Numbers of n columns or vectors as sparse rows; an array of one dimension is one output."""
    if isinstance(values, Dataset):
        return values
    array = np.asarray(values, dtype=np.float64)
    return Dataset.from_any(array if array.ndim == 2 else array.reshape(n, 1), "the decision function")


def _set(function: Function, **fields: Any) -> None:
    """Fill in a frozen object."""
    for name, value in fields.items():
        object.__setattr__(function, name, value)


def _offsets(given: ArrayLike | None, n_outputs: int) -> Floats:
    return np.zeros(n_outputs) if given is None else np.array(given, dtype=np.float64).reshape(n_outputs)


def _one_output(terms: Dataset, output: int) -> tuple[Places, Floats]:
    """Rows with an entry for the output, and these entries."""
    found = np.flatnonzero(terms.indices == output)
    return terms.row_of_each()[found], np.array(terms.values[found])


class _Function:
    """What all functions have in common."""

    terms: (
        Dataset  # (columns or vectors) x outputs; arrays become rows, those of one dimension are one output
    )

    @property
    def n_outputs(self) -> int:
        return self.terms.n_features

    def __getstate__(self) -> dict[str, Any]:
        """What is kept from one call to the next stays at home."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


@dataclass(frozen=True, init=False)
class LinearFunction(_Function):
    """f(x) = sum over columns of weight x_column + bias bias_weight - offset; other columns weigh nothing."""

    columns: Columns  # ascending
    terms: Dataset
    bias: float
    bias_weights: Floats  # one per output
    offsets: Floats

    def __init__(
        self,
        columns: Columns,
        terms: Dataset | ArrayLike,
        bias: float,
        bias_weights: ArrayLike,
        offsets: ArrayLike | None = None,
    ):
        _set(self, columns=columns, terms=as_terms(terms, len(columns)), bias=bias)
        _set(self, bias_weights=np.array(bias_weights, dtype=np.float64).reshape(self.n_outputs))
        _set(self, offsets=_offsets(offsets, self.n_outputs))

    n_vectors = None  # it keeps none

    @property
    def weights(self) -> Floats:
        """(columns x outputs)"""
        return self.terms.to_dense()

    def scores(self, rows: Dataset, threads: int) -> Floats:
        weights = self._kept_weights(rows.n_features)
        if weights is None:
            sums = weighted_sums(rows, self.columns, self.terms, threads)
        else:
            sums = _products(rows, weights, threads)
        return _less_offsets(sums, self.offsets, self._constants)

    @cached_property
    def _constants(self) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(self.bias * self.bias_weights)

    def _kept_weights(self, width: int) -> Floats | None:
        """All weights of rows of this width, kept for the next rows; None where they take too much memory."""
        if width * self.n_outputs > KEPT_WEIGHTS:
            return None
        kept = self.__dict__.get("_kept")
        if kept is None or len(kept) != width:
            kept = np.zeros((width, self.n_outputs))
            known = self.columns[self.terms.row_of_each()] < width
            places = self.columns[self.terms.row_of_each()][known]
            kept[places, self.terms.indices[known]] = self.terms.values[known]
            _set(self, _kept=kept)
        return kept

    def output(self, place: int) -> LinearFunction:
        """The function of one output alone."""
        rows, weights = _one_output(self.terms, place)
        bias_weight, offset = self.bias_weights[place], self.offsets[place]
        return LinearFunction(self.columns[rows], weights, self.bias, bias_weight, offset)


class _Expansion(_Function):
    """What functions over support vectors have in common."""

    @property
    def n_vectors(self) -> int:
        return self.terms.n_rows

    @property
    def coefficients(self) -> Floats:
        """(vectors x outputs)"""
        return self.terms.to_dense()


@dataclass(frozen=True, init=False)
class KernelFunction(_Expansion):
    """f(x) = sum over support vectors of coefficient k(x, vector) - offset."""

    formula: KernelFormula
    vectors: Dataset
    terms: Dataset
    offsets: Floats
    rows: Places | None = None  # where the vectors stood in the training set; not in model files

    def __init__(
        self,
        formula: KernelFormula,
        vectors: Dataset,
        terms: Dataset | ArrayLike,
        offsets: ArrayLike | None = None,
        rows: Places | None = None,
    ):
        _set(self, formula=formula, vectors=vectors, terms=as_terms(terms, vectors.n_rows), rows=rows)
        _set(self, offsets=_offsets(offsets, self.terms.n_features))

    def scores(self, rows: Dataset, threads: int) -> Floats:
        from odmlib.kernels.expansion import kernel_scores

        sums = kernel_scores(self.formula, self.vectors, self.terms, rows, threads, self._norms)
        return _less_offsets(sums, self.offsets)

    @cached_property
    def _norms(self) -> Floats:
        return self.vectors.squared_norms()

    def output(self, place: int) -> KernelFunction:
        """The function of one output alone."""
        rows, coefficients = _one_output(self.terms, place)
        return KernelFunction(self.formula, self.vectors.take(rows), coefficients, self.offsets[place])


class RoutedFunction(KernelFunction):
    """A function per region of the feature space, one of which says the value of a row: one output.

    Of 2 K columns of `terms` the first K are the functions, the others g_1..g_K say where a row belongs: to
    the region with the largest g_k. Where that is the one with the nearest centre c_k in feature space,
    g_k(x) = <phi(x), c_k> - |c_k|^2 / 2.
    """

    @property
    def n_regions(self) -> int:
        return self.terms.n_features // 2

    @property
    def n_outputs(self) -> int:
        return 1

    def scores(self, rows: Dataset, threads: int) -> Floats:
        both = super().scores(rows, threads)
        region = both[:, self.n_regions :].argmax(axis=1)
        return both[np.arange(rows.n_rows), region].reshape(-1, 1)

    def output(self, place: int) -> RoutedFunction:
        """The function of one output alone: there is one."""
        return self


@dataclass(frozen=True, init=False)
class PrecomputedFunction(_Expansion):
    """f = sum over support vectors of coefficient (K[x, serial] + bias^2) - offset; serials count from 1."""

    serials: Places
    terms: Dataset
    bias: float
    offsets: Floats

    def __init__(
        self, serials: Places, terms: Dataset | ArrayLike, bias: float, offsets: ArrayLike | None = None
    ):
        _set(self, serials=serials, terms=as_terms(terms, len(serials)), bias=bias)
        _set(self, offsets=_offsets(offsets, self.n_outputs))

    @property
    def vectors(self) -> Dataset:
        """The serials as rows of one value, in column 0: so files hold them."""
        n = self.n_vectors
        serials = self.serials.astype(np.float64)
        return sound_rows(np.arange(n + 1, dtype=np.int64), np.zeros(n, np.int32), serials, 1)

    def scores(self, rows: Dataset, threads: int) -> Floats:
        serials, places = np.unique(self.serials, return_inverse=True)  # a serial may stand twice
        terms = summed_rows(self.terms, places, len(serials))
        with np.errstate(over="ignore", invalid="ignore"):
            totals = np.bincount(terms.indices, terms.values, minlength=self.n_outputs)
            constants = np.asarray(self.bias * self.bias * totals, dtype=np.float64)
        sums = weighted_sums(rows, (serials - 1).astype(np.int32), terms, threads)
        return _less_offsets(sums, self.offsets, constants)

    def output(self, place: int) -> PrecomputedFunction:
        """The function of one output alone."""
        rows, coefficients = _one_output(self.terms, place)
        return PrecomputedFunction(self.serials[rows], coefficients, self.bias, self.offsets[place])


Function = LinearFunction | KernelFunction | PrecomputedFunction
