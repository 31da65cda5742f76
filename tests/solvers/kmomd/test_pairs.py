"""KM-OMD's kernel solver: oracles and invariants, other programs, and its own certificate."""

import numpy as np
import pytest
from sklearn.svm import SVC

from odmlib.data.dataset import Dataset
from odmlib.kernels.cache import RowCache
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.solvers.control import Control, Resources, WarmStart
from odmlib.solvers.kmomd.geometry import KmomdProblem
from odmlib.solvers.kmomd.pairs import PairsTuning, solve_pairs
from tests.reference_kmomd import objective, quadratic, solve_by_pairs
from tests.turns import Clock

MEGABYTE = 1 << 20
LAMBDAS = (1.0, 0.97, 0.9, 0.5, 0.1, 0.01, 0.001)


def precomputed(matrix):
    return Kernel(KernelFormula("precomputed"), matrix)


def solve(
    kernel,
    y,
    lam,
    weights=None,
    tol=1e-12,
    start=None,
    scores=None,
    control=None,
    cache_bytes=100 * MEGABYTE,
    cache=None,
    threads=1,
    **tuning,
):
    """solve_pairs of plain arguments; `tuning`: fields of PairsTuning."""
    kernel = kernel if isinstance(kernel, Kernel) else precomputed(kernel)
    y = np.asarray(y, dtype=float)
    weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    return solve_pairs(
        KmomdProblem(kernel, y, weights, lam),
        control or Control(tol=tol),
        Resources(threads, cache_bytes, cache),
        WarmStart(duals=start, scores=scores),
        PairsTuning(**tuning),
    )


def random_problem(seed, m=60, d=3, gamma=0.7, noise=0.6, share=0.5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d))
    y = np.where(X[:, 0] + noise * rng.standard_normal(m) > np.quantile(X[:, 0], 1 - share), 1.0, -1.0)
    y[:2] = 1.0, -1.0
    squares = np.square(X).sum(axis=1)
    return np.exp(-gamma * (squares[:, None] + squares - 2 * X @ X.T)), y


def check_certificate(point, K, y, lam, weights=None, rel=1e-9):
    """What the solver says of itself, computed again from its gamma."""
    rel = rel if point.details["float64"] else max(rel, 1e-7)
    gamma, y = point.gamma, np.asarray(y, dtype=float)
    L = objective(K, y, lam, gamma, weights)
    assert gamma.min() >= 0
    assert gamma[y > 0].sum() == pytest.approx(1, abs=1e-12)
    assert gamma[y < 0].sum() == pytest.approx(1, abs=1e-12)
    assert point.scores == pytest.approx(K @ (y * gamma), abs=rel * np.abs(K).max())
    assert point.objective == pytest.approx(L, rel=rel)
    assert sum(point.rho) == pytest.approx(point.objective, rel=rel)  # which includes rounding
    assert point.bound <= L * (1 + rel)
    assert point.gap == pytest.approx(max(0.0, 1 - point.bound / L), abs=rel)


# ----------------------------------------------------------------------------- oracles


def check_oracle(point, y, gamma, L, rho=None, norm_squared=None, midpoint=None, kkt=None, abs_=1e-9):
    assert point.status == "converged"
    assert point.gamma == pytest.approx(gamma, abs=3e-7)
    assert point.objective == pytest.approx(L, abs=abs_)
    expected = {"rho": rho, "norm_squared": norm_squared}
    for name, value in expected.items():
        if value is not None:
            assert getattr(point, name) == pytest.approx(value, abs=3e-7)
    if midpoint is not None:
        assert point.midpoint(np.asarray(y, dtype=float)) == pytest.approx(midpoint, abs=3e-7)
    if kkt is not None:
        assert point.kkt() == pytest.approx(kkt, abs=3e-7)


def test_oracle_1():
    x, y = np.array([1.0, 3.0, -1.0]), [1, 1, -1]
    point = solve(np.outer(x, x), y, 0.9, tol=1e-13)
    check_oracle(
        point, y, [17 / 22, 5 / 22, 1], 459 / 220, (207 / 220, 63 / 55), 729 / 121, 135 / 242, -45 / 44
    )
    assert point.scores == pytest.approx([27 / 11, 81 / 11, -27 / 11])
    check_oracle(solve(np.outer(x, x), y, 0.5), y, [1, 0, 1], 3, (1.5, 1.5), 4, 0, 0)


def test_oracle_2():
    X = np.array([[2.0, 0.0], [1, 2], [3, 1], [0, 0], [-1, 1], [0, -2]])
    K, y = X @ X.T, [1, 1, 1, -1, -1, -1]
    gamma = np.array([10, 9, 0, 17, 2, 0]) / 19
    point = solve(K, y, 0.5, tol=1e-13)
    check_oracle(point, y, gamma, 89 / 38, (36 / 19, 17 / 38), 1217 / 361, 1157 / 722, 55 / 38)
    assert point.scores == pytest.approx(np.array([62, 63, 109, 0, -15, -32]) / 19, abs=1e-6)
    gamma = [0.59793814433, 0.40206185567, 0, 1, 0, 0]
    check_oracle(solve(K, y, 0.05), y, gamma, 3.115979381443, midpoint=1.600010628122, kkt=1.587357569181)
    check_oracle(solve(K, y, 0.0), y, [0.6, 0.4, 0, 1, 0, 0], 3.2, norm_squared=3.2, midpoint=1.6, kkt=1.6)


def test_oracle_3():
    X = np.array([[0.0, 0.0], [1, 1], [0, 1], [1, 0], [2, 0]])
    K = np.exp(-0.5 * np.square(X[:, None] - X).sum(axis=2))
    y = [1, 1, -1, -1, -1]
    gamma = [0.485579198012, 0.514420801988, 0.431309560691, 0.366264477649, 0.202425961659]
    check_oracle(
        solve(K, y, 0.5, tol=1e-13),
        y,
        gamma,
        0.528350259250,
        (0.324627375343, 0.203722883907),
        0.195130724754,
        0.051273469249,
        0.120904491437,
    )
    gamma = [0.493303091525, 0.506696908475, 0.493699304726, 0.463492873193, 0.042807822082]
    check_oracle(
        solve(K, y, 0.1, tol=1e-13), y, gamma, 0.237785051080, midpoint=0.013850162504, kkt=0.016055303646
    )


def test_oracle_4_classes_that_no_plane_separates():
    X = np.array([[0.0, 0.0], [1, 1], [0, 1], [1, 0]])
    assert solve(X @ X.T, [1, 1, -1, -1], 0.0).status == "not separable"
    x = np.array([1.0, 3.0, 2.2, -1.0])
    point = solve(np.outer(x, x), [1, 1, -1, -1], 0.0)
    assert point.status == "not separable"
    assert point.objective <= 1e-12 * 9


def test_overlapping_clouds_are_not_separable_and_an_rbf_kernel_separates_them():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = np.where(np.arange(80) % 2, 1.0, -1.0)
    assert solve(X @ X.T, y, 0.0, tol=1e-3).status == "not separable"
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2))
    point = solve(K, y, 0.0, tol=1e-6)
    assert point.status == "converged"
    check_certificate(point, K, y, 0.0)
    assert (y * (point.scores - point.kkt())).min() > 0


# ------------------------------------------------------------------------------------ other solvers


@pytest.mark.parametrize("lam", [0.9, 0.5, 0.1, 0.01])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_slow_reference(lam, weighted):
    K, y = random_problem(1, m=40)
    weights = np.random.default_rng(2).uniform(0.2, 3, 40) if weighted else None
    expected = solve_by_pairs(K, y, lam, weights)
    point = solve(K, y, lam, weights)
    assert point.status == "converged"
    assert point.objective == pytest.approx(objective(K, y, lam, expected, weights), rel=1e-9)
    assert point.gamma == pytest.approx(expected, abs=1e-5)
    check_certificate(point, K, y, lam, weights)


@pytest.mark.parametrize("lam", [0.9, 0.5, 0.1, 0.02])
def test_direction_and_bias_are_those_of_the_l2_svm(lam):
    """A hard-margin SVM (LIBSVM with a huge C) on K + mu I."""
    K, y = random_problem(3, share=0.3)
    mu = lam / (1 - lam)
    svm = SVC(kernel="precomputed", C=1e10, tol=1e-10).fit(K + mu * np.eye(len(y)), y)
    alpha = np.zeros(len(y))
    alpha[svm.support_] = np.abs(svm.dual_coef_[0])
    point = solve(K, y, lam, tol=1e-13)
    scale = 2 * (1 - lam) / point.objective
    assert scale * point.gamma == pytest.approx(alpha, abs=1e-5 * alpha.max())
    assert -scale * point.kkt() == pytest.approx(svm.intercept_[0], abs=1e-5 * max(1, alpha.max()))
    svm_objective = alpha.sum() - 0.5 * (y * alpha) @ (K + mu * np.eye(len(y))) @ (y * alpha)
    assert svm_objective == pytest.approx(scale, rel=1e-7)


# ----------------------------------------------------------------------------- invariants


@pytest.mark.parametrize("seed", range(6))
def test_certificate_at_every_step(seed):
    """L falls, and every bound stays below the optimum, block by block."""
    rng = np.random.default_rng(seed)
    K, y = random_problem(seed, m=int(rng.integers(10, 50)), gamma=float(rng.choice([0.1, 1.0, 5.0])))
    lam = float(rng.choice([0.97, 0.6, 0.2, 0.05]))
    best = objective(K, y, lam, solve_by_pairs(K, y, lam, violation=1e-10))
    seen = []
    control = Control(tol=1e-7, callback=lambda p: seen.append(p.primal))
    point = solve(K, y, lam, control=control, whole_rows=1, block_rows=6)
    assert point.status == "converged"
    assert len(seen) > 3
    assert (np.diff(seen) <= 1e-13 * seen[0]).all()
    assert point.bound <= best * (1 + 1e-9) <= point.objective * (1 + 2e-9)
    check_certificate(point, K, y, lam)


def test_optimum_as_lambda_grows():
    K, y = random_problem(7)
    lambdas = np.linspace(0.02, 1.0, 12)
    points = [solve(K, y, float(lam)) for lam in lambdas]
    L = np.array([point.objective for point in points])
    middle = L[1:-1] - (L[:-2] + L[2:]) / 2  # the grid is even
    assert (middle >= -1e-12).all()
    assert (np.diff([point.gamma @ point.gamma for point in points]) <= 1e-9).all()
    assert (np.diff([point.norm_squared for point in points]) >= -1e-9).all()


def test_constant_in_the_kernel_and_swapped_labels():
    K, y = random_problem(8)
    point, shifted, swapped = solve(K, y, 0.2), solve(K + 3.0, y, 0.2), solve(K, -y, 0.2)
    for other, sign in ((shifted, 1), (swapped, -1)):
        assert other.gamma == pytest.approx(point.gamma, abs=1e-6)
        assert other.scores == pytest.approx(sign * point.scores, abs=1e-6)
        assert other.norm_squared == pytest.approx(point.norm_squared, rel=1e-6)
        assert other.midpoint(y) == pytest.approx(sign * point.midpoint(y), abs=1e-6)
        assert other.kkt() == pytest.approx(sign * point.kkt(), abs=1e-6)


def test_copies_and_weights():
    """k copies of all rows go with k mu; a row of weight 2 is that row twice; weight 0 is absence."""
    K, y = random_problem(9, m=30)
    point = solve(K, y, 0.2)
    mu = 3 * 0.2 / 0.8
    copies = solve(np.tile(K, (3, 3)), np.tile(y, 3), mu / (1 + mu))
    assert copies.gamma == pytest.approx(np.tile(point.gamma, 3) / 3, abs=1e-6)
    weights = np.array([0.0, 1.0, 2.0, 1.0, 3.0] * 6)
    weights[:5] = 1.0
    rows = np.repeat(np.arange(30), weights.astype(int))
    for lam in (1.0, 0.97, 0.3, 0.01):
        weighted = solve(K, y, lam, weights)
        repeated = solve(K[np.ix_(rows, rows)], y[rows], lam)
        assert (weighted.gamma[weights == 0] == 0).all()
        assert np.bincount(rows, repeated.gamma, 30) == pytest.approx(weighted.gamma, abs=1e-6)
        assert weighted.objective == pytest.approx(repeated.objective, rel=1e-9)
        assert weighted.midpoint(y) == pytest.approx(repeated.midpoint(y[rows]), abs=1e-6)
        assert weighted.kkt() == pytest.approx(repeated.kkt(), abs=1e-6)
    assert weighted.scores == pytest.approx(K @ (y * weighted.gamma), abs=1e-6)


def test_kkt_conditions():
    K, y = random_problem(10)
    point = solve(K, y, 0.1)
    h = quadratic(K, y, 0.1) @ point.gamma
    for side, rho in ((y > 0, point.rho[0]), (y < 0, point.rho[1])):
        used = side & (point.gamma > 0)
        assert h[used] == pytest.approx(rho, abs=1e-6)
        assert (h[side] >= rho - 1e-6).all()


# ------------------------------------------------------------------------------------ how it gets there


@pytest.mark.parametrize("block_rows", [2, 4, 16, 64])
@pytest.mark.parametrize("lam", [0.9, 0.05])
def test_every_size_of_block_leads_to_the_same_point(block_rows, lam):
    K, y = random_problem(11, m=90)
    whole = solve(K, y, lam, tol=1e-9)
    point = solve(K, y, lam, tol=1e-9, whole_rows=1, block_rows=block_rows)
    assert point.status == "converged"
    assert point.details["block_rows"] == block_rows
    assert point.objective == pytest.approx(whole.objective, rel=1e-8)
    check_certificate(point, K, y, lam)


def test_large_kernel_values_are_solved_by_newton():
    """A polynomial kernel of unscaled data, for which pair steps alone need millions."""
    rng = np.random.default_rng(12)
    X = 20 * rng.random((300, 3))
    y = np.where(X[:, 0] + 4 * rng.standard_normal(300) > 10, 1.0, -1.0)
    K = (X @ X.T + 1) ** 2
    point = solve(K, y, 0.1, tol=1e-6)
    assert point.status == "converged"
    assert point.details["newton_steps"] > 0
    assert point.iterations < 30
    check_certificate(point, K, y, 0.1, rel=1e-6)


def test_warm_path_and_cold_starts_agree():
    """A smaller lambda begins with the gamma and the scores of the last one."""
    K, y = random_problem(13, m=120)
    kernel = precomputed(K)
    cache = RowCache(kernel, 100 * MEGABYTE, True)  # as exact as the smallest lambda asks for
    steps, known = 0, {}
    for lam in LAMBDAS:
        warm = solve(kernel, y, lam, tol=1e-10, cache=cache, **known)
        cold = solve(K, y, lam, tol=1e-10)
        assert warm.status == cold.status == "converged"
        assert warm.objective == pytest.approx(cold.objective, rel=1e-9)
        steps += warm.details["steps"]
        known = {"start": warm.gamma, "scores": warm.scores}
    assert steps > 0
    again = solve(kernel, y, LAMBDAS[-1], tol=1e-10, cache=cache, **known)
    assert again.iterations == 0
    assert again.details["cache_misses"] == 0  # nothing had to be computed


def test_starting_from_a_given_point():
    K, y = random_problem(14)
    first = solve(K, y, 0.1)
    again = solve(K, y, 0.1, start=first.gamma)
    assert (again.status, again.iterations) == ("converged", 0)
    assert again.gamma == pytest.approx(first.gamma)


def test_sparse_start_touches_few_rows():
    rng = np.random.default_rng(15)
    X = rng.standard_normal((1200, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    X[:, 0] += 0.3 * y
    kernel = Kernel(KernelFormula("rbf", gamma=0.5), Dataset.from_any(X))
    point = solve(kernel, y, 0.01, tol=1e-3, whole_rows=1, block_rows=32)
    assert point.status == "converged"
    assert point.details["cache_misses"] < 600


def test_centroids():
    K, y = random_problem(16, share=0.3)
    point = solve(K, y, 1.0)
    assert (point.status, point.solver, point.gap) == ("converged", "closed form", 0.0)
    assert point.gamma == pytest.approx(np.where(y > 0, 1 / (y > 0).sum(), 1 / (y < 0).sum()))
    check_certificate(point, K, y, 1.0)
    assert abs(point.kkt()) == np.inf


def test_same_bytes_for_every_thread_count():
    rng = np.random.default_rng(17)
    X = rng.standard_normal((1500, 4))
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(1500) > 0, 1.0, -1.0)
    points = []
    for threads in (1, 3):
        kernel = Kernel(KernelFormula("rbf", gamma=0.3), Dataset.from_any(X), threads)
        points.append(solve(kernel, y, 0.1, tol=1e-3, threads=threads))
    assert points[0].gamma.tobytes() == points[1].gamma.tobytes()
    assert points[0].gap == points[1].gap


def test_two_cached_rows_are_enough():
    K, y = random_problem(18, m=40)
    row_bytes = 320 + 64 + 32
    poor = solve(K, y, 0.3, tol=1e-6, cache_bytes=2 * row_bytes + 4 * 40)
    assert poor.details["block_rows"] == 2
    assert poor.status == "converged"
    assert poor.objective == pytest.approx(solve(K, y, 0.3).objective, rel=1e-5)


def test_float64_rows_where_float32_would_show():
    K, y = random_problem(19, m=600)
    assert not solve(K, y, 0.5, tol=1e-3).details["float64"]
    assert solve(K, y, 0.5, tol=1e-9).details["float64"]
    assert solve(K, y, 1e-6, tol=1e-3).details["float64"]
    assert solve(K[:60, :60], y[:60], 0.5, tol=1e-3).details[
        "float64"
    ]  # few rows are exact for the same time


def test_limits_and_callback():
    K, y = random_problem(20, m=600)  # fewer are solved at once
    assert solve(K, y, 0.001, control=Control(tol=1e-9, max_iter=1)).status == "max_iter"
    assert solve(K, y, 0.001, control=Control(tol=1e-9, callback=lambda p: True)).status == "stopped"
    rng = np.random.default_rng(21)
    X = rng.standard_normal((6000, 20))
    kernel = Kernel(KernelFormula("rbf", gamma=1.0), Dataset.from_any(X))
    clock = Clock(3)
    point = solve(kernel, np.sign(rng.standard_normal(6000)), 0.9, control=Control(tol=1e-9, over=clock.over))
    assert point.status == "time_limit" and clock.asked <= 5
    assert point.gamma.sum() == pytest.approx(2)


def test_contradictions_and_equal_rows():
    X = np.array([[0.0, 0.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [0.0, 0.0], [-1.0, 0.5]])
    y = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    for lam in (0.9, 0.1, 0.001):
        point = solve(X @ X.T, y, lam, tol=1e-10)
        assert point.status == "converged"
        assert point.gamma[1] == pytest.approx(point.gamma[2], abs=1e-6)
        check_certificate(point, X @ X.T, y, lam)
    assert solve(X @ X.T, y, 0.0).status == "not separable"
    apart = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])
    assert solve(apart @ apart.T, [1, 1, -1, -1], 0.0).objective == pytest.approx(4)
