"""Label assignments of the unlabeled rows: the best one under a balance, and the search for a violated one.

B = { yhat : yhat_L = y_L,  low <= #{j in U : yhat_j = +1} <= high }. A linear function of yhat is maximised
over B exactly by sorting; q(yhat) = (a o yhat)' K (a o yhat) is convex, so that linearising it again and
again never lowers it, and ends (docs/internals/mathematics.md, ssODM).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from odmlib._core.arrays import Floats, Labels, Places

Images = Callable[[Floats], tuple[Floats, Floats]]  # A (rows x n) -> K A, and a' K a of every column

BAND_WIDTH = 2.0  # standard errors


@dataclass(frozen=True)
class Balance:
    """How many unlabeled rows may be positive."""

    low: int
    high: int

    @classmethod
    def of(cls, wish: str | float, n_positive: int, n_labeled: int, n_unlabeled: int) -> Balance:
        """`wish` is the positive fraction of the unlabeled rows, or how to estimate it from the labels."""

        def count(fraction: float) -> int:
            return max(1, min(n_unlabeled - 1, math.floor(n_unlabeled * fraction + 0.5)))

        if n_unlabeled < 2:  # there is nothing to balance
            return cls(0, n_unlabeled)
        if wish == "band":
            rate = (n_positive + 1) / (n_labeled + 2)
            error = math.sqrt(rate * (1 - rate) / (n_labeled + 2))
            return cls(count(rate - BAND_WIDTH * error), count(rate + BAND_WIDTH * error))
        rate = n_positive / n_labeled if wish == "equal" else float(wish)
        return cls(count(rate), count(rate))


@dataclass(frozen=True)
class Assignments:
    """The set B: `given` are the labels, 0 where they are to be found."""

    given: Labels
    balance: Balance

    @property
    def open_rows(self) -> Places:
        return np.flatnonzero(self.given == 0)

    @property
    def labeled_rows(self) -> Places:
        return np.flatnonzero(self.given)

    def best(self, scores: Floats) -> Labels:
        """The member with the largest sum of scores_j yhat_j over the open rows; ties: lower rows first."""
        labels = self.given.copy()
        rows = self.open_rows
        labels[rows] = assign(scores[rows], self.balance)
        return labels

    def random(self, rng: np.random.Generator) -> Labels:
        return self.best(rng.standard_normal(len(self.given)))


def assign(scores: Floats, balance: Balance) -> Labels:
    """+1 for the n largest scores, n as near to the number of positive ones as the balance allows."""
    positive = scores > 0
    found = int(np.count_nonzero(positive))
    n = min(max(found, balance.low), balance.high)
    if n != found:
        if n == 0:
            positive[:] = False
        else:
            least = np.partition(scores, len(scores) - n)[len(scores) - n]
            positive = scores > least
            positive[np.flatnonzero(scores == least)[: n - np.count_nonzero(positive)]] = True
    return np.where(positive, 1, -1).astype(np.int8)


def ascend(
    images: Images,
    members: Assignments,
    duals: Floats,
    starts: list[Labels],
    out_of_time: Callable[[], str | None] = lambda: None,
    *,
    max_steps: int = 50,
    real_rise: float = 1e-12,
) -> tuple[Labels, float]:
    """The assignment with the largest q that is met on the way up from the starts, all taken together.

    A rise of less than `real_rise`, relatively, is rounding.
    """
    labels = np.stack(starts, axis=1)
    products, squares = images(duals[:, None] * labels)
    rising = np.arange(labels.shape[1])
    for _ in range(max_steps):
        new = np.stack([members.best(duals * products[:, place]) for place in range(len(rising))], axis=1)
        moved = np.flatnonzero((new != labels[:, rising]).any(axis=0))
        if len(moved) == 0 or out_of_time() is not None:
            break
        new = new[:, moved]
        products, new_squares = images(duals[:, None] * new)
        risen = new_squares > squares[rising[moved]] * (1 + real_rise)
        rising = rising[moved[risen]]
        products, new = np.ascontiguousarray(products[:, risen]), new[:, risen]
        labels[:, rising], squares[rising] = new, new_squares[risen]
        if len(rising) == 0:
            break
    best = int(np.argmax(squares))
    return labels[:, best].copy(), float(squares[best])
