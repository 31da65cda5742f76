"""KM-OMD's objective, bounds, thresholds and starts, at points that no solver has made."""

import math

import numpy as np
import pytest

from odmlib.solvers.kmomd._geometry import TwoClasses
from odmlib.solvers.kmomd.geometry import KmomdProblem, best_length, start_gamma
from tests.reference_kmomd import objective, quadratic, solve_by_pairs, tight_bound
from tests.solvers.kmomd.test_pairs import random_problem


@pytest.mark.parametrize("lam", [0.9, 0.3, 0.01])
@pytest.mark.parametrize("weighted", [False, True])
def test_bounds_at_any_point(lam, weighted):
    """L* >= D >= 2m - L and L* >= m^2 / L, far from the optimum too."""
    K, y = random_problem(5, m=50)
    rng = np.random.default_rng(6)
    weights = rng.uniform(0.5, 4, 50) if weighted else np.ones(50)
    best = objective(K, y, lam, solve_by_pairs(K, y, lam, weights, violation=1e-10), weights)
    for spread in (0.3, 3.0, 30.0):
        gamma = rng.random(50) ** spread
        for side in (y > 0, y < 0):
            gamma[side] /= gamma[side].sum()
        scores = K @ (y * gamma)
        L, norm_squared, bound, rho = TwoClasses(y, weights).measure(gamma, scores, lam)
        h = quadratic(K, y, lam, weights) @ gamma
        m = h[y > 0].min() + h[y < 0].min()
        D = tight_bound(K, y, lam, gamma, weights)
        assert bound == pytest.approx(max(D, max(m, 0) ** 2 / L), rel=1e-12)
        assert norm_squared == pytest.approx(gamma @ (y * scores))
        assert rho == pytest.approx(((gamma * h)[y > 0].sum(), (gamma * h)[y < 0].sum()))
        assert max(D, max(m, 0) ** 2 / L) <= best * (1 + 1e-12)
        assert 2 * m - L - 1e-12 <= D


def test_the_uniform_point_and_its_thresholds():
    K, y = random_problem(3, m=20, share=0.3)
    weights = np.random.default_rng(4).uniform(0.5, 2, 20)
    problem = KmomdProblem(None, y, weights, 0.25)
    gamma = problem.uniform()
    assert gamma[y > 0] == pytest.approx(weights[y > 0] / weights[y > 0].sum())
    assert gamma[y < 0].sum() == pytest.approx(1)
    point = problem.point(gamma, K @ (y * gamma))
    assert point.objective == pytest.approx(objective(K, y, 0.25, gamma, weights))
    nearest = K @ (gamma * (y > 0)), K @ (gamma * (y < 0))  # products with v_+ and v_-
    v = y * gamma
    assert point.midpoint(y) == pytest.approx(0.5 * (v @ nearest[0] + v @ nearest[1]))
    assert point.kkt() == pytest.approx((point.rho[0] - point.rho[1]) / 1.5)
    # a shift of the kernel's diagonal is no part of what new rows see
    shifted = problem.point(gamma, (K + 3 * np.eye(20)) @ v)
    assert shifted.midpoint(y, 3.0) == pytest.approx(point.midpoint(y))


def test_the_gap_is_relative_to_the_objective():
    problem = KmomdProblem(None, np.array([1.0, -1.0]), np.ones(2), 0.0)
    point = problem.point(np.ones(2), np.array([0.001, -0.001]))
    assert point.objective == pytest.approx(0.002)
    for bound, gap in ((0.001, 0.5), (0.002, 0.0), (0.003, 0.0), (-1.0, 1.0)):
        point.bound = bound
        assert point.gap == pytest.approx(gap)
    point.objective = 0.0
    assert point.gap == 1.0  # a bound of 0 says nothing
    point.objective = math.nan
    assert point.gap == math.inf


@pytest.mark.parametrize("lam", [0.5, 0.05])
def test_the_solution_is_found_again_from_its_margins(lam):
    K, y = random_problem(7, m=40)
    gamma = solve_by_pairs(K, y, lam)
    scores = K @ (y * gamma)
    norm = math.sqrt(gamma @ (y * scores))
    margins = y * scores / norm
    assert best_length(TwoClasses(y, np.ones(40)), margins, lam) == pytest.approx(norm, rel=1e-6)
    assert start_gamma(y, np.ones(40), margins, lam) == pytest.approx(gamma, abs=1e-6)


def test_a_start_is_feasible_whatever_the_margins_and_lambda():
    _, y = random_problem(8, m=30)
    weights = np.arange(30.0)
    for margins in (np.zeros(30), np.random.default_rng(9).standard_normal(30), np.full(30, -5.0)):
        for lam in (0.0, 0.3, 1.0):
            gamma = start_gamma(y, weights, margins, lam)
            assert (gamma >= 0).all() and gamma[0] == 0
            assert gamma[y > 0].sum() == pytest.approx(1)
            assert gamma[y < 0].sum() == pytest.approx(1)


def test_arrays_of_other_lengths_are_refused():
    classes = TwoClasses(np.array([1.0, -1.0]), np.ones(2))
    with pytest.raises(ValueError, match="2 rows, but 3 gamma and 2 scores"):
        classes.measure(np.ones(3), np.ones(2), 0.5)
    with pytest.raises(ValueError, match="2 rows, but 1 scores"):
        classes.spread(np.ones(1), 0.5)
    with pytest.raises(ValueError, match="a sign and a weight"):
        TwoClasses(np.ones(2), np.ones(3))
