"""SmoothedLoss against the loss that it smooths, and its derivatives against differences."""

import numpy as np
import pytest

from odmlib.losses.loss import MeanVarianceLoss, SmoothedLoss


@pytest.mark.parametrize("numbers", [(0.0, 0.0, 1.0), (0.3, 0.2, 1.0)])
@pytest.mark.parametrize("width", [0.01, 0.5, 2.0])
def test_derivatives_and_distance(numbers, width):
    smoothed, exact = SmoothedLoss(*numbers, width, 0.7), MeanVarianceLoss(*numbers, 0.7)
    cost, step = 1.7, 1e-6
    for z in np.linspace(-2, 4, 121) + 1e-4:
        value = smoothed.evaluate("value", z, cost)
        above = value - exact.evaluate("value", z, cost)
        assert -1e-12 <= above <= cost * width / 8 + 1e-12
        if abs(1 - z) > width / 2:
            assert abs(above) < 1e-12
        ends = [smoothed.evaluate("value", z + sign * step, cost) for sign in (-1, 1)]
        assert abs((ends[1] - ends[0]) / (2 * step) - smoothed.evaluate("slope", z, cost)) < 1e-4
        slopes = [smoothed.evaluate("slope", z + sign * step, cost) for sign in (-1, 1)]
        if abs(abs(1 - z) - width / 2) > 2 * step:
            curvature = smoothed.evaluate("curvature", z, cost)
            assert abs((slopes[1] - slopes[0]) / (2 * step) - curvature) < 1e-3 * (1 + curvature)
        assert smoothed.evaluate("expand", z, cost)[0] == value
