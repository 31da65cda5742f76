"""The model file: exact round trips, and a reader that believes nothing."""

from __future__ import annotations

import bz2
import gzip
import io
import pickle
import random
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from odmlib.data.dataset import Dataset
from odmlib.errors import ModelFormatError, ParameterError
from odmlib.model.functions import KernelFunction, LinearFunction, PrecomputedFunction
from odmlib.model.model import Model
from odmlib.model.text_format import load_model
from odmlib.model.text_writer import model_text
from tests.reference_kernel import kernel_matrix

from .examples import KINDS, SEVERAL, make_model

ALL_KINDS = KINDS + SEVERAL
OPTIONAL = ("scheme", "offsets", "margin_quantiles")  # keys that a file may do without

TEST_ROWS = Dataset.from_any(np.random.default_rng(1).normal(size=(5, 6)))


def text_of(model: Model) -> bytes:
    return b"".join(model_text(model))


def replaced(text: bytes, key: str, line: str | None) -> bytes:
    """The file with the header line of `key` replaced, or without it."""
    lines = text.split(b"\n")
    (place,) = [k for k, old in enumerate(lines) if old.startswith(key.encode() + b" ")]
    lines[place : place + 1] = [] if line is None else [line.encode()]
    return b"\n".join(lines)


def header_keys(text: bytes) -> list[str]:
    header = text
    for section in (b"SV", b"w", b"coefficients"):
        header = header.partition(b"\n" + section + b"\n")[0]
    return [line.split(b" ")[0].decode() for line in header.split(b"\n")[1:]]


def rejected(text: bytes) -> str:
    with pytest.raises(ModelFormatError) as caught:
        load_model(text)
    assert str(caught.value).startswith("<bytes>:")
    return str(caught.value)


# ---------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_round_trip_is_exact(kind):
    model = make_model(kind, zero_based=True)
    again = load_model(text_of(model))
    assert text_of(again) == text_of(model)
    assert again.decision_function(TEST_ROWS).tobytes() == model.decision_function(TEST_ROWS).tobytes()
    for name in ("machine", "formula", "n_features", "parameters", "zero_based", "n_support"):
        assert getattr(again, name) == getattr(model, name), name
    for name, value in model.report.items():
        assert again.report[name] == value, name


def test_every_finite_double_survives():
    bits = np.random.default_rng(0).integers(0, 2**64, 4000, dtype=np.uint64)
    numbers = bits.view(np.float64)
    numbers = np.concatenate(
        [numbers[np.isfinite(numbers)], [5e-324, -1.7976931348623157e308, 2.0**60, 1e22]]
    )
    numbers = numbers[numbers != 0]
    columns = np.arange(len(numbers), dtype=np.int32)
    model = make_model(n_features=len(numbers), function=LinearFunction(columns, numbers, 0.5, numbers[0]))
    again = load_model(text_of(model)).function
    assert isinstance(again, LinearFunction)
    assert again.weights.tobytes() == numbers.tobytes()
    assert again.bias_weights[0] == numbers[0]
    vectors = Dataset.from_any(numbers.reshape(-1, 1))
    kernel = make_model("rbf", n_features=1)
    kernel = make_model("rbf", n_features=1, function=KernelFunction(kernel.formula, vectors, numbers))
    again_kernel = load_model(text_of(kernel)).function
    assert isinstance(again_kernel, KernelFunction)
    assert again_kernel.coefficients.tobytes() == numbers.tobytes()
    assert again_kernel.vectors.values.tobytes() == numbers.tobytes()


@pytest.mark.parametrize(
    "labels",
    [
        np.array([1.0, -1.0]),
        np.array([0.1, 1e300]),
        np.array([2.0**63, 3e9]),
        np.array([1.5, 1.7], np.float32),
        np.array([2**63 - 1, -(2**63)]),
        np.array([2**64 - 1, 0], np.uint64),
        np.array([7, -7], np.int8),
        np.array([True, False]),
        np.array(["spam", "egg"]),
        np.array(["with blank", 'quote " and \\ backslash']),
        np.array(["Grün", "猫\U0001f408"]),
        np.array(["line\nbreak", "\r\n\t\0end"]),
        np.array(["", " "]),
        np.array(["w", "SV"]),
        np.array(["\ud800", "end"]),
        np.array(["one", 2, True], dtype=object)[:2],
        np.array([10**30, 0.5], dtype=object),
        np.array([np.int64(4), "four"], dtype=object),
    ],
    ids=lambda labels: ascii(labels.tolist()),
)
def test_labels_come_back_as_they_were(labels):
    model = make_model(labels=labels)
    again = load_model(text_of(model)).labels
    assert again.tolist() == labels.tolist()
    assert [type(label) for label in again.tolist()] == [type(label) for label in labels.tolist()] or (
        labels.dtype == object
    )
    assert again.dtype.kind == labels.dtype.kind


def test_labels_that_no_text_can_hold_are_refused():
    for labels in (np.array([b"a", b"b"]), np.array(["2020-01-01", "2021-01-01"], "datetime64[D]")):
        with pytest.raises(ParameterError, match="cannot be written"):
            text_of(make_model(labels=labels))


def test_targets_and_sources(tmp_path):
    model = make_model("rbf")
    wanted = text_of(model)
    path = tmp_path / "a model"
    model.save(path)
    assert path.read_bytes() == wanted
    model.save(str(path))
    assert list(tmp_path.iterdir()) == [path]
    stream = io.BytesIO()
    model.save(stream)
    assert stream.getvalue() == wanted
    text = io.StringIO()
    model.save(text)
    assert text.getvalue().encode() == wanted
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(wanted))
    with path.open("rb") as file:
        sources = [path, str(path), file, wanted, bytearray(wanted), io.StringIO(text.getvalue()), packed]
        sources.append(bz2.compress(wanted))
        for source in sources:
            assert text_of(load_model(source)) == wanted


def test_save_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "m"
    path.write_text("old")
    with pytest.raises(ParameterError):
        make_model(labels=np.array([b"a", b"b"])).save(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_pickle(kind):
    model = make_model(kind)
    again = pickle.loads(pickle.dumps(model))
    assert text_of(again) == text_of(model)
    assert again.decision_function(TEST_ROWS).tobytes() == model.decision_function(TEST_ROWS).tobytes()


def test_weights_of_zero_are_not_written():
    function = LinearFunction(np.array([0, 3], np.int32), np.array([0.0, 2.0]), 0.0, 0.0)
    again = load_model(text_of(make_model(function=function))).function
    assert isinstance(again, LinearFunction)
    assert again.columns.tolist() == [3]


def test_models_without_any_weight_or_vector():
    nothing = np.zeros(0)
    linear = LinearFunction(np.zeros(0, np.int32), nothing, 0.0, 0.0)
    for model in (
        make_model(function=linear),
        make_model("rbf", function=KernelFunction(make_model("rbf").formula, TEST_ROWS.take([]), nothing)),
        make_model("precomputed", function=PrecomputedFunction(np.zeros(0, np.int64), nothing, 0.0)),
    ):
        again = load_model(text_of(model))
        assert again.decision_function(TEST_ROWS).tolist() == [0.0] * 5
        assert again.predict(TEST_ROWS).tolist() == [-1.0] * 5


def test_a_bound_that_was_not_reached_yet():
    model = make_model()
    model.report.update(dual=-np.inf, gap=np.inf, status="time_limit")
    again = load_model(text_of(model))
    assert (again.report["dual"], again.report["gap"]) == (-np.inf, np.inf)


def test_text_has_a_stable_form():
    """Golden: a change of the format is a decision, not an accident."""
    assert text_of(make_model("poly", labels=np.array(["a b", "c"]))).decode().replace(
        "tool odmlib " + __import__("odmlib").__version__, "tool odmlib X"
    ) == Path(__file__).with_name("poly_model.txt").read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------------- the header


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_every_field_is_needed_once(kind):
    text = text_of(make_model(kind))
    for key in header_keys(text):
        if key not in OPTIONAL:
            assert f"'{key}' is missing" in rejected(replaced(text, key, None)), key
        line = next(line for line in text.split(b"\n") if line.startswith(key.encode() + b" ")).decode()
        assert f"'{key}' stands twice" in rejected(replaced(text, key, f"{line}\n{line}")), key
        assert "expected 'key value'" in rejected(replaced(text, key, key)), key
        assert "expected 'key value'" in rejected(replaced(text, key, f"{key} \t")), key


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_order_of_the_header_is_free(kind):
    text = text_of(make_model(kind))
    mark = b"\nw\n" if kind.startswith("linear") else b"\nSV\n" if kind in KINDS else b"\ncoefficients\n"
    header, _, body = text.partition(mark)
    first, *fields = header.split(b"\n")
    random.Random(2).shuffle(fields)
    assert text_of(load_model(b"\n".join([first, *fields]) + mark + body)) == text


NUMBERS = (
    "C lambda nu theta bias tol gamma degree coef0 features rows nonzeros iterations primal dual gap "
    "margin_mean margin_variance margin_min seed support_vectors"
)


@pytest.mark.parametrize("key", NUMBERS.split())
def test_numbers_must_be_numbers(key):
    text = text_of(make_model("poly"))
    for value in ("abc", "nan", "0x10", "1,5", "1_0", "1 2", "--1", "²", "9" * 5000 + "x", "\N{NULL}"):
        message = rejected(replaced(text, key, f"{key} {value}"))
        assert f"{key}: " in message
        assert len(message) < 200
    if key not in ("dual", "gap"):
        rejected(replaced(text, key, f"{key} inf"))
        rejected(replaced(text, key, f"{key} 1e999"))
    if key not in ("coef0", "primal", "dual", "gap", "margin_mean", "margin_variance", "margin_min"):
        rejected(replaced(text, key, f"{key} -1"))
    for value in ("1" + "0" * 18, "1" + "0" * 30, "9" * 5000):
        with suppress(ModelFormatError):  # and no other error
            load_model(replaced(text, key, f"{key} {value}"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("machine", "ssodm"),
        ("machine", "2"),
        ("kernel", "laplace"),
        ("kernel", "linear"),
        ("kernel", "precomputed"),
        ("status", "fine"),
        ("zero_based", "2"),
        ("zero_based", "true"),
        ("theta", "1"),
        ("tol", "2"),
        ("degree", "0"),
        ("degree", "2.5"),
        ("degree", "1001"),
        ("features", "2147483648"),
        ("features", "4294967297"),
        ("label_type", "double"),
        ("label_type", "bool"),
        ("label_type", "str"),
        ("labels", "1"),
        ("labels", "1 1"),
        ("labels", "1 1.0"),
        ("labels", "1 2 3"),
        ("labels", "1 nan"),
        ("labels", "1 inf"),
        ("labels", "1 1e999"),
        ("labels", "1 ["),
        ("labels", "[" * 100_000),
    ],
)
def test_values_out_of_range(key, value):
    message = rejected(replaced(text_of(make_model("poly")), key, f"{key} {value}"))
    assert len(message) < 300


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("int", "1 2.0"), ("int", '1 "2"'), ("int", "1 true"), ("int", "1 9223372036854775808"),
        ("unsigned", "1 -2"), ("unsigned", "1 18446744073709551616"), ("bool", "true 0"),
        ("bool", "true true"),
        ("str", '"a" b'), ("str", '"a" "b'), ("str", '"a"  "a"'), ("str", '"a""b"'), ("str", '"a" "\\q"'),
        ("str", '"a" 1'), ("mixed", '"a" null'), ("mixed", '"a" [1]'), ("mixed", '"a" {"b": 1}'),
        ("mixed", '"a" NaN'), ("mixed", '"a" Infinity'), ("mixed", '"a" -Infinity'), ("mixed", '"a" 1e999'),
        ("mixed", "[" * 100_000 + ' "a"'), ("mixed", '"a" ' + "9" * 10_000), ("mixed", "1 1.0"),
        ("mixed", "1 true"), ("int", "nan 1"),
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_broken_labels(kind, labels):
    text = replaced(text_of(make_model()), "label_type", f"label_type {kind}")
    assert "labels: " in rejected(replaced(text, "labels", f"labels {labels}"))


def test_unknown_key_has_its_line():
    text = replaced(text_of(make_model()), "seed", "seed 3\ncolour blue")
    line = 1 + text.decode().split("\n").index("colour blue")
    assert rejected(text) == f"<bytes>:{line}: unknown key 'colour'"


def test_endless_header_is_cut_short():
    text = text_of(make_model())
    rejected(text.replace(b"\nseed 3\n", b"\nseed 3\nnote " + b"x" * (2 << 20) + b"\n"))


def test_wrong_bytes_in_the_header():
    assert "UTF-8" in rejected(
        replaced(text_of(make_model()), "solver", "solver X").replace(b"X", b"\xff\xfe")
    )


# ---------------------------------------------------------------------------------------- the body


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_counts_are_compared_with_the_file(kind):
    text = text_of(make_model(kind))
    key, count = ("weights", 4) if kind.startswith("linear") else ("support_vectors", 3)
    for claimed in (0, count - 1, count + 1, 2**31, 2**63 - 1):
        message = rejected(replaced(text, key, f"{key} {claimed}"))
        assert message == f"<bytes>: the header says {claimed} {key}, the file holds {count}"


def mangled(kind: str, old: str, new: str) -> bytes:
    text = text_of(make_model(kind)).decode()
    assert text.count(old) == 1
    return text.replace(old, new).encode()


@pytest.mark.parametrize(
    ("kind", "old", "new", "message"),
    [
        ("rbf", "0.1 1:", "nan 1:", "expected a finite number, found 'nan'"),
        ("rbf", "0.1 1:", "inf 1:", "expected a finite number, found 'inf'"),
        ("rbf", "0.1 1:", "1e999 1:", "finite"),
        ("rbf", "0.1 1:", "abc 1:", "expected a number"),
        ("rbf", "0.1 1:", "1:", "expected a label before"),
        ("rbf", "6:7", "6:nan", "expected a finite number, found 'nan'"),
        ("rbf", "6:7", "6:-inf", "expected a finite number, found '-inf'"),
        ("rbf", "6:7", "0:7", "index of 1 or more"),
        ("rbf", "6:7", "1:7", "indices ascend"),
        ("rbf", "6:7", "7:7", "at most 6"),
        ("rbf", "6:7", "4294967297:7", "at most 6"),
        ("rbf", "6:7", "-6:7", "not negative"),
        ("rbf", "6:7", "6:7 # note", "comment"),
        ("rbf", "6:7", "6:7\n", "empty line"),
        ("rbf", "6:7", "6:7\x00", "expected a number"),
        ("rbf", "\nend\n", "\n", "cut off"),
        ("rbf", "\nend\n", "\nend\nend\n", "expected a number"),
        ("rbf", "\nend\n", "\nend\n\n", "something behind"),
        ("rbf", "\nend\n", "\nend\n1 1:1\n", "something behind"),
        ("rbf", "\nend\n", "\nEND\n", "cut off"),
        ("rbf", "\nend\n", "\n end\n", "cut off"),
        ("rbf", "\nSV\n", "\nw\n", "expected the line 'SV'"),
        ("linear", "\nw\n", "\nSV\n", "expected the line 'w'"),
        ("linear", "\n6 1:", "\n7 1:", "expected a column from 0 to 6, found 7"),
        ("linear", "\n6 1:", "\n2147483648 1:", "expected a column from 0 to 6"),
        ("linear", "\n6 1:", "\n-1 1:", "expected a column from 0 to 6, found -1"),
        ("linear", "\n6 1:", "\n3.5 1:", "expected a column from 0 to 6, found 3.5"),
        ("linear", "\n6 1:", "\n3 1:", "columns must ascend"),
        ("linear", "\n6 1:", "\n2 1:", "columns must ascend"),
        ("linear", "\n6 1:", "\n6 2:", "at most 1"),
        ("linear", "\n0 1:2.5", "\n0", "exactly one entry"),
        ("linear", "\n0 1:2.5", "\n0 1:0", "exactly one entry"),
        ("linear", "bias 0.5", "bias 0", "without bias"),
        ("precomputed", "0:6", "0:7", "expected a serial from 1 to 6, found 7"),
        ("precomputed", "0:6", "0:999999999", "expected a serial from 1 to 6"),
        ("precomputed", "0:6", "0:-1", "expected a serial from 1 to 6, found -1"),
        ("precomputed", "0:6", "0:1.5", "expected a serial from 1 to 6, found 1.5"),
        ("precomputed", "0:6", "0:0", "exactly one entry"),
        ("precomputed", "0:6", "1:6", "at most 0"),
        ("precomputed", " 0:6", "", "exactly one entry"),
    ],
)
def test_broken_bodies(kind, old, new, message):
    assert message in rejected(mangled(kind, old, new))


@pytest.mark.parametrize(
    ("kind", "old", "new", "message"),
    [
        (
            "poly ovo",
            "\ncoefficients\n1 1:",
            "\ncoefficients\n2 1:",
            "expected the vector's number 1, found 2",
        ),
        ("poly ovo", "\nSV\n1 1:", "\nSV\n7 1:", "expected the vector's number 1, found 7"),
        ("poly ovo", "\nSV\n", "\n", "expected a line 'SV' behind the coefficients"),
        ("poly ovo", "\nSV\n", "\nSV\nSV\n", "expected a number as label, found 'SV'"),
        (
            "poly ovo",
            "\ncoefficients\n",
            "\nSV\n",
            "expected the line 'coefficients' for kernel poly and several",
        ),
        ("poly ovo", "\ncoefficients\n1 1:", "\ncoefficients\n1 7:", "at most 6"),
        ("poly ovo", "\ncoefficients\n1 1:", "\ncoefficients\n1 0:", "index of 1 or more"),
        ("poly ovo", "\ncoefficients\n1 1:", "\ncoefficients\n1 1:nan 2:", "finite"),
        ("linear ovr", "\n6 1:", "\n6 2:1 1:", "indices ascend"),
        ("linear ovr", "\n6 1:", "\n3 1:", "columns must ascend"),
        ("linear ovr", "scheme ovr", "scheme ovo", "expected 6 numbers"),
        ("linear ovo", "scheme ovo", "scheme binary", "expected two different labels"),
        (
            "linear ovo",
            "scheme ovo",
            "scheme pairs",
            "expected one of binary, ovo, ovr, joint, regression, found 'pairs'",
        ),
        ("linear ovo", "labels 3 -1 2.5 7", "labels 3 -1 2.5 3", "expected two or more different labels"),
        ("linear ovo", "labels 3 -1 2.5 7", "labels 3", "expected two or more different labels"),
        ("linear ovo", "labels 3 -1 2.5 7", "labels 3 -1 2.5", "expected 3 numbers"),
        ("linear ovo", "offsets -0.5", "offsets", "expected 6 numbers"),
        ("linear ovo", "offsets -0.5", "offsets nan", "expected 6 numbers"),
        ("linear ovo", "offsets -0.5", "offsets -0.5 1", "expected 6 numbers"),
        ("linear ovo", "quantiles -0.2", "quantiles", "margin_quantiles: expected 5 numbers"),
        ("linear ovo", "quantiles -0.2", "quantiles inf", "margin_quantiles: expected 5 numbers"),
    ],
)
def test_broken_models_of_several_outputs(kind, old, new, message):
    assert message in rejected(mangled(kind, old, new))


def test_many_labels_take_no_memory_for_their_pairs():
    """40,000 labels make 800 million pairs: refused on sight."""
    text = replaced(text_of(make_model("rbf")), "labels", "labels " + " ".join(map(str, range(40_000))))
    text = text.replace(b"\nseed", b"\nscheme ovo\nseed").replace(b"\nSV\n", b"\ncoefficients\nSV\n")
    tracemalloc.start()
    try:
        assert "more than the file can hold" in rejected(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20


def test_a_vector_without_coefficients_and_outputs_without_vectors():
    terms = Dataset.from_any(np.array([[0, 0, 0, 2.0], [0, 0, 0, 0], [0, 1.0, 0, 0]]))
    one = make_model("rbf").function
    assert isinstance(one, KernelFunction)
    model = make_model("rbf ovr", function=KernelFunction(one.formula, one.vectors, terms))
    again = load_model(text_of(model))
    assert text_of(again) == text_of(model)
    scores = again.decision_function(TEST_ROWS)
    assert not scores[:, [0, 2]].any()
    assert scores[:, [1, 3]].all()


@pytest.mark.parametrize("kind", SEVERAL)
def test_outputs_one_by_one(kind):
    """Each output of a function is the function of one output alone, and follows the formula."""
    model = make_model(kind)
    scores = model.decision_function(TEST_ROWS)
    assert scores.shape == (5, model.n_outputs)
    for place in range(model.n_outputs):
        alone = model.function.output(place)
        np.testing.assert_allclose(alone.scores(TEST_ROWS, 1)[:, 0], scores[:, place], rtol=1e-13, atol=1e-13)
    X = TEST_ROWS.to_dense()
    if isinstance(model.function, LinearFunction):
        expected = X[:, model.function.columns] @ model.function.weights + 0.5 * model.function.bias_weights
    elif isinstance(model.function, PrecomputedFunction):
        expected = (X[:, model.function.serials - 1] + 0.25) @ model.function.coefficients
    else:
        K = np.asarray(kernel_matrix(model.formula, X, model.function.vectors.to_dense()), dtype=float)
        expected = K @ model.function.coefficients
    np.testing.assert_allclose(scores, expected - model.function.offsets, rtol=1e-12)


def test_faults_have_their_line():
    text = mangled("rbf", "6:7", "6:x").decode()
    line = next(k for k, line in enumerate(text.split("\n"), 1) if "6:x" in line)
    assert rejected(text.encode()).startswith(f"<bytes>:{line}:")
    text = mangled("poly ovo", "6:7", "6:x").decode()
    line = next(k for k, line in enumerate(text.split("\n"), 1) if "6:x" in line)
    assert rejected(text.encode()).startswith(f"<bytes>:{line}:")
    text = mangled("linear", "\n6 1:", "\n7 1:").decode()
    line = next(k for k, line in enumerate(text.split("\n"), 1) if line.startswith("7 1:"))
    assert rejected(text.encode()).startswith(f"<bytes>:{line}: ")


@pytest.mark.parametrize("kind", ["rbf", "precomputed"])
def test_a_vector_may_stand_twice(kind):
    once = make_model(kind)
    function = once.function
    assert not isinstance(function, LinearFunction)
    coefficients = function.coefficients[:, 0]
    halves = np.concatenate([coefficients, [0.75, 0.75]])
    sums = coefficients + np.array([0, 1.5, 0])
    if isinstance(function, KernelFunction):
        twice = make_model(
            kind, function=KernelFunction(once.formula, function.vectors.take([0, 1, 2, 1, 1]), halves)
        )
        added = make_model(kind, function=KernelFunction(once.formula, function.vectors, sums))
    else:
        serials = np.append(function.serials, [1, 1])
        twice = make_model(kind, function=PrecomputedFunction(serials, halves, 0.5))
        added = make_model(kind, function=PrecomputedFunction(function.serials, sums, 0.5))
    scores = load_model(text_of(twice)).decision_function(TEST_ROWS)
    assert np.allclose(scores, added.decision_function(TEST_ROWS), rtol=1e-12)


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_truncation_at_every_byte(kind):
    text = text_of(make_model(kind))
    for length in range(len(text) - 1):
        with pytest.raises(ModelFormatError):
            load_model(text[:length])
    assert text_of(load_model(text[:-1])) == text


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_crlf(kind):
    text = text_of(make_model(kind))
    crlf = text.replace(b"\n", b"\r\n")
    assert text_of(load_model(crlf)) == text
    assert text_of(load_model(crlf[:-2])) == text


# ---------------------------------------------------------------------------------------- other files


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "found nothing"),
        (b"\n", "found an empty line"),
        (b"<!DOCTYPE html>\n<html></html>\n", "this looks like an HTML or XML page"),
        (b"odmlib model 2\n", "made by a newer odmlib"),
        (b"odmlib model 99999999999999999999\n", "made by a newer odmlib"),
        (b"odmlib model 0\n", "expected 'odmlib model 1'"),
        (b"odmlib model -1\n", "expected 'odmlib model 1'"),
        (b"odmlib model one\n", "expected 'odmlib model 1'"),
        (b"odmlib model 1.5\n", "expected 'odmlib model 1'"),
        ("odmlib model ²\n".encode(), "expected 'odmlib model 1'"),
        (b"odmlib  model 1\n", "not an odmlib model"),
        (b"ODMLIB MODEL 1\n", "not an odmlib model"),
        (b"1 1:0.5\n", "this looks like a data file; are the files in the right order?"),
        (b"x\n-1 1\n", "not an odmlib model"),
        (b"\x7fELF\x02\x01\x01\0\0\0", "not an odmlib model"),
        (bytes(range(256)) * 20, "not an odmlib model"),
        (b"\0" * 100_000, "not an odmlib model"),
        (gzip.compress(b"odmlib model 1\n", mtime=0)[:-5], "gzip data end too early"),
        (b"\x1f\x8b" + b"junk" * 10, "gzip data are corrupt"),
        (gzip.compress(b"hello\n", mtime=0), "not an odmlib model"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_other_files(text, message):
    found = rejected(text)
    assert message in found
    assert len(found) < 250


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        load_model(tmp_path)
    with pytest.raises(ParameterError):
        load_model(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(8))
def test_random_damage_gives_a_model_or_an_error(seed):
    """Flip, drop, double and swap bytes and lines of real files: only ModelFormatError may come out."""
    random_ = random.Random(seed)
    texts = [
        text_of(make_model(kind, labels=labels)) for kind in KINDS for labels in ((1.0, -1.0), ("a", "b"))
    ] + [text_of(make_model(kind)) for kind in SEVERAL]
    tokens = [b"-", b"nan", b"1e999", b"\0", b"\n", b"\r", b" ", b":", b"9" * 20, b"\xff", b'"', b"[",
              b"0", b"end\n", b"SV\n", b"w\n", b"coefficients\n", b"1:1", b"#", b"qid:1"]  # fmt: skip
    survivors = 0
    for _ in range(300):
        text = bytearray(random_.choice(texts))
        for _ in range(random_.randint(1, 3)):
            place = random_.randrange(len(text))
            match random_.randrange(6):
                case 0:
                    text[place] = random_.randrange(256)
                case 1:
                    del text[place : place + random_.randint(1, 20)]
                case 2:
                    text[place:place] = random_.choice(tokens)
                case 3:
                    other = random_.choice(texts)
                    start = random_.randrange(len(other))
                    text[place : place + 8] = other[start : start + random_.randint(0, 40)]
                case 4:
                    lines = bytes(text).split(b"\n")
                    k = random_.randrange(len(lines))
                    lines.insert(random_.randrange(len(lines)), lines[k])
                    text = bytearray(b"\n".join(lines))
                case 5:
                    lines = bytes(text).split(b"\n")
                    del lines[random_.randrange(len(lines))]
                    text = bytearray(b"\n".join(lines) or b"\n")
        try:
            model = load_model(bytes(text))
        except ModelFormatError:
            continue
        survivors += 1
        assert text_of(load_model(text_of(model))) == text_of(model)
    assert survivors > 0


# ---------------------------------------------------------------------------------------- memory

HUGE = 2**31 - 1


def huge_models() -> list[Model]:
    far = Dataset(np.array([0, 1, 2]), np.array([0, HUGE - 1], np.int32), np.array([2.0, 3.0]), HUGE)
    weights = np.array([0.5, -0.25])
    linear = LinearFunction(np.array([0, HUGE - 1], np.int32), weights, 1.0, 0.0)
    rbf = KernelFunction(make_model("rbf").formula, far, weights)
    precomputed = PrecomputedFunction(np.array([1, HUGE]), weights, 0.5)
    return [
        make_model("linear", n_features=HUGE, function=linear),
        make_model("rbf", n_features=HUGE, function=rbf),
        make_model("precomputed", n_features=HUGE, function=precomputed),
    ]


@pytest.mark.parametrize("model", huge_models(), ids=["linear", "rbf", "precomputed"])
def test_a_huge_feature_number_takes_no_memory(model):
    rows = Dataset(np.array([0, 1, 2, 2]), np.array([0, HUGE - 1], np.int32), np.array([2.0, 3.0]), HUGE)
    model.decision_function(rows)  # imports
    tracemalloc.start()
    try:
        again = load_model(text_of(model))
        scores = again.decision_function(rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20
    assert scores.tobytes() == model.decision_function(rows).tobytes()
    if model.formula.name != "rbf":
        constant = 0.0625 if model.formula.name == "precomputed" else 0.0
        assert scores.tolist() == [1.0 + constant, -0.75 + constant, constant]


CLAIMS = """
import resource, sys
from odmlib.model.text_format import load_model
from odmlib.errors import ModelFormatError
text = sys.stdin.buffer.read()
load_model(text)
used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20), used + (32 << 20)))
for key, claim in [(b'weights 4', b'weights 2147483648'), (b'rows 10', b'rows 9223372036854775807'),
                   (b'nonzeros 33', b'nonzeros 2147483648'), (b'features 6', b'features 2147483647')]:
    assert key in text
    try:
        load_model(text.replace(key, claim))
    except ModelFormatError:
        pass
print('fine')
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to know the memory in use")
def test_claimed_sizes_take_no_memory():
    result = subprocess.run(
        [sys.executable, "-c", CLAIMS],
        input=text_of(make_model()),
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert (result.stdout, result.stderr) == (b"fine\n", b"")
