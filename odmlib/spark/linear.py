"""Linear machines on blocks in a DataFrame: solvers/distributed/blocks.py on a cluster.

A round sends the weights along with the work, has every block compute its part of the objective and of the
gradient (for narrow rows, by Newton's method, also of the Hessian), and adds the parts up. The driver holds a
few vectors of the width of the rows, or a few matrices, never rows. A round hands every cached block from
Java to Python, which is most of its time: Newton's ten rounds beat the hundreds of L-BFGS wherever the matrix
is small.

Other partitions give another order of addition and another start, hence a model that agrees within the
certificate: |w - w*|^2 <= 2 (P(w) - P*) <= 2 tol P(w).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from odmlib._core.arrays import Floats, Places
from odmlib.data.dataset import Dataset, sound_rows
from odmlib.errors import ParameterError
from odmlib.machines.sodm import Sodm
from odmlib.model.schemes import margins_of, winners
from odmlib.solvers.control import (
    EARLY,
    STOPPED,
    Callback,
    Control,
    Progress,
    SolverResult,
    WarmStart,
)
from odmlib.solvers.distributed.blocks import Block, Sums, solve_dsvrg, solve_lbfgs, solve_newton
from odmlib.solvers.linear.certificate import RowSums
from odmlib.spark.blocks import Classes, RowBlock, Whole
from odmlib.spark.engine import Spread, task_threads, tree_sum
from odmlib.spark.lockstep import Ask, side_by_side
from odmlib.spark.margins import MarginPart, margin_part

HESSIAN_VALUES = 10_000_000  # of all classes together: 80 MB
KNOWN = len(RowSums._fields)
NARROW_COLUMNS = 1000  # up to which Newton's method is taken: 8 MB of Hessian from every block


@dataclass
class ValidatedBlock(Block):
    """A block with rows to validate with, whose costs are those of C = 1."""

    held: Block | None = None


class Request(NamedTuple):
    """What a round does for one class: the sums at `w`, or the start after so many sweeps."""

    task: int
    w: Floats
    curved: bool = False
    sweeps: int = 0

    def of(self, block: ValidatedBlock, seed: int) -> Floats:
        if self.sweeps:
            return block.one_shot(seed, self.sweeps)
        losses, gradient, hessian, known = block.sums(self.w, task_threads(), self.curved)
        validated = block.held.sums(self.w, task_threads())[0] if block.held is not None else 0.0
        matrix = () if hessian is None else hessian.reshape(-1)
        return np.concatenate([gradient, [losses, validated], known, matrix])

    def size(self, n: int) -> int:
        return n if self.sweeps else n + 2 + KNOWN + n * n * self.curved


class SparkBlocks:
    """Rounds over all blocks; `blocks` are kept."""

    def __init__(self, blocks: Spread, machine: Sodm, whole: Whole, n_features: int, bias: float, depth: int):
        self.seed, self.depth, self.numbers = machine.options.seed, depth, whole.numbers
        self.classes = whole.classes
        self.n_columns = n_features + (bias > 0)
        total_cost = float(machine.costs(np.array([sum(whole.class_weights)]))[0])
        self.blocks = blocks.map(partial(_linear_blocks, machine, whole.classes, bias, total_cost)).ready()

    def answer(self, requests: list[Request]) -> list[Floats]:
        """Of all blocks together, in one round."""
        seed = self.seed

        def part(blocks: list[ValidatedBlock]) -> Floats:
            return np.concatenate([request.of(blocks[request.task], seed) for request in requests])

        total = tree_sum(self.blocks.map(part), self.numbers, self.depth)
        ends = np.cumsum([request.size(self.n_columns) for request in requests])
        return np.split(total, ends[:-1])

    def margins(self, weights: list[Floats]) -> list[MarginPart]:
        """In the order of the blocks."""
        classes = self.classes

        def part(blocks: list[ValidatedBlock]) -> MarginPart:
            signs = np.stack([block.y for block in blocks])
            codes = np.where(signs[0] > 0, 0, 1) if classes.tasks == 1 else signs.argmax(axis=0)
            scores = [
                block.y * block.problem.margins(w, task_threads())
                for block, w in zip(blocks, weights, strict=True)
            ]
            return class_margins(classes, np.stack(scores, axis=1), codes, blocks[0].costs)

        return [one for _, one in self.blocks.map(part).collect()]


def class_margins(classes: Classes, scores: Floats, codes: Places, costs: Floats) -> MarginPart:
    """By how much the classes of rows win; how many rows of each class are right is counted by winners."""
    scheme, n = ("binary", 2) if classes.tasks == 1 else ("ovr", classes.tasks)
    margins = margins_of(scheme, scores, codes, n)
    right = winners(scheme, scores, n) == codes
    counts = np.bincount(codes[right], minlength=n)
    return replace(margin_part(margins, costs, np.ones(len(codes))), right=tuple(counts.tolist()))


class OneTask:
    """`VisitedBlocks` of solvers/distributed/blocks.py: those of one class against the rest."""

    def __init__(self, spread: SparkBlocks, task: int, ask: Ask):
        self.spread, self.task, self.ask = spread, task, ask
        self.n_columns, self.seed = spread.n_columns, spread.seed
        self.last: tuple[Floats, float] | None = None  # where sums were asked for, and the validation loss

    def sums(self, w: Floats, curved: bool = False) -> Sums:
        total, n = self.ask(Request(self.task, w, curved)), self.n_columns
        self.last = w, float(total[n + 1])
        hessian = total[n + 2 + KNOWN :].reshape(n, n) if curved else None
        return Sums.at(w, float(total[n]), total[:n], hessian, total[n + 2 : n + 2 + KNOWN])

    def one_shot(self, sweeps: int) -> Floats:
        return self.ask(Request(self.task, np.zeros(0), sweeps=sweeps))

    def block_rows(self) -> list[int]:
        return [rows for rows, _ in self._measures]

    def largest_curvature(self) -> float:
        return max(curvature for _, curvature in self._measures)

    @cached_property
    def _measures(self) -> list[tuple[int, float]]:
        task = self.task
        found = self.spread.blocks.map(
            lambda blocks: (blocks[task].rows.n_rows, blocks[task].largest_curvature())
        ).collect()
        return [one for _, one in found]

    def svrg_steps(self, turn: int, snapshot: Floats, w: Floats, *numbers: Any) -> Floats:
        task, number = self.task, self.spread.numbers[turn % len(self.spread.numbers)]
        blocks = self.spread.blocks
        return blocks.map(lambda some: some[task].svrg_steps(snapshot, w, *numbers)).of_one(number)


class Validation:
    """A callback that ends training once the mean loss of the rows to validate with no longer falls."""

    def __init__(self, blocks: OneTask, weight: float, tol: float, also: Callback | None):
        self.blocks, self.weight, self.tol, self.also = blocks, weight, tol, also
        self.losses: list[float] = []
        self.best: tuple[Floats, Progress] | None = None

    def __call__(self, progress: Progress) -> bool:
        stop = self.also is not None and bool(self.also(progress))
        assert self.blocks.last is not None
        w, loss = self.blocks.last[0], self.blocks.last[1] / self.weight
        least = min(self.losses, default=np.inf)
        self.losses.append(loss)
        if loss < least:
            self.best = w, progress
        return stop or least - loss < self.tol * max(loss, 0.01)

    def chosen(self, result: SolverResult) -> SolverResult:
        """The point of the least loss, if training was ended for it."""
        result.details["validation"] = self.losses
        if result.status != STOPPED or self.best is None:
            return result
        w, progress = self.best
        gap = progress.gap * abs(progress.primal)
        return SolverResult.at(
            EARLY, progress.primal, gap, result.iterations, result.solver, weights=w, details=result.details
        )


def _linear_blocks(
    machine: Sodm, classes: Classes, bias: float, total_cost: float, block: RowBlock
) -> list[ValidatedBlock]:
    """The block for every task; they share rows and costs."""
    costs = machine.costs(classes.row_weights(block))
    share = float(costs.sum() / total_cost)
    held, made = block.held, []
    for task in range(classes.tasks):
        about = block.rows, bias, classes.signs(block, task), costs, machine.loss(), share, block.number
        others = None
        if held is not None:
            signs = classes.signs(held, task)
            weights = classes.row_weights(held) / (1 - machine.options.theta) ** 2
            others = Block(held.rows, bias, signs, weights, machine.loss(), 0.0)
        made.append(ValidatedBlock(*about, held=others))
    return made


def column_factors(blocks: Spread, whole: Whole, depth: int) -> Floats:
    """1 / standard deviation (with row weights, unbiased) of every column, 0 for one that never changes."""

    n_features, numbers = whole.n_features, whole.numbers

    def sums(block: RowBlock) -> Floats:
        columns, weights = block.rows.indices, np.repeat(block.weights, np.diff(block.rows.indptr))
        total = np.bincount(columns, weights * block.rows.values, minlength=n_features)
        return np.append(total, [block.weights.sum(), np.square(block.weights).sum()])

    *total, weight, squares = tree_sum(blocks.map(sums), numbers, depth)
    means = np.array(total) / weight

    def deviations(block: RowBlock) -> Floats:
        columns, weights = block.rows.indices, np.repeat(block.weights, np.diff(block.rows.indptr))
        stored = np.bincount(columns, weights, minlength=n_features)
        apart = np.bincount(
            columns, weights * np.square(block.rows.values - means[columns]), minlength=n_features
        )
        return apart + (block.weights.sum() - stored) * np.square(means)

    apart = tree_sum(blocks.map(deviations), numbers, depth)
    variances = apart / max(weight - squares / weight, np.finfo(float).tiny)
    return np.divide(1.0, np.sqrt(variances), out=np.zeros(n_features), where=variances > 0)


def scaled_columns(rows: Dataset, factors: Floats) -> Dataset:
    return sound_rows(rows.indptr, rows.indices, rows.values * factors[rows.indices], rows.n_features)


def solve_linear(
    blocks: Spread,
    machine: Sodm,
    whole: Whole,
    n_features: int,
    bias: float,
    depth: int,
    control: Control,
    start: WarmStart | None = None,
    validation_tol: float = 0.0,
) -> tuple[list[SolverResult], list[MarginPart]]:
    """For every task the weights (the bias column's last), and the margins of the rows."""
    spread = SparkBlocks(blocks, machine, whole, n_features, bias, depth)
    n_tasks, n, options = whole.classes.tasks, spread.n_columns, machine.options
    narrow = n <= NARROW_COLUMNS and n_tasks * n * n <= HESSIAN_VALUES
    solver = {"auto": "newton" if narrow else "lbfgs"}.get(options.solver, options.solver)
    solvers: dict[str, Callable[..., SolverResult]] = {
        "newton": solve_newton,
        "lbfgs": solve_lbfgs,
        "dsvrg": partial(solve_dsvrg, eta=options.eta, inner_steps=options.inner_steps),
    }
    solve = solvers[solver]
    if n_tasks > 1 and solver == "dsvrg":
        raise ParameterError(f"solver dsvrg is for two classes, found {n_tasks}")

    def solver_of(task: int) -> Callable[[Ask], SolverResult]:
        told = control.callback
        if n_tasks > 1:
            told = control.told(lambda progress: replace(progress, task=task + 1, tasks=n_tasks))

        def solve_task(ask: Ask) -> SolverResult:
            blocks = OneTask(spread, task, ask)
            if not whole.held_weight:
                return solve(blocks, control.part(max_iter=control.max_iter, callback=told), start)
            validation = Validation(blocks, whole.held_weight, validation_tol, told)
            own = control.part(max_iter=control.max_iter, callback=validation)
            return validation.chosen(solve(blocks, own, start))

        return solve_task

    if n_tasks == 1:
        results = [solver_of(0)(lambda request: spread.answer([request])[0])]
    else:
        results = side_by_side([solver_of(task) for task in range(n_tasks)], spread.answer)
    finite = all(np.isfinite(result.primal) for result in results)
    return results, spread.margins([result.weights for result in results]) if finite else []
