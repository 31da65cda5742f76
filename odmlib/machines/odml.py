"""ODM^L, large margin distribution by mean and variance (spec/odm.md sections 1 and 4).

    min_w  1/2 |w|^2 + lambda1 Var(z) - lambda2 Mean(z) + C sum_i s_i max(0, 1 - z_i)

with margins z_i = y_i f(x_i), row weights s_i, and mean and variance weighted by s_i / m, m the sum of the
row weights (without class weights). lambda1 and lambda2 are those of the paper; C is the weight of one row's
hinge as in SVM, so that the paper's C is lambda = C m. lambda1 = lambda2 = 0 is the SVM.

The variance is the least mean square distance from a centre g, which is optimised along with w:
solvers/centre.py for kernels, solvers/interior.py for linear machines. No m x m matrix is made or inverted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odmlib.losses.loss import MeanVarianceLoss
from odmlib.machines.machine import Begin, Effort, Task
from odmlib.machines.svm import Svm
from odmlib.options import TrainOptions
from odmlib.solvers.control import SolverResult

if TYPE_CHECKING:
    from odmlib.kernels.kernel import Kernel


class Odml(Svm):
    name = "odml"

    def __init__(self, options: TrainOptions, total_weight: float):
        super().__init__(options, total_weight)
        # as much of each as of the hinge: the best choice on real sets, where 1 and 1 is nearly the SVM
        self.lambda1 = self.lambda_ if options.lambda1 is None else float(options.lambda1)
        self.lambda2 = self.lambda_ if options.lambda2 is None else float(options.lambda2)

    def parameters(self) -> dict[str, Any]:
        return {
            "C": self.C,
            "lambda": self.lambda_,
            "lambda1": self.lambda1,
            "lambda2": self.lambda2,
        }

    def loss(self) -> MeanVarianceLoss:
        """Relative to C, by which `costs` multiplies it; a new one for every task, which moves its centre."""
        return MeanVarianceLoss(self.lambda1 / self.lambda_, self.lambda2 / self.lambda_, 1.0)

    @property
    def shares_cache(self) -> bool:
        return True

    def start_from(self, last: SolverResult, task: Task) -> None:
        """Nothing: the centre moves with C, and duals that fitted the old one are a worse start than none."""

    def solve_kernel(self, kernel: Kernel, task: Task, effort: Effort, start: Begin | None) -> SolverResult:
        from odmlib.solvers.hinged import first_duals, moving_centre
        from odmlib.solvers.working_set import solve_working_set

        loss, costs = self.loss(), self.costs(task.weights)
        return solve_working_set(
            kernel,
            task.signs,
            costs,
            loss,
            effort.control,
            cache_bytes=effort.cache_bytes,
            shrinking=self.options.shrinking and kernel.shift == 0,
            threads=effort.threads,
            seed=self.options.seed,
            start=first_duals(loss, costs) if start is None else start.duals,
            start_scores=None if start is None else start.scores,
            cache=effort.cache,
            centre=moving_centre(loss, costs),
        )
