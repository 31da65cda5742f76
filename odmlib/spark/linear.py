"""Linear machines on blocks in a DataFrame: solvers/distributed/blocks.py on a cluster.

A round sends the weights along with the work, has every block compute its part of the objective and of the
gradient (for narrow rows, by Newton's method, also of the Hessian), and adds the parts up. The driver holds a
few vectors of the width of the rows, or a few matrices, never rows. A round hands every cached block from
Java to Python, which is most of its time: Newton's ten rounds beat the hundreds of L-BFGS wherever the matrix
is small.

Other partitions give another order of addition and another start, hence a model that agrees within the
certificate: |w - w*|^2 <= 2 (P(w) - P*) <= 2 tol max(1, P).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from odmlib._core.arrays import Floats, Places
from odmlib.data.dataset import Dataset, sound_rows
from odmlib.errors import ParameterError
from odmlib.machines.sodm import Sodm
from odmlib.model.schemes import margins_of, winners
from odmlib.solvers.control import Control, SolverResult, WarmStart
from odmlib.solvers.distributed.blocks import Block, Sums, solve_dsvrg, solve_lbfgs, solve_newton
from odmlib.spark.blocks import Classes, RowBlock, Whole
from odmlib.spark.engine import Spread, task_threads, tree_sum
from odmlib.spark.lockstep import Ask, side_by_side
from odmlib.spark.margins import MarginPart, margin_part

HESSIAN_VALUES = 10_000_000  # of all classes together: 80 MB
NARROW_COLUMNS = 1000  # up to which Newton's method is taken: 8 MB of Hessian from every block


class Request(NamedTuple):
    """What a round does for one class: the sums at `w`, or the start after so many sweeps."""

    task: int
    w: Floats
    curved: bool = False
    sweeps: int = 0

    def of(self, block: Block, seed: int) -> Floats:
        if self.sweeps:
            return block.one_shot(seed, self.sweeps)
        losses, gradient, hessian = block.sums(self.w, task_threads(), self.curved)
        return np.concatenate([gradient, [losses], () if hessian is None else hessian.reshape(-1)])

    def size(self, n: int) -> int:
        return n if self.sweeps else n + 1 + n * n * self.curved


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

        def part(blocks: list[Block]) -> Floats:
            return np.concatenate([request.of(blocks[request.task], seed) for request in requests])

        total = tree_sum(self.blocks.map(part), self.numbers, self.depth)
        ends = np.cumsum([request.size(self.n_columns) for request in requests])
        return np.split(total, ends[:-1])

    def margins(self, weights: list[Floats]) -> list[MarginPart]:
        """In the order of the blocks."""
        classes = self.classes

        def part(blocks: list[Block]) -> MarginPart:
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

    def sums(self, w: Floats, curved: bool = False) -> Sums:
        total, n = self.ask(Request(self.task, w, curved)), self.n_columns
        return float(total[n]), total[:n], total[n + 1 :].reshape(n, n) if curved else None

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


def _linear_blocks(
    machine: Sodm, classes: Classes, bias: float, total_cost: float, block: RowBlock
) -> list[Block]:
    """The block for every task; they share rows and costs."""
    costs = machine.costs(classes.row_weights(block))
    share = float(costs.sum() / total_cost)
    return [
        Block(block.rows, bias, classes.signs(block, task), costs, machine.loss(), share, block.number)
        for task in range(classes.tasks)
    ]


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
    if n_tasks == 1:
        alone = OneTask(spread, 0, lambda request: spread.answer([request])[0])
        results = [solve(alone, control, start)]
    else:
        if solver == "dsvrg":
            raise ParameterError(f"solver dsvrg is for two classes, found {n_tasks}")

        def solver_of(task: int) -> Callable[[Ask], SolverResult]:
            told = control.told(lambda progress: replace(progress, task=task + 1, tasks=n_tasks))
            own = control.part(max_iter=control.max_iter, callback=told)
            return lambda ask: solve(OneTask(spread, task, ask), own, start)

        results = side_by_side([solver_of(task) for task in range(n_tasks)], spread.answer)
    finite = all(np.isfinite(result.primal) for result in results)
    return results, spread.margins([result.weights for result in results]) if finite else []
