"""Dataset: immutable rows in compressed sparse form, the one form in which data reach the engines.

Values are float64, columns int32, row offsets int64; columns ascend within a row without repeats, and
every value is finite. Dense or foreign sparse input is converted once, here, at the border; values that are
float64 already, of a CSR matrix or of a dense one without zeros in row order, are shared and not copied.
Row offsets and columns are copied and the copies are checked: compiled loops follow them without looking,
and the caller may change the arrays while a thread trains.
"""

from __future__ import annotations

import operator
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Columns, Floats, Places
from odmlib._core.vectors import inner, squared_norms, taken_rows
from odmlib.data._border import all_finite, copied_columns
from odmlib.errors import ParameterError
from odmlib.values import shown_value

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_FEATURES = 2**31 - 1
DISTANCE_ROWS = 1000  # more are sampled: the mean distance of 1000 rows is known to about 1 %
DISTANCE_BLOCK = 128  # rows whose distances are in memory at a time
ROUNDING = 1e-13  # of a squared distance, relative to the squared lengths


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

    indptr: Places
    indices: Columns
    values: Floats
    n_features: int

    def __init__(self, indptr: Places, indices: Columns, values: Floats, n_features: int):
        """Take arrays that keep the promises above, which is checked; `from_any` converts others."""
        width = checked_width(n_features, "n_features")
        indptr, indices = np.asarray(indptr), np.asarray(indices)
        values = np.ascontiguousarray(_as_float64(np.asarray(values), "values"))
        if not indptr.ndim == indices.ndim == values.ndim == 1:
            raise ParameterError("indptr, indices and values must have one dimension")
        shape, n_given = (len(indptr) - 1, width), len(indices)
        indptr, indices, ascending = _checked_structure(indptr, indices, len(values), shape, "a Dataset")
        if not indptr[-1] == n_given == len(values):
            raise ParameterError(
                f"indptr ends at {indptr[-1]}, expected the number of indices ({n_given}) and of values "
                f"({len(values)})"
            )
        if not ascending:
            raise ParameterError("indices must ascend within every row, without repeats")
        self._fill(indptr, indices, values, width)

    def _fill(self, indptr: Places, indices: Columns, values: Floats, n_features: int) -> None:
        put = object.__setattr__
        put(self, "indptr", _read_only(indptr))
        put(self, "indices", _read_only(indices))
        put(self, "values", _read_only(values))
        put(self, "n_features", int(n_features))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Dataset is never changed: {name} cannot be set")

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
        return sound_rows, (self.indptr, self.indices, self.values, self.n_features)

    @classmethod
    def from_any(cls, X: Any, name: str = "X") -> Dataset:
        """Convert a Dataset, a scipy.sparse matrix or array, a frame, or what numpy takes as a matrix."""
        if isinstance(X, Dataset):
            return X
        if isinstance(X, str | os.PathLike):
            raise ParameterError(
                f"{name} is the text '{os.fspath(X)}'; odmlib.read_data or read_table reads a file"
            )
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
        _check_conversion(X, name)
        rows = X.tocsr()
        data = rows.data
        indptr, indices, ascending = _checked_structure(
            rows.indptr, rows.indices, len(data), rows.shape, name
        )
        data = data[: indptr[-1]]  # there may be spare room behind
        if not ascending:  # scipy's own flag may be older than the arrays
            summed = type(rows)((data.copy(), indices, indptr), shape=rows.shape)
            summed.sum_duplicates()
            indptr, indices, data = summed.indptr.astype(np.int64), summed.indices, summed.data
        values = np.ascontiguousarray(_as_float64(data, name))
        return sound_rows(indptr, indices.astype(np.int32, copy=False), values, rows.shape[1])

    @classmethod
    def _from_dense(cls, X: Any, name: str) -> Dataset:
        refuse_masked(X, name)
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
        try:
            array = _as_float64(array, name)
        except ParameterError:
            _blame_column(X, array, name)
            raise
        if array.all():  # the values stay where they are
            return dense_rows(array)
        present = array != 0
        indptr = np.zeros(array.shape[0] + 1, dtype=np.int64)
        np.cumsum(present.sum(axis=1), out=indptr[1:])
        indices = np.nonzero(present)[1].astype(np.int32)
        return sound_rows(indptr, indices, array[present], array.shape[1])

    def to_scipy(self) -> csr_array:
        """The same rows as a scipy.sparse.csr_array; the values are shared, not copied."""
        from scipy.sparse import csr_array

        # scipy wants one width for both index arrays; the narrow one while it suffices
        width = np.int32 if self.n_nonzeros < 2**31 else np.int64
        indptr = self.indptr.astype(width)
        indices = self.indices.astype(width, copy=False)
        return csr_array((self.values, indices, indptr), shape=self.shape, copy=False)

    def dense_view(self) -> Floats:
        """The rows as a matrix not to be written to: no copy where every entry is stored."""
        full = self.n_nonzeros == self.n_rows * self.n_features
        return self.values.reshape(self.shape) if full else self.to_dense()

    def to_dense(self) -> Floats:
        """The same rows as a numpy matrix."""
        dense = np.zeros(self.shape)
        dense[self.row_of_each(), self.indices] = self.values
        return dense

    def row_of_each(self) -> Places:
        """The row to which each stored value belongs."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.indptr))

    def take(self, rows: Places) -> Dataset:
        """The given rows, in the given order."""
        indptr, indices, values = taken_rows(self.indptr, rows, self.indices, self.values)
        return sound_rows(indptr, indices, values, self.n_features)

    def part(self, first: int, last: int) -> Dataset:
        """The rows first .. last-1; their columns and values are shared."""
        if not 0 <= first <= last <= self.n_rows:
            raise IndexError(f"rows {first} to {last} of {self.n_rows}")
        values = slice(self.indptr[first], self.indptr[last])
        indptr = self.indptr[first : last + 1] - self.indptr[first]
        return sound_rows(indptr, self.indices[values], self.values[values], self.n_features)

    def kept(self, mask: NDArray[np.bool_], n_features: int, indices: Columns | None = None) -> Dataset:
        """The rows with only those stored values where `mask` is true; `indices` are their new columns."""
        indptr = np.concatenate([[0], np.cumsum(mask)])[self.indptr]
        columns = self.indices if indices is None else indices
        return sound_rows(indptr, columns[mask], self.values[mask], n_features)

    def with_features(self, n_features: int) -> Dataset:
        """The same rows told to have `n_features` columns; stored values beyond are left out."""
        if self.n_nonzeros == 0 or int(self.indices.max()) < n_features:
            return sound_rows(self.indptr, self.indices, self.values, n_features)
        return self.kept(self.indices < n_features, n_features)

    def used_columns(self) -> Columns:
        """Columns that hold at least one stored value, ascending."""
        return np.unique(self.indices)

    def on_columns(self, columns: Columns) -> Dataset:
        """The same rows on the given ascending columns only, renumbered from 0."""
        places = np.searchsorted(columns, self.indices)
        places[places == len(columns)] = 0
        kept = columns[places] == self.indices if len(columns) else np.zeros(len(places), dtype=bool)
        return self.kept(kept, len(columns), places.astype(np.int32))

    def compact(self, few: int) -> tuple[Dataset, Columns | None]:
        """The rows with their columns renumbered if there are more than stored values, and more than `few`.

        Second: the columns kept, or None when the numbers stay as they are.
        """
        if self.n_features <= max(few, self.n_nonzeros):
            return self, None
        columns = self.used_columns()
        return self.on_columns(columns), columns

    def squared_norms(self) -> Floats:
        """Squared Euclidean length of each row."""
        return squared_norms(self.indptr, self.values)

    def mean_distance(self, seed: int = 0) -> float:
        """Mean Euclidean distance between two rows; of many rows, between those of a random sample."""
        rows = self
        if self.n_rows > DISTANCE_ROWS:
            chosen = np.random.default_rng(seed).choice(self.n_rows, DISTANCE_ROWS, replace=False)
            rows = self.take(np.sort(chosen))
        if rows.n_rows < 2:
            return 0.0
        matrix, norms, total = rows.to_scipy(), rows.squared_norms(), 0.0
        for begin in range(0, rows.n_rows, DISTANCE_BLOCK):
            some = slice(begin, begin + DISTANCE_BLOCK)
            products = (matrix[some] @ matrix.T).toarray()
            squares = norms[some, None] + norms - 2 * products
            nothing = ROUNDING * (norms[some, None] + norms)  # of equal rows
            total += float(np.sqrt(np.where(squares > nothing, squares, 0.0)).sum())
        return total / (rows.n_rows * (rows.n_rows - 1))

    def variance(self, weights: Floats | None = None) -> float:
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


def column_names(X: Any) -> tuple[str, ...] | None:
    """The names of a frame's or an Arrow table's columns; None unless all are different texts."""
    names = getattr(X, "column_names", None) or getattr(X, "columns", None)
    if names is None or callable(names) or len(getattr(X, "shape", ())) != 2:
        return None
    listed = tuple(names)
    named = bool(listed) and all(isinstance(name, str) for name in listed)
    return listed if named and len(set(listed)) == len(listed) else None


def sound_rows(indptr: Places, indices: Columns, values: Floats, n_features: int) -> Dataset:
    """A Dataset of arrays that keep its promises by the way they were made: nothing is checked or copied."""
    rows = Dataset.__new__(Dataset)
    rows._fill(indptr, indices, values, n_features)
    return rows


def from_entries(rows: Places, columns: Places | Columns, values: Floats, shape: tuple[int, int]) -> Dataset:
    """Rows with the given entries, in any order; entries at the same place are added up."""
    order = np.lexsort((columns, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    if len(rows):
        new = np.ones(len(rows), dtype=bool)
        new[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
        starts = np.flatnonzero(new)
        rows, columns, values = rows[starts], columns[starts], np.add.reduceat(values, starts)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))]).astype(np.int64)
    return sound_rows(indptr, columns.astype(np.int32), values, shape[1])


def without_zeros(rows: Dataset) -> Dataset:
    """The same rows with no zero stored; the very same object where none is."""
    kept = rows.values != 0
    return rows if kept.all() else rows.kept(kept, rows.n_features)


def dense_rows(values: Floats) -> Dataset:
    """A matrix as rows in which every entry is stored, zeros too; contiguous values are shared."""
    n, width = values.shape
    columns = np.arange(width, dtype=np.int32)
    return sound_rows(
        np.arange(n + 1, dtype=np.int64) * width,
        columns if n == 1 else np.tile(columns, n),
        np.ascontiguousarray(values).reshape(-1),
        width,
    )


def stacked(parts: list[Dataset]) -> Dataset:
    """The rows of all parts (at least one), one part below the other, as wide as the widest."""
    ends = np.cumsum([part.n_nonzeros for part in parts])
    indptr = [part.indptr[1:] + end - part.n_nonzeros for part, end in zip(parts, ends, strict=True)]
    return sound_rows(
        np.concatenate([[0], *indptr]).astype(np.int64),
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.values for part in parts]),
        max(part.n_features for part in parts),
    )


def summed_rows(rows: Dataset, places: Places, n_places: int) -> Dataset:
    """Row j of the result is the sum of the rows i with places[i] = j."""
    shape = n_places, rows.n_features
    return from_entries(places[rows.row_of_each()], rows.indices, rows.values, shape)


def _check_width(width: int, name: str) -> None:
    if width > MAX_FEATURES:
        raise ParameterError(f"{name} has {width} features, the limit is {MAX_FEATURES}")


def _as_float64(array: NDArray, name: str) -> Floats:
    converted = array if array.dtype == np.float64 else _converted(array, name)
    flat = converted.reshape(-1) if converted.flags.c_contiguous else np.ravel(converted)
    if not all_finite(flat):
        first = ""
        if converted.ndim == 2:
            row, column = np.argwhere(~np.isfinite(converted))[0]
            first = f" ({name}[{row}, {column}] is {converted[row, column]})"
        raise ParameterError(f"{name} holds NaN or infinity; every value must be finite{first}")
    return converted


def _blame_column(X: Any, array: NDArray, name: str) -> None:
    """Raise ParameterError about the first column of a frame that holds text, if there is one."""
    names = column_names(X) if array.dtype.kind in "OSU" else None
    for place, title in enumerate(names or ()):
        text = next((value for value in array[:, place] if isinstance(value, str)), None)
        if text is not None:
            raise ParameterError(
                f"{name} cannot be read as numbers: column '{title}' holds text ({shown_value(text)}); "
                "pandas.get_dummies and odmlib.read_table(one_hot=True) make columns of 0 and 1 of it"
            ) from None


def _converted(array: NDArray, name: str) -> Floats:
    if array.dtype.kind == "c":
        raise ParameterError(f"{name} holds complex numbers, expected real ones")
    if array.dtype.kind not in "biufO":
        raise ParameterError(f"{name} holds {array.dtype}, expected numbers")
    try:
        with np.errstate(over="ignore"):  # infinity is refused by the caller
            return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ParameterError(f"{name} cannot be read as numbers: {error}") from None


def checked_width(given: Any, name: str) -> int:
    """A number of features that the user gave."""
    try:
        width = operator.index(given)
    except TypeError:
        raise ParameterError(f"{name} must be a whole number, found {shown_value(given)}") from None
    if not 0 <= width <= MAX_FEATURES:
        raise ParameterError(f"{name} must be from 0 to {MAX_FEATURES}, found {width}")
    return width


def _checked_structure(
    indptr: NDArray, indices: NDArray, n_values: int, shape: tuple[int, int], name: str
) -> tuple[Places, Columns, bool]:
    """Row offsets and columns in use as copies of our types, and whether the columns ascend in every row.

    The copies are what is checked: the caller may change the arrays meanwhile. ParameterError for those that
    point outside.
    """
    sound = indptr.dtype.kind in "iu" and (indices.dtype.kind in "iu" or not len(indices))
    if sound:
        indptr = indptr.astype(np.int64)
        sound = len(indptr) == shape[0] + 1 > 0 and indptr[0] == 0
        sound = sound and bool((indptr[1:] >= indptr[:-1]).all())
        sound = sound and int(indptr[-1]) <= min(len(indices), n_values)
    if sound:
        if indices.dtype not in (np.int32, np.int64):
            indices = indices.astype(np.int64)  # beyond its range a number becomes negative, which is refused
        columns, sound, ascending = copied_columns(indptr, np.ascontiguousarray(indices), shape[1])
    if not sound:
        raise ParameterError(f"{name} has index arrays that do not fit its shape {shape}")
    return indptr, columns, ascending


def _check_conversion(X: Any, name: str) -> None:
    """Refuse what scipy's own conversion to CSR would follow out of its arrays."""
    kind = getattr(X, "format", "")
    if kind in ("csc", "bsr"):
        height, width = X.blocksize if kind == "bsr" else (1, 1)
        shape = X.shape[0] // height, X.shape[1] // width
        _checked_structure(X.indptr, X.indices, len(X.data), shape if kind == "bsr" else shape[::-1], name)
    elif kind == "coo":
        for places, size in zip((X.row, X.col), X.shape, strict=True):
            if len(places) != len(X.data) or (
                len(places) and not 0 <= int(places.min()) <= int(places.max()) < size
            ):
                raise ParameterError(f"{name} has index arrays that do not fit its shape {X.shape}")


def _read_only(array: NDArray) -> NDArray:
    """The same memory, not to be written through this name; the caller's own array stays as it is."""
    view = array.view()
    view.flags.writeable = False
    return view


def refuse_masked(values: Any, name: str) -> None:
    """numpy would take what lies under a mask."""
    if type(values) is not np.ndarray and np.ma.is_masked(values):  # asking loads numpy.ma: 15 ms
        raise ParameterError(f"{name} has masked entries; fill them first")
