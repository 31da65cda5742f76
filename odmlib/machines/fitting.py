"""From a problem to a decision function, whatever the machine and the number of classes.

The data are prepared once: sparse rows for a linear machine, a Kernel for the others. Each task (tasks.py) is
solved on them by the machine, and leaves its part of the decision function and of the margins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from odmlib._core.arrays import Floats, Places
from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset, from_entries
from odmlib.data.problem import Problem
from odmlib.kernels.cache import RowCache, bytes_for_all
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.kernels.shift import needed_shift, sampled_rows
from odmlib.machines.machine import Machine, Task
from odmlib.machines.starting import Start
from odmlib.machines.tasks import OpenRows, TrainingMargins, make_tasks
from odmlib.model.functions import Function, KernelFunction, LinearFunction, PrecomputedFunction
from odmlib.model.model import Model
from odmlib.model.schemes import n_outputs
from odmlib.options import TrainOptions
from odmlib.solvers.control import Control, Resources, SolverResult, WarmStart
from odmlib.solvers.running import TaskRun

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
    details: dict[str, Any] = field(default_factory=dict)  # of the report
    # of the model: EXTRAS of text_writer.py
    extras: dict[str, tuple[float, ...]] = field(default_factory=dict)
    assigned: Places | None = None  # classes found for the rows without a label
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
    machine = make_machine(options, problem.total_weight)
    scheme = machine.scheme(problem, formula.name, init)
    start = None if init is None else Start(init, problem, scheme)
    kind = LinearData if machine.has_weights(formula.name) else KernelData
    data = (prepare or kind)(machine, problem, formula, scheme, start)
    need, cache = data.memory(control)
    n_tasks = n_outputs(scheme, len(problem.labels) if problem.targets is None else problem.targets.shape[1])
    margins = TrainingMargins(scheme, problem.rows.n_rows)
    open_rows = OpenRows(scheme, np.flatnonzero(problem.codes < 0), n_tasks)
    outcomes: dict[int, tuple[SolverResult, tuple[int, int | None], tuple[Places, Floats]]] = {}

    def solve(task: Task, control: Control, threads: int) -> SolverResult:
        cache_bytes = min(options.cache_bytes, need(task))
        return data.solve(task, control, Resources(threads, cache_bytes, cache, options.seed))

    def keep(task: Task, result: SolverResult) -> None:
        """Take what the model needs out of a result, before the next ones come."""
        margins.add(task, result.margins)
        open_rows.add(task, result)
        part = data.part(task, result)
        result.weights = result.duals = result.margins = result.signs = None
        outcomes[task.output] = result, task.sides, part

    TaskRun(control, n_tasks).run(
        make_tasks(problem, scheme),
        solve,
        keep,
        threads=options.n_threads,
        side_by_side=data.worth_a_thread() and (cache is None or cache.frozen),
        budget=options.cache_bytes,
        need=lambda task: 0 if cache is not None else need(task),
    )
    ordered = [outcomes[output] for output in range(n_tasks)]
    results, sides, parts = (list(column) for column in zip(*ordered, strict=True))
    function = data.function(parts, np.array([result.offset for result in results]))
    shifts = [result.shift for result in results if result.shift is not None]
    return Fit(
        scheme,
        function,
        results,
        sides,
        open_rows.complete(margins.result()),
        machine.parameters(),
        details=({"shift": max(shifts)} if shifts else {}) | data.shift_notes() | data.notes,
        extras=machine.extras(results),
        assigned=open_rows.assigned() if len(open_rows.rows) else None,
        notes=machine.notes(results) | data.notes,
    )


# the bytes that a task wants for kernel rows of its own, and a cache that all tasks share
Memory = tuple[Callable[[Task], int], RowCache | None]


@dataclass(eq=False)
class TaskData:
    """The data of all tasks, prepared for a machine."""

    machine: Machine
    problem: Problem
    formula: KernelFormula
    scheme: str
    start: Start | None
    notes: dict[str, Any] = field(init=False, default_factory=dict)  # further entries of the report

    @property
    def task_share(self) -> float:
        """The part of the data that an average task has."""
        return 2 / len(self.problem.labels) if self.scheme == "ovo" else 1.0

    def shift_notes(self) -> dict[str, Any]:
        """How a kernel that may not be positive semidefinite was judged, for the report."""
        return {}


@dataclass(eq=False)
class LinearData(TaskData):
    """Sparse rows, on the columns that hold values where most columns are empty."""

    def __post_init__(self) -> None:
        self.bias = self.formula.bias
        self.dataset = self.problem.rows
        self.columns = np.arange(min(self.dataset.n_features, self.dataset.n_nonzeros + 1), dtype=np.int32)
        if self.dataset.n_features > len(self.columns):  # more columns than values: most are empty
            self.columns = self.dataset.used_columns()
            self.dataset = self.dataset.on_columns(self.columns)
        self.rows = Rows(self.dataset, self.bias)

    def worth_a_thread(self) -> bool:
        """Whether an average task is more than the Python around it, which runs in one thread at a time."""
        return self.dataset.n_nonzeros * self.task_share >= WORTHWHILE_VALUES

    def memory(self, control: Control) -> Memory:
        return (lambda task: 0), None

    def solve(self, task: Task, control: Control, resources: Resources) -> SolverResult:
        rows = self.rows if task.rows is None else Rows(self.dataset.take(task.rows), self.bias)
        weights = None
        if self.start is not None:
            weights = self._weights_of(self.start, task)
            if weights is None:
                margins = self.start.margins(task, self.problem.rows, resources.threads)
                duals = self.machine.start_duals(margins, task, resources.threads)
                weights = rows.transposed_product(task.signs * duals, resources.threads)
        start = None if weights is None else WarmStart(weights)
        return self.machine.solve_linear(rows, task, control, resources, start)

    def _weights_of(self, start: Start, task: Task) -> Floats | None:
        """Those of the model to begin from, if it has weights of these columns."""
        return start.weights(task, self.columns, self.bias)

    def part(self, task: Task, result: SolverResult) -> tuple[Places, Floats]:
        """Columns (the bias column last) with a weight that is not 0, and the weights."""
        used = np.flatnonzero(result.weights)
        return used, result.weights[used]

    def function(self, parts: list[tuple[Places, Floats]], offsets: Floats) -> Function:
        terms = entries(parts, len(self.columns) + 1)
        used = np.flatnonzero(np.diff(terms.indptr[:-1]))
        bias_weights = terms.take(np.array([len(self.columns)])).to_dense()[0]
        return LinearFunction(self.columns[used], terms.take(used), self.bias, bias_weights, offsets)


@dataclass(eq=False)
class KernelData(TaskData):
    """A kernel between all rows, made positive semidefinite where it is not (one-vs-one: pair by pair)."""

    def __post_init__(self) -> None:
        options, rows = self.machine.options, self.problem.rows
        self.precomputed = self.formula.name == "precomputed"
        self.kernel = Kernel(self.formula, rows.dense_view() if self.precomputed else rows, options.n_threads)
        # a part of a positive semidefinite matrix is one too
        self.shift = needed_shift(self.kernel, options.seed)
        if self.scheme != "ovo":
            self.kernel.shift_diagonal(self.shift)

    def shift_notes(self) -> dict[str, Any]:
        rows = sampled_rows(self.kernel)
        return {} if rows is None else {"shift_sample_rows": rows}

    def worth_a_thread(self) -> bool:
        return self.problem.rows.n_rows * self.task_share >= WORTHWHILE_ROWS

    def memory(self, control: Control) -> Memory:
        """One-vs-rest tasks want the same rows: all of them computed once where they fit, else a cache that
        one task leaves to the next. One-vs-one tasks have rows of their own, short ones."""
        budget, n_rows = self.machine.options.cache_bytes, self.problem.rows.n_rows
        if self.scheme == "binary" or (
            self.problem.targets is not None and self.problem.targets.shape[1] == 1
        ):
            return (lambda task: budget), None
        from odmlib.solvers.kernel.precision import EXACT_ROWS

        float64 = self.machine.wants_float64(self.kernel, self.problem.weights)

        def own(task: Task) -> int:
            n_rows = len(task.signs)
            return bytes_for_all(n_rows, float64 or n_rows <= EXACT_ROWS)

        if self.scheme not in ("ovr", "regression") or not self.machine.shares_cache:
            return own, None
        cache = RowCache(self.kernel, budget, float64)
        if cache.capacity < n_rows:
            return (lambda task: budget), cache
        return own, cache if fill_all(cache, control) else None  # out of time: the tasks will notice too

    def solve(self, task: Task, control: Control, resources: Resources) -> SolverResult:
        kernel = self.kernel
        if task.rows is not None:
            kernel = kernel.restricted(task.rows)
            kernel.threads = resources.threads
            if self.shift:
                kernel.shift_diagonal(needed_shift(kernel, self.machine.options.seed))
        start = None
        if self.start is not None:
            margins = self.start.margins(task, self.problem.rows, resources.threads)
            start = WarmStart(duals=self.machine.start_duals(margins, task, resources.threads))
        result = self.machine.solve_kernel(kernel, task, control, resources, start)
        result.margins = result.margins - kernel.shift * result.duals  # as a new row in the same place has it
        result.shift = kernel.shift
        return result

    def part(self, task: Task, result: SolverResult) -> tuple[Places, Floats]:
        """Rows with a dual that is not 0, and their coefficients."""
        support = np.flatnonzero(result.duals)
        rows = support if task.rows is None else task.rows[support]
        result.support_vectors = len(support)
        signs = task.signs if result.signs is None else result.signs
        return rows, (signs * result.duals)[support]

    def function(self, parts: list[tuple[Places, Floats]], offsets: Floats) -> Function:
        n_rows = self.problem.rows.n_rows
        if self.formula.name == "linear":  # the expansion as weights: w = sum_i coefficient_i x_i
            data = LinearData(self.machine, self.problem, self.formula, self.scheme, None)
            weights_of = []
            for rows, values in parts:
                coefficients = np.zeros(n_rows)
                coefficients[rows] = values
                weights = data.rows.transposed_product(coefficients, self.machine.options.n_threads)
                weights_of.append((np.flatnonzero(weights), weights[weights != 0]))
            return data.function(weights_of, offsets)
        terms = entries(parts, n_rows)
        support = np.flatnonzero(np.diff(terms.indptr))
        if self.precomputed:
            return PrecomputedFunction(support + 1, terms.take(support), self.formula.bias, offsets)
        vectors = self.problem.rows.take(support)
        return KernelFunction(self.formula, vectors, terms.take(support), offsets, support)


def fill_all(cache: RowCache, control: Control) -> bool:
    """Compute all rows of a cache that can hold them, and freeze it; false when the time was over before."""
    from odmlib.solvers.kernel.block_steps import parts

    for some in parts(np.arange(cache.n_columns), cache.n_columns):
        cache.fill(some)
        if control.out_of_time() is not None:
            return False
    cache.freeze()
    return True


Prepare = Callable[[Machine, Problem, KernelFormula, str, Start | None], LinearData | KernelData]


def entries(parts: list[tuple[Places, Floats]], n_rows: int) -> Dataset:
    """Sparse rows with a column per part: (places, values) of what is not 0."""
    outputs = np.repeat(np.arange(len(parts)), [len(rows) for rows, _ in parts])
    rows = np.concatenate([rows for rows, _ in parts])
    return from_entries(rows, outputs, np.concatenate([values for _, values in parts]), (n_rows, len(parts)))
