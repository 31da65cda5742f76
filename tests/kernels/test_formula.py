import math

import numpy as np
import pytest

from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"name": "gauss"}, "kernel must be one of linear, poly, rbf, sigmoid, precomputed, found 'gauss'"),
        ({"gamma": -1.0}, "gamma must be a finite number >= 0, found -1.0"),
        ({"gamma": math.nan}, "gamma"),
        ({"name": "sigmoid", "gamma": math.inf}, "gamma"),
        ({"name": "poly", "coef0": math.inf}, "coef0"),
        ({"name": "poly", "degree": 0}, "degree must be a whole number from 1 to 100, found 0"),
        ({"name": "poly", "degree": 2.5}, "degree"),
        ({"bias": -1.0}, "bias"),
        ({"bias": math.nan}, "bias"),
    ],
)
def test_bad_numbers_are_named(options, found):
    with pytest.raises(ParameterError, match=found):
        KernelFormula(**options)


def test_unused_numbers_are_not_looked_at():
    KernelFormula("linear", gamma=-1.0, degree=0, coef0=math.nan)
    KernelFormula("rbf", degree=0)


def test_diagonal_of_each_kernel():
    norms = np.array([0.0, 2.0])
    assert KernelFormula("linear", bias=3.0).on_diagonal(norms).tolist() == [9.0, 11.0]
    assert KernelFormula("poly", gamma=0.5, coef0=1.0, degree=2).on_diagonal(norms).tolist() == [1.0, 4.0]
    assert KernelFormula("rbf", bias=0.5).on_diagonal(norms).tolist() == [1.25, 1.25]
    assert KernelFormula("sigmoid", gamma=0.5).on_diagonal(norms).tolist() == [0.0, np.tanh(1.0)]


def test_bound_says_infinity_instead_of_raising():
    assert KernelFormula("poly", degree=100).bound(1e30) == math.inf
    assert KernelFormula("poly", gamma=1.0, coef0=-1.0, degree=2).bound(3.0) == 16.0
