"""ODMO, novelty detection: the ODM of one class (docs/internals/mathematics.md).

    min_w  1/2 |w|^2 + C / (1-theta)^2 sum_i s_i [ max(0, 1-theta-f_i)^2 + max(0, f_i-1-theta)^2 ]

All rows lie on one side: their outputs f_i = f(x_i) are drawn into the band [1-theta, 1+theta], and with
theta = 0 to 1 itself, which makes their variance small. A new row far below the others is a novelty. The
threshold comes from the outputs of left-out rows: selection/novelty.py.
"""

from __future__ import annotations

from odmlib.data.problem import Problem
from odmlib.losses.loss import BandLoss
from odmlib.machines.many_rows import ManyRows
from odmlib.machines.odm import Odm
from odmlib.model.model import Model


class Odmo(ManyRows, Odm):
    def scheme(self, problem: Problem, kernel: str, init: Model | None = None) -> str:
        return "binary"  # positive: like the training rows

    def loss(self) -> BandLoss:
        return BandLoss(self.options.theta, 1.0)  # nu is the rate of false alarms here
