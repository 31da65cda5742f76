"""Linear machines on blocks in an RDD: solvers/distributed/blocks.py on a cluster.

A round broadcasts the weights, has every block compute its part of the objective and of the gradient (for
narrow rows, by Newton's method, also of the Hessian), and adds the parts up. The driver holds a few vectors
of the width of the rows, or a few matrices, never rows. A round hands every cached block from Java to Python,
which is most of its time: Newton's ten rounds beat the hundreds of L-BFGS wherever the matrix is small.

Other partitions give another order of addition and another start, hence a model that agrees within the
certificate: |w - w*|^2 <= 2 (P(w) - P*) <= 2 tol max(1, P).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.data.dataset import Dataset, sound_rows
from odmlib.machines.sodm import Sodm
from odmlib.solvers.control import Control, SolverResult
from odmlib.solvers.distributed.blocks import Block, Sums, solve_lbfgs, solve_newton
from odmlib.spark.blocks import RowBlock, Whole, task_threads, tree_sum
from odmlib.spark.margins import MarginPart, margin_part

if TYPE_CHECKING:
    from pyspark import RDD


NARROW_COLUMNS = 1000  # up to which Newton's method is taken: 8 MB of Hessian from every block


class SparkBlocks:
    """`Blocks` of solvers/distributed/blocks.py; `blocks` is a cached RDD of RowBlock."""

    def __init__(self, blocks: RDD, machine: Sodm, whole: Whole, n_features: int, bias: float, depth: int):
        self.blocks, self.machine, self.classes = blocks, machine, whole.classes
        self.bias, self.depth = bias, depth
        self.n_columns = n_features + (bias > 0)
        self.total_cost = float(machine.costs(np.array([sum(whole.class_weights)]))[0])

    def sums(self, w: Floats, curved: bool = False) -> Sums:
        def part(block: Block, w: Floats) -> Floats:
            losses, gradient, hessian = block.sums(w, task_threads(), curved)
            return np.concatenate([gradient, [losses], () if hessian is None else hessian.reshape(-1)])

        total, n = self._run(part, w, self._tree_sum), self.n_columns
        return float(total[n]), total[:n], total[n + 1 :].reshape(n, n) if curved else None

    def one_shot(self, sweeps: int) -> Floats:
        seed = self.machine.options.seed
        return self._run(lambda block, w: block.one_shot(seed, sweeps), np.zeros(0), self._tree_sum)

    def margins(self, w: Floats) -> list[MarginPart]:
        """In the order of the blocks."""

        def part(block: Block, w: Floats) -> MarginPart:
            return margin_part(block.problem.margins(w, task_threads()), block.costs, block.y)

        found = self._run(part, w, lambda parts: parts.collect())
        return [part for _, part in sorted(found, key=lambda part: part[0])]

    def _tree_sum(self, parts: RDD) -> Floats:
        return tree_sum(parts, self.depth)

    def _run(self, of_block: Callable[[Block, Floats], Any], w: Floats, gather: Callable[[RDD], Any]) -> Any:
        """`gather` gets an RDD of (number, what `of_block` makes of the block)."""
        sent = self.blocks.context.broadcast(w)
        machine, bias, total_cost, classes = self.machine, self.bias, self.total_cost, self.classes

        def part(block: RowBlock) -> tuple[int, Any]:
            costs, signs = machine.costs(classes.row_weights(block)), classes.signs(block)
            share = float(costs.sum() / total_cost)
            rows = Block(block.rows, bias, signs, costs, machine.loss(), share, block.number)
            return block.number, of_block(rows, sent.value)

        try:
            return gather(self.blocks.map(part))
        finally:
            sent.unpersist()


def column_factors(blocks: RDD, n_features: int, depth: int) -> Floats:
    """1 / standard deviation (with row weights, unbiased) of every column, 0 for one that never changes."""

    def sums(block: RowBlock) -> tuple[int, Floats]:
        columns, weights = block.rows.indices, np.repeat(block.weights, np.diff(block.rows.indptr))
        total = np.bincount(columns, weights * block.rows.values, minlength=n_features)
        return block.number, np.append(total, [block.weights.sum(), np.square(block.weights).sum()])

    *total, weight, squares = tree_sum(blocks.map(sums), depth)
    means = np.array(total) / weight

    def deviations(block: RowBlock) -> tuple[int, Floats]:
        columns, weights = block.rows.indices, np.repeat(block.weights, np.diff(block.rows.indptr))
        stored = np.bincount(columns, weights, minlength=n_features)
        apart = np.bincount(
            columns, weights * np.square(block.rows.values - means[columns]), minlength=n_features
        )
        return block.number, apart + (block.weights.sum() - stored) * np.square(means)

    apart = tree_sum(blocks.map(deviations), depth)
    variances = apart / max(weight - squares / weight, np.finfo(float).tiny)
    return np.divide(1.0, np.sqrt(variances), out=np.zeros(n_features), where=variances > 0)


def scaled_columns(rows: Dataset, factors: Floats) -> Dataset:
    return sound_rows(rows.indptr, rows.indices, rows.values * factors[rows.indices], rows.n_features)


def solve_linear(
    blocks: RDD, machine: Sodm, whole: Whole, n_features: int, bias: float, depth: int, control: Control
) -> tuple[SolverResult, list[MarginPart]]:
    """The weights (the bias column's last), and the margins of the rows."""
    spread = SparkBlocks(blocks, machine, whole, n_features, bias, depth)
    narrow = spread.n_columns <= NARROW_COLUMNS
    solver = {"auto": "newton" if narrow else "lbfgs"}.get(machine.options.solver, machine.options.solver)
    result = (solve_newton if solver == "newton" else solve_lbfgs)(spread, control)
    return result, spread.margins(result.weights) if np.isfinite(result.primal) else []
