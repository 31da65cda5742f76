"""From rows in a file of blocks (data/row_store.py) to a linear model: odm, svm, odml, one-vs-rest."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.data.problem import class_weights_of_counts, require_class_sums
from odmlib.data.row_store import RowStore, StoredBlock
from odmlib.errors import ParameterError
from odmlib.losses.loss import MarginLoss
from odmlib.machines.building import all_parameters, formula_for, report_of
from odmlib.machines.machine import Machine
from odmlib.machines.odm import Odm
from odmlib.machines.odml import Odml
from odmlib.machines.svm import Svm
from odmlib.model.functions import LinearFunction
from odmlib.model.margin_parts import margin_part, margins_together
from odmlib.model.model import Model
from odmlib.model.schemes import margins_of, winners
from odmlib.options import TrainOptions
from odmlib.solvers.control import Control, Resources, SolverResult
from odmlib.solvers.distributed.streamed import (
    TUNING,
    Passes,
    Side,
    StreamedTask,
    StreamTuning,
    solve_streamed,
)
from odmlib.solvers.problem import LinearProblem
from odmlib.solvers.running import TaskRun

MACHINES: dict[str, type[Machine]] = {"odm": Odm, "svm": Svm, "odml": Odml}
MARGIN_POINTS = 200_000  # of all blocks together, from which the quantiles are told: 3 MB
# of the length of w that a task keeps: of L-BFGS its memory, gradients and directions
KEPT_VECTORS, KEPT_BY_DCD = 30, 12
KEPT_HESSIANS = 4  # of a task with few columns: the sum, what blocks add to it, and its factor
WIDEST_NEWTON = 1000  # columns, where the Hessians fit into a quarter of the memory

__all__ = ["StreamedFit", "check_streamed_options", "train_store"]


def check_streamed_options(options: TrainOptions) -> None:
    """ParameterError for what needs all rows in memory."""
    if options.machine not in MACHINES:
        known = ", ".join(MACHINES)
        raise ParameterError(f"a stream trains machines {known} (-s), found {options.machine}")
    if options.kernel != "linear":
        raise ParameterError(f"a stream needs kernel linear (-t 0), found {options.kernel}")
    if options.solver != "auto":
        raise ParameterError(f"a stream chooses its solver (--solver auto), found {options.solver}")
    if options.multiclass == "ovo":
        raise ParameterError("a stream trains several classes one-vs-rest (--multiclass ovr), found ovo")
    for name, flag in (
        ("probability", "-b"),
        ("coverage", "--coverage"),
        ("init", "--init"),
        ("sample_weight", "-W"),
        ("hard_margin", "--hard-margin"),
    ):
        value = getattr(options, name)
        if value is not None and value is not False:
            raise ParameterError(f"{name} ({flag}) is not available for a stream")


@dataclass(frozen=True)
class _StreamTask:
    """What TaskRun wants of a task."""

    output: int
    task: StreamedTask


@dataclass
class StreamedFit:
    """Models of a store, one for each fold that is left out, or the one of all rows."""

    store: RowStore
    sample: StoredBlock
    options: TrainOptions
    n_folds: int = 0
    machines: list[Machine] = field(default_factory=list)
    results: list[SolverResult] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.labels, self.codes = self.store.labels.order()
        self.threads = self.options.n_threads
        self.formula = formula_for(self.options, self.store.n_features, lambda: 0.0, lambda: 0.0)
        self.scheme = "binary" if len(self.labels) == 2 else "ovr"
        self.class_weights = np.ones(len(self.labels))  # by code, as stored
        self.class_weights[self.codes] = class_weights_of_counts(
            self.options.class_weight, self.labels, self.store.class_rows[self.codes]
        )
        self._require_classes(self.store.class_rows, self.store.class_weights)

    def _require_classes(self, n_rows: Any, weights: Floats) -> None:
        """What `Problem.require_classes` asks for; both by code, as stored."""
        weights = weights * self.class_weights
        require_class_sums(self.labels, n_rows[self.codes], weights[self.codes], self.options.machine)

    @property
    def n_outputs(self) -> int:
        return 1 if self.scheme == "binary" else len(self.labels)

    def solve(self) -> None:
        """All tasks of all folds: each pass serves as many as there is memory for."""
        options = self.options
        folds: list[int | None] = [*range(self.n_folds)] or [None]
        sums = self._left(len(folds))
        control = Control(options.tol, options.max_iter, options.time_limit, options.callback)
        tasks: list[StreamedTask] = []
        n_tasks = len(folds) * self.n_outputs
        tuning, task_bytes = self._method()
        most = max(1, options.cache_bytes // 4 // task_bytes)
        side_by_side = min(n_tasks, most, 64)
        passes = Passes(self.store, n_tasks, side_by_side, options.seed)
        for fold, (rows_left, left) in zip(folds, sums, strict=True):
            machine = MACHINES[options.machine](
                dataclasses.replace(options, callback=None), float(left.sum())
            )
            self.machines.append(machine)
            self._require_classes(rows_left, left)
            total = float(machine.costs(np.array([float(left @ self.class_weights)]))[0])
            for output in range(self.n_outputs):
                side = Side(int(self.codes[output]), self.class_weights, fold, self.n_folds, options.seed)
                args = len(tasks), side, machine.loss(), machine.costs, total, self.formula.bias
                tasks.append(StreamedTask(passes, *args, self.threads, self.sample, tuning))
        results: dict[int, SolverResult] = {}
        resources = Resources(self.threads, seed=options.seed)
        turn = threading.Lock()  # of solving the sample, which takes memory of its own

        def solve(task: _StreamTask, control: Control, threads: int) -> SolverResult:
            machine = self.machines[task.output // self.n_outputs]
            first = _first_weights(machine, control, resources, turn)
            return solve_streamed(task.task, control, first)

        def keep(task: _StreamTask, result: SolverResult) -> None:
            results[task.output] = result

        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # seen in the objective
            TaskRun(control, n_tasks).run(
                [_StreamTask(number, task) for number, task in enumerate(tasks)],
                solve,
                keep,
                threads=side_by_side,
            )
        self.results = [results[number] for number in range(n_tasks)]
        if not all(math.isfinite(result.primal) for result in self.results):
            raise ParameterError("training diverges; scale the features or lower C (-c)")

    def _method(self) -> tuple[StreamTuning, int]:
        """How tasks are solved in this memory, and what one of them keeps."""
        n = self.store.n_features + 1
        widest = int(math.sqrt(self.options.cache_bytes / 4 / (8 * KEPT_HESSIANS)))
        narrow = max(TUNING.narrow_columns, min(widest, WIDEST_NEWTON))
        tuning = dataclasses.replace(TUNING, narrow_columns=narrow)
        if n <= narrow:
            return tuning, 8 * n * (KEPT_VECTORS + KEPT_HESSIANS * n)
        return tuning, 8 * n * (KEPT_VECTORS if self.options.machine == "odml" else KEPT_BY_DCD)

    def _left(self, n: int) -> list[tuple[Any, Floats]]:
        """By class (as stored) the number of each fold's training rows, and the sums of their weights."""
        if not self.n_folds:
            return [(self.store.class_rows, self.store.class_weights)]
        n_labels = len(self.labels)
        n_rows, weights = np.zeros((n, n_labels), dtype=np.int64), np.zeros((n, n_labels))
        side = Side(0, self.class_weights, 0, self.n_folds, self.options.seed)
        for block in self.store.blocks():
            places = side.folds(block) * n_labels + block.codes
            n_rows += np.bincount(places, minlength=n * n_labels).reshape(n, n_labels)
            weights += np.bincount(places, block.weights, minlength=n * n_labels).reshape(n, n_labels)
        n_rows = self.store.class_rows - n_rows
        weights = np.where(n_rows > 0, self.store.class_weights - weights, 0.0)  # no rests of rounding
        return list(zip(n_rows, weights, strict=True))

    def weights(self, fold: int = 0) -> Floats:
        """A column per output."""
        first = fold * self.n_outputs
        return np.stack([one.weights for one in self.results[first : first + self.n_outputs]], axis=1)


def _first_weights(
    machine: Machine, control: Control, resources: Resources, turn: threading.Lock
) -> Callable[[LinearProblem, MarginLoss], Floats | None]:
    """The solution on the sample, by the solvers of data in memory."""

    def solve(problem: LinearProblem, loss: MarginLoss) -> Floats | None:
        seen = problem.costs > 0
        if len(set(problem.y[seen].tolist())) < 2:  # too few rows to learn from
            return None
        original = dataclasses.replace(problem, loss=loss)
        with turn:
            result = machine.linear_engine()(original, control.part(), resources)
        return result.weights if np.isfinite(result.weights).all() else None

    return solve


def train_store(store: RowStore, sample: StoredBlock, options: TrainOptions) -> Model:
    """A linear model of all rows of the store; never warns."""
    started = time.perf_counter()
    fit = StreamedFit(store, sample, options)
    fit.solve()
    weights, bias = fit.weights(), fit.formula.bias
    features = weights[: store.n_features]
    used = np.flatnonzero(features.any(axis=1)).astype(np.int32)
    bias_weights = weights[-1] if bias > 0 else np.zeros(fit.n_outputs)
    function = LinearFunction(used, features[used], bias, bias_weights)
    margin, right = _margins(fit, function)
    parameters = all_parameters(fit.machines[0].parameters(), fit.formula, options)
    model = Model(
        options.machine,
        fit.formula,
        fit.labels,
        store.n_features,
        function,
        parameters,
        {},
        scheme=fit.scheme,
    )
    details = {"passes": store.passes, "blocks": store.n_blocks, "sample_rows": sample.rows.n_rows}
    details |= {"right": right} | (fit.results[0].details if len(fit.results) == 1 else {})
    model.report.update(
        report_of(
            model,
            fit.results,
            time.perf_counter() - started,
            options.seed,
            rows=store.n_rows,
            nonzeros=store.n_nonzeros,
            threads=fit.threads,
            margin=margin,
            details=details,
        )
    )
    if len(fit.results) > 1:
        names = model.report["labels"]
        model.report["tasks"] = [
            {"labels": [names[place]], "status": one.status, "iterations": one.iterations}
            | {"primal": one.primal, "gap": one.gap, "support_vectors": None}
            for place, one in enumerate(fit.results)
        ]
    return model


def _margins(fit: StreamedFit, function: LinearFunction) -> tuple[dict[str, Any], int]:
    """The margin distribution of the training rows, and how many are predicted rightly: one pass."""
    place = np.empty(len(fit.codes), dtype=np.int64)
    place[fit.codes] = np.arange(len(fit.codes))
    side = Side(0, fit.class_weights)
    parts, right = [], 0
    points = max(20, MARGIN_POINTS // fit.store.n_blocks)
    with np.errstate(over="ignore", invalid="ignore"):
        for block in fit.store.blocks():
            scores, codes = function.scores(block.rows, fit.threads), place[block.codes]
            margins = margins_of(fit.scheme, scores, codes, len(fit.labels))
            right += int((winners(fit.scheme, scores, len(fit.labels)) == codes).sum())
            parts.append(margin_part(margins, side.weights(block), np.ones(len(margins)), points))
    return margins_together(parts), right


def cross_validate_store(
    store: RowStore, sample: StoredBlock, options: TrainOptions, n_folds: int
) -> tuple[float, int]:
    """(accuracy, folds that did not converge); rows go to folds by their numbers, not by their classes."""
    fit = StreamedFit(store, sample, options, n_folds)
    fit.solve()
    bias, width = fit.formula.bias, store.n_features
    place = np.empty(len(fit.codes), dtype=np.int64)
    place[fit.codes] = np.arange(len(fit.codes))
    weights = np.concatenate([fit.weights(fold) for fold in range(n_folds)], axis=1)
    everywhere = np.arange(width, dtype=np.int32)
    function = LinearFunction(
        everywhere, weights[:width], bias, weights[-1] if bias > 0 else np.zeros(weights.shape[1])
    )
    side, right = Side(0, fit.class_weights, 0, n_folds, options.seed), 0
    for block in store.blocks():
        scores = function.scores(block.rows, fit.threads).reshape(block.rows.n_rows, n_folds, fit.n_outputs)
        own = scores[np.arange(block.rows.n_rows), side.folds(block)]
        right += int((winners(fit.scheme, own, len(fit.labels)) == place[block.codes]).sum())
    ended = np.array([one.status != "converged" for one in fit.results]).reshape(n_folds, -1)
    return right / store.n_rows, int(ended.any(axis=1).sum())
