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
from odmlib.kernels.cache import RowCache
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss
from odmlib.losses.sums import values
from odmlib.machines.machine import Floats, Machine, Task
from odmlib.solvers.control import Control, Resources, SolverResult, WarmStart

FLOAT32_TOL = 1e-7  # a smaller gap says little about kernel rows that were rounded to float32


class Odmr(Machine):
    def scheme(self, n_classes: int, kernel: str) -> str:
        return "regression"

    def loss(self) -> BandLoss:
        return BandLoss(self.options.epsilon, self.options.nu, 0.0)

    def costs(self, weights: Floats) -> Floats:
        return self.C * weights

    def solve_linear(
        self, rows: Rows, task: Task, control: Control, resources: Resources, start: WarmStart | None
    ) -> SolverResult:
        return super().solve_linear(rows, task, self._control(control, task), resources, start)

    def wants_float64(self, kernel: Kernel, weights: Floats) -> bool:
        return self.options.tol < FLOAT32_TOL or super().wants_float64(kernel, weights)

    def solve_kernel(
        self, kernel: Kernel, task: Task, control: Control, resources: Resources, start: WarmStart | None
    ) -> SolverResult:
        centre = self._centre(task)
        if resources.cache is None and self.options.tol < FLOAT32_TOL:
            resources = dataclasses.replace(resources, cache=RowCache(kernel, resources.cache_bytes, True))
        task = self._centred(task)
        result = super().solve_kernel(kernel, task, self._control(control, task), resources, start)
        result.offset = -centre
        return result

    def start_from(self, last: SolverResult, task: Task) -> WarmStart | None:
        return super().start_from(last, self._centred(task))

    def _centred(self, task: Task) -> Task:
        return dataclasses.replace(task, targets=_targets(task) - self._centre(task))

    def _centre(self, task: Task) -> float:
        """The mean target, to which a kernel machine without a bias is added; 0 where a bias is given."""
        options = self.options
        if options.bias is not None or options.bias_value > 0:
            return 0.0
        return float(np.average(_targets(task), weights=task.weights))

    def _control(self, control: Control, task: Task) -> Control:
        """A control whose gap counts in parts of the objective at f = 0, which can be far below 1 here."""
        at_0 = float(values(self.loss(), -_targets(task), self.costs(task.weights)).sum())
        if at_0 >= 1 or at_0 == 0:
            return control
        return control.part(tol=control.tol * at_0, max_iter=control.max_iter, callback=control.callback)


def _targets(task: Task) -> Floats:
    if task.targets is None:
        raise ValueError("a task of regression has a target for each row")
    return task.targets
