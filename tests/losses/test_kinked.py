"""The losses with a kink (hinge, mean and variance): every scalar against its definition by brute force."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest

from odmlib.losses.loss import BandLoss, HingeLoss, MeanVarianceLoss

COSTS = [0.0, 1e-3, 1.0, 37.5]
MARGINS = np.array([-12.0, -1.5, -0.01, 0.0, 0.05, 0.4, 0.81, 1.0, 1.19, 1.25, 1.7, 4.0, 30.0])
# variance, mean, hinge, centre
SETTINGS = [
    (0.0, 0.0, 1.0, 1.0),
    (0.5, 0.0, 0.0, 0.3),
    (0.5, 0.25, 0.0, 2.0),
    (0.5, 0.25, 2.0, 0.3),
    (3.0, 0.0, 0.1, 1.7),
    (1e-4, 0.1, 1.0, 0.9),
    (0.0, 0.7, 0.0, 1.0),
    (0.0, 0.3, 1.1, 5.0),
]
LOSSES = [HingeLoss()] + [MeanVarianceLoss(*setting) for setting in SETTINGS]


def name(loss):
    if isinstance(loss, HingeLoss):
        return "hinge"
    return f"v={loss.variance},u={loss.mean},h={loss.hinge},g={loss.centre}"


@pytest.fixture(params=LOSSES, ids=name)
def loss(request):
    return request.param


def terms(loss):
    if isinstance(loss, HingeLoss):
        return 0.0, 0.0, 1.0, 0.0
    return loss.variance, loss.mean, loss.hinge, loss.centre


def formula(loss, z, cost):
    v, u, h, g = terms(loss)
    return cost * (v * (z - g) ** 2 - u * z + h * np.maximum(0, 1 - z))


def duals_of_interest(loss, cost):
    """Inside, at and outside the ends of the conjugate's pieces."""
    v, u, h, g = terms(loss)
    low, high = cost * (u + 2 * v * (g - 1)), cost * (u + h + 2 * v * (g - 1))
    return [low, high, 0.5 * (low + high), low - 0.7 * cost, high + 1.3 * cost, low - 1e-3, high + 1e-3]


@pytest.mark.parametrize("cost", COSTS)
def test_value_is_the_formula(loss, cost):
    for z in MARGINS:
        expected = formula(loss, z, cost)
        assert loss.evaluate("value", z, cost) == pytest.approx(expected, rel=1e-13, abs=1e-14)


@pytest.mark.parametrize("cost", COSTS)
def test_slope_and_curvature_are_derivatives_away_from_the_kink(loss, cost):
    h = 1e-4
    for z in MARGINS[MARGINS != 1]:
        ahead, here, behind = (formula(loss, x, cost) for x in (z + h, z, z - h))
        scale = max(1.0, abs(here))
        assert loss.evaluate("slope", z, cost) == pytest.approx((ahead - behind) / (2 * h), abs=1e-9 * scale)
        assert loss.evaluate("curvature", z, cost) == pytest.approx(
            (ahead - 2 * here + behind) / h**2, rel=1e-5, abs=1e-5 * scale
        )


def test_slope_at_the_kink_is_a_subgradient(loss):
    v, u, h, g = terms(loss)
    right = 2 * v * (1 - g) - u
    assert right - h <= loss.evaluate("slope", 1.0, 1.0) <= right


def grid_supremum(loss, dual, cost):
    """sup of -dual z - value(z): on a parabola's vertex, at the kink, or at the far end of a long grid."""
    v, u, h, g = terms(loss)
    grid = [1.0, -1e6, 1e6]
    if v * cost > 0:
        grid += [g + (u - dual / cost) / (2 * v), g + (u + h - dual / cost) / (2 * v)]
    grid = np.concatenate([grid, np.arange(-200, 200, 0.125)])
    return np.max(-dual * grid - formula(loss, grid, cost))


@pytest.mark.parametrize("cost", [0.05, 1.0, 37.5])
def test_conjugate_is_the_supremum(loss, cost):
    for dual in duals_of_interest(loss, cost):
        supremum, conjugate = grid_supremum(loss, dual, cost), loss.evaluate("conjugate", dual, cost)
        if math.isinf(conjugate):
            assert supremum > 1e2  # grows with the grid
        else:
            assert conjugate == pytest.approx(supremum, rel=1e-9, abs=1e-9 * max(1, abs(dual)))


@pytest.mark.parametrize("cost", COSTS)
def test_gap_is_the_sum_of_its_three_terms(loss, cost):
    for z, dual in itertools.product(MARGINS, [*duals_of_interest(loss, cost), 0.0, 2.0, -3.0]):
        value, conjugate = loss.evaluate("value", z, cost), loss.evaluate("conjugate", dual, cost)
        gap = loss.evaluate("gap", dual, z, cost)
        if math.isinf(conjugate):
            assert gap == math.inf
            continue
        scale = max(1.0, abs(value), abs(conjugate), abs(dual * z))
        assert gap >= 0
        assert gap == pytest.approx(value + conjugate + dual * z, abs=1e-12 * scale)
    for z in MARGINS:
        dual = -loss.evaluate("slope", z, cost)
        scale = max(1.0, abs(dual))
        assert loss.evaluate("gap", dual, z, cost) <= 1e-12 * scale * max(1, z * z)
        assert loss.evaluate("violation", dual, z, cost) <= 1e-10 * max(1.0, abs(z))


def test_gap_does_not_hide_a_nan(loss):
    assert math.isnan(loss.evaluate("gap", math.nan, 1.0, 1.0))
    assert math.isnan(loss.evaluate("gap", 0.4, math.nan, 1.0)) or terms(loss)[0] == 0


def objective(loss, a, b, h, cost):
    return 0.5 * h * a * a + b * a + loss.evaluate("conjugate", a, cost)


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("h", [0.0, 1e-8, 0.3, 25.0])
def test_dual_argmin_by_brute_force(loss, h, cost):
    for b in MARGINS:
        found = loss.evaluate("dual_argmin", b, h, cost)
        best = objective(loss, found, b, h, cost)
        assert math.isfinite(best)
        assert loss.evaluate("violation", found, b + h * found, cost) <= 1e-9 * max(1.0, abs(b))
        width = 1.0 + 2 * abs(found)
        near = [found + d for d in (-1e-3, -1e-5, 1e-5, 1e-3)]
        for a in [*np.linspace(-width, width, 101), *near, *duals_of_interest(loss, cost), 0.0]:
            other = objective(loss, a, b, h, cost)
            assert best <= other + 1e-12 * max(1.0, abs(best), abs(a * b)), (b, h, cost, found, a)


@pytest.mark.parametrize("cost", [0.05, 1.0, 37.5])
def test_violation_slope_and_curvature_of_the_conjugate(loss, cost):
    """Violation: distance of 0 from [left, right], the one-sided derivatives of margin a + conjugate(a)."""
    low, high = domain(loss, cost)
    step = 1e-6 * cost
    for a in duals_of_interest(loss, cost):
        if not low <= a <= high:
            assert loss.evaluate("conjugate", a, cost) == math.inf
            continue
        here, ahead, behind = (loss.evaluate("conjugate", x, cost) for x in (a, a + step, a - step))
        right = (ahead - here) / step if a + step <= high else math.inf
        left = (here - behind) / step if a - step >= low else -math.inf
        close = 1e-5 + 1e-6 / max(terms(loss)[0], 1e-4)  # half a step times the curvature, and rounding
        for z in MARGINS:
            distance = max(0.0, z + left, -z - right)
            assert loss.evaluate("violation", a, z, cost) == pytest.approx(distance, abs=close)
        if math.isfinite(left) and math.isfinite(right):
            slope = loss.evaluate("conjugate_slope", a, cost)
            assert slope == pytest.approx((left + right) / 2, abs=close)


def domain(loss, cost):
    """Where the conjugate is finite."""
    if terms(loss)[0] * cost > 0:
        return -math.inf, math.inf
    return loss.piece_at(0.0, 1.0, cost)[:2]


@pytest.mark.parametrize("cost", [0.05, 1.0, 37.5])
def test_pieces_of_the_conjugate(loss, cost):
    """On each piece the conjugate is a parabola of that curvature; where two meet, `direction` chooses."""
    for a in duals_of_interest(loss, cost):
        if math.isinf(loss.evaluate("conjugate", a, cost)):
            continue
        below, above = loss.piece_at(a, -1.0, cost), loss.piece_at(a, 1.0, cost)
        assert below[0] <= a <= below[1] and above[0] <= a <= above[1]
        assert below == above or terms(loss)[2] == 0 or a in (below[1], above[0])
        for low, high, curvature in (below, above):
            low, high = max(low, a - cost), min(high, a + cost)
            slope = loss.evaluate("conjugate_slope", a, cost)
            for other in (low, high, 0.3 * low + 0.7 * high):
                expected = loss.evaluate("conjugate", a, cost) + (other - a) * (
                    slope + 0.5 * curvature * (other - a)
                )
                close = 1e-9 * max(1.0, cost, abs(expected), curvature * cost**2)
                assert loss.evaluate("conjugate", other, cost) == pytest.approx(expected, abs=close)


def test_a_row_without_cost(loss):
    assert loss.evaluate("conjugate", 0.0, 0.0) == 0
    assert loss.evaluate("conjugate", 0.5, 0.0) == loss.evaluate("conjugate", -0.5, 0.0) == math.inf
    assert domain(loss, 0.0) == (0, 0)
    for z in MARGINS:
        assert loss.evaluate("violation", 0.0, z, 0.0) == loss.evaluate("gap", 0.0, z, 0.0) == 0
        assert loss.evaluate("dual_argmin", z, 0.7, 0.0) == 0


def test_hinge_is_the_special_case():
    special, hinge = MeanVarianceLoss(0.0, 0.0, 1.0), HingeLoss()
    for what, first, cost in itertools.product(("value", "slope", "conjugate"), MARGINS, COSTS):
        assert special.evaluate(what, first, cost) == pytest.approx(hinge.evaluate(what, first, cost))


def test_only_the_band_is_smooth():
    assert BandLoss(0.1, 0.5).smooth
    assert not HingeLoss().smooth and not MeanVarianceLoss(1.0, 1.0, 1.0).smooth


def test_pickle(loss):
    copy = pickle.loads(pickle.dumps(loss))
    assert type(copy) is type(loss) and terms(copy) == terms(loss)
    assert copy.evaluate("value", -0.5, 2.0) == loss.evaluate("value", -0.5, 2.0)
