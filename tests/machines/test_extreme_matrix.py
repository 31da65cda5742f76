"""The extreme matrix: every machine with every kernel on every pair of inputs at the end of the number range.

test_extremes.py has single inputs in the ordinary suite; here two of them come together.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import odmlib
from odmlib.names import KERNELS

from .test_extremes import LABELS, MACHINES, RNG, X, Y, saved_twice

pytestmark = pytest.mark.slow

DATA = {
    "as it is": X,
    "times 1e300": X * 1e300,
    "times 1e150": X * 1e150,
    "times 1e-300": X * 1e-300,
    "one value of 1e308": np.where(np.arange(72).reshape(24, 3) == 5, 1e308, X),
    "smallest numbers": np.full((24, 3), 5e-324),
    "zeros": X * 0,
    "equal rows": np.tile(X[:1], (24, 1)),
    "one column far away": X + np.array([1e12, 0, 0]),
}
OPTIONS = {
    "defaults": {},
    "C of 1e300": {"C": 1e300},
    "C of 1e-300": {"C": 1e-300},
    "bias of 1e300": {"bias": 1e300},
    "weights of 1e300": {"sample_weight": np.full(24, 1e300)},
    "weights of 1e-300": {"sample_weight": np.full(24, 1e-300)},
    "uneven weights": {"sample_weight": 10.0 ** RNG.integers(-200, 200, 24)},
    "gamma of 1e300": {"gamma": 1e300},
    "gamma of 1e-300": {"gamma": 1e-300},
    "coef0 of 1e300": {"coef0": 1e300},
    "tol of 1e-16": {"tol": 1e-16},
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_finite_and_the_same_after_a_file_or_a_clear_error(machine, kernel):
    n_models = 0
    for (data, rows), (option, options) in itertools.product(DATA.items(), OPTIONS.items()):
        if kernel == "precomputed":
            with np.errstate(all="ignore"):
                rows = rows @ rows.T
            if not np.isfinite(rows).all():
                continue
        own = {"unlabeled": 0} if machine == "ssodm" else {}
        where = data, option
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", odmlib.ConvergenceWarning)
            warnings.simplefilter("ignore", odmlib.FallbackWarning)
            try:
                y = LABELS.get(machine, Y)
                model = odmlib.train(
                    rows, y, machine=machine, kernel=kernel, max_iter=50, threads=1, **(options | own)
                )
            except odmlib.OdmError as error:
                assert "\n" not in str(error), where
                assert where != ("as it is", "defaults")
                continue
            n_models += 1
            saved_twice(model)
            try:
                assert np.isfinite(model.decision_function(rows)).all(), where
            except odmlib.OdmError as error:
                assert "overflow" in str(error), where
    assert n_models >= 10
