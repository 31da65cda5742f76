"""ODM, the optimal margin distribution machine (docs/internals/mathematics.md).

    min_w  1/2 |w|^2 + C / (1-theta)^2 sum_i s_i [ max(0, 1-theta-z_i)^2 + nu max(0, z_i-1-theta)^2 ]

with margins z_i = y_i f(x_i) and row weights s_i: margins are pulled into the band [1-theta, 1+theta],
from above nu times as strongly as from below. lambda = C sum_i s_i is the papers' weight.
"""

from __future__ import annotations

from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss
from odmlib.machines.machine import Floats, Machine, Task
from odmlib.solvers.control import Control, Resources, SolverResult, WarmStart
from odmlib.solvers.problem import KernelProblem


class Odm(Machine):
    def loss(self) -> BandLoss:
        return BandLoss(self.options.theta, self.options.nu)

    def costs(self, weights: Floats) -> Floats:
        return self.C * weights / (1 - self.options.theta) ** 2

    def solve_kernel(
        self, kernel: Kernel, task: Task, control: Control, resources: Resources, start: WarmStart | None
    ) -> SolverResult:
        if self.options.solver != "dcd":
            return super().solve_kernel(kernel, task, control, resources, start)
        from odmlib.solvers.kernel.dcd import solve_kernel_dcd

        problem = KernelProblem(kernel, task.signs, self.costs(task.weights), self.loss())
        return solve_kernel_dcd(problem, control, resources, start)
