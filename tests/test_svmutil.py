"""odmlib.svmutil beside LIBSVM's and LIBLINEAR's own modules: the same calls, shapes and lines."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest
import scipy.sparse

import odmlib
from odmlib import svmutil as ours

from .test_docs import ROOT

DATA = ROOT / "data"


@pytest.fixture(scope="module")
def theirs():
    return pytest.importorskip("libsvm.svmutil")


@pytest.fixture(scope="module")
def linear():
    return pytest.importorskip("liblinear.liblinearutil")


@pytest.mark.parametrize("name", ["iris", "wine", "wdbc.train"])
def test_reading(name, theirs):
    path = str(DATA / f"{name}.txt")
    assert ours.svm_read_problem(path) == tuple(theirs.svm_read_problem(path))
    with open(path, encoding="ascii") as file:
        assert ours.svm_read_problem(file) == tuple(theirs.svm_read_problem(path))
    (y, x), (their_y, their_x) = (
        module.svm_read_problem(path, return_scipy=True) for module in (ours, theirs)
    )
    assert isinstance(x, scipy.sparse.csr_matrix)
    assert np.array_equal(y, their_y)
    assert x.shape == their_x.shape
    assert (x != their_x).nnz == 0


def test_reading_index_zero():
    text = b"1 1:2\n-1 0:7 2:3\n"  # LIBSVM's module shifts the rows before the first 0
    assert ours.svm_read_problem(text) == ([1, -1], [{1: 2}, {0: 7, 2: 3}])
    assert ours.svm_read_problem(text, return_scipy=True)[1].toarray().tolist() == [[0, 2, 0], [7, 0, 3]]


def lines_of(capsys, call):
    """What a call returns, and its lines without those of LIBSVM's C code (which capsys does not see)."""
    capsys.readouterr()
    result = call()
    return result, capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", ["wdbc.train", "iris"])
def test_predictions_have_libsvms_shapes_and_lines(name, theirs, capsys):
    y, x = ours.svm_read_problem(DATA / f"{name}.txt")
    options = f"-s 0 -g {1e-5 if name == 'wdbc.train' else 0.1} -q"
    m, M = ours.svm_train(y, x, options), theirs.svm_train(y, x, options)
    (labels, metrics, values), lines = lines_of(capsys, lambda: ours.svm_predict(y, x, m))
    (their_labels, their_metrics, their_values), their_lines = lines_of(
        capsys, lambda: theirs.svm_predict(y, x, M)
    )
    assert type(labels) is type(their_labels) is list
    assert type(labels[0]) is type(their_labels[0]) is float
    assert np.shape(values) == np.shape(their_values)
    assert len(metrics) == len(their_metrics) == 3
    assert m.get_labels() == M.get_labels()
    assert m.get_nr_class() == M.get_nr_class()
    assert lines == [_accuracy_line(theirs, labels, y)]
    assert their_lines == [_accuracy_line(theirs, their_labels, y)]
    assert metrics == pytest.approx(theirs.evaluations(y, labels))
    # the same machine but for LIBSVM's free bias: values of the same sign nearly everywhere
    assert (np.sign(values) == np.sign(their_values)).mean() > 0.9


def _accuracy_line(theirs, labels, y):
    right = sum(a == b for a, b in zip(labels, y, strict=True))
    return f"Accuracy = {100 * right / len(y):g}% ({right}/{len(y)}) (classification)"


def test_linear_values_are_liblinears(linear, capsys):
    y, x = ours.svm_read_problem(DATA / "iris.txt")
    # nu = theta = 0: the squared hinge of LIBLINEAR's -s 2
    m = ours.svm_train(y, x, "-t 0 --multiclass ovr -n 0 -p 0 -c 1 -e 1e-8 -B 1 -q")
    M = linear.train(y, x, "-s 2 -c 1 -e 1e-8 -B 1 -q")
    labels, _, values = ours.svm_predict(y, x, m, "-q")
    their_labels, _, their_values = linear.predict(y, x, M, "-q")
    np.testing.assert_allclose(values, their_values, atol=1e-4)
    assert labels == their_labels
    assert m.get_nr_feature() == M.get_nr_feature() == 4
    for label in range(3):
        np.testing.assert_allclose(m.get_decfun(label)[0], M.get_decfun(label)[0], atol=1e-4)
        assert m.get_decfun_bias(label) == pytest.approx(M.get_decfun_bias(label), abs=1e-4)
        assert m.get_decfun_coef(2, label) == pytest.approx(M.get_decfun_coef(2, label), abs=1e-4)
    two = [k for k, label in enumerate(y) if label != y[0]]
    y, x = [y[k] for k in two], [x[k] for k in two]
    m = ours.svm_train(y, x, "-t 0 -n 0 -p 0 -e 1e-8 -q")
    M = linear.train(y, x, "-s 2 -e 1e-8 -B 1 -q")
    for label in range(2):
        np.testing.assert_allclose(m.get_decfun(label)[0], M.get_decfun(label)[0], atol=1e-4)
    assert np.shape(ours.svm_predict(y, x, m, "-q")[2]) == (100, 1)


def test_svm_is_libsvms_but_for_the_bias(theirs):
    # symmetric data: the free bias is 0, so both solve the same problem
    generator = np.random.default_rng(0)
    half = generator.normal(size=(60, 3)) + np.array([1, 0, 0])
    x, y = np.r_[half, -half], [1] * 60 + [-1] * 60
    m = ours.svm_train(y, x, "-s 0 -t 0 -B -1 -c 0.5 -e 1e-8 -q")
    M = theirs.svm_train(y, x, "-s 0 -t 0 -c 0.5 -e 1e-8 -q")
    np.testing.assert_allclose(
        ours.svm_predict(y, x, m, "-q")[2], theirs.svm_predict(y, x, M, "-q")[2], atol=1e-4
    )


def test_probabilities(theirs, capsys):
    y, x = ours.svm_read_problem(DATA / "iris.txt")
    m, M = ours.svm_train(y, x, "-b 1 -q"), theirs.svm_train(y, x, "-b 1 -q")
    assert m.is_probability_model()
    (labels, _, values), _ = lines_of(capsys, lambda: ours.svm_predict(y, x, m, "-b 1"))
    their_values = theirs.svm_predict(y, x, M, "-b 1 -q")[2]
    assert np.shape(values) == np.shape(their_values) == (150, 3)
    assert np.abs(np.array(values) - their_values).mean() < 0.05
    assert [m.get_labels()[place] for place in np.argmax(values, axis=1)] == labels
    _, lines = lines_of(capsys, lambda: ours.svm_predict(y, x, m))
    _, their_lines = lines_of(capsys, lambda: theirs.svm_predict(y, x, M))
    assert lines[0] == their_lines[0]
    plain, their_plain = ours.svm_train(y, x, "-q"), theirs.svm_train(y, x, "-q")
    with pytest.raises(ValueError, match="Model does not support"):
        ours.svm_predict(y, x, plain, "-b 1")
    with pytest.raises(ValueError, match="Model does not support"):
        theirs.svm_predict(y, x, their_plain, "-b 1")


def test_cross_validation_and_training_lines(theirs, capsys):
    y, x = ours.svm_read_problem(DATA / "iris.txt")
    accuracy, lines = lines_of(capsys, lambda: ours.svm_train(y, x, "-v 5 -q"))
    their_accuracy, their_lines = lines_of(capsys, lambda: theirs.svm_train(y, x, "-v 5 -q"))
    assert lines == [f"Cross Validation Accuracy = {accuracy:g}%"]
    assert their_lines == [f"Cross Validation Accuracy = {their_accuracy:g}%"]
    assert abs(accuracy - their_accuracy) < 5
    m, lines = lines_of(capsys, lambda: ours.svm_train(y, x))
    assert lines[0] == f"optimization finished, #iter = {m.model.report['iterations']}"
    assert lines[-1] == f"Total nSV = {m.get_nr_sv()}"
    assert m.get_svm_type() == 2


def test_all_call_shapes_train_the_same():
    y, x = ours.svm_read_problem(DATA / "iris.txt")
    dense = odmlib.Dataset.from_any(odmlib.read_data(DATA / "iris.txt")[0]).to_dense()
    expected = ours.svm_predict(y, x, ours.svm_train(y, x, "-c 2 -q"), "-q")
    problem = ours.svm_problem(y, x)
    assert (problem.l, problem.n) == (150, 4)
    models = [
        ours.svm_train(tuple(y), tuple(x), ["-c", "2", "-q"]),
        ours.svm_train(problem, "-c 2 -q"),
        ours.svm_train(problem, ours.svm_parameter("-c 2 -q")),
        ours.svm_train(np.array(y), dense, "-c 2 -q"),
        ours.svm_train(y, dense.tolist(), "-c 2 -q"),
        ours.svm_train(y, scipy.sparse.csr_matrix(dense), "-c2 -q"),
        ours.svm_train(y, scipy.sparse.coo_array(dense), "--C 2 -q"),
    ]
    for model in models:
        assert ours.svm_predict(y, x, model, "-q") == expected
        assert ours.svm_predict(y, dense, model, "-q") == expected
    labels, metrics, _ = ours.svm_predict([], x, models[0], "-q")
    assert labels == expected[0]
    assert metrics[0] == 0


def test_support_vectors(theirs):
    y, x = ours.svm_read_problem(DATA / "wdbc.train.txt")
    m = ours.svm_train(y, x, "-s 0 -g 0.001 -q")
    vectors, coefficients, indices = m.get_SV(), m.get_sv_coef(), m.get_sv_indices()
    assert len(vectors) == len(coefficients) == len(indices) == m.get_nr_sv()
    assert vectors == [x[index - 1] for index in indices]
    assert [len(line) for line in coefficients] == [1] * m.get_nr_sv()
    M = theirs.svm_train(y, x, "-s 0 -g 0.001 -q")
    assert len(M.get_sv_coef()[0]) == 1
    assert sorted(M.get_SV()[0]) == sorted(k for k, v in x[M.get_sv_indices()[0] - 1].items() if v)


def test_precomputed_kernel(theirs):
    y, x = ours.svm_read_problem(DATA / "iris.txt", return_scipy=True)
    K = (x @ x.T).toarray()
    rows = np.c_[np.arange(1, 151), K]
    lists = [dict(enumerate(row)) for row in rows.tolist()]
    expected = ours.svm_predict(y, x, ours.svm_train(y, x, "-t 0 -B -1 -s 0 --multiclass ovo -q"), "-q")
    M = theirs.svm_train(y, rows, "-t 4 -q")
    for given in (rows, lists, scipy.sparse.csr_array(rows)):
        m = ours.svm_train(y, given, "-t 4 -s 0 -q")
        _, metrics, values = ours.svm_predict(y, given, m, "-q")
        assert np.shape(values) == np.shape(theirs.svm_predict(y, rows, M, "-q")[2])
        assert metrics[0] == pytest.approx(expected[1][0], abs=2)
    with pytest.raises(ValueError, match="0:serial"):
        ours.svm_train(y, [dict(enumerate(row, 1)) for row in K.tolist()], "-t 4 -q")


def test_saving_and_loading(tmp_path):
    y, x = ours.svm_read_problem(DATA / "iris.txt")
    m = ours.svm_train(y, x, "-b 1 -q")
    expected = ours.svm_predict(y, x, m, "-q")
    ours.svm_save_model(tmp_path / "m", m)
    ours.svm_save_model(str(tmp_path / "n"), m.model)
    binary, text = io.BytesIO(), io.StringIO()
    ours.svm_save_model(binary, m)
    ours.svm_save_model(text, m)
    assert (
        binary.getvalue() == text.getvalue().encode() == m.model.to_bytes() == (tmp_path / "m").read_bytes()
    )
    for source in (tmp_path / "m", str(tmp_path / "n"), m.model.to_bytes(), io.BytesIO(binary.getvalue())):
        loaded = ours.svm_load_model(source)
        assert ours.svm_predict(y, x, loaded, "-q")[0] == expected[0]
        with pytest.raises(ValueError, match="does not know which training rows"):
            loaded.get_sv_indices()
    assert ours.svm_predict(y, x, pickle.loads(pickle.dumps(m)), "-q") == expected
    with pytest.raises(OSError):
        ours.svm_load_model(tmp_path / "absent")


def test_evaluations(theirs):
    generator = np.random.default_rng(0)
    for _ in range(20):
        truth, predicted = generator.integers(0, 3, (2, 12)).tolist()
        assert ours.evaluations(truth, predicted) == pytest.approx(theirs.evaluations(truth, predicted))
        assert ours.evaluations(truth, predicted, False) == pytest.approx(
            theirs.evaluations(truth, predicted, False)
        )
    assert np.isnan(ours.evaluations([1, 1], [1, 2])[2])
    assert np.isnan(theirs.evaluations([1, 1], [1, 2])[2])
    with pytest.raises(ValueError, match="len"):
        ours.evaluations([1], [1, 2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-z 1", "unknown option '-z'"),
        ("-c", "-c"),
        ("-c -4", "above 0"),
        ("file", "expected options only"),
        ("-v 1", "at least 2 folds"),
        ("--json r", "--json is for odm-train"),
        ("--zero-based", "--zero-based is for odm-train"),
        ("-s 9", "unknown machine '9'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        ours.svm_train([1, -1], [[1], [2]], options)


@pytest.mark.parametrize(
    ("y", "x", "message"),
    [
        ([1, -1], [[1]], "y has 2 labels but x has 1 rows"),
        ([1, -1], [{0: 1}, {1: 1}], r"x\[0\]: indices must be whole numbers from 1"),
        ([1, -1], [{1: 1}, {"a": 1}], r"x\[1\]: indices"),
        ([1, -1], [{1: 1}, {1: "a"}], "cannot be read as numbers"),
        ([1, -1], [{1: 1}, {1: float("nan")}], "NaN"),
        ([1, -1], [{1: 1}, 7], r"x\[1\] is int"),
        ([1, 1], [[1], [2]], "same label"),
        ([[1], [2]], [[1], [2]], "one dimension"),
    ],
)
def test_bad_data(y, x, message):
    with pytest.raises(ValueError, match=message):
        ours.svm_train(y, x, "-q")


def test_more_bad_calls():
    with pytest.raises(TypeError, match="y must be a list of numbers"):
        ours.svm_train(["a", "b"], [[1], [2]])
    with pytest.raises(TypeError, match="options must be"):
        ours.svm_train([1, -1], [[1], [2]], 7)
    m = ours.svm_train([1, -1], [[1], [2]], "-q")
    with pytest.raises(ValueError, match="Wrong options"):
        ours.svm_predict([1], [[1]], m, "-c 1")
    with pytest.raises(TypeError, match="expected a model of svm_train"):
        ours.svm_predict([1], [[1]], None)
    with pytest.raises(ValueError, match="only linear machines"):
        m.get_decfun()
    with pytest.warns(odmlib.ConvergenceWarning, match="gap"):
        y, x = ours.svm_read_problem(DATA / "wdbc.train.txt")
        ours.svm_train(y, x, "-t 0 --solver dcd --max-iter 1 -e 1e-9 -q")


def test_models_of_libsvm_are_loaded_as_they_are(tmp_path):
    theirs = pytest.importorskip("libsvm.svmutil")
    random = np.random.default_rng(4)
    X = random.normal(size=(90, 3))
    x, y = X.tolist(), np.digitize(X[:, 0] + random.normal(size=90), [-0.5, 0.5]).tolist()
    path = str(tmp_path / "m")
    theirs.svm_save_model(path, theirs.svm_train(y, x, "-q -b 1"))
    for options in ("-q", "-q -b 1"):
        expected, found = (
            module.svm_predict(y, x, module.svm_load_model(path), options) for module in (theirs, ours)
        )
        assert found[0] == expected[0]
        np.testing.assert_allclose(found[2], expected[2], atol=1e-6)


def test_labels_that_look_like_targets_are_told():
    with pytest.warns(odmlib.DataWarning, match="targets of a regression"):
        ours.svm_train([0.5 * k for k in range(30)], [[k] for k in range(30)], "-q -t 0")


def test_flags_about_tables_are_refused():
    with pytest.raises(ValueError, match="--one-hot is for odm-train"):
        ours.svm_parameter("--one-hot")


def test_what_numpy_would_take_in_silence_is_refused():
    x = [{1: 1.0}, {1: -1.0}]
    model = ours.svm_train([1, -1], x, "-t 0 -q")
    with pytest.raises(odmlib.ParameterError, match="y has masked entries"):
        ours.svm_train(np.ma.array([1, -1], mask=[True, False]), x, "-t 0 -q")
    with pytest.raises(TypeError, match="y must be a list of numbers"):
        ours.svm_train([1 + 1j, -1], x, "-t 0 -q")
    with pytest.raises(odmlib.ParameterError, match="x cannot be read as numbers"):
        ours.svm_train([1, -1], [{1: 10**400}, {1: 1}], "-t 0 -q")
    with pytest.raises(odmlib.ParameterError, match="x has no rows to predict"):
        ours.svm_predict([], [], model, "-q")
