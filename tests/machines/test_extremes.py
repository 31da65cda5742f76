"""Inputs at the end of the number range: a model that can be saved, loaded and used, or one clear error."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

import odmlib
from odmlib.names import KERNELS

MACHINES = ("svm", "odml", "odm", "mcodm", "kmomd", "ssodm", "sodm", "odmr", "odmo")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3))
Y = np.where(X[:, 0] + 0.3 * RNG.normal(size=24) > 0, 1, -1)
LABELS = {
    "mcodm": np.arange(24) % 3,
    "ssodm": np.where(np.arange(24) % 3, Y, 0),
    "odmr": 3 + X[:, 0] + RNG.normal(size=24),
    "odmo": np.ones(24),
}
ONE_LARGE = np.where(np.arange(72).reshape(24, 3) == 5, 1e160, X)

INPUTS = {
    "as it is": (X, {}),
    "one value of 1e160": (ONE_LARGE, {}),
    "times 1e150": (X * 1e150, {}),
    "times 1e-160": (X * 1e-160, {}),
    "zeros": (X * 0, {}),
    "C of 1e300": (X, {"C": 1e300}),
    "C of 1e-300": (X, {"C": 1e-300}),
    "weights of 1e300": (X, {"sample_weight": np.full(24, 1e300)}),
    "uneven weights": (X, {"sample_weight": 10.0 ** RNG.integers(-200, 200, 24)}),
    "bias of 1e160": (X, {"bias": 1e160}),
    "bias of 1e300": (X, {"bias": 1e300}),
    "bias of 1e77": (X * 1e30, {"bias": 1e77, "C": 1000.0}),
    "gamma of 1e300": (X, {"gamma": 1e300}),
    "coef0 of 1e200": (X, {"coef0": 1e200}),
    "probabilities": (X, {"probability": True}),
}


def saved_twice(model: odmlib.Model) -> bytes:
    text = model.to_bytes()
    assert odmlib.load_model(text).to_bytes() == text
    return text


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_model_or_a_clear_error(machine, kernel):
    for name, (given, options) in INPUTS.items():
        rows = given
        if kernel == "precomputed":
            scale = np.abs(given).max()
            rows = (X @ X.T) * (scale if scale > 1e100 else 1.0)
        if machine == "ssodm":
            options = options | {"unlabeled": 0}
        if machine in ("odmr", "odmo") and name == "probabilities":
            options = {"coverage": True} if machine == "odmr" else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", odmlib.ConvergenceWarning)
            warnings.simplefilter("ignore", odmlib.FallbackWarning)
            try:
                y = LABELS.get(machine, Y)
                model = odmlib.train(rows, y, machine=machine, kernel=kernel, max_iter=100, **options)
            except odmlib.OdmError as error:
                assert "\n" not in str(error)
                assert name not in ("as it is", "probabilities")
                continue
        saved_twice(model)
        try:
            assert np.isfinite(model.decision_function(rows)).all()
        except odmlib.OdmError as error:
            assert "overflow" in str(error)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "sigmoid"])
@pytest.mark.parametrize("factor", [1e-300, 1e-160, 0.0, 1e100, 1e150, 1e160, 1e300])
def test_targets_of_any_unit(kernel, factor):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", odmlib.ConvergenceWarning)
        try:
            t = factor * LABELS["odmr"]
            model = odmlib.train(
                X, t, machine="odmr", kernel=kernel, epsilon=0.1 * factor, coverage=True, max_iter=300
            )
        except odmlib.OdmError as error:
            assert "\n" not in str(error) and not 1e-150 < factor < 1e150
            return
    saved_twice(model)
    ends = model.predict_interval(X, 0.8)
    assert np.isfinite(ends).all() and (ends[:, 0] <= ends[:, 1]).all()
    assert factor == 0 or 0.1 < model.predict(X).mean() / t.mean() < 10


def test_targets_whose_squares_vanish_are_refused():
    with pytest.raises(odmlib.ParameterError, match="have squares that vanish"):
        odmlib.train(X[:2], [4.8e-200, 1.6e-200], machine="odmr", kernel="rbf")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_converged_means_a_gap_within_the_tolerance(machine, kernel):
    rows = X @ X.T if kernel == "precomputed" else X
    options = {"unlabeled": 0} if machine == "ssodm" else {}
    for tol in (1e-16, 1e-12, 1e-9, 1e-3):
        for C in (0.01, 100.0):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", odmlib.ConvergenceWarning)
                warnings.simplefilter("ignore", odmlib.FallbackWarning)
                report = odmlib.train(
                    *(rows, LABELS.get(machine, Y)),
                    **{"machine": machine, "kernel": kernel, "tol": tol, "C": C, "max_iter": 300, **options},
                ).report
            for part in (report, *report.get("tasks", ())):
                assert part["gap"] <= tol or part["status"] != "converged", (tol, C)


@pytest.mark.parametrize("machine", ["kmomd", "ssodm"])
def test_optional_parts_are_written_in_one_order(machine):
    options = {"unlabeled": 0} if machine == "ssodm" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", odmlib.FallbackWarning)
        model = odmlib.train(X, LABELS.get(machine, Y), machine=machine, probability=True, **options)
    text = saved_twice(model)
    turned = dict(reversed(model.extras.items()))
    model.extras.clear()
    model.extras.update(turned)
    assert model.to_bytes() == text


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_stored_zeros_are_not_written(kernel, n_classes):
    values = np.array([1.0, 0.0, 2.0, -0.0, 3.0, 1.0] * 5)
    rows = sparse.csr_array((values, np.arange(30) % 3, np.arange(0, 31, 3)), shape=(10, 3))
    model = odmlib.train(rows, np.arange(10) % n_classes, kernel=kernel)
    text = saved_twice(model)
    assert b":0 " not in text
    assert b":-0 " not in text


def test_the_error_says_which_number():
    with pytest.raises(odmlib.ParameterError, match="relaxed is nan, expected a finite number; scale"):
        odmlib.train(X, LABELS["ssodm"], machine="ssodm", kernel="rbf", C=1e300, unlabeled=0)
    rows, y = noisy_rows()
    with pytest.raises(odmlib.ParameterError, match="margin_variance is inf"):
        odmlib.train(rows * 1e140, y, machine="kmomd", kernel="linear", lambda_=0.5)


def noisy_rows():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 3))
    return rows, np.sign(rows[:, 0] + 0.5 * rng.standard_normal(40))


def test_kmomd_refuses_kernel_values_that_hide_its_objective():
    rows, y = noisy_rows()
    with pytest.raises(
        odmlib.ParameterError, match=r"lost in rounding of kernel values as large as 7\.01e\+15"
    ):
        odmlib.train(1e15 * rows @ rows.T, y, machine="kmomd", kernel="precomputed", lambda_=1e-6)
