"""C-SVM, the baseline of the papers (spec/odm.md section 1).

    min_w  1/2 |w|^2 + C sum_i s_i max(0, 1 - z_i)

with margins z_i = y_i f(x_i) and row weights s_i: LIBLINEAR's -s 3, and LIBSVM's C-SVC without its free bias
(a bias is a constant feature here, as in LIBLINEAR). lambda = C sum_i s_i is the papers' weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odmlib.losses.loss import HingeLoss
from odmlib.machines.machine import Floats, Machine
from odmlib.solvers.control import SolverResult

if TYPE_CHECKING:
    from odmlib.losses.loss import MeanVarianceLoss


class Svm(Machine):
    name = "svm"

    def loss(self) -> HingeLoss | MeanVarianceLoss:
        return HingeLoss()

    def costs(self, weights: Floats) -> Floats:
        return self.C * weights

    def linear_engine(self) -> Callable[..., SolverResult]:
        from odmlib.solvers.hinged import solve_hinged

        return solve_hinged
