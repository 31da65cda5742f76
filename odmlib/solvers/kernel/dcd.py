"""Dual coordinate descent for kernel machines, the ODM paper's solver for nonlinear kernels.

    min_a  1/2 a'Qa + sum_i conj_i(a_i)   (docs/internals/mathematics.md)

One sweep visits all rows in random order and minimises exactly over one a_i at a time, while the scores of
all rows are kept up to date: one kernel row per visit. The working set (working_set.py) is faster; this is
here to compare with the paper. Convergence is claimed on the relative duality gap over all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from odmlib._core.vectors import inner
from odmlib.solvers.control import Control, Resources, SolverResult, WarmStart
from odmlib.solvers.kernel._dcd import visit_rows
from odmlib.solvers.kernel.precision import cache_for
from odmlib.solvers.problem import KernelProblem


@dataclass(frozen=True)
class KernelDcdTuning:
    max_sweeps: int = 10_000
    slice_values: int = 4_000_000  # kernel values between two looks at the clock: some tens of milliseconds


TUNING = KernelDcdTuning()


def solve_kernel_dcd(
    problem: KernelProblem,
    control: Control,
    resources: Resources,
    start: WarmStart | None = None,
    tuning: KernelDcdTuning = TUNING,
) -> SolverResult:
    """Train a kernel machine from the start's duals."""
    y, costs, loss, n = problem.y, problem.costs, problem.loss, len(problem.y)
    cache, diagonal = cache_for(problem.kernel, resources, True), problem.kernel.diagonal()
    known = None if start is None else start.duals
    duals, scores = np.zeros(n), np.zeros(n)
    random = np.random.default_rng(resources.seed)
    slice_rows = max(1, min(cache.capacity, tuning.slice_values // n))
    if known is not None:
        duals[:] = known
        for begin in range(0, n, slice_rows):
            some = np.arange(begin, min(begin + slice_rows, n))
            scores += (y * duals)[some] @ cache.rows(some)
        scores += y * duals * problem.kernel.shift
    sweep = 0
    while True:
        margins = y * scores
        losses, gap = problem.losses_and_gap(duals, margins, resources.threads)
        primal = 0.5 * inner(duals, margins) + losses
        if (status := control.step(sweep, primal, gap, tuning.max_sweeps)) is not None:
            break
        order = random.permutation(n)
        for begin in range(0, n, slice_rows):
            some = order[begin : begin + slice_rows]
            visit_rows(loss, some, cache.rows(some), diagonal, y, costs, duals, scores)
            if control.out_of_time() is not None:
                break
        sweep += 1
    found = {"duals": duals, "margins": margins}
    return SolverResult.at(status, primal, gap, sweep, "dcd", **found)
