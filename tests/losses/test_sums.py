"""Sums over rows against NumPy, and the same bits for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib.losses.loss import BandLoss
from odmlib.losses.sums import along_line, slopes_and_curvatures, steepest_slopes, value_and_gap, values

THETA, NU = 0.2, 0.5
CHUNK = 1 << 14


def parts(margins):
    short, over = np.maximum(0, 1 - THETA - margins), np.maximum(0, margins - 1 - THETA)
    return short, over


@pytest.fixture(params=[0, 1, 7, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 3])
def numbers(request):
    rng = np.random.default_rng(request.param)
    n = request.param
    costs = rng.random(n) * (rng.random(n) < 0.9)
    return 1 + 2 * rng.standard_normal(n), rng.standard_normal(n), costs


def test_slopes_and_curvatures(numbers):
    margins, _, costs = numbers
    total, slopes, curvatures = slopes_and_curvatures(BandLoss(THETA, NU), margins, costs)
    short, over = parts(margins)
    assert total == pytest.approx(np.sum(costs * (short**2 + NU * over**2)), rel=1e-12)
    np.testing.assert_allclose(slopes, 2 * costs * (NU * over - short), rtol=1e-13)
    np.testing.assert_allclose(curvatures, 2 * costs * ((short > 0) + NU * (over > 0)), rtol=1e-13)


def test_values(numbers):
    margins, _, costs = numbers
    short, over = parts(margins)
    found = values(BandLoss(THETA, NU), margins, costs)
    np.testing.assert_allclose(found, costs * (short**2 + NU * over**2), rtol=1e-13)


@pytest.mark.parametrize("step", [0.0, 0.3, -2.0])
def test_along_line(numbers, step):
    margins, directions, costs = numbers
    first, second = along_line(BandLoss(THETA, NU), margins, directions, step, costs)
    short, over = parts(margins + step * directions)
    slopes = 2 * costs * (NU * over - short)
    curvatures = 2 * costs * ((short > 0) + NU * (over > 0))
    scale = np.sum(np.abs(slopes * directions)) + 1
    assert first == pytest.approx(np.sum(slopes * directions), abs=1e-13 * scale)
    assert second == pytest.approx(np.sum(curvatures * directions**2), rel=1e-12)


def test_value_and_gap(numbers):
    margins, directions, costs = numbers
    duals = directions * (costs > 0)
    value, gap = value_and_gap(BandLoss(THETA, NU), duals, margins, costs)
    short, over = parts(margins)
    losses = costs * (short**2 + NU * over**2)
    side = np.where(duals > 0, costs, NU * costs)
    with np.errstate(invalid="ignore", divide="ignore"):
        conjugates = np.where(duals == 0, 0, -duals + THETA * abs(duals) + duals**2 / (4 * side))
    assert value == pytest.approx(losses.sum(), rel=1e-12)
    assert gap == pytest.approx(np.sum(losses + conjugates + duals * margins), rel=1e-11)


def test_gap_of_matching_pairs_is_zero(numbers):
    margins, _, costs = numbers
    loss = BandLoss(THETA, NU)
    total, slopes, _ = slopes_and_curvatures(loss, margins, costs)
    assert value_and_gap(loss, -slopes, margins, costs)[1] <= 1e-14 * max(1.0, total)


def test_gap_is_infinite_outside_the_domain():
    one = np.ones(3)
    assert value_and_gap(BandLoss(0.0, 0.0), -one, one, one)[1] == np.inf


@pytest.mark.parametrize("threads", [2, 3, 7, 64])
def test_any_number_of_threads_gives_the_same_bits(threads):
    rng = np.random.default_rng(0)
    n = 6 * CHUNK + 11
    margins, directions, costs = rng.standard_normal(n), rng.standard_normal(n), rng.random(n)
    loss = BandLoss(THETA, NU)
    alone = slopes_and_curvatures(loss, margins, costs, 1)
    together = slopes_and_curvatures(loss, margins, costs, threads)
    assert alone[0] == together[0]
    assert alone[1].tobytes() == together[1].tobytes() and alone[2].tobytes() == together[2].tobytes()
    assert along_line(loss, margins, directions, 0.5, costs, 1) == along_line(
        loss, margins, directions, 0.5, costs, threads
    )
    assert value_and_gap(loss, directions, margins, costs, 1) == value_and_gap(
        loss, directions, margins, costs, threads
    )


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="of different lengths"):
        slopes_and_curvatures(BandLoss(0.0, 0.0), np.zeros(3), np.zeros(4))
    with pytest.raises(ValueError, match="of different lengths"):
        value_and_gap(BandLoss(0.0, 0.0), np.zeros(4), np.zeros(3), np.zeros(3))


def test_steepest_slopes_are_met_within_the_errors(numbers):
    margins, _, costs = numbers[:3]
    loss, errors = BandLoss(THETA, NU), np.random.default_rng(0).random(len(margins))
    found = steepest_slopes(loss, margins, errors, costs)
    among = [
        np.abs(slopes_and_curvatures(loss, margins + t * errors, costs)[1]) for t in np.linspace(-1, 1, 21)
    ]
    np.testing.assert_array_equal(found, np.max(among, axis=0))


def test_errors_are_of_all_rows():
    with pytest.raises(ValueError, match="margins and errors"):
        steepest_slopes(BandLoss(THETA, NU), np.zeros(3), np.zeros(2), np.ones(3))
