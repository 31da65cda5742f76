"""C code: compiles without a warning, and its labels, scores and probabilities are those of the model."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

import odmlib
from odmlib.data.dataset import Dataset
from odmlib.data.reading import read_dataset
from odmlib.data.scaling import Scaling
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.model.export.c_code import REALS, c_code, header_name, save_c_code
from odmlib.model.functions import KernelFunction, LinearFunction, RoutedFunction

from ...real_data import real_path
from ..examples import make_model
from .c_program import COMPILERS, answers_of, compile_c, compiler_or_skip, predictions_of
from .trained import DATA, REAL, REGRESSIONS, TRAINED, size_of_terms, trained, trained_regression


def assert_same(model, rows: Dataset, answers, tolerance: float = 1e-12) -> None:
    """Labels of every row; scores; probabilities."""
    scores = model.function.scores(rows, 1)
    assert np.abs(answers.scores - scores).max() <= tolerance * size_of_terms(model, rows)
    if tolerance < 1e-9:
        assert np.array_equal(answers.places, model.positions(rows))
    if "probability_slopes" in model.extras:
        p = model.predict_proba(rows)
        assert np.abs(answers.probabilities - p).max() <= max(100 * tolerance, 1e-9)  # of the coupling
        assert np.array_equal(answers.probabilities.argmax(axis=1), answers.places)


@pytest.mark.parametrize("name", TRAINED)
def test_answers_are_those_of_the_model(name, tmp_path):
    model, rows = trained(name)
    answers = answers_of(model, rows.to_dense(), tmp_path)
    assert_same(model, rows, answers)
    assert [float(label) for label in answers.labels] == model.labels.tolist()


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("precision", list(REALS))
@pytest.mark.parametrize("name", REGRESSIONS)
def test_predictions_of_a_regression(name, precision, outputs, tmp_path):
    model, rows = trained_regression(name, outputs)
    predicted = predictions_of(model, rows.to_dense(), tmp_path, precision=precision)
    expected = model.predict(rows).reshape(rows.n_rows, outputs)
    tolerance = 1e-12 if precision == "float64" else 1e-5
    assert np.abs(predicted - expected).max() <= tolerance * size_of_terms(model, rows)


@pytest.mark.parametrize("name", ["rbf", "linear"])
def test_a_regression_with_its_scaling(name, tmp_path):
    model, rows = trained_regression(name)
    scaling = Scaling.fit(rows)
    predicted = predictions_of(model, rows.to_dense(), tmp_path, scaling=scaling)[:, 0]
    expected = model.predict(scaling.apply(rows))
    assert predicted == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("name", ["two classes, rbf", "one-vs-one, rbf", "one-vs-rest, linear", "mcodm"])
def test_float32(name, tmp_path):
    model, rows = trained(name)
    answers = answers_of(model, rows.to_dense(), tmp_path, precision="float32")
    assert_same(model, rows, answers, 1e-3)
    assert (answers.places == model.positions(rows)).mean() > 0.98
    assert "double" not in (tmp_path / "m.c").read_text()


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("kind", ["linear", "rbf", "poly ovo", "sigmoid", "rbf joint", "linear ovo"])
def test_models_with_extreme_numbers(kind, compiler, tmp_path):
    """Subnormal and huge coefficients, empty vectors, offsets, a bias."""
    outputs = {"linear": 1, "rbf": 1, "sigmoid": 1, "poly ovo": 6, "linear ovo": 6, "rbf joint": 4}[kind]
    extras = {
        "probability_slopes": tuple(np.linspace(0.5, 2, outputs)),
        "probability_offsets": tuple(np.linspace(-1, 1, outputs)),
    }
    model = make_model(kind, extras=extras)
    rows = Dataset.from_any(np.random.default_rng(1).normal(size=(50, 6)))
    assert_same(model, rows, answers_of(model, rows.to_dense(), tmp_path, compiler))


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("precision", list(REALS))
def test_a_model_that_holds_nothing(kernel, precision, tmp_path):
    empty = Dataset.from_any(np.zeros((0, 6)))
    function = KernelFunction(KernelFormula("rbf"), empty, np.zeros(0), [0.5])
    if kernel == "linear":
        function = LinearFunction(np.zeros(0, np.int32), np.zeros(0), 0.0, [0.0], [0.5])
    model = make_model(kernel, function=function)
    rows = Dataset.from_any(np.ones((3, 6)))
    assert_same(model, rows, answers_of(model, rows.to_dense(), tmp_path, precision=precision))


def test_vectors_of_zeros_take_little(tmp_path):
    """A small file can claim very many features."""
    empty = Dataset(np.zeros(1001, np.int64), np.zeros(0, np.int32), np.zeros(0), 1 << 24)
    function = KernelFunction(KernelFormula("rbf", gamma=0.5), empty, np.linspace(-1, 2, 1000))
    assert c_code(make_model("rbf", n_features=1 << 24, function=function), "m.c").data_bytes < 20_000
    narrow = KernelFunction(function.formula, empty.with_features(6), function.coefficients)
    model = make_model("rbf", function=narrow)
    rows = Dataset.from_any(np.random.default_rng(2).normal(size=(5, 6)))
    assert_same(model, rows, answers_of(model, rows.to_dense(), tmp_path))


def test_wide_sparse_weights_take_little(tmp_path):
    columns = np.array([3, 70_000, 999_999], np.int32)
    function = LinearFunction(columns, [0.5, -1.0, 2.0], 1.0, [0.25])
    model = make_model("linear", n_features=1_000_000, function=function)
    assert c_code(model, "m.c").data_bytes < 100
    rows = np.zeros((2, 1_000_000))
    rows[0, columns], rows[1, 5] = (1.0, 2.0, 3.0), 1.0
    assert_same(model, Dataset.from_any(rows), answers_of(model, rows, tmp_path))


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_scaling_is_built_in(kernel, compiler, tmp_path):
    """Known, unknown and constant features, values outside the range and exactly at its ends."""
    rows, y = read_dataset(DATA / "wdbc.train.txt")
    scaling = Scaling.fit(rows)
    low, high = scaling.minimum.copy(), scaling.maximum
    low[2] = high[2]
    kept = np.arange(len(low)) != 4
    scaling = Scaling(scaling.columns[kept], low[kept], high[kept], -1.0, 0.5)
    model = odmlib.train(scaling.apply(rows), y, kernel=kernel, threads=1)
    new = read_dataset(DATA / "wdbc.test.txt")[0]
    answers = answers_of(model, new.to_dense(), tmp_path, compiler, scaling=scaling)
    assert_same(model, scaling.apply(new).with_features(model.n_features), answers)


def test_the_code_has_no_heap_and_no_variables(tmp_path):
    compiler = compiler_or_skip()
    model, _ = trained("one-vs-one, rbf")
    save_c_code(model, tmp_path / "m.c")
    compile_c(compiler, "-c", str(tmp_path / "m.c"), "-o", str(tmp_path / "m.o"))
    table = subprocess.run(["nm", tmp_path / "m.o"], capture_output=True, text=True, check=True).stdout
    symbols = [line.split()[-2:] for line in table.splitlines()]
    assert not {kind for kind, _ in symbols} & set("BbCG")
    assert {name for kind, name in symbols if kind == "U"} <= {"exp", "memset", "__stack_chk_fail"}
    # pointers to the labels may be moved when a program is loaded, and stay as they are
    assert [name for kind, name in symbols if kind in "Dd"] in ([], ["labels"])


def test_the_header_serves_cpp(tmp_path):
    model, _ = trained("two classes, linear")
    save_c_code(model, tmp_path / "m.c")
    (tmp_path / "main.cpp").write_text('#include "m.h"\nint main() { return m_label(5) != 0; }\n')
    compile_c(compiler_or_skip(), "-c", str(tmp_path / "m.c"), "-o", str(tmp_path / "m.o"))
    words = [str(tmp_path / "main.cpp"), str(tmp_path / "m.o"), "-o", str(tmp_path / "p"), "-lm"]
    cpp = {"gcc": "g++", "clang": "clang++"}[compiler_or_skip()]
    subprocess.run([cpp, "-Wall", "-Wextra", "-pedantic", *words], check=True, timeout=300)
    subprocess.run([tmp_path / "p"], check=True, timeout=300)


HOSTILE = ['"; int evil; //', "*/ #error no", "??/", "\\", "%s%n", 'a"b\n#include "x"', "ä\u2028€", "\ud800"]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_hostile_labels_stay_labels(compiler, tmp_path):
    model = make_model("linear ovr", labels=np.array(HOSTILE, dtype=object))
    code = answers_of(model, np.zeros((1, 6)), tmp_path, compiler)
    assert code.labels == [label.encode("utf-8", "surrogatepass") for label in HOSTILE]
    assert "??/" not in (tmp_path / "m.c").read_text()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (make_model("precomputed"), "precomputed kernel cannot become C code"),
        (make_model("linear", labels=np.array(["a\0b", "c"])), "zero byte"),
        (make_model("linear", labels=np.array(["a" * 5000, "c"])), "5000 bytes"),
        (make_model("linear", n_features=2**31 - 1), "dense rows of 1 to"),
    ],
)
def test_what_cannot_become_c_is_refused(model, message, tmp_path):
    with pytest.raises(ParameterError, match=message):
        save_c_code(model, tmp_path / "m.c")
    assert list(tmp_path.iterdir()) == []


def test_regions_are_refused():
    one = make_model("rbf").function
    routed = RoutedFunction(one.formula, one.vectors, np.ones((3, 4)), np.zeros(4))
    with pytest.raises(ParameterError, match="several regions"):
        c_code(make_model("rbf", function=routed), "m.c")


def test_numbers_too_large_for_float32_are_refused():
    model = make_model("linear", function=LinearFunction(np.array([0], np.int32), [1e39], 0.0, [0.0]))
    with pytest.raises(ParameterError, match="too large for float32"):
        c_code(model, "m.c", "float32")


@pytest.mark.parametrize("name", ["m", "1.c", 'a".c', "a b.c", "ä.c", ".c", "a\n.c", "_a.c"])
def test_names_that_c_cannot_have(name):
    with pytest.raises(ParameterError, match="name of a C file"):
        header_name(name)


def test_names_of_functions_come_from_the_file():
    code = c_code(make_model("linear"), "heart-2.1.c")
    assert re.search(r"int heart_2_1_predict\(", code.header)
    assert '#include "heart-2.1.h"' in "".join(code.source())


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", REAL)
def test_real_test_sets(name, tmp_path):
    """Every row of six real test sets."""
    rows, y = read_dataset(real_path(name))
    model = odmlib.train(rows, y, tol=0.01, **REAL[name])
    test = read_dataset(real_path(f"{name}.t"))[0].with_features(model.n_features)
    for compiler in COMPILERS[:1]:
        assert_same(model, test, answers_of(model, test.to_dense(), tmp_path, compiler))
