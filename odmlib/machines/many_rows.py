"""Kernel machines on very many rows: by partitions that are merged level by level, or over landmarks only.

Partitions find a start for the problem of all rows (solvers/distributed/levels.py). With `approx="nystrom"`
the machine is a sum over landmarks, found by the linear engine (solvers/distributed/landmarks.py).
docs/internals/mathematics.md has the mathematics (SODM).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset, from_entries
from odmlib.data.problem import Problem
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.machines.declarations.many_rows import AUTO, PARTITIONING
from odmlib.machines.fitting import Fit, KernelData, LinearData, Places, Prepare, entries, fit_classes
from odmlib.machines.machine import Floats, Machine, Task
from odmlib.machines.starting import Start
from odmlib.model.functions import Function, KernelFunction, RoutedFunction
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.solvers.control import Control, Resources, SolverResult, WarmStart
from odmlib.solvers.distributed.landmarks import Landmarks, coefficients, nystrom_features
from odmlib.solvers.problem import KernelProblem

USUAL_RANK = 500  # of a Nystrom approximation


class ManyRows(Machine):
    """A machine that knows partitions and landmarks; it stands before the machine's own base class."""

    def __init__(self, options: TrainOptions, total_weight: float, rows: Dataset | None = None):
        super().__init__(options, total_weight)
        self.rows = rows  # of the whole problem, where they are more than kernel values
        self.landmarks: Landmarks | None = None  # whose features tell which region a row belongs to
        self.shares_cache = not self.by_levels()

    def by_levels(self) -> bool:
        """Whether partitions come first: where an option is about them."""
        return any(self.options.declaration.given(self.options, name) for name in PARTITIONING)

    def solve_kernel(
        self, kernel: Kernel, task: Task, control: Control, resources: Resources, start: WarmStart | None
    ) -> SolverResult:
        if not self.by_levels():
            return super().solve_kernel(kernel, task, control, resources, start)
        from odmlib.solvers.distributed.levels import solve_by_levels
        from odmlib.solvers.distributed.partitions import Plan, make_partitions, make_plan

        options = self.options
        n_positive = int((task.signs > 0).sum())
        smaller = min(n_positive, kernel.n_rows - n_positive) or kernel.n_rows  # one class: any rows will do
        plan = make_plan(kernel.n_rows, smaller, options.partitions, options.levels)
        if start is not None and not options.stop_level and options.partition != "cascade":
            plan = Plan(2, 0)  # a start is what partitions would have to find
        rows = self.rows if self.rows is None or task.rows is None else self.rows.take(task.rows)
        partitions = make_partitions(
            options.partition,
            plan,
            kernel,
            task.signs,
            rows,
            landmarks=options.landmarks,
            seed=options.seed,
            threads=resources.threads,
            out_of_time=control.out_of_time,
        )
        result = solve_by_levels(
            KernelProblem(kernel, task.signs, self.costs(task.weights), self.loss(), task.targets),
            partitions,
            control,
            resources,
            weights=task.weights,
            shrinking=self.may_shrink(kernel),
            stop_level=0 if options.stop_level == AUTO else int(options.stop_level or 0),
            stop_at_gap=options.stop_level == AUTO,
            all_rows=options.pass_up == "all",
            cascade=options.partition == "cascade",
            start=start,
        )
        if result.regions is not None:
            self.landmarks = partitions.found
            result.margins = np.zeros(kernel.n_rows)  # known when the regions' functions are
        return result


class RoutedData(KernelData):
    """Clusters in feature space, each with its own machine; a row goes to the one with the nearest centre.

    Centres are means of the landmarks' features, hence expansions over the landmarks.
    """

    def solve(self, task: Task, control: Control, resources: Resources) -> SolverResult:
        if self.scheme != "binary":
            raise ParameterError(
                "partition dc with stop_level (--stop-level) is for two classes, "
                f"found {len(self.problem.labels)}"
            )
        result = super().solve(task, control, resources)
        self.routed = self._routed(task, result)
        result.margins = task.signs * self.routed.scores(self.problem.rows, resources.threads)[:, 0]
        return result

    def _routed(self, task: Task, result: SolverResult) -> RoutedFunction:
        """A function for every region, and those that say which region a row belongs to."""
        found: Landmarks = self.machine.landmarks  # type: ignore[attr-defined]
        assert result.regions is not None
        duals, clusters, shares = result.duals, result.regions.clusters, result.regions.shares
        count = len(shares)
        centres = np.array([found.factor[clusters == k].mean(axis=0) for k in range(count)])
        routes = coefficients(np.tril(found.factor[found.rows]), centres.T)  # landmarks x regions
        support = np.flatnonzero(duals)
        own = task.signs[support] * duals[support] / shares[clusters[support]]
        used = np.union1d(support, found.rows)
        landmarks = np.repeat(np.searchsorted(used, found.rows), count)
        terms = from_entries(
            np.concatenate([np.searchsorted(used, support), landmarks]),
            np.concatenate([clusters[support], count + np.tile(np.arange(count), len(found.rows))]),
            np.concatenate([own, routes.reshape(-1)]),
            (len(used), 2 * count),
        )
        offsets = np.concatenate([np.zeros(count), 0.5 * np.square(centres).sum(axis=1)])
        return RoutedFunction(self.formula, self.problem.rows.take(used), terms, offsets, used)

    def function(self, parts: list[tuple[Places, Floats]], offsets: Floats) -> Function:
        return self.routed


@dataclass(eq=False)
class NystromData(LinearData):
    """Features over landmarks, for the linear engine; the function is an expansion over the landmarks."""

    out_of_time: Callable[[], object]

    def __post_init__(self) -> None:
        options = self.machine.options
        self.bias = 0.0  # a bias is part of the kernel
        kernel = Kernel(self.formula, self.problem.rows, options.n_threads)
        self.features = nystrom_features(kernel, options.rank or USUAL_RANK, options.seed, self.out_of_time)
        self.dataset = self.features.rows
        self.columns = np.arange(self.dataset.n_features, dtype=np.int32)
        self.rows = Rows(self.dataset)
        rank, trace_error = len(self.features.landmarks), self.features.trace_error
        self.notes = {"approximation": {"method": "nystrom", "rank": rank, "trace_error": trace_error}}

    def solve(self, task: Task, control: Control, resources: Resources) -> SolverResult:
        result = super().solve(task, control, resources)
        result.solver = f"nystrom+{result.solver}"
        return result

    def _weights_of(self, start: Start, task: Task) -> Floats | None:
        return None  # another model's columns are not these

    def function(self, parts: list[tuple[Places, Floats]], offsets: Floats) -> Function:
        weights = entries(parts, len(self.columns)).to_dense()
        vectors = self.problem.rows.take(self.features.landmarks)
        return KernelFunction(self.formula, vectors, coefficients(self.features.factor, weights), offsets)


def fit_many_rows(
    kind: type[ManyRows],
    problem: Problem,
    formula: KernelFormula,
    options: TrainOptions,
    control: Control,
    init: Model | None,
) -> Fit:
    """Train a machine of this kind, by the way that the options ask for."""
    prepare: Prepare | None = None
    if options.approx == "nystrom":
        prepare = partial(NystromData, out_of_time=control.out_of_time)
    elif options.partition == "dc" and options.stop_level:
        prepare = RoutedData
    rows = None if formula.name == "precomputed" else problem.rows
    return fit_classes(partial(kind, rows=rows), problem, formula, options, control, init, prepare)
