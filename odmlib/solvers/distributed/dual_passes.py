"""Dual coordinate ascent in passes over rows in a file: linear machines of many columns.

    max_a  D(a) = -1/2 |w(a)|^2 - sum_i conj_i(a_i),   w(a) = sum_i a_i y_i x_i

A pass visits the blocks in random order. While a block is in memory, a few sweeps of coordinate descent
(linear/dcd.py) improve its duals, and w follows. The duals lie in a file without a name beside the rows.

The weight b of the bias is fixed during a pass: a target of every row. If it moved, each block would move it
to suit its own share of positive rows, and the next one back: a9a, rcv1 and reuters then took three to ten
times the passes. Between two passes b goes where secants expect the zero of g(b) = b - bias sum_i a_i y_i,
the derivative of P in b once w is best.

Certificate: a pass measures the w, b and a that it begins with. With margins z of w and b,

    P(w, b) - D(a) = sum_i ( loss_i(z_i) + conj_i(a_i) + a_i z_i ) + 1/2 |(w, b) - w(a)|^2.

The least P and the largest D met on the way are kept.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from odmlib._core.arrays import Floats
from odmlib._core.rows import Rows
from odmlib._core.vectors import inner
from odmlib.data.row_store import StoredBlock, errors_named
from odmlib.losses.sums import gaps
from odmlib.solvers.control import MAX_ITER, STALLED, Control, SolverResult, relative_gap, steps_to_come
from odmlib.solvers.linear._dcd import Sweeper
from odmlib.solvers.linear.certificate import UNIT, Certificate, RowErrors, RowSums
from odmlib.solvers.problem import LinearProblem

if TYPE_CHECKING:
    from odmlib.solvers.distributed.streamed import StreamedTask


@dataclass(frozen=True)
class DualTuning:
    sweeps: int = 3  # of a block in a pass, at most; 1 and 5 took as many passes
    settled: float = 0.1  # of the first sweep's violation: the block's turn ends
    # of the total cost: the derivative of g until a secant tells it. 0.02 is low on most sets, which costs
    # a pass or two
    first_curvature: float = 0.02
    first_move: float = 0.5  # of b, at most; later ones are at most twice as far as the one before
    max_passes: int = 2000
    first_forecast: int = 20  # passes before the rate of descent is judged
    # hand over (status max_iter) where more passes than that are to come: at C = 100 reuters_moneyfx needs
    # some 800 (svm), and did not converge in 3500 by lbfgs
    patience: float = 1000.0


TUNING = DualTuning()


class Measured(NamedTuple):
    """What the last pass told of a task."""

    w: Floats
    bounds: Certificate
    half_square: float  # 1/2 |grad P_g(w)|^2
    row_gaps: float  # of the certificate


class StoredDuals:
    """A number per row, all 0 at first, in a file that nobody else sees and that goes with the process."""

    def __init__(self, path: str, n_rows: int):
        self.path = os.path.dirname(path) or os.curdir
        with errors_named(self.path):
            self._file = tempfile.TemporaryFile(dir=self.path, buffering=0)  # noqa: SIM115
            os.ftruncate(self._file.fileno(), 8 * n_rows)

    def close(self) -> None:
        self._file.close()

    def read(self, first: int, n: int) -> Floats:
        duals = np.empty(n)
        view = duals.view(np.uint8).data
        filled = 0
        while filled < len(view):
            with errors_named(self.path):
                count = os.preadv(self._file.fileno(), [view[filled:]], 8 * first + filled)
            if not count:
                raise OSError(f"{self.path}: the file of the duals ends too early")
            filled += count
        return duals

    def write(self, first: int, duals: Floats) -> None:
        view = duals.view(np.uint8).data
        written = 0
        while written < len(view):
            with errors_named(self.path):
                written += os.pwrite(self._file.fileno(), view[written:], 8 * first + written)


class _BiasWeight:
    """b, and where it goes: what is known of g."""

    def __init__(self, value: float, curvature: float, tuning: DualTuning):
        self.value, self.curvature, self.most = value, curvature, tuning.first_move
        self._seen: tuple[float, float] | None = None  # (b, g) before

    def move(self, derivative: float) -> None:
        """`derivative`: g at the present value, as far as w is best."""
        if self._seen is not None and self._seen[0] != self.value:
            secant = (derivative - self._seen[1]) / (self.value - self._seen[0])
            if secant > 1:  # g rises at least as fast as b
                self.curvature = secant
            self.most = 2 * max(abs(self.value - self._seen[0]), 1e-3)
        self._seen = self.value, derivative
        self.value -= min(self.most, max(-self.most, derivative / self.curvature))


def solve_dual_passes(
    task: StreamedTask, control: Control, start: Floats, tuning: DualTuning = TUNING
) -> SolverResult:
    """Train one task; `start` are weights, of which only that of the bias is used."""
    with closing(StoredDuals(task.passes.store.path, task.passes.store.n_rows)) as duals:
        return _solve(task, control, start, tuning, duals)


def _solve(
    task: StreamedTask, control: Control, start: Floats, tuning: DualTuning, duals: StoredDuals
) -> SolverResult:
    w = np.zeros(task.passes.store.n_features)
    curvature = 1 + task.bias**2 * tuning.first_curvature * task.total_cost
    bias_weight = _BiasWeight(float(start[-1]) if task.bias else 0.0, curvature, tuning)
    passes, bound, best, best_weights = 0, -math.inf, math.inf, start
    seen: list[tuple[int, float]] = []
    while True:
        before, b = w.copy(), bias_weight.value
        part = _visit(task, duals, before, b, w, tuning, passes)
        sums, image, tilt, new_tilt = task.passes.sums(task.number, part, task.over, shuffled=True)
        away = before - image
        whole = np.append(before, b)
        bounds = RowSums(*sums).bounds(whole, math.sqrt(inner(away, away) + (b - tilt) ** 2))
        bound = max(bound, bounds.primal - bounds.gap)
        if bounds.primal < best or not math.isfinite(bounds.primal):
            best, best_weights = bounds.primal, whole if task.bias else before
        gap = max(0.0, best - bound)
        task.last = Measured(best_weights, Certificate(best, gap, bounds.rounding), 0.0, gap)
        status = control.step(passes, best, gap, tuning.max_passes)
        if status is None and bounds.rounding_is_all:
            status = STALLED
        passes += 1
        seen.append((passes, relative_gap(best, gap)))
        if status is None and passes >= tuning.first_forecast:
            earlier, gap_then = max(pair for pair in seen if pair[0] <= passes / 2)
            if steps_to_come(passes - earlier, gap_then, seen[-1][1], control.tol) > tuning.patience:
                status = MAX_ITER
        if status is not None:
            return SolverResult.at(status, best, gap, passes - 1, "dcd", weights=best_weights)
        w -= away  # what rounding left in w as it followed the duals
        if task.bias:
            bias_weight.move(b - new_tilt)


def _visit(
    task: StreamedTask,
    duals: StoredDuals,
    before: Floats,
    b: float,
    w: Floats,
    tuning: DualTuning,
    number: int,
) -> Callable[[StoredBlock], list[Any]]:
    """What a pass does with a block: measure it at `before` and b, then improve its duals; w follows."""

    def part(block: StoredBlock) -> list[Any]:
        y, costs = task.side.signs(block.codes), task.costs(task.side.weights(block))
        rows, a = Rows(block.rows, 0.0), duals.read(block.first, block.rows.n_rows)
        some = np.flatnonzero(costs > 0)
        if len(some) < len(costs):  # rows without a cost have no dual
            rows, y, costs, all_duals, a = rows.restricted(some), y[some], costs[some], a, a[some]
        targets = -task.bias * b * y
        problem = LinearProblem(rows, y, costs, task.loss, targets)
        sums = _sums(problem, a, before, task.bias, task.threads)
        image, tilt = problem.weights_of(a, task.threads), task.bias * inner(a, y)
        if len(a):
            seed = 0x9E3779B9 * (number + 1) + block.number
            sweeper = Sweeper(rows, task.loss, y, costs, a, w, seed, targets)
            first = -1.0
            for _ in range(tuning.sweeps):
                sweeper.begin_sweep()
                violation = sweeper.advance(np.iinfo(np.int64).max, -1.0)
                first = violation if first < 0 else first
                if violation <= tuning.settled * first:
                    break
        new_tilt = task.bias * inner(a, y)
        if len(some) < block.rows.n_rows:
            all_duals[some] = a
            a = all_duals
        duals.write(block.first, a)
        return [np.array(sums), image, tilt, new_tilt]

    return part


def _sums(problem: LinearProblem, duals: Floats, w: Floats, bias: float, threads: int) -> RowSums:
    """What rows add to the certificate; the bias is in their targets."""
    squares = problem.rows.squared_norms()
    margins = problem.margins(w, threads)
    errors = RowErrors(problem, margins, math.sqrt(inner(w, w)) * np.sqrt(squares), threads)
    length = 1.01 * inner(np.abs(duals), np.sqrt(squares + bias**2))
    row_gaps = gaps(problem.loss, duals, margins, problem.costs)
    return errors.sums(duals, row_gaps, UNIT * (len(duals) + 20) * length, length)
