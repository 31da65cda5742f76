"""Steps along what many blocks have changed, between the blocks of the working-set method.

Duals that are coupled over far more rows than a block holds move a little in every block, always in the same
direction. The changes between the last few points span that direction. The scores are linear in the duals, so
those of any combination are known: the dual problem is solved in these few directions at the cost of a few
passes over the rows, without a kernel value. The dual value never falls.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from odmlib._core.arrays import Floats

if TYPE_CHECKING:
    from odmlib.solvers.kernel._working_set import WorkingSet

NEWTON_STEPS = 8  # the dual is piecewise quadratic in the directions; two or three are usual
LEAST_PROGRESS = 1e-3  # of what the first Newton step promised
HALVINGS = 10
RIDGE = 1e-10  # relative; directions may depend on each other
MOST_ADDITIONS = 1e12  # beyond, the bound on the rounding of the scores would say nothing


class _Point(NamedTuple):
    sums: list[Floats]  # duals, scores and all else that is linear in the duals
    additions: int


class Extrapolation:
    """The last points of a run, and the steps along the changes between them."""

    def __init__(self, state: WorkingSet, directions: int, least_part: float, longest_wait: int):
        """A step must win `least_part` of what the blocks have won, or it is tried less often."""
        self.state, self.directions = state, directions
        self.least_part, self.longest_wait = least_part, longest_wait
        self.points: list[_Point] = []  # latest first
        self.wait = self.to_wait = 1  # calls from one step to the next
        self.untidy = False  # whether steps may have left rows with a dual that would rest at 0

    def forget(self) -> None:
        """The scores were computed anew: differences to earlier ones mean nothing."""
        self.points = []

    def step(self) -> None:
        """Take the best step along the changes since earlier points, if it pays, and keep this one."""
        self.to_wait -= 1
        if self.to_wait > 0:
            return
        sums = [self.state.duals, self.state.scores, *self.state.q.sums]
        if self.points:
            self.wait = 1 if self._move(sums) else min(2 * self.wait, self.longest_wait)
            self.to_wait = self.wait
        self.points.insert(0, _Point([part.copy() for part in sums], self.state.additions))
        del self.points[self.directions :]

    def _move(self, sums: list[Floats]) -> bool:
        points = [_Point(sums, self.state.additions), *self.points]
        pairs = list(pairwise(points))
        changes = [np.array([a.sums[k] - b.sums[k] for a, b in pairs]) for k in range(len(sums))]
        steps = self._best_steps(changes[0], changes[1])
        # each addition to the scores is repeated by these factors, with its rounding
        counts = [after.additions - before.additions for after, before in pairs]
        additions = len(steps) + 2 + float(np.abs(steps) @ counts)
        if not steps.any() or additions > MOST_ADDITIONS:
            return False
        for part, change in zip(sums, changes, strict=True):
            for step, line in zip(steps, change, strict=True):
                part += step * line
        travel = float(np.abs(steps) @ np.abs(changes[0]).sum(axis=1))
        self.state.count(int(additions), travel)
        self.untidy = True
        return True

    def _best_steps(self, duals: Floats, scores: Floats) -> Floats:
        """No step where it would not pay."""
        steps = np.zeros(len(duals))
        value, gradient, hessian = self.state.along(duals, scores, steps)
        before, now, first = self.state.along(duals[:1], scores[:1], -np.ones(1))[0], value, 0.0
        for _ in range(NEWTON_STEPS):
            np.fill_diagonal(hessian, hessian.diagonal() * (1 + RIDGE))
            try:
                newton = -np.linalg.solve(hessian, gradient)
            except np.linalg.LinAlgError:
                break
            promised = -float(gradient @ newton)
            first = first or promised
            if not promised > LEAST_PROGRESS * first:
                break
            for _ in range(HALVINGS):
                found = self.state.along(duals, scores, steps + newton)
                if found[0] < value:
                    break
                newton = newton / 2
            else:
                break
            steps = steps + newton
            value, gradient, hessian = found
        return steps if now - value > self.least_part * (before - now) else np.zeros(len(duals))
