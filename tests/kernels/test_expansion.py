"""Kernel expansions against the reference matrix times the coefficients."""

import numpy as np
import pytest

from odmlib.data.dataset import Dataset
from odmlib.errors import ParameterError
from odmlib.kernels.expansion import kernel_scores
from odmlib.kernels.formula import KernelFormula
from tests.reference_kernel import kernel_matrix, random_rows

FORMULAS = [
    KernelFormula("linear", bias=1.0),
    KernelFormula("poly", gamma=0.2, coef0=1.0, degree=5),
    KernelFormula("rbf", gamma=0.3),
    KernelFormula("rbf", gamma=30.0, bias=0.5),
    KernelFormula("sigmoid", gamma=0.01, coef0=0.1),
]


@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1.0), (70, 100, 12, 1.0), (200, 300, 150, 0.2), (40, 65, 9000, 0.01)]
)
@pytest.mark.parametrize("formula", FORMULAS, ids=str)
def test_scores_are_exact(formula, shape):
    n_support, n_test, d, density = shape
    rng = np.random.default_rng(7)
    support, test = random_rows(rng, n_support, d, density), random_rows(rng, n_test, d, density)
    coefficients = rng.standard_normal((n_support, 3)) * 1000
    kernel = kernel_matrix(formula, test, support)
    bound = np.abs(kernel) @ np.abs(coefficients)
    found = kernel_scores(formula, Dataset.from_any(support), coefficients, Dataset.from_any(test), threads=2)
    assert found.shape == (n_test, 3)
    assert (np.abs(found - kernel @ coefficients) <= 1e-12 * bound.max()).all()
    one = kernel_scores(formula, Dataset.from_any(support), coefficients[:, 1].copy(), Dataset.from_any(test))
    assert np.array_equal(one, found[:, 1])


def test_columns_unknown_to_the_support_count_in_the_distance():
    support = Dataset.from_any([[1.0, 0.0]])
    test = Dataset.from_any([[1.0, 0.0, 2.0]])
    assert kernel_scores(KernelFormula("rbf", gamma=0.25), support, [1.0], test)[0] == pytest.approx(
        np.exp(-1.0)
    )
    assert kernel_scores(KernelFormula("linear"), support, [1.0], test)[0] == 1.0
    wide = Dataset(np.array([0, 1]), np.array([2**31 - 2], dtype=np.int32), np.array([2.0]), 2**31 - 1)
    assert kernel_scores(KernelFormula("rbf", gamma=0.25), wide, [1.0], test)[0] == pytest.approx(
        np.exp(-2.25)
    )


def test_a_row_scores_the_same_alone_in_a_batch_and_on_any_number_of_threads():
    rng = np.random.default_rng(8)
    support, test = random_rows(rng, 300, 30, 0.6), random_rows(rng, 700, 30, 0.6)
    formula, coefficients = KernelFormula("rbf", gamma=0.1), rng.standard_normal(300)
    data = Dataset.from_any(support)
    batch = kernel_scores(formula, data, coefficients, Dataset.from_any(test))
    assert np.array_equal(
        batch, kernel_scores(formula, data, coefficients, Dataset.from_any(test), threads=3)
    )
    for i in (0, 31, 32, 699):
        assert kernel_scores(formula, data, coefficients, Dataset.from_any(test[i : i + 1]))[0] == batch[i]


def test_empty_sides():
    rows, none = Dataset.from_any(np.ones((2, 3))), Dataset.from_any(np.ones((0, 3)))
    formula = KernelFormula("rbf")
    assert kernel_scores(formula, none, [], rows).tolist() == [0.0, 0.0]
    assert kernel_scores(formula, rows, [1.0, 1.0], none).shape == (0,)
    assert kernel_scores(formula, rows, np.zeros((2, 0)), rows).shape == (2, 0)


def test_bad_input():
    rows = Dataset.from_any([[1e200]])
    with pytest.raises(ParameterError, match="shape"):
        kernel_scores(KernelFormula("rbf"), rows, [1.0, 2.0], rows)
    with pytest.raises(ParameterError, match="overflow on these rows; scale the data or lower the degree"):
        kernel_scores(KernelFormula("poly"), rows, [1.0], rows)
    with pytest.raises(ParameterError, match="no formula"):
        kernel_scores(KernelFormula("precomputed"), rows, [1.0], rows)


def test_sparse_coefficients():
    """Coefficients as rows of entries are those of the matrix, also where a support row has none."""
    rng = np.random.default_rng(9)
    support, test = random_rows(rng, 90, 8, 0.6), random_rows(rng, 40, 8, 0.6)
    dense = rng.standard_normal((90, 50)) * (rng.random((90, 50)) < 0.05)
    formula = KernelFormula("rbf", gamma=0.2)
    given = [Dataset.from_any(X) for X in (support, test)]
    whole = kernel_scores(formula, given[0], dense, given[1], threads=2)
    found = kernel_scores(formula, given[0], Dataset.from_any(dense), given[1])
    assert found.tobytes() == whole.tobytes()
    np.testing.assert_allclose(
        found, np.asarray(kernel_matrix(formula, test, support), float) @ dense, atol=1e-12
    )
    with pytest.raises(ParameterError, match="one coefficient"):
        kernel_scores(formula, given[0], Dataset.from_any(dense[:50]), given[1])
