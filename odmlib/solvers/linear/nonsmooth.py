"""Which solver trains a linear machine whose loss has a kink (SVM, ODM^L).

auto: dual coordinate descent, which is fast while C |x|^2 is moderate; if it has not converged after a few
sweeps and the columns are few enough for an explicit system, the interior-point method goes on from its
weights, with its dual value as a bound. ODM^L, whose variance slows coordinate descent down, begins with the
interior-point method. Wide data stay with coordinate descent.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from odmlib._core.arrays import Floats
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
    sweeps: int = 150  # of coordinate descent before auto hands over
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
    sweeps = tuning.sweeps if hands_over else tuning.dcd.max_sweeps
    result = solve_dcd(
        problem,
        control,
        resources,
        WarmStart(duals=_start_duals(problem, weights, resources.threads)),
        dataclasses.replace(tuning.dcd, max_sweeps=sweeps),
        shrinking=shrinking,
        margin_mean=MovingMean.of(loss, costs),
    )
    if not hands_over or result.status != MAX_ITER or control.max_iter is not None:
        return result
    return solve_interior(problem, control, resources, WarmStart.of(result))


def _start_duals(problem: LinearProblem, weights: Floats | None, threads: int) -> Floats | None:
    loss = problem.loss
    if weights is None:
        return first_duals(loss, problem.costs)
    if isinstance(loss, MeanVarianceLoss) and not loss.mean == loss.variance == 0:
        return problem.duals_of(problem.margins(weights, threads), threads)
    return problem.start_duals(weights, threads)
