"""ODM^L, large margin distribution by mean and variance (docs/internals/mathematics.md).

    min_w  1/2 |w|^2 + lambda1 Var(z) - lambda2 Mean(z) + C sum_i s_i max(0, 1 - z_i)

with margins z_i = y_i f(x_i), row weights s_i, and mean and variance weighted by s_i / m, m the sum of the
row weights (without class weights). lambda1 and lambda2 are those of the paper; C is the weight of one row's
hinge as in SVM, so that the paper's C is lambda = C m. lambda1 = lambda2 = 0 is the SVM.

With `hard_margin` no margin may be below 1. The hinge is an exact penalty: from some finite C on, its machine
is that of the hard margin, where there is one. C is raised until no margin is below 1.

The variance is the least mean square distance from a number g, which is optimised along with w:
solvers/margin_mean.py for kernels, solvers/linear/interior.py for linear machines. No m x m matrix is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from odmlib._core.rows import Rows
from odmlib.errors import ParameterError
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import MeanVarianceLoss
from odmlib.machines.machine import Task
from odmlib.machines.svm import Svm
from odmlib.options import TrainOptions
from odmlib.solvers.control import CONVERGED, Control, Resources, SolverResult, WarmStart
from odmlib.solvers.problem import KernelProblem


@dataclass(frozen=True)
class HardMarginTuning:
    factor: float = 10.0  # from one C to the next
    steps: int = 12  # at most: beyond 1e12 rounding decides
    slack: float = 10.0  # times tol: how far below 1 a margin may end
    settled: float = 0.01  # part of the sum of hinges that a C takes away at least, if it changes anything
    patience: int = 3  # such C in a row, with rows on the wrong side: the classes overlap


HARD_MARGIN = HardMarginTuning()


class Odml(Svm):
    def __init__(self, options: TrainOptions, total_weight: float):
        super().__init__(options, total_weight)
        self.total_weight = total_weight
        # as much of each as of the hinge: the best choice on real sets, where 1 and 1 is nearly the SVM
        self.lambda1 = self.lambda_ if options.lambda1 is None else float(options.lambda1)
        self.lambda2 = self.lambda_ if options.lambda2 is None else float(options.lambda2)

    def loss(self) -> MeanVarianceLoss:
        """Relative to C, by which `costs` multiplies it; a new one for every task, which moves its mean."""
        return MeanVarianceLoss(self.lambda1 / self.lambda_, self.lambda2 / self.lambda_, 1.0)

    def start_from(self, last: SolverResult, task: Task) -> None:
        """Nothing: the mean moves with C, and duals that fitted the old one are a worse start than none."""

    def solve_linear(
        self, rows: Rows, task: Task, control: Control, resources: Resources, start: WarmStart | None
    ) -> SolverResult:
        if not self.options.hard_margin:
            return super().solve_linear(rows, task, control, resources, start)
        return self._hard_margin(lambda soft: soft.solve_linear(rows, task, control, resources, start), task)

    def _hard_margin(
        self, solve: Callable[[Odml], SolverResult], task: Task, tuning: HardMarginTuning = HARD_MARGIN
    ) -> SolverResult:
        """What `solve` finds with the smallest tried C that leaves no margin below 1."""
        used, slack = task.weights > 0, tuning.slack * self.options.tol
        C, last, idle, below = self.C, math.inf, 0, 0
        for _ in range(tuning.steps):
            result = solve(Odml(self.options.but(hard_margin=False, C=C), self.total_weight))
            result.details["hard_margin_C"] = C
            missing = np.maximum(0, 1 - result.margins[used])
            below, total = int(np.count_nonzero(missing > slack)), float(missing.sum())
            limited = result.status in ("stopped", "time_limit") or self.options.max_iter is not None
            if not below or (result.status != CONVERGED and limited):
                return result
            idle = idle + 1 if total > (1 - tuning.settled) * last and missing.max() > 1 else 0
            if result.status != CONVERGED or idle == tuning.patience:
                break
            C, last = tuning.factor * C, total
        raise ParameterError(
            f"not separable, as far as one can tell: with C = {C:g}, {below} rows still have a margin "
            "below 1, which hard_margin (--hard-margin) forbids; leave it out and give C (-c), or scale the "
            "features"
        )

    def solve_kernel(
        self, kernel: Kernel, task: Task, control: Control, resources: Resources, start: WarmStart | None
    ) -> SolverResult:
        if self.options.hard_margin:
            return self._hard_margin(
                lambda soft: soft.solve_kernel(kernel, task, control, resources, start), task
            )
        from odmlib.solvers.kernel.working_set import solve_working_set
        from odmlib.solvers.margin_mean import MovingMean, first_duals

        problem = KernelProblem(kernel, task.signs, self.costs(task.weights), self.loss())
        return solve_working_set(
            problem,
            control,
            resources,
            start or WarmStart(duals=first_duals(problem.loss, problem.costs)),
            shrinking=self.may_shrink(kernel),
            margin_mean=MovingMean.of(problem.loss, problem.costs),
        )
