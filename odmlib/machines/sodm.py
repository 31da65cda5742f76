"""SODM, the scalable optimal margin distribution machine: ODM by partitions of the rows (spec/sodm.md).

The problem is that of ODM (odm.py) and, unless training is told to stop early, so is the solution: partitions
only find a start for it (levels.py). Linear machines are trained as ODM's are.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from odmlib.data.problem import Problem
from odmlib.kernels.formula import KernelFormula
from odmlib.machines.fitting import Fit, fit_classes
from odmlib.machines.machine import Effort, Floats, Task
from odmlib.machines.odm import Odm
from odmlib.model.model import Model
from odmlib.options import TrainOptions
from odmlib.solvers.control import Control, SolverResult

if TYPE_CHECKING:
    from odmlib.data.dataset import Dataset
    from odmlib.kernels.kernel import Kernel


class Sodm(Odm):
    name = "sodm"

    def __init__(self, options: TrainOptions, total_weight: float, rows: Dataset | None = None):
        super().__init__(options, total_weight)
        self.rows = rows  # of the whole problem, where they are more than kernel values

    def solve_kernel(self, kernel: Kernel, task: Task, effort: Effort, start: Floats | None) -> SolverResult:
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
        return solve_by_levels(
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
            start=start,
        )


def fit_sodm(
    problem: Problem, formula: KernelFormula, options: TrainOptions, control: Control, init: Model | None
) -> Fit:
    """Train on a problem of two or more classes."""
    rows = None if formula.name == "precomputed" else problem.rows
    return fit_classes(partial(Sodm, rows=rows), problem, formula, options, control, init)
