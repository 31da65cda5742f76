"""Shrinking: what is said of all rows is true of all rows, whatever was left out on the way."""

import itertools
import math

import numpy as np
import pytest

from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from tests.solvers.kernel.test_nonsmooth import solve_svm
from tests.solvers.kernel.test_working_set import check_certificate, noisy_circles, solve


def circles(seed, m):
    X, y = noisy_circles(seed, m)
    return Kernel(KernelFormula("rbf", gamma=0.5), Dataset.from_any(X)), y


def test_shrinking_reaches_the_same_optimum():
    kernel, y = circles(15, 1500)
    K = kernel.block(range(1500), wide=True)
    reports = []
    options = {"theta": 0.5, "nu": 0.5, "tol": 1e-7, "cache_bytes": 200 * 1500 * 4}
    options |= {"block_rows": 64, "quiet_iterations": 10}
    shrunk = solve(kernel, y, 20.0, callback=reports.append, **options)
    plain = solve(kernel, y, 20.0, shrinking=False, **options)
    assert shrunk.details["shrinkings"] >= 1
    assert plain.details["shrinkings"] == 0
    assert shrunk.status == plain.status == "converged"
    assert shrunk.primal == pytest.approx(plain.primal, rel=2e-7)
    assert any(report.gap == np.inf for report in reports)  # not known while rows are left out
    assert reports[-1].gap == pytest.approx(shrunk.gap, rel=0.05)  # the result's includes rounding
    assert shrunk.gap <= 1e-7
    check_certificate(shrunk, K, y, 0.5, 0.5, 20.0, rel=1e-8)
    for how in ({"max_iter": shrunk.iterations // 2}, {"threads": 2}):
        other = solve(kernel, y, 20.0, **options, **how)
        check_certificate(other, K, y, 0.5, 0.5, 20.0, rel=1e-8)
        if "threads" in how:
            assert other.duals.tobytes() == shrunk.duals.tobytes()
        else:
            assert other.status == "max_iter"


def test_rows_left_out_wrongly_are_found_again():
    """Rows are left out after one iteration without a gain: some of them belong to the solution."""
    kernel, y = circles(16, 600)
    gaps = []
    result = solve(
        kernel,
        y,
        5.0,
        tol=1e-8,
        cache_bytes=50 * 600 * 4,
        block_rows=32,
        quiet_iterations=1,
        shrink_from=0.0,
        callback=lambda progress: gaps.append(progress.gap),
    )
    assert result.status == "converged"
    assert result.details["shrinkings"] >= 1
    back = [now for before, now in itertools.pairwise(gaps) if before == math.inf > now]
    assert max(back) > 1e-8  # the rows at work were done, all rows were not
    check_certificate(result, kernel.block(range(600), wide=True), y, 0.2, 0.5, 5.0)


def test_rows_at_both_bounds_are_left_out():
    kernel, y = circles(11, 1500)
    options = {"tol": 1e-7, "cache_bytes": 400 * 4 * 1500, "block_rows": 32, "quiet_iterations": 4}
    plain = solve_svm(kernel, y, 1.0, shrinking=False, **options)
    shrunk = solve_svm(kernel, y, 1.0, shrinking=True, **options)
    assert shrunk.details["shrinkings"] > 0
    assert plain.status == shrunk.status == "converged"
    assert shrunk.primal == pytest.approx(plain.primal, rel=1e-6)
    # what it says of itself holds for all rows
    Q = kernel.block(range(1500)).astype(float) * y[:, None] * y
    assert shrunk.margins == pytest.approx(Q @ shrunk.duals, abs=1e-3)
    primal = 0.5 * shrunk.duals @ Q @ shrunk.duals + np.maximum(0, 1 - Q @ shrunk.duals).sum()
    assert shrunk.primal == pytest.approx(primal, rel=1e-5)
