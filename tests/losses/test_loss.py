"""Every scalar of a loss against its definition: derivatives by differences, suprema by brute force."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest

from odmlib.losses.loss import BandLoss, MarginLoss

# the last four are those of regression: a band around 0, of any width
SETTINGS = [
    *((0.0, 0.0), (0.0, 1.0), (0.2, 0.5), (0.9, 0.4), (0.3, 0.0), (0.0, 0.01)),
    *((0.0, 1.0, 0.0), (0.2, 1.0, 0.0), (1.5, 0.3, 0.0), (0.1, 0.0, 0.0)),
]
COSTS = [0.0, 1e-3, 1.0, 37.5]
MARGINS = np.array([-12.0, -1.5, -0.01, 0.0, 0.05, 0.4, 0.81, 1.0, 1.19, 1.25, 1.7, 1.95, 4.0, 30.0])


@pytest.fixture(params=SETTINGS, ids=lambda s: f"theta={s[0]},nu={s[1]}" + ",centre=0" * (len(s) > 2))
def loss(request):
    return BandLoss(*request.param)


def away_from_kinks(loss, margins, distance):
    edges = loss.centre - loss.theta, loss.centre + loss.theta
    return [z for z in margins if min(abs(z - edge) for edge in edges) > distance]


@pytest.mark.parametrize("cost", COSTS)
def test_value_is_the_formula(loss, cost):
    for z in MARGINS:
        short, over = max(0.0, loss.centre - loss.theta - z), max(0.0, z - loss.centre - loss.theta)
        expected = cost * (short**2 + loss.nu * over**2)
        assert loss.evaluate("value", z, cost) == pytest.approx(expected, rel=1e-14, abs=1e-15)
        one_by_one = [loss.evaluate(what, z, cost) for what in ("value", "slope", "curvature")]
        assert loss.evaluate("expand", z, cost) == pytest.approx(one_by_one, rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("cost", COSTS)
def test_slope_is_the_derivative_everywhere(loss, cost):
    h = 1e-6
    for z in MARGINS:
        ahead, behind = loss.evaluate("value", z + h, cost), loss.evaluate("value", z - h, cost)
        # at a kink of the slope the central difference is off by cost h at most
        assert loss.evaluate("slope", z, cost) == pytest.approx(
            (ahead - behind) / (2 * h), abs=2 * cost * h + 1e-8 * max(1, abs(ahead))
        )


@pytest.mark.parametrize("cost", COSTS)
def test_curvature_is_the_second_derivative_away_from_the_kinks(loss, cost):
    h = 1e-4
    for z in away_from_kinks(loss, MARGINS, 2 * h):
        difference = loss.evaluate("slope", z + h, cost) - loss.evaluate("slope", z - h, cost)
        assert loss.evaluate("curvature", z, cost) == pytest.approx(difference / (2 * h), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("cost", [0.05, 1.0, 37.5])
@pytest.mark.parametrize("dual", [-3.0, -0.2, 0.0, 1e-3, 0.7, 12.0])
def test_conjugate_is_the_supremum(loss, cost, dual):
    step = 0.25
    edges = [loss.centre - loss.theta, loss.centre + loss.theta]
    grid = np.append(np.arange(-4000, 4000, step), edges)
    values = np.array([loss.evaluate("value", z, cost) for z in grid])
    supremum = np.max(-dual * grid - values)
    conjugate = loss.evaluate("conjugate", dual, cost)
    if dual < 0 and loss.nu == 0:
        assert conjugate == math.inf
        assert supremum > 0.19 * 4000  # grows with the grid: no upper penalty holds it
        return
    side = cost if dual >= 0 else loss.nu * cost
    assert supremum <= conjugate + 1e-12 * max(1.0, abs(conjugate))
    assert supremum >= conjugate - side * step**2  # what the grid can miss of a parabola


def test_conjugate_of_a_row_without_cost(loss):
    assert loss.evaluate("conjugate", 0.0, 0.0) == 0
    assert loss.evaluate("conjugate", 0.5, 0.0) == math.inf
    assert loss.evaluate("conjugate", -0.5, 0.0) == math.inf


@pytest.mark.parametrize("cost", COSTS)
def test_fenchel(loss, cost):
    """gap >= 0 for every pair, 0 where a = -slope(z), and never a NaN."""
    duals = [-40.0, -1.0, -1e-9, 0.0, 1e-9, 0.5, 3.0, 100.0]
    for z, a in itertools.product(MARGINS, duals):
        value, conjugate = loss.evaluate("value", z, cost), loss.evaluate("conjugate", a, cost)
        gap = loss.evaluate("gap", a, z, cost)
        if math.isinf(conjugate):
            assert gap == math.inf
            continue
        scale = max(1.0, abs(value), abs(conjugate), abs(a * z))
        assert value + conjugate + a * z >= -1e-14 * scale
        assert gap >= 0
        assert gap == pytest.approx(value + conjugate + a * z, abs=1e-14 * scale)
    for z in MARGINS:
        a = -loss.evaluate("slope", z, cost)
        scale = max(1.0, loss.evaluate("value", z, cost), abs(a * z))
        assert loss.evaluate("gap", a, z, cost) <= 1e-14 * scale
        assert loss.evaluate("violation", a, z, cost) == pytest.approx(0, abs=1e-13 * max(1, abs(z)))


def test_gap_does_not_hide_a_nan(loss):
    assert math.isnan(loss.evaluate("gap", math.nan, 1.0, 1.0))


def dual_objective(loss, a, margin_without, h, cost):
    return 0.5 * h * a * a + margin_without * a + loss.evaluate("conjugate", a, cost)


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("h", [0.0, 1e-8, 0.3, 25.0])
def test_dual_argmin_by_brute_force(loss, h, cost):
    for b in MARGINS:
        found = loss.evaluate("dual_argmin", b, h, cost)
        assert math.isfinite(found)
        best = dual_objective(loss, found, b, h, cost)
        assert math.isfinite(best)
        width = 1.0 + 2 * abs(found)
        for a in [*np.linspace(-width, width, 201), *(found + d for d in (-1e-3, -1e-5, 1e-5, 1e-3)), 0.0]:
            other = dual_objective(loss, a, b, h, cost)
            assert best <= other + 1e-13 * max(1.0, abs(best)), (b, h, cost, found, a)


@pytest.mark.parametrize("h", [0.0, 0.3, 25.0])
def test_dual_argmin_leaves_no_violation(loss, h):
    for b, cost in itertools.product(MARGINS, COSTS):
        a = loss.evaluate("dual_argmin", b, h, cost)
        assert loss.evaluate("violation", a, b + h * a, cost) <= 1e-13 * max(1.0, abs(b))


@pytest.mark.parametrize("cost", [0.05, 1.0, 37.5])
def test_violation_is_the_distance_from_the_subdifferential(loss, cost):
    """The subdifferential at a is [left, right] with the one-sided derivatives of margin a + conjugate(a)."""
    step = 1e-7
    for z, a in itertools.product(MARGINS, [-2.0, -0.1, 0.0, 0.1, 2.0]):
        if a < 0 and loss.nu == 0:
            continue  # not in the domain

        def objective(a, z=z):
            return z * a + loss.evaluate("conjugate", a, cost)

        right = (objective(a + step) - objective(a)) / step
        below = objective(a - step)
        left = (objective(a) - below) / step if math.isfinite(below) else -math.inf
        distance = max(0.0, left, -right)
        side = cost if a > 0 or loss.nu == 0 else loss.nu * cost
        assert loss.evaluate("violation", a, z, cost) == pytest.approx(
            distance, abs=1e-5 * max(1.0, 1 / side, abs(z), abs(a) / side)
        )


@pytest.mark.parametrize("cost", [0.05, 1.0, 37.5])
@pytest.mark.parametrize("dual", [-3.0, -0.2, 1e-3, 0.7, 12.0])
def test_the_conjugate_is_a_parabola_on_each_side_of_zero(loss, cost, dual):
    if math.isinf(loss.evaluate("conjugate", dual, cost)):
        return
    low, high, curvature = loss.piece_at(dual, 0.0, cost)
    assert (low, high) == ((0, math.inf) if dual > 0 else (-math.inf, 0))
    slope = loss.evaluate("conjugate_slope", dual, cost)
    for other in (0.0, 0.3 * dual, 7.0 * dual):
        expected = loss.evaluate("conjugate", dual, cost) + (other - dual) * (
            slope + 0.5 * curvature * (other - dual)
        )
        close = 1e-12 * max(1.0, curvature * (other - dual) ** 2)
        assert loss.evaluate("conjugate", other, cost) == pytest.approx(expected, abs=close)


def test_the_conjugate_has_no_piece_where_it_is_infinite():
    assert BandLoss(0.2, 0.0).piece_at(0.0, -1.0, 1.0) == (0, 0, 0)
    assert BandLoss(0.2, 0.5).piece_at(0.0, -1.0, 1.0) == (-math.inf, 0, 1)
    assert BandLoss(0.2, 0.5).piece_at(0.0, 1.0, 1.0) == (0, math.inf, 0.5)
    assert BandLoss(0.2, 0.5).piece_at(0.0, 1.0, 0.0) == (0, 0, 0)


def test_violation_of_a_row_without_cost(loss):
    for z in MARGINS:
        assert loss.evaluate("violation", 0.0, z, 0.0) == 0


def test_pickle_keeps_the_parameters():
    copy = pickle.loads(pickle.dumps(BandLoss(0.3, 0.7, 0.0)))
    assert (copy.theta, copy.nu, copy.centre) == (0.3, 0.7, 0.0)
    assert copy.evaluate("value", 0.0, 2.0) == BandLoss(0.3, 0.7, 0.0).evaluate("value", 0.0, 2.0)


def test_unknown_method_is_refused():
    with pytest.raises(ValueError, match="no such method"):
        BandLoss(0.0, 0.0).evaluate("hinge", 0.0, 1.0)


def test_the_base_loss_is_zero():
    nothing = MarginLoss()
    assert nothing.evaluate("value", -3.0, 1.0) == nothing.evaluate("slope", -3.0, 1.0) == 0
    assert nothing.evaluate("conjugate", 0.0, 1.0) == 0
    assert nothing.evaluate("conjugate", 0.1, 1.0) == math.inf
