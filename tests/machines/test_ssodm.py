"""ssODM: oracles through odmlib.train, invariants, labels, fallback, files."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest
import scipy.sparse

import odmlib
from odmlib.errors import FallbackWarning, ParameterError
from tests.reference_ssodm import ORACLES, objective


def two_clouds(seed=0, m=120, n_labeled=12, distance=3.0, d=4):
    """(X, y with 0 for unlabeled, truth); labeled rows of both classes somewhere among the others."""
    rng = np.random.default_rng(seed)
    truth = np.where(rng.random(m) < 0.4, 1.0, -1.0)
    X = rng.standard_normal((m, d))
    X[:, 0] += distance * truth
    y = np.zeros(m)
    for sign in (1, -1):
        chosen = rng.permutation(np.flatnonzero(truth == sign))[: n_labeled // 2]
        y[chosen] = sign
    return X, y, truth


def train(X, y, **options):
    return odmlib.train(X, y, machine="ssodm", threads=1, **({"kernel": "linear"} | options))


@pytest.mark.parametrize("name", ORACLES)
def test_oracles_through_train(name):
    tiny, values, J = ORACLES[name]
    kernel = {"kernel": "linear", "bias": tiny.bias or -1}
    if tiny.gamma is not None:
        kernel = {"kernel": "rbf", "gamma": tiny.gamma}
    model = train(
        tiny.x,
        tiny.given,
        lambda1=tiny.lambda1,
        lambda2=tiny.lambda2,
        nu=tiny.nu,
        theta=tiny.theta,
        balance={1: tiny.n_plus / (len(tiny.x) - len(tiny.y))},
        tol=1e-7,
        **kernel,
    )
    note = model.report["semi_supervised"]
    values = values or [objective(tiny, labels) for labels in tiny.assignments().T]
    assert note["branch"] == "semi-supervised"
    assert note["P"] == pytest.approx(min(values), abs=1e-6)  # OPT, as enumeration of all labels finds it
    assert model.assigned.tolist() == tiny.assignments()[len(tiny.y) :, int(np.argmin(values))].tolist()
    assert J - 1e-6 <= note["J"] <= note["P"] + 1e-6
    assert model.report["primal"] == note["P"] and model.report["gap"] <= 1e-7


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid", "precomputed"])
def test_every_kernel(kernel):
    X, y, truth = two_clouds()
    data = X @ X.T if kernel == "precomputed" else X
    open_rows = y == 0
    part = float((truth[open_rows] > 0).mean())
    model = train(data, y, kernel=kernel, balance={1: part})
    assert (model.assigned == truth[open_rows]).mean() > 0.9
    predicted = model.predict(data)
    assert (predicted == truth).mean() > 0.9 and set(predicted) <= {1.0, -1.0}
    note = model.report["semi_supervised"]
    assert note["assigned_positive"] == note["positives"][0] == note["positives"][1] == round(part * 108)
    assert note["gap"] <= 1e-3 and note["J"] <= note["P"] * 1.001
    assert model.report["status"] == "converged" and model.report["gap"] <= 1e-3
    full = truth.copy()
    full[open_rows] = model.assigned
    assert model.training_margins == pytest.approx(model.margins(data, full), abs=1e-3)
    text = io.BytesIO()
    model.save(text)
    again = odmlib.load_model(text.getvalue())
    assert (again.decision_function(data) == model.decision_function(data)).all()
    assert again.parameters == model.parameters and again.extras == model.extras
    assert again.extras["semi_supervised"] == (1.0,) and again.extras["relaxed"] == (note["J"],)


def test_objective_is_the_stated_one():
    X, y, _ = two_clouds(3)
    model = train(X, y, lambda1=50, lambda2=7, nu=0.3, theta=0.1, tol=1e-9, bias=1)
    labels = y.copy()
    labels[y == 0] = model.assigned
    weights = np.where(y != 0, 50 / (y != 0).sum(), 7 / (y == 0).sum())
    z = labels * model.decision_function(X)
    losses = (np.maximum(0, 0.9 - z) ** 2 + 0.3 * np.maximum(0, z - 1.1) ** 2) / 0.81
    w = np.append(model.function.weights[:, 0], model.function.bias_weights)
    assert model.report["primal"] == pytest.approx(0.5 * w @ w + weights @ losses, rel=1e-9)
    # it is the ODM that these labels train
    plain = odmlib.train(
        X, labels, kernel="linear", C=1, sample_weight=weights, nu=0.3, theta=0.1, tol=1e-9, threads=1
    )
    assert plain.decision_function(X) == pytest.approx(model.decision_function(X), abs=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_flipped_labels_and_permuted_rows(kernel):
    """Invariant 6."""
    X, y, _ = two_clouds(5)
    options = {"kernel": kernel, "tol": 1e-5, "lambda2": 30, "max_disagree": 1}
    model = train(X, y, balance={1: 0.4}, **options)
    flipped = train(X, -y, balance={1: 0.6}, **options)
    assert flipped.report["semi_supervised"]["J"] == pytest.approx(
        model.report["semi_supervised"]["J"], rel=1e-2
    )
    assert flipped.report["primal"] == pytest.approx(model.report["primal"], rel=1e-5)
    assert flipped.decision_function(X) == pytest.approx(-model.decision_function(X), abs=1e-2)
    assert (flipped.assigned == -model.assigned).all()
    order = np.random.default_rng(0).permutation(len(y))
    moved = train(X[order], y[order], balance={1: 0.4}, **options)
    assert moved.decision_function(X) == pytest.approx(model.decision_function(X), abs=1e-2)
    assert moved.report["primal"] == pytest.approx(model.report["primal"], rel=1e-5)


def test_sparse_rows_are_the_linear_kernel():
    """Invariant 7, through the two ways of training; any sparse form of X."""
    X, y, _ = two_clouds(7)
    X[np.abs(X) < 0.5] = 0
    linear = train(scipy.sparse.csr_array(X), y, tol=1e-6)
    kernel = train(X @ X.T + 1, y, kernel="precomputed", tol=1e-6)
    assert linear.report["primal"] == pytest.approx(kernel.report["primal"], rel=1e-5)
    assert linear.decision_function(X) == pytest.approx(kernel.decision_function(X @ X.T + 1), abs=1e-2)
    assert (linear.assigned == kernel.assigned).all()


def test_without_unlabeled_rows_it_is_odm():
    """Invariant 8."""
    X, y, _ = two_clouds(9)
    labeled = y != 0
    plain = odmlib.train(X[labeled], y[labeled], kernel="linear", C=2, tol=1e-8, threads=1)
    with pytest.warns(FallbackWarning, match="there are no unlabeled rows"):
        model = train(X[labeled], y[labeled], C=2, tol=1e-8)
    assert model.decision_function(X) == pytest.approx(plain.decision_function(X), abs=1e-7)
    assert model.assigned is None
    with pytest.warns(FallbackWarning, match="the unlabeled rows have no weight"):
        model = train(X, y, C=2, lambda2=0, tol=1e-8)
    assert model.decision_function(X) == pytest.approx(plain.decision_function(X), abs=1e-7)
    model = train(X, y, C=2, lambda2=1e-7, tol=1e-8)
    assert model.decision_function(X) == pytest.approx(plain.decision_function(X), abs=1e-3)


def test_copies_of_labeled_rows_keep_their_label():
    """Invariant 8: unless the balance forces another one."""
    X, y, _ = two_clouds(11)
    labeled = np.flatnonzero(y)
    X, y = np.vstack([X, X[labeled]]), np.concatenate([y, np.zeros(len(labeled))])
    model = train(X, y, lambda2=30, max_disagree=1)
    assert (model.assigned[-len(labeled) :] == y[labeled]).all()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_fallback(kernel):
    X, y, _ = two_clouds(13, distance=0.3)
    with pytest.warns(FallbackWarning, match=r"differ from the supervised machine's on .*% of the unlabeled"):
        model = train(X, y, kernel=kernel, balance=0.9, max_disagree=0.01)
    note = model.report["semi_supervised"]
    assert note["branch"] == "supervised" and note["disagreement"] > 0.01
    assert model.extras["semi_supervised"] == (0.0,)
    labeled = y != 0
    plain = odmlib.train(
        X[labeled], y[labeled], kernel=kernel, C=model.parameters["C"], gamma=model.formula.gamma, threads=1
    )
    assert model.decision_function(X) == pytest.approx(plain.decision_function(X), abs=1e-3)
    assert (model.assigned == model.predict(X)[~labeled]).all()
    assert model.report["primal"] == note["P_supervised"]


def test_the_objective_falls_and_labels_are_kept():
    """Invariants 4 and 5: the result is never worse than ODM on the first labels."""
    for seed in range(2):
        X, y, _ = two_clouds(20 + seed, distance=0.8)
        for balance in ("band", 0.3):
            model = train(X, y, balance=balance, lambda2=100, max_disagree=1, tol=1e-5)
            low, high = model.report["semi_supervised"]["positives"]
            assert low <= (model.assigned > 0).sum() <= high
            start = train(X, y, balance=balance, lambda2=100, max_disagree=1, tol=1e-5, max_cuts=0)
            assert model.report["primal"] <= start.report["primal"] * (1 + 1e-4)
            assert start.report["semi_supervised"]["J"] is None


@pytest.mark.parametrize("solver", ["mp", "smp"])
def test_published_solvers(solver):
    X, y, truth = two_clouds(2, m=40, n_labeled=10)
    model = train(X, y, solver=solver, max_iter=200, max_cuts=2)
    assert (model.predict(X) == truth).mean() > 0.9
    assert model.report["solver"].startswith(solver + "+")


def test_marks_and_labels():
    X, y, truth = two_clouds(4)
    expected = train(X, y).decision_function(X)
    other = train(X, np.where(y == 0, -1, np.where(y > 0, 1, 0)), unlabeled=-1)  # scikit-learn's mark
    assert set(other.labels) == {0, 1}
    sign = 1 if other.labels[0] == 1 else -1
    assert sign * other.decision_function(X) == pytest.approx(expected, abs=1e-2)
    names = np.where(y == 0, "?", np.where(y > 0, "yes", "no"))
    named = train(X, names, unlabeled="?")
    assert (
        set(named.assigned) <= {"yes", "no"}
        and (np.where(named.predict(X) == "yes", 1, -1) == truth).mean() > 0.9
    )
    mixed = ["yes" if v > 0 else "no" if v < 0 else 0 for v in y]
    assert (train(X, mixed).predict(X) == named.predict(X)).all()
    with pytest.raises(ParameterError, match=r"balance names label 7"):
        train(X, y, balance={7: 0.5})
    with pytest.raises(ParameterError, match=r"must sum to 1, found 0\.9"):
        train(X, y, balance={1: 0.5, -1: 0.4})
    with pytest.raises(ParameterError, match="no row has a label"):
        train(X, np.zeros(len(X)))
    with pytest.raises(ParameterError, match=r"all labeled rows have the same label \(1\)"):
        train(X, np.maximum(y, 0))
    with pytest.raises(ParameterError, match="say the same thing"):
        train(X, y, C=1, lambda1=2)
    with pytest.raises(ParameterError, match=r"lambda_ .* left out"):
        train(X, y, lambda_=2)


def test_more_classes_only_with_fractions():
    rng = np.random.default_rng(0)
    truth = rng.integers(1, 4, 150)
    X = rng.standard_normal((150, 3))
    X[np.arange(150), truth - 1] += 3
    y = np.where(np.arange(150) < 15, truth, 0)
    with pytest.raises(ParameterError, match=r"ssodm on 3 classes \(.*\) needs the fraction of each"):
        train(X, y)
    with pytest.raises(ParameterError, match="is the fraction of one class, but there are 3"):
        train(X, y, balance=0.3)
    with pytest.raises(ParameterError, match="says nothing about label"):
        train(X, y, balance={1: 0.5, 2: 0.5})
    fractions = {c: float((truth[15:] == c).mean()) for c in (1, 2, 3)}
    for kernel in ("linear", "rbf"):
        model = train(X, y, kernel=kernel, balance=fractions)
        assert model.scheme == "ovr" and (model.predict(X) == truth).mean() > 0.85
        assert len(model.report["semi_supervised"]["tasks"]) == 3
        assert (model.assigned == model.predict(X)[15:]).all()
        assert np.isfinite(model.training_margins).all()
        text = io.BytesIO()
        model.save(text)
        assert (odmlib.load_model(text.getvalue()).predict(X) == model.predict(X)).all()


def test_weights():
    """A row of weight 0 might as well not be there; twice all weights changes nothing."""
    X, y, _ = two_clouds(6)
    weights = np.ones(len(y))
    weights[::7] = 0
    weights[np.flatnonzero(y)] = 1
    some = weights > 0
    options = {"tol": 1e-7, "balance": 0.5, "max_cuts": 0, "bias": 1}
    part = train(X[some], y[some], **options)
    whole = train(X, y, sample_weight=2 * weights, **options)
    # the balance counts rows, so the two are the same machine only where it does not bind alike
    assert whole.parameters["lambda1"] == part.parameters["lambda1"]
    labels = y.copy()
    labels[y == 0] = whole.assigned
    per_row = np.where(y != 0, 100 / (y != 0).sum(), 100 / (weights[y == 0].sum()))
    plain = odmlib.train(X, labels, kernel="linear", sample_weight=per_row * weights, tol=1e-7, threads=1)
    assert plain.decision_function(X) == pytest.approx(whole.decision_function(X), abs=1e-5)


def test_limits_leave_a_usable_machine():
    X, y, _ = two_clouds(8)
    for limit in ({"max_iter": 1}, {"time_limit": 1e-9}):
        for kernel in ("linear", "rbf"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = train(X, y, kernel=kernel, tol=1e-9, **limit)
            assert np.isfinite(model.decision_function(X)).all() and len(model.assigned) == (y == 0).sum()
    with pytest.warns(odmlib.ConvergenceWarning, match="callback"):
        train(X, y, kernel="rbf", tol=1e-9, max_disagree=1, callback=lambda progress: True)


def test_same_seed_same_machine():
    X, y, _ = two_clouds(10)
    for kernel in ("linear", "rbf"):
        first, second = (
            odmlib.train(X, y, machine="ssodm", kernel=kernel, threads=threads) for threads in (1, 2)
        )
        assert (first.decision_function(X) == second.decision_function(X)).all()


def test_probabilities_come_from_labeled_rows():
    X, y, _ = two_clouds(12, n_labeled=30)
    model = train(X, y, probability=True)
    p = model.predict_proba(X)
    assert (
        p.sum(axis=1) == pytest.approx(1) and ((p[:, 0] > 0.5) == (model.predict(X) == model.labels[0])).all()
    )
    assert model.report["probability"]["source"] == "5-fold cross-validation"
