"""SODM, the scalable optimal margin distribution machine: ODM by partitions of the rows.

The problem is that of ODM (odm.py) and, unless training is told to stop early, so is the solution: partitions
only find a start for it (levels.py). Linear machines are trained as ODM's are. With `approx="nystrom"` the
machine is a sum over landmarks only, found by the linear engine (solvers/distributed/landmarks.py).
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
from odmlib.machines.fitting import Fit, KernelData, LinearData, Places, Prepare, entries, fit_classes
from odmlib.machines.machine import Floats, Task
from odmlib.machines.odm import Odm
from odmlib.machines.starting import Start
from odmlib.model.functions import Function, KernelFunction, RoutedFunction
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.solvers.control import Control, Resources, SolverResult, WarmStart
from odmlib.solvers.distributed.landmarks import Landmarks, coefficients, nystrom_features
from odmlib.solvers.problem import KernelProblem, LinearProblem

USUAL_BLOCKS = 8  # of linear machines that are solved by blocks
USUAL_RANK = 500  # of a Nystrom approximation


class Sodm(Odm):
    shares_cache = False

    def __init__(self, options: TrainOptions, total_weight: float, rows: Dataset | None = None):
        super().__init__(options, total_weight)
        self.rows = rows  # of the whole problem, where they are more than kernel values
        self.landmarks: Landmarks | None = None  # whose features tell which region a row belongs to

    def solve_linear(
        self, rows: Rows, task: Task, control: Control, resources: Resources, start: WarmStart | None
    ) -> SolverResult:
        from odmlib.solvers.distributed import blocks as distributed

        options = self.options
        if options.solver != "csvrg" and options.solver not in distributed.SOLVERS:
            return super().solve_linear(rows, task, control, resources, start)
        problem = LinearProblem(rows, task.signs, self.costs(task.weights), self.loss())
        if options.solver == "csvrg":
            from odmlib.solvers.distributed.coreset import solve_csvrg

            return solve_csvrg(problem, control, resources, start)
        n_blocks = min(options.partitions or USUAL_BLOCKS, rows.n_rows)
        partition = self._dealt(rows, task.signs, n_blocks, control, resources)
        blocks = distributed.LocalBlocks(distributed.split(problem, partition), resources)
        result = distributed.SOLVERS[options.solver](blocks, control, start)
        result.margins = problem.margins(result.weights, resources.threads)
        result.details["blocks"] = n_blocks
        return result

    def _dealt(
        self, rows: Rows, signs: Floats, n_blocks: int, control: Control, resources: Resources
    ) -> Places:
        """The block of every row of a linear machine: by class, and by strata where they are asked for."""
        from odmlib.machines.declarations.sodm import PARTITIONERS
        from odmlib.solvers.distributed.partitions import Plan, deal, make_partitions

        options = self.options
        if options.partition == PARTITIONERS[0] and options.landmarks is None:
            return deal((signs > 0).astype(np.int64), n_blocks, options.seed)
        dataset = rows.dataset()
        kernel = Kernel(KernelFormula("linear", bias=rows.bias), dataset, resources.threads)
        return make_partitions(
            options.partition,
            Plan(n_blocks, 1),
            kernel,
            signs,
            dataset,
            landmarks=options.landmarks,
            seed=options.seed,
            threads=resources.threads,
            out_of_time=control.out_of_time,
        ).at(1)

    def solve_kernel(
        self, kernel: Kernel, task: Task, control: Control, resources: Resources, start: WarmStart | None
    ) -> SolverResult:
        from odmlib.solvers.distributed.levels import solve_by_levels
        from odmlib.solvers.distributed.partitions import Plan, make_partitions, make_plan

        options = self.options
        n_positive = int((task.signs > 0).sum())
        smaller = min(n_positive, kernel.n_rows - n_positive)
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
            KernelProblem(kernel, task.signs, self.costs(task.weights), self.loss()),
            partitions,
            control,
            resources,
            weights=task.weights,
            shrinking=self.may_shrink(kernel),
            stop_level=options.stop_level or 0,
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


def fit(
    problem: Problem, formula: KernelFormula, options: TrainOptions, control: Control, init: Model | None
) -> Fit:
    """Train on a problem of two or more classes."""
    prepare: Prepare | None = None
    if options.approx == "nystrom":
        prepare = partial(NystromData, out_of_time=control.out_of_time)
    elif options.partition == "dc" and options.stop_level:
        prepare = RoutedData
    rows = None if formula.name == "precomputed" else problem.rows
    return fit_classes(partial(Sodm, rows=rows), problem, formula, options, control, init, prepare)
