"""SODM, the scalable optimal margin distribution machine: ODM by partitions of the rows (spec/sodm.md).

The problem is that of ODM (odm.py) and, unless training is told to stop early, so is the solution: partitions
only find a start for it (levels.py). Linear machines are trained as ODM's are. With `approx="nystrom"` the
machine is a sum over landmarks only, found by the linear engine (solvers/nystrom.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from odmlib._core.rows import Rows
from odmlib.data.dataset import from_entries
from odmlib.data.problem import Problem
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.machines.fitting import Fit, KernelData, LinearData, Places, entries, fit_classes
from odmlib.machines.machine import Begin, Effort, Floats, Machine, Task
from odmlib.machines.odm import Odm
from odmlib.machines.starting import Start
from odmlib.model.functions import Function, KernelFunction, RoutedFunction
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.solvers.control import Control, SolverResult
from odmlib.solvers.landmarks import Landmarks
from odmlib.solvers.nystrom import coefficients, nystrom_features

if TYPE_CHECKING:
    from odmlib.data.dataset import Dataset

USUAL_BLOCKS = 8  # of linear machines that are solved by blocks
USUAL_RANK = 500  # of a Nystrom approximation


class Sodm(Odm):
    name = "sodm"

    def __init__(self, options: TrainOptions, total_weight: float, rows: Dataset | None = None):
        super().__init__(options, total_weight)
        self.rows = rows  # of the whole problem, where they are more than kernel values

    def solve_linear(self, rows: Rows, task: Task, effort: Effort, start: Floats | None) -> SolverResult:
        from odmlib.solvers import distributed
        from odmlib.solvers.partitions import deal

        options = self.options
        if options.solver == "csvrg":
            from odmlib.solvers.coreset import solve_csvrg

            given = rows, task.signs, self.costs(task.weights), self.loss(), effort.control
            return solve_csvrg(*given, threads=effort.threads, seed=options.seed, start=start)
        if options.solver not in distributed.SOLVERS:
            return super().solve_linear(rows, task, effort, start)
        dataset = rows.dataset()
        n_blocks = min(options.partitions or USUAL_BLOCKS, dataset.n_rows)
        partition = deal((task.signs > 0).astype(np.int64), n_blocks, options.seed)
        loss, costs = self.loss(), self.costs(task.weights)
        blocks = distributed.LocalBlocks(
            distributed.split(dataset, rows.bias, task.signs, costs, partition),
            loss,
            options.seed,
            effort.threads,
        )
        result = distributed.SOLVERS[options.solver](blocks, effort.control, start)
        assert result.weights is not None
        result.margins = task.signs * rows.product(result.weights, effort.threads)
        result.details["blocks"] = n_blocks
        return result

    def solve_kernel(self, kernel: Kernel, task: Task, effort: Effort, start: Begin | None) -> SolverResult:
        from odmlib.machines.levels import LevelProblem, solve_by_levels
        from odmlib.solvers.partitions import Plan, make_partitions, make_plan

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
            threads=effort.threads,
            out_of_time=effort.control.out_of_time,
        )
        result = solve_by_levels(
            LevelProblem(
                kernel,
                task.signs,
                self.costs(task.weights),
                task.weights,
                self.loss(),
                options.shrinking and kernel.shift == 0,
                options.seed,
            ),
            partitions,
            effort,
            stop_level=options.stop_level or 0,
            cascade=options.partition == "cascade",
            start=None if start is None else start.duals,
        )
        if "clusters" in result.details:
            result.details["found"] = partitions.found
            result.margins = np.zeros(kernel.n_rows)  # known when the regions' functions are
        return result


class RoutedData(KernelData):
    """Clusters in feature space, each with its own machine; a row goes to the one with the nearest centre.

    Centres are means of the landmarks' features (solvers/nystrom.py), hence expansions over the landmarks.
    """

    def solve(self, task: Task, effort: Effort) -> SolverResult:
        if self.scheme != "binary":
            raise ParameterError(
                "partition dc with stop_level (--stop-level) is for two classes, "
                f"found {len(self.problem.labels)}"
            )
        result = super().solve(task, effort)
        found = result.details.pop("found")
        self.routed = routed_function(
            self.formula, self.problem.rows, task.signs, result.duals, found, result.details
        )
        result.margins = task.signs * self.routed.scores(self.problem.rows, effort.threads)[:, 0]
        return result

    def function(self, parts: list[tuple[Places, Floats]], offsets: Floats) -> Function:
        return self.routed


def routed_function(
    formula: KernelFormula,
    rows: Dataset,
    signs: Floats,
    duals: Floats | None,
    found: Landmarks,
    details: dict[str, Any],
) -> RoutedFunction:
    """Takes `clusters` and `shares` out of the details."""
    assert duals is not None
    clusters, shares = details.pop("clusters"), details.pop("shares")
    count = len(shares)
    centres = np.array([found.factor[clusters == k].mean(axis=0) for k in range(count)])
    routes = coefficients(np.tril(found.factor[found.rows]), centres.T)  # landmarks x regions
    support = np.flatnonzero(duals)
    own = signs[support] * duals[support] / shares[clusters[support]]
    used = np.union1d(support, found.rows)
    landmarks = np.repeat(np.searchsorted(used, found.rows), count)
    terms = from_entries(
        np.concatenate([np.searchsorted(used, support), landmarks]),
        np.concatenate([clusters[support], count + np.tile(np.arange(count), len(found.rows))]),
        np.concatenate([own, routes.reshape(-1)]),
        (len(used), 2 * count),
    )
    offsets = np.concatenate([np.zeros(count), 0.5 * np.square(centres).sum(axis=1)])
    return RoutedFunction(formula, rows.take(used), terms, offsets, used)


class NystromData(LinearData):
    """Features over landmarks, for the linear engine; the function is an expansion over the landmarks."""

    def __init__(
        self,
        machine: Machine,
        problem: Problem,
        formula: KernelFormula,
        scheme: str,
        start: Start | None,
        out_of_time: Callable[[], object],
    ):
        options = machine.options
        self.machine, self.problem, self.formula, self.start = machine, problem, formula, start
        self.scheme, self.bias = scheme, 0.0  # a bias is part of the kernel
        kernel = Kernel(formula, problem.rows, options.n_threads)
        self.features = nystrom_features(kernel, options.rank or USUAL_RANK, options.seed, out_of_time)
        self.dataset = self.features.rows
        self.columns = np.arange(self.dataset.n_features, dtype=np.int32)
        self.rows = Rows(self.dataset)
        self.details = {
            "approximation": {
                "method": "nystrom",
                "rank": len(self.features.landmarks),
                "trace_error": self.features.trace_error,
            }
        }

    def solve(self, task: Task, effort: Effort) -> SolverResult:
        result = super().solve(task, effort)
        result.solver = f"nystrom+{result.solver}"
        result.details |= dict(self.details)
        return result

    def _weights_of(self, start: Start, task: Task) -> Floats | None:
        return None  # another model's columns are not these

    def function(self, parts: list[tuple[Places, Floats]], offsets: Floats) -> Function:
        weights = entries(parts, len(self.columns)).to_dense()
        vectors = self.problem.rows.take(self.features.landmarks)
        return KernelFunction(self.formula, vectors, self.features.coefficients(weights), offsets)


def fit_sodm(
    problem: Problem, formula: KernelFormula, options: TrainOptions, control: Control, init: Model | None
) -> Fit:
    """Train on a problem of two or more classes."""
    if options.approx == "nystrom":
        return fit_classes(
            Sodm,
            problem,
            formula,
            options,
            control,
            init,
            partial(NystromData, out_of_time=control.out_of_time),
        )
    if options.partition == "dc" and options.stop_level:
        return fit_classes(Sodm, problem, formula, options, control, init, RoutedData)
    rows = None if formula.name == "precomputed" else problem.rows
    return fit_classes(partial(Sodm, rows=rows), problem, formula, options, control, init)
