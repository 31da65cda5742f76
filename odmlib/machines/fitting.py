"""From a problem to a decision function, whatever the machine and the number of classes.

The data are prepared once: sparse rows for a linear machine, a Kernel for the others. Each task (tasks.py) is
solved on them by the machine, and leaves its part of the decision function and of the margins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset, from_entries
from odmlib.data.problem import Problem
from odmlib.kernels.cache import RowCache, bytes_for_all
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.kernels.shift import needed_shift
from odmlib.machines.machine import Begin, Effort, Machine, Task
from odmlib.machines.running import TaskRun
from odmlib.machines.starting import Start
from odmlib.machines.tasks import OpenRows, TrainingMargins, make_tasks
from odmlib.model.functions import Function, KernelFunction, LinearFunction, PrecomputedFunction
from odmlib.model.model import Model
from odmlib.model.schemes import n_outputs
from odmlib.options import TrainOptions
from odmlib.solvers.control import Control, SolverResult

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

FETCH_VALUES = 5e7  # kernel values computed between two looks at the clock
WORTHWHILE_ROWS = 200  # of a kernel task: from here on it pays to work on several at a time
WORTHWHILE_VALUES = 20_000  # of a linear one


@dataclass
class Fit:
    """A trained decision function and how it came about."""

    scheme: str
    function: Function
    results: list[SolverResult]  # one per task, without their arrays
    sides: list[tuple[int, int | None]]  # classes of each task; none where the machine is trained whole
    margins: Floats  # of every training row
    parameters: dict[str, Any]  # the machine's own
    details: dict[str, Any] = field(default_factory=dict)
    extras: dict[str, tuple[float, ...]] = field(default_factory=dict)  # of the model: model/extras.py
    assigned: NDArray[np.int64] | None = None  # classes found for the rows without a label
    notes: dict[str, Any] = field(default_factory=dict)  # further entries of the report


def fit_classes(
    make_machine: Callable[[TrainOptions, float], Machine],
    problem: Problem,
    formula: KernelFormula,
    options: TrainOptions,
    control: Control,
    init: Model | None,
    prepare: Prepare | None = None,
) -> Fit:
    """Train a binary machine on a problem of two or more classes; `prepare`: data of its own kind."""
    problem.require_classes(options.machine)
    machine = make_machine(options, problem.total_weight)
    scheme = "binary"
    if len(problem.labels) > 2:
        scheme = options.multiclass or machine.default_scheme(formula.name)
    start = None if init is None else Start(init, problem, scheme)
    linear = formula.name == "linear" and machine.linear_solver
    data = (prepare or (LinearData if linear else KernelData))(machine, problem, formula, scheme, start)
    memory = data.memory(control)
    n_tasks = n_outputs(scheme, len(problem.labels))
    margins = TrainingMargins(scheme, problem.rows.n_rows)
    open_rows = OpenRows(scheme, np.flatnonzero(problem.codes < 0), n_tasks)
    outcomes: dict[int, _Outcome] = {}

    def solve(task: Task, control: Control, threads: int) -> SolverResult:
        cache_bytes = min(options.cache_bytes, memory.need(task))
        return data.solve(task, Effort(control, threads, cache_bytes, memory.cache))

    def keep(task: Task, result: SolverResult) -> None:
        """Take what the model needs out of a result, before the next ones come."""
        assert result.margins is not None
        margins.add(task, result.margins)
        open_rows.add(task, result)
        part = data.part(task, result)
        result.weights = result.duals = result.margins = result.signs = None
        outcomes[task.output] = _Outcome(task.sides, result, part)

    TaskRun(control, n_tasks).run(
        make_tasks(problem, scheme),
        solve,
        keep,
        threads=options.n_threads,
        side_by_side=data.worth_a_thread() and (memory.cache is None or memory.cache.frozen),
        budget=options.cache_bytes,
        need=lambda task: 0 if memory.cache is not None else memory.need(task),
    )
    ordered = [outcomes[output] for output in range(n_tasks)]
    results = [outcome.result for outcome in ordered]
    offsets = np.array([result.offset for result in results])
    function = data.function([outcome.part for outcome in ordered], offsets)
    sides = [outcome.sides for outcome in ordered]
    shifts = [result.details["shift"] for result in results if "shift" in result.details]
    details = ({"shift": max(shifts)} if shifts else {}) | dict(data.details)
    extras = machine.extras(results)
    assigned = open_rows.assigned() if len(open_rows.rows) else None
    found = open_rows.complete(margins.result())
    return Fit(scheme, function, results, sides, found, machine.parameters(), details, extras, assigned)


@dataclass(frozen=True)
class _Outcome:
    sides: tuple[int, int | None]
    result: SolverResult
    part: tuple[Places, Floats]


@dataclass(frozen=True)
class _Memory:
    """Bytes that a task wants for kernel rows of its own, or a cache that all tasks share."""

    need: Callable[[Task], int]
    cache: RowCache | None = None


class LinearData:
    """Sparse rows, on the columns that hold values where most columns are empty."""

    details: Mapping[str, Any] = MappingProxyType({})  # for the report

    def __init__(
        self, machine: Machine, problem: Problem, formula: KernelFormula, scheme: str, start: Start | None
    ):
        self.machine, self.problem, self.bias, self.start = machine, problem, formula.bias, start
        self.scheme = scheme
        self.dataset = problem.rows
        self.columns = np.arange(min(self.dataset.n_features, self.dataset.n_nonzeros + 1), dtype=np.int32)
        if self.dataset.n_features > len(self.columns):  # more columns than values: most are empty
            self.columns = self.dataset.used_columns()
            self.dataset = self.dataset.on_columns(self.columns)
        self.rows = Rows(self.dataset, self.bias)

    def worth_a_thread(self) -> bool:
        """Whether an average task is more than the Python around it, which runs in one thread at a time."""
        return self.dataset.n_nonzeros * _task_share(self.problem, self.scheme) >= WORTHWHILE_VALUES

    def memory(self, control: Control) -> _Memory:
        return _Memory(lambda task: 0)

    def solve(self, task: Task, effort: Effort) -> SolverResult:
        rows = self.rows if task.rows is None else Rows(self.dataset.take(task.rows), self.bias)
        weights = None
        if self.start is not None:
            weights = self._weights_of(self.start, task)
            if weights is None:
                margins = self.start.margins(task, self.problem.rows, effort.threads)
                duals = self.machine.start_duals(margins, task, effort.threads)
                weights = rows.transposed_product(task.signs * duals, effort.threads)
        return self.machine.solve_linear(rows, task, effort, weights)

    def _weights_of(self, start: Start, task: Task) -> Floats | None:
        """Those of the model to begin from, if it has weights of these columns."""
        return start.weights(task, self.columns, self.bias)

    def part(self, task: Task, result: SolverResult) -> tuple[Places, Floats]:
        """Columns (the bias column last) with a weight that is not 0, and the weights."""
        assert result.weights is not None
        used = np.flatnonzero(result.weights)
        return used, result.weights[used]

    def function(self, parts: list[tuple[Places, Floats]], offsets: Floats) -> Function:
        terms = entries(parts, len(self.columns) + 1)
        used = np.flatnonzero(np.diff(terms.indptr[:-1]))
        bias_weights = terms.take(np.array([len(self.columns)])).to_dense()[0]
        return LinearFunction(self.columns[used], terms.take(used), self.bias, bias_weights, offsets)


class KernelData:
    """A kernel between all rows, made positive semidefinite where it is not (one-vs-one: pair by pair)."""

    details: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self, machine: Machine, problem: Problem, formula: KernelFormula, scheme: str, start: Start | None
    ):
        self.scheme = scheme
        self.machine, self.problem, self.formula, self.start = machine, problem, formula, start
        options, rows = machine.options, problem.rows
        self.precomputed = formula.name == "precomputed"
        self.kernel = Kernel(formula, rows.dense_view() if self.precomputed else rows, options.n_threads)
        # a part of a positive semidefinite matrix is one too
        self.shift = needed_shift(self.kernel, options.seed)
        if scheme != "ovo":
            self.kernel.shift_diagonal(self.shift)

    def worth_a_thread(self) -> bool:
        """Whether an average task is more than the Python around it, which runs in one thread at a time."""
        return self.problem.rows.n_rows * _task_share(self.problem, self.scheme) >= WORTHWHILE_ROWS

    def memory(self, control: Control) -> _Memory:
        """One-vs-rest tasks want the same rows: all of them computed once where they fit, else a cache that
        one task leaves to the next. One-vs-one tasks have rows of their own, short ones."""
        budget, n_rows = self.machine.options.cache_bytes, self.problem.rows.n_rows
        if self.scheme == "binary":
            return _Memory(lambda task: budget)
        wide = self.machine.wants_wide_rows(self.kernel, self.problem.weights)
        own = _Memory(lambda task: bytes_for_all(len(task.signs), wide))
        if self.scheme != "ovr" or not self.machine.shares_cache:
            return own
        cache = RowCache(self.kernel, budget, wide)
        if cache.capacity < n_rows:
            return _Memory(lambda task: budget, cache)
        if not fill_all(cache, control):
            return own  # the tasks will notice too
        return _Memory(own.need, cache)

    def solve(self, task: Task, effort: Effort) -> SolverResult:
        kernel = self.kernel
        if task.rows is not None:
            kernel = kernel.restricted(task.rows)
            kernel.threads = effort.threads
            if self.shift:
                kernel.shift_diagonal(needed_shift(kernel, self.machine.options.seed))
        start = None
        if self.start is not None:
            margins = self.start.margins(task, self.problem.rows, effort.threads)
            start = Begin(self.machine.start_duals(margins, task, effort.threads))
        result = self.machine.solve_kernel(kernel, task, effort, start)
        assert result.duals is not None and result.margins is not None
        result.margins = result.margins - kernel.shift * result.duals  # as a new row in the same place has it
        result.details["shift"] = kernel.shift
        return result

    def part(self, task: Task, result: SolverResult) -> tuple[Places, Floats]:
        """Rows with a dual that is not 0, and their coefficients."""
        assert result.duals is not None
        support = np.flatnonzero(result.duals)
        rows = support if task.rows is None else task.rows[support]
        result.details["support_vectors"] = len(support)
        signs = task.signs if result.signs is None else result.signs
        return rows, (signs * result.duals)[support]

    def function(self, parts: list[tuple[Places, Floats]], offsets: Floats) -> Function:
        terms = entries(parts, self.problem.rows.n_rows)
        if self.formula.name == "linear":
            return self._linear_function(terms, offsets)
        support = np.flatnonzero(np.diff(terms.indptr))
        if self.precomputed:
            return PrecomputedFunction(support + 1, terms.take(support), self.formula.bias, offsets)
        vectors = self.problem.rows.take(support)
        return KernelFunction(self.formula, vectors, terms.take(support), offsets, support)

    def _linear_function(self, terms: Dataset, offsets: Floats) -> LinearFunction:
        """The weights of a linear kernel's expansion: w = sum_i coefficient_i x_i."""
        data = LinearData(self.machine, self.problem, self.formula, self.scheme, None)
        parts = []
        for output in range(terms.n_features):
            coefficients = np.zeros(terms.n_rows)
            found = terms.indices == output
            coefficients[terms.row_of_each()[found]] = terms.values[found]
            weights = data.rows.transposed_product(coefficients, self.machine.options.n_threads)
            parts.append((np.flatnonzero(weights), weights[weights != 0]))
        function = data.function(parts, offsets)
        assert isinstance(function, LinearFunction)
        return function


def fill_all(cache: RowCache, control: Control) -> bool:
    """Compute all rows of a cache that can hold them, and freeze it; false when the time was over before."""
    n_rows = cache.n_columns
    step = max(64, int(FETCH_VALUES / max(1, n_rows)))
    for begin in range(0, n_rows, step):
        cache.fill(np.arange(begin, min(begin + step, n_rows)))
        if control.out_of_time() is not None:
            return False
    cache.freeze()
    return True


Prepare = Callable[[Machine, Problem, KernelFormula, str, Start | None], LinearData | KernelData]


def _task_share(problem: Problem, scheme: str) -> float:
    """The part of the data that an average task has."""
    return 2 / len(problem.labels) if scheme == "ovo" else 1.0


def entries(parts: list[tuple[Places, Floats]], n_rows: int) -> Dataset:
    """Sparse rows with a column per part: (places, values) of what is not 0."""
    outputs = np.repeat(np.arange(len(parts)), [len(rows) for rows, _ in parts])
    rows = np.concatenate([rows for rows, _ in parts])
    return from_entries(rows, outputs, np.concatenate([values for _, values in parts]), (n_rows, len(parts)))
