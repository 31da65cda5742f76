"""Dataset: immutable rows in compressed sparse form, the one form in which data reach the engines.

Values are float64, columns int32, row offsets int64; columns ascend within a row without repeats, and
every value is finite. Dense or foreign sparse input is converted once, here, at the border; values that are
float64 already, of a CSR matrix or of a dense one without zeros in row order, are shared and not copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.vectors import inner
from odmlib.errors import ParameterError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_FEATURES = 2**31 - 1


class Dataset:
    """Rows of numbers in CSR form, never changed once made.

    indptr      where each row begins in the other two arrays, and where the last one ends (int64)
    indices     columns of the stored values, from 0, ascending within a row (int32)
    values      the stored values, all finite (float64)
    n_features  number of columns

    >>> from odmlib.data.dataset import Dataset
    >>> rows = Dataset.from_any([[1.0, 0.0], [0.0, 2.0]])
    >>> rows.n_rows, rows.n_features, rows.n_nonzeros
    (2, 2, 2)
    """

    __slots__ = ("indices", "indptr", "n_features", "values")

    def __init__(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        values: NDArray[np.float64],
        n_features: int,
    ):
        """Wrap arrays that already keep the promises above; `from_any` is for those that may not."""
        self.indptr = _read_only(indptr)
        self.indices = _read_only(indices)
        self.values = _read_only(values)
        self.n_features = int(n_features)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def n_nonzeros(self) -> int:
        """Number of stored values."""
        return len(self.values)

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)"""
        return self.n_rows, self.n_features

    def __repr__(self) -> str:
        return f"Dataset({self.n_rows} rows, {self.n_features} features, {self.n_nonzeros} nonzeros)"

    def __reduce__(self) -> tuple:
        return Dataset, (self.indptr, self.indices, self.values, self.n_features)

    @classmethod
    def from_any(cls, X: Any, name: str = "X") -> Dataset:
        """Convert a Dataset, a scipy.sparse matrix or array, a frame, or what numpy takes as a matrix."""
        if isinstance(X, Dataset):
            return X
        if hasattr(getattr(X, "sparse", None), "to_coo"):  # a pandas frame of sparse columns
            X = X.sparse.to_coo()
        if hasattr(X, "tocsr"):
            return cls._from_sparse(X, name)
        return cls._from_dense(X, name)

    @classmethod
    def _from_sparse(cls, X: Any, name: str) -> Dataset:
        if len(X.shape) != 2:
            raise ParameterError(f"{name} must have two dimensions, found shape {X.shape}")
        _check_width(X.shape[1], name)
        if X.dtype.kind in "iu":
            X = X.astype(np.float64)  # before duplicates are added up: narrow integers would wrap
        rows = X.tocsr()
        _check_structure(rows, name)
        if not rows.has_canonical_format:
            rows = rows.copy()  # the caller's matrix stays as it was
            rows.sum_duplicates()
        n_stored = int(rows.indptr[-1])  # the arrays may have spare room behind
        return cls(
            np.ascontiguousarray(rows.indptr, dtype=np.int64),
            np.ascontiguousarray(rows.indices[:n_stored], dtype=np.int32),
            np.ascontiguousarray(_as_float64(rows.data[:n_stored], name)),
            rows.shape[1],
        )

    @classmethod
    def _from_dense(cls, X: Any, name: str) -> Dataset:
        if type(X) is not np.ndarray and np.ma.is_masked(X):  # asking loads numpy.ma: 15 ms
            raise ParameterError(f"{name} has masked entries; fill them first")
        try:
            array = np.asarray(X)
        except ValueError as error:
            raise ParameterError(f"{name} cannot be read as a matrix: {error}") from None
        if array.ndim != 2:
            raise ParameterError(
                f"{name} must have two dimensions, found shape {array.shape}"
                + ("; reshape a single row with X.reshape(1, -1)" if array.ndim == 1 else "")
            )
        _check_width(array.shape[1], name)
        array = _as_float64(array, name)
        if np.count_nonzero(array) == array.size:  # the values stay where they are
            return dense_rows(array)
        present = array != 0
        indptr = np.zeros(array.shape[0] + 1, dtype=np.int64)
        np.cumsum(present.sum(axis=1), out=indptr[1:])
        indices = np.nonzero(present)[1].astype(np.int32)
        return cls(indptr, indices, array[present], array.shape[1])

    def to_scipy(self) -> csr_array:
        """The same rows as a scipy.sparse.csr_array; the values are shared, not copied."""
        from scipy.sparse import csr_array

        # scipy wants one width for both index arrays; the narrow one while it suffices
        width = np.int32 if self.n_nonzeros < 2**31 else np.int64
        indptr = self.indptr.astype(width)
        indices = self.indices.astype(width, copy=False)
        return csr_array((self.values, indices, indptr), shape=self.shape, copy=False)

    def dense_view(self) -> NDArray[np.float64]:
        """The rows as a matrix not to be written to: no copy where every entry is stored."""
        full = self.n_nonzeros == self.n_rows * self.n_features
        return self.values.reshape(self.shape) if full else self.to_dense()

    def to_dense(self) -> NDArray[np.float64]:
        """The same rows as a numpy matrix."""
        dense = np.zeros(self.shape)
        dense[self.row_of_each(), self.indices] = self.values
        return dense

    def row_of_each(self) -> NDArray[np.int64]:
        """The row to which each stored value belongs."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.indptr))

    def take(self, rows: NDArray[np.int64]) -> Dataset:
        """The given rows, in the given order."""
        rows = np.asarray(rows, dtype=np.int64)
        lengths = np.diff(self.indptr)[rows]
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(lengths, out=indptr[1:])
        # position k of the result comes from its row's start plus its place in the row
        positions = np.arange(indptr[-1]) + np.repeat(self.indptr[rows] - indptr[:-1], lengths)
        return Dataset(indptr, self.indices[positions], self.values[positions], self.n_features)

    def with_features(self, n_features: int) -> Dataset:
        """The same rows told to have `n_features` columns; stored values beyond are left out."""
        if self.n_nonzeros == 0 or int(self.indices.max()) < n_features:
            return Dataset(self.indptr, self.indices, self.values, n_features)
        kept = self.indices < n_features
        indptr = np.concatenate([[0], np.cumsum(kept)])[self.indptr]
        return Dataset(indptr, self.indices[kept], self.values[kept], n_features)

    def used_columns(self) -> NDArray[np.int32]:
        """Columns that hold at least one stored value, ascending."""
        return np.unique(self.indices)

    def on_columns(self, columns: NDArray[np.int32]) -> Dataset:
        """The same rows on the given ascending columns only, renumbered from 0."""
        places = np.searchsorted(columns, self.indices)
        places[places == len(columns)] = 0
        kept = columns[places] == self.indices if len(columns) else np.zeros(len(places), dtype=bool)
        indptr = np.concatenate([[0], np.cumsum(kept)])[self.indptr]
        return Dataset(indptr, places[kept].astype(np.int32), self.values[kept], len(columns))

    def squared_norms(self) -> NDArray[np.float64]:
        """Squared Euclidean length of each row."""
        # the 0 behind gives empty rows at the end a place to start
        squares = np.append(self.values * self.values, 0.0)
        norms = np.add.reduceat(squares, self.indptr[:-1])
        norms[np.diff(self.indptr) == 0] = 0.0  # reduceat gives the next value for an empty row
        return norms

    def variance(self, weights: NDArray[np.float64] | None = None) -> float:
        """Variance over all entries, zeros included; rows count by their weights."""
        entries = self.n_rows * self.n_features
        if entries == 0:
            return 0.0
        if weights is not None and not (weights == weights[0]).all():
            total = float(weights.sum()) * self.n_features
            of_each = np.repeat(weights, np.diff(self.indptr))
            mean = inner(of_each, self.values) / total
            deviations = inner(of_each, np.square(self.values - mean))
            return (deviations + (total - float(of_each.sum())) * mean * mean) / total
        mean = float(self.values.sum()) / entries
        deviations = float(np.square(self.values - mean).sum())
        return (deviations + (entries - self.n_nonzeros) * mean * mean) / entries


def from_entries(
    rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64], shape: tuple[int, int]
) -> Dataset:
    """Rows with the given entries, in any order; entries at the same place are added up."""
    order = np.lexsort((columns, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    if len(rows):
        new = np.ones(len(rows), dtype=bool)
        new[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
        starts = np.flatnonzero(new)
        rows, columns, values = rows[starts], columns[starts], np.add.reduceat(values, starts)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))]).astype(np.int64)
    return Dataset(indptr, columns.astype(np.int32), values, shape[1])


def dense_rows(values: NDArray[np.float64]) -> Dataset:
    """A matrix as rows in which every entry is stored, zeros too; contiguous values are shared."""
    n, width = values.shape
    return Dataset(
        np.arange(n + 1, dtype=np.int64) * width,
        np.tile(np.arange(width, dtype=np.int32), n),
        np.ascontiguousarray(values).reshape(-1),
        width,
    )


def stacked(parts: list[Dataset]) -> Dataset:
    """The rows of all parts (at least one), one part below the other, as wide as the widest."""
    ends = np.cumsum([part.n_nonzeros for part in parts])
    indptr = [part.indptr[1:] + end - part.n_nonzeros for part, end in zip(parts, ends, strict=True)]
    return Dataset(
        np.concatenate([[0], *indptr]).astype(np.int64),
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.values for part in parts]),
        max(part.n_features for part in parts),
    )


def summed_rows(rows: Dataset, places: NDArray[np.int64], n_places: int) -> Dataset:
    """Row j of the result is the sum of the rows i with places[i] = j."""
    shape = n_places, rows.n_features
    return from_entries(places[rows.row_of_each()], rows.indices.astype(np.int64), rows.values, shape)


def _check_width(width: int, name: str) -> None:
    if width > MAX_FEATURES:
        raise ParameterError(f"{name} has {width} features, the limit is {MAX_FEATURES}")


def _as_float64(array: NDArray, name: str) -> NDArray[np.float64]:
    if array.dtype.kind == "c":
        raise ParameterError(f"{name} holds complex numbers, expected real ones")
    if array.dtype.kind not in "biufO":
        raise ParameterError(f"{name} holds {array.dtype}, expected numbers")
    try:
        with np.errstate(over="ignore"):  # infinity is refused below
            converted = array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise ParameterError(f"{name} cannot be read as numbers: {error}") from None
    if not np.isfinite(converted).all():
        raise ParameterError(f"{name} holds NaN or infinity; every value must be finite")
    return converted


def _check_structure(rows: Any, name: str) -> None:
    """Refuse index arrays that point outside: compiled loops follow them without looking."""
    indptr, indices = rows.indptr, rows.indices
    sound = len(indptr) == rows.shape[0] + 1 and indptr[0] == 0 and bool((np.diff(indptr) >= 0).all())
    n_stored = int(indptr[-1])
    sound = sound and n_stored <= min(len(indices), len(rows.data))
    if sound and n_stored:
        used = indices[:n_stored]
        sound = int(used.min()) >= 0 and int(used.max()) < rows.shape[1]
    if not sound:
        raise ParameterError(f"{name} has index arrays that do not fit its shape {rows.shape}")


def _read_only(array: NDArray) -> NDArray:
    """The same memory, not to be written through this name; the caller's own array stays as it is."""
    view = array.view()
    view.flags.writeable = False
    return view
