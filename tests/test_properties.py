"""What must hold whatever the data are: scaling, folds, weights, names and order of labels and features."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import odmlib
from odmlib.data.dataset import Dataset
from odmlib.data.folds import stratified_folds
from odmlib.data.scaling import Scaling

CONVEX = ("svm", "odml", "odm")
TIGHT = {"tol": 1e-9, "threads": 1}  # of kernels with large values rounding leaves a little less
FEW = settings(max_examples=15)


@st.composite
def problems(draw, n_classes: int = 2):
    """Rows with a part that tells the classes apart, and a label for each; every class is there."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(6, 30)), draw(st.integers(1, 5))
    codes = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)])
    X = rng.normal(size=(n, d)) * draw(st.sampled_from([0.1, 1.0, 5.0]))
    X[:, 0] += codes
    return X, codes, rng


machines = st.sampled_from(CONVEX)
costs = st.sampled_from([0.05, 1.0, 20.0])


def scores(X, y, on=None, **options):
    with warnings.catch_warnings():
        if options.get("kernel") == "poly":
            warnings.simplefilter("ignore", odmlib.ConvergenceWarning)
        model = odmlib.train(X, y, **(TIGHT | options))
    return model.decision_function(X if on is None else on)


# --------------------------------------------------------------------------- scaling and folds


@given(problems(), st.sampled_from([(-1.0, 1.0), (0.0, 1.0), (-3.0, 0.5)]))
def test_scaling_maps_into_the_interval_and_keeps_the_order(problem, interval):
    X, _, _ = problem
    lower, upper = interval
    scaled = Scaling.fit(Dataset.from_any(X), lower, upper).apply(Dataset.from_any(X)).to_dense()
    assert scaled.min() >= lower
    assert scaled.max() <= upper
    for column, image in zip(X.T, scaled.T, strict=True):
        assert (np.diff(image[np.argsort(column)]) >= 0).all()
        assert image[np.argmin(column)] == lower
        assert image[np.argmax(column)] == upper


@given(problems(), st.sampled_from([2.0**-40, 2.0**-3, 2.0**17]))
def test_scaling_forgets_the_unit_of_a_feature(problem, unit):
    """A power of two changes no digit."""
    X = Dataset.from_any(problem[0])
    other = Dataset.from_any(problem[0] * unit)
    one, two = Scaling.fit(X).apply(X), Scaling.fit(other).apply(other)
    assert one.to_dense().tobytes() == two.to_dense().tobytes()


@given(st.lists(st.integers(0, 4), min_size=2, max_size=80), st.integers(2, 9), st.integers(0, 2**31 - 1))
def test_folds_are_even_over_all_and_over_each_class(codes, n_folds, seed):
    codes = np.array(codes)
    folds = stratified_folds(codes, n_folds, seed)
    assert folds.shape == codes.shape
    assert ((folds >= 0) & (folds < n_folds)).all()
    for part in [np.ones(len(codes), bool), *(codes == code for code in np.unique(codes))]:
        sizes = np.bincount(folds[part], minlength=n_folds)
        assert sizes.max() - sizes.min() <= 1
    assert (stratified_folds(codes, n_folds, seed) == folds).all()


# --------------------------------------------------------------------------------------------- machines


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@FEW
@given(problems(), machines, costs)
def test_a_weight_is_a_repetition(kernel, problem, machine, C):
    """A row of weight 2 counts as two rows: equal objectives, equal scores."""
    X, codes, rng = problem
    times = rng.integers(1, 4, len(X))
    options = {"machine": machine, "kernel": kernel, "C": C, "gamma": 0.5, "lambda1": C, "lambda2": C}
    if machine != "odml":
        options = {key: value for key, value in options.items() if not key.startswith("lambda")}
    else:
        del options["C"]
    if kernel == "linear":
        del options["gamma"]
    weighted = scores(X, codes, on=X, sample_weight=times.astype(float), **options)
    repeated = scores(np.repeat(X, times, axis=0), np.repeat(codes, times), on=X, **options)
    np.testing.assert_allclose(weighted, repeated, atol=_tolerance(kernel, weighted))


def _tolerance(kernel: str, found: np.ndarray) -> float:
    return (1e-4 if kernel == "linear" else 3e-3) * max(1.0, np.abs(found).max())


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@FEW
@given(problems(n_classes=3), st.permutations([0, 1, 2]), machines)
def test_the_names_of_labels_do_not_matter(kernel, problem, order, machine):
    """Other labels for the same classes: the predictions are the same classes."""
    X, codes, _ = problem
    names = np.array([7, -3, 12])[list(order)]
    one = odmlib.train(X, codes, machine=machine, kernel=kernel, **TIGHT)
    two = odmlib.train(X, names[codes], machine=machine, kernel=kernel, **TIGHT)
    assert one.decision_function(X).tobytes() == two.decision_function(X).tobytes()
    assert (names[one.predict(X)] == two.predict(X)).all()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@FEW
@given(problems(), machines)
def test_exchanged_classes_turn_the_sign(kernel, problem, machine):
    X, codes, _ = problem
    one = odmlib.train(X, np.where(codes == 0, 1, -1), machine=machine, kernel=kernel, **TIGHT)
    two = odmlib.train(X, np.where(codes == 0, -1, 1), machine=machine, kernel=kernel, **TIGHT)
    found, turned = one.decision_function(X), two.decision_function(X)
    np.testing.assert_allclose(found, -turned, atol=_tolerance(kernel, found))


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@FEW
@given(problems(), machines)
def test_the_order_of_features_does_not_matter(kernel, problem, machine):
    X, codes, rng = problem
    order = rng.permutation(X.shape[1])
    found = (
        scores(X, codes, machine=machine, kernel=kernel, gamma=0.5)
        if kernel != "linear"
        else scores(X, codes, machine=machine, kernel=kernel)
    )
    options = {} if kernel == "linear" else {"gamma": 0.5}
    moved = scores(X[:, order], codes, machine=machine, kernel=kernel, **options)
    np.testing.assert_allclose(found, moved, atol=_tolerance(kernel, found))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@FEW
@given(problems(), machines)
def test_the_order_of_rows_does_not_matter(kernel, problem, machine):
    X, codes, rng = problem
    order = rng.permutation(len(X))
    found = scores(X, codes, machine=machine, kernel=kernel)
    y = codes[order]
    sign = 1 if y[0] == codes[0] else -1  # the label that comes first is the positive one
    moved = sign * scores(X[order], y, on=X, machine=machine, kernel=kernel)
    np.testing.assert_allclose(found, moved, atol=_tolerance(kernel, found))


@FEW
@given(problems(), machines, st.integers(1, 4))
def test_a_feature_of_zeros_changes_nothing(problem, machine, n_more):
    X, codes, _ = problem
    wider = np.hstack([X, np.zeros((len(X), n_more))])
    one = odmlib.train(X, codes, machine=machine, kernel="linear", **TIGHT).decision_function(X)
    two = odmlib.train(wider, codes, machine=machine, kernel="linear", **TIGHT).decision_function(wider)
    np.testing.assert_allclose(one, two, atol=_tolerance("linear", one))
