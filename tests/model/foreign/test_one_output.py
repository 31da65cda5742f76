"""Models of regression and of one class, to and from LIBSVM and LIBLINEAR, which predict as we do."""

from __future__ import annotations

import numpy as np
import pytest

import odmlib
from odmlib.errors import ModelFormatError, ParameterError
from odmlib.model.foreign.files import foreign_text, load_foreign_model, losses


def some(m=60):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, 4))
    return X, X[:, 0] + np.sin(X[:, 1]) + 7


def text_of(model, form):
    return b"".join(foreign_text(model, form))


@pytest.fixture
def saved(tmp_path):
    def save(text):
        path = tmp_path / "model"
        path.write_bytes(text)
        return str(path)

    return save


@pytest.mark.parametrize("machine", ["odmr", "odmo"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "sigmoid"])
def test_libsvm_predicts_as_we_do(machine, kernel, saved):
    svmutil = pytest.importorskip("libsvm.svmutil")
    X, t = some()
    model = odmlib.train(X, t, machine=machine, kernel=kernel, gamma=0.1, coef0=1.0, bias=1.5)
    text = text_of(model, "libsvm")
    theirs = svmutil.svm_load_model(saved(text))
    labels, _, values = svmutil.svm_predict(t.tolist(), X.tolist(), theirs, "-q")
    expected = model.decision_function(X)
    assert np.array(values)[:, 0] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert labels == pytest.approx(model.predict(X).tolist(), rel=1e-9)
    back = load_foreign_model(text, features=4)
    assert back.machine == machine
    assert back.predict(X) == pytest.approx(model.predict(X), rel=1e-12)
    again = odmlib.load_model(back.to_bytes())
    assert np.array_equal(again.decision_function(X), back.decision_function(X))


@pytest.mark.parametrize(
    "options", ["-s 3 -t 2 -g 0.2", "-s 4 -t 0", "-s 2 -n 0.3 -g 0.2", "-s 2 -t 1 -b 1", "-s 3 -b 1"]
)
def test_models_of_libsvm(options, tmp_path):
    svmutil = pytest.importorskip("libsvm.svmutil")
    X, t = some()
    theirs = svmutil.svm_train(t.tolist(), X.tolist(), options + " -q")
    path = tmp_path / "theirs"
    svmutil.svm_save_model(str(path), theirs)
    labels, _, values = svmutil.svm_predict(t.tolist(), X.tolist(), theirs, "-q")
    model = load_foreign_model(str(path), features=4)
    assert model.decision_function(X) == pytest.approx(np.array(values)[:, 0], rel=1e-6, abs=1e-6)
    assert model.predict(X) == pytest.approx(labels, rel=1e-6)
    assert odmlib.load_model(model.to_bytes()).predict(X) == pytest.approx(labels, rel=1e-6)


@pytest.mark.parametrize("machine", ["odmr", "odmo"])
@pytest.mark.parametrize("bias", [-1, 2.0])
def test_liblinear_predicts_as_we_do(machine, bias, saved):
    liblinear = pytest.importorskip("liblinear.liblinearutil")
    X, t = some()
    model = odmlib.train(X + 1, t, machine=machine, kernel="linear", bias=bias)
    text = text_of(model, None)
    assert text.startswith(
        b"solver_type ONECLASS_SVM" if machine == "odmo" else b"solver_type L2R_L2LOSS_SVR\n"
    )
    theirs = liblinear.load_model(saved(text))
    labels, _, values = liblinear.predict(t, X + 1, theirs, "-q")
    assert np.array(values)[:, 0] == pytest.approx(model.decision_function(X + 1), rel=1e-9, abs=1e-9)
    assert labels == pytest.approx(model.predict(X + 1).tolist(), rel=1e-9)
    assert load_foreign_model(text).predict(X + 1) == pytest.approx(labels, rel=1e-9)


@pytest.mark.parametrize("options", ["-s 11", "-s 12 -B 1", "-s 13 -p 0.1", "-s 21 -n 0.2"])
def test_models_of_liblinear(options, tmp_path):
    liblinear = pytest.importorskip("liblinear.liblinearutil")
    X, t = some()
    theirs = liblinear.train(t, X, options + " -q")
    path = tmp_path / "theirs"
    liblinear.save_model(str(path), theirs)
    labels, _, values = liblinear.predict(t, X, theirs, "-q")
    model = load_foreign_model(str(path))
    assert model.machine == ("odmo" if "-s 21" in options else "odmr")
    assert model.decision_function(X) == pytest.approx(np.array(values)[:, 0], rel=1e-9, abs=1e-12)
    assert model.predict(X) == pytest.approx(labels)


def test_what_cannot_be_converted():
    X, t = some()
    model = odmlib.train(X, np.stack([t, t], axis=1), machine="odmr", kernel="linear")
    for form in ("libsvm", "liblinear"):
        with pytest.raises(ParameterError, match="predicts one number per row, the model has 2 outputs"):
            text_of(model, form)
    detector = odmlib.train(X, machine="odmo")
    assert losses(detector, "libsvm") == ["the p-values are left out: LIBSVM has none"]
    broken = text_of(detector, "libsvm").replace(b"total_sv 60", b"total_sv 61")
    with pytest.raises(ModelFormatError, match="the header says 61 support vectors, the file holds 60"):
        load_foreign_model(broken)
