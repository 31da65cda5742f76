"""More than two classes: each output is a binary machine, put together as LIBSVM and LIBLINEAR do."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import odmlib
from odmlib.data.dataset import Dataset
from odmlib.data.problem import Problem
from odmlib.model.functions import KernelFunction, LinearFunction, PrecomputedFunction
from odmlib.model.schemes import class_pairs, margins_of
from odmlib.model.text_format import load_model
from odmlib.model.text_writer import model_text
from odmlib.options import TrainOptions
from odmlib.selection.cross_validation import cross_validate

DATA = Path(__file__).resolve().parent.parent.parent / "data"
KERNELS = ("linear", "rbf", "poly", "sigmoid", "precomputed")
SCHEMES = ("ovo", "ovr")


def example(n=90, k=4, d=5, seed=1):
    """Overlapping clouds; labels in no order, the rows too."""
    random = np.random.default_rng(seed)
    codes = random.permutation(np.arange(n) % k)
    X = random.normal(size=(n, d)) + 1.5 * random.normal(size=(k, d))[codes]
    return X, np.array([30.0, -2.0, 7.5, 4.0, 11.0, 1.0, 0.0][:k])[codes]


def kernel_of(kernel, X):
    return X @ X.T if kernel == "precomputed" else X


def text_of(model):
    return b"".join(model_text(model))


def unfinished(*words, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", odmlib.ConvergenceWarning)
        return odmlib.train(*words, **options)


# ---------------------------------------------------------------------------------------- what is trained


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_vs_one_is_a_binary_machine_per_pair(kernel):
    X, y = example()
    options = {"kernel": kernel, "gamma": 0.2, "coef0": 0.1, "tol": 1e-7, "degree": 2, "C": 0.5}
    model = odmlib.train(kernel_of(kernel, X), y, multiclass="ovo", **options)
    assert model.scheme == "ovo"
    scores = model.decision_function(kernel_of(kernel, X))
    assert scores.shape == (90, 6)
    for output, (i, j) in enumerate(zip(*class_pairs(4), strict=True)):
        pair = np.flatnonzero((y == model.labels[i]) | (y == model.labels[j]))
        one = odmlib.train(kernel_of(kernel, X[pair]), y[pair], **options)
        sign = 1 if one.labels[0] == model.labels[i] else -1
        alone = sign * one.decision_function(kernel_of(kernel, X[pair]))
        np.testing.assert_allclose(scores[pair, output], alone, atol=5e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_vs_rest_is_a_binary_machine_per_class(kernel):
    X, y = example()
    options = {"kernel": kernel, "gamma": 0.2, "coef0": 0.1, "tol": 1e-7, "degree": 2, "C": 0.5}
    Z = kernel_of(kernel, X)
    model = odmlib.train(Z, y, multiclass="ovr", **options)
    assert model.scheme == "ovr"
    scores = model.decision_function(Z)
    assert scores.shape == (90, 4)
    for place, label in enumerate(model.labels):
        one = odmlib.train(Z, np.where(y == label, 1, -1), **options)
        np.testing.assert_allclose(scores[:, place], one.decision_function(Z), atol=5e-4)


def test_schemes_by_default():
    X, y = example()
    for kernel in KERNELS:
        assert odmlib.train(kernel_of(kernel, X), y, kernel=kernel).scheme == "ovo"


def test_labels_in_libsvms_order():
    svmutil = pytest.importorskip("libsvm.svmutil")
    X, y = example(k=5)
    y = np.round(y)
    model = svmutil.svm_train(y.tolist(), [dict(enumerate(row, 1)) for row in X.tolist()], "-q")
    assert odmlib.train(X, y).labels.tolist() == model.get_labels()
    for labels in ([-1.0, 1.0, 2.0], [2.0, -1.0, 1.0]):  # +1 leads only where there are two classes
        y = np.array(labels)[np.arange(90) % 3]
        model = svmutil.svm_train(y.tolist(), [dict(enumerate(row, 1)) for row in X.tolist()], "-q")
        assert odmlib.train(X, y).labels.tolist() == model.get_labels() == labels


@pytest.mark.parametrize("name", ["iris", "wine"])
def test_one_vs_rest_is_liblinears(name):
    """nu = theta = 0 is LIBLINEAR's -s 2: the same decision values, class by class, and the same labels."""
    liblinear = pytest.importorskip("liblinear.liblinearutil")
    X, y = odmlib.read_data(DATA / f"{name}.txt")
    order = np.random.default_rng(3).permutation(len(y))
    X, y = X[order], y[order]
    peer = liblinear.train(y, sparse.csr_matrix(X), "-s 2 -c 0.5 -B 1 -e 1e-10 -q")
    predicted, _, values = liblinear.predict(y, sparse.csr_matrix(X), peer, "-q")
    model = odmlib.train(X, y, kernel="linear", multiclass="ovr", nu=0, theta=0, C=0.5, tol=1e-10)
    assert model.labels.tolist() == peer.get_labels()
    np.testing.assert_allclose(model.decision_function(X), values, atol=1e-4)
    assert model.predict(X).tolist() == predicted


@pytest.mark.parametrize("multiclass", [None, *SCHEMES])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_two_classes_are_one_binary_machine(kernel, multiclass):
    X, y = example(k=2)
    model = odmlib.train(X, y, kernel=kernel, multiclass=multiclass)
    assert model.scheme == "binary"
    assert text_of(model) == text_of(odmlib.train(X, y, kernel=kernel))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_order_of_rows_does_not_matter(kernel, scheme):
    X, y = example()
    order = np.random.default_rng(5).permutation(len(y))
    options = {"kernel": kernel, "multiclass": scheme, "gamma": 0.2, "tol": 1e-8}
    one, other = odmlib.train(X, y, **options), odmlib.train(X[order], y[order], **options)
    assert sorted(one.labels) == sorted(other.labels) and one.labels.tolist() != other.labels.tolist()
    np.testing.assert_allclose(one.margins(X, y), other.margins(X, y), atol=5e-4)
    assert (one.predict(X) == other.predict(X)).all()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_weights(kernel, scheme):
    """A row of weight two is two rows; a class weight is the weight of its rows; no weight is no row."""
    X, y = example()
    options = {"kernel": kernel, "multiclass": scheme, "gamma": 0.2, "tol": 1e-8}
    label = y[0]
    times = np.where(y == label, 2, 1)
    repeated = odmlib.train(np.repeat(X, times, axis=0), np.repeat(y, times), **options)
    for weights in ({"sample_weight": times}, {"class_weight": {label: 2}}):
        model = odmlib.train(X, y, **options, **weights)
        np.testing.assert_allclose(model.decision_function(X), repeated.decision_function(X), atol=5e-4)
    times = np.arange(90) % 9 > 0
    absent = odmlib.train(X[times], y[times], **options)
    model = odmlib.train(X, y, sample_weight=times, **options)
    np.testing.assert_allclose(model.margins(X, y), absent.margins(X, y), atol=5e-4)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_margins_of_the_report_are_those_of_the_model(kernel, scheme):
    X, y = example()
    Z = kernel_of(kernel, X)
    model = odmlib.train(Z, y, kernel=kernel, multiclass=scheme, gamma=0.1)
    margins = model.margins(Z, y)
    assert model.training_margins is not None
    np.testing.assert_allclose(model.training_margins, margins, atol=1e-3)
    assert model.report["margin"]["mean"] == pytest.approx(margins.mean(), abs=1e-3)
    assert model.report["margin"]["min"] == pytest.approx(margins.min(), abs=1e-3)
    if scheme == "ovr":
        assert ((margins > 0) == (model.predict(Z) == y)).all()
    else:
        assert (model.predict(Z) == y)[margins > 0].all()


def test_accuracy_on_the_example_sets():
    for name, least in (("iris", 0.97), ("wine", 0.97), ("digits", 0.99)):
        X, y = odmlib.read_data(DATA / f"{name}.txt")
        X = sparse.csr_array(X / np.maximum(1e-9, abs(X).max(axis=0).toarray()))
        for scheme in SCHEMES:
            model = odmlib.train(X, y, multiclass=scheme, C=10)
            assert np.mean(model.predict(X) == y) >= least, (name, scheme)


# ---------------------------------------------------------------------------------------- model and report


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_save_and_load(kernel, scheme):
    X, y = example()
    Z = kernel_of(kernel, X)
    model = odmlib.train(Z, y, kernel=kernel, multiclass=scheme, gamma=0.1)
    again = load_model(text_of(model))
    assert text_of(again) == text_of(model)
    assert again.scheme == scheme
    assert again.decision_function(Z).tobytes() == model.decision_function(Z).tobytes()
    assert again.predict(Z).tolist() == model.predict(Z).tolist()
    kinds = {"linear": LinearFunction, "precomputed": PrecomputedFunction}
    assert isinstance(again.function, kinds.get(kernel, KernelFunction))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_report_of_the_tasks(scheme):
    X, y = example()
    report = odmlib.train(X, y, multiclass=scheme).report
    tasks = report["tasks"]
    assert (report["scheme"], len(tasks)) == (scheme, {"ovo": 6, "ovr": 4}[scheme])
    assert report["gap"] == max(task["gap"] for task in tasks) <= 1e-3
    assert report["status"] == "converged"
    assert report["iterations"] == sum(task["iterations"] for task in tasks)
    assert report["primal"] == pytest.approx(sum(task["primal"] for task in tasks))
    labels = report["labels"]
    pairs = [[labels[i], labels[j]] for i, j in zip(*class_pairs(4), strict=True)]
    expected = pairs if scheme == "ovo" else [[label] for label in labels]
    assert [task["labels"] for task in tasks] == expected
    assert 0 < max(task["support_vectors"] for task in tasks) <= report["support_vectors"] <= 90


def test_the_worst_task_speaks_for_all():
    X, y = example(n=400, k=3, d=20)
    with pytest.warns(odmlib.ConvergenceWarning, match="in 3 of 3 tasks the limit of iterations was reached"):
        model = odmlib.train(X, y, kernel="linear", solver="dcd", C=1e4, max_iter=1)
    assert model.report["status"] == "max_iter"
    assert {task["status"] for task in model.report["tasks"]} == {"max_iter"}


# ---------------------------------------------------------------------------------------- odd classes


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_class_of_one_row(kernel, scheme):
    X, y = example(k=3)
    X, y = np.vstack([X, np.full(5, 40.0)]), np.append(y, 99.0)
    model = odmlib.train(X, y, kernel=kernel, multiclass=scheme, C=100)
    assert model.predict(X[-1:]).tolist() == [99]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_hundred_classes(kernel, scheme):
    random = np.random.default_rng(8)
    centres = 10 * random.normal(size=(100, 8))
    y = random.permutation(np.arange(200) % 100)
    X = centres[y] + random.normal(size=(200, 8))
    model = odmlib.train(X, y, kernel=kernel, multiclass=scheme, gamma=0.01, C=10)
    assert model.n_outputs == {"ovo": 4950, "ovr": 100}[scheme]
    if (kernel, scheme) != ("linear", "ovr"):  # no line parts one class from 99 others in 8 dimensions
        assert np.mean(model.predict(X) == y) > 0.95
    again = load_model(text_of(model))
    assert again.predict(X).tolist() == model.predict(X).tolist()


@pytest.mark.parametrize(
    "labels",
    [
        np.array([1e300, -1e300, 0.1]),
        np.array([2**53, 2**53 + 1, 2**63 - 1]),
        np.array(["red", "green", "a long one"]),
        np.array(["red", 2, True], dtype=object),
        np.array([3000000000.0, 1.5, 1.7]),
    ],
    ids=lambda labels: str(labels.tolist()),
)
def test_any_labels(labels):
    X, _ = example(k=3)
    y = labels[np.argmax(X[:, :3], axis=1)]
    model = odmlib.train(X, y)
    again = load_model(text_of(model))
    assert set(again.labels.tolist()) == set(labels.tolist())
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert np.mean([found == label for found, label in zip(model.predict(X), y, strict=True)]) > 0.9


@pytest.mark.parametrize("scheme", SCHEMES)
def test_predictions_and_margins_in_blocks(scheme):
    X, y = example()
    model = odmlib.train(X, y, multiclass=scheme)
    rows, codes = Dataset.from_any(X), model.codes_of(y)
    for most in (1, 7, 100):
        blocks = list(model.score_blocks(rows, 2, most))
        assert all(scores.size <= max(most, model.n_outputs) for _, scores in blocks)
        scores = np.concatenate([scores for _, scores in blocks])
        assert model.labels_for(scores).tolist() == model.predict(X).tolist()
        assert margins_of(scheme, scores, codes, 4).tobytes() == model.margins(X, y).tobytes()


def test_labels_that_the_model_does_not_know():
    X, y = example()
    model = odmlib.train(X, y)
    with pytest.raises(odmlib.ParameterError, match=r"y\[3\] is .*5.0.*, which the model does not know"):
        model.margins(X, np.where(np.arange(90) == 3, 5.0, y))


def test_a_class_without_weight():
    X, y = example(k=3)
    with pytest.raises(odmlib.ParameterError, match="no weight is left for label 30"):
        odmlib.train(X, y, class_weight={30.0: 0})


# ---------------------------------------------------------------------------------------- threads and memory


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("cache_mb", [200, 0.1])
def test_threads_do_not_change_the_model(kernel, scheme, cache_mb):
    X, y = example(n=450)
    Z = kernel_of(kernel, X)
    texts = {
        text_of(odmlib.train(Z, y, kernel=kernel, multiclass=scheme, threads=threads, cache_mb=cache_mb))
        for threads in (1, 2, 5)
    }
    assert len(texts) == 1


def test_a_small_cache_gives_the_same_machine():
    X, y = example(n=200)
    for scheme in SCHEMES:
        options = {"multiclass": scheme, "gamma": 0.1, "tol": 1e-7, "C": 10}
        whole, small = (odmlib.train(X, y, cache_mb=mb, **options) for mb in (200, 0.02))
        np.testing.assert_allclose(whole.decision_function(X), small.decision_function(X), atol=1e-3)
    with pytest.raises(odmlib.ParameterError, match="does not hold two kernel rows"):
        odmlib.train(X, y, cache_mb=1e-4)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_callback_hears_every_task_and_stops_them_all(scheme, threads):
    X, y = example(n=450)
    heard, threads_heard = [], set()

    def listen(progress):
        heard.append(progress)
        threads_heard.add(threading.current_thread())

    n_tasks = {"ovo": 6, "ovr": 4}[scheme]
    odmlib.train(X, y, multiclass=scheme, callback=listen, threads=threads)
    assert {progress.task for progress in heard} == set(range(1, n_tasks + 1))
    assert {progress.tasks for progress in heard} == {n_tasks}
    assert threads_heard == {threading.current_thread()}
    model = unfinished(X, y, multiclass=scheme, callback=lambda progress: True, threads=threads, tol=1e-9)
    assert model.report["status"] == "stopped"
    assert all(task["status"] in ("stopped", "converged") for task in model.report["tasks"])
    load_model(text_of(model)).predict(X)


def test_an_error_in_the_callback_comes_out():
    X, y = example(n=450)

    def fail(progress):
        raise ZeroDivisionError

    before = set(threading.enumerate())
    for threads in (1, 3):
        with pytest.raises(ZeroDivisionError):
            odmlib.train(X, y, callback=fail, threads=threads)
    for thread in set(threading.enumerate()) - before:  # on the way out
        thread.join(300)
        assert not thread.is_alive()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_time_limit_holds_for_all_tasks(kernel, scheme):
    X, y = example(n=450)
    model = unfinished(X, y, kernel=kernel, multiclass=scheme, time_limit=1e-9, tol=1e-12, threads=2)
    assert model.report["status"] == "time_limit"
    again = load_model(text_of(model))
    assert again.predict(X).tolist() == model.predict(X).tolist()


# ---------------------------------------------------------------------------------------- starts, folds


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_start_from_another_model(kernel, scheme):
    """The optimum is a start that needs next to nothing, whatever order the labels come in."""
    X, y = example()
    options = {"kernel": kernel, "multiclass": scheme, "gamma": 0.2, "C": 3}
    first = odmlib.train(X, y, tol=1e-6, **options)
    order = np.argsort(y, kind="stable")
    again = odmlib.train(X[order], y[order], init=first, **options)
    assert first.labels.tolist() != again.labels.tolist()
    cold = odmlib.train(X[order], y[order], **options)
    assert again.report["iterations"] == 0 < cold.report["iterations"]
    np.testing.assert_allclose(again.margins(X, y), first.margins(X, y), atol=0.05)


def test_start_across_kernels():
    X, y = example()
    rbf = odmlib.train(X, y, multiclass="ovr")
    linear = odmlib.train(X, y, kernel="linear", init=rbf)
    assert linear.scheme == "ovr"  # that of the model it starts from
    cold = odmlib.train(X, y, kernel="linear", multiclass="ovr")
    np.testing.assert_allclose(linear.decision_function(X), cold.decision_function(X), atol=0.05)


def test_starts_that_cannot_be():
    X, y = example()
    other = odmlib.train(X, y, multiclass="ovr")
    with pytest.raises(odmlib.ParameterError, match="scheme ovr, this training is of scheme ovo"):
        odmlib.train(X, y, init=other)
    three = y != 4
    with pytest.raises(odmlib.ParameterError, match=r"has labels .*, the data have"):
        odmlib.train(X[three], y[three], init=other)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_cross_validation(kernel):
    X, y = example(n=150, k=3)
    problem = Problem.from_arrays(kernel_of(kernel, X), y)
    result = cross_validate(problem, TrainOptions(kernel=kernel), 5)
    assert result.accuracy > 0.8
    assert result.accuracy == np.mean(result.predicted == problem.codes)


def test_cross_validation_with_a_class_that_a_fold_does_not_know():
    X, y = example(k=3)
    y[7] = 99  # one row: the machine that does not see it cannot predict it
    problem = Problem.from_arrays(X, y)
    predicted = cross_validate(problem, TrainOptions(kernel="linear"), 5).predicted
    assert problem.labels[predicted[7]] != 99
    assert set(predicted.tolist()) <= set(range(4))
    two = Problem.from_arrays(X, np.where(y == 99, 1, 0))
    assert cross_validate(two, TrainOptions(), 3).accuracy == pytest.approx(89 / 90)


def test_linear_machines_choose_the_scheme_by_the_shape_of_the_data():
    from odmlib.machines.machine import linear_scheme

    def scheme(rows, columns, classes):
        X = sparse.csr_array(([1.0], ([0], [0])), shape=(rows, columns))
        return linear_scheme(Problem.from_arrays(X, np.arange(rows) % classes))[0]

    assert scheme(100, 99, 3) == "ovo"
    assert scheme(100, 100, 3) == "ovr"
    assert scheme(2001, 2000, 63) == "ovo"  # 3.9 million weights
    assert scheme(2001, 2000, 64) == "ovr"  # 4.03 million
    assert scheme(60_000, 55_000, 105) == "ovr"


@pytest.mark.parametrize("machine", ["svm", "odml", "odm", "sodm", "kmomd"])
@pytest.mark.parametrize("extra", [0, 200])
def test_what_is_said_of_the_scheme_is_what_is_trained(machine, extra):
    from odmlib.machines.training import chosen_scheme, make_problem, make_settings

    random = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = np.hstack([random.normal(size=(60, 4)) + 3 * np.eye(4)[y], random.normal(size=(60, extra))])
    options = make_settings({"machine": machine, "kernel": "linear"})
    said = chosen_scheme(make_problem(X, y, options), options)
    trained = odmlib.train(X, y, machine=machine, kernel="linear").scheme
    assert trained == ("ovr" if said is None else said[0])
    assert (said is None) == (machine == "kmomd")


def test_folds_have_the_scheme_of_the_whole_set():
    """52 features are fewer than 60 rows, and more than the 48 of a fold."""
    random = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = random.normal(size=(60, 52)) + np.eye(52)[y]
    options = {"kernel": "linear", "probability": True, "machine": "svm"}
    model = odmlib.train(X, y, **options)
    named = odmlib.train(X, y, multiclass="ovo", **options)
    assert model.scheme == "ovo"
    np.testing.assert_array_equal(model.predict_proba(X), named.predict_proba(X))
