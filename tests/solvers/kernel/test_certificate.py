"""The certificate of kernel machines: float64 scores, and bounds with rounding, against exact sums."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import odmlib
from odmlib.data.dataset import Dataset
from odmlib.kernels.expansion import training_scores
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel, products_are_exact
from odmlib.losses.loss import BandLoss
from odmlib.solvers.control import Control, Resources
from odmlib.solvers.kernel.block_steps import WorkingSetTuning
from odmlib.solvers.kernel.certificate import fresh_scores
from odmlib.solvers.kernel.precision import score_errors
from odmlib.solvers.kernel.shrinking import ShrinkingProblem
from odmlib.solvers.problem import KernelProblem
from tests.reference_kernel import BandReference, random_rows

FORMULAS = [
    KernelFormula("linear", bias=1.0),
    KernelFormula("poly", gamma=0.2, coef0=1.0, degree=4),
    KernelFormula("rbf", gamma=0.3),
    KernelFormula("rbf", gamma=5.0, bias=0.5),
    KernelFormula("sigmoid", gamma=0.05, coef0=0.1),
]


def long_matrix(formula, X):
    """The kernel matrix in the widest type there is."""
    X = X.astype(np.longdouble)
    products = np.einsum("ik,jk->ij", X, X)
    gamma, coef0 = np.longdouble(formula.gamma), np.longdouble(formula.coef0)
    if formula.name == "linear":
        values = products
    elif formula.name == "poly":
        values = (gamma * products + coef0) ** formula.degree
    elif formula.name == "sigmoid":
        values = np.tanh(gamma * products + coef0)
    else:
        values = np.exp(-gamma * np.square(X[:, None] - X).sum(axis=2))
    return values + np.longdouble(formula.bias) ** 2


@pytest.mark.parametrize("formula", FORMULAS, ids=str)
@pytest.mark.parametrize(("n", "d"), [(1, 1), (70, 3), (200, 40), (550, 5)])
@pytest.mark.parametrize("size", [0.01, 1.0, 30.0])
def test_errors_of_scores_are_bounded(formula, n, d, size):
    rng = np.random.default_rng(n + d)
    X = size * rng.standard_normal((n, d))
    kernel = Kernel(formula, Dataset.from_any(X))
    c = rng.standard_normal(n) * 10.0 ** rng.uniform(-3, 3, n)
    exact = long_matrix(formula, X) @ c
    scores = fresh_scores(kernel, c, Control(), 1)
    assert (np.abs(scores.values - exact) <= scores.errors).all()
    rough = kernel.block(range(n)).astype(float) @ c
    errors = score_errors(kernel, c, False)
    assert (np.abs(rough - exact) <= errors).all()
    assert kernel.precise or (errors > 1e3 * scores.errors).all()  # and float64 is far better


@pytest.mark.parametrize("formula", FORMULAS, ids=str)
def test_training_scores_are_the_product_with_the_matrix(formula):
    rng = np.random.default_rng(3)
    for n, d, density in ((31, 4, 1.0), (33, 5, 0.6), (700, 12, 0.5), (90, 5000, 0.01)):
        X = random_rows(rng, n, d, density)
        kernel = Kernel(formula, Dataset.from_any(X))
        kernel.shift_diagonal(0.25)
        K = kernel.block(range(n), wide=True)
        c = rng.standard_normal(n)
        c[rng.random(n) < 0.3] = 0
        bound = 1e-13 * np.abs(K).max() * np.abs(c).sum()
        found = training_scores(kernel, c)
        assert np.abs(found - K @ c).max() <= bound
        assert np.array_equal(found, training_scores(kernel, c, threads=3))
        some = np.flatnonzero(rng.random(n) < 0.5)
        assert np.abs(training_scores(kernel, c, some) - found[some]).max(initial=0) <= bound
        several = np.c_[c, -2 * c, np.ones(n)]
        assert np.abs(training_scores(kernel, several) - K @ several).max() <= 3 * bound + 1e-10
    assert training_scores(kernel, c, over=lambda: True) is None


def test_products_of_counts_are_exact_in_float32():
    rng = np.random.default_rng(4)
    counts = rng.integers(0, 5, 300).astype(float)
    assert products_are_exact(counts, 1e4) and products_are_exact(counts / 4, 1e4)
    assert not products_are_exact(counts, 2.0**24)  # sums do not fit
    assert not products_are_exact(counts / 3, 10.0)
    late = np.r_[np.ones(2000), 0.3]
    assert not products_are_exact(late, 10.0)


def band_optimum(K, y, C, theta, nu):
    """The least objective, by Newton steps on the duals in float64: another way than the solver's."""
    Q, cost = K * np.outer(y, y), C / (1 - theta) ** 2
    a = np.zeros(len(y))
    for _ in range(200):
        z = Q @ a
        steep = np.where(z < 1 - theta, 2 * cost, np.where(z > 1 + theta, 2 * cost * nu, 0.0))
        level = np.where(z < 1, 1 - theta, 1 + theta)
        last, a = a, np.linalg.solve(np.eye(len(y)) + steep[:, None] * Q, steep * level)
        if np.abs(a - last).max() <= 1e-14 * np.abs(a).max():
            break
    return BandReference(theta, nu, np.full(len(y), cost)).primal(Q, a)


@pytest.mark.parametrize(
    ("n", "C", "theta", "tol"),
    [
        (60, 1, 0.2, 1e-11),
        (60, 89, 0.9, 1e-3),
        (700, 1, 0.2, 1e-3),
        (700, 100, 0.2, 1e-3),
        (700, 1, 0.2, 1e-8),
    ],
)
@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_objective_and_gap_enclose_the_true_minimum(n, C, theta, tol, kernel):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 4))
    y = np.sign(X[:, 0] + 0.5 * rng.standard_normal(n))
    K = np.exp(-0.25 * np.square(X[:, None] - X).sum(axis=2))
    best = band_optimum(K, y, C, theta, 0.5)
    data = K if kernel == "precomputed" else X
    report = odmlib.train(data, y, kernel=kernel, gamma=0.25, C=C, theta=theta, tol=tol).report
    assert report["status"] == "converged" and report["gap"] <= tol
    assert report["dual"] <= best * (1 + 1e-13) and best * (1 - 1e-13) <= report["primal"]


@pytest.mark.parametrize("machine", ["odm", "svm"])
def test_a_matrix_of_large_values_is_certified_as_its_rows_are(machine):
    """As of features that nobody scaled: the sums of a score cancel, but the values have no errors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = np.sign(X[:, 0] + 0.5 * rng.normal(size=600))
    X[:, 3] = np.abs(X[:, 3]) * 1e4
    found = odmlib.train(X @ X.T, y, machine=machine, kernel="precomputed", bias=-1).report
    linear = odmlib.train(X, y, machine=machine, kernel="linear", bias=-1, tol=1e-6).report
    assert found["status"] == "converged" and found["gap"] <= 1e-3
    assert abs(found["primal"] - linear["primal"]) <= 1e-3 * linear["primal"]


@pytest.mark.parametrize("float64", [False, True])
def test_scores_that_a_run_has_updated_are_as_exact_as_it_says(float64):
    rng = np.random.default_rng(6)
    formula, X = KernelFormula("rbf", gamma=0.3), rng.standard_normal((600, 5))
    kernel, y = Kernel(formula, Dataset.from_any(X)), np.sign(X[:, 0] + rng.standard_normal(600))
    K = long_matrix(formula, X)
    problem = KernelProblem(kernel, y, np.full(600, 50.0), BandLoss(0.2, 0.5))
    resources = Resources(cache_bytes=1 << 24)
    run = ShrinkingProblem(problem, resources, WorkingSetTuning(), 1e-12 if float64 else 1e-3)
    assert run.float64 == float64
    for turn in range(8):
        run.now.measure()
        run.now.improve(1e-3, Control())
        run.take_known()
        if turn == 4:
            assert run.certify("converged", Control())
            run.take_known()
        known, duals = run.known, run.now.state.duals
        assert (np.abs(known.values - K @ (y * duals)) <= known.errors).all()
        assert known.errors.max() < (1e-9 if float64 else 1e-4) * np.abs(duals).sum()


def test_not_converged_is_said_where_rounding_is_larger_than_the_tolerance():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((60, 3))
    y = np.sign(X[:, 0] + 0.5 * rng.standard_normal(60))
    with pytest.warns(odmlib.ConvergenceWarning):
        report = odmlib.train(X, y, tol=1e-16).report
    assert report["status"] == "stalled" and 1e-16 < report["gap"] < 1e-10


@pytest.mark.parametrize("machine", ["odm", "svm", "mcodm", "kmomd", "odml", "sodm"])
def test_small_objectives_are_solved_as_exactly_as_large_ones(machine):
    """The gap is a part of the objective, however small that is."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((90, 3))
    y = np.sign(X[:, 0] + 0.5 * rng.standard_normal(90))
    report = odmlib.train(X, y, machine=machine, lambda_=1e-3 if machine != "kmomd" else 0.5).report
    assert report["status"] == "converged"
    assert 0 < abs(report["primal"]) < 1
    assert report["gap"] <= 1e-3
    assert Fraction(report["primal"]) - Fraction(report["dual"]) <= Fraction(1e-3) * abs(
        Fraction(report["primal"])
    )


def test_few_rows_do_not_depend_on_their_order():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((300, 4))
    y = np.sign(X[:, 0] + 0.5 * rng.standard_normal(300))
    order = rng.permutation(300)
    for machine in ("odm", "svm"):
        scores = odmlib.train(X, y, machine=machine).decision_function(X)
        other = odmlib.train(X[order], y[order], machine=machine).decision_function(X)
        np.testing.assert_allclose(scores, other, atol=1e-7)
