"""Dual block method for linear machines: the working-set method without kernel rows.

Wide sparse data with large values or a large C are badly conditioned: coordinate descent creeps, and so do
conjugate gradients. Blocks of rows solved by Newton's method (head of _working_set.pyx) stay fast there. One
iteration costs the products of a block's rows with each other, a few small factorisations and one X w.
"""

from __future__ import annotations

from odmlib.solvers.control import STALLED, Control, Resources, SolverResult, StallDetector, WarmStart
from odmlib.solvers.kernel.block_steps import TUNING, BlockSteps, WorkingSetTuning
from odmlib.solvers.kernel.q_rows import LinearRows
from odmlib.solvers.problem import LinearProblem


def solve_linear_blocks(
    problem: LinearProblem,
    control: Control,
    resources: Resources,
    start: WarmStart | None = None,
    tuning: WorkingSetTuning = TUNING,
) -> SolverResult:
    """Train a linear machine from the start's duals."""
    m, y = problem.rows.n_rows, problem.y
    start = start or WarmStart()
    q = LinearRows(problem.rows, max(1, min(tuning.block_rows, m)), resources.threads)
    steps = BlockSteps(q, problem, tuning.worth(m, resources.seed), resources.seed, tuning)
    state = steps.state
    if start.duals is not None:
        state.duals[:] = start.duals
        q.rebuild(y * state.duals, state.scores)
    stall = StallDetector(tuning.stall_iterations)
    iteration, fresh = start.iterations, True
    stall.restart(iteration)
    own_limit = max(10_000, 100 * m)
    while True:
        primal, gap = state.measure()
        target = control.target(primal)
        if gap <= target and not fresh:
            # w was updated step by step: claim nothing before it is computed anew
            q.rebuild(y * state.duals, state.scores)
            fresh = True
            continue
        status = control.step(iteration, primal, gap, own_limit)
        if status is None and stall.stalled(iteration, primal - gap, gap):
            status = STALLED
        if status is not None and fresh:
            break
        if status is None:
            status = steps.improve(target, control)
        if status is None:
            iteration += 1
            fresh = False
        elif not fresh:
            q.rebuild(y * state.duals, state.scores)
            fresh = True
    details = {"newton_steps": state.newton_steps, "sweeps": state.sweeps, "block_rows": q.most_rows}
    margins = problem.margins_of(state.scores)
    found = {"weights": q.weights, "duals": state.duals, "margins": margins, "details": details}
    return SolverResult.at(status, primal, gap, iteration, "blocks", **found)
