"""KM-OMD through odmlib.train, the model file and odm-train."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel, sigmoid_kernel
from sklearn.neighbors import NearestCentroid
from sklearn.svm import SVC, LinearSVC

import odmlib
from odmlib.cli import predict as odm_predict
from odmlib.cli import train as odm_train
from odmlib.errors import ParameterError
from odmlib.machines.kmomd import path, with_threshold
from tests.reference_kmomd import objective, solve_by_pairs

DATA = Path(__file__).resolve().parent.parent.parent / "data"
T2 = np.array([[2.0, 0.0], [1, 2], [3, 1], [0, 0], [-1, 1], [0, -2]])
T2_LABELS = [1, 1, 1, -1, -1, -1]
XOR = np.array([[0.0, 0.0], [1, 1], [0, 1], [1, 0]])


def clouds(seed=0, m=120, d=4, share=0.3):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(m) < share, 1, -1)
    return rng.standard_normal((m, d)) + 0.8 * y[:, None] * (np.arange(d) < 2), y


def train(X, y, **options):
    options = {"tol": 1e-10} | options
    return odmlib.train(X, y, machine="kmomd", **options)


# ------------------------------------------------------------------------------------ oracles, scales


@pytest.mark.parametrize("solver", ["newton", "pairs"])
def test_oracle_2_as_a_linear_machine(solver):
    model = train(T2, T2_LABELS, kernel="linear", lambda_=0.5, solver=solver)
    norm = np.sqrt(1217 / 361)
    assert model.report["status"] == "converged"
    assert model.report["primal"] == pytest.approx(89 / 38, rel=1e-9)
    scores = np.array([62, 63, 109, 0, -15, -32]) / 19
    assert model.decision_function(T2) == pytest.approx((scores - 1157 / 722) / norm, abs=1e-6)
    assert model.extras["theta_midpoint"][0] == pytest.approx(1157 / 722 / norm, abs=1e-6)
    assert model.extras["theta_kkt"][0] == pytest.approx(55 / 38 / norm, abs=1e-6)
    assert model.extras["norm"][0] == pytest.approx(norm)
    kkt = train(T2, T2_LABELS, kernel="linear", lambda_=0.5, solver=solver, threshold="kkt")
    assert kkt.decision_function(T2) == pytest.approx((scores - 55 / 38) / norm, abs=1e-6)
    assert with_threshold(model, "kkt").decision_function(T2) == pytest.approx(
        kkt.decision_function(T2), abs=1e-6
    )
    positive, negative = scores[:3], scores[3:]
    ranking = model.report["details"]["ranking_margin"]
    differences = (positive[:, None] - negative).ravel() / norm
    assert ranking["mean"] == pytest.approx(differences.mean(), abs=1e-6)
    assert ranking["variance"] == pytest.approx(differences.var(), abs=1e-6)
    assert ranking["min"] == pytest.approx(differences.min(), abs=1e-6)


def test_hard_margin():
    model = train(T2, T2_LABELS, kernel="linear", lambda_=0)
    assert model.report["solver"] == "pairs"
    assert model.report["margin"]["min"] == pytest.approx(np.sqrt(3.2) / 2)
    svm = SVC(kernel="linear", C=1e10, tol=1e-10).fit(T2, T2_LABELS)
    unit = svm.decision_function(T2) / np.linalg.norm(svm.coef_)
    assert model.decision_function(T2) == pytest.approx(unit, abs=1e-5)
    svm_scale = train(T2, T2_LABELS, kernel="linear", lambda_=0, decision_scale="svm")
    assert svm_scale.decision_function(T2) == pytest.approx(svm.decision_function(T2), abs=1e-5)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_not_separable(kernel):
    X = XOR if kernel == "linear" else np.vstack([XOR, XOR[:1]])
    y = [1, 1, 2, 2] if kernel == "linear" else [1, 1, 2, 2, 2]
    with pytest.raises(ParameterError, match=r"not separable.*lambda"):
        train(X, y, kernel=kernel, lambda_=0)
    assert train(X, y, kernel=kernel, lambda_=1e-6, tol=1e-3).report["status"] == "converged"


def test_svm_scale_is_the_l2_svm():
    """LIBLINEAR's squared hinge with a free bias, as near as it gets to one; and LIBSVM on K + mu I."""
    X, y = clouds(1)
    for lam in (0.7, 0.05):
        C = (1 - lam) / lam
        model = train(X, y, lambda_=lam, gamma=0.4, threshold="kkt", decision_scale="svm")
        K = rbf_kernel(X, gamma=0.4)
        svm = SVC(kernel="precomputed", C=1e10, tol=1e-10).fit(K + np.eye(len(y)) / C, y)
        alpha = np.zeros(len(y))
        alpha[svm.support_] = svm.dual_coef_[0]
        assert model.decision_function(X) == pytest.approx(K @ alpha + svm.intercept_[0], abs=1e-5)
        linear = train(X, y, kernel="linear", C=C, threshold="kkt", decision_scale="svm")
        peer = LinearSVC(loss="squared_hinge", C=C / 2, intercept_scaling=300, tol=1e-10, max_iter=10**6)
        peer.fit(X, y)
        assert linear.decision_function(X) == pytest.approx(peer.decision_function(X), abs=2e-3)
        assert linear.parameters["lambda"] == pytest.approx(lam)


def test_default_lambda_and_C():
    X, y = clouds(2)
    assert train(X, y).parameters["lambda"] == 0.1
    assert train(X, y, C=9).parameters["lambda"] == pytest.approx(0.1)
    assert train(X, y, C=9).report["primal"] == pytest.approx(train(X, y).report["primal"], rel=1e-9)


# ------------------------------------------------------------------------------------ end points


def test_centroids():
    X, y = clouds(3)
    for kernel in ("linear", "rbf"):
        model = train(X, y, kernel=kernel, lambda_=1, gamma=0.3)
        K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.3)
        weights = np.where(y > 0, 1 / (y > 0).sum(), -1 / (y < 0).sum())
        scores = K @ weights
        norm = np.sqrt(weights @ scores)
        theta = np.abs(weights) @ scores / 2
        assert model.decision_function(X) == pytest.approx((scores - theta) / norm, abs=1e-6)
        assert "theta_kkt" not in model.extras
    peer = NearestCentroid().fit(X, y)
    assert (train(X, y, kernel="linear", lambda_=1).predict(X) == peer.predict(X)).all()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_average_margin_classifier(kernel):
    X, y = clouds(4)
    K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.3)
    model = train(X, y, kernel=kernel, lambda_=1, threshold="none", gamma=0.3)
    omega = y / len(y)
    norm = np.sqrt(omega @ K @ omega)
    assert model.decision_function(X) == pytest.approx(K @ omega / norm, abs=1e-6)
    assert not model.function.offsets.any()
    # no other unit vector has a larger mean margin: the mean is |v| itself
    assert (y * model.decision_function(X)).mean() == pytest.approx(norm, rel=1e-6)
    assert model.report["primal"] == pytest.approx(norm, rel=1e-6)
    balanced = train(X, y, kernel=kernel, lambda_=1, threshold="none", gamma=0.3, class_weight="balanced")
    centroids = train(X, y, kernel=kernel, lambda_=1, gamma=0.3)
    shifted = balanced.decision_function(X) - centroids.decision_function(X)
    assert shifted == pytest.approx(np.full(len(y), shifted[0]), abs=1e-6)
    assert "theta_midpoint" not in model.extras


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lambda_": 1.5}, "at least 0 and at most 1, found 1.5"),
        ({"lambda_": -0.1}, "at least 0 and at most 1"),
        ({"C": 0}, "above 0"),
        ({"threshold": "middle"}, "threshold.*midpoint, kkt, none"),
        ({"threshold": "none"}, "needs lambda 1, found 0.1"),
        ({"threshold": "kkt", "lambda_": 1}, "threshold kkt needs lambda"),
        ({"decision_scale": "svm", "lambda_": 1}, "decision_scale svm needs lambda"),
        ({"solver": "dcd"}, "solver.*auto, pairs"),
        ({"solver": "newton", "kernel": "linear", "lambda_": 0}, "newton needs lambda"),
        ({"C": 1, "lambda_": 0.1}, "give one of them"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ParameterError, match=message):
        train(T2, T2_LABELS, **options)


# ----------------------------------------------------------------------------- kernels, weights, classes


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "precomputed"])
def test_every_kernel_reaches_the_optimum(kernel):
    X, y = clouds(5, m=50)
    K = {
        "linear": lambda: X @ X.T,
        "poly": lambda: polynomial_kernel(X, degree=2, gamma=0.3, coef0=1),
        "rbf": lambda: rbf_kernel(X, gamma=0.3),
        "precomputed": lambda: rbf_kernel(X, gamma=0.3),
    }[kernel]()
    given = K if kernel == "precomputed" else X
    model = train(given, y, kernel=kernel, lambda_=0.3, gamma=0.3, degree=2, coef0=1)
    gamma = solve_by_pairs(K, y.astype(float), 0.3)
    assert model.report["primal"] == pytest.approx(objective(K, y, 0.3, gamma), rel=1e-8)
    scores = K @ (y * gamma)
    norm = np.sqrt(gamma @ (y * scores))
    assert model.decision_function(given) == pytest.approx((scores - gamma @ scores / 2) / norm, abs=1e-4)
    assert model.training_margins == pytest.approx(y * model.decision_function(given), abs=1e-6)


def test_indefinite_kernel_is_shifted():
    X, y = clouds(6)
    model = train(X, y, kernel="sigmoid", gamma=0.5, coef0=-1, lambda_=0.5)
    assert model.report["status"] == "converged"
    assert model.report["details"]["shift"] > 0
    assert model.training_margins == pytest.approx(y * model.decision_function(X), abs=1e-6)
    assert np.linalg.eigvalsh(sigmoid_kernel(X, gamma=0.5, coef0=-1))[0] < -1e-3
    scores = model.decision_function(X) + model.function.offsets[0]
    gamma = np.zeros(len(y))
    vectors = model.function.vectors.to_dense()
    rows = [int(np.square(X - vector).sum(axis=1).argmin()) for vector in vectors]
    gamma[rows] = np.abs(model.function.coefficients[:, 0])
    norm = model.extras["norm"][0]
    assert gamma.sum() * norm == pytest.approx(2)
    # half way between the two points, as new rows see them
    assert model.function.offsets[0] == pytest.approx(gamma * norm @ scores / 2, abs=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("threshold", ["midpoint", "kkt"])
def test_weight_2_is_the_row_twice(kernel, threshold):
    X, y = clouds(7, m=60)
    weights = np.random.default_rng(8).integers(0, 4, 60)
    rows = np.repeat(np.arange(60), weights)
    options = {"kernel": kernel, "lambda_": 0.2, "gamma": 0.3, "threshold": threshold}
    weighted = train(X, y, sample_weight=weights, **options)
    repeated = train(X[rows], y[rows], **options)
    assert weighted.report["primal"] == pytest.approx(repeated.report["primal"], rel=1e-9)
    assert weighted.decision_function(X) == pytest.approx(repeated.decision_function(X), abs=1e-5)
    by_class = train(X, y, class_weight={1: 3}, **options)
    as_rows = train(X, y, sample_weight=np.where(y == 1, 3.0, 1.0), **options)
    assert by_class.decision_function(X) == pytest.approx(as_rows.decision_function(X), abs=1e-6)


def test_bias_changes_nothing():
    X, y = clouds(9)
    for kernel in ("linear", "rbf"):
        plain, biased = (train(X, y, kernel=kernel, gamma=0.3, bias=bias) for bias in (-1, 5))
        assert plain.decision_function(X).tolist() == biased.decision_function(X).tolist()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("threads", [1, 2])
def test_many_classes_are_one_versus_rest(kernel, threads):
    rng = np.random.default_rng(10)
    X = rng.standard_normal((150, 3))
    y = np.array(["a", "b", "c"])[X.argmax(axis=1)]
    model = train(X, y, kernel=kernel, gamma=0.5, lambda_=0.1, threads=threads, tol=1e-6)
    assert model.scheme == "ovr"
    assert len(model.extras["theta_midpoint"]) == len(model.extras["theta_kkt"]) == 3
    scores = model.decision_function(X)
    for place, label in enumerate(model.labels):
        one = train(X, np.where(y == label, 1, -1), kernel=kernel, gamma=0.5, lambda_=0.1, tol=1e-6)
        assert scores[:, place] == pytest.approx(one.decision_function(X), abs=1e-3)
    assert (model.predict(X) == y).mean() > 0.9
    duels = train(X, y, kernel=kernel, gamma=0.5, multiclass="ovo", tol=1e-4)
    assert (duels.scheme, len(duels.extras["norm"])) == ("ovo", 3)


def test_classes_share_a_small_cache():
    rng = np.random.default_rng(11)
    X = rng.standard_normal((300, 3))
    y = X.argmax(axis=1)
    rich, poor = (train(X, y, gamma=0.5, tol=1e-4, cache_mb=cache) for cache in (100, 0.1))
    assert rich.report["status"] == poor.report["status"] == "converged"
    assert poor.decision_function(X) == pytest.approx(rich.decision_function(X), abs=1e-2)


# ------------------------------------------------------------------------------------ path, starts, files


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_path_equals_single_runs(kernel):
    X, y = clouds(12)
    lambdas = [0.1, 1, 0.9, 0.5, 0.01]
    models = path(X, y, lambdas, kernel=kernel, gamma=0.3, tol=1e-8)
    assert [model.parameters["lambda"] for model in models] == lambdas
    for lam, model in zip(lambdas, models, strict=True):
        one = train(X, y, kernel=kernel, gamma=0.3, lambda_=lam, tol=1e-8)
        assert model.report["gap"] <= 1e-8
        assert model.report["primal"] == pytest.approx(one.report["primal"], rel=1e-7)
        assert model.decision_function(X) == pytest.approx(one.decision_function(X), abs=1e-3)


def test_path_on_features_that_nobody_scaled():
    """What one lambda hands to the next is a v of any length; only its direction may count."""
    X, y = odmlib.read_data(DATA / "wdbc.train.txt")
    lambdas = [1, 0.5, 0.2, 0.1]
    models = path(X, y, lambdas, kernel="linear")
    assert [model.report["status"] for model in models] == ["converged"] * 4
    alone = [train(X, y, kernel="linear", lambda_=lam, tol=1e-3) for lam in lambdas]
    assert sum(m.report["iterations"] for m in models) < sum(m.report["iterations"] for m in alone)


def test_path_of_three_classes_and_of_nothing():
    rng = np.random.default_rng(13)
    X = rng.standard_normal((60, 3))
    models = path(X, X.argmax(axis=1), [0.5, 0.1])
    assert [model.scheme for model in models] == ["ovr", "ovr"]
    assert path(X, X.argmax(axis=1), []) == []


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_starting_from_a_model(kernel):
    X, y = clouds(14)
    options = {"kernel": kernel, "gamma": 0.3, "lambda_": 0.2}
    first = train(X, y, **options)
    again = train(X, y, init=first, **{**options, "tol": 1e-6})
    assert again.report["iterations"] <= 1
    assert again.decision_function(X) == pytest.approx(first.decision_function(X), abs=1e-3)
    other = odmlib.train(X, y, kernel="rbf")
    assert train(X, y, init=other, **options).report["primal"] == pytest.approx(
        first.report["primal"], rel=1e-8
    )
    hard = train(X, y, init=other, kernel="rbf", gamma=5.0, lambda_=0, tol=1e-3)
    assert hard.report["status"] == "converged"


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_model_file_round_trip(kernel):
    X, y = clouds(15)
    given = rbf_kernel(X) if kernel == "precomputed" else X
    model = train(given, y, kernel=kernel, threshold="kkt", tol=1e-4)
    stream = io.BytesIO()
    model.save(stream)
    loaded = odmlib.load_model(stream.getvalue())
    assert loaded.decision_function(given).tolist() == model.decision_function(given).tolist()
    assert loaded.extras == model.extras
    assert loaded.parameters == model.parameters
    assert with_threshold(loaded, "midpoint").parameters["threshold"] == "midpoint"
    with pytest.raises(ParameterError, match="no threshold 'none'"):
        with_threshold(loaded, "none")


def write_rows(folder, X, y, name="train.txt"):
    target = folder / name
    odmlib.write_data(target, X, np.asarray(y, dtype=float))
    return str(target)


def test_command_line(tmp_path, capsys):
    X, y = clouds(16)
    data, model, report, out = write_rows(tmp_path, X, y), tmp_path / "m", tmp_path / "r", tmp_path / "o"
    assert (
        odm_train.main(
            ["-s", "4", "--lambda", "0.3", "--threshold", "kkt", "--json", str(report), data, str(model)]
        )
        == 0
    )
    content = json.loads(report.read_text())
    assert content["parameters"]["lambda"] == 0.3
    assert content["parameters"]["threshold"] == "kkt"
    assert content["details"]["theta_midpoint"] != content["details"]["theta_kkt"]
    text = model.read_text()
    assert "\nmachine kmomd\n" in text
    assert "\ntheta_midpoint " in text
    assert "\ntheta_kkt " in text
    assert odm_predict.main([data, str(model), str(out)]) == 0
    assert "Accuracy = " in capsys.readouterr().out
    assert odm_train.main(["-s", "kmomd", "-v", "3", "--lambda", "1", data]) == 0
    assert "Cross Validation Accuracy = " in capsys.readouterr().out
    assert odm_train.main(["-s", "4", "--lambda", "2", data, str(model)]) == 2
    assert "--lambda must be at least 0 and at most 1, found 2" in capsys.readouterr().err


def test_not_separable_on_the_command_line(tmp_path, capsys):
    data, model = write_rows(tmp_path, XOR, [1, 1, -1, -1]), tmp_path / "m"
    assert odm_train.main(["-q", "-s", "4", "-t", "0", "--lambda", "0", data, str(model)]) == 1
    message = capsys.readouterr().err
    assert message.startswith("odm-train: not separable")
    assert message.count("\n") == 1
    assert not model.exists()


def test_entropy_of_the_distribution():
    """The paper's E(gamma): 1 for the centroids, and falling with lambda (its Figure 2)."""
    random = np.random.default_rng(2)
    X = np.concatenate([random.normal(0.8, 1, (30, 2)), random.normal(-0.8, 1, (20, 2))])
    y = np.repeat([1, 2], [30, 20])
    entropies = [
        odmlib.train(X, y, machine="kmomd", gamma=0.5, lambda_=lam, tol=1e-8).report["details"]["entropy"]
        for lam in (1.0, 0.3, 0.03)
    ]
    assert entropies[0] == pytest.approx(1, abs=1e-12)
    assert 1 > entropies[1] > entropies[2] > 0
    model = odmlib.train(X, y, machine="kmomd", gamma=0.5, lambda_=0.3, tol=1e-8)
    gamma = np.abs(model.function.terms.to_dense()[:, 0])
    sides = y[model.function.rows]
    expected = 0.0
    for label, n in ((1, 30), (2, 20)):
        part = gamma[sides == label] / gamma[sides == label].sum()
        expected -= (part @ np.log(part)) / np.log(n) / 2
    assert entropies[1] == pytest.approx(expected)
    weighted = odmlib.train(X, y, machine="kmomd", gamma=0.5, lambda_=0.3, tol=1e-8, sample_weight=[2] * 50)
    doubled = np.concatenate([X, X]), np.concatenate([y, y])
    twice = odmlib.train(*doubled, machine="kmomd", gamma=0.5, lambda_=0.3, tol=1e-8)
    assert weighted.report["details"]["entropy"] == pytest.approx(
        twice.report["details"]["entropy"], rel=1e-4
    )
