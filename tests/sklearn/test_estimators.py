"""The estimators against odmlib.train, and inside scikit-learn's own machinery."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")

import joblib
import scipy.sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import odmlib
from odmlib.options import DEFAULTS, option_fields
from odmlib.sklearn import (
    KMOMDClassifier,
    LinearODM,
    MultiClassODM,
    ODMClassifier,
    ODMLClassifier,
    SVMClassifier,
)
from odmlib.sklearn.base import OWN_PARAMETERS

ALL = [ODMClassifier, LinearODM, ODMLClassifier, MultiClassODM, KMOMDClassifier, SVMClassifier]


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def options_of(estimator):
    kernel = {} if hasattr(estimator, "kernel") else {"kernel": "linear"}
    return {"machine": estimator.machine, "threads": 2} | kernel


@pytest.mark.parametrize("make", ALL)
def test_the_same_machine_as_odmlib_train(make, iris, cancer):
    for X, y in (iris, cancer):
        estimator = make(n_jobs=2).fit(X, y)
        # the order of the labels decides which side is positive, and so the path of the solver
        order = np.argsort(y, kind="stable") if len(np.unique(y)) > 2 else np.argsort(-y, kind="stable")
        model = odmlib.train(X[order], y[order], **options_of(estimator))
        assert abs(estimator.model_.report["primal"] - model.report["primal"]) <= 2e-3 * abs(
            model.report["primal"]
        )
        assert (estimator.predict(X) == model.predict(X)).mean() > 0.985
        assert estimator.classes_.tolist() == sorted(set(y.tolist()))
        assert estimator.duality_gap_ == estimator.model_.report["gap"] <= estimator.tol
        assert estimator.n_iter_ >= 1
        assert estimator.margins_.shape == y.shape
        np.testing.assert_allclose(
            estimator.margins_,
            estimator.model_.margins(X, y),
            rtol=1e-4,
            atol=1e-4 * np.abs(estimator.margins_).max(),
        )


@pytest.mark.parametrize("make", ALL)
def test_positive_means_the_second_class(make, cancer):
    X, y = cancer
    labels = np.where(y == 1, "benign", "aggressive")
    estimator = make(probability=True).fit(X, labels)
    decision = estimator.decision_function(X)
    assert decision.shape == (len(X),)
    predicted = estimator.predict(X)
    assert predicted.tolist() == np.where(decision > 0, "benign", "aggressive").tolist()
    assert (predicted == labels).mean() > 0.9
    proba = estimator.predict_proba(X)
    assert estimator.classes_[proba.argmax(axis=1)].tolist() == predicted.tolist()
    order = np.argsort(decision)
    assert (np.diff(proba[order, 1]) >= -1e-9).all()
    np.testing.assert_allclose(estimator.predict_log_proba(X), np.log(proba))


@pytest.mark.parametrize("make", ALL)
def test_decision_function_decides_for_more_classes(make, iris):
    X, y = iris
    estimator = make(probability=True).fit(X, y)
    decision = estimator.decision_function(X)
    assert decision.shape == (150, 3)
    assert estimator.predict(X).tolist() == estimator.classes_[decision.argmax(axis=1)].tolist()
    proba = estimator.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert proba.argmax(axis=1).tolist() == decision.argmax(axis=1).tolist()


def test_one_vs_one_shapes_are_those_of_svc(iris):
    X, y = iris
    ours = ODMClassifier(decision_function_shape="ovo").fit(X, y)
    theirs = SVC(decision_function_shape="ovo").fit(X, y)
    pairs = ours.decision_function(X)
    assert pairs.shape == theirs.decision_function(X).shape == (150, 3)
    assert (np.sign(pairs) == np.sign(theirs.decision_function(X))).mean() > 0.95
    # a value per class: the number of duels won, and less than half a vote more or less
    votes = np.round(ours.set_params(decision_function_shape="ovr").decision_function(X))
    first, second = [0, 0, 1], [1, 2, 2]
    counted = np.zeros((150, 3))
    for output in range(3):
        won = pairs[:, output] > 0
        counted[won, first[output]] += 1
        counted[~won, second[output]] += 1
    assert votes.tolist() == counted.tolist()


def test_a_tie_of_votes_goes_to_the_clearer_winner():
    # three classes at the corners of a triangle; in its middle every class wins one duel
    angles = np.array([0, 1, 2]) * 2 * np.pi / 3
    corners = np.c_[np.cos(angles), np.sin(angles)]
    generator = np.random.default_rng(0)
    X = np.repeat(corners, 30, axis=0) + generator.normal(scale=1.5, size=(90, 2))
    y = np.repeat([0, 1, 2], 30)
    estimator = ODMClassifier(gamma=2.0, C=10).fit(X, y)
    grid = generator.uniform(-3, 3, size=(4000, 2))
    pairs = estimator.set_params(decision_function_shape="ovo").decision_function(grid)
    circle = ((pairs[:, 0] > 0) & (pairs[:, 2] > 0) & (pairs[:, 1] < 0)) | (
        (pairs[:, 0] < 0) & (pairs[:, 2] < 0) & (pairs[:, 1] > 0)
    )
    assert circle.sum() > 3
    sums = np.c_[pairs[:, 0] + pairs[:, 1], pairs[:, 2] - pairs[:, 0], -pairs[:, 1] - pairs[:, 2]]
    assert estimator.predict(grid[circle]).tolist() == sums[circle].argmax(axis=1).tolist()


@pytest.mark.parametrize("make", ALL)
def test_linear_attributes_are_the_decision(make, iris, cancer):
    for X, y in (iris, cancer):
        estimator = make() if make is LinearODM else make(kernel="linear")
        if "decision_function_shape" in estimator.get_params():
            estimator.set_params(decision_function_shape="ovo")  # a value per row of coef_
        estimator.fit(X, y)
        decision = X @ estimator.coef_.T + estimator.intercept_
        found = estimator.decision_function(X)
        np.testing.assert_allclose(decision[:, 0] if found.ndim == 1 else decision, found, atol=1e-9)
        with pytest.raises(AttributeError, match="coef_"):
            estimator.dual_coef_  # noqa: B018
    ovo = LinearODM(multiclass="ovo", decision_function_shape="ovo").fit(*iris)
    np.testing.assert_allclose(
        iris[0] @ ovo.coef_.T + ovo.intercept_, ovo.decision_function(iris[0]), atol=1e-9
    )


@pytest.mark.parametrize("make", [each for each in ALL if each is not LinearODM])
@pytest.mark.parametrize("bias", [None, 2.0])
def test_kernel_attributes_are_the_decision(make, bias, iris, cancer):
    for X, y in (iris, cancer):
        extra = {} if make is KMOMDClassifier else {"bias": bias}
        estimator = make(gamma=0.3, **extra).fit(X, y)
        K = rbf_kernel(X, X[estimator.support_], gamma=0.3)
        assert np.array_equal(estimator.support_vectors_, X[estimator.support_])
        assert estimator.n_support_.tolist() == [len(estimator.support_)]
        decision = K @ estimator.dual_coef_.T + estimator.intercept_
        if len(estimator.classes_) == 2:
            np.testing.assert_allclose(decision[:, 0], estimator.decision_function(X), atol=1e-9)
        elif estimator.model_.scheme == "ovo":
            pairs = estimator.set_params(decision_function_shape="ovo").decision_function(X)
            np.testing.assert_allclose(decision, pairs, atol=1e-9)
        else:
            np.testing.assert_allclose(decision, estimator.decision_function(X), atol=1e-9)
        with pytest.raises(AttributeError, match="coef_ is for linear"):
            estimator.coef_  # noqa: B018


def test_every_form_of_a_kernel_is_the_same_machine(cancer):
    X, y = cancer
    train, test = np.arange(0, 569, 2), np.arange(1, 569, 2)
    named = ODMClassifier(gamma=0.05, tol=1e-6).fit(X[train], y[train])
    expected = named.decision_function(X[test])

    def kernel(U, V):
        return rbf_kernel(U, V, gamma=0.05)

    function = ODMClassifier(kernel=kernel, tol=1e-6).fit(X[train], y[train])
    np.testing.assert_allclose(function.decision_function(X[test]), expected, atol=2e-3)
    assert function.support_vectors_.shape[1] == X.shape[1]
    assert np.array_equal(function.support_vectors_, X[train][function.support_])
    assert function.model_.n_features == len(function.support_)  # nothing else is kept
    matrix = ODMClassifier(kernel="precomputed", tol=1e-6).fit(kernel(X[train], X[train]), y[train])
    np.testing.assert_allclose(matrix.decision_function(kernel(X[test], X[train])), expected, atol=2e-3)
    assert matrix.support_.tolist() == function.support_.tolist()
    sparse = ODMClassifier(kernel=kernel, tol=1e-6).fit(scipy.sparse.csr_array(X[train]), y[train])
    np.testing.assert_allclose(sparse.decision_function(scipy.sparse.csr_array(X[test])), expected, atol=2e-3)
    with pytest.raises(
        ValueError, match=r"the kernel function gave values of shape \(3,\), expected \(285, 285\)"
    ):
        ODMClassifier(kernel=lambda U, V: [1, 2, 3]).fit(X[train], y[train])
    # cross-validation takes rows and columns of a precomputed kernel
    scores = cross_validate(ODMClassifier(kernel="precomputed"), kernel(X, X), y, cv=3)["test_score"]
    assert scores.min() > 0.93


def test_leave_one_out(cancer):
    X, y = cancer[0][:150], cancer[1][:150]
    estimator = ODMClassifier(leave_one_out=True).fit(X, y)
    assert estimator.loo_score_ == odmlib.leave_one_out(X, y).accuracy
    assert ODMClassifier(probability=True).fit(X, y).loo_score_ == estimator.loo_score_
    estimator.set_params(leave_one_out=False).fit(X, y)
    assert not hasattr(estimator, "loo_score_")


def test_lambda_replaces_C(iris):
    X, y = iris
    by_lambda = LinearODM(lambda_=300, C=77).fit(X, y)
    assert by_lambda.model_.parameters["C"] == pytest.approx(2)
    assert np.array_equal(by_lambda.coef_, LinearODM(C=2).fit(X, y).coef_)


def test_parameters_are_odmlibs():
    known = {option.name for option in option_fields()} | set(OWN_PARAMETERS)
    for make in ALL:
        assert set(make().get_params()) <= known
        for option in option_fields():
            if option.name in make().get_params() and option.name not in (*OWN_PARAMETERS, "lambda_"):
                assert make().get_params()[option.name] == DEFAULTS.get(option.name, option.default)
    with pytest.raises(TypeError, match=r"ODMClassifier\(\) got an unexpected keyword argument 'kernal'"):
        ODMClassifier(kernal="rbf")
    assert repr(ODMClassifier(C=3)) == "ODMClassifier(C=3)"


def test_bad_parameters_are_value_errors(iris):
    for wrong, message in (
        ({"theta": 1.0}, "theta"),
        ({"C": -1}, "C"),
        ({"kernel": "gauss"}, "kernel"),
        ({"gamma": "wide"}, "gamma"),
        ({"n_jobs": 0}, "n_jobs must not be 0"),
        ({"class_weight": {"rose": 2}}, "rose"),
        ({"class_weight": "even"}, "balanced"),
    ):
        with pytest.raises(ValueError, match=message):
            ODMClassifier(**wrong).fit(*iris)
    with pytest.raises(ValueError, match="one class only"):
        ODMClassifier().fit([[1.0], [2.0]], [1, 1])
    with pytest.raises(NotFittedError):
        ODMClassifier(lambda_=3.0).predict([[1.0]])
    assert not hasattr(ODMClassifier(), "predict_proba")
    assert not hasattr(ODMClassifier(), "coef_")


def test_not_converged_says_the_gap(cancer):
    with pytest.warns(ConvergenceWarning, match=r"relative duality gap of .* \(wanted 1e-12\)") as caught:
        estimator = LinearODM(solver="dcd", max_iter=2, tol=1e-12).fit(*cancer)
    assert caught[0].filename == __file__
    assert estimator.duality_gap_ > 1e-12
    with pytest.warns(ConvergenceWarning, match="the callback asked to stop"):
        LinearODM(solver="dcd", tol=1e-12, callback=lambda progress: True).fit(*cancer)


def test_warm_start_needs_fewer_iterations(cancer):
    X, y = cancer
    for make in (LinearODM, ODMClassifier):
        cold = make(C=1.1, tol=1e-6).fit(X, y)
        warm = make(C=1.0, tol=1e-6, warm_start=True).fit(X, y).set_params(C=1.1).fit(X, y)
        assert warm.n_iter_ < cold.n_iter_
        np.testing.assert_allclose(warm.decision_function(X), cold.decision_function(X), atol=5e-3)
        warm.fit(X[:, :5], y)  # other data: from the beginning
        assert warm.n_features_in_ == 5
        warm.fit(X, y + 1)
        assert warm.classes_.tolist() == [1, 2]


def test_fit_forgets_the_last_fit(cancer):
    X, y = cancer
    estimator = ODMClassifier(kernel=rbf_kernel).fit(X, y)
    estimator.set_params(kernel="rbf").fit(X, y)
    assert np.array_equal(estimator.decision_function(X), ODMClassifier().fit(X, y).decision_function(X))


@pytest.mark.parametrize("make", ALL)
def test_clone_and_pickle(make, iris):
    X, y = iris
    estimator = make(tol=0.01).fit(X, y)
    again = pickle.loads(pickle.dumps(estimator))
    assert np.array_equal(again.decision_function(X), estimator.decision_function(X))
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params()
    assert not hasattr(copy, "model_")


@pytest.mark.parametrize(
    "backend",
    ["threading", pytest.param("loky", marks=pytest.mark.slow)],  # which starts processes: seconds
)
def test_in_a_pipeline_with_search_and_joblib(backend, iris):
    X, y = iris
    pipe = make_pipeline(StandardScaler(), ODMClassifier())
    grid = {"odmclassifier__C": [0.1, 1, 10], "odmclassifier__nu": [0.2, 1]}
    with joblib.parallel_config(backend=backend, n_jobs=2):
        search = GridSearchCV(pipe, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.93
    assert search.predict(X[:3]).tolist() == ["setosa"] * 3


def test_calibrated(cancer):
    X, y = cancer
    calibrated = CalibratedClassifierCV(LinearODM(), cv=3).fit(X, y)
    assert calibrated.score(X, y) > 0.95


def test_metadata_routing_of_weights(cancer):
    X, y = cancer
    weights = np.where(y == 1, 1.0, 20.0)
    with config_context(enable_metadata_routing=True):
        estimator = LinearODM(C=1e-4).set_fit_request(sample_weight=True)
        estimator.set_score_request(sample_weight=False)
        weighted = GridSearchCV(estimator, {"nu": [0.5]}, cv=3).fit(X, y, sample_weight=weights)
        plain = GridSearchCV(LinearODM(C=1e-4), {"nu": [0.5]}, cv=3).fit(X, y)
    assert not np.allclose(weighted.best_estimator_.coef_, plain.best_estimator_.coef_)
    direct = LinearODM(C=1e-4).fit(X, y, sample_weight=weights)
    assert np.array_equal(weighted.best_estimator_.coef_, direct.coef_)


def test_frames(cancer):
    pandas = pytest.importorskip("pandas")
    X, y = cancer
    names = [f"column {j}" for j in range(X.shape[1])]
    frame, labels = (
        pandas.DataFrame(X, columns=names),
        pandas.Series(np.where(y == 1, "benign", "aggressive")),
    )
    pipe = make_pipeline(StandardScaler(), LinearODM()).set_output(transform="pandas").fit(frame, labels)
    assert pipe[-1].feature_names_in_.tolist() == names
    assert pipe[-1].n_features_in_ == len(names)
    assert pipe.score(frame, labels) > 0.95
    with pytest.raises(ValueError, match="feature names"):
        pipe.predict(frame[names[::-1]])
    assert np.array_equal(
        LinearODM().fit(frame, labels).coef_, LinearODM().fit(X, labels.astype("category")).coef_
    )


def test_polars_frames(cancer):
    polars = pytest.importorskip("polars")
    X, y = cancer
    names = [f"column {j}" for j in range(X.shape[1])]
    frame = polars.DataFrame(X, schema=names)
    estimator = LinearODM().fit(frame, polars.Series(y))
    assert estimator.feature_names_in_.tolist() == names
    assert np.array_equal(estimator.predict(frame), LinearODM().fit(X, y).predict(X))


def test_float32_and_orders(cancer):
    X, y = cancer
    single = X.astype(np.float32)
    expected = ODMClassifier(gamma=0.1).fit(single.astype(np.float64), y).decision_function(X)
    for form in (single, np.asfortranarray(single), scipy.sparse.csc_array(single)):
        found = ODMClassifier(gamma=0.1).fit(form, y).decision_function(X)
        assert np.array_equal(found, expected)


def test_no_copy_of_dense_values(cancer):
    from odmlib.data.dataset import Dataset

    X = np.abs(cancer[0]) + 1
    assert np.shares_memory(Dataset.from_any(X).values, X)
    assert np.shares_memory(Dataset.from_any(X).dense_view(), X)
    assert not np.shares_memory(Dataset.from_any(X).to_dense(), X)


def test_threads_do_not_change_the_result(iris):
    X, y = iris
    one = ODMClassifier(n_jobs=1).fit(X, y).decision_function(X)
    for n_jobs in (2, -1, None, -1000):
        assert np.array_equal(ODMClassifier(n_jobs=n_jobs).fit(X, y).decision_function(X), one)


def test_model_file_of_an_estimator(tmp_path, iris):
    X, y = iris
    estimator = ODMClassifier().fit(X, y)
    estimator.model_.save(tmp_path / "m")
    model = odmlib.load_model(tmp_path / "m")
    assert (model.predict(X) == estimator.predict(X)).mean() > 0.99


class ModelOfSmallBlocks(odmlib.Model):
    def score_blocks(self, rows, threads, most=20):
        return super().score_blocks(rows, threads, most)


def test_many_classes_in_blocks(iris):
    X, y = iris
    estimator = ODMClassifier(probability=True).fit(X, y)
    whole = estimator.predict(X), estimator.predict_proba(X), estimator.decision_function(X)
    estimator.model_ = ModelOfSmallBlocks(**vars(estimator.model_))
    parts = estimator.predict(X), estimator.predict_proba(X), estimator.decision_function(X)
    for one, other in zip(whole, parts, strict=True):
        assert np.array_equal(one, other)


def test_no_warnings_by_default(cancer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for make in ALL:
            make().fit(*cancer).predict(cancer[0])


def test_plain_arrays_take_the_short_way_to_the_same_answers():
    X, y = load_iris(return_X_y=True)
    for kernel in ("rbf", "linear", lambda a, b: a @ b.T):
        machine = ODMClassifier(kernel=kernel).fit(X, y)
        whole, values = machine.predict(X), machine.decision_function(X)
        for i in (0, 70, 149):
            for row in (X[i : i + 1], X[i : i + 1].tolist(), np.asfortranarray(X[i : i + 1])):
                assert machine.predict(row) == whole[i]
                np.testing.assert_allclose(machine.decision_function(row)[0], values[i], rtol=1e-9)
        for bad, message in [(X[:1] * np.nan, "NaN"), (X[:1, :2], "features"), (X[:0], "0 sample")]:
            with pytest.raises(ValueError, match=message):
                machine.predict(bad)
    with pytest.raises(NotFittedError):
        ODMClassifier().predict(X)
