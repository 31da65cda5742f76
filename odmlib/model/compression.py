"""Fewer vectors for a kernel function: which ones to keep, and their coefficients.

docs/internals/mathematics.md has the mathematics and the bound (Compression).

The vectors are chosen greedily. Each step takes the vector that lowers |f - g|^2 most, where g is the
projection of f onto the span of those chosen: r(z)^2 / d(z), with r = f - g summed over the outputs and d(z)
the squared distance of k(z, .) to the span. The steps are made in rounds: a round looks only at the vectors
with the largest residuals, and all residuals are computed anew between two rounds. So no matrix of all
vectors is ever held. The largest arrays have (vectors kept)^2 and vectors x outputs entries.

The coefficients minimise |f - g|^2 + sum over the rows of (f(x) - g(x))^2. One-vs-one with many classes: a
vector keeps to the duels of its class, as it did before, so that the coefficients stay sparse. With few
classes every vector serves all duels, which needs fewer vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Codes, Floats, Places
from odmlib.data.dataset import Dataset, from_entries, stacked
from odmlib.errors import ParameterError
from odmlib.kernels.expansion import kernel_scores
from odmlib.kernels.kernel import Kernel
from odmlib.kernels.shift import needed_shift, surely_positive
from odmlib.model.functions import KernelFunction
from odmlib.model.schemes import class_pairs
from odmlib.solvers.distributed.landmarks import coefficients as from_features
from odmlib.solvers.linalg.dense import PositiveFactor, dense_gram, forward_substitution


@dataclass(frozen=True)
class CompressionTuning:
    """`python -m benchmarks.compress --refit` measures `rows_weight` 0, 1 and 1000."""

    growth: float = 0.25  # vectors of a round, as a part of those chosen before it ...
    least_round: int = 16  # ... but at least so many,
    largest_round: int = 512  # and at most: a round holds (looked_at x this)^2 numbers, 32 MB
    looked_at: int = 4  # vectors that a round looks at for each that it takes
    negligible: float = 1e-10  # of the largest k(x, x): a squared distance that small is rounding
    rows_weight: float = 1.0  # of the scores on the rows in the fit; 0: the projection
    fit_rows: int = 20_000  # rows that the fit sees at most ...
    fit_rows_per_vector: int = 8  # ... or so many for each vector, where that is more
    map_work: float = 32.0  # multiply-adds that the map of one kernel value costs
    coefficient_work: float = 4.0  # of them in the time of one coefficient: pendigits, 45 duels, 904 vectors
    dense_work: float = 2.0  # one-vs-one: all duels for all vectors while that costs at most so many times
    block_values: int = 1 << 22  # kernel values held at a time: 32 MB


TUNING = CompressionTuning()


@dataclass(frozen=True)
class FitRows:
    """Rows on which the scores should stay; `codes`: their classes by the function, for one-vs-one."""

    rows: Dataset
    scores: Floats  # of the function, (rows x outputs), its offsets not subtracted
    codes: Codes


class Compression:
    """A function on its way to fewer vectors. `at(n)` is the one of n; those of fewer are part of it."""

    def __init__(
        self,
        function: KernelFunction,
        fit_rows: FitRows,
        n_classes: int,
        scheme: str,
        threads: int = 1,
        tuning: CompressionTuning = TUNING,
    ):
        self.function, self.threads, self.tuning = function, threads, tuning
        self.kernel = Kernel(function.formula, function.vectors, threads)
        self.shift = needed_shift(self.kernel)
        self.diagonal = self.kernel.diagonal() + self.shift
        self.n_outputs = function.terms.n_features
        self.scores = self._sums(function, function.vectors)
        self.fit_rows = fit_rows
        self.pairs = class_pairs(n_classes) if scheme == "ovo" and self._many(n_classes) else None
        self.classes = _classes_of(function.terms, *self.pairs, n_classes) if self.pairs is not None else None
        self.chosen = np.empty(0, dtype=np.int64)
        self.factor = np.empty((0, 0))  # of the kernel matrix of those chosen
        self.complete = False  # whether the others lie in their span

    def at(self, n: int) -> KernelFunction:
        """The function of the best n vectors; fewer where the others lie in their span."""
        while len(self.chosen) < n and not self.complete:
            self._choose(n - len(self.chosen))
        n = min(n, len(self.chosen))
        order = np.sort(self.chosen[:n])
        return self._function(order, self._terms(order, self.fit_rows))

    def norm_of_change(self, smaller: KernelFunction) -> Floats | None:
        """|f - g| of every output; None where the kernel has no such norm for sure."""
        if not surely_positive(self.function.formula):
            return None
        ours = self._sums(self.function, smaller.vectors)
        theirs = self._sums(smaller, smaller.vectors)
        whole = _products(self.function.terms, self.scores)
        change = whole - 2 * _products(smaller.terms, ours) + _products(smaller.terms, theirs)
        return np.sqrt(np.maximum(change, 0.0))

    def _many(self, n_classes: int) -> bool:
        """Whether all duels for all vectors would cost too much when the function predicts."""
        vectors, tuning = self.function.vectors, self.tuning
        kernel_work = vectors.n_nonzeros / max(1, vectors.n_rows) + tuning.map_work
        kernel_work /= tuning.coefficient_work
        return kernel_work + self.n_outputs > tuning.dense_work * (kernel_work + n_classes - 1)

    def _sums(self, function: KernelFunction, rows: Dataset) -> Floats:
        return kernel_scores(function.formula, function.vectors, function.terms, rows, self.threads)

    def _function(self, kept: Places, terms: Dataset) -> KernelFunction:
        ours = self.function
        rows = None if ours.rows is None else ours.rows[kept]
        return type(ours)(ours.formula, ours.vectors.take(kept), terms, ours.offsets, rows)

    # -- which vectors

    def _choose(self, wanted: int) -> None:
        """One round."""
        tuning, before = self.tuning, len(self.chosen)
        count = min(wanted, max(tuning.least_round, int(tuning.growth * before)), tuning.largest_round)
        residuals = self._residuals()
        sizes = np.einsum("ij,ij->i", residuals, residuals)
        sizes[self.chosen] = -1.0
        looked_at = min(len(sizes) - before, tuning.looked_at * max(count, tuning.least_round))
        some = np.sort(np.argsort(-sizes, kind="stable")[:looked_at])
        features = np.empty((len(some), before))
        if before:
            across = self.kernel.block(self.chosen, onto=self.kernel.restricted(some), wide=True)
            forward_substitution(self.factor, across, features, self.threads)
        matrix = self._kernel_matrix(some)
        if before:
            matrix -= dense_gram(np.ascontiguousarray(features.T), np.ones(before), self.threads)
        floor = tuning.negligible * float(self.diagonal.max())
        taken, columns = _greedy(matrix, residuals[some], count, floor)
        if len(taken) == 0:
            self.complete = True
            return
        factor = np.zeros((before + len(taken),) * 2)
        factor[:before, :before] = self.factor
        factor[before:, :before] = features[taken]
        factor[before:, before:] = np.tril(columns[taken])
        self.factor = factor
        self.chosen = np.concatenate([self.chosen, some[taken]])
        self.complete = len(self.chosen) == len(sizes)

    def _residuals(self) -> Floats:
        """f - g on all vectors; one-vs-one: 0 in the duels of others."""
        if not len(self.chosen):
            return self._in_own_duels(self.scores.copy())
        if self.shift > 0:
            terms = self._terms(self.chosen, self.fit_rows)
        elif self.pairs is None:
            features = np.empty((self.n_outputs, len(self.chosen)))
            right = np.ascontiguousarray(self.scores[self.chosen])
            forward_substitution(self.factor, right, features, self.threads)
            terms = Dataset.from_any(from_features(self.factor, features.T))
        else:
            terms = self._terms(self.chosen, None)
        projected = self._sums(self._function(self.chosen, terms), self.function.vectors)
        return self._in_own_duels(self.scores - projected)

    def _in_own_duels(self, values: Floats) -> Floats:
        if self.pairs is not None:
            for output, (first, second) in enumerate(zip(*self.pairs, strict=True)):
                values[(self.classes != first) & (self.classes != second), output] = 0.0
        return values

    # -- their coefficients

    def _terms(self, kept: Places, fit_rows: FitRows | None) -> Dataset:
        """Coefficients of the vectors kept: fitted to the scores of the rows too, where those are given."""
        members, outputs, values = [], [], []
        for some, which, rows in self._parts(kept, fit_rows):
            found = self._fitted(kept[some], which, rows)
            members.append(np.repeat(some, len(which)))
            outputs.append(np.tile(which, len(some)))
            values.append(found.reshape(-1))
        if not values:
            return from_entries(
                np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), (len(kept), self.n_outputs)
            )
        shape = len(kept), self.n_outputs
        return from_entries(np.concatenate(members), np.concatenate(outputs), np.concatenate(values), shape)

    def _parts(
        self, kept: Places, fit_rows: FitRows | None
    ) -> Iterator[tuple[Places, Places, FitRows | None]]:
        """Outputs that share their vectors and rows: positions in `kept`, the outputs, and the rows."""
        if not len(kept):  # f is 0
            return
        if self.pairs is None or self.classes is None:
            yield np.arange(len(kept)), np.arange(self.n_outputs), self._sampled(fit_rows, len(kept))
            return
        for output, (first, second) in enumerate(zip(*self.pairs, strict=True)):
            some = np.flatnonzero((self.classes[kept] == first) | (self.classes[kept] == second))
            if len(some) == 0:
                continue
            rows = fit_rows
            if rows is not None:
                rows = _taken(rows, np.flatnonzero((rows.codes == first) | (rows.codes == second)))
            yield some, np.array([output]), self._sampled(rows, len(some))

    def _sampled(self, rows: FitRows | None, n_vectors: int) -> FitRows | None:
        if rows is None:
            return None
        most = max(self.tuning.fit_rows, self.tuning.fit_rows_per_vector * n_vectors)
        if rows.rows.n_rows <= most:
            return rows
        drawn = np.random.default_rng(0).choice(rows.rows.n_rows, most, replace=False, shuffle=False)
        return _taken(rows, np.sort(drawn))

    def _fitted(self, vectors: Places, outputs: Places, rows: FitRows | None) -> Floats:
        """(K_ZZ + w K_ZX K_XZ)^-1 (f(Z) + w K_ZX f(X)): a column per output.

        A kernel that is not positive semidefinite has no norm: only the rows count.
        """
        matrix, right = self._kernel_matrix(vectors), self.scores[vectors][:, outputs]
        if rows is not None and self.tuning.rows_weight > 0:
            sums = self.tuning.rows_weight * self._products_on_rows(vectors, outputs, rows)
            n, norm = len(vectors), float(self.shift == 0)
            matrix, right = norm * matrix + sums[:n, :n], norm * right + sums[:n, n:]
        factor = _factor(matrix)
        return np.column_stack([factor.solve(np.ascontiguousarray(column)) for column in right.T])

    def _products_on_rows(self, vectors: Places, outputs: Places, given: FitRows) -> Floats:
        """[K f]' [K f] over the rows, K between rows and vectors, in blocks of rows."""
        n = len(vectors) + len(outputs)
        total, chosen = np.zeros((n, n)), self.function.vectors.take(vectors)
        step = max(256, self.tuning.block_values // n)
        for begin in range(0, given.rows.n_rows, step):
            part = slice(begin, min(begin + step, given.rows.n_rows))
            both = stacked([chosen, given.rows.part(part.start, part.stop)])
            kernel = Kernel(self.function.formula, both, self.threads)
            rows = np.arange(len(vectors), both.n_rows)
            values = kernel.block(rows, onto=kernel.restricted(np.arange(len(vectors))), wide=True)
            values = np.column_stack([values, given.scores[part][:, outputs]])
            total += dense_gram(np.ascontiguousarray(values), np.ones(len(values)), self.threads)
        return total

    def _kernel_matrix(self, vectors: Places) -> Floats:
        order = np.argsort(vectors, kind="stable")  # a restriction wants ascending rows
        ascending = vectors[order]
        matrix = np.empty((len(vectors), len(vectors)))
        values = self.kernel.block(ascending, onto=self.kernel.restricted(ascending), wide=True)
        matrix[np.ix_(order, order)] = (values + values.T) / 2
        matrix.flat[:: len(vectors) + 1] = self.diagonal[vectors]
        return matrix


def _greedy(matrix: Floats, residuals: Floats, count: int, floor: float) -> tuple[Places, Floats]:
    """Pivots of a positive semidefinite matrix by residual^2 / pivot, and the columns of its factor."""
    distances, left = np.diagonal(matrix).copy(), residuals.copy()
    used = (residuals != 0).astype(np.float64)  # one-vs-one: the duels of others stay 0
    columns, taken = np.empty((len(matrix), count)), []
    for k in range(count):
        gains = np.einsum("ij,ij->i", left, left)
        gains = np.divide(gains, distances, out=np.zeros_like(gains), where=distances > floor)
        best = int(np.argmax(gains))
        if not gains[best] > 0:
            break
        root = np.sqrt(distances[best])
        column = (matrix[:, best] - columns[:, :k] @ columns[best, :k]) / root
        columns[:, k] = column
        left -= np.outer(column, left[best] / root) * used
        distances -= np.square(column)
        taken.append(best)
        distances[taken] = 0.0
    return np.array(taken, dtype=np.int64), columns[:, : len(taken)]


def _factor(matrix: Floats) -> PositiveFactor:
    """The factor of a matrix that is positive semidefinite up to rounding."""
    largest = float(np.diagonal(matrix).max())
    for power in range(-14, -3):
        lifted = matrix.copy()
        lifted.flat[:: len(matrix) + 1] += largest * 10.0**power
        if (factor := PositiveFactor.of(lifted, overwrite=True)) is not None:
            return factor
    raise ParameterError("the kernel values of the vectors overflow or are not a kernel; scale the data")


def _products(terms: Dataset, values: Floats) -> Floats:
    """sum over the vectors of coefficient x value, for every output."""
    of_each = terms.values * values[terms.row_of_each(), terms.indices]
    return np.asarray(np.bincount(terms.indices, of_each, minlength=terms.n_features), dtype=np.float64)


def _taken(given: FitRows, rows: Places) -> FitRows:
    return FitRows(given.rows.take(rows), given.scores[rows], given.codes[rows])


def _classes_of(terms: Dataset, first: Codes, second: Codes, n_classes: int) -> Codes:
    """The class of every vector: the one that has a part in all its duels; with one duel, by the sign."""
    seen = np.zeros((terms.n_rows, n_classes))
    vectors, signs = terms.row_of_each(), np.sign(terms.values) / 4
    np.add.at(seen, (vectors, first[terms.indices]), 1 + signs)
    np.add.at(seen, (vectors, second[terms.indices]), 1 - signs)
    return seen.argmax(axis=1)
