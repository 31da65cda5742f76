"""Algorithm 1 of the ssODM paper as printed: stochastic mirror prox over all assignments in B.

mu has one number per member of B, far too many to store. It begins even, and a step changes one number and
normalises, so members that were never drawn share one value: `Shares` keeps that value and the members that
were drawn. Everything else follows from the mean and the second moments of the even distribution on B,

    M_mu = sum_k mu_k Y_k Y_k' = e E[Y Y'] + sum over drawn k of (mu_k - c) Y_k Y_k',   e = c |B|,

c being the value that they share. The printed step sizes are eta/a and eta/b with a = 1 / sqrt(log |B|) and
b = sqrt(2) / (tau sqrt(m)). The paper gives no eta; here eta/b is the step that suits the duals
(mirror_prox.py).

Certificate: the upper bound is that of saddle.py, with M_mu from above. The lower bound needs the largest
q_k in B: of all members where they are few, else at most (sum_i |a_i| sqrt(K_ii))^2, which is far too large.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np

from odmlib._core.arrays import Floats, Labels
from odmlib._core.vectors import inner
from odmlib.losses.sums import value_and_gap
from odmlib.solvers.control import Control, relative_gap
from odmlib.solvers.problem import conjugates
from odmlib.solvers.semi.assignments import Assignments
from odmlib.solvers.semi.engine import Engine
from odmlib.solvers.semi.mirror_prox import largest_eigenvalue


@dataclass(frozen=True)
class PublishedTuning:
    max_steps: int = 2_000  # the gap hardly changes after the first hundred
    check: int = 25  # steps between two looks at the gap
    few_members: int = 1_000  # up to here the lower bound looks at all of B
    power_steps: int = 20
    largest_exponent: float = 1e300  # of a change of mu: beyond it one member has everything or nothing


TUNING = PublishedTuning()


@dataclass(frozen=True)
class Members:
    """B: how many members it has, one drawn evenly, and the moments of the even distribution."""

    assignments: Assignments
    counts: dict[int, int] = field(init=False)  # members by number of positive open rows

    def __post_init__(self) -> None:
        n, balance = len(self.assignments.open_rows), self.assignments.balance
        found = {k: math.comb(n, k) for k in range(balance.low, balance.high + 1)}
        object.__setattr__(self, "counts", found)

    @property
    def size(self) -> int:
        return sum(self.counts.values())

    def shares(self) -> dict[int, float]:
        """The part of the members with so many positive rows."""
        size = self.size
        return {k: count / size for k, count in self.counts.items()}  # exact for any whole numbers

    def draw(self, rng: np.random.Generator) -> Labels:
        shares = self.shares()
        k = int(rng.choice(list(shares), p=np.array(list(shares.values())) / sum(shares.values())))
        return self._with(rng.permutation(self.assignments.open_rows)[:k])

    def all(self) -> Labels:
        """rows x members"""
        rows = self.assignments.open_rows
        chosen = (some for k in self.counts for some in itertools.combinations(rows, k))
        return np.stack([self._with(np.array(some, dtype=np.int64)) for some in chosen], axis=1)

    def _with(self, positive: np.ndarray) -> Labels:
        labels = np.where(self.assignments.given == 0, -1, self.assignments.given).astype(np.int8)
        labels[positive] = 1
        return labels

    def moments(self) -> tuple[Floats, float]:
        """E[Y_i] of every row, and E[Y_i Y_j] of two open rows."""
        n, mean, product = len(self.assignments.open_rows), 0.0, 1.0
        shares = self.shares()
        mean = sum(share * (2 * k / n - 1) for k, share in shares.items())
        if n > 1:
            product = sum(share * ((2 * k - n) ** 2 - n) / (n * (n - 1)) for k, share in shares.items())
        return np.where(self.assignments.given == 0, mean, self.assignments.given.astype(np.float64)), product


@dataclass(frozen=True)
class Shares:
    """log mu: of the members that were drawn, by their labels as bytes, and of every other one."""

    drawn: dict[bytes, float]
    rest: float
    size: int  # of B

    def changed(self, member: bytes, change: float) -> Shares:
        """mu_k exp(change), normalised."""
        drawn = {**self.drawn, member: self.drawn.get(member, self.rest) + change}
        n_rest = self.size - len(drawn)
        logs = [*drawn.values(), *([self.rest + math.log(n_rest)] if n_rest else [])]
        most = max(logs)
        total = most + math.log(math.fsum(math.exp(one - most) for one in logs))
        return Shares({key: one - total for key, one in drawn.items()}, self.rest - total, self.size)

    def even_part(self) -> float:
        """e: the shared value times |B|."""
        return math.exp(min(0.0, self.rest + math.log(self.size)))

    def draw(self, members: Members, rng: np.random.Generator) -> Labels:
        place = rng.random()
        for key, one in self.drawn.items():
            place -= math.exp(one)
            if place < 0:
                return np.frombuffer(key, dtype=np.int8)
        labels = members.draw(rng)
        while len(self.drawn) < self.size and labels.tobytes() in self.drawn:
            labels = members.draw(rng)
        return labels


@dataclass(frozen=True)
class PublishedResult:
    mean_labels: Floats  # sum_k mu_k Y_k
    upper: float
    lower: float
    status: str
    steps: int
    members: int  # of B that were drawn

    @property
    def gap(self) -> float:
        return relative_gap(self.upper, self.upper - self.lower)


def solve_published(engine: Engine, control: Control, tuning: PublishedTuning = TUNING) -> PublishedResult:
    """The printed steps from the printed start; the last point is the result."""
    members = Members(engine.assignments)
    certificate = _Certificate(engine, members, tuning)
    loss, costs, rng = engine.loss, engine.costs, np.random.default_rng(engine.resources.seed)
    theta, size = loss.theta, members.size
    up = np.where(costs > 0, 1 / (2 * np.where(costs > 0, costs, 1.0)), 0.0)  # curvature of conj_i, a_i > 0
    down = up / loss.nu
    weights = costs * (1 - theta) ** 2
    most = 2 * math.sqrt(float(weights.max()) * float(weights.sum())) / (1 - theta)  # tau
    largest = largest_eigenvalue(engine, rng, tuning.power_steps)
    # twice: zeta and beta move against each other at the same time
    step_duals = 0.7 / max(2 * largest + float(down.max()), 1e-300)
    eta = step_duals * math.sqrt(2) / (most * math.sqrt(engine.n_rows))
    step_shares = eta * math.sqrt(math.log(size))

    def moved(at: tuple[Shares, Floats, Floats], base: tuple[Shares, Floats, Floats]) -> tuple:
        """The step from `base` with the gradient at `at`."""
        shares, zeta, beta = at
        first, second = members.draw(rng), shares.draw(members, rng)
        a = zeta - beta
        products, squares = engine.images(a[:, None] * np.stack([first, second], axis=1))
        value = -0.5 * float(squares[0]) - conjugates(loss, costs, a, engine.resources.threads)  # G
        logarithm = math.log(size) + math.log(max(step_shares * abs(value), 1e-300))
        change = min(math.exp(min(logarithm, 690.0)), tuning.largest_exponent)
        margins = second * products[:, 1]
        return (
            base[0].changed(first.tobytes(), -math.copysign(change, value)),
            np.clip(base[1] + step_duals * ((1 - theta) - margins - up * zeta), 0, most),
            np.clip(base[2] + step_duals * (margins - (1 + theta) - down * beta), 0, most),
        )

    point = Shares({}, -math.log(size), size), np.zeros(engine.n_rows), np.zeros(engine.n_rows)
    for step in itertools.count():
        late = control.out_of_time()
        if step % tuning.check == 0 or step == control.max_iter or late is not None:
            upper, lower, mean = certificate.of(point[0], point[1] - point[2])
            status = control.step(step, upper, upper - lower, tuning.max_steps) or late
            if status is not None:
                return PublishedResult(mean, upper, lower, status, step, len(point[0].drawn))
        point = moved(moved(point, point), point)
    raise AssertionError


class _Certificate:
    def __init__(self, engine: Engine, members: Members, tuning: PublishedTuning):
        self.engine = engine
        self.open = engine.assignments.given == 0
        self.mean, self.product = members.moments()
        self.diagonal = engine.diagonal()
        self.all = members.all() if members.size <= tuning.few_members else None

    def of(self, shares: Shares, a: Floats) -> tuple[float, float, Floats]:
        """(UB, LB, sum_k mu_k Y_k)"""
        engine, mean, even = self.engine, self.mean, shares.even_part()
        # (K o E[Y Y']) a, from the means and what open rows have beside them
        level = float(self.mean[self.open][0])
        beside = np.where(self.open, a, 0.0)
        products, _ = engine.images(np.stack([mean * a, beside], axis=1))
        margins = even * (mean * products[:, 0])
        extra = (self.product - level**2) * products[:, 1] + (1 - self.product) * self.diagonal * beside
        margins += even * np.where(self.open, extra, 0.0)
        found = even * mean
        own = math.exp(shares.rest)
        for key, one in shares.drawn.items():
            part = math.exp(one) - own
            if part != 0:
                labels = np.frombuffer(key, dtype=np.int8)
                images, _ = engine.images((a * labels)[:, None])
                margins += part * labels * images[:, 0]
                found = found + part * labels
        losses, gap = value_and_gap(engine.loss, a, margins, engine.costs, engine.resources.threads)
        conjugate = gap - losses - inner(a, margins)
        if self.all is None:
            largest = float(np.abs(a) @ np.sqrt(np.maximum(self.diagonal, 0))) ** 2
        else:
            largest = float(engine.images(a[:, None] * self.all)[1].max())
        return 0.5 * inner(a, margins) + losses, -0.5 * largest - conjugate, found
