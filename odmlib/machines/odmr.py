"""ODMR, regression by the distribution of the residuals (docs/internals/mathematics.md).

    min_w  1/2 |w|^2 + C sum_i s_i [ max(0, -epsilon-z_i)^2 + nu max(0, z_i-epsilon)^2 ]

with residuals z_i = f(x_i) - t_i and row weights s_i: residuals are pulled into the band [-epsilon, epsilon].
nu = 1 is LIBLINEAR's -s 11; epsilon = 0, nu = 1 is ridge regression. The engines are those of ODM: a row's
target is taken off its score, and the band lies around 0.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from odmlib._core.rows import Rows
from odmlib.data.problem import Problem
from odmlib.errors import ParameterError
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss
from odmlib.machines.machine import Floats, Task
from odmlib.machines.many_rows import ManyRows
from odmlib.model.model import Model
from odmlib.solvers.control import Control, Resources, SolverResult, WarmStart

LEAST_TARGET = 1e-150  # the square of anything smaller loses digits or is 0


class Odmr(ManyRows):
    def scheme(self, problem: Problem, kernel: str, init: Model | None = None) -> str:
        return "regression"

    def loss(self) -> BandLoss:
        return BandLoss(self.options.epsilon, self.options.nu, 0.0)

    def costs(self, weights: Floats) -> Floats:
        return self.C * weights

    def solve_kernel(
        self, kernel: Kernel, task: Task, control: Control, resources: Resources, start: WarmStart | None
    ) -> SolverResult:
        result = super().solve_kernel(kernel, self._centred(task), control, resources, start)
        result.offset = -self._centre(task)
        return result

    def solve_linear(
        self, rows: Rows, task: Task, control: Control, resources: Resources, start: WarmStart | None
    ) -> SolverResult:
        result = super().solve_linear(rows, self._centred(task), control, resources, start)
        result.offset = -self._centre(task)  # not 0 for the features of a kernel
        return result

    def start_from(self, last: SolverResult, task: Task) -> WarmStart | None:
        return super().start_from(last, self._centred(task))

    def _centred(self, task: Task) -> Task:
        largest = float(np.abs(_targets(task) - self._centre(task)).max(initial=0.0))
        if 0 < largest < LEAST_TARGET:
            raise ParameterError(
                f"targets as small as {largest:.2g} (less their mean) have squares that vanish; scale them "
                "(odm-scale -y)"
            )
        if self._centre(task) == 0:
            return task
        return dataclasses.replace(task, targets=_targets(task) - self._centre(task))

    def _centre(self, task: Task) -> float:
        """The mean target, to which a kernel machine without a bias is added; 0 where a bias is given."""
        options = self.options
        if options.bias is not None or options.bias_value > 0:
            return 0.0
        return float(np.average(_targets(task), weights=task.weights))


def _targets(task: Task) -> Floats:
    if task.targets is None:
        raise ValueError("a task of regression has a target for each row")
    return task.targets
