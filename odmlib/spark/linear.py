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
from functools import cached_property, partial
from typing import Any

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.data.dataset import Dataset, sound_rows
from odmlib.machines.sodm import Sodm
from odmlib.solvers.control import Control, SolverResult, WarmStart
from odmlib.solvers.distributed.blocks import Block, Sums, solve_dsvrg, solve_lbfgs, solve_newton
from odmlib.spark.blocks import Classes, RowBlock, Whole
from odmlib.spark.engine import Spread, task_threads, tree_sum
from odmlib.spark.margins import MarginPart, margin_part

NARROW_COLUMNS = 1000  # up to which Newton's method is taken: 8 MB of Hessian from every block


class SparkBlocks:
    """`Blocks` of solvers/distributed/blocks.py; `blocks` are kept."""

    def __init__(self, blocks: Spread, machine: Sodm, whole: Whole, n_features: int, bias: float, depth: int):
        self.seed, self.depth, self.numbers = machine.options.seed, depth, whole.numbers
        self.n_columns = n_features + (bias > 0)
        total_cost = float(machine.costs(np.array([sum(whole.class_weights)]))[0])
        self.blocks = blocks.map(partial(_linear_block, machine, whole.classes, bias, total_cost)).ready()

    def sums(self, w: Floats, curved: bool = False) -> Sums:
        def part(block: Block, w: Floats) -> Floats:
            losses, gradient, hessian = block.sums(w, task_threads(), curved)
            return np.concatenate([gradient, [losses], () if hessian is None else hessian.reshape(-1)])

        total, n = self._sum(part, w), self.n_columns
        return float(total[n]), total[:n], total[n + 1 :].reshape(n, n) if curved else None

    def one_shot(self, sweeps: int) -> Floats:
        seed = self.seed
        return self._sum(lambda block, w: block.one_shot(seed, sweeps), np.zeros(0))

    def block_rows(self) -> list[int]:
        return [rows for rows, _ in self._measures]

    def largest_curvature(self) -> float:
        return max(curvature for _, curvature in self._measures)

    @cached_property
    def _measures(self) -> list[tuple[int, float]]:
        found = self.blocks.map(lambda block: (block.rows.n_rows, block.largest_curvature())).collect()
        return [one for _, one in found]

    def svrg_steps(self, turn: int, snapshot: Floats, w: Floats, *numbers: Any) -> Floats:
        number = self.numbers[turn % len(self.numbers)]
        return self.blocks.map(lambda block: block.svrg_steps(snapshot, w, *numbers)).of_one(number)

    def margins(self, w: Floats) -> list[MarginPart]:
        """In the order of the blocks."""

        def part(block: Block, w: Floats) -> MarginPart:
            return margin_part(block.problem.margins(w, task_threads()), block.costs, block.y)

        return [one for _, one in self._run(part, w).collect()]

    def _sum(self, of_block: Callable[[Block, Floats], Floats], w: Floats) -> Floats:
        return tree_sum(self._run(of_block, w), self.numbers, self.depth)

    def _run(self, of_block: Callable[[Block, Floats], Any], w: Floats) -> Spread:
        return self.blocks.map(lambda block: of_block(block, w))


def _linear_block(machine: Sodm, classes: Classes, bias: float, total_cost: float, block: RowBlock) -> Block:
    costs, signs = machine.costs(classes.row_weights(block)), classes.signs(block)
    share = float(costs.sum() / total_cost)
    return Block(block.rows, bias, signs, costs, machine.loss(), share, block.number)


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
) -> tuple[SolverResult, list[MarginPart]]:
    """The weights (the bias column's last), and the margins of the rows."""
    spread = SparkBlocks(blocks, machine, whole, n_features, bias, depth)
    narrow = spread.n_columns <= NARROW_COLUMNS
    solver = {"auto": "newton" if narrow else "lbfgs"}.get(machine.options.solver, machine.options.solver)
    options = machine.options
    solve = {
        "newton": solve_newton,
        "lbfgs": solve_lbfgs,
        "dsvrg": partial(solve_dsvrg, eta=options.eta, inner_steps=options.inner_steps),
    }[solver]
    result = solve(spread, control, start)
    return result, spread.margins(result.weights) if np.isfinite(result.primal) else []
