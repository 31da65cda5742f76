"""Which solver trains a linear machine.

auto: Newton's method with an explicit Hessian where that is cheap, and with conjugate gradients where the
rows are many times the columns. Otherwise (wide data) dual coordinate descent, which is fast while C |x|^2
is moderate. If it would take too many sweeps, its weights are the start and its dual value the bound of
Newton's method with conjugate gradients. If these too take too many steps, the problem is badly
conditioned: the block method goes on from the duals of coordinate descent, unless the rows are so many that
it would need too many blocks.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from odmlib.solvers.control import MAX_ITER, Control, Resources, SolverResult, WarmStart
from odmlib.solvers.kernel.working_set import TUNING as WORKING_SET
from odmlib.solvers.kernel.working_set import WorkingSetTuning
from odmlib.solvers.linear.blocks import solve_linear_blocks
from odmlib.solvers.linear.certificate import certified
from odmlib.solvers.linear.dcd import TUNING as DCD
from odmlib.solvers.linear.dcd import DcdTuning, solve_dcd
from odmlib.solvers.linear.newton import TUNING as NEWTON
from odmlib.solvers.linear.newton import NewtonTuning, prefers_explicit_hessian, solve_newton
from odmlib.solvers.linear.svrg import solve_svrg
from odmlib.solvers.problem import LinearProblem


@dataclass(frozen=True)
class LinearTuning:
    """When auto hands over, and the tuning of those that take part."""

    sweeps: int = 200  # of coordinate descent, done or still to come
    cg_steps: int = 150  # of conjugate gradients in one Newton step
    block_method_rows: int = 200_000  # beyond, the block method would need too many blocks
    tall: int = 4  # rows per column that make data tall
    newton: NewtonTuning = NEWTON
    dcd: DcdTuning = DCD
    blocks: WorkingSetTuning = WORKING_SET


TUNING = LinearTuning()


def solve_linear(
    problem: LinearProblem,
    control: Control,
    resources: Resources,
    start: WarmStart | None = None,
    tuning: LinearTuning = TUNING,
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
    tuning: LinearTuning,
    solver: str,
    shrinking: bool,
) -> SolverResult:
    rows = problem.rows
    tall = rows.n_rows >= tuning.tall * rows.n_columns
    if solver == "newton" or (solver == "auto" and (tall or prefers_explicit_hessian(rows, tuning.newton))):
        return solve_newton(problem, control, resources, start, tuning.newton)
    if solver == "svrg":
        return solve_svrg(problem, control, resources, start)
    if start is not None and start.weights is not None:
        start = WarmStart(duals=problem.start_duals(start.weights, resources.threads))
    if solver == "blocks":
        return solve_linear_blocks(problem, control, resources, start, tuning.blocks)
    if solver == "dcd":
        return solve_dcd(problem, control, resources, start, tuning.dcd, shrinking=shrinking)
    impatient = dataclasses.replace(tuning.dcd, max_sweeps=tuning.sweeps, patience=tuning.sweeps)
    result = solve_dcd(problem, control, resources, start, impatient, shrinking=shrinking)
    if result.status != MAX_ITER or control.max_iter is not None:
        return result
    few_rows = rows.n_rows <= tuning.block_method_rows
    newton = dataclasses.replace(tuning.newton, cg_patience=tuning.cg_steps if few_rows else None)
    found = solve_newton(problem, control, resources, WarmStart.of(result), newton)
    found.duals = result.duals  # whose bound may be the one that counts
    if found.status != MAX_ITER or not few_rows:
        return found
    handed_on = WarmStart(duals=result.duals, iterations=found.iterations)
    return solve_linear_blocks(problem, control, resources, handed_on, tuning.blocks)
