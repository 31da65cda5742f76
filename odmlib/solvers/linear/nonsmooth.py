"""Which solver trains a linear machine whose loss has a kink (SVM, ODM^L).

auto: dual coordinate descent, which is fast while C |x|^2 is moderate; where the columns are few enough for
an explicit system and the gap's rate promises more sweeps than the interior-point method costs, that goes on
from the weights found, with their dual value as a bound. ODM^L, whose variance slows coordinate descent down,
begins with the interior-point method. Wide data stay with coordinate descent.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Floats
from odmlib._core.rows import Rows
from odmlib.losses.loss import MeanVarianceLoss
from odmlib.solvers.control import MAX_ITER, Control, Resources, SolverResult, WarmStart
from odmlib.solvers.linear.certificate import certified
from odmlib.solvers.linear.dcd import TUNING as DCD
from odmlib.solvers.linear.dcd import DcdTuning, solve_dcd
from odmlib.solvers.linear.interior import solve_interior
from odmlib.solvers.linear.newton import TUNING as NEWTON
from odmlib.solvers.linear.newton import NewtonTuning, prefers_explicit_hessian
from odmlib.solvers.linear.svrg_pairs import solve_pair_svrg
from odmlib.solvers.margin_mean import MovingMean, first_duals, variance_of
from odmlib.solvers.problem import LinearProblem


@dataclass(frozen=True)
class NonsmoothTuning:
    # The cost of the interior-point method, in multiply-adds of a sweep (1 ns): measured on ijcnn1, phishing
    interior_steps: int = 20  # 13 to 34
    interior_passes: float = 5.0  # over the values, in a step
    interior_row: float = 90.0  # vectors of one number a row, in a step
    gram_product: float = 0.5  # of two values, in X'DX
    sweep_row: float = 20.0  # of a visit beside its values
    share: float = 0.3  # of that cost which coordinate descent may spend before its rate is judged
    most: float = 2.0  # times that cost, and never more
    newton: NewtonTuning = NEWTON  # says whether a system of the size of w is cheap
    dcd: DcdTuning = DCD


TUNING = NonsmoothTuning()


def solve_nonsmooth(
    problem: LinearProblem,
    control: Control,
    resources: Resources,
    start: WarmStart | None = None,
    tuning: NonsmoothTuning = TUNING,
    *,
    solver: str = "auto",
    shrinking: bool = True,
) -> SolverResult:
    """Train a linear machine with the named solver, from the start's weights."""

    def solve(control: Control, start: WarmStart | None) -> SolverResult:
        return _solve(problem, control, resources, start, tuning, solver, shrinking)

    return certified(solve, problem, control, start, resources.threads)


def _solve(
    problem: LinearProblem,
    control: Control,
    resources: Resources,
    start: WarmStart | None,
    tuning: NonsmoothTuning,
    solver: str,
    shrinking: bool,
) -> SolverResult:
    loss, costs = problem.loss, problem.costs
    weights = None if start is None else start.weights
    if solver == "svrg":
        return solve_pair_svrg(problem, control, resources, start)
    explicit = prefers_explicit_hessian(problem.rows, tuning.newton)
    if solver == "interior-point" or (
        solver == "auto" and explicit and (weights is not None or variance_of(loss) > 0)
    ):
        return solve_interior(problem, control, resources, start)
    hands_over = solver == "auto" and explicit
    dcd = tuning.dcd
    if hands_over:
        patience = interior_cost(problem.rows, tuning)
        judged = max(dcd.early_checks, math.ceil(tuning.share * patience))
        most = max(judged, math.ceil(tuning.most * patience))
        dcd = dataclasses.replace(dcd, patience=patience, first_forecast=judged, max_sweeps=most)
    result = solve_dcd(
        problem,
        control,
        resources,
        WarmStart(duals=_start_duals(problem, weights, resources.threads)),
        dcd,
        shrinking=shrinking,
        margin_mean=MovingMean.of(loss, costs),
    )
    if not hands_over or result.status != MAX_ITER or control.max_iter is not None:
        return result
    return solve_interior(problem, control, resources, WarmStart.of(result))


def interior_cost(rows: Rows, tuning: NonsmoothTuning = TUNING) -> float:
    """What the interior-point method costs, in sweeps of coordinate descent."""
    m, values, n = rows.n_rows, rows.n_nonzeros, rows.n_columns
    products = float(np.square(rows.row_lengths(), dtype=np.float64).sum()) / 2
    step = tuning.gram_product * (products + n**3 / 3) + tuning.interior_passes * values
    step += tuning.interior_row * m
    return tuning.interior_steps * step / (2 * values + tuning.sweep_row * m + 1)


def _start_duals(problem: LinearProblem, weights: Floats | None, threads: int) -> Floats | None:
    loss = problem.loss
    if weights is None:
        return first_duals(loss, problem.costs)
    if isinstance(loss, MeanVarianceLoss) and not loss.mean == loss.variance == 0:
        return problem.duals_of(problem.margins(weights, threads), threads)
    return problem.start_duals(weights, threads)
