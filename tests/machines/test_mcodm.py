"""odmlib.train(machine="mcodm"): model, report, file, weights, cross-validation, real sets."""

from __future__ import annotations

import io

import numpy as np
import pytest

import odmlib
from odmlib.data.problem import Problem
from odmlib.errors import ConvergenceWarning, ParameterError
from odmlib.options import TrainOptions
from odmlib.selection.cross_validation import cross_validate
from tests.real_data import real_set
from tests.reference_mcodm import objective
from tests.solvers.multiclass.test_linear import problem

KERNELS = ["linear", "rbf", "poly"]


def train(X, y, **options):
    return odmlib.train(X, y, machine="mcodm", **({"threads": 1} | options))


@pytest.mark.parametrize("kernel", KERNELS)
def test_model_scores_and_report(kernel):
    X, codes = problem(30, m=150, k=4, spread=3)
    names = np.array(["red", "green", "blue", "grey"])
    model = train(X, names[codes], kernel=kernel, C=1.0)
    assert model.scheme == "joint" and model.report["status"] == "converged"
    scores = model.decision_function(X)
    assert scores.shape == (150, 4)
    assert (model.predict(X) == model.labels[scores.argmax(axis=1)]).all()
    assert np.mean(model.predict(X) == names[codes]) > 0.9
    margins = model.margins(X, names[codes])
    np.testing.assert_allclose(model.training_margins, margins, atol=1e-4)
    details = model.report["details"]
    assert details["relaxation"] == "majorise" and details["outer_steps"] >= 0
    assert details["objective"] <= details["relaxed"] * (1 + 1e-12)
    assert model.report["gap"] == pytest.approx((details["relaxed"] - details["dual"]) / details["relaxed"])
    assert model.report["margin"]["mean"] == pytest.approx(margins.mean(), rel=1e-3)


def test_objective_of_the_weights():
    X, y = problem(31, m=120, k=5)
    model = train(X, y, kernel="linear", C=0.7, nu=0.3, theta=0.1)
    weights = np.zeros((6, 5))
    weights[model.function.columns] = model.function.weights
    weights[5] = model.function.bias_weights
    order = [model.labels.tolist().index(code) for code in range(5)]
    costs = np.full(120, 0.7 / 0.81)
    J, _ = objective(np.c_[X, np.ones(120)], y, costs, 0.3, 0.1, weights[:, order])
    assert model.report["details"]["objective"] == pytest.approx(J, rel=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("k", [2, 4])
def test_file_gives_the_model_back(kernel, k):
    X, y = problem(32, m=80, k=k)
    model = train(X, y, kernel=kernel, relaxation="majorise")
    file = io.BytesIO()
    model.save(file)
    again = odmlib.load_model(io.BytesIO(file.getvalue()))
    assert again.machine == "mcodm" and again.scheme == "joint" and again.parameters == model.parameters
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert b"\nrelaxation majorise\n" in file.getvalue()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_two_classes_are_odm_of_twice_the_C(kernel):
    X, y = problem(33, m=100, k=2)
    mc = train(X, y, kernel=kernel, C=1.5, tol=1e-6)
    binary = odmlib.train(X, y, kernel=kernel, C=3.0, tol=1e-6, threads=1)
    assert mc.report["primal"] == pytest.approx(binary.report["primal"] / 2, rel=1e-5)
    scores = mc.decision_function(X)
    assert scores.shape == (100, 2)
    np.testing.assert_allclose(scores[:, 0] - scores[:, 1], binary.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(mc.training_margins, binary.training_margins, atol=1e-5)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_class_weight_is_a_row_weight(kernel):
    X, y = problem(34, m=90, k=3)
    a = train(X, y, kernel=kernel, class_weight={1: 3.0}, nu=0.0, tol=1e-6)
    b = train(X, y, kernel=kernel, sample_weight=np.where(y == 1, 3.0, 1.0), nu=0.0, tol=1e-6)
    assert a.report["primal"] == pytest.approx(b.report["primal"], rel=2e-6)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=5e-3)


def test_precomputed_is_the_kernel():
    X, y = problem(35, m=90, k=3)
    K = np.exp(-0.2 * np.square(X[:, None] - X[None]).sum(axis=2))
    a = train(X, y, kernel="rbf", gamma=0.2, tol=1e-5, nu=0.0)
    b = train(K, y, kernel="precomputed", tol=1e-5, nu=0.0)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(K), atol=5e-3)


def test_kernel_that_is_not_positive_semidefinite():
    X, y = problem(36, m=90, k=3)
    model = train(X, y, kernel="sigmoid", gamma=0.1, coef0=-1.0)
    assert model.report["status"] == "converged" and model.report["details"]["shift"] > 0
    np.testing.assert_allclose(model.margins(X, y), model.training_margins, atol=1e-4)


def test_frozen_is_another_machine():
    X, y = problem(37, m=120, k=4, spread=4)
    majorised = train(X, y, kernel="linear", C=10)
    frozen = train(X, y, kernel="linear", C=10, relaxation="frozen", tol=1e-2)
    assert frozen.report["details"]["relaxation"] == "frozen"
    assert majorised.report["details"]["objective"] < frozen.report["details"]["objective"]


def test_start_from_a_model():
    X, y = problem(38, m=200, k=5)
    cold = train(X, y, kernel="linear", C=100)
    warm = train(X, y, kernel="linear", C=100, init=cold)
    assert warm.report["status"] == "converged" and warm.report["iterations"] < cold.report["iterations"]
    with pytest.raises(ParameterError, match="labels"):
        train(X[y < 4], y[y < 4], kernel="linear", init=cold)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_every_solver_starts_from_a_model(kernel, k):
    X, y = problem(45, m=300, k=k, spread=1.5)
    options = {"kernel": kernel, "C": 2, "tol": 1e-4}
    cold = train(X, y, **options)
    order = np.random.default_rng(0).permutation(len(y))  # labels appear in another order
    for solver in ("auto", "dcd") if kernel == "linear" else ("auto",):
        whole = train(X[order], y[order], solver=solver, **options)
        warm = train(X[order], y[order], solver=solver, init=cold, **options)
        assert warm.report["status"] == "converged"
        assert warm.report["iterations"] < whole.report["iterations"]
        assert warm.report["details"]["objective"] <= cold.report["details"]["objective"] * (1 + 2e-4)


def test_start_with_no_time_left_says_what_it_knows():
    X, y = problem(46, m=200, k=4)
    cold = train(X, y, kernel="rbf", C=2)
    with pytest.warns(ConvergenceWarning):
        warm = train(X, y, kernel="rbf", C=2, init=cold, time_limit=1e-9)
    assert warm.report["status"] == "time_limit" and warm.report["gap"] <= 1


def test_linear_machine_does_not_start_from_a_kernel():
    X, y = problem(47, m=60, k=3)
    with pytest.raises(ParameterError, match="model to start from has a kernel"):
        train(X, y, kernel="linear", init=train(X, y, kernel="rbf"))


def test_refused():
    X, y = problem(39, m=30, k=3)
    with pytest.raises(ParameterError, match=r"relaxation .* majorise, frozen, found 'fixed'"):
        train(X, y, relaxation="fixed")
    with pytest.raises(ParameterError, match=r"multiclass .* mcodm trains all classes together"):
        train(X, y, multiclass="ovr")
    with pytest.raises(ParameterError, match=r"solver .* found 'svrg'"):
        train(X, y, kernel="linear", solver="svrg")
    with pytest.raises(ParameterError, match="same label"):
        train(X, np.zeros(30))


def test_same_bytes_with_any_number_of_threads():
    X, y = problem(40, m=300, k=4)
    for kernel in ("linear", "rbf"):
        files = []
        for threads in (1, 3):
            file = io.BytesIO()
            train(X, y, kernel=kernel, C=0.5, threads=threads).save(file)
            files.append(file.getvalue())
        assert files[0] == files[1]


def test_cross_validation():
    X, y = real_set("iris")
    problem_ = Problem.from_arrays(X, y)
    options = TrainOptions(machine="mcodm", kernel="linear", C=1.0, threads=1)
    assert cross_validate(problem_, options, 5).accuracy > 0.94


SETS = ["iris", "wine.scale", "glass.scale", "vowel.scale", "segment.scale", "dna.scale", "svmguide4"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SETS, "pendigits", "letter"])
def test_real_sets_reach_the_gap(name):
    X, y = real_set(name)
    for exponent in (-5, 0, 5, 10):
        model = train(X, y, kernel="linear", C=2.0**exponent)
        assert model.report["status"] == "converged" and model.report["gap"] <= 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["iris", "wine.scale", "glass.scale", "vowel.scale"])
@pytest.mark.parametrize("lambda_", [2.0**14, 2.0**20])
def test_real_sets_at_the_papers_largest_lambda(name, lambda_):
    X, y = real_set(name)
    model = train(X, y, kernel="linear", lambda_=lambda_, nu=0.4, theta=0.4)
    assert model.report["status"] == "converged"


@pytest.mark.parametrize("k", [2, 3])
def test_the_bound_of_theorem_1(k):
    random = np.random.default_rng(k)
    y = np.arange(60) % k
    X = random.normal(size=(60, 4)) + 2 * np.eye(4)[y]
    model = odmlib.train(X, y, machine="mcodm", kernel="linear", bias=-1, tol=1e-8, theta=0.3)
    bound = model.report["details"]["generalisation_bound"]
    terms = model.function.terms.to_dense()
    norm = np.sqrt((terms**2).sum())
    radius = np.sqrt((X**2).sum(axis=1).max())
    assert bound["complexity"] == pytest.approx(
        16 * radius * norm / 0.7 * np.sqrt(2 * np.pi * k / 60), rel=1e-4
    )
    margins = model.margins(X, y)
    expected = np.where(margins <= 0, 1, np.where(margins <= 0.7, (margins - 0.7) ** 2 / 0.49, 0)).mean()
    assert bound["loss"] == pytest.approx(expected, rel=1e-6)
    assert bound["error"] == pytest.approx(bound["loss"] + bound["complexity"] + bound["chance"])
    weighted = odmlib.train(X, y, machine="mcodm", kernel="linear", sample_weight=1 + y)
    assert "generalisation_bound" not in weighted.report["details"]
