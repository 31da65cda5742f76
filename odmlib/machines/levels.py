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
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib.kernels.cache import bytes_for_all
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import MarginLoss
from odmlib.losses.sums import slopes_and_curvatures
from odmlib.machines.machine import Effort, Task
from odmlib.machines.running import TaskRun
from odmlib.names import STATUSES
from odmlib.solvers.control import (
    CONVERGED,
    EARLY,
    MAX_ITER,
    STOPPED,
    TIME_LIMIT,
    Control,
    Progress,
    SolverResult,
    relative_gap,
)
from odmlib.solvers.partitions import Partitions, check_stop_level
from odmlib.solvers.working_set import float32_is_too_coarse, solve_working_set

Floats = NDArray[np.float64]

LOCAL_TOL = 1e-2  # to which partitions are solved: what is below is not theirs to know
ACTIVE_TOL = 0.3  # part of the tolerance to which the rows at work are solved, to be right for all rows
MOST_ROWS = 0.5  # at work: from here on all rows may be as well
ROUND_GAIN = 0.1  # far from the end: to this part of the gap that the last look found
MAX_ROUNDS = 50
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

    def restricted(self, rows: NDArray[np.int64]) -> LevelProblem:
        kernel = self.kernel.restricted(rows)
        parts = self.signs[rows], self.costs[rows], self.weights[rows]
        return LevelProblem(kernel, *parts, self.loss, self.shrinking, self.seed)


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
    check_stop_level(stop_level, plan)
    duals = np.zeros(problem.kernel.n_rows) if start is None else start.copy()
    levels: list[dict[str, Any]] = []
    if stop_level and partitions.found is not None:
        return _solve_regions(problem, partitions, effort, stop_level, duals)
    last_group_level = stop_level if stop_level or (cascade and plan.levels) else 1
    for level in range(plan.levels, last_group_level - 1, -1):
        active = np.ones(len(duals), dtype=bool) if level == plan.levels else duals != 0
        levels.append(_solve_level(problem, partitions.at(level), level, active, duals, effort))
        if control.out_of_time() is not None:
            break
    began = control.seconds()
    whole = stop_level == 0 and not (cascade and plan.levels)
    result = (_solve_whole if whole else _look)(problem, duals, effort)
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


def _solve_regions(
    problem: LevelProblem, partitions: Partitions, effort: Effort, stop_level: int, duals: Floats
) -> SolverResult:
    """A machine for every cluster of the last level, each on all of its rows and to the tolerance of the run.

    Together they solve  min sum_k q_k P_k(w_k),  P_k being the problem of cluster k with the share q_k: the
    result's objective and gap are those of this sum. `details` has what prediction needs: `clusters`, the
    cluster of every row (a cluster without rows is left out), and their `shares`.
    """
    plan, control = partitions.plan, effort.control
    levels: list[dict[str, Any]] = []
    for level in range(plan.levels, stop_level, -1):
        active = np.ones(len(duals), dtype=bool) if level == plan.levels else duals != 0
        levels.append(_solve_level(problem, partitions.at(level), level, active, duals, effort))
        if control.out_of_time() is not None:
            break
    clusters = np.unique(partitions.at(stop_level), return_inverse=True)[1]
    every = np.ones(len(duals), dtype=bool)
    record = _solve_level(problem, clusters, stop_level, every, duals, effort, whole=True)
    shares = np.bincount(clusters, problem.weights) / problem.weights.sum()
    found: list[tuple[int, SolverResult]] = record.pop("results")
    primal = math.fsum(shares[k] * result.primal for k, result in found)
    dual = math.fsum(shares[k] * result.dual for k, result in found)
    gap = relative_gap(primal, max(0.0, primal - dual))
    levels.append(record | {"full_gap": gap})
    statuses = [result.status for _, result in found]
    return SolverResult(
        max(statuses, key=STATUSES.index) if gap > control.tol else CONVERGED,
        primal,
        dual,
        gap,
        sum(result.iterations for _, result in found),
        "levels+working-set",
        duals=duals,
        details={
            "levels": levels,
            "landmarks": partitions.n_landmarks,
            "regions": len(shares),
            "clusters": clusters,
            "shares": shares,
        },
    )


def _solve_whole(problem: LevelProblem, duals: Floats, effort: Effort) -> SolverResult:
    """Level 0. Where the cache does not hold all kernel rows and most rows have no part in the solution:
    rounds of solving those that have, and of looking at all rows, which lets in those that should have."""
    kernel, control = problem.kernel, effort.control
    m = kernel.n_rows
    wide = float32_is_too_coarse(kernel, problem.costs)
    if kernel.formula.name == "precomputed" or bytes_for_all(m, wide) <= effort.cache_bytes:
        return _solve(problem, duals, effort, control)
    iterations = 0
    known = _look(problem, duals, effort)
    for rounds in range(1, MAX_ROUNDS + 1):
        if known.status != MAX_ITER:  # converged, or out of time
            break
        assert known.duals is not None and known.margins is not None
        slopes = slopes_and_curvatures(problem.loss, known.margins, problem.costs, effort.threads)[1]
        active = np.flatnonzero((known.duals != 0) | (slopes != 0))
        if len(active) > MOST_ROWS * m:
            rest = _solve(problem, known.duals, effort, _ActiveControl(control, iterations))
            rest.iterations += iterations
            return rest
        part = problem.restricted(active)
        tol = max(ACTIVE_TOL * control.tol, ROUND_GAIN * known.gap)
        stage = f"{len(active)} of {m} rows"
        some = _solve(part, known.duals[active], effort, _ActiveControl(control, iterations, tol, stage))
        iterations += some.iterations
        if some.status in (TIME_LIMIT, STOPPED):  # no time to look at all rows: the last point that was
            known.status = some.status
            break
        assert some.duals is not None
        duals = np.zeros(m)
        duals[active] = some.duals
        known = _look(problem, duals, effort)
        if known.status == MAX_ITER and some.status not in (CONVERGED, MAX_ITER):
            known.status = some.status
        known.details["rounds"] = rounds
        if control.max_iter is not None and iterations >= control.max_iter:
            break
    known.iterations = iterations
    return known


def _solve(problem: LevelProblem, duals: Floats, effort: Effort, control: Control) -> SolverResult:
    return solve_working_set(
        problem.kernel,
        problem.signs,
        problem.costs,
        problem.loss,
        control,
        cache_bytes=effort.cache_bytes,
        shrinking=problem.shrinking,
        threads=effort.threads,
        seed=problem.seed,
        start=duals,
    )


def _look(problem: LevelProblem, duals: Floats, effort: Effort) -> SolverResult:
    """The certificate of these duals on all rows; status max_iter: not converged."""
    look = Control(effort.control.tol, 0, effort.control.time_limit)
    look.started = effort.control.started
    look.out_of_time = effort.control.out_of_time  # type: ignore[method-assign]
    return _solve(problem, duals, effort, look)


class _ActiveControl(Control):
    """The control of a round on some rows: a tolerance of its own, and a gap that is not that of all rows."""

    def __init__(self, control: Control, done: int, tol: float | None = None, stage: str = ""):
        left = None if control.max_iter is None else max(0, control.max_iter - done)
        told = None if control.callback is None else self._tell
        super().__init__(control.tol if tol is None else tol, left, control.time_limit, told)
        self.started, self.control, self.done, self.stage = control.started, control, done, stage

    def _tell(self, progress: Progress) -> object:
        assert self.control.callback is not None
        gap = math.inf if self.stage else progress.gap
        return self.control.callback(
            dataclasses.replace(progress, iteration=self.done + progress.iteration, gap=gap, stage=self.stage)
        )

    def out_of_time(self) -> str | None:
        return self.control.out_of_time()


class _LevelControl(Control):
    """The control of a level: the run's clock, the tolerance of partitions, progress that names the level."""

    def __init__(self, control: Control, level: int, whole: bool = False):
        limit = LOCAL_ITERATIONS if control.max_iter is None else min(LOCAL_ITERATIONS, control.max_iter)
        told = None if control.callback is None else self._tell
        tol = control.tol if whole else max(LOCAL_TOL, control.tol)
        super().__init__(tol, control.max_iter if whole else limit, control.time_limit, told)
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
    whole: bool = False,
) -> dict[str, Any]:
    """Solve every partition of a level on its active rows; changes `duals`, returns the level's record.

    `whole`: to the tolerance of the run and without a limit; the record has `results`, (partition, result).
    """
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
    TaskRun(_LevelControl(control, level, whole), n_partitions).run(
        worth, solve, keep, threads=effort.threads, budget=effort.cache_bytes, need=need
    )
    results = {"results": sorted(found.items())} if whole else {}
    return results | {
        "level": level,
        "partitions": n_partitions,
        "rows": int(active.sum()),
        "support_vectors": int(np.count_nonzero(duals)),
        "iterations": max((result.iterations for result in found.values()), default=0),
        "gap": max((result.gap for result in found.values()), default=0.0),
        "unfinished": sum(result.status != CONVERGED for result in found.values()),
        "seconds": control.seconds() - began,
    }
