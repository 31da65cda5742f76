"""ODM^L's margin mean: the joint certificate and the moves, without a solver."""

import numpy as np
import pytest

from odmlib.losses.loss import HingeLoss, MeanVarianceLoss
from odmlib.solvers.margin_mean import MovingMean, first_duals


def test_the_joint_dual_is_the_minimum_over_the_mean():
    """D(a) = min over g of D_g(a), on duals that solve nothing; and minus infinity where none exists."""
    rng = np.random.default_rng(6)
    costs = rng.integers(0, 3, 25).astype(float)
    loss = MeanVarianceLoss(0.3, 0.2, 1.5)
    duals = np.where(costs > 0, costs * rng.uniform(-0.5, 2.5, 25), 0.0)
    duals *= 0.9 * costs.sum() / duals.sum()  # allowed: between 0.2 and 1.7 times the costs
    margins = rng.standard_normal(25)
    primal, gap = MovingMean(loss, costs).measure(duals, margins, 7.0)
    conjugates = []
    for g in np.linspace(-5, 8, 4001):
        loss.centre = g
        conjugates.append(sum(loss.evaluate("conjugate", a, c) for a, c in zip(duals, costs, strict=True)))
    assert primal - gap == pytest.approx(-7.0 - max(conjugates), abs=1e-4)
    loss.centre = costs @ margins / costs.sum()
    losses = sum(loss.evaluate("value", z, c) for z, c in zip(margins, costs, strict=True))
    assert primal == pytest.approx(7.0 + losses)
    assert MovingMean(loss, costs).measure(-np.abs(duals), margins, 7.0)[1] == np.inf
    # duals of a sum that is not allowed are scaled: the bound still holds
    assert np.isfinite(MovingMean(loss, costs).measure(5 * duals, margins, 7.0)[1])


def test_the_mean_moves_only_when_it_keeps_the_gap_open():
    loss, costs = MeanVarianceLoss(1.0, 0.5, 1.0, 0.0), np.ones(4)
    mean = MovingMean(loss, costs)
    mean.measure(np.full(4, 0.8), np.array([1.0, 2.0, 3.0, 2.0]), 5.0)
    assert mean.mean == 2.0 and mean.gap > 0
    assert not mean.move(mean.gap)  # the problem of this g is not solved yet
    assert (mean.moves, loss.centre) == (0, 0.0)
    assert mean.move(0.0)
    assert (mean.moves, loss.centre) == (1, 2.0)  # with slope -1 the first step leads to the mean
    assert mean.details() == {"centre": 2.0, "moves": 1}
    mean.measure(np.full(4, 0.8), np.full(4, 2.0), 5.0)
    assert not mean.move(0.0)  # it is where it belongs


def test_who_has_a_mean_to_move_and_where_duals_begin():
    costs = np.ones(3)
    assert MovingMean.of(HingeLoss(), costs) is None
    assert MovingMean.of(MeanVarianceLoss(0.0, 1.0, 1.0), costs) is None
    assert MovingMean.of(MeanVarianceLoss(1.0, 1.0, 1.0), np.zeros(3)) is None
    assert MovingMean.of(MeanVarianceLoss(1.0, 1.0, 1.0), costs) is not None
    assert first_duals(HingeLoss(), costs) is None
    assert first_duals(MeanVarianceLoss(1.0, 2.0, 1.0), costs) is None
    assert first_duals(MeanVarianceLoss(0.0, 2.0, 1.0), costs).tolist() == [2.0, 2.0, 2.0]
