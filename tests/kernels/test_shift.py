"""The shift that makes a kernel matrix positive semidefinite."""

import numpy as np
import pytest

import odmlib
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.kernels.shift import SAMPLE_ROWS, needed_shift, sampled_rows


def rows(n_rows, seed=0):
    return np.random.default_rng(seed).standard_normal((n_rows, 4))


@pytest.mark.parametrize(
    "formula", [KernelFormula("rbf", 0.5), KernelFormula("linear"), KernelFormula("poly", 1.0, 3, 1.0)]
)
def test_positive_kernels_need_none(formula):
    assert needed_shift(Kernel(formula, Dataset.from_any(rows(50)))) == 0


@pytest.mark.parametrize("n_rows", [5, 200, 1300])
def test_shifted_sigmoid_is_positive(n_rows):
    kernel = Kernel(KernelFormula("sigmoid", 2.0, coef0=-1.0), Dataset.from_any(rows(n_rows)))
    before = kernel.block(np.arange(n_rows)).astype(np.float64)
    assert np.linalg.eigvalsh(before)[0] < 0
    shift = needed_shift(kernel)
    kernel.shift_diagonal(shift)
    after = kernel.block(np.arange(n_rows)).astype(np.float64)
    assert np.linalg.eigvalsh(after)[0] >= 0
    np.testing.assert_allclose(after - before, shift * np.eye(n_rows), atol=1e-5)
    np.testing.assert_allclose(np.diagonal(after), kernel.diagonal(), rtol=1e-6)


def test_precomputed():
    root = rows(30)
    assert needed_shift(Kernel(KernelFormula("precomputed"), root @ root.T)) == 0
    matrix = np.array([[0.0, 5.0], [5.0, 0.0]])  # eigenvalues -5 and 5
    assert needed_shift(Kernel(KernelFormula("precomputed"), matrix)) == pytest.approx(5.25)


@pytest.mark.parametrize("lowest", [-1e-2, -1e-5, -2e-6, -1e-8, 0.0, 1e-3])
def test_the_shortcut_never_overlooks_a_negative_eigenvalue(lowest):
    basis = np.linalg.qr(rows(40).repeat(10, axis=1) + np.random.default_rng(1).standard_normal((40, 40)))[0]
    eigenvalues = np.linspace(0, 1, 40)
    eigenvalues[0] = lowest
    shift = needed_shift(Kernel(KernelFormula("precomputed"), (basis * eigenvalues) @ basis.T))
    assert (shift > 0) == (lowest < -1e-6)
    assert shift >= -lowest or shift == 0


@pytest.mark.parametrize("C", [0.1, 1, 100, 1000])
def test_sigmoid_trains_to_a_certificate(C):
    X = rows(150)
    y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0, 1, -1)
    model = odmlib.train(X, y, kernel="sigmoid", gamma=0.1, C=C)
    assert model.report["status"] == "converged"
    assert model.report["details"]["shift"] > 0
    assert (model.predict(X) == y).mean() > 0.75
    # the margins of the report are those that the model gives, without the shift
    assert model.report["margin"]["mean"] == pytest.approx(model.margins(X, y).mean(), rel=1e-5)


def test_a_sample_may_overlook_what_the_report_therefore_calls_an_estimate():
    n = SAMPLE_ROWS + 1
    matrix = np.eye(n)
    unseen = np.setdiff1d(np.arange(n), np.random.default_rng(0).permutation(n)[:SAMPLE_ROWS])[0]
    other = (unseen + 1) % n
    matrix[unseen, other] = matrix[other, unseen] = 3.0  # eigenvalue -2
    few = [unseen, other, *np.setdiff1d(np.arange(5), [unseen, other])]
    assert needed_shift(Kernel(KernelFormula("precomputed"), matrix[np.ix_(few, few)])) > 2
    whole = Kernel(KernelFormula("precomputed"), matrix)
    assert needed_shift(whole) == 0
    assert sampled_rows(whole) == SAMPLE_ROWS
    labels = np.arange(n) % 2
    report = odmlib.train(matrix, labels, kernel="precomputed", C=0.01).report
    assert report["details"]["shift_sample_rows"] == SAMPLE_ROWS
    few = slice(0, SAMPLE_ROWS)
    report = odmlib.train(matrix[few, few], labels[few], kernel="precomputed", C=0.01).report
    assert "shift_sample_rows" not in report["details"]
