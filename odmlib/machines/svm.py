"""C-SVM, the baseline of the papers (docs/internals/mathematics.md).

    min_w  1/2 |w|^2 + C sum_i s_i max(0, 1 - z_i)

with margins z_i = y_i f(x_i) and row weights s_i: LIBLINEAR's -s 3, and LIBSVM's C-SVC without its free bias
(a bias is a constant feature here, as in LIBLINEAR). lambda = C sum_i s_i is the papers' weight.
"""

from __future__ import annotations

from collections.abc import Callable

from odmlib.losses.loss import HingeLoss, MeanVarianceLoss
from odmlib.machines.machine import Floats, Machine
from odmlib.solvers.control import SolverResult


class Svm(Machine):
    def loss(self) -> MeanVarianceLoss:
        return HingeLoss()

    def costs(self, weights: Floats) -> Floats:
        return self.C * weights

    def linear_engine(self) -> Callable[..., SolverResult]:
        from odmlib.solvers.linear.nonsmooth import solve_nonsmooth

        return solve_nonsmooth
