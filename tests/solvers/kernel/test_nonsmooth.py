"""SVM and ODM^L by the working set, against quadratic programmes and the paper's inverse."""

from __future__ import annotations

import numpy as np
import pytest

from odmlib.data.dataset import Dataset
from odmlib.errors import ParameterError
from odmlib.kernels.cache import RowCache
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import BandLoss, HingeLoss, MeanVarianceLoss
from odmlib.losses.sums import value_and_gap
from odmlib.solvers.control import Control
from odmlib.solvers.margin_mean import MovingMean, first_duals
from odmlib.solvers.problem import best_multiple
from tests.reference_hinge import box_programme, paper_form
from tests.solvers.kernel.test_working_set import (
    MEGABYTE,
    by_working_set,
    noisy_circles,
    precomputed,
    random_problem,
)


def solve_svm(kernel, y, costs, tol=1e-10, **options):
    costs = np.broadcast_to(np.asarray(costs, dtype=float), y.shape).copy()
    return by_working_set(kernel, y, costs, HingeLoss(), Control(tol), **options)


def solve_odml(kernel, y, lambda1, lambda2, C, tol=1e-10, weights=None, total=None, **options):
    costs = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    total = costs.sum() if total is None else total
    loss = MeanVarianceLoss(lambda1 / total, lambda2 / total, C)
    return by_working_set(
        kernel,
        y,
        costs,
        loss,
        Control(tol),
        start=first_duals(loss, costs),
        margin_mean=MovingMean.of(loss, costs),
        **options,
    )


@pytest.mark.parametrize("block_rows", [4, 16, 512])
@pytest.mark.parametrize("C", [2.0**-5, 1.0, 30.0, 2.0**10])
def test_svm_is_the_quadratic_programme(C, block_rows):
    K, y = random_problem(1, m=40)
    costs = C * np.random.default_rng(2).integers(0, 4, 40)
    Q = K * y[:, None] * y
    expected = box_programme(Q, -np.ones(40), costs)
    value = 0.5 * expected @ Q @ expected + costs @ np.maximum(0, 1 - Q @ expected)
    result = solve_svm(precomputed(K), y, costs, block_rows=block_rows)
    assert result.status == "converged"
    assert result.primal == pytest.approx(value, rel=1e-9)
    assert result.dual == pytest.approx(expected.sum() - 0.5 * expected @ Q @ expected, rel=1e-8)
    assert (result.duals >= 0).all() and (result.duals <= costs).all()
    assert result.margins == pytest.approx(Q @ result.duals, abs=1e-9 * max(1, result.duals.sum()))
    assert result.margins == pytest.approx(Q @ expected, abs=1e-4)


@pytest.mark.parametrize(
    ("lambda1", "lambda2"), [(1, 1), (0, 0), (0, 2), (30, 0), (40, 8), (1e3, 1), (0.01, 50)]
)
@pytest.mark.parametrize("C", [0.01, 1.0, 20.0])
def test_odml_is_the_papers_solution(lambda1, lambda2, C):
    K, y = random_problem(3, m=40)
    z, _, value = paper_form(K, y, lambda1, lambda2, C)
    result = solve_odml(precomputed(K), y, lambda1, lambda2, C, tol=1e-12)
    assert result.status == "converged"
    assert abs(result.primal - value) <= 1e-8 * max(1, abs(value))
    assert result.margins == pytest.approx(z, abs=1e-4)
    if lambda1:
        assert result.details["centre"] == pytest.approx(z.mean(), abs=1e-4)


def test_odml_with_weights_is_the_papers_solution():
    K, y = random_problem(4, m=30)
    weights = np.random.default_rng(5).integers(0, 4, 30).astype(float)
    _, _, value = paper_form(K, y, 5.0, 3.0, 1.0, weights, total=17.0)
    result = solve_odml(precomputed(K), y, 5.0, 3.0, 1.0, tol=1e-12, weights=weights, total=17.0)
    assert result.primal == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_the_joint_gap_encloses_the_optimum(tol):
    for seed in range(4):
        K, y = random_problem(seed, m=50)
        lambda1, lambda2, C = [(20, 5, 1), (1, 1, 10), (500, 0, 0.1), (5, 50, 0.5)][seed]
        _, _, value = paper_form(K, y, lambda1, lambda2, C)
        result = solve_odml(precomputed(K), y, lambda1, lambda2, C, tol=tol)
        scale = max(1.0, abs(value))
        assert result.status == "converged"
        assert result.dual - 1e-9 * scale <= value <= result.primal + 1e-9 * scale
        assert result.gap <= tol


def test_no_variance_and_no_hinge_is_the_average_margin_classifier():
    K, y = random_problem(7)
    result = solve_odml(precomputed(K), y, 0.0, 3.0, 0.0)
    assert result.status == "converged" and result.gap < 1e-12  # rounding is all that is left
    assert result.duals == pytest.approx(np.full(len(y), 3.0 / len(y)))


def test_no_mean_and_no_variance_is_the_svm():
    K, y = random_problem(8)
    first = solve_odml(precomputed(K), y, 0.0, 0.0, 2.0)
    second = solve_svm(precomputed(K), y, 2.0)
    assert first.primal == pytest.approx(second.primal, rel=1e-9)
    assert first.margins == pytest.approx(second.margins, abs=1e-4)


@pytest.mark.parametrize("lambda2", [0.3, 0.9999, 1.0, 2.5])
@pytest.mark.parametrize("lambda1", [0.0, 1.0])
def test_oracle_of_one_row(lambda1, lambda2):
    for C in (0.2, 1.0, 3.0):
        expected = lambda2 if lambda2 >= 1 else 1.0 if lambda2 + C >= 1 else lambda2 + C
        result = solve_odml(precomputed([[1.0]]), np.ones(1), lambda1, lambda2, C)
        assert result.duals[0] == pytest.approx(expected, abs=1e-6)


def test_permuted_flipped_and_doubled_problems_agree():
    K, y = random_problem(9)
    order = np.random.default_rng(5).permutation(len(y))
    pairs = ((solve_svm, (2.0,), (1.0,)), (solve_odml, (10.0, 4.0, 1.0), (10.0, 4.0, 0.5)))
    for solve, arguments, halved in pairs:
        first = solve(precomputed(K), y, *arguments)
        shuffled = solve(precomputed(K[np.ix_(order, order)]), y[order], *arguments)
        assert shuffled.margins == pytest.approx(first.margins[order], abs=1e-4)
        flipped = solve(precomputed(K), -y, *arguments)
        assert flipped.duals == pytest.approx(first.duals, abs=1e-4)
        doubled = solve(precomputed(np.tile(K, (2, 2))), np.tile(y, 2), *halved)
        assert doubled.margins == pytest.approx(np.tile(first.margins, 2), abs=1e-4)
        assert doubled.primal == pytest.approx(first.primal, rel=1e-8)


def test_dependent_rows_do_not_stop_the_newton_steps():
    """A linear kernel of two columns: 80 rows, and any three of them are dependent."""
    rng = np.random.default_rng(10)
    X = rng.integers(-3, 4, (80, 2)).astype(float)
    y = np.where(X[:, 0] + rng.standard_normal(80) > 0, 1.0, -1.0)
    K = X @ X.T
    for C in (1.0, 100.0):
        expected = box_programme(K * y[:, None] * y, -np.ones(80), np.full(80, C))
        result = solve_svm(precomputed(K), y, C, tol=1e-8)
        assert result.status == "converged"
        assert result.dual == pytest.approx(
            expected.sum() - 0.5 * expected @ (K * y[:, None] * y) @ expected, rel=1e-6
        )


def test_same_bytes_for_every_thread_count():
    X, y = noisy_circles(12, 1200)
    for solve, arguments in ((solve_svm, (5.0,)), (solve_odml, (50.0, 10.0, 1.0))):
        results = [
            solve(
                Kernel(KernelFormula("rbf", gamma=0.5), Dataset.from_any(X), threads=t),
                y,
                *arguments,
                tol=1e-3,
                threads=t,
            )
            for t in (1, 3)
        ]
        assert results[0].duals.tobytes() == results[1].duals.tobytes()


def frozen_cache(kernel, float64=False):
    cache = RowCache(kernel, 100 * MEGABYTE, float64)
    cache.fill(np.arange(kernel.n_rows))
    cache.freeze()
    return cache


@pytest.mark.parametrize("loss", [HingeLoss(), BandLoss(0.2, 0.5)], ids=["svm", "odm"])
def test_the_best_multiple_of_another_solution(loss):
    K, y = random_problem(3, m=50)
    costs = np.ones(50)
    last = by_working_set(precomputed(K), y, costs, loss, Control(1e-8))

    def dual_value(t):
        losses, gap = value_and_gap(loss, t * last.duals, np.zeros(50), 4 * costs)
        return -0.5 * t * t * float(last.duals @ last.margins) - (gap - losses)

    t = best_multiple(loss, 4 * costs, last.duals, float(last.duals @ last.margins))
    values = [dual_value(s * t) for s in (0.8, 0.99, 1 - 1e-12, 1.01, 1.2)]
    assert t > 0 and max(values) == values[2]
    assert best_multiple(loss, costs, np.zeros(50), 0.0) == 0.0


@pytest.mark.parametrize("loss", [HingeLoss(), BandLoss(0.2, 0.5)], ids=["svm", "odm"])
def test_a_start_with_known_scores_is_the_same_start(loss):
    K, y = random_problem(4, m=300)
    kernel = precomputed(K)
    costs, start = np.full(300, 5.0), np.random.default_rng(0).random(300)
    results = [
        by_working_set(
            kernel,
            y,
            costs,
            loss,
            Control(1e-10),
            cache_bytes=0,
            cache=frozen_cache(kernel, float64=True),
            start=start,
            **known,
        )
        for known in ({}, {"start_scores": K @ (y * start)})
    ]
    assert results[0].status == results[1].status == "converged"
    assert results[0].primal == pytest.approx(results[1].primal, rel=1e-9)
    plain = by_working_set(kernel, y, costs, loss, Control(1e-10))
    assert plain.primal == pytest.approx(results[0].primal, rel=1e-9)
    with pytest.raises(ParameterError, match="start_scores must hold one number for each"):
        by_working_set(kernel, y, costs, loss, Control(), start=start, start_scores=np.zeros(3))


def test_a_shared_cache_may_be_more_exact_than_needed():
    K, y = random_problem(5, m=100)
    kernel = precomputed(K)
    cache = frozen_cache(kernel, float64=True)
    result = solve_svm(kernel, y, 1.0, cache=cache, cache_bytes=0)
    assert result.details["float64"] and result.status == "converged"
    odml = solve_odml(kernel, y, 3.0, 2.0, 1.0, cache=cache)
    assert odml.primal == pytest.approx(solve_odml(kernel, y, 3.0, 2.0, 1.0).primal, rel=1e-8)


@pytest.mark.parametrize("float64", [False, True])
@pytest.mark.parametrize("C", [8.0, 2048.0, 2.0**15])
def test_a_kernel_of_hardly_any_rank_takes_few_blocks(float64, C):
    """gamma so small that all rows but a few dozen depend on the others; float32 rounds the rest away."""
    X, y = noisy_circles(13, 700)
    kernel = Kernel(KernelFormula("rbf", gamma=2.0**-9), Dataset.from_any(X))
    result = solve_svm(kernel, y, C, tol=1e-3, cache=frozen_cache(kernel, float64), cache_bytes=50 * MEGABYTE)
    assert result.status == "converged"
    assert result.iterations < 60  # thousands with blocks that are left half solved
    Q = kernel.block(range(700), wide=True) * y[:, None] * y
    a = result.duals
    primal = 0.5 * a @ Q @ a + C * np.maximum(0, 1 - Q @ a).sum()
    assert primal - (a.sum() - 0.5 * a @ Q @ a) <= 2e-3 * primal


def test_blocks_grow_where_most_rows_have_a_dual():
    X, y = noisy_circles(14, 600)
    kernel = Kernel(KernelFormula("rbf", gamma=1.0), Dataset.from_any(X))
    noise = np.where(np.random.default_rng(14).random(600) < 0.5, 1.0, -1.0)
    result = solve_svm(kernel, noise, 2.0**10, tol=1e-6, cache=frozen_cache(kernel, True), cache_bytes=0)
    assert result.status == "converged" and result.details["block_rows"] == 512
    apart = Kernel(KernelFormula("rbf", gamma=0.1), Dataset.from_any(X + 5 * y[:, None]))
    for cache in (frozen_cache(apart, True), None):
        easy = solve_svm(apart, y, 1.0, tol=1e-6, cache=cache)
        assert easy.status == "converged" and easy.details["block_rows"] == 128
    assert easy.details["cache_misses"] < 400  # the kernel rows of most rows were never wanted
