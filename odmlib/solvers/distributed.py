"""Linear machines on blocks of rows that lie in several places (spec/sodm.md section 6).

    min_w  P(w) = 1/2 |w|^2 + sum over blocks k of F_k(w),   F_k(w) = sum_{i in k} loss_i(y_i <w, x_i>)

What a block does is a method of `Block` that depends on its arguments only: the same call gives the same
answer on this machine, in a thread, or in a task of a cluster that failed once and runs again. What brings
the answers together is a `Blocks`, here for blocks in memory.

newton  narrow rows: a round brings every block's Hessian beside its gradient, X' diag(curvatures) X. Ten
        rounds or so, whatever C is. Starts as lbfgs does.
lbfgs   one-shot start: every block is solved by itself, as if it stood for the whole (costs divided by its
        share of them), by a few sweeps of dual coordinate descent, and the solutions are averaged by share;
        then L-BFGS on P, a gradient per round. Deterministic, no step size to choose.
dsvrg   stages of SVRG (svrg.py): a full gradient from all blocks, then stochastic steps on one block after
        the other, a quarter of the rows per stage. A stage that does not lower P is taken back, and the step
        halved.
cocoa   CoCoA+: blocks improve their own duals at the same time. So that the sum of their steps is safe, each
        one counts what it does to w `sigma` = number of blocks times. That is coordinate descent on rows
        times sqrt(sigma), with w / sqrt(sigma). Few rounds for small C, very many for large C.

Certificates: 1/2 |grad P(w)|^2 bounds P(w) - min P, as in newton.py; cocoa has duals, hence the duality gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib._core.vectors import inner
from odmlib.data.dataset import Dataset
from odmlib.losses.loss import MarginLoss
from odmlib.losses.sums import slopes_and_curvatures, value_and_gap
from odmlib.solvers._dcd import Sweeper
from odmlib.solvers._dense import PositiveFactor
from odmlib.solvers._newton import evaluate
from odmlib.solvers._svrg import InnerLoop
from odmlib.solvers.control import STALLED, Control, SolverResult, relative_gap

Floats = NDArray[np.float64]

ONE_SHOT_SWEEPS = 5
COCOA_SWEEPS = 3  # of every block between two rounds
MEMORY = 10  # steps that L-BFGS remembers
MAX_ROUNDS = 2000
ARMIJO = 1e-4  # part of the decrease that the slope promises
MAX_SHORTENINGS = 40
SVRG_STEP = 0.25  # in units of 1 / (largest curvature of a summand)
SVRG_PART = 0.25  # of the rows, steps of a stage
SMALLEST_STEP = 1e-12  # in units of the first step size
SLICE = 5_000_000  # values between two looks at Ctrl-C


@dataclass
class Block:
    """Some rows with their signs y and costs; `share`: their part of the weight of all rows."""

    rows: Dataset
    bias: float
    y: Floats
    costs: Floats
    share: float
    number: int = 0  # among all blocks: part of the seed
    _rows: Rows | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_rows"} | {"_rows": None}

    @property
    def data(self) -> Rows:
        if self._rows is None:
            self._rows = Rows(self.rows, self.bias)
        return self._rows

    def sums(self, w: Floats, loss: MarginLoss, threads: int = 1) -> tuple[float, Floats]:
        """F_k(w) and its gradient."""
        margins, curvatures = np.empty((2, self.rows.n_rows))
        return evaluate(self.data, self.y, self.costs, loss, w, margins, curvatures, threads)

    def curved_sums(self, w: Floats, loss: MarginLoss, threads: int = 1) -> tuple[float, Floats, Floats]:
        """The same, and the Hessian."""
        margins, curvatures = np.empty((2, self.rows.n_rows))
        losses, gradient = evaluate(self.data, self.y, self.costs, loss, w, margins, curvatures, threads)
        return losses, gradient, self.data.gram(curvatures, threads)

    def one_shot(self, loss: MarginLoss, seed: int) -> Floats:
        """share w_k: the block's part of the averaged start."""
        if self.share <= 0 or self.rows.n_rows == 0:
            return np.zeros(self.data.n_columns)
        start = np.zeros(self.rows.n_rows), np.zeros(self.data.n_columns)
        sweeper = Sweeper(self.data, loss, self.y, self.costs / self.share, *start, seed + self.number)
        _sweep(sweeper, ONE_SHOT_SWEEPS)
        return self.share * np.asarray(sweeper.weights)

    def svrg_steps(
        self,
        snapshot: Floats,
        w: Floats,
        mu: Floats,
        eta: float,
        steps: int,
        whole_rows: int,
        loss: MarginLoss,
        seed: int,
    ) -> Floats:
        """w after stochastic steps; mu is the full gradient of the losses at the snapshot."""
        n = self.rows.n_rows
        costs = self.costs * (whole_rows / n)  # the block stands for all rows
        slopes = slopes_and_curvatures(loss, self.y * self.data.product(snapshot), costs)[1]
        inner = InnerLoop(self.data, loss, self.y, costs, seed)
        moved = w.copy()
        inner.begin_stage(moved, mu, slopes, eta)
        step = max(1, int(SLICE / (1 + self.rows.n_nonzeros / max(1, n))))
        for done in range(0, steps, step):
            inner.advance(min(step, steps - done))
        inner.end_stage()
        return moved

    def cocoa_step(
        self, duals: Floats, w: Floats, sigma: float, loss: MarginLoss, seed: int
    ) -> tuple[Floats, Floats]:
        """(new duals, change of w) after sweeps over this block alone."""
        root = math.sqrt(sigma)
        scaled = Dataset(self.rows.indptr, self.rows.indices, root * self.rows.values, self.rows.n_features)
        rows = Rows(scaled, root * self.bias)
        sweeper = Sweeper(rows, loss, self.y, self.costs, duals.copy(), w / root, seed + self.number)
        _sweep(sweeper, COCOA_SWEEPS)
        change = np.asarray(sweeper.duals) - duals
        return np.array(sweeper.duals), self.data.transposed_product(self.y * change)

    def certificate(self, duals: Floats, w: Floats, loss: MarginLoss) -> tuple[float, float]:
        """The block's part of the losses and of the duality gap."""
        return value_and_gap(loss, duals, self.y * self.data.product(w), self.costs)

    def largest_curvature(self, loss: MarginLoss) -> float:
        """The largest curvature of a row's loss in w."""
        steepest = float(np.asarray(loss.evaluate("curvature", -1e300, 1.0)))
        return float(np.max(steepest * self.costs * self.data.squared_norms(), initial=0.0))


def _sweep(sweeper: Sweeper, sweeps: int) -> None:
    for _ in range(sweeps):
        sweeper.begin_sweep()
        while sweeper.advance(SLICE, -1.0) < 0:
            pass


class Blocks(Protocol):
    """Where the blocks are, and how their answers are brought together."""

    n_columns: int

    def sums(self, w: Floats) -> tuple[float, Floats]: ...
    def curved_sums(self, w: Floats) -> tuple[float, Floats, Floats]: ...
    def one_shot(self) -> Floats: ...


class LocalBlocks:
    """Blocks in this process, one after the other, each with all threads."""

    def __init__(self, blocks: list[Block], loss: MarginLoss, seed: int = 0, threads: int = 1):
        self.blocks, self.loss, self.seed, self.threads = blocks, loss, seed, threads
        self.n_columns = blocks[0].data.n_columns
        self.n_rows = sum(block.rows.n_rows for block in blocks)

    def sums(self, w: Floats) -> tuple[float, Floats]:
        parts = [block.sums(w, self.loss, self.threads) for block in self.blocks]
        return math.fsum(part[0] for part in parts), np.sum([part[1] for part in parts], axis=0)

    def curved_sums(self, w: Floats) -> tuple[float, Floats, Floats]:
        parts = [block.curved_sums(w, self.loss, self.threads) for block in self.blocks]
        losses, gradients, hessians = zip(*parts, strict=True)
        return math.fsum(losses), np.sum(gradients, axis=0), np.sum(hessians, axis=0)

    def one_shot(self) -> Floats:
        return np.sum([block.one_shot(self.loss, self.seed) for block in self.blocks], axis=0)


def split(
    dataset: Dataset, bias: float, y: Floats, costs: Floats, partition: NDArray[np.int64]
) -> list[Block]:
    """The rows as blocks, by the partition of each."""
    blocks = []
    for number in range(int(partition.max()) + 1):
        rows = np.flatnonzero(partition == number)
        share = float(costs[rows].sum() / costs.sum())
        blocks.append(Block(dataset.take(rows), bias, y[rows], costs[rows], share, number))
    return blocks


@dataclass
class _Point:
    """A point with its objective, its gradient and the bound that belongs to them."""

    w: Floats
    primal: float
    gradient: Floats
    hessian: Floats | None = None  # of the losses

    @property
    def gap(self) -> float:
        return 0.5 * inner(self.gradient, self.gradient)


def _point(blocks: Blocks, w: Floats) -> _Point:
    losses, gradient = blocks.sums(w)
    return _Point(w, 0.5 * inner(w, w) + losses, w + gradient)


def _curved_point(blocks: Blocks, w: Floats) -> _Point:
    losses, gradient, hessian = blocks.curved_sums(w)
    return _Point(w, 0.5 * inner(w, w) + losses, w + gradient, hessian)


def solve_newton(blocks: Blocks, control: Control, start: Floats | None = None) -> SolverResult:
    """`start`: weights to begin from instead of the one-shot ones."""

    def step(here: _Point) -> _Point | None:
        assert here.hessian is not None
        factor = PositiveFactor.of(here.hessian + np.eye(len(here.w)))
        direction = -here.gradient if factor is None else -factor.solve(here.gradient)
        return _line_search(blocks, here, direction, _curved_point)

    first = _curved_point(blocks, blocks.one_shot() if start is None else start.copy())
    return _descend(first, step, control, "newton")


def solve_lbfgs(blocks: Blocks, control: Control, start: Floats | None = None) -> SolverResult:
    """`start`: weights to begin from instead of the one-shot ones."""
    steps: list[tuple[Floats, Floats, float]] = []  # (change of w, of the gradient, 1 / their product)

    def step(here: _Point) -> _Point | None:
        there = _line_search(blocks, here, -_inverse_hessian_times(here.gradient, steps))
        if there is None and steps:  # rounding made the memory useless: plain gradient
            steps.clear()
            there = _line_search(blocks, here, -here.gradient)
        if there is not None:
            moved, turned = there.w - here.w, there.gradient - here.gradient
            product = inner(moved, turned)
            if product > 0:
                steps.append((moved, turned, 1 / product))
                del steps[:-MEMORY]
        return there

    first = _point(blocks, blocks.one_shot() if start is None else start.copy())
    return _descend(first, step, control, "lbfgs")


def _descend(
    here: _Point, step: Callable[[_Point], _Point | None], control: Control, solver: str
) -> SolverResult:
    """A step per round, as long as there is one, until the bound on P - min P is small enough."""
    rounds, bound = 0, -math.inf
    while True:
        bound = max(bound, here.primal - here.gap)
        gap = max(0.0, here.primal - bound)
        status = control.step(rounds, here.primal, gap, MAX_ROUNDS)
        if status is not None:
            break
        there = step(here)
        rounds += 1
        if there is None:
            status = control.out_of_time() or STALLED
            break
        here = there
    return _result(status, here.primal, gap, rounds, solver, here.w)


def _inverse_hessian_times(gradient: Floats, steps: list[tuple[Floats, Floats, float]]) -> Floats:
    """The two loops of L-BFGS."""
    v, factors = gradient.copy(), []
    for moved, turned, inverse in reversed(steps):
        factors.append(inverse * inner(moved, v))
        v -= factors[-1] * turned
    if steps:
        moved, turned, inverse = steps[-1]
        v /= inverse * inner(turned, turned)
    for (moved, turned, inverse), factor in zip(steps, reversed(factors), strict=True):
        v += (factor - inverse * inner(turned, v)) * moved
    return v


def _line_search(
    blocks: Blocks,
    here: _Point,
    direction: Floats,
    point: Callable[[Blocks, Floats], _Point] = _point,
) -> _Point | None:
    """A point along the direction with enough decrease; None if there is none to the machine."""
    slope = inner(here.gradient, direction)
    if not slope < 0:
        return None
    length = 1.0
    for _ in range(MAX_SHORTENINGS):
        there = point(blocks, here.w + length * direction)
        change = there.primal - here.primal
        if change <= ARMIJO * length * slope:
            return there
        # the minimum of the parabola through both points and the slope, not too near either
        bend = change - length * slope
        best = -0.5 * slope * length * length / bend if math.isfinite(bend) and bend > 0 else 0.0
        length = min(0.5 * length, max(0.1 * length, best))
    return None


def solve_dsvrg(blocks: LocalBlocks, control: Control, start: Floats | None = None) -> SolverResult:
    m, loss = blocks.n_rows, blocks.loss
    here = _point(blocks, np.zeros(blocks.n_columns) if start is None else start.copy())
    steepest = max(block.largest_curvature(loss) for block in blocks.blocks)
    first_eta = eta = SVRG_STEP / (1.0 + m * steepest)
    stage = turn = 0
    while (status := control.step(stage, here.primal, here.gap, MAX_ROUNDS)) is None:
        w, left = here.w, math.ceil(SVRG_PART * m)
        mu = here.gradient - here.w
        while left > 0:
            block = blocks.blocks[turn % len(blocks.blocks)]
            steps = min(left, block.rows.n_rows)
            w = block.svrg_steps(here.w, w, mu, eta, steps, m, loss, blocks.seed + turn)
            left, turn = left - steps, turn + 1
            if (status := control.out_of_time()) is not None:
                break
        stage += 1
        there = _point(blocks, w)
        if there.primal < here.primal:
            here = there
        else:
            eta /= 2  # also for a point that is not finite
            if eta < SMALLEST_STEP * first_eta:
                status = status or STALLED
        if status is not None:
            break
    return _result(status, here.primal, here.gap, stage, "dsvrg", here.w, {"eta": eta})


def solve_cocoa(blocks: LocalBlocks, control: Control, start: Floats | None = None) -> SolverResult:
    """`start`: weights; the duals that their margins suggest are what it begins from."""
    loss, sigma = blocks.loss, float(len(blocks.blocks))
    w = np.zeros(blocks.n_columns)
    duals = [np.zeros(block.rows.n_rows) for block in blocks.blocks]
    if start is not None:
        for k, block in enumerate(blocks.blocks):
            margins = block.y * block.data.product(start)
            duals[k] = -slopes_and_curvatures(loss, margins, block.costs)[1]
            w += block.data.transposed_product(block.y * duals[k])
    rounds = 0
    while True:
        parts = [b.certificate(a, w, loss) for b, a in zip(blocks.blocks, duals, strict=True)]
        primal = 0.5 * inner(w, w) + math.fsum(part[0] for part in parts)
        gap = max(0.0, math.fsum(part[1] for part in parts))
        status = control.step(rounds, primal, gap, MAX_ROUNDS)
        if status is not None:
            break
        changes = []
        for k, block in enumerate(blocks.blocks):
            duals[k], change = block.cocoa_step(duals[k], w, sigma, loss, blocks.seed + 1000 * rounds)
            changes.append(change)
        w = w + np.sum(changes, axis=0)
        rounds += 1
    return _result(status, primal, gap, rounds, "cocoa", w)


def _result(
    status: str,
    primal: float,
    gap: float,
    rounds: int,
    solver: str,
    w: Floats,
    details: dict[str, Any] | None = None,
) -> SolverResult:
    return SolverResult(
        status, primal, primal - gap, relative_gap(primal, gap), rounds, solver, w, details=details or {}
    )


SOLVERS: dict[str, Callable[..., SolverResult]] = {  # newton is for rows that really lie in several places
    "lbfgs": solve_lbfgs,
    "dsvrg": solve_dsvrg,
    "cocoa": solve_cocoa,
}
