"""Regression against programs that we did not write: LIBLINEAR, scikit-learn's ridge regressions."""

from __future__ import annotations

import numpy as np
import pytest

import odmlib
from odmlib.errors import ParameterError


def diabetes():
    datasets = pytest.importorskip("sklearn.datasets")
    X, t = datasets.load_diabetes(return_X_y=True)
    return X / X.std(axis=0), t


def some(m=80, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(m) + 3


@pytest.mark.parametrize("C", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("epsilon", [0.0, 5.0, 60.0])
def test_liblinear_s11(C, epsilon):
    liblinear = pytest.importorskip("liblinear.liblinearutil", reason="liblinear-multicore is not installed")
    X, t = diabetes()
    theirs = liblinear.train(t, X, f"-s 11 -p {epsilon!r} -c {C!r} -e 1e-12 -B 1 -q")
    model = odmlib.train(X, t, machine="odmr", kernel="linear", C=C, epsilon=epsilon, tol=1e-12)
    weights, constant = theirs.get_decfun()
    ours = np.append(model.function.weights[:, 0], model.function.bias_weights)
    assert ours == pytest.approx([*weights, constant], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_kernel_ridge(kernel):
    ridge = pytest.importorskip("sklearn.kernel_ridge")
    X, t = diabetes()
    gamma, C = 0.02, 3.0
    theirs = ridge.KernelRidge(alpha=1 / (2 * C), kernel=kernel, gamma=gamma, coef0=1, degree=3).fit(X, t)
    options = {"gamma": gamma, "coef0": 1, "degree": 3, "C": C, "epsilon": 0, "bias": -1, "tol": 1e-9}
    model = odmlib.train(X, t, machine="odmr", kernel=kernel, **options)
    assert model.predict(X[:100] + 0.1) == pytest.approx(theirs.predict(X[:100] + 0.1), rel=1e-8)


def test_nu_weighs_predictions_that_are_too_large():
    X, t = some()
    shares = []
    for nu in (0.02, 1.0):
        model = odmlib.train(X, t, machine="odmr", kernel="linear", nu=nu, epsilon=0)
        shares.append(np.mean(model.predict(X) > t))
    assert shares[0] > 0.7 > 0.6 > shares[1]


def test_a_kernel_machine_is_added_to_the_mean_unless_a_bias_is_given():
    X, t = some()
    far = 10 * X + 1000  # where the kernel is 0
    model = odmlib.train(X, t, machine="odmr")
    assert model.predict(far) == pytest.approx(np.full(len(t), t.mean()))
    assert odmlib.train(X, t, machine="odmr", bias=-1).predict(far) == pytest.approx(0)
    with_bias = odmlib.train(X, t, machine="odmr", bias=2.0)
    assert with_bias.function.offsets[0] == 0
    assert with_bias.predict(far).std() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("factor", [2.0**-40, 2.0**40])
def test_the_unit_of_the_targets_does_not_matter(kernel, factor):
    X, t = some()
    options = {"machine": "odmr", "kernel": kernel, "tol": 1e-5}
    expected = odmlib.train(X, t, epsilon=0.2, **options).predict(X)
    scaled = odmlib.train(X, factor * t, epsilon=0.2 * factor, **options).predict(X) / factor
    assert scaled == pytest.approx(expected, abs=2e-3)


def test_row_weights_count_as_repeated_rows():
    X, t = some()
    weights = np.arange(len(t)) % 3
    options = {"machine": "odmr", "kernel": "rbf", "tol": 1e-10, "gamma": 0.3}
    weighted = odmlib.train(X, t, sample_weight=weights, **options)
    repeated = odmlib.train(np.repeat(X, weights, axis=0), np.repeat(t, weights), **options)
    assert weighted.predict(X) == pytest.approx(repeated.predict(X), abs=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_several_outputs_are_as_many_machines(kernel):
    X, t = some()
    targets = np.stack([t, -3 * t + X[:, 2], np.zeros_like(t)], axis=1)
    model = odmlib.train(X, targets, machine="odmr", kernel=kernel)
    assert model.n_outputs == 3
    for output in range(3):
        alone = odmlib.train(X, targets[:, output], machine="odmr", kernel=kernel)
        assert np.array_equal(model.predict(X)[:, output], alone.predict(X))
    residuals = model.predict(X) - targets
    largest = np.take_along_axis(residuals, np.abs(residuals).argmax(axis=1)[:, None], axis=1)[:, 0]
    assert model.training_margins == pytest.approx(largest, abs=1e-5)


@pytest.mark.parametrize("options", [{"kernel": "linear"}, {"kernel": "rbf"}, {"kernel": "poly", "nu": 0.5}])
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_model_file_keeps_everything(options, outputs):
    X, t = some()
    targets = t if outputs == 1 else np.stack([t, 2 - t], axis=1)
    model = odmlib.train(X, targets, machine="odmr", **options)
    again = odmlib.load_model(model.to_bytes())
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.parameters == model.parameters
    assert again.to_bytes() == model.to_bytes()
    assert model.margins(X, targets) == pytest.approx(model.predict(X) - targets)


def test_precomputed_kernels():
    X, t = some()
    K = X @ X.T
    model = odmlib.train(K, t, machine="odmr", kernel="precomputed", tol=1e-10)
    linear = odmlib.train(X, t - t.mean(), machine="odmr", kernel="linear", bias=-1, tol=1e-10)
    assert model.predict(K) == pytest.approx(linear.predict(X) + t.mean(), abs=1e-5)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_training_goes_on_from_another_model(kernel):
    X, t = some()
    first = odmlib.train(X, t, machine="odmr", kernel="rbf", tol=1e-6)
    same = odmlib.train(X, t, machine="odmr", kernel=kernel, init=first, tol=1e-4)
    fresh = odmlib.train(X, t, machine="odmr", kernel=kernel, tol=1e-4)
    assert same.predict(X) == pytest.approx(fresh.predict(X), abs=0.05)
    assert kernel == "linear" or same.report["iterations"] <= fresh.report["iterations"]
    classes = odmlib.train(X, t > 3)
    with pytest.raises(ParameterError, match="labels"):
        odmlib.train(X, t, machine="odmr", init=classes)
    several = odmlib.train(X, np.stack([t, t], axis=1), machine="odmr")
    with pytest.raises(ParameterError, match="has 2 outputs, the data have 1 targets per row"):
        odmlib.train(X, t, machine="odmr", init=several)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_weight": "balanced"}, "tells no classes apart: class weights"),
        ({"probability": True}, "tells no classes apart: probabilities"),
        ({"multiclass": "ovo"}, "tells no classes apart: a class scheme"),
        ({"epsilon": -1}, r"epsilon must be at least 0, found -1"),
    ],
)
def test_what_has_no_meaning_is_refused(options, message):
    X, t = some()
    with pytest.raises(ParameterError, match=message):
        odmlib.train(X, t, machine="odmr", **options)


def test_epsilon_is_for_regression_only():
    X, t = some()
    with pytest.raises(ParameterError, match="epsilon is for machine odmr, found machine odm"):
        odmlib.train(X, t > 3, epsilon=0.5)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (["a"] * 80, "y cannot be read as numbers"),
        ([np.nan] * 80, r"y\[0\] is nan; every target must be finite"),
        (np.zeros(79), "X has 80 rows but y has 79 targets"),
        (np.zeros((80, 2, 2)), "y must hold a target, or a line of them, for each row"),
    ],
)
def test_bad_targets(targets, message):
    X, _ = some()
    with pytest.raises(ParameterError, match=message):
        odmlib.train(X, targets, machine="odmr")


def test_targets_that_are_all_0():
    X, _ = some()
    model = odmlib.train(X, np.zeros(80), machine="odmr")
    assert model.report["status"] == "converged"
    assert np.array_equal(model.predict(X), np.zeros(80))


def curve(m, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (m, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 7 + 0.2 * rng.standard_normal(m)


@pytest.mark.parametrize("partition", ["stratified", "random", "dip", "dc"])
def test_partitions_find_the_machine_of_all_rows(partition):
    X, t = curve(600)
    options = {"machine": "odmr", "gamma": 1.0, "tol": 1e-8}
    whole = odmlib.train(X, t, **options)
    parts = odmlib.train(X, t, **options, levels=2, partition=partition)
    assert len(parts.report["levels"]) == 3
    assert parts.report["primal"] == pytest.approx(whole.report["primal"], rel=2e-8)
    assert parts.predict(X) == pytest.approx(whole.predict(X), abs=1e-3)


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_machine_over_landmarks(outputs):
    X, t = curve(400)
    targets = t if outputs == 1 else np.column_stack([t, -3 * t])
    options = {"machine": "odmr", "gamma": 1.0, "tol": 1e-9, "epsilon": 0.05}
    whole = odmlib.train(X, targets, **options)
    all_rows = odmlib.train(X, targets, **options, approx="nystrom", rank=400)
    assert all_rows.predict(X) == pytest.approx(whole.predict(X), abs=1e-3)
    few = odmlib.train(X, targets, **options, approx="nystrom", rank=20)
    assert few.n_support == 20
    assert whole.report["primal"] <= few.report["primal"] * (1 + 1e-8)
    noise = np.mean(np.square(few.predict(X) - targets))
    assert noise < 0.2 * np.var(t) * (1 if outputs == 1 else 5)


def test_intervals_over_landmarks_keep_their_promise():
    covered = []
    for seed in range(10):
        X, t = curve(200, seed)
        model = odmlib.train(X, t, machine="odmr", gamma=1.0, approx="nystrom", rank=60, coverage=True)
        assert model.report["coverage"] == {"source": "10 folds"}
        new, targets = curve(1000, 100 + seed)
        low, high = model.predict_interval(new, 0.8).T
        covered.append(np.mean((low <= targets) & (targets <= high)))
    error = np.std(covered) / np.sqrt(len(covered) - 1)
    assert abs(np.mean(covered) - 0.8) <= 3 * error + 2 / 201


def test_leave_one_out_over_landmarks_is_refused():
    X, t = curve(100)
    with pytest.raises(ParameterError, match="leave-one-out from one fit is not for approx"):
        odmlib.leave_one_out(X, t, machine="odmr", approx="nystrom")


def test_a_search_over_landmarks_validates_the_machine_over_landmarks():
    X, t = curve(150)
    options = {"machine": "odmr", "gamma": 1.0, "approx": "nystrom", "rank": 5}
    found = odmlib.grid_search(X, t, log2c=(0, 0, 1), log2g=None, folds=5, **options)
    from odmlib.machines.training import make_problem, make_settings
    from odmlib.selection.cross_validation import cross_validate_targets

    settings = make_settings({**options, "C": 1.0})
    direct = cross_validate_targets(make_problem(X, t, settings), settings, 5)
    assert found.best.rate == pytest.approx(direct.measures.mean_squared_error, rel=1e-4)
