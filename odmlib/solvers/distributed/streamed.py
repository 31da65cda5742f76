"""Linear machines on rows in a file (data/row_store.py): a pass per round of newton, dcd or lbfgs.

    min_w  P(w) = 1/2 |w|^2 + sum_i loss_i(y_i <w, x_i>)

What costs is a pass over the file. Few columns: newton (blocks.py). Many columns: dcd, which improves duals
block by block (dual_passes.py). Where that does not get on, and for ODM^L, whose variance ties all duals
together: lbfgs (blocks.py). A sample of the rows, which stays in memory, saves passes twice: the start is the
solution of the problem on the sample with its costs scaled up, and lbfgs takes the sample's Hessian for that
of all rows, so that it steps nearly as Newton's method does although a pass sums gradients only. Several
tasks (one-vs-rest, folds) work side by side, and each pass serves all of them.

For newton and lbfgs a hinge (SVM, ODM^L) is smoothed: a parabola of width g around the kink (SmoothedLoss).
Its slopes are multipliers p_i in [0, h c_i] of the hinge itself, so that every pass also tells the duality
gap of the problem itself: with b_i = h c_i,

    P - D = 1/2 |grad P_g(w)|^2 + sum_i ( b_i max(0, 1-z_i) - p_i (1-z_i) ),

the certificate of linear/interior.py. The second part falls like g^2; where it keeps the gap open, g is made
smaller. ODM^L's mean of the margins is <w, q> / sum c with q = sum_i c_i y_i x_i, which takes one pass; its
variance is a quadratic in w whose Hessian has -2 v q q' / sum c beside the part of the rows.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Floats
from odmlib._core.rows import Rows
from odmlib._core.vectors import inner
from odmlib.data.row_store import RowStore, StoredBlock
from odmlib.errors import OdmError
from odmlib.losses.loss import MarginLoss, MeanVarianceLoss, SmoothedLoss
from odmlib.solvers.control import MAX_ITER, STOPPED, Control, SolverResult, WarmStart, relative_gap
from odmlib.solvers.distributed.blocks import Sums, hessian_of, solve_lbfgs, solve_newton
from odmlib.solvers.distributed.dual_passes import TUNING as DUAL
from odmlib.solvers.distributed.dual_passes import DualTuning, Measured, solve_dual_passes
from odmlib.solvers.linalg.conjugate_gradients import conjugate_gradients
from odmlib.solvers.linalg.dense import PositiveFactor
from odmlib.solvers.linear.certificate import RowSums, bend_gaps, sums_at_slopes
from odmlib.solvers.linear.newton import add_gram
from odmlib.solvers.problem import LinearProblem

NARROWER = "narrower"  # not a status of a result: the smoothing keeps the gap open


@dataclass(frozen=True)
class StreamTuning:
    # up to which a pass sums the Hessian: a9a (124 columns) took 5 passes, and 210 by lbfgs with a sample of
    # 1000 rows
    narrow_columns: int = 500
    explicit_columns: int = 2000  # of the sample's Hessian; beyond, conjugate gradients
    # in the bend of the sample, per column: with fewer a Newton step from its solution goes astray. The width
    # begins larger and is made smaller step by step
    bent_rows: float = 2.0
    cg_steps: int = 50
    cg_accuracy: float = 1e-2
    first_width: float = 2.0  # of the smoothing, and the largest
    shrinking: float = 0.3  # of the width in one go, at most
    smoothing_part: float = 0.3  # of the allowed gap that the smoothing may use
    least_width: float = 1e-9
    dual: DualTuning = DUAL


TUNING = StreamTuning()


@dataclass(frozen=True)
class Side:
    """Which rows are positive, what a class weighs, and which rows a fold leaves out; codes as stored."""

    positive: int
    class_weights: Floats  # by code
    left_out: int | None = None  # fold
    n_folds: int = 0
    seed: int = 0

    def signs(self, codes: NDArray[np.int32]) -> Floats:
        return np.where(codes == self.positive, 1.0, -1.0)

    def weights(self, block: StoredBlock) -> Floats:
        weights = self.class_weights[block.codes]
        if block.weights is not None:
            weights = weights * block.weights
        if self.left_out is not None:
            weights = np.where(self.folds(block) == self.left_out, 0.0, weights)
        return weights

    def folds(self, block: StoredBlock) -> NDArray[np.int64]:
        return folds_of(block.first, block.rows.n_rows, self.n_folds, self.seed)


def folds_of(first: int, n: int, n_folds: int, seed: int) -> NDArray[np.int64]:
    """The fold of each row by its number: mixed (splitmix64), so that no order of the rows shows."""
    mixed = np.arange(first, first + n, dtype=np.uint64) + np.uint64(seed % 2**32 << 32)
    with np.errstate(over="ignore"):
        mixed += np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(n_folds)).astype(np.int64)


class PassEnded(Exception):
    """A pass was left because the run is over; `args[0]` is the status."""


OfBlock = Callable[[StoredBlock], list[Any]]  # what is added up over all blocks, part by part


class Passes:
    """Passes over a store that several tasks share: one starts when all tasks at work wait for one."""

    def __init__(self, store: RowStore, n_tasks: int, side_by_side: int, seed: int = 0):
        self.store = store
        self._order = np.random.default_rng(seed)
        self._to_come = n_tasks - side_by_side
        self._working = side_by_side
        self._waiting: dict[int, tuple[OfBlock, Callable[[], str | None], bool]] = {}
        self._answers: dict[int, Any] = {}
        self._turn = threading.Condition()

    def leave(self) -> None:
        """A task has ended; another takes its place while there are any."""
        with self._turn:
            if self._to_come:
                self._to_come -= 1
                return
            self._working -= 1
            if self._waiting and len(self._waiting) == self._working:
                self._run()

    def sums(
        self, task: int, of_block: OfBlock, over: Callable[[], str | None], shuffled: bool = False
    ) -> list[Any]:
        """The sums over all blocks, in their order or in random order; `over` is asked between two blocks."""
        with self._turn:
            self._waiting[task] = of_block, over, shuffled
            if len(self._waiting) == self._working:
                self._run()
            while task not in self._answers:
                if task in self._waiting and (status := over()) is not None:
                    del self._waiting[task]  # the others may never come
                    raise PassEnded(status)
                self._turn.wait(0.2)
            answer = self._answers.pop(task)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _run(self) -> None:
        """One pass for all that wait; the lock is held, and nobody else has anything to do."""
        waiting, self._waiting = self._waiting, {}
        totals: dict[int, Any] = {}
        shuffled = any(one[2] for one in waiting.values())
        order = self._order.permutation(self.store.n_blocks) if shuffled else None
        try:
            for block in self.store.blocks(order):
                for task, (of_block, over, _) in waiting.items():
                    if (status := over()) is not None:
                        raise PassEnded(status)
                    part = of_block(block)
                    if task not in totals:
                        totals[task] = part
                    else:
                        totals[task] = [old + new for old, new in zip(totals[task], part, strict=True)]
            self._answers |= totals
        except PassEnded as end:
            self._answers |= {task: PassEnded(*end.args) for task in waiting}
        except BaseException as error:
            self._answers |= dict.fromkeys(waiting, error)
        self._turn.notify_all()


@dataclass(eq=False)
class StreamedTask:
    """One problem of two sides on the rows of a store; `costs` makes costs of row weights."""

    passes: Passes
    number: int
    side: Side
    loss: MarginLoss
    costs: Callable[[Floats], Floats]
    total_cost: float
    bias: float
    threads: int
    sample: StoredBlock
    tuning: StreamTuning = TUNING

    def __post_init__(self) -> None:
        self.n_columns = self.passes.store.n_features + (1 if self.bias else 0)
        self.over: Callable[[], str | None] = lambda: None
        self.last: Measured | None = None
        self.q = np.zeros(self.n_columns)  # of the mean; 0 where the loss has no variance
        self.smoothed: SmoothedLoss | None = None
        if isinstance(self.loss, MeanVarianceLoss):
            numbers = self.loss.variance, self.loss.mean, self.loss.hinge
            self.smoothed = SmoothedLoss(*numbers, self.tuning.first_width)
        self.sampled = self._problem(self.sample)
        drawn = float(self.sampled.costs.sum())
        if drawn > 0:
            scaled = self.sampled.costs * (self.total_cost / drawn)
            self.sampled = replace(self.sampled, costs=scaled)

    # ------------------------------------------------------------------------------------ the protocol Blocks

    def sums(self, w: Floats, curved: bool = False) -> Sums:
        self._centre_at(w)
        length = math.sqrt(inner(w, w))

        def part(block: StoredBlock) -> list[Any]:
            problem = self._problem(block)
            margins, curvatures = np.empty((2, block.rows.n_rows))
            losses, gradient = problem.evaluate(w, margins, curvatures, self.threads)
            if hessian is not None:
                add_gram(hessian, problem.rows, curvatures, self.threads)
            own = replace(problem, loss=self._own_loss())
            known = sums_at_slopes(own, margins, length, self.threads, self.smoothed)
            return [losses, gradient, np.array(known)]

        # one matrix for all blocks: to add up one of each costs as much as the products of a small block
        hessian = np.zeros((self.n_columns, self.n_columns)) if curved else None
        losses, gradient, known = self.passes.sums(self.number, part, self.over)
        if hessian is not None and self.variance:
            hessian -= 2 * self.variance / self.total_cost * np.outer(self.q, self.q)
        sums = Sums.at(w, losses, gradient, hessian, known, self.variance)
        slope = w + gradient
        self.last = Measured(w, sums.bounds, 0.5 * inner(slope, slope), RowSums(*known).gaps)
        return sums

    def one_shot(self, sweeps: int) -> Floats:
        """Not asked for: the start comes from the sample."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------ its parts

    def _problem(self, block: StoredBlock) -> LinearProblem:
        loss = self.loss if self.smoothed is None else self.smoothed
        costs = self.costs(self.side.weights(block))
        return LinearProblem(Rows(block.rows, self.bias), self.side.signs(block.codes), costs, loss)

    def _centre_at(self, w: Floats) -> None:
        if self.smoothed is not None and self.variance:
            self.smoothed.centre = inner(w, self.q) / self.total_cost

    def _own_loss(self) -> MarginLoss:
        """The loss itself, with the centre at which the smoothed one is."""
        if self.smoothed is None or not self.variance:
            return self.loss
        numbers = self.smoothed.variance, self.smoothed.mean, self.smoothed.hinge, self.smoothed.centre
        return MeanVarianceLoss(*numbers)

    def find_mean(self) -> None:
        """q, in one pass, where the loss has a variance."""
        if not self.variance:
            return

        def part(block: StoredBlock) -> list[Any]:
            problem = self._problem(block)
            return [problem.weights_of(problem.costs, self.threads)]

        (self.q,) = self.passes.sums(self.number, part, self.over)

    def choose_width(self, w: Floats, tol: float) -> None:
        """The width at which the smoothing uses its part of the gap, by what it does to the sample."""
        if self.smoothed is None or self.sample.rows.n_rows == 0:
            return
        self._centre_at(w)
        margins, costs = self.sampled.margins(w, self.threads), self.sampled.costs
        hinges = self.smoothed.hinge * inner(costs, np.maximum(0, 1 - margins))
        allowed = self.tuning.smoothing_part * tol * (hinges + 0.5 * inner(w, w))
        away, enough = np.abs(1 - margins), self.tuning.bent_rows * self.n_columns
        width = self.tuning.first_width
        while width > self.tuning.least_width:
            self.smoothed.width = width
            few = np.count_nonzero(away < 0.4 * width) < enough
            if few or float(bend_gaps(self.smoothed, margins, costs)[1].sum()) <= allowed:
                return
            width *= 0.8

    def precondition(self, w: Floats, v: Floats) -> Floats:
        """The inverse of the sample's Hessian at w, scaled up, times v."""
        self._centre_at(w)
        rows, threads = self.sampled.rows, self.threads
        curvatures = self.sampled.slopes_and_curvatures(self.sampled.margins(w, threads), threads)[2]
        variance = self.variance
        if self.n_columns <= self.tuning.explicit_columns:
            hessian = hessian_of(rows, curvatures, threads)
            if variance:
                hessian -= 2 * variance / self.total_cost * np.outer(self.q, self.q)
            hessian[np.diag_indices_from(hessian)] += 1.0
            factor = PositiveFactor.of(hessian, overwrite=True)
            return v if factor is None else factor.solve(v)
        diagonal = 1.0 + rows.hessian_diagonal(curvatures, threads)

        def product(u: Floats) -> Floats:
            image = u + rows.hessian_product(curvatures, u, threads)
            return image - (2 * variance * inner(self.q, u) / self.total_cost) * self.q if variance else image

        accuracy = self.tuning.cg_accuracy * math.sqrt(inner(v, v))
        return conjugate_gradients(product, v, lambda r: r / diagonal, accuracy, self.tuning.cg_steps)[0]

    @property
    def variance(self) -> float:
        """The weight of the variance, which only ODM^L has."""
        return 0.0 if self.smoothed is None else self.smoothed.variance

    def prefers_newton(self) -> bool:
        """Few columns: a pass can sum their Hessian, and few passes are worth that."""
        return self.n_columns <= self.tuning.narrow_columns


def solve_streamed(
    task: StreamedTask,
    control: Control,
    first_weights: Callable[[LinearProblem, MarginLoss], Floats | None],
) -> SolverResult:
    """Train one task; `first_weights` solves the problem on the sample."""
    try:
        return _solve(task, control, first_weights)
    except PassEnded as end:
        if task.last is None:
            raise OdmError("training ended before the first pass over the rows was complete") from None
        primal, gap, _ = task.last.bounds
        return SolverResult.at(end.args[0], primal, gap, 0, "stream", weights=task.last.w)
    finally:
        task.passes.leave()


def _solve(
    task: StreamedTask,
    control: Control,
    first_weights: Callable[[LinearProblem, MarginLoss], Floats | None],
) -> SolverResult:
    # a time limit ends a run after a pass, so that there is a result; a wish to stop ends the pass
    task.over = lambda: STOPPED if control.out_of_time() == STOPPED else None
    task.find_mean()
    found = first_weights(task.sampled, task.loss)
    w = np.zeros(task.n_columns) if found is None else found
    newton = task.prefers_newton()
    done, bound = 0, -math.inf
    if not newton and not task.variance:
        result = solve_dual_passes(task, control, w, task.tuning.dual)
        if result.status != MAX_ITER or control.left(result.iterations) == 0:
            return result
        done, bound, w = result.iterations, result.dual, result.weights
    task.choose_width(w, control.tol)
    while True:
        part = control.part(
            max_iter=control.left(done),
            callback=control.told(lambda seen: _later(seen, done)),  # noqa: B023
            over=lambda: _smoothing_is_all(task, control),
        )
        start = WarmStart(weights=w)
        if newton:
            result = solve_newton(task, part, start)
        else:
            result = solve_lbfgs(task, part, start, precondition=task.precondition)
        done, bound, w = done + result.iterations, max(bound, result.dual), result.weights
        if result.status != NARROWER or task.smoothed is None:
            break
        assert task.last is not None
        wanted = task.tuning.smoothing_part * control.target(result.primal) / max(task.last.row_gaps, 1e-300)
        task.smoothed.width *= min(0.7, max(task.tuning.shrinking, math.sqrt(wanted)))
    result.iterations, result.dual = done, bound
    result.gap = relative_gap(result.primal, max(0.0, result.primal - bound))
    if task.smoothed is not None:
        result.details["smoothing"] = task.smoothed.width
    return result


def _later(progress: Any, done: int) -> Any:
    return replace(progress, iteration=progress.iteration + done)


def _smoothing_is_all(task: StreamedTask, control: Control) -> str | None:
    """Whether the gap is still open only because the hinge is smoothed."""
    if task.smoothed is None or task.last is None or task.smoothed.width <= task.tuning.least_width:
        return None
    _, bounds, half_square, gaps = task.last
    open_by_smoothing = gaps > 2 * task.tuning.smoothing_part * control.target(bounds.primal)
    return NARROWER if open_by_smoothing and half_square < 0.3 * gaps else None
