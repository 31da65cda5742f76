"""odmlib.train with kernels, against the linear reference on features that give the same kernel matrix."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from scipy import sparse

import odmlib
from odmlib.kernels.formula import KernelFormula
from odmlib.model.functions import KernelFunction
from tests.reference_kernel import kernel_matrix
from tests.reference_linear import random_problem, reference

# kernel values are held in float32: scores are good to six digits or so
SCORE_ERROR = 2e-5

KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.3},
    "rbf with bias": {"kernel": "rbf", "gamma": 0.3, "bias": 2.0},
    "poly": {"kernel": "poly", "gamma": 0.2, "degree": 2, "coef0": 1.0},
    "poly without bias": {"kernel": "poly", "gamma": 0.2, "degree": 3, "coef0": 0.5, "bias": -1},
}


@pytest.fixture(scope="module")
def problem():
    X, y = random_problem(n=120, d=4, seed=80)
    return X, y * np.where(np.abs(X[:, 0]) > 1.2, -1, 1)


def features(model, X):
    """Rows whose products are the kernel's values."""
    K = np.asarray(kernel_matrix(model.formula, X), dtype=float)
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("C", "nu", "theta"), [(1.0, 0.5, 0.2), (0.05, 1.0, 0.0), (10.0, 0.0, 0.0)])
def test_reaches_the_reference_optimum(problem, name, C, nu, theta):
    X, y = problem
    model = odmlib.train(X, y, C=C, nu=nu, theta=theta, tol=1e-6, **KERNELS[name])
    best = reference(features(model, X), y, C=C, nu=nu, theta=theta, bias=0.0)
    w = best.solve()
    report = model.report
    assert report["status"] == "converged"
    assert best.primal(w) * (1 - 1e-5) <= report["primal"] <= best.primal(w) * (1 + 1e-5)
    assert report["dual"] <= best.primal(w) * (1 + 1e-5)
    # 1/2 |f - f*|^2 <= gap in the kernel's space, so scores differ by at most sqrt(2 gap k(x, x))
    K_max = float(np.max(np.square(best.X).sum(axis=1)))
    allowed = np.sqrt(2 * report["gap"] * max(1, report["primal"]) * K_max) + SCORE_ERROR * max(1, K_max)
    assert np.max(np.abs(model.decision_function(X) - best.X @ w)) <= allowed


def test_default_bias_and_gamma(problem):
    X, y = problem
    X = X * 3 + 1
    for kernel, bias in (("rbf", 0.0), ("poly", 1.0), ("sigmoid", 0.0), ("linear", 1.0)):
        options = {"coef0": 1.0} if kernel == "poly" else {}
        with np.errstate(all="raise"):
            model = odmlib.train(X[:30], y[:30], kernel=kernel, C=1e-3, tol=0.5, **options)
        assert model.formula.bias == bias, kernel
    assert odmlib.train(X, y, gamma="scale").formula.gamma == pytest.approx(1 / (4 * X.var()))
    assert odmlib.train(sparse.csr_array(X), y).formula.gamma == pytest.approx(1 / (4 * X.var()))
    assert odmlib.train(X, y, gamma="auto").formula.gamma == 1 / 4


def test_gamma_of_constant_data():
    model = odmlib.train(np.ones((4, 2)), [1, -1, 1, 1])
    assert model.formula.gamma == 1.0
    assert model.report["status"] == "converged"


def test_a_precomputed_kernel_is_the_kernel(problem):
    X, y = problem
    model = odmlib.train(X, y, kernel="rbf", gamma=0.3, tol=1e-6)
    K = np.asarray(kernel_matrix(KernelFormula("rbf", gamma=0.3), X), dtype=float)
    given = odmlib.train(K, y, kernel="precomputed", tol=1e-6)
    assert given.report["primal"] == pytest.approx(model.report["primal"], rel=1e-4)
    np.testing.assert_allclose(given.decision_function(K), model.decision_function(X), atol=5e-3)
    with pytest.raises(odmlib.ParameterError, match="square"):
        odmlib.train(K[:, :-1], y, kernel="precomputed")
    with pytest.raises(odmlib.ParameterError, match="kernel values"):
        given.predict(K[:, :-1])


def test_support_vectors_and_scores(problem):
    X, y = problem
    model = odmlib.train(X, y, kernel="rbf", gamma=0.3, theta=0.5, tol=1e-6)
    function = model.function
    assert isinstance(function, KernelFunction)
    assert 0 < model.n_support == model.report["support_vectors"] == function.vectors.n_rows < len(y)
    K = np.asarray(kernel_matrix(model.formula, X, function.vectors.to_dense()), dtype=float)
    np.testing.assert_allclose(model.decision_function(X), K @ function.coefficients[:, 0], atol=1e-4)


def test_row_weights(problem):
    X, y = problem
    options = {"kernel": "rbf", "gamma": 0.3, "tol": 1e-6, "C": 0.5}
    weights = np.where(np.arange(120) < 30, 2.0, 1.0)
    twice = np.concatenate([np.arange(120), np.arange(30)])
    one = odmlib.train(X, y, sample_weight=weights, **options)
    other = odmlib.train(X[twice], y[twice], **options)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-2)
    assert one.report["primal"] == pytest.approx(other.report["primal"], rel=1e-4)
    kept = np.arange(120) % 5 != 0
    one = odmlib.train(X, y, sample_weight=kept, **options)
    other = odmlib.train(X[kept], y[kept], **options)
    assert one.report["primal"] == pytest.approx(other.report["primal"], rel=1e-4)


@pytest.mark.parametrize("shrinking", [True, False])
def test_shrinking_changes_nothing(problem, shrinking):
    X, y = problem
    model = odmlib.train(X, y, kernel="rbf", gamma=0.3, theta=0.6, tol=1e-6, shrinking=shrinking)
    best = reference(features(model, X), y, theta=0.6, bias=0.0)
    assert model.report["primal"] == pytest.approx(best.primal(best.solve()), rel=1e-5)


def test_init_starts_near_the_optimum():
    X, y = random_problem(n=1500, d=5, seed=81, noise=1.0)
    options = {"kernel": "rbf", "gamma": 0.2, "tol": 1e-3}
    cold = odmlib.train(X, y, **options)
    again = odmlib.train(X, y, init=cold, **options)
    assert again.report["iterations"] < cold.report["iterations"]
    assert again.report["status"] == "converged"
    turned = odmlib.train(X[::-1], -y[::-1], init=cold, **options)  # labels told apart by name, not by place
    assert turned.report["status"] == "converged"
    linear = odmlib.train(X, y, kernel="linear", init=cold)  # any machine may be a start
    assert linear.report["status"] == "converged"
    assert odmlib.train(X, y, init=linear, **options).report["status"] == "converged"


def test_same_seed_same_bytes_for_any_number_of_threads(problem):
    X, y = random_problem(n=1500, d=5, seed=82)
    models = [odmlib.train(X, y, kernel="rbf", threads=threads, seed=1) for threads in (1, 1, 2, 3)]
    assert len({model.function.coefficients.tobytes() for model in models}) == 1
    assert len({model.decision_function(X, threads=t).tobytes() for t in (1, 2, 3) for model in models}) == 1


def test_save_load_pickle(problem, tmp_path):
    X, y = problem
    for name, options in KERNELS.items():
        model = odmlib.train(X, y, **options)
        model.save(tmp_path / "model")
        for copy in (odmlib.load_model(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
            assert copy.decision_function(X).tobytes() == model.decision_function(X).tobytes(), name


def test_trainings_in_several_threads_do_not_disturb_each_other():
    X, y = random_problem(n=800, d=5, seed=83)
    settings = [{"C": C, "gamma": gamma} for C in (0.1, 1.0) for gamma in (0.1, 0.5)]

    def coefficients(setting):
        return odmlib.train(X, y, kernel="rbf", threads=1, **setting).function.coefficients.tobytes()

    one_after_the_other = [coefficients(setting) for setting in settings]
    together: list = [None] * len(settings)

    def work(place):
        together[place] = coefficients(settings[place])

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(settings))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == one_after_the_other


def test_statuses(problem):
    X, y = problem
    with pytest.warns(odmlib.ConvergenceWarning, match="callback asked to stop"):
        odmlib.train(X, y, C=100, tol=1e-9, callback=lambda progress: True)
    with pytest.warns(odmlib.ConvergenceWarning, match="time limit"):
        odmlib.train(X, y, C=100, tol=1e-9, time_limit=1e-9)
    told = []
    model = odmlib.train(X, y, callback=lambda progress: told.append(progress))
    assert told[-1].gap <= model.report["gap"] <= told[-1].gap + 1e-9  # the model's includes rounding
    assert told[0].iteration == 0

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        odmlib.train(X, y, callback=interrupt)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.zeros((4, 2)), [1, -1, 1, 1]),
        (np.repeat(np.eye(2), 3, axis=0), [1, -1, 1, 1, -1, 1]),
        (np.zeros((4, 0)), [1, -1, 1, 1]),
        (np.eye(2), [1, -1]),
    ],
    ids=["zero rows", "opposite labels", "no columns", "two rows"],
)
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_degenerate_data(X, y, kernel):
    model = odmlib.train(X, y, kernel=kernel, C=3.0, tol=1e-5)
    assert model.report["status"] == "converged"
    best = reference(features(model, X), y, C=3.0, bias=0.0)
    assert model.report["primal"] == pytest.approx(best.primal(best.solve()), rel=1e-4)
