"""The line search on convex functions with known minima."""

from __future__ import annotations

import math

import pytest

from odmlib.solvers.linalg.line_search import line_search


def pieces(kinks):
    """phi(t) = sum of max(0, t - kink)^2 / 2 - t: slopes and curvatures that change at the kinks."""
    return lambda t: (sum(max(0.0, t - k) for k in kinks) - 1.0, float(sum(t > k for k in kinks)))


@pytest.mark.parametrize("kinks", [[0.0], [0.0, 0.1, 0.2], [-0.5, 3.0], [0.9, 0.95], [100.0]])
@pytest.mark.parametrize("curved", [True, False])
def test_the_slope_there_is_near_zero(kinks, curved):
    derivatives = pieces(kinks)
    at_zero = derivatives(0.0)[0]
    assert at_zero < 0
    known = derivatives if curved else lambda t: (derivatives(t)[0], math.nan)
    t = line_search(at_zero, known)
    assert t > 0
    assert abs(derivatives(t)[0]) <= 0.1 * -at_zero


def test_the_whole_step_is_tried_first():
    tried = []

    def derivatives(t):
        tried.append(t)
        return t - 1.0, 1.0

    assert line_search(-1.0, derivatives) == 1.0
    assert tried == [1.0]


def test_accuracy_and_steps_are_the_callers():
    derivatives = pieces([0.0, 0.0, 0.0])
    rough = line_search(-1.0, derivatives, accuracy=0.5)
    fine = line_search(-1.0, derivatives, accuracy=1e-12)
    assert abs(derivatives(fine)[0]) <= 1e-12 and abs(derivatives(rough)[0]) <= 0.5
    assert line_search(-1.0, lambda t: (1.0, math.nan), max_steps=3) == 0.0  # no point falls enough: stay


def test_no_further_than_the_longest_step():
    assert line_search(-7.0, lambda t: (t - 7.0, math.nan), longest=1.0) == 1.0
    assert line_search(-0.5, lambda t: (t - 0.5, math.nan), longest=1.0) == 0.5
