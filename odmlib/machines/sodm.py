"""SODM, the scalable optimal margin distribution machine: ODM by partitions of the rows.

The problem is that of ODM (odm.py) and, unless training is told to stop early, so is the solution: partitions
only find a start for it (many_rows.py). Linear machines are trained as ODM's are, or by blocks of rows.
docs/internals/mathematics.md has the mathematics (SODM).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from odmlib._core.rows import Rows
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.machines.declarations.sodm import linear_by_levels
from odmlib.machines.fitting import Places
from odmlib.machines.machine import Floats, Task
from odmlib.machines.many_rows import ManyRows, fit_many_rows
from odmlib.machines.odm import Odm
from odmlib.solvers.control import Control, Resources, SolverResult, WarmStart
from odmlib.solvers.problem import LinearProblem

USUAL_BLOCKS = 8  # of linear machines that are solved by blocks


class Sodm(ManyRows, Odm):
    def by_levels(self) -> bool:
        return True

    def has_weights(self, kernel: str) -> bool:
        return super().has_weights(kernel) and not linear_by_levels(self.options)

    def solve_linear(
        self, rows: Rows, task: Task, control: Control, resources: Resources, start: WarmStart | None
    ) -> SolverResult:
        from odmlib.solvers.distributed import blocks as distributed
        from odmlib.solvers.linear.certificate import certified

        options = self.options
        if options.solver != "csvrg" and options.solver not in distributed.SOLVERS:
            return super().solve_linear(rows, task, control, resources, start)
        problem = LinearProblem(rows, task.signs, self.costs(task.weights), self.loss())
        if options.solver == "csvrg":
            from odmlib.solvers.distributed.coreset import solve_csvrg

            def solve_core(control: Control, start: WarmStart | None) -> SolverResult:
                return solve_csvrg(problem, control, resources, start)

            return certified(solve_core, problem, control, start, resources.threads)
        n_blocks = min(options.partitions or USUAL_BLOCKS, rows.n_rows)
        partition = self._dealt(rows, task.signs, n_blocks, control, resources)
        blocks = distributed.LocalBlocks(distributed.split(problem, partition), resources)
        method = distributed.SOLVERS[options.solver]
        if options.solver == "dsvrg":
            method = partial(method, eta=options.eta, inner_steps=options.inner_steps)

        def solve(control: Control, start: WarmStart | None) -> SolverResult:
            return method(blocks, control, start)

        result = certified(solve, problem, control, start, resources.threads)
        result.margins = problem.margins(result.weights, resources.threads)
        result.details["blocks"] = n_blocks
        return result

    def _dealt(
        self, rows: Rows, signs: Floats, n_blocks: int, control: Control, resources: Resources
    ) -> Places:
        """The block of every row of a linear machine: by class, and by strata where they are asked for."""
        from odmlib.machines.declarations.many_rows import PARTITIONERS
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


fit = partial(fit_many_rows, Sodm)
