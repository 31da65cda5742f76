"""Label assignments: the exact one for linear scores, the balance, and the ascent."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from odmlib.solvers.semi.assignments import Assignments, Balance, ascend, assign


@pytest.mark.parametrize("low, high", [(0, 6), (2, 2), (1, 4), (5, 5), (0, 0), (6, 6)])
def test_assign_is_the_best_of_all(low, high):
    rng = np.random.default_rng(low + 10 * high)
    for _ in range(20):
        scores = rng.integers(-2, 3, 6).astype(float)  # with ties and zeros
        found = assign(scores, Balance(low, high))
        assert low <= (found > 0).sum() <= high
        allowed = [y for y in itertools.product((-1, 1), repeat=6) if low <= sum(s > 0 for s in y) <= high]
        assert scores @ found == max(scores @ np.array(y) for y in allowed)


def test_ties_go_to_the_lower_row():
    assert assign(np.array([1.0, 2.0, 1.0, 1.0]), Balance(2, 2)).tolist() == [1, 1, -1, -1]
    assert assign(np.zeros(3), Balance(1, 3)).tolist() == [1, -1, -1]


def test_balance():
    assert Balance.of("equal", 3, 10, 100) == Balance(30, 30)
    assert Balance.of(0.123, 3, 10, 100) == Balance(12, 12)
    rate = 4 / 12
    error = np.sqrt(rate * (1 - rate) / 12)
    band = Balance.of("band", 3, 10, 100)
    assert band == Balance(round(100 * (rate - 2 * error)), round(100 * (rate + 2 * error)))
    assert Balance.of("band", 1, 2, 100) == Balance(1, 99)  # never all of one class
    assert Balance.of(0.999, 1, 2, 5) == Balance(4, 4)
    assert Balance.of("band", 1, 2, 1) == Balance(0, 1)
    assert Balance.of("equal", 1, 2, 0) == Balance(0, 0)


def test_ascent_never_falls_and_ends_in_a_fixed_point():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((30, 5))
    K = root @ root.T

    def images(vectors):
        products = K @ vectors
        return products, (vectors * products).sum(axis=0)

    given = np.zeros(30, dtype=np.int8)
    given[:4] = [1, -1, 1, -1]
    members = Assignments(given, Balance(10, 15))
    duals = rng.standard_normal(30)
    starts = [members.random(rng) for _ in range(6)]
    found, square = ascend(images, members, duals, starts)
    assert square >= max(images(duals[:, None] * np.stack(starts, axis=1))[1])
    product, again = images((duals * found)[:, None])
    assert again[0] == pytest.approx(square)
    step = members.best(duals * product[:, 0])
    assert images((duals * step)[:, None])[1][0] <= square * (1 + 1e-12)
    assert (found[:4] == given[:4]).all() and 10 <= (found[4:] > 0).sum() <= 15
