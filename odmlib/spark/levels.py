"""Kernel machines on a cluster by partitions that are merged level by level.

This is solvers/distributed/levels.py with the parts in tasks (docs/internals/mathematics.md, SODM). Rows are
dealt to p^L parts (solvers/distributed/partitions.py): blocks count their keys, the driver adds the counts up
to where each block's rows of a key begin in the deal, and a shuffle brings the parts together. A part is
solved in one task; only rows with a dual that is not 0 go on to the next level, where p parts are one.
Duals are in the terms of the whole problem throughout.

A look at all rows: the support vectors, which are the model, go to every block, which computes its rows'
margins and its part of the objective and of the gap. Level 0 is rounds: rows that have a part in the
solution, or by the last look should have one, come together in one task and are solved; then a look; until
the gap on all rows is small enough. So that one task needs room for those rows, not for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from odmlib._core.arrays import Floats, Places
from odmlib.data.dataset import Dataset, stacked
from odmlib.kernels.cache import bytes_for_all
from odmlib.kernels.expansion import kernel_scores
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.losses.sums import slopes_and_curvatures, value_and_gap
from odmlib.machines.sodm import Sodm
from odmlib.solvers.control import (
    CONVERGED,
    EARLY,
    MAX_ITER,
    STALLED,
    STOPPED,
    TIME_LIMIT,
    Control,
    Progress,
    Resources,
    SolverResult,
    WarmStart,
    relative_gap,
)
from odmlib.solvers.distributed.levels import TUNING, level_record
from odmlib.solvers.distributed.partitions import TUNING as PARTITIONS
from odmlib.solvers.distributed.partitions import Plan, check_stop_level, make_plan
from odmlib.solvers.kernel.precision import margins_need_float64
from odmlib.solvers.kernel.working_set import solve_working_set
from odmlib.solvers.problem import KernelProblem
from odmlib.spark.blocks import RowBlock, Summary, Whole
from odmlib.spark.engine import NUMBERS_OF_PARTITION, Kept, Pairs, Spread, task_threads
from odmlib.spark.landmarks import find_landmarks, nearest_landmarks
from odmlib.spark.margins import MarginPart, margin_part

PART_COLUMNS = ("places", "signs", "costs", "duals")


@dataclass(frozen=True)
class Part:
    """Rows of a partition that are at work, with their places among all rows; `weight`: of all its rows."""

    number: int
    places: Places
    rows: Dataset
    signs: Floats
    costs: Floats
    duals: Floats
    weight: float

    def take(self, some: Places) -> Part:
        columns = {name: getattr(self, name)[some] for name in PART_COLUMNS}
        return replace(self, rows=self.rows.take(some), **columns)


def merged(number: int, parts: Iterable[Part]) -> Part:
    """One part of several, its rows by ascending place: no other order of arrival is seen."""
    some = list(parts)
    columns = {name: np.concatenate([getattr(part, name) for part in some]) for name in PART_COLUMNS}
    weight = math.fsum(part.weight for part in some)
    whole = Part(number=number, rows=stacked([part.rows for part in some]), weight=weight, **columns)
    return whole.take(np.argsort(whole.places))


@dataclass(frozen=True)
class Solved:
    """What a task tells of the part it solved."""

    rows: int
    support_vectors: int
    iterations: int
    gap: float
    status: str


@dataclass(frozen=True)
class Look:
    """The solution so far, with the certificate that all rows gave it."""

    vectors: Part
    primal: float
    gap: float  # absolute
    margins: list[MarginPart]


@dataclass(frozen=True)
class ClusterProblem:
    """What tasks need to know of the whole problem."""

    machine: Sodm
    formula: KernelFormula
    whole: Whole

    def solve(
        self, part: Part, share: float, tol: float, max_iter: int | None, seconds: float | None
    ) -> tuple[Part, Solved]:
        """The part's rows that have a dual afterwards; runs in a task."""
        options, threads = self.machine.options, task_threads()
        if not len(part.places) or share <= 0:
            return part, Solved(0, 0, 0, 0.0, CONVERGED)
        kernel = Kernel(self.formula, part.rows, threads)
        costs = part.costs / share
        float64 = margins_need_float64(kernel, costs, self.machine.loss())
        cache_bytes = min(options.cache_bytes, bytes_for_all(len(costs), float64))
        result = solve_working_set(
            KernelProblem(kernel, part.signs, costs, self.machine.loss()),
            Control(tol, max_iter, seconds),
            Resources(threads, cache_bytes, seed=options.seed),
            WarmStart(duals=part.duals / share),
            shrinking=options.shrinking,
        )
        kept = np.flatnonzero(result.duals)
        told = Solved(len(costs), len(kept), result.iterations, result.gap, result.status)
        return replace(part, duals=share * result.duals).take(kept), told

    def part_of(self, block: RowBlock) -> Part:
        """All rows of a block, with duals of 0."""
        weights = self.whole.classes.row_weights(block)
        first, n = self.whole.first_rows[block.number], block.rows.n_rows
        return Part(
            block.number,
            np.arange(first, first + n),
            block.rows,
            self.whole.classes.signs(block),
            self.machine.costs(weights),
            np.zeros(n),
            float(weights.sum()),
        )

    def under(self, vectors: Part, block: RowBlock) -> tuple[Part, Floats]:
        """All rows of a block with their duals, and their margins; `vectors` ascend by place."""
        part = self.part_of(block)
        if not len(vectors.places):
            return part, np.zeros(len(part.places))
        at = np.minimum(np.searchsorted(vectors.places, part.places), len(vectors.places) - 1)
        duals = np.where(vectors.places[at] == part.places, vectors.duals[at], 0.0)
        coefficients = vectors.signs * vectors.duals
        scores = kernel_scores(self.formula, vectors.rows, coefficients, part.rows, task_threads())
        return replace(part, duals=duals), part.signs * scores


class LevelRun:
    """One training by levels."""

    def __init__(self, blocks: Spread, problem: ClusterProblem, control: Control):
        self.blocks, self.problem, self.control = blocks, problem, control
        self.options = problem.machine.options
        self.cascade = self.options.partition == "cascade"
        self.total = sum(problem.whole.class_weights)
        self.levels: list[dict[str, Any]] = []
        self.iterations = 0

    def solve(self) -> tuple[SolverResult, Part, list[MarginPart]]:
        """The result with its `levels`, the support vectors, and the margins of all rows."""
        whole, options = self.problem.whole, self.options
        plan = make_plan(whole.n_rows, min(whole.class_rows), options.partitions, options.levels)
        stop_level = int(options.stop_level or 0)  # a number: cli/spark.py refuses auto
        check_stop_level(stop_level, plan)
        exact = stop_level == 0 and not (self.cascade and plan.levels)
        vectors, n_landmarks = self._nothing(), 0
        if plan.levels:
            vectors, n_landmarks = self._solve_groups(plan, stop_level or int(exact))
        look = self._look(vectors)
        if exact:
            began = self.control.seconds()
            look, status = self._solve_whole(look)
            n_support, seconds = len(look.vectors.places), self.control.seconds() - began
            gap = relative_gap(look.primal, look.gap)
            solved = Solved(whole.n_rows, n_support, self.iterations, gap, status)
            self.levels.append(level_record(0, 1, whole.n_rows, n_support, [solved], seconds))
        else:
            stopped = self.control.step(self.iterations, look.primal, look.gap, 0)
            status = EARLY if stopped == MAX_ITER else stopped or EARLY
        result = SolverResult.at(
            status,
            look.primal,
            look.gap,
            self.iterations,
            "levels+working-set" if plan.levels else "working-set",
            details={"landmarks": n_landmarks, "support_vectors": len(look.vectors.places)},
            levels=self.levels,
        )
        self.levels[-1]["full_gap"] = result.gap
        return result, look.vectors, look.margins

    # ------------------------------------------------------------------------------------ levels above 0

    def _solve_groups(self, plan: Plan, last: int) -> tuple[Part, int]:
        parts, n_landmarks = self.deal(plan)
        solved = None
        for level in range(plan.levels, last - 1, -1):
            previous = solved
            solved = self._solve_level(parts, plan.partitions(level), level)
            if previous is not None:
                previous.release()
            parts = solved.objects
            if self.control.out_of_time() is not None:
                break
        assert solved is not None
        vectors = [part for _, part in parts.collect()]
        solved.release()
        return merged(0, vectors), n_landmarks

    def deal(self, plan: Plan) -> tuple[Spread, int]:
        """The piece of every block for every part of the first level."""
        problem = self.problem

        def cut(block: RowBlock) -> Callable[[int, Places], Part]:
            rows, weights = problem.part_of(block), problem.whole.classes.row_weights(block)

            def piece(number: int, some: Places) -> Part:
                return replace(rows.take(some), number=number, weight=float(weights[some].sum()))

            return piece

        return deal(self.blocks, problem, plan, cut)

    def _solve_level(self, parts: Spread, n_parts: int, level: int) -> Kept:
        """The parts with what is told of each."""
        problem, total, control = self.problem, self.total, self.control
        began = control.seconds()
        tol = max(TUNING.local_tol, control.tol)
        limit = min(n for n in (TUNING.local_iterations, control.max_iter) if n is not None)
        seconds = self._seconds_left()

        def solve(number: int, pieces: list[Part]) -> tuple[Part, Solved]:
            part = merged(number, pieces)
            return problem.solve(part, part.weight / total, tol, limit, seconds)

        solved = parts.grouped(n_parts, lambda number, part: part.number % n_parts, solve).kept()
        told = [one for _, one in solved.notes()]
        counts = n_parts, sum(one.rows for one in told), sum(one.support_vectors for one in told)
        self.levels.append(level_record(level, *counts, told, control.seconds() - began))
        if control.callback is not None:
            stage = f"level {level}"
            control.callback(Progress(self.iterations, math.inf, math.inf, control.seconds(), stage=stage))
        return solved

    # ------------------------------------------------------------------------------------ all rows

    def _look(self, vectors: Part) -> Look:
        problem = self.problem

        def part(block: RowBlock) -> tuple[float, float, float, MarginPart]:
            rows, margins = problem.under(vectors, block)
            loss = problem.machine.loss()
            losses, gap = value_and_gap(loss, rows.duals, margins, rows.costs, task_threads())
            norm = float(rows.duals @ margins)
            return losses, gap, norm, margin_part(margins, rows.costs, rows.signs)

        found = [one for _, one in self.blocks.map(part).collect()]
        losses, gaps, norms, margins = zip(*found, strict=True)
        primal = 0.5 * math.fsum(norms) + math.fsum(losses)
        return Look(vectors, primal, max(0.0, math.fsum(gaps)), list(margins))

    def _solve_whole(self, look: Look) -> tuple[Look, str]:
        """Level 0; a status."""
        control = self.control
        for _ in range(TUNING.max_rounds):
            status = control.step(self.iterations, look.primal, look.gap, 10**9)
            if status is not None:
                return look, status
            vectors, told = self._solve_active(look)
            self.iterations += told.iterations
            if told.status in (TIME_LIMIT, STOPPED):  # no time for a look: the last point that had one
                return look, told.status
            look = self._look(vectors)
            if told.status not in (CONVERGED, MAX_ITER) and relative_gap(look.primal, look.gap) > control.tol:
                return look, told.status
        return look, STALLED

    def _solve_active(self, look: Look) -> tuple[Part, Solved]:
        """Solve, in one task, the rows that have a part in the solution or should have one."""
        problem, control = self.problem, self.control
        tol = max(TUNING.active_tol * control.tol, TUNING.round_gain * relative_gap(look.primal, look.gap))
        left = control.left(self.iterations, least=1)
        seconds = self._seconds_left()

        def active(block: RowBlock) -> Part:
            rows, margins = problem.under(look.vectors, block)
            slopes = slopes_and_curvatures(problem.machine.loss(), margins, rows.costs, task_threads())[1]
            return rows.take(np.flatnonzero((rows.duals != 0) | (slopes != 0)))

        def solve(number: int, parts: list[Part]) -> tuple[Part, Solved]:
            return problem.solve(merged(number, parts), 1.0, tol, left, seconds)

        ((_, found),) = self.blocks.map(active).grouped(1, lambda number, part: 0, solve).collect()
        return found

    def _nothing(self) -> Part:
        empty, width = np.empty(0), self.problem.whole.n_features
        rows = Dataset(np.zeros(1, dtype=np.int64), empty.astype(np.int32), empty, width)
        return Part(0, empty.astype(np.int64), rows, empty, empty, empty, 0.0)

    def _seconds_left(self) -> float | None:
        limit = self.control.time_limit
        return None if limit is None else max(1e-3, limit - self.control.seconds())


def deal(
    blocks: Spread,
    problem: ClusterProblem,
    plan: Plan,
    cut: Callable[[RowBlock], Callable[[int, Places], Any]],
) -> tuple[Spread, int]:
    """What `cut` makes of every block for every part of the first level, numbered so that % the parts is the
    part; and how many landmarks strata formed around."""
    options, found = problem.machine.options, None
    if options.partition.startswith("stratified"):
        count = PARTITIONS.landmarks(problem.whole.n_rows, options.landmarks or None)
        found = find_landmarks(blocks, problem.whole, problem.formula, count, options.seed)
    n_landmarks = 0 if found is None else found.rows.n_rows
    by_class = options.partition in ("stratified-class", "class")
    n_keys = max(1, n_landmarks) * (2 if by_class else 1)

    def keys(block: RowBlock) -> Places:
        """By which a block's rows are dealt: class, then nearest landmark."""
        strata = np.zeros(block.rows.n_rows, dtype=np.int64)
        if found is not None:
            strata = nearest_landmarks(found, block.rows, problem.formula, task_threads())
        positive = problem.whole.classes.signs(block) > 0
        return strata + (max(1, n_landmarks) * positive if by_class else 0)

    counted = blocks.map(lambda block: np.bincount(keys(block), minlength=n_keys))
    starts = first_positions(dict(counted.collect()), problem.whole.first_rows)
    n_parts, seed = plan.partitions(plan.levels), options.seed

    def pieces(some_blocks: Iterable[tuple[int, RowBlock]]) -> Pairs:
        for _, block in some_blocks:
            parts = positions_of(keys(block), starts[block.number], seed + block.number) % n_parts
            piece = cut(block)
            for number in np.unique(parts).tolist():
                yield block.number * n_parts + number, piece(number, np.flatnonzero(parts == number))

    return blocks.through(pieces), n_landmarks


def strata_blocks(blocks: Spread, problem: ClusterProblem, n: int) -> Spread:
    """The same rows dealt to n blocks of a partition each, with their summaries."""
    labels = problem.whole.classes.labels

    def cut(block: RowBlock) -> Callable[[int, Places], RowBlock]:
        return lambda number, some: replace(block.take(some), number=number)

    def join(number: int, parts: list[RowBlock]) -> tuple[RowBlock, Summary]:
        labels_of = np.concatenate([part.labels for part in parts])
        weights = np.concatenate([part.weights for part in parts])
        rows = stacked([part.rows for part in parts])
        block = RowBlock(number * NUMBERS_OF_PARTITION, rows, labels_of, weights)
        told = {label: (label, count, weight) for label, count, weight in block.summary.labels}
        in_order = tuple(told.get(label, (label, 0, 0.0)) for label in labels.tolist())
        return block, replace(block.summary, labels=in_order)

    pieces, _ = deal(blocks, problem, Plan(n, 1), cut)
    joined_parts = pieces.grouped(n, lambda number, part: part.number, join)
    return joined_parts.through(_numbered_apart)


def _numbered_apart(pairs: Iterable[tuple[int, Any]]) -> Pairs:
    for number, one in pairs:
        yield number * NUMBERS_OF_PARTITION, one


def first_positions(counts: dict[int, Places], first_rows: Any) -> dict[int, Places]:
    """Where the rows of each key of each block begin in the deal: by key, then in the order of the blocks."""
    numbers = sorted(counts, key=lambda number: first_rows[number])
    table = np.array([counts[number] for number in numbers])  # blocks x keys
    ends = np.cumsum(table.T.reshape(-1)).reshape(table.T.shape).T
    return dict(zip(numbers, ends - table, strict=True))


def positions_of(keys: Places, starts: Places, seed: int) -> Places:
    """The position of every row in the deal: at random among its block's rows of the same key."""
    order = np.random.default_rng(seed).permutation(len(keys))
    order = order[np.argsort(keys[order], kind="stable")]
    counts = np.bincount(keys, minlength=len(starts))
    within = np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts)
    positions = np.empty(len(keys), dtype=np.int64)
    positions[order] = np.repeat(starts, counts) + within
    return positions
