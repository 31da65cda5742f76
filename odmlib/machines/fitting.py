"""From a problem to a decision function, whatever the machine and the number of classes.

The data are prepared once: sparse rows for a linear machine, a Kernel for the others. Each task (tasks.py) is
solved on them by the machine, and leaves its part of the decision function and of the margins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset, from_entries
from odmlib.data.problem import Problem
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.machines.machine import Effort, Machine, Task
from odmlib.machines.starting import Start
from odmlib.machines.tasks import TrainingMargins, make_tasks
from odmlib.model.functions import Function, KernelFunction, LinearFunction, PrecomputedFunction
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.solvers.control import Control, SolverResult

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


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


def fit_classes(
    make_machine: Callable[[TrainOptions, float], Machine],
    problem: Problem,
    formula: KernelFormula,
    options: TrainOptions,
    control: Control,
    init: Model | None,
) -> Fit:
    """Train a binary machine on a problem of two or more classes."""
    problem.require_classes(options.machine)
    machine = make_machine(options, problem.total_weight)
    scheme = "binary"
    if len(problem.labels) > 2:
        scheme = options.multiclass or machine.default_scheme(formula.name)
    start = None if init is None else Start(init, problem, scheme)
    linear = formula.name == "linear" and machine.linear_solver
    data = (_Linear if linear else _Kernel)(machine, problem, formula, start)
    margins = TrainingMargins(scheme, problem.rows.n_rows)
    results, sides, parts = [], [], []
    for task in make_tasks(problem, scheme):
        result = data.solve(task, Effort(control, options.n_threads, options.cache_bytes))
        assert result.margins is not None
        margins.add(task, result.margins)
        parts.append(data.part(task, result))
        result.weights = result.duals = result.margins = None
        results.append(result)
        sides.append(task.sides)
    offsets = np.array([result.offset for result in results])
    function = data.function(parts, offsets)
    return Fit(scheme, function, results, sides, margins.result(), machine.parameters())


class _Linear:
    """Sparse rows, on the columns that hold values where most columns are empty."""

    def __init__(self, machine: Machine, problem: Problem, formula: KernelFormula, start: Start | None):
        self.machine, self.problem, self.bias, self.start = machine, problem, formula.bias, start
        self.dataset = problem.rows
        self.columns = np.arange(min(self.dataset.n_features, self.dataset.n_nonzeros + 1), dtype=np.int32)
        if self.dataset.n_features > len(self.columns):  # more columns than values: most are empty
            self.columns = self.dataset.used_columns()
            self.dataset = self.dataset.on_columns(self.columns)
        self.rows = Rows(self.dataset, self.bias)

    def solve(self, task: Task, effort: Effort) -> SolverResult:
        rows = self.rows if task.rows is None else Rows(self.dataset.take(task.rows), self.bias)
        weights = None
        if self.start is not None:
            weights = self.start.weights(task, self.columns, self.bias)
            if weights is None:
                margins = self.start.margins(task, self.problem.rows, effort.threads)
                duals = self.machine.start_duals(margins, task, effort.threads)
                weights = rows.transposed_product(task.signs * duals, effort.threads)
        return self.machine.solve_linear(rows, task, effort, weights)

    def part(self, task: Task, result: SolverResult) -> tuple[Places, Floats]:
        """Columns (the bias column last) with a weight that is not 0, and the weights."""
        assert result.weights is not None
        used = np.flatnonzero(result.weights)
        return used, result.weights[used]

    def function(self, parts: list[tuple[Places, Floats]], offsets: Floats) -> Function:
        terms = _entries(parts, len(self.columns) + 1)
        used = np.flatnonzero(np.diff(terms.indptr[:-1]))
        bias_weights = terms.take(np.array([len(self.columns)])).to_dense()[0]
        return LinearFunction(self.columns[used], terms.take(used), self.bias, bias_weights, offsets)


class _Kernel:
    """A kernel between all rows, made positive semidefinite where it is not."""

    def __init__(self, machine: Machine, problem: Problem, formula: KernelFormula, start: Start | None):
        from odmlib.kernels.shift import needed_shift

        self.machine, self.problem, self.formula, self.start = machine, problem, formula, start
        options, rows = machine.options, problem.rows
        self.precomputed = formula.name == "precomputed"
        self.kernel = Kernel(formula, rows.to_dense() if self.precomputed else rows, options.n_threads)
        self.kernel.shift_diagonal(needed_shift(self.kernel, options.seed))

    def solve(self, task: Task, effort: Effort) -> SolverResult:
        kernel = self.kernel if task.rows is None else self.kernel.restricted(task.rows)
        duals = None
        if self.start is not None:
            margins = self.start.margins(task, self.problem.rows, effort.threads)
            duals = self.machine.start_duals(margins, task, effort.threads)
        result = self.machine.solve_kernel(kernel, task, effort, duals)
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
        return rows, (task.signs * result.duals)[support]

    def function(self, parts: list[tuple[Places, Floats]], offsets: Floats) -> Function:
        terms = _entries(parts, self.problem.rows.n_rows)
        if self.formula.name == "linear":
            return self._linear_function(terms, offsets)
        support = np.flatnonzero(np.diff(terms.indptr))
        if self.precomputed:
            return PrecomputedFunction(support + 1, terms.take(support), self.formula.bias, offsets)
        return KernelFunction(self.formula, self.problem.rows.take(support), terms.take(support), offsets)

    def _linear_function(self, terms: Dataset, offsets: Floats) -> LinearFunction:
        """The weights of a linear kernel's expansion: w = sum_i coefficient_i x_i."""
        data = _Linear(self.machine, self.problem, self.formula, None)
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


def _entries(parts: list[tuple[Places, Floats]], n_rows: int) -> Dataset:
    """Sparse rows with a column per part."""
    outputs = np.repeat(np.arange(len(parts)), [len(rows) for rows, _ in parts])
    rows = np.concatenate([rows for rows, _ in parts])
    return from_entries(rows, outputs, np.concatenate([values for _, values in parts]), (n_rows, len(parts)))
