"""Block methods: which rows come next, how they are fetched and solved; steps of the working-set method."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from odmlib._core.arrays import Floats, Places
from odmlib.solvers.control import Control
from odmlib.solvers.kernel._choice import BlockChoice
from odmlib.solvers.kernel._working_set import WorkingSet
from odmlib.solvers.kernel.extrapolation import Extrapolation
from odmlib.solvers.kernel.q_rows import BlockState, QRows
from odmlib.solvers.problem import MarginProblem

FETCH_VALUES = 5e7  # kernel values computed between two looks at the clock
LEAST_FETCHED = 64  # rows at a time, however long they are


def parts(rows: Places, n_columns: int, most: float = math.inf) -> Iterator[Places]:
    """As many kernel rows at a time as are computed between two looks at the clock, and at most `most`."""
    step = int(min(most, max(LEAST_FETCHED, FETCH_VALUES / max(1, n_columns))))
    for begin in range(0, len(rows), step):
        yield rows[begin : begin + step]


class BlockMethod:
    """What the methods share that solve block after block of rows.

    The next block is a part of the last one, without which two blocks can undo each other's work, and the
    rows of largest gain.
    """

    state: BlockState
    keeps_unfinished = False  # whether what was done of a block is good when the time is over

    def __init__(self, state: BlockState, kept: float, size: int):
        self.state, self.q, self.m, self.kept = state, state.q, state.q.n_rows, kept
        self.size = min(size, self.q.most_rows)  # of the next block
        self.choice = BlockChoice(self.m)
        self.busy_rows = 0  # of the last block: those with a dual

    def add(self, duals: Floats, control: Control) -> str | None:
        """Add to the duals of all rows, some at a time; a status when the time was over before the end."""
        status = None
        for some in parts(np.flatnonzero(duals), self.m, self.size):
            self.state.add_rows(some, duals[some])
            status = status or control.out_of_time()
            if status is not None and not self.keeps_unfinished:
                break
        return status

    def choose(self, gains: Floats, must: Places | None = None) -> Places:
        """The next block, ascending, with all rows of `must` (at most `size`); changes the gains."""
        return self.choice.choose(gains, self.size, self.kept, must)

    def solve(self, block: Places, control: Control, *how: Any) -> str | None:
        """Solve one block; `how`: what else the state's begin() wants. A status when the time was over."""
        for some in parts(block, self.m):
            self.q.fetch(some)
            status = control.out_of_time()
            if status is not None:
                return status
        self.state.begin(block, *how)
        while not self.state.improve():
            status = control.out_of_time()
            if status is not None:
                if self.keeps_unfinished:
                    break
                return status
        self.state.commit()
        self.busy_rows = self.choice.note(block, self.state.duals)
        return control.out_of_time() if self.keeps_unfinished else None


@dataclass(frozen=True)
class WorkingSetTuning:
    block_rows: int = 512
    # of a block at first: rows without a dual may never be needed. Training takes 0.5-0.8 of the time on
    # pairs of 800 rows, and 0.6-1.2 (median 0.9) on 2,600 to 8,000 rows
    first_rows: int = 128
    busy_part: float = 0.5  # of a block: where more rows have a dual, blocks grow
    kept: float = 0.5  # part of the last block that stays
    rounding_part: float = 1e-3  # of the tolerance, by which scores may be off before they are computed anew
    # a block is solved to this part of its gap ... ODM took 0.7-1.05 of the time with 0.01, and 0.65-1.05 of
    # that with 0.1 (5 sets of 5,000 to 10,000 rows, C = 1 and 100); svm about the same time with all three
    block_fraction: float = 0.03
    enough: float = 0.1  # ... or to this part of its share of the gap asked for
    first_sweeps: int = 3  # over a block, before their rate is judged
    max_sweeps: int = 40  # more of them cost as much as a few steps of the active-set method
    held_factor: float = 1.2  # how much more a row is worth when its kernel row is at hand
    tie_break: float = 0.01  # random part of a row's worth: at the start all rows are alike
    # a step along the last changes (extrapolation.py) follows blocks of so many times all rows;
    # 0.25 and 0.5 took as many blocks ...
    extrapolate_after: float = 1.0
    directions: int = 5  # ... in so many directions; 3 and 10 were as fast
    # A step makes rows support vectors again that no longer were, so it must win this part of what the blocks
    # have won. It won 0.25 to 0.4 where it halved the blocks (curved, C = 100), 0.02 on ijcnn1
    least_part: float = 0.1
    longest_wait: int = 4  # for the next try, in times of extrapolate_after
    stall_iterations: int = 100  # without progress
    duality_slack: float = 0.5  # by which a dual value may exceed a primal one before the kernel is to blame
    quiet_iterations: int = 20  # in which a row must have had nothing to gain before it is left out
    shrink_from: float = 0.25  # smallest part of the rows worth leaving out
    shrunk_tolerance: float = 0.8  # part of the tolerance for the rows at work, to be right for all
    # where the exact scores show too large a gap, the run goes on with them and the rows that it has ...
    unseen: float = 0.5  # ... if less than this part of the tolerance was unseen ...
    looks: int = 3  # ... and at most so often; then with rows of float64

    def worth(self, n_rows: int, seed: int) -> Floats:
        """What the gain of each row is multiplied by."""
        return 1 + self.tie_break * _random_numbers(seed, 1 << n_rows.bit_length())[:n_rows]


@functools.lru_cache(maxsize=1)
def _random_numbers(seed: int, n: int) -> Floats:
    """The first n of a seed: the same ones for many tasks of about as many rows."""
    return np.random.default_rng(seed).random(n)


TUNING = WorkingSetTuning()


class BlockSteps(BlockMethod):
    """The working-set method's steps, wherever the rows of Q come from."""

    state: WorkingSet

    def __init__(
        self,
        q: QRows,
        problem: MarginProblem,
        worth: Floats,
        seed: int,
        tuning: WorkingSetTuning = TUNING,
        size: int | None = None,
    ):
        self.tuning, self.worth = tuning, worth
        parts, sweeps = (problem.loss, problem.y, problem.costs), (tuning.first_sweeps, tuning.max_sweeps)
        state = WorkingSet(q, *parts, seed, *sweeps, problem.targets)
        super().__init__(state, tuning.kept, size or tuning.block_rows)
        # a kink of the conjugate or an end of its domain would cut the steps short
        self.smooth = problem.loss.smooth
        self.past = Extrapolation(state, tuning.directions, tuning.least_part, tuning.longest_wait)
        self.rows_since = 0  # in blocks, since it was asked for a step

    def go_to(self, duals: Floats, scores: Floats) -> None:
        """Go on from duals whose scores were computed anew."""
        self.state.resume(duals, scores)
        self.past.forget()

    def tidy(self, control: Control) -> str | None:
        """Blocks of rows that a step along the changes gave a dual, and that would rest at 0."""
        self.past.untidy = False
        for some in parts(self.state.strays(), self.m, self.size):
            if (status := self.solve(some, control, self.tuning.block_fraction, 0.0)) is not None:
                return status
        return None

    def improve(self, target: float, control: Control) -> str | None:
        """Solve the next block; `target` is the gap asked for on all rows.

        A status means that the time was over before the block was done; then nothing has changed.
        """
        state, tuning = self.state, self.tuning
        np.multiply(state.gains, self.worth, out=state.gains)
        self.q.prefer_held(state.gains, tuning.held_factor)
        block = np.arange(self.m) if self.size >= self.m else self.choose(state.gains)
        enough = tuning.enough * target * self.size / self.m
        fraction = tuning.block_fraction
        if len(block) == self.m:  # the only block: exact for the same time
            fraction = enough = 0.0
        status = self.solve(block, control, fraction, enough)
        if status is None and self.size < self.q.most_rows and self.busy_rows > tuning.busy_part * self.size:
            self.size = min(2 * self.size, self.q.most_rows)
        self.rows_since += len(block)
        if status is None and self.smooth and self.rows_since >= tuning.extrapolate_after * self.m:
            self.rows_since = 0
            self.past.step()
        return status
