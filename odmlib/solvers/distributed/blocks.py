"""Linear machines on blocks of rows that lie in several places (docs/internals/mathematics.md, SODM).

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
        the other, which pass the iterate on. A block's rows are drawn without replacement until all were
        used, then the next block's turn comes; stages go on where the last one ended. A stage that does not
        lower P is taken back, and the step halved. With a step size that is given every stage is kept, as
        published; the snapshot of the least P is the result.
cocoa   CoCoA+: blocks improve their own duals at the same time. So that the sum of their steps is safe, each
        one counts what it does to w `sigma` = number of blocks times. That is coordinate descent on rows
        times sqrt(sigma), with w / sqrt(sigma). Few rounds for small C, very many for large C.

Certificates: 1/2 |grad P(w)|^2 bounds P(w) - min P, as in newton.py; cocoa has duals, hence the duality gap.
Every block also adds up what rounding may change (linear/certificate.py), so that no bound claims too much.
Blocks of a loss with a kink may sum a smoothed loss instead, which newton and lbfgs minimise; their bounds
are those of the loss itself (streamed.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from odmlib._core.arrays import Floats, Places
from odmlib._core.rows import Rows
from odmlib._core.vectors import inner
from odmlib.data.dataset import Dataset, sound_rows
from odmlib.losses.loss import MarginLoss
from odmlib.solvers.control import STALLED, Control, Resources, SolverResult, WarmStart
from odmlib.solvers.linalg.dense import PositiveFactor
from odmlib.solvers.linear._dcd import Sweeper
from odmlib.solvers.linear._svrg import InnerLoop
from odmlib.solvers.linear.certificate import Certificate, RowSums, sums_at_slopes
from odmlib.solvers.linear.newton import add_gram
from odmlib.solvers.problem import LinearProblem

SLICE = 5_000_000  # values between two looks at Ctrl-C


@dataclass(frozen=True)
class BlockTuning:
    one_shot_sweeps: int = 5
    cocoa_sweeps: int = 3  # of every block between two rounds
    memory: int = 10  # steps that L-BFGS remembers
    max_rounds: int = 2000
    armijo: float = 1e-4  # part of the decrease that the slope promises
    max_shortenings: int = 40
    svrg_step: float = 0.25  # in units of 1 / (largest curvature of a summand)
    svrg_part: float = 0.25  # of the rows, steps of a stage
    smallest_step: float = 1e-12  # in units of the first step size


TUNING = BlockTuning()


class BlockSums(NamedTuple):
    """Of a block's rows: F_k(w), its gradient, its Hessian where `curved` asks for it, and bounds."""

    losses: float
    gradient: Floats
    hessian: Floats | None
    known: RowSums


class Sums(NamedTuple):
    """The same of all rows, with bounds for the problem itself at w.

    `losses` are those that are minimised; the bounds are those of the problem's own loss, rounding included.
    """

    losses: float
    gradient: Floats
    hessian: Floats | None
    bounds: Certificate

    @classmethod
    def at(
        cls,
        w: Floats,
        losses: float,
        gradient: Floats,
        hessian: Floats | None,
        known: Floats,
        variance: float = 0.0,
    ) -> Sums:
        """`known`: the sums of all blocks' RowSums."""
        slope = w + gradient
        bounds = RowSums(*known.tolist()).bounds(w, math.sqrt(inner(slope, slope)), variance)
        return cls(losses, gradient, hessian, bounds)


# (w, v) -> something like the inverse of the Hessian at w times v
Precondition = Callable[[Floats, Floats], Floats]


@dataclass
class Block:
    """Some rows with their signs y and costs; `share`: their part of the weight of all rows."""

    rows: Dataset
    bias: float
    y: Floats
    costs: Floats
    loss: MarginLoss
    share: float
    number: int = 0  # among all blocks: part of the seed

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "problem"}

    @cached_property
    def problem(self) -> LinearProblem:
        return LinearProblem(Rows(self.rows, self.bias), self.y, self.costs, self.loss)

    def sums(self, w: Floats, threads: int = 1, curved: bool = False) -> BlockSums:
        margins, curvatures = np.empty((2, self.rows.n_rows))
        losses, gradient = self.problem.evaluate(w, margins, curvatures, threads)
        hessian = hessian_of(self.problem.rows, curvatures, threads) if curved else None
        known = sums_at_slopes(self.problem, margins, math.sqrt(inner(w, w)), threads)
        return BlockSums(losses, gradient, hessian, known)

    def one_shot(self, seed: int, sweeps: int) -> Floats:
        """share w_k: the block's part of the averaged start."""
        rows = self.problem.rows
        if self.share <= 0 or rows.n_rows == 0:
            return np.zeros(rows.n_columns)
        start = np.zeros(rows.n_rows), np.zeros(rows.n_columns)
        sweeper = Sweeper(rows, self.loss, self.y, self.costs / self.share, *start, seed + self.number)
        _sweep(sweeper, sweeps)
        return self.share * np.asarray(sweeper.weights)

    def svrg_steps(
        self,
        snapshot: Floats,
        w: Floats,
        mu: Floats,
        eta: float,
        steps: int,
        whole_rows: int,
        seed: int,
        begin: int = 0,
    ) -> Floats:
        """w after stochastic steps on rows of the order that the seed gives, from place `begin` on; mu is the
        full gradient of the losses at the snapshot."""
        n = self.rows.n_rows
        costs = self.costs * (whole_rows / n)  # the block stands for all rows
        whole = LinearProblem(self.problem.rows, self.y, costs, self.loss)
        slopes = whole.slopes_and_curvatures(whole.margins(snapshot))[1]
        inner = InnerLoop(whole.rows, self.loss, self.y, costs, seed)
        moved = w.copy()
        inner.begin_stage(moved, mu, slopes, eta, np.random.default_rng(seed).permutation(n)[begin:])
        step = max(1, int(SLICE / (1 + self.rows.n_nonzeros / max(1, n))))
        for done in range(0, steps, step):
            inner.advance(min(step, steps - done))
        inner.end_stage()
        return moved

    def cocoa_step(
        self, duals: Floats, w: Floats, sigma: float, seed: int, sweeps: int
    ) -> tuple[Floats, Floats]:
        """(new duals, change of w) after sweeps over this block alone."""
        root = math.sqrt(sigma)
        own = self.rows
        scaled = sound_rows(own.indptr, own.indices, root * own.values, own.n_features)
        rows = Rows(scaled, root * self.bias)
        sweeper = Sweeper(rows, self.loss, self.y, self.costs, duals.copy(), w / root, seed + self.number)
        _sweep(sweeper, sweeps)
        change = np.asarray(sweeper.duals) - duals
        return np.array(sweeper.duals), self.problem.weights_of(change)

    def largest_curvature(self) -> float:
        """The largest curvature of a row's loss in w."""
        steepest = self.loss.largest_curvature()
        return float(np.max(steepest * self.costs * self.problem.rows.squared_norms(), initial=0.0))


def hessian_of(rows: Rows, curvatures: Floats, threads: int) -> Floats:
    """X' diag(curvatures) X"""
    hessian = np.zeros((rows.n_columns, rows.n_columns))
    add_gram(hessian, rows, curvatures, threads)
    return hessian


def _sweep(sweeper: Sweeper, sweeps: int) -> None:
    for _ in range(sweeps):
        sweeper.begin_sweep()
        while sweeper.advance(SLICE, -1.0) < 0:
            pass


class Blocks(Protocol):
    """Where the blocks are, and how their answers are brought together."""

    n_columns: int

    def sums(self, w: Floats, curved: bool = False) -> Sums: ...
    def one_shot(self, sweeps: int) -> Floats: ...


class VisitedBlocks(Blocks, Protocol):
    """Blocks that stochastic steps visit one after the other."""

    seed: int

    def block_rows(self) -> list[int]:
        """How many rows each block has."""
        ...

    def largest_curvature(self) -> float: ...

    def svrg_steps(self, turn: int, snapshot: Floats, w: Floats, *numbers: Any) -> Floats:
        """Those of the block whose turn it is; `numbers`: as of Block.svrg_steps."""
        ...


class LocalBlocks:
    """Blocks in this process, one after the other, each with all threads."""

    def __init__(self, blocks: list[Block], resources: Resources):
        self.blocks, self.seed, self.threads = blocks, resources.seed, resources.threads
        self.n_columns = blocks[0].problem.rows.n_columns
        self.n_rows = sum(block.rows.n_rows for block in blocks)

    def sums(self, w: Floats, curved: bool = False) -> Sums:
        parts = [block.sums(w, self.threads, curved) for block in self.blocks]
        losses, gradients, hessians, known = zip(*parts, strict=True)
        hessian = np.sum(hessians, axis=0) if curved else None
        return Sums.at(w, math.fsum(losses), np.sum(gradients, axis=0), hessian, np.sum(known, axis=0))

    def one_shot(self, sweeps: int) -> Floats:
        return np.sum([block.one_shot(self.seed, sweeps) for block in self.blocks], axis=0)

    def block_rows(self) -> list[int]:
        return [block.rows.n_rows for block in self.blocks]

    def largest_curvature(self) -> float:
        return max(block.largest_curvature() for block in self.blocks)

    def svrg_steps(self, turn: int, snapshot: Floats, w: Floats, *numbers: Any) -> Floats:
        return self.blocks[turn % len(self.blocks)].svrg_steps(snapshot, w, *numbers)


def split(problem: LinearProblem, partition: Places) -> list[Block]:
    """The problem's rows as blocks, by the partition of each."""
    dataset, y, costs = problem.rows.dataset(), problem.y, problem.costs
    blocks = []
    for number in range(int(partition.max()) + 1):
        rows = np.flatnonzero(partition == number)
        share = float(costs[rows].sum() / costs.sum())
        some = dataset.take(rows)
        blocks.append(Block(some, problem.rows.bias, y[rows], costs[rows], problem.loss, share, number))
    return blocks


@dataclass
class _Point:
    """A point with what is minimised there, its gradient, and bounds of the objective."""

    w: Floats
    minimised: float
    gradient: Floats
    hessian: Floats | None  # of the losses
    bounds: Certificate

    @property
    def primal(self) -> float:
        return self.bounds.primal

    @property
    def gap(self) -> float:
        return self.bounds.gap


def _point(blocks: Blocks, w: Floats, curved: bool = False) -> _Point:
    losses, gradient, hessian, bounds = blocks.sums(w, curved)
    return _Point(w, 0.5 * inner(w, w) + losses, w + gradient, hessian, bounds)


def _first_weights(blocks: Blocks, start: WarmStart | None, tuning: BlockTuning) -> Floats:
    """The start's weights, or the one-shot ones."""
    if start is None or start.weights is None:
        return blocks.one_shot(tuning.one_shot_sweeps)
    return start.weights.copy()


def solve_newton(
    blocks: Blocks, control: Control, start: WarmStart | None = None, tuning: BlockTuning = TUNING
) -> SolverResult:
    def step(here: _Point) -> _Point | None:
        factor = None if here.hessian is None else PositiveFactor.of(here.hessian + np.eye(len(here.w)))
        direction = -here.gradient if factor is None else -factor.solve(here.gradient)
        return _line_search(blocks, here, direction, tuning, curved=True)

    first = _point(blocks, _first_weights(blocks, start, tuning), curved=True)
    return _descend(first, step, control, "newton", tuning)


def solve_lbfgs(
    blocks: Blocks,
    control: Control,
    start: WarmStart | None = None,
    tuning: BlockTuning = TUNING,
    precondition: Precondition | None = None,
) -> SolverResult:
    steps: list[tuple[Floats, Floats, float]] = []  # (change of w, of the gradient, 1 / their product)

    def step(here: _Point) -> _Point | None:
        inverse = None if precondition is None else partial(precondition, here.w)
        direction = -_inverse_hessian_times(here.gradient, steps, inverse)
        there = _line_search(blocks, here, direction, tuning)
        if there is None and (steps or precondition):  # rounding made the memory useless: plain gradient
            steps.clear()
            there = _line_search(blocks, here, -here.gradient, tuning)
        if there is not None:
            moved, turned = there.w - here.w, there.gradient - here.gradient
            product = inner(moved, turned)
            if product > 0:
                steps.append((moved, turned, 1 / product))
                del steps[: -tuning.memory]
        return there

    first = _point(blocks, _first_weights(blocks, start, tuning))
    return _descend(first, step, control, "lbfgs", tuning)


def _descend(
    here: _Point, step: Callable[[_Point], _Point | None], control: Control, solver: str, tuning: BlockTuning
) -> SolverResult:
    """A step per round, as long as there is one, until the bound on P - min P is small enough."""
    rounds, bound = 0, -math.inf
    while True:
        bound = max(bound, here.primal - here.gap)
        gap = max(0.0, here.primal - bound)
        status = control.step(rounds, here.primal, gap, tuning.max_rounds)
        if status is None and here.bounds.rounding_is_all:
            status = STALLED
        if status is not None:
            break
        there = step(here)
        rounds += 1
        if there is None:
            status = control.out_of_time() or STALLED
            break
        here = there
    return SolverResult.at(status, here.primal, gap, rounds, solver, weights=here.w)


def _inverse_hessian_times(
    gradient: Floats,
    steps: list[tuple[Floats, Floats, float]],
    inverse: Callable[[Floats], Floats] | None = None,
) -> Floats:
    """The two loops of L-BFGS; `inverse` stands between them, or else a multiple of the identity."""
    v, factors = gradient.copy(), []
    for moved, turned, curvature in reversed(steps):
        factors.append(curvature * inner(moved, v))
        v -= factors[-1] * turned
    if inverse is not None:
        v = inverse(v)
    elif steps:
        moved, turned, curvature = steps[-1]
        v /= curvature * inner(turned, turned)
    for (moved, turned, curvature), factor in zip(steps, reversed(factors), strict=True):
        v += (factor - curvature * inner(turned, v)) * moved
    return v


def _line_search(
    blocks: Blocks, here: _Point, direction: Floats, tuning: BlockTuning, curved: bool = False
) -> _Point | None:
    """A point along the direction with enough decrease; None if there is none to the machine.

    This is not linalg/line_search.py: a trial costs a round of all blocks, which tells the slope but not the
    curvature, and without that L-BFGS needed more than twice the rounds on ill-conditioned data.
    """
    slope = inner(here.gradient, direction)
    if not slope < 0:
        return None
    length = 1.0
    for _ in range(tuning.max_shortenings):
        there = _point(blocks, here.w + length * direction, curved)
        change = there.minimised - here.minimised
        if change <= tuning.armijo * length * slope:
            return there
        # the minimum of the parabola through both points and the slope, not too near either
        curvature = change - length * slope
        usable = math.isfinite(curvature) and curvature > 0
        best = -0.5 * slope * length * length / curvature if usable else 0.0
        length = min(0.5 * length, max(0.1 * length, best))
    return None


def solve_dsvrg(
    blocks: VisitedBlocks,
    control: Control,
    start: WarmStart | None = None,
    tuning: BlockTuning = TUNING,
    *,
    eta: float | None = None,
    inner_steps: int | None = None,
) -> SolverResult:
    """`eta` and `inner_steps` are the published algorithm's step size and steps per stage."""
    rows = blocks.block_rows()
    m, fixed = sum(rows), eta is not None
    known = None if start is None else start.weights
    here = best = _point(blocks, np.zeros(blocks.n_columns) if known is None else known.copy())
    first_eta = tuning.svrg_step / (1.0 + m * blocks.largest_curvature())
    eta = first_eta if eta is None else eta
    stage = turn = used = 0
    diverged = False
    while (status := control.step(stage, best.primal, best.gap, tuning.max_rounds)) is None:
        w, left = here.w, inner_steps or math.ceil(tuning.svrg_part * m)
        mu = here.gradient - here.w
        while left > 0:
            n = rows[turn % len(rows)]
            steps = min(left, n - used)
            w = blocks.svrg_steps(turn, here.w, w, mu, eta, steps, m, blocks.seed + turn, used)
            left, used = left - steps, used + steps
            if used == n:
                turn, used = turn + 1, 0
            if (status := control.out_of_time()) is not None:
                break
        stage += 1
        there = _point(blocks, w)
        if there.primal < best.primal:
            here = best = there
        elif fixed:
            here = there
            if diverged := not math.isfinite(there.primal):
                status = status or STALLED
        else:
            eta /= 2  # also for a point that is not finite
            if eta < tuning.smallest_step * first_eta:
                status = status or STALLED
        if status is not None:
            break
    return SolverResult.at(
        status,
        best.primal,
        best.gap,
        stage,
        "dsvrg",
        weights=best.w,
        details={"eta": eta} | ({"diverged": True} if diverged else {}),
    )


def solve_cocoa(
    blocks: LocalBlocks, control: Control, start: WarmStart | None = None, tuning: BlockTuning = TUNING
) -> SolverResult:
    """Begins from the duals that the margins under the start's weights suggest."""
    sigma = float(len(blocks.blocks))
    w = np.zeros(blocks.n_columns)
    duals = [np.zeros(block.rows.n_rows) for block in blocks.blocks]
    if start is not None and start.weights is not None:
        for k, block in enumerate(blocks.blocks):
            duals[k] = block.problem.duals_of(block.problem.margins(start.weights))
            w += block.problem.weights_of(duals[k])
    rounds = 0
    while True:
        problems = [block.problem for block in blocks.blocks]
        parts = [some.losses_and_gap(a, some.margins(w)) for some, a in zip(problems, duals, strict=True)]
        primal = 0.5 * inner(w, w) + math.fsum(part[0] for part in parts)
        gap = max(0.0, math.fsum(part[1] for part in parts))
        status = control.step(rounds, primal, gap, tuning.max_rounds)
        if status is not None:
            break
        changes = []
        for k, block in enumerate(blocks.blocks):
            seed = blocks.seed + 1000 * rounds
            duals[k], change = block.cocoa_step(duals[k], w, sigma, seed, tuning.cocoa_sweeps)
            changes.append(change)
        w = w + np.sum(changes, axis=0)
        rounds += 1
    return SolverResult.at(status, primal, gap, rounds, "cocoa", weights=w)


SOLVERS: dict[str, Callable[..., SolverResult]] = {  # newton is for rows that really lie in several places
    "lbfgs": solve_lbfgs,
    "dsvrg": solve_dsvrg,
    "cocoa": solve_cocoa,
}
