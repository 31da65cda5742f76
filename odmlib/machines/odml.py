"""ODM^L, large margin distribution by mean and variance (docs/internals/mathematics.md).

    min_w  1/2 |w|^2 + lambda1 Var(z) - lambda2 Mean(z) + C sum_i s_i max(0, 1 - z_i)

with margins z_i = y_i f(x_i), row weights s_i, and mean and variance weighted by s_i / m, m the sum of the
row weights (without class weights). lambda1 and lambda2 are those of the paper; C is the weight of one row's
hinge as in SVM, so that the paper's C is lambda = C m. lambda1 = lambda2 = 0 is the SVM.

The variance is the least mean square distance from a number g, which is optimised along with w:
solvers/margin_mean.py for kernels, solvers/linear/interior.py for linear machines. No m x m matrix is made.
"""

from __future__ import annotations

from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import MeanVarianceLoss
from odmlib.machines.machine import Task
from odmlib.machines.svm import Svm
from odmlib.options import TrainOptions
from odmlib.solvers.control import Control, Resources, SolverResult, WarmStart
from odmlib.solvers.problem import KernelProblem


class Odml(Svm):
    def __init__(self, options: TrainOptions, total_weight: float):
        super().__init__(options, total_weight)
        # as much of each as of the hinge: the best choice on real sets, where 1 and 1 is nearly the SVM
        self.lambda1 = self.lambda_ if options.lambda1 is None else float(options.lambda1)
        self.lambda2 = self.lambda_ if options.lambda2 is None else float(options.lambda2)

    def loss(self) -> MeanVarianceLoss:
        """Relative to C, by which `costs` multiplies it; a new one for every task, which moves its mean."""
        return MeanVarianceLoss(self.lambda1 / self.lambda_, self.lambda2 / self.lambda_, 1.0)

    def start_from(self, last: SolverResult, task: Task) -> None:
        """Nothing: the mean moves with C, and duals that fitted the old one are a worse start than none."""

    def solve_kernel(
        self, kernel: Kernel, task: Task, control: Control, resources: Resources, start: WarmStart | None
    ) -> SolverResult:
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
