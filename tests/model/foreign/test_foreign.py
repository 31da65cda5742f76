"""Models of LIBSVM and LIBLINEAR, to and fro: decision values against their libraries, broken files."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest

import odmlib
from odmlib.model.foreign.files import form_of, load_foreign_model, save_foreign_model
from odmlib.model.foreign.liblinear import liblinear_text
from odmlib.model.foreign.libsvm import libsvm_text
from odmlib.model.model import Model
from odmlib.model.text_format import load_model
from odmlib.model.text_writer import model_text
from tests.model.examples import make_model

ROWS = np.random.default_rng(3).normal(size=(40, 6)).round(4)


def foreign(model: Model, form: str | None = None) -> bytes:
    file = io.BytesIO()
    save_foreign_model(model, file, form)
    return file.getvalue()


def data(n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(90, 5)).round(3)
    y = np.digitize(X[:, 0] + 0.5 * random.normal(size=90), np.linspace(-0.8, 0.8, n_classes - 1))
    return X, 10 - 3 * y


def pair_values(model: Model, X: np.ndarray) -> np.ndarray:
    """Our decision values as duels of LIBSVM."""
    scores = model.function.scores(odmlib.Dataset.from_any(X), 1)
    if model.scheme in ("binary", "ovo"):
        return scores
    first, second = np.triu_indices(model.n_classes, 1)
    return scores[:, first] - scores[:, second]


def libsvm_values(text: bytes, X: np.ndarray, tmp_path, precomputed=False) -> tuple[np.ndarray, np.ndarray]:
    """Labels and decision values of LIBSVM's own library."""
    svmutil = pytest.importorskip("libsvm.svmutil")
    (tmp_path / "their.model").write_bytes(text)
    theirs = svmutil.svm_load_model(str(tmp_path / "their.model"))
    rows = [{j + 1: float(v) for j, v in enumerate(row)} for row in X]
    if precomputed:
        rows = [{0: 1} | row for row in rows]
    labels, _, values = svmutil.svm_predict([0] * len(rows), rows, theirs, "-q")
    return np.array(labels), np.array(values)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("machine", ["odm", "mcodm", "kmomd"])
def test_decision_values_of_libsvm(tmp_path, kernel, n_classes, machine):
    X, y = data(n_classes)
    # the bias of poly, and the threshold of kmomd, are constants that must reach rho
    model = odmlib.train(X, y, kernel=kernel, machine=machine, gamma=0.3, coef0=0.1, tol=1e-4)
    labels, values = libsvm_values(foreign(model, "libsvm"), X, tmp_path)
    ours = pair_values(model, X)
    if model.scheme == "joint" and n_classes == 2:
        assert values.shape == (len(X), 1)
    np.testing.assert_allclose(values, ours, rtol=1e-9, atol=1e-9 * np.abs(ours).max())
    np.testing.assert_array_equal(labels, model.predict(X))


@pytest.mark.parametrize("kind", ["rbf ovo", "rbf ovr", "rbf joint", "poly ovo", "linear ovo", "linear ovr"])
def test_made_models_reach_libsvm(tmp_path, kind):
    """Coefficients at every pair and offsets of every output, whatever training would give."""
    model = make_model(kind, labels=(3.0, -1.0, 25.0, 7.0))
    X = ROWS.copy()
    X[:, 3] *= 1e-10  # the examples have a vector of that size
    labels, values = libsvm_values(foreign(model, "libsvm"), X, tmp_path)
    ours = pair_values(model, X)
    np.testing.assert_allclose(values, ours, rtol=1e-9, atol=1e-10)
    np.testing.assert_array_equal(labels, model.predict(X))


@pytest.mark.parametrize("kind", ["precomputed", "precomputed ovo", "precomputed ovr"])
def test_precomputed_kernels_reach_libsvm(tmp_path, kind):
    model = make_model(kind, labels=(3, -1) if kind == "precomputed" else (3, -1, 25, 7))
    text = foreign(model)
    labels, values = libsvm_values(text, ROWS, tmp_path, precomputed=True)
    np.testing.assert_allclose(values, pair_values(model, ROWS), rtol=1e-9, atol=1e-10)
    np.testing.assert_array_equal(labels, model.predict(ROWS))
    back = load_foreign_model(text, features=6)
    np.testing.assert_allclose(pair_values(back, ROWS), values, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", ["linear", "linear ovr"])
def test_weights_reach_liblinear(tmp_path, kind):
    liblinearutil = pytest.importorskip("liblinear.liblinearutil")
    model = make_model(kind, labels=(3, -1) if kind == "linear" else (3, -1, 25, 7))
    text = foreign(model)
    (tmp_path / "their.model").write_bytes(text)
    theirs = liblinearutil.load_model(str(tmp_path / "their.model"))
    rows = [{j + 1: float(v) for j, v in enumerate(row)} for row in ROWS]
    labels, _, values = liblinearutil.predict([0] * len(rows), rows, theirs, "-q")
    ours = model.function.scores(odmlib.Dataset.from_any(ROWS), 1)
    np.testing.assert_allclose(np.array(values), ours, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(labels, model.predict(ROWS))


@pytest.mark.parametrize("machine", ["svm", "odm", "mcodm", "kmomd"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_there_and_back(machine, n_classes, kernel):
    X, y = data(n_classes, seed=5)
    model = odmlib.train(X, y, kernel=kernel, machine=machine)
    text = foreign(model)
    back = load_foreign_model(text, features=5)
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    scale = np.abs(pair_values(model, X)).max()
    np.testing.assert_allclose(pair_values(back, X), pair_values(model, X), atol=1e-9 * scale)
    again = load_model(b"".join(model_text(back)))
    np.testing.assert_array_equal(again.decision_function(X), back.decision_function(X))
    assert again.report["status"] == "converted"
    assert again.report["gap"] is None and again.report["margin"] == {}
    assert "C" not in again.parameters


def test_probabilities_of_pairs_go_to_libsvm_and_come_back(tmp_path):
    svmutil = pytest.importorskip("libsvm.svmutil")
    for n_classes, tolerance in ((2, 1e-6), (4, 0.02)):  # LIBSVM stops coupling pairs at 0.005 / classes
        X, y = data(n_classes)
        model = odmlib.train(X, y, probability=True)
        text = foreign(model)
        (tmp_path / "m").write_bytes(text)
        theirs = svmutil.svm_load_model(str(tmp_path / "m"))
        rows = [{j + 1: float(v) for j, v in enumerate(row)} for row in X]
        labels, _, p = svmutil.svm_predict([0] * len(rows), rows, theirs, "-q -b 1")
        ours = model.predict_proba(X)
        # ours agree with the predicted label, which moves the few that do not
        agree = np.abs(np.array(p) - ours).max(axis=1) <= tolerance
        assert agree.mean() > 0.9
        back = load_foreign_model(text, features=5)
        # a model of LIBSVM gives LIBSVM's probabilities, the most probable label included
        np.testing.assert_allclose(back.predict_proba(X), p, atol=1e-6)
        assert back.labels[back.predict_proba(X).argmax(axis=1)].tolist() == labels
        again = load_model(back.to_bytes())
        assert (again.predict_proba(X) == back.predict_proba(X)).all()


@pytest.mark.parametrize("form", ["libsvm", "liblinear"])
def test_load_model_reads_models_of_other_programs(form, tmp_path):
    X, y = data(3)
    model = odmlib.train(X, y, kernel="linear", multiclass="ovr")
    (tmp_path / "m").write_bytes(foreign(model, form))
    assert (load_model(tmp_path / "m").predict(X) == model.predict(X)).all()


def test_logistic_regression_of_liblinear_has_probabilities():
    text = b"solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias -1\nw\n0.5 \n-2 \n"
    model = load_foreign_model(text)
    p = model.predict_proba(np.array([[1.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_allclose(p[:, 0], 1 / (1 + np.exp([-0.5, 2.0])))


@pytest.mark.parametrize("label", [2.5, 3e9, "cat", True])
def test_labels_that_c_cannot_hold(label):
    labels = np.array([label, "dog"] if isinstance(label, str) else [label, False if label is True else 1])
    with pytest.raises(
        odmlib.ParameterError, match=r"cannot be converted: labels of a LIBSVM model are whole"
    ):
        foreign(make_model("rbf", labels=labels))
    with pytest.raises(odmlib.ParameterError, match=r"labels of a LIBLINEAR model are whole numbers"):
        foreign(make_model("linear", labels=labels))


def test_what_a_form_cannot_hold():
    with pytest.raises(odmlib.ParameterError, match="rbf kernel cannot become a LIBLINEAR model"):
        next(liblinear_text(make_model("rbf")))
    with pytest.raises(odmlib.ParameterError, match="no one-vs-one"):
        next(liblinear_text(make_model("linear ovo", labels=(1, 2, 3, 4))))
    with pytest.raises(odmlib.ParameterError, match="form must be one of libsvm, liblinear"):
        foreign(make_model("rbf"), "onnx")


def test_huge_columns_are_no_lines_of_zeros():
    from odmlib.model.functions import LinearFunction

    function = LinearFunction(np.array([0, 3], np.int32), np.array([1.0, 2.0]), 0.0, 0.0)
    model = make_model("linear", n_features=2**31 - 1, function=function)
    text = foreign(model)
    assert b"nr_feature 4\n" in text and len(text) < 200


def test_files_that_count_from_0():
    model = make_model("rbf", zero_based=True)
    text = foreign(model)
    assert b" 0:0.3333333333333333 5:7\n" in text
    back = load_foreign_model(text)
    assert back.zero_based
    np.testing.assert_array_equal(back.function.vectors.indices, model.function.vectors.indices)


def test_forms_are_told_by_content():
    assert form_of(b"odmlib model 1\n") == "odmlib"
    assert form_of(b"nr_class 2\nsvm_type c_svc\n") == "libsvm"
    assert form_of(b"nr_class 2\nsolver_type L2R_LR\n") == "liblinear"
    assert form_of(b"<html>") is None


LIBSVM = b"".join(libsvm_text(make_model("rbf", labels=(1.0, -1.0))))
LIBSVM_MANY = b"".join(libsvm_text(make_model("poly ovo", labels=(1, 2, 3, 4))))
LIBLINEAR = b"".join(liblinear_text(make_model("linear ovr", labels=(1, 2, 3, 4))))


@pytest.mark.parametrize("text", [LIBSVM, LIBSVM_MANY, LIBLINEAR])
def test_every_truncation_is_refused(text):
    """Cut anywhere before the end of the last line's last number, the file must be refused or mean another
    number only in its very last one."""
    last = text.rstrip().rfind(b"\n") + 1
    for end in range(last):
        with pytest.raises(odmlib.ModelFormatError):
            load_foreign_model(text[:end])


@pytest.mark.parametrize("text", [LIBSVM, LIBSVM_MANY, LIBLINEAR])
def test_line_ends_of_other_systems(text):
    one, other = (load_foreign_model(lines, features=6) for lines in (text, text.replace(b"\n", b"\r\n")))
    X = odmlib.Dataset.from_any(ROWS)
    np.testing.assert_array_equal(one.function.scores(X, 1), other.function.scores(X, 1))


@pytest.mark.parametrize("text", [LIBSVM, LIBSVM_MANY, LIBLINEAR])
def test_every_key_is_needed_and_known_once(text):
    header = text[: re.search(rb"^(SV|w)\n", text, re.M).start()]
    for line in header.splitlines(keepends=True):
        with pytest.raises(odmlib.ModelFormatError):
            load_foreign_model(text.replace(line, b"", 1))
        with pytest.raises(odmlib.ModelFormatError, match="stands twice"):
            load_foreign_model(line + text)
        key = line.split()[0]
        for wrong in (b"", b" x", b" -1", b" nan", b" 1e999", b" 99999999999", b" 1 2 3 4 5 6 7 8 9"):
            if key in (b"bias", b"coef0", b"gamma", b"rho") and wrong in (b" -1", b" 99999999999"):
                continue  # good numbers, or (gamma -1) refused below
            with pytest.raises(odmlib.ModelFormatError):
                load_foreign_model(text.replace(line, key + wrong + b"\n", 1))
    with pytest.raises(odmlib.ModelFormatError, match="unknown key 'colour'"):
        load_foreign_model(b"colour red\n" + text)
    if b"gamma" in text:
        with pytest.raises(odmlib.ModelFormatError, match="gamma must be a finite number >= 0"):
            load_foreign_model(re.sub(rb"gamma .*\n", b"gamma -1\n", text))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"c_svc", b"ranking", "only c_svc, nu_svc, epsilon_svr"),
        (b"kernel_type rbf", b"kernel_type chi2", "kernel_type: expected one of linear"),
        (b"total_sv 3", b"total_sv 4", "nr_sv: the numbers add up to 3, total_sv says 4"),
        (b"nr_sv 2 1", b"nr_sv 100000 1", "add up to 100001"),
        (b"1:0.3333333333333333 6:7", b"6:7 1:0.5", "ascend"),
        (b"1:0.3333333333333333 6:7", b"1:nan", "finite"),
        (b"0.1 1:0.33", b"\n0.1 1:0.33", "empty line"),
        (b"0.1 1:0.33", b"nan 1:0.33", "finite"),
        (b"label 1 -1", b"label 1 1", "2 different whole numbers"),
        (b"label 1 -1", b"label 1 1.5", "2 different whole numbers"),
    ],
)
def test_broken_libsvm_models(old, new, message):
    assert old in LIBSVM
    with pytest.raises(odmlib.ModelFormatError, match=message):
        load_foreign_model(LIBSVM.replace(old, new))


def test_faults_in_vectors_of_many_classes_have_their_column():
    broken = LIBSVM_MANY.replace(b"6:7\n", b"6:x\n", 1)
    line = broken.splitlines()
    number = next(i for i, text in enumerate(line, 1) if text.endswith(b"6:x"))
    with pytest.raises(odmlib.ModelFormatError) as caught:
        load_foreign_model(broken)
    assert (caught.value.line, caught.value.column) == (number, len(line[number - 1]))


def test_serials_out_of_range():
    text = foreign(make_model("precomputed"))
    for wrong in (b"0:999999999999", b"0:0.5", b"1:2", b""):
        with pytest.raises(odmlib.ModelFormatError):
            load_foreign_model(re.sub(rb"0:6$", wrong, text, flags=re.M))


def test_another_solver_of_liblinear_is_refused():
    with pytest.raises(odmlib.ModelFormatError, match="only L2R_L2LOSS_SVC_DUAL"):
        load_foreign_model(LIBLINEAR.replace(b"L2R_L2LOSS_SVC", b"L3R_L2LOSS_SVC"))


def test_a_libsvm_model_takes_dense_rows_of_any_width():
    """Its file does not say how many features there were; LIBSVM takes missing ones for 0."""
    X = np.random.default_rng(3).normal(size=(40, 3))
    model = odmlib.train(X, np.where(X[:, 0] > 0, 1, -1), gamma=0.5)
    theirs = load_model(foreign(model, "libsvm"))
    np.testing.assert_allclose(theirs.decision_function(X), model.decision_function(X), atol=1e-7)
    wider = np.column_stack([X, np.zeros(40)])
    np.testing.assert_array_equal(theirs.decision_function(wider), theirs.decision_function(X))
    assert "any features" in repr(theirs) and ("features", "any") in theirs.summary()
