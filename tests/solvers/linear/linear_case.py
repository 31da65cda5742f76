"""Calling the linear engines directly: a problem of arrays in, a SolverResult out."""

from __future__ import annotations

import numpy as np

from odmlib._core.rows import Rows
from odmlib.data.dataset import Dataset
from odmlib.losses.loss import BandLoss
from odmlib.solvers.control import Control, Resources, WarmStart
from odmlib.solvers.linear.auto import solve_linear
from odmlib.solvers.linear.blocks import solve_linear_blocks
from odmlib.solvers.linear.dcd import solve_dcd
from odmlib.solvers.linear.newton import solve_newton
from odmlib.solvers.linear.svrg import solve_svrg
from odmlib.solvers.problem import LinearProblem
from tests.reference_linear import reference

ENGINES = {"newton": solve_newton, "dcd": solve_dcd, "svrg": solve_svrg, "auto": solve_linear}
ENGINES["blocks"] = solve_linear_blocks

LIMITS = ("max_iter", "time_limit", "callback")


class Case:
    """A linear machine's problem, for the engines and for the reference alike."""

    def __init__(self, X, y, *, C=1.0, nu=0.5, theta=0.2, bias=1.0, weights=None):
        self.reference = reference(
            np.asarray(X, dtype=float), y, C=C, nu=nu, theta=theta, bias=bias, weights=weights
        )
        self.rows = Rows(Dataset.from_any(X), bias)
        self.y, self.costs = self.reference.y, self.reference.costs
        self.loss = BandLoss(theta, nu)

    @property
    def problem(self):
        return LinearProblem(self.rows, self.y, self.costs, self.loss)

    def solve(self, engine, tol=1e-10, *, threads=1, seed=0, **options):
        """Options: those of Control and of the engine; `weights`, `duals` or `bound` are its start."""
        control = Control(tol, **{name: options.pop(name) for name in LIMITS if name in options})
        known = {name: options.pop(name) for name in ("weights", "duals", "bound") if name in options}
        start = WarmStart(**known) if known else None
        return ENGINES[engine](self.problem, control, Resources(threads, seed=seed), start, **options)

    def optimum(self):
        w = self.reference.solve()
        return w, self.reference.primal(w)


def check_result(case: Case, result) -> None:
    """What every engine promises of its result, whatever its status."""
    w = result.weights
    primal = case.reference.primal(w)
    scale = abs(primal)
    assert abs(result.primal - primal) <= 1e-9 * scale
    assert result.gap >= 0
    assert abs(result.gap - (result.primal - result.dual) / scale) <= 1e-11 * max(1.0, result.gap)
    np.testing.assert_allclose(result.margins, case.y * (case.reference.X @ w), rtol=1e-9, atol=1e-9)
    _, best = case.optimum()
    # the gap is a certificate: primal and dual enclose the optimum
    assert result.dual <= best + 1e-10 * scale
    assert best <= result.primal + 1e-10 * scale
