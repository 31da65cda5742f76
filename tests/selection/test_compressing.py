"""odmlib.compress: targets, report, probabilities and model files, for every machine and scheme."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import odmlib
from odmlib.errors import ParameterError
from odmlib.model.functions import RoutedFunction
from odmlib.model.text_format import load_model

from ..cli.tools import ROOT


@pytest.fixture(scope="module")
def rings():
    return odmlib.read_data(ROOT / "data" / "rings.txt")


@pytest.fixture(scope="module")
def wine():
    X, y = odmlib.read_data(ROOT / "data" / "wine.txt")
    X = X.toarray()
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def compression(model):
    return model.report["compression"]


def test_report_is_what_the_scores_say(rings):
    X, y = rings
    model = odmlib.train(X, y)
    smaller = odmlib.compress(model, X, y, vectors=40)
    before, after = model.decision_function(X), smaller.decision_function(X)
    found = compression(smaller)
    assert found["vectors"] == smaller.n_support == 40
    assert found["vectors_before"] == model.n_support
    assert found["largest_change"] == np.abs(after - before).max()
    assert found["mean_change"] == np.abs(after - before).mean()
    assert found["labels_changed"] == (model.predict(X) != smaller.predict(X)).sum()
    assert found["accuracy"] == (smaller.predict(X) == y).mean()
    assert found["largest_change"] <= found["norm_of_change"]


def test_objective_is_that_of_the_training(rings):
    X, y = rings
    model = odmlib.train(X, y, C=10, nu=0.3, theta=0.1, tol=1e-6)
    smaller = odmlib.compress(model, X, y, vectors=30)
    z = y * smaller.decision_function(X) * model.labels[0]
    loss = np.maximum(0, 0.9 - z) ** 2 + 0.3 * np.maximum(0, z - 1.1) ** 2
    Z, beta = smaller.function.vectors.to_dense(), smaller.function.coefficients[:, 0]
    K = np.exp(-model.formula.gamma * ((Z[:, None] - Z[None]) ** 2).sum(axis=2))
    found = compression(smaller)["objective"]
    assert found["after"] == pytest.approx(beta @ K @ beta / 2 + 10 / 0.9**2 * loss.sum(), rel=1e-6)
    assert found["before"] == pytest.approx(model.report["primal"], rel=1e-4)
    assert found["after"] > found["before"] * (1 - 1e-9)
    assert found["gap_after"] == pytest.approx(1 - model.report["dual"] / found["after"], abs=1e-9)
    assert compression(odmlib.compress(model, X[:300], y[:300], vectors=30))["objective"] is None


@pytest.mark.parametrize("error", [0.5, 0.05])
def test_error_is_kept_with_few_vectors(rings, error):
    X, y = rings
    model = odmlib.train(X, y)
    smaller = odmlib.compress(model, X, error=error)
    n = smaller.n_support
    assert compression(smaller)["largest_change"] <= error
    assert n < model.n_support
    fewer = odmlib.compress(model, X, vectors=max(1, int(n / 1.2)))
    assert compression(fewer)["largest_change"] > error


def test_accuracy_loss_is_kept(wine):
    X, y = wine
    model = odmlib.train(X, y)
    smaller = odmlib.compress(model, X, y, accuracy_loss=1.0)
    found = compression(smaller)
    assert found["accuracy"] >= found["accuracy_before"] - 0.01
    assert smaller.n_support < model.n_support / 2


def test_nothing_smaller_is_good_enough(rings):
    X, y = rings
    model = odmlib.train(X, y, gamma=1e4, C=100)  # every vector stands alone
    for target in ({"error": 1e-12}, {"vectors": 10**6}):
        same = odmlib.compress(model, X, **target)
        assert same.n_support == model.n_support
        assert compression(same)["largest_change"] == 0.0


@pytest.mark.parametrize("machine", ["svm", "odml", "odm", "mcodm", "kmomd", "sodm", "ssodm"])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "sigmoid"])
def test_machines_and_kernels(wine, machine, kernel):
    X, y = wine
    given = y
    if machine == "ssodm":
        y = np.where(y == 1, 1.0, -1.0)
        given = np.where(np.arange(len(y)) % 4 == 0, y, 0.0)
    numbers = {"gamma": 0.02} if kernel == "sigmoid" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the sigmoid kernel is hard on some machines; any model will do
        model = odmlib.train(X, given, machine=machine, kernel=kernel, **numbers)
    most = model.n_support * 3 // 4
    smaller = odmlib.compress(model, X, y, vectors=most)
    assert smaller.n_support <= most
    changed = np.abs(smaller.decision_function(X) - model.decision_function(X)).max()
    assert changed < 0.15 * np.abs(model.decision_function(X)).max()
    again = load_model(smaller.to_bytes())
    assert again.to_bytes() == smaller.to_bytes()
    assert again.report["compressed_from"] == model.n_support
    assert (again.decision_function(X) == smaller.decision_function(X)).all()


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_probabilities_stay(wine, multiclass):
    X, y = wine
    model = odmlib.train(X, y, multiclass=multiclass, probability=True)
    near = odmlib.compress(model, X, error=1e-3)
    assert compression(near)["probability"] == "kept"
    assert near.extras == model.extras
    far = odmlib.compress(model, X, vectors=6)
    assert compression(far)["probability"] == "fitted to the old ones"
    moved = np.abs(far.predict_proba(X) - model.predict_proba(X)).mean()
    assert moved < 0.1
    assert (far.predict_proba(X).argmax(axis=1) == far.positions(X)).all()


def test_regions_of_sodm(rings):
    X, y = rings
    model = odmlib.train(X, y, machine="sodm", partition="dc", stop_level=1, partitions=4)
    assert isinstance(model.function, RoutedFunction)
    smaller = odmlib.compress(model, X, y, vectors=model.n_support // 2)
    assert isinstance(smaller.function, RoutedFunction)
    assert smaller.function.n_regions == model.function.n_regions
    assert compression(smaller)["labels_changed"] <= 3


def test_max_vectors_in_training(wine):
    X, y = wine
    model = odmlib.train(X, y, max_vectors=20, probability=True)
    assert model.n_support <= 20
    assert compression(model)["objective"] is not None
    np.testing.assert_allclose(model.training_margins, model.margins(X, y), rtol=1e-9)
    assert model.report["margin"]["min"] == model.training_margins.min()
    assert odmlib.train(X, y, max_vectors=10**6).report.get("compression") is None


def test_a_compressed_model_starts_a_training(rings):
    X, y = rings
    model = odmlib.train(X, y)
    smaller = odmlib.compress(model, X, y, error=0.01)
    assert odmlib.train(X, y, init=smaller).report["status"] == "converged"


def test_refused(rings, wine):
    X, y = rings
    model = odmlib.train(X, y)
    for given, message in [
        ({"vectors": 0}, "vectors must be a whole number of 1 or more, found 0"),
        ({"vectors": 2.0}, "whole number"),
        ({"error": -1.0}, "error must be a finite number of 0 or more"),
        ({"error": float("nan")}, "error must be"),
        ({"vectors": 3, "error": 0.1}, "give one of"),
    ]:
        with pytest.raises(ParameterError, match=message):
            odmlib.compress(model, X, **given)
    with pytest.raises(ParameterError, match="needs rows with labels"):
        odmlib.compress(model, X, accuracy_loss=1)
    with pytest.raises(ParameterError, match="600 rows but y has 3"):
        odmlib.compress(model, X, y[:3])
    with pytest.raises(ParameterError, match="weights instead of support vectors"):
        odmlib.compress(odmlib.train(X, y, kernel="linear"))
    dense = wine[0] @ wine[0].T
    with pytest.raises(ParameterError, match="precomputed kernel cannot be compressed"):
        odmlib.compress(odmlib.train(dense, wine[1], kernel="precomputed"), dense)
    with pytest.raises(ParameterError, match=r"max_vectors is for kernels"):
        odmlib.train(X, y, kernel="linear", max_vectors=5)


@pytest.fixture(scope="module")
def waves():
    X = np.random.default_rng(0).uniform(-3, 3, (400, 1))
    return X, np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(400)


def test_intervals_of_regression_hold(waves):
    X, y = waves
    new = np.random.default_rng(2).uniform(-3, 3, (4000, 1))
    targets = np.sin(2 * new[:, 0]) + 0.1 * np.random.default_rng(3).standard_normal(4000)
    model = odmlib.train(X, y, machine="odmr", C=10, epsilon=0.01, coverage=True)
    smaller = odmlib.compress(model, X, y)
    found = compression(smaller)
    change = np.abs(smaller.predict(X) - model.predict(X))
    assert smaller.n_support < model.n_support / 4
    assert found["largest_change"] == change.max() <= 0.1 * model.predict(X).std()
    assert found["labels_changed"] is found["accuracy"] is None
    for name, one in (("mean_squared_error_before", model), ("mean_squared_error", smaller)):
        assert found[name] == pytest.approx(np.mean(np.square(one.predict(X) - y)))
    ends = [one.predict_interval(new, 0.9) for one in (model, smaller)]
    whole, held = (np.mean((inside[:, 0] <= targets) & (targets <= inside[:, 1])) for inside in ends)
    assert whole <= held < whole + 0.05
    before, after = model.interval(0.9), smaller.interval(0.9)
    assert after == pytest.approx((before[0] - change.max(), before[1] + change.max()))
    again = load_model(smaller.to_bytes())
    assert again.to_bytes() == smaller.to_bytes() and again.interval(0.9) == after


def test_regression_of_several_outputs(waves):
    X, y = waves
    model = odmlib.train(X, np.column_stack([y, 1000 * y]), machine="odmr", C=10)
    smaller = odmlib.compress(model, X)
    spread = model.predict(X).std(axis=0)
    assert (np.abs(smaller.predict(X) - model.predict(X)).max(axis=0) <= 0.1 * spread).all()
    assert smaller.n_support < model.n_support / 4
    with pytest.raises(ParameterError, match="the model has 2 outputs but y has 1 column"):
        odmlib.compress(model, X, y)
    with pytest.raises(ParameterError, match="accuracy_loss is for models that tell classes"):
        odmlib.compress(model, X, y, accuracy_loss=1)


def test_the_rate_of_false_alarms_holds():
    random = np.random.default_rng(0)
    X, new = random.standard_normal((500, 2)), random.standard_normal((4000, 2))
    model = odmlib.train(X, machine="odmo", nu=0.1)
    labels = np.append(np.ones(500), -np.ones(50))
    all_rows = np.vstack([X, random.standard_normal((50, 2)) + 6])
    smaller = odmlib.compress(model, all_rows, labels, error=0.05)
    found = compression(smaller)
    assert smaller.n_support < model.n_support / 4
    assert found["labels_changed"] == (smaller.predict(all_rows) != model.predict(all_rows)).sum()
    assert found["accuracy"] == smaller.score(all_rows, labels)
    moved = smaller.decision_function(X) - model.decision_function(X)
    assert moved.min() > -1e-12  # the threshold gave way
    assert moved.max() <= 2 * found["largest_change"] <= 0.1
    assert np.mean(smaller.predict(new) == -1) < 0.12
    assert (smaller.p_values(X) >= model.p_values(X)).all()
    again = load_model(smaller.to_bytes())
    assert again.to_bytes() == smaller.to_bytes()
    assert (again.predict(new) == smaller.predict(new)).all()
    kept = odmlib.compress(model, all_rows, labels, accuracy_loss=1.0)
    assert kept.score(all_rows, labels) >= model.score(all_rows, labels) - 0.01


@pytest.mark.parametrize("machine", ["odmr", "odmo"])
def test_training_of_machines_without_classes_names_the_better_way(machine):
    X = np.random.default_rng(0).standard_normal((30, 2))
    with pytest.raises(ParameterError, match=r"max_vectors.*--approx nystrom --rank N.*odm-compress"):
        odmlib.train(X, X[:, 0], machine=machine, max_vectors=5)
    assert odmlib.train(X, X[:, 0], machine=machine, approx="nystrom", rank=5).n_support == 5
