"""Training by partitions that are merged level by level (spec/sodm.md sections 3 and 5).

The whole problem is  min 1/2 |w|^2 + sum_i loss_i(z_i), the losses having costs c_i. A partition k with the
share q_k of the total weight stands for the whole: its rows have costs c_i / q_k, so that its solution w_k
resembles w, and the average  sum_k q_k w_k  is an approximate solution. In dual variables: a_i, solved with
costs c_i / q_k, is  q_k a_i  in the terms of the whole problem. Here duals are always kept in those terms:
merging partitions then is no work at all, and a merged problem with share q starts from a_i / q, the average
of its parts (concatenation, as published, would start from their sum). At every level the duals are a
feasible point of the whole problem, with a gap that says how good it is.

Below the first level only rows with a dual that is not 0 take part. Level 0, the whole problem, looks at all
rows again; `cascade` does not, as published.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib.errors import ParameterError
from odmlib.kernels.cache import bytes_for_all
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import MarginLoss
from odmlib.machines.machine import Effort, Task
from odmlib.machines.running import TaskRun
from odmlib.solvers.control import CONVERGED, EARLY, MAX_ITER, Control, Progress, SolverResult
from odmlib.solvers.partitions import Partitions
from odmlib.solvers.working_set import float32_is_too_coarse, solve_working_set

Floats = NDArray[np.float64]

LOCAL_TOL = 1e-2  # to which partitions are solved: what is below is not theirs to know
LOCAL_ITERATIONS = 20  # blocks of rows per partition at most, however hard it is


@dataclass(frozen=True)
class LevelProblem:
    """The whole problem: `costs` of the rows' losses, `weights` to measure the shares of partitions by."""

    kernel: Kernel
    signs: Floats
    costs: Floats
    weights: Floats
    loss: MarginLoss
    shrinking: bool
    seed: int


def solve_by_levels(
    problem: LevelProblem,
    partitions: Partitions,
    effort: Effort,
    *,
    stop_level: int = 0,
    cascade: bool = False,
    start: Floats | None = None,
) -> SolverResult:
    """Solve level after level; the result's `details` have the list `levels`.

    Ends at `stop_level` with the average of its machines and their gap on all rows. `start`: duals to begin
    from, at the first level.
    """
    plan, control = partitions.plan, effort.control
    if stop_level > plan.levels:
        raise ParameterError(
            f"stop_level (--stop-level) must be at most {plan.levels}, the first level, found {stop_level}"
        )
    duals = np.zeros(problem.kernel.n_rows) if start is None else start.copy()
    levels: list[dict[str, Any]] = []
    last_group_level = stop_level if stop_level or (cascade and plan.levels) else 1
    for level in range(plan.levels, last_group_level - 1, -1):
        active = np.ones(len(duals), dtype=bool) if level == plan.levels else duals != 0
        levels.append(_solve_level(problem, partitions.at(level), level, active, duals, effort))
        if control.out_of_time() is not None:
            break
    began = control.seconds()
    whole = stop_level == 0 and not (cascade and plan.levels)
    result = solve_working_set(
        problem.kernel,
        problem.signs,
        problem.costs,
        problem.loss,
        control if whole else _only_look(control),
        cache_bytes=effort.cache_bytes,
        shrinking=problem.shrinking,
        threads=effort.threads,
        seed=problem.seed,
        start=duals,
    )
    assert result.duals is not None
    if whole:
        levels.append(
            {
                "level": 0,
                "partitions": 1,
                "rows": len(duals),
                "support_vectors": int(np.count_nonzero(result.duals)),
                "iterations": result.iterations,
                "gap": result.gap,
                "seconds": control.seconds() - began,
            }
        )
    elif result.status == MAX_ITER:
        result.status = EARLY
    levels[-1]["full_gap"] = result.gap
    result.solver = "levels+working-set" if plan.levels else "working-set"
    result.details |= {"levels": levels, "landmarks": partitions.n_landmarks}
    return result


def _only_look(control: Control) -> Control:
    """Ends training before its first step: what is left is the certificate of the start."""
    look = Control(control.tol, 0, control.time_limit)
    look.started = control.started
    return look


class _LevelControl(Control):
    """The control of a level: the run's clock, the tolerance of partitions, progress that names the level."""

    def __init__(self, control: Control, level: int):
        limit = LOCAL_ITERATIONS if control.max_iter is None else min(LOCAL_ITERATIONS, control.max_iter)
        told = None if control.callback is None else self._tell
        super().__init__(max(LOCAL_TOL, control.tol), limit, control.time_limit, told)
        self.started, self.control, self.level = control.started, control, level

    def _tell(self, progress: Progress) -> object:
        stage = f"level {self.level}, partition {progress.task} of {progress.tasks}"
        assert self.control.callback is not None
        return self.control.callback(dataclasses.replace(progress, stage=stage))

    def out_of_time(self) -> str | None:
        return self.control.out_of_time()


def _solve_level(
    problem: LevelProblem,
    partition: NDArray[np.int64],
    level: int,
    active: NDArray[np.bool_],
    duals: Floats,
    effort: Effort,
) -> dict[str, Any]:
    """Solve every partition of a level on its active rows; changes `duals`, returns the level's record."""
    control = effort.control
    began = control.seconds()
    n_partitions = int(partition.max()) + 1
    shares = np.bincount(partition, problem.weights, minlength=n_partitions) / problem.weights.sum()
    wide = float32_is_too_coarse(problem.kernel, problem.costs / shares[shares > 0].min())

    def tasks() -> Iterator[Task]:
        for k in range(n_partitions):
            rows = np.flatnonzero(active & (partition == k))
            yield Task(k, (0, 1), problem.signs[rows], problem.costs[rows], rows)

    def solve(task: Task, control: Control, threads: int) -> SolverResult:
        assert task.rows is not None
        share = shares[task.output]
        part = problem.kernel.restricted(task.rows)
        part.threads = threads
        return solve_working_set(
            part,
            task.signs,
            task.weights / share,
            problem.loss,
            control,
            cache_bytes=min(effort.cache_bytes, need(task)),
            shrinking=problem.shrinking,
            threads=threads,
            seed=problem.seed,
            start=duals[task.rows] / share,
        )

    def need(task: Task) -> int:
        return bytes_for_all(len(task.signs), wide)

    found: dict[int, SolverResult] = {}

    def keep(task: Task, result: SolverResult) -> None:
        assert result.duals is not None
        duals[task.rows] = shares[task.output] * result.duals
        result.duals = result.margins = None
        found[task.output] = result

    worth = [task for task in tasks() if len(task.signs) and shares[task.output] > 0]
    TaskRun(_LevelControl(control, level), n_partitions).run(
        worth, solve, keep, threads=effort.threads, budget=effort.cache_bytes, need=need
    )
    return {
        "level": level,
        "partitions": n_partitions,
        "rows": int(active.sum()),
        "support_vectors": int(np.count_nonzero(duals)),
        "iterations": max((result.iterations for result in found.values()), default=0),
        "gap": max((result.gap for result in found.values()), default=0.0),
        "unfinished": sum(result.status != CONVERGED for result in found.values()),
        "seconds": control.seconds() - began,
    }
