"""All linear engines on the same problems: oracles, invariants, degenerate data, certificates."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib.solvers.linear.auto import LinearTuning
from odmlib.solvers.linear.newton import NewtonTuning
from tests.reference_linear import random_problem
from tests.solvers.linear.linear_case import ENGINES, Case, check_result

FAST = ["newton", "dcd", "blocks", "auto"]  # svrg is not meant for hard problems


@pytest.fixture(params=list(ENGINES))
def engine(request):
    return request.param


@pytest.fixture(params=FAST)
def fast_engine(request):
    return request.param


def test_one_row(engine):
    """By hand: w = 2/3, P = 1/3."""
    result = Case([[1.0]], [1.0], C=1.0, theta=0.0, bias=0.0).solve(engine, 1e-16)
    assert result.weights == pytest.approx([2 / 3], abs=1e-8)
    assert result.primal == pytest.approx(1 / 3, abs=1e-12)


def test_two_rows(engine):
    """By hand: lambda = 1 for two rows is C = 1/2; w = 4/11, a = (7/11, -1/11)."""
    case = Case([[1.0], [3.0]], [1.0, 1.0], C=0.5, nu=1.0, theta=0.0, bias=0.0)
    result = case.solve(engine, 1e-16)
    assert result.weights == pytest.approx([4 / 11], abs=1e-8)
    assert case.reference.duals(result.weights) == pytest.approx([7 / 11, -1 / 11], abs=1e-8)
    if result.duals is not None:
        assert result.duals == pytest.approx([7 / 11, -1 / 11], abs=1e-8)


@pytest.mark.parametrize(("nu", "theta"), [(0.5, 0.2), (0.0, 0.0), (1.0, 0.5), (0.3, 0.9), (0.0, 0.4)])
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_reaches_the_reference_optimum(engine, nu, theta, bias):
    C = 1.0 if engine in ("newton", "auto") else 0.05 * (1 - theta)  # what the others are good for
    case = Case(*random_problem(seed=1), C=C, nu=nu, theta=theta, bias=bias)
    result = case.solve(engine, 1e-12)
    w, best = case.optimum()
    assert result.status == "converged"
    assert result.primal == pytest.approx(best, rel=1e-10)
    # P is 1-strongly convex: |w - w*|^2 <= 2 (P - P*)
    np.testing.assert_allclose(result.weights, w, atol=3e-6 * max(1.0, np.sqrt(best)))
    check_result(case, result)


@pytest.mark.parametrize("exponent", [-10, -5, 0, 5, 10])
def test_every_C(fast_engine, exponent):
    case = Case(*random_problem(n=40, d=3, seed=2), C=2.0**exponent)
    result = case.solve(fast_engine, 1e-8)
    # one row at a time is hopeless for a large C, but it must say so
    assert result.status == ("max_iter" if fast_engine == "dcd" and exponent == 10 else "converged")
    check_result(case, result)


@pytest.mark.parametrize("tol", [0.5, 1e-1, 1e-3, 1e-6])
def test_the_gap_is_a_true_certificate(engine, tol):
    case = Case(*random_problem(seed=3), C=0.2)
    result = case.solve(engine, tol)
    _, best = case.optimum()
    assert result.status == "converged" and result.gap <= tol
    assert result.primal - best <= tol * abs(result.primal) + 1e-12
    check_result(case, result)


def test_an_unfinished_run_tells_its_true_gap(engine):
    case = Case(*random_problem(n=700, d=8, seed=4), C=8.0)  # more than one block
    result = case.solve(engine, 1e-14, max_iter=1)
    assert result.status == "max_iter" and result.iterations == 1
    check_result(case, result)


# ---- invariants


def weights_of(engine, X, y, **options):
    result = Case(X, y, **options).solve(engine, 1e-13)
    assert result.status == "converged"
    return result.weights


OPTIONS = {"C": 0.1, "nu": 0.5, "theta": 0.2, "bias": 1.0}


def test_permuting_rows_changes_nothing(engine):
    X, y = random_problem(seed=5)
    order = np.random.default_rng(0).permutation(len(y))
    np.testing.assert_allclose(
        weights_of(engine, X[order], y[order], **OPTIONS), weights_of(engine, X, y, **OPTIONS), atol=1e-6
    )


def test_flipping_all_labels_flips_w(engine):
    X, y = random_problem(seed=6)
    np.testing.assert_allclose(
        weights_of(engine, X, -y, **OPTIONS), -weights_of(engine, X, y, **OPTIONS), atol=1e-6
    )


def test_permuting_columns_permutes_w(engine):
    X, y = random_problem(seed=7)
    w = weights_of(engine, X, y, **OPTIONS)
    turned = weights_of(engine, X[:, ::-1], y, **OPTIONS)
    np.testing.assert_allclose(turned, [*w[:-1][::-1], w[-1]], atol=1e-6)


def test_a_doubled_row_is_a_row_of_weight_two(engine):
    X, y = random_problem(n=30, seed=8)
    twice = np.concatenate([np.arange(30), np.arange(10)])
    weights = np.where(np.arange(30) < 10, 2.0, 1.0)
    np.testing.assert_allclose(
        weights_of(engine, X[twice], y[twice], **OPTIONS),
        weights_of(engine, X, y, weights=weights, **OPTIONS),
        atol=1e-6,
    )


def test_rows_of_weight_zero_are_absent(engine):
    X, y = random_problem(n=40, seed=9)
    kept = np.arange(40) % 4 != 0
    np.testing.assert_allclose(
        weights_of(engine, X, y, weights=kept.astype(float), **OPTIONS),
        weights_of(engine, X[kept], y[kept], **OPTIONS),
        atol=1e-6,
    )


# ---- degenerate data


def degenerate():
    rng = np.random.default_rng(0)
    X, y = random_problem(n=20, d=3, seed=10)
    empty = X * (np.arange(20) % 5 != 0)[:, None]
    return {
        "all-zero rows": (empty, y),
        "only zero rows": (np.zeros((4, 2)), np.array([1.0, -1, 1, 1])),
        "no columns": (np.zeros((4, 0)), np.array([1.0, -1, 1, 1])),
        "one row": (X[:1], y[:1]),
        "one class": (X, np.ones(20)),
        "opposite labels on identical rows": (np.repeat(X[:5], 2, axis=0), np.tile([1.0, -1.0], 5)),
        "identical rows": (np.repeat(X[:1], 6, axis=0), np.array([1.0, -1, 1, 1, -1, 1])),
        "constant columns": (np.hstack([X, np.full((20, 2), 3.0)]), y),
        "identical columns": (np.hstack([X, X, X]), y),
        "more columns than rows": (rng.standard_normal((5, 30)), np.array([1.0, -1, 1, -1, 1])),
    }


@pytest.mark.parametrize("name", degenerate())
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_degenerate_data(engine, name, bias):
    X, y = degenerate()[name]
    case = Case(X, y, C=0.02 if engine == "svrg" else 3.0, bias=bias)
    result = case.solve(engine, 1e-10)
    assert result.status == "converged"
    check_result(case, result)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
def test_any_scale_of_the_features(scale):
    """auto must converge without any scaling by the user, at the default tolerance."""
    X, y = random_problem(n=80, d=4, seed=11)
    case = Case(X * scale, y)
    result = case.solve("auto", 1e-3)
    assert result.status == "converged"
    check_result(case, result)


@pytest.mark.parametrize("spread", [1e6, 1e10])
def test_columns_of_very_different_scales(spread):
    """At 1e10 float64 cannot prove the gap, and says so; the solution is as good as -e asks for."""
    X, y = random_problem(n=80, d=4, seed=12)
    case = Case(X * np.array([1.0, spread, 1 / spread, 1.0]), y)
    newton, auto = (case.solve(engine, 1e-6) for engine in ("newton", "auto"))
    assert newton.status == "converged"
    assert auto.status == ("converged" if spread < 1e8 else "stalled")
    assert auto.primal == pytest.approx(newton.primal, rel=1e-6)


def test_a_hessian_that_is_singular_in_floating_point():
    """Identical columns of size 1e9: the identity is lost beside X'X, no factorisation can help."""
    X, y = random_problem(n=50, d=2, seed=13)
    result = Case(np.hstack([X, X]) * 1e9, y, C=100.0).solve("newton", 1e-3)
    assert result.status in ("converged", "stalled")
    assert np.isfinite(result.primal) and np.isfinite(result.gap)


def test_overflow_is_reported_and_not_called_converged(engine):
    X, y = random_problem(n=10, d=2, seed=14)
    with np.errstate(all="ignore"):
        result = Case(X * 1e200, y, C=1e200).solve(engine, 1e-3, time_limit=5.0)
    assert result.status != "converged"


# ---- agreement and determinism


def test_engines_agree():
    case = Case(*random_problem(n=300, d=10, seed=15), C=0.05)
    results = {name: case.solve(name, 1e-12).weights for name in ENGINES}
    for name, weights in results.items():
        np.testing.assert_allclose(weights, results["newton"], atol=2e-6, err_msg=name)


def test_same_seed_same_bytes_for_any_number_of_threads(engine):
    rng = np.random.default_rng(16)
    X, y = random_problem(n=9000, d=20, seed=16)
    X *= rng.random(X.shape) < 0.7
    case = Case(X, y, C=1e-3)
    seed = {} if engine == "newton" else {"seed": 3}
    results = [case.solve(engine, 1e-4, threads=threads, **seed) for threads in (1, 1, 2, 5)]
    assert len({result.weights.tobytes() for result in results}) == 1
    assert len({(result.primal, result.gap, result.iterations) for result in results}) == 1


@pytest.mark.parametrize("engine", ["dcd", "svrg"])
def test_the_seed_matters_only_on_the_way(engine):
    case = Case(*random_problem(seed=17), C=0.05)
    one, other = (case.solve(engine, 1e-13, seed=seed) for seed in (1, 2))
    assert one.weights.tobytes() != other.weights.tobytes()
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-6)


def test_auto_hands_over_to_newton_where_descent_is_slow():
    tuning = LinearTuning(newton=NewtonTuning(explicit=False))
    case = Case(*random_problem(n=300, d=12, seed=18), C=500.0)
    told = []
    result = case.solve(
        "auto", 1e-6, tuning=tuning, callback=lambda progress: told.append(progress.iteration)
    )
    assert (result.status, result.solver) == ("converged", "newton")
    assert told == sorted(told)
    check_result(case, result)
