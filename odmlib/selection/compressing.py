"""odmlib.compress: a kernel model with fewer support vectors, and what changes (model/compression.py)."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Floats
from odmlib.data.dataset import Dataset
from odmlib.data.problem import Problem, check_targets
from odmlib.errors import ParameterError
from odmlib.losses.sums import values as losses
from odmlib.machines.machine import Machine
from odmlib.machines.odm import Odm
from odmlib.machines.svm import Svm
from odmlib.machines.tasks import make_tasks
from odmlib.model.compression import TUNING, Compression, CompressionTuning, FitRows
from odmlib.model.functions import KernelFunction, LinearFunction, PrecomputedFunction, RoutedFunction
from odmlib.model.label_sets import LOWEST
from odmlib.model.margins import margin_summary
from odmlib.model.model import Model
from odmlib.model.regression import check_shape
from odmlib.model.schemes import margins_of
from odmlib.options import TrainOptions
from odmlib.threads import resolve_threads

USUAL_ERROR = 0.1  # of a score, on the rows: a tenth of the margin that machines aim at ...
NO_MARGINS = ("odmr", "odmo")  # ... or, where they aim at none, of the scores' standard deviation
FIRST = 16  # vectors of the first trial
PRECISION = 1 / 16  # of the number of vectors that a search finds
LITTLE = 0.01  # a change of the probabilities below which the model keeps its sigmoids
SAME_OBJECTIVE = 1e-4  # relative: rows with this objective are those of the training; float32 rows differ

# machines whose objective is 1/2 |f|^2 and a loss per row
OBJECTIVES: dict[str, type[Machine]] = {"odm": Odm, "svm": Svm, "sodm": Odm}


def compress(
    model: Model,
    X: Any = None,
    y: Any = None,
    *,
    vectors: int | None = None,
    error: float | None = None,
    accuracy_loss: float | None = None,
    threads: int | None = None,
    tuning: CompressionTuning = TUNING,
) -> Model:
    """The same model with fewer support vectors; its report says under `compression` what has changed.

    X: rows on which the scores should stay, best those of the training; None: the support vectors
    y: their labels (odmr: targets), for `accuracy_loss` and for the change of objective or errors
    vectors: so many support vectors at most; or
    error: as few as keep every score of X within this distance (default 0.1; odmr, odmo: a tenth of the
        standard deviation of the scores); or
    accuracy_loss: as few as lose at most so many points (hundredths) of accuracy on X, y

    >>> import odmlib
    >>> X, y = odmlib.read_data("data/wdbc.train.txt")
    >>> model = odmlib.train(X, y)
    >>> smaller = odmlib.compress(model, X, y, vectors=40)
    >>> smaller.n_support
    40
    """
    started = time.perf_counter()
    function = check_compressible(model)
    given = {"vectors": vectors, "error": error, "accuracy_loss": accuracy_loss}
    _check_given(given, model, X is not None, y is not None)
    rows = function.vectors if X is None else model.fitting(X)
    labels = None
    if y is not None:
        labels = check_targets(y) if model.is_regression else np.asarray(y).ravel()
    if labels is not None and len(labels) != rows.n_rows:
        raise ParameterError(f"X has {rows.n_rows} rows but y has {len(labels)} labels")
    if labels is not None and model.is_regression:
        check_shape(np.empty((rows.n_rows, model.n_outputs)), labels)
    if rows.n_rows == 0:
        raise ParameterError("X has no rows; the scores of at least one are needed")
    run = _Run(model, function, rows, labels, resolve_threads(threads), tuning)
    smaller = run.smallest(given)
    compressed = run.finished(smaller)
    compressed.report["compression"]["seconds"] = time.perf_counter() - started
    return compressed


def compress_trained(model: Model, problem: Problem, options: TrainOptions) -> Model:
    """The model that training with `max_vectors` returns."""
    most = options.max_vectors
    if most is None or model.n_support is None or model.n_support <= most:
        return model
    known = problem.codes >= 0
    rows = problem.rows if known.all() else problem.rows.take(np.flatnonzero(known))
    codes = problem.codes[known]
    smaller = compress(model, rows, model.labels[codes], vectors=most, threads=options.threads)
    if model.training_margins is None:
        return smaller
    margins = model.training_margins.copy()  # those of rows without a label stay as training found them
    scores = smaller.function.scores(rows, options.n_threads)
    margins[known] = margins_of(model.scheme, scores, codes, model.n_classes)
    smaller.report["margin"] = margin_summary(margins, problem.weights)
    return dataclasses.replace(smaller, training_margins=margins)


def check_compressible(model: Model) -> KernelFunction:
    """The function of a model that has vectors to leave out; ParameterError for others."""
    match model.function:
        case LinearFunction():
            raise ParameterError("a linear model has weights instead of support vectors; it is small already")
        case PrecomputedFunction():
            raise ParameterError(
                "a model of a precomputed kernel cannot be compressed: it holds the numbers of its rows, not "
                "the rows"
            )
        case function:
            return function


def _check_given(given: dict[str, Any], model: Model, has_rows: bool, has_labels: bool) -> None:
    wanted = [name for name, value in given.items() if value is not None]
    if len(wanted) > 1:
        raise ParameterError(f"give one of vectors, error and accuracy_loss, found {' and '.join(wanted)}")
    n = given["vectors"]
    if n is not None and (isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1):
        raise ParameterError(f"vectors must be a whole number of 1 or more, found {n!r}")
    for name in ("error", "accuracy_loss"):
        value = given[name]
        if value is not None and not (isinstance(value, int | float) and 0 <= value < math.inf):
            raise ParameterError(f"{name} must be a finite number of 0 or more, found {value!r}")
    if given["accuracy_loss"] is not None and model.is_regression:
        raise ParameterError(f"accuracy_loss is for models that tell classes apart, found {model.machine}")
    if given["accuracy_loss"] is not None and not (has_rows and has_labels):
        raise ParameterError("accuracy_loss needs rows with labels to measure the accuracy on")


class _Run:
    """One model on its way to fewer vectors, with what is measured on the rows."""

    def __init__(
        self,
        model: Model,
        function: KernelFunction,
        rows: Dataset,
        labels: NDArray | None,
        threads: int,
        tuning: CompressionTuning,
    ):
        self.model, self.function, self.rows, self.labels = model, function, rows, labels
        self.threads = threads
        self.before = function.scores(rows, threads)
        self.places = None if model.is_regression else model.positions_for(self.before)
        sums = self.before + function.offsets if not isinstance(function, RoutedFunction) else None
        if sums is None:  # the functions of all regions, and those that say where a row belongs
            plain = KernelFunction(function.formula, function.vectors, function.terms)
            sums = plain.scores(rows, threads)
        classes = np.zeros(rows.n_rows, dtype=np.int64) if self.places is None else self.places
        fit_rows = FitRows(rows, sums, classes)
        self.compression = Compression(function, fit_rows, model.n_classes, model.scheme, threads, tuning)

    def smallest(self, given: dict[str, Any]) -> KernelFunction:
        """The function with the fewest vectors that keeps what is asked for."""
        if given["vectors"] is not None:
            return self.compression.at(given["vectors"]) if self._fewer(given["vectors"]) else self.function
        if given["accuracy_loss"] is not None:
            allowed = self._accuracy(self.places) - given["accuracy_loss"] / 100 - 1e-12

            def good(scores: Floats) -> bool:
                return self._accuracy(self.model.positions_for(self._decided(scores))) >= allowed
        else:
            aim = self.before.std(axis=0) if self.model.machine in NO_MARGINS else 1.0
            most = USUAL_ERROR * aim if given["error"] is None else given["error"]

            def good(scores: Floats) -> bool:
                return bool(np.all(np.abs(scores - self.before).max(axis=0) <= most))

        return self._search(good)

    def _fewer(self, n: int) -> bool:
        return n < self.function.n_vectors

    def _search(self, good: Callable[[Floats], bool]) -> KernelFunction:
        """Ever more vectors, twice as many each time, until they are enough; then between the last two."""
        low, high = 0, FIRST
        best = None
        while best is None:
            if not self._fewer(high):
                high, best = self.function.n_vectors, self.function
                break
            trial = self.compression.at(high)
            if good(trial.scores(self.rows, self.threads)):
                best, high = trial, trial.n_vectors
            elif trial.n_vectors < high:  # the others lie in their span: more change nothing
                return self.function
            else:
                low, high = high, 2 * high
        while high - low > max(1, PRECISION * high):
            middle = (low + high) // 2
            trial = self.compression.at(middle)
            if good(trial.scores(self.rows, self.threads)):
                best, high = trial, middle
            else:
                low = middle
        return best

    def _decided(self, scores: Floats) -> Floats:
        """The decision values of a model with these scores.

        The threshold of novelty detection gives way by the largest change, so that a row that is no novelty
        does not become one.
        """
        if "conformal_scores" not in self.model.lists:
            return scores
        return scores + np.abs(scores - self.before).max()

    def _accuracy(self, places: Any) -> float:
        assert self.labels is not None
        return float(np.mean(self.model.known_codes(self.labels) == places))

    def finished(self, smaller: KernelFunction) -> Model:
        """The model with the smaller function, its probabilities, and the report of what changed."""
        model = self.model
        after = smaller.scores(self.rows, self.threads)
        change = np.abs(after - self.before)
        norms = self.compression.norm_of_change(smaller)
        found: dict[str, Any] = {
            "vectors_before": self.function.n_vectors,
            "vectors": smaller.n_vectors,
            "rows": self.rows.n_rows,
            "largest_change": float(change.max()),
            "mean_change": float(change.mean()),
            "labels_changed": None,
            "norm_of_change": None if norms is None else float(norms.max()),
            "accuracy_before": None,
            "accuracy": None,
            "mean_squared_error_before": None,
            "mean_squared_error": None,
            "objective": None,
            "probability": None,
        }
        if self.places is not None:
            places = model.positions_for(self._decided(after))
            found["labels_changed"] = int(np.count_nonzero(places != self.places))
            if self.labels is not None:
                found["accuracy_before"] = self._accuracy(self.places)
                found["accuracy"] = self._accuracy(places)
                found["objective"] = self._objectives(smaller, after)
        elif self.labels is not None:
            found["mean_squared_error_before"] = float(np.mean(np.square(self.before - self.labels)))
            found["mean_squared_error"] = float(np.mean(np.square(after - self.labels)))
        extras = dict(model.extras)
        if "coverage_margins" in extras:  # a margin moves by no more than the scores it is made of
            moved = found["largest_change"] * (1 if model.scheme in ("binary", "ovo") else 2)
            extras["coverage_margins"] = tuple(max(LOWEST, t - moved) for t in extras["coverage_margins"])
        if "probability_slopes" in extras:
            fitted, found["probability"] = self._probabilities(after)
            extras |= fitted
        lists = dict(model.lists)
        if "residual_scores" in lists:  # both ends of an interval give way
            ends = zip(lists["residual_scores"], lists["residual_levels"], strict=True)
            moved = found["largest_change"]
            lists["residual_scores"] = tuple(t - moved if level <= 0.5 else t + moved for t, level in ends)
        if "conformal_scores" in lists:
            smaller = dataclasses.replace(smaller, offsets=smaller.offsets - found["largest_change"])
        report = {**model.report, "support_vectors": smaller.n_vectors, "compression": found}
        report["compressed_from"] = model.report.get("compressed_from") or self.function.n_vectors
        if found["objective"] is not None:
            report |= {"primal": found["objective"]["after"], "gap": found["objective"]["gap_after"]}
        if "novelty" in report:
            report["novelty"] = {**report["novelty"], "threshold": float(smaller.offsets[0])}
        return dataclasses.replace(
            model,
            function=smaller,
            extras=extras,
            lists=lists,
            report=report,
            training_margins=None,
            assigned=None,
        )

    def _objectives(self, smaller: KernelFunction, after: Floats) -> dict[str, float] | None:
        """The objective of the training before and after; None unless the rows are those of the training."""
        model, primal, dual = self.model, self.model.report["primal"], self.model.report["dual"]
        machine = OBJECTIVES.get(model.machine)
        if machine is None or primal is None or dual is None or isinstance(smaller, RoutedFunction):
            return None
        try:
            problem = Problem.from_arrays(self.rows, self.labels)
        except ParameterError:
            return None
        if not np.array_equal(problem.labels, model.labels):
            return None
        names = ("C", "nu", "theta")
        values = {name: model.parameters[name] for name in names if name in model.parameters}
        made = machine(TrainOptions(machine=model.machine, **values), problem.total_weight)
        before = _objective(model, self.function, self.before, problem, made, self.threads)
        if not abs(before - primal) <= SAME_OBJECTIVE * abs(primal):
            return None
        new = _objective(model, smaller, after, problem, made, self.threads)
        return {
            "before": before,
            "after": new,
            "gap_before": model.report["gap"],
            "gap_after": max(0.0, (new - dual) / abs(new)) if new else 0.0,
        }

    def _probabilities(self, after: Floats) -> tuple[dict[str, Any], str]:
        """Numbers of the sigmoids for the new scores, and where they are from."""
        model = self.model
        old = model.probabilities_for(self.before)
        if float(np.abs(model.probabilities_for(after) - old).max()) <= LITTLE:
            return {}, "kept"
        slopes, offsets = (np.array(model.extras[f"probability_{name}"]) for name in ("slopes", "offsets"))
        means = after.mean(axis=0)
        spread = np.square(after - means).sum(axis=0)
        shared = ((after - means) * (self.before - self.before.mean(axis=0))).sum(axis=0)
        scale = np.divide(shared, spread, out=np.ones_like(spread), where=(spread > 0) & (shared > 0))
        moved = self.before.mean(axis=0) - scale * means  # old score = scale new score + moved
        fitted = {
            "probability_slopes": tuple((slopes * scale).tolist()),
            "probability_offsets": tuple((offsets + slopes * moved).tolist()),
        }
        return fitted, "fitted to the old ones"


def _objective(
    model: Model, function: KernelFunction, scores: Floats, problem: Problem, machine: Machine, threads: int
) -> float:
    """1/2 |f|^2 + sum of the losses, of all tasks together."""
    own = function.scores(function.vectors, threads) + function.offsets
    terms = function.terms
    total = float(terms.values @ own[terms.row_of_each(), terms.indices]) / 2
    for task in make_tasks(problem, model.scheme):
        rows = slice(None) if task.rows is None else task.rows
        margins = task.signs * scores[rows, task.output]
        total += float(losses(machine.loss(), margins, machine.costs(task.weights)).sum())
    return total
