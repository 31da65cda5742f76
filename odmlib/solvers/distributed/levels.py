"""Training by partitions that are merged level by level (docs/internals/mathematics.md).

The whole problem is  min 1/2 |w|^2 + sum_i loss_i(z_i), the losses having costs c_i. A partition k with the
share q_k of the total weight stands for the whole: its rows have costs c_i / q_k, so that its solution w_k
resembles w, and the average  sum_k q_k w_k  is an approximate solution. In dual variables: a_i, solved with
costs c_i / q_k, is  q_k a_i  in the terms of the whole problem. Here duals are always kept in those terms:
merging partitions then is no work at all, and a merged problem with share q starts from a_i / q, the average
of its parts (concatenation, as published, would start from their sum). At every level the duals are a
feasible point of the whole problem, with a gap that says how good it is.

Below the first level only rows with a dual that is not 0 take part, unless `all_rows` are wanted as in the
SODM paper. Level 0, the whole problem, looks at all rows again; `cascade` does not, as published.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Floats, Places
from odmlib.kernels.cache import bytes_for_all
from odmlib.names import STATUSES
from odmlib.solvers.control import (
    CONVERGED,
    EARLY,
    MAX_ITER,
    STOPPED,
    TIME_LIMIT,
    Control,
    Progress,
    Regions,
    Resources,
    SolverResult,
    WarmStart,
)
from odmlib.solvers.distributed.partitions import Partitions, check_stop_level
from odmlib.solvers.kernel.precision import EXACT_ROWS, margins_need_float64
from odmlib.solvers.kernel.working_set import solve_working_set
from odmlib.solvers.problem import KernelProblem
from odmlib.solvers.running import TaskRun


@dataclass(frozen=True)
class LevelTuning:
    local_tol: float = 1e-2  # to which partitions are solved: what is below is not theirs to know
    active_tol: float = 0.3  # part of the tolerance for the rows at work, to be right for all rows
    most_rows: float = 0.5  # at work: from here on all rows may be as well
    round_gain: float = 0.1  # far from the end: to this part of the gap that the last look found
    max_rounds: int = 50
    local_iterations: int = 20  # blocks of rows per partition at most, however hard it is


TUNING = LevelTuning()


def solve_by_levels(
    problem: KernelProblem,
    partitions: Partitions,
    control: Control,
    resources: Resources,
    start: WarmStart | None = None,
    tuning: LevelTuning = TUNING,
    *,
    weights: Floats,
    stop_level: int = 0,
    cascade: bool = False,
    shrinking: bool = True,
    stop_at_gap: bool = False,
    all_rows: bool = False,
) -> SolverResult:
    """Solve level after level; the result has the list `levels`.

    Ends at `stop_level` with the average of its machines and their gap on all rows; with `stop_at_gap` at the
    first level whose average has converged. `weights` of the rows measure the shares of partitions. The
    start's duals are those of the first level.
    """
    check_stop_level(stop_level, partitions.plan)
    run = _Levels(problem, partitions, control, resources, tuning, weights, shrinking, stop_at_gap, all_rows)
    known = None if start is None else start.duals
    duals = np.zeros(problem.kernel.n_rows) if known is None else known.copy()
    if stop_level and partitions.found is not None:
        return run.regions(stop_level, duals)
    return run.merged(stop_level, cascade, duals)


@dataclass(frozen=True)
class _Part:
    """A partition of a level: its number and its rows that are at work."""

    output: int
    rows: Places


@dataclass(frozen=True)
class _Levels:
    """One call of solve_by_levels."""

    problem: KernelProblem
    partitions: Partitions
    control: Control
    resources: Resources
    tuning: LevelTuning
    weights: Floats
    shrinking: bool
    stop_at_gap: bool
    all_rows: bool

    def merged(self, stop_level: int, cascade: bool, duals: Floats) -> SolverResult:
        """The machine of all rows, or the average of those of the last level."""
        plan = self.partitions.plan
        whole = stop_level == 0 and not (cascade and plan.levels)
        levels, known = self._descend(stop_level or int(whole), duals)
        whole = whole and known is None
        began = self.control.seconds()
        result = known or (self._solve_whole(duals) if whole else self._look(duals))
        if whole:
            n_support = int(np.count_nonzero(result.duals))
            seconds = self.control.seconds() - began
            levels.append(level_record(0, 1, len(duals), n_support, [result], seconds))
        elif result.status == MAX_ITER:
            result.status = EARLY
        levels[-1]["full_gap"] = result.gap
        result.solver = "levels+working-set" if plan.levels else "working-set"
        result.levels = levels
        result.details["landmarks"] = self.partitions.n_landmarks
        return result

    def regions(self, stop_level: int, duals: Floats) -> SolverResult:
        """A machine for every cluster of the last level, each on all of its rows and to the run's tolerance.

        Together they solve  min sum_k q_k P_k(w_k),  P_k being the problem of cluster k with the share q_k.
        The result's objective and gap are those of this sum.
        """
        levels, _ = self._descend(stop_level + 1, duals)
        # a cluster without rows is left out
        clusters = np.unique(self.partitions.at(stop_level), return_inverse=True)[1]
        every = np.ones(len(duals), dtype=bool)
        record, found = self._solve_level(clusters, stop_level, every, duals, whole=True)
        shares = self._shares(clusters)
        primal = math.fsum(shares[k] * result.primal for k, result in found.items())
        dual = math.fsum(shares[k] * result.dual for k, result in found.items())
        result = SolverResult.at(
            max((result.status for result in found.values()), key=STATUSES.index),
            primal,
            max(0.0, primal - dual),
            sum(result.iterations for result in found.values()),
            "levels+working-set",
            duals=duals,
            details={"landmarks": self.partitions.n_landmarks, "regions": len(shares)},
        )
        if result.gap <= self.control.tol:
            result.status = CONVERGED
        result.levels = [*levels, record | {"full_gap": result.gap}]
        result.regions = Regions(clusters, shares)
        return result

    def _descend(self, last: int, duals: Floats) -> tuple[list[dict[str, Any]], SolverResult | None]:
        """Solve the levels from the first one down to `last`; changes the duals.

        Returns the records, and the average of a level where it has converged and the run is to stop there.
        """
        levels = []
        first = self.partitions.plan.levels
        for level in range(first, last - 1, -1):
            every = level == first or self.all_rows
            active = np.ones(len(duals), dtype=bool) if every else duals != 0
            levels.append(self._solve_level(self.partitions.at(level), level, active, duals)[0])
            if self.control.out_of_time() is not None:
                break
            if self.stop_at_gap:
                known = self._look(duals)
                levels[-1]["full_gap"] = known.gap
                if known.status == CONVERGED:
                    return levels, known
        return levels, None

    def _solve_whole(self, duals: Floats) -> SolverResult:
        """Level 0. Where the cache does not hold all kernel rows and most rows have no part in the solution,
        rounds solve those that have a part, then look at all rows, which lets in those that should have."""
        problem, control, tuning = self.problem, self.control, self.tuning
        kernel, m = problem.kernel, problem.kernel.n_rows
        float64 = margins_need_float64(kernel, problem.costs, problem.loss)
        if kernel.formula.name == "precomputed" or bytes_for_all(m, float64) <= self.resources.cache_bytes:
            return self._solve(problem, duals, control)
        iterations = 0
        known = self._look(duals)
        for rounds in range(1, tuning.max_rounds + 1):
            if known.status != MAX_ITER:  # converged, or out of time
                break
            slopes = problem.slopes_and_curvatures(known.margins, self.resources.threads)[1]
            active = np.flatnonzero((known.duals != 0) | (slopes != 0))
            left = control.left(iterations)
            if len(active) > tuning.most_rows * m:
                told = control.told(_counted_on(iterations))
                rest = self._solve(problem, known.duals, control.part(max_iter=left, callback=told))
                rest.iterations += iterations
                return rest
            tol = max(tuning.active_tol * control.tol, tuning.round_gain * known.gap)
            told = control.told(_counted_on(iterations, f"{len(active)} of {m} rows"))
            part = control.part(tol=tol, max_iter=left, callback=told)
            some = self._solve(problem.restricted(active), known.duals[active], part)
            iterations += some.iterations
            if some.status in (TIME_LIMIT, STOPPED):  # no time to look at all rows: the last point that was
                known.status = some.status
                break
            duals = np.zeros(m)
            duals[active] = some.duals
            known = self._look(duals)
            if known.status == MAX_ITER and some.status not in (CONVERGED, MAX_ITER):
                known.status = some.status
            known.details["rounds"] = rounds
            if control.max_iter is not None and iterations >= control.max_iter:
                break
        known.iterations = iterations
        return known

    def _solve(self, problem: KernelProblem, duals: Floats, control: Control) -> SolverResult:
        start = WarmStart(duals=duals)
        return solve_working_set(problem, control, self.resources, start, shrinking=self.shrinking)

    def _look(self, duals: Floats) -> SolverResult:
        """The certificate of these duals on all rows; status max_iter: not converged."""
        return self._solve(self.problem, duals, self.control.part(max_iter=0))

    def _shares(self, partition: Places) -> Floats:
        """The part of the total weight that each partition has."""
        return np.bincount(partition, self.weights) / self.weights.sum()

    def _solve_level(
        self, partition: Places, level: int, active: NDArray[np.bool_], duals: Floats, whole: bool = False
    ) -> tuple[dict[str, Any], dict[int, SolverResult]]:
        """Solve every partition of a level on its active rows; changes `duals`.

        Returns the level's record and the results by partition. `whole`: to the tolerance of the run and
        without a limit.
        """
        problem, control, tuning = self.problem, self.control, self.tuning
        began = control.seconds()
        shares = self._shares(partition)
        largest = problem.costs / shares[shares > 0].min()
        float64 = margins_need_float64(problem.kernel, largest, problem.loss)

        def need(part: _Part) -> int:
            return bytes_for_all(len(part.rows), float64 or len(part.rows) <= EXACT_ROWS)

        def solve(part: _Part, control: Control, threads: int) -> SolverResult:
            share = shares[part.output]
            own = problem.restricted(part.rows)
            own.kernel.threads = threads
            return solve_working_set(
                dataclasses.replace(own, costs=own.costs / share),
                control,
                Resources(threads, min(self.resources.cache_bytes, need(part)), seed=self.resources.seed),
                WarmStart(duals=duals[part.rows] / share),
                shrinking=self.shrinking,
            )

        found: dict[int, SolverResult] = {}

        def keep(part: _Part, result: SolverResult) -> None:
            duals[part.rows] = shares[part.output] * result.duals
            result.duals = result.margins = None
            found[part.output] = result

        def named(progress: Progress) -> Progress:
            stage = f"level {level}, partition {progress.task} of {progress.tasks}"
            return dataclasses.replace(progress, stage=stage)

        most = [n for n in (control.max_iter, None if whole else tuning.local_iterations) if n is not None]
        # the average of parts that are only just good enough would not be good enough
        local_tol = tuning.local_tol if self.stop_at_gap else max(tuning.local_tol, control.tol)
        tol = control.tol if whole else local_tol
        parts = [
            _Part(k, np.flatnonzero(active & (partition == k))) for k in np.flatnonzero(shares > 0).tolist()
        ]
        level_control = control.part(tol=tol, max_iter=min(most, default=None), callback=control.told(named))
        TaskRun(level_control, len(shares)).run(
            [part for part in parts if len(part.rows)],
            solve,
            keep,
            threads=self.resources.threads,
            budget=self.resources.cache_bytes,
            need=need,
        )
        counts = len(shares), int(active.sum()), int(np.count_nonzero(duals))
        record = level_record(level, *counts, found.values(), control.seconds() - began)
        return record, dict(sorted(found.items()))


def level_record(
    level: int, partitions: int, rows: int, support_vectors: int, parts: Iterable[Any], seconds: float
) -> dict[str, Any]:
    """The report's entry of a level; `parts` have iterations, a gap and a status."""
    found = list(parts)
    return {
        "level": level,
        "partitions": partitions,
        "rows": rows,
        "support_vectors": support_vectors,
        "iterations": max((part.iterations for part in found), default=0),
        "gap": max((part.gap for part in found), default=0.0),
        "unfinished": sum(part.status != CONVERGED for part in found),
        "seconds": seconds,
    }


def _counted_on(done: int, stage: str = "") -> Callable[[Progress], Progress]:
    """How a part of the run tells its progress; the gap of a `stage` is not that of all rows."""

    def change(progress: Progress) -> Progress:
        gap = math.inf if stage else progress.gap
        return dataclasses.replace(progress, iteration=done + progress.iteration, gap=gap, stage=stage)

    return change
