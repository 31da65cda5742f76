"""odm-train: what it writes, what it says, and where."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
from pathlib import Path

import numpy as np
import pytest

from odmlib.cli import compress, grid, predict, train
from odmlib.machines.declarations import DECLARATIONS
from odmlib.model.text_format import load_model
from odmlib.options import TrainOptions, option_fields

from .tools import WDBC, WDBC_TEST, files, run, start, toy

TOY = Path("toy.txt")


@pytest.fixture(autouse=True)
def data(tools):
    TOY.write_text(toy())


# ---------------------------------------------------------------------------------------- files


def test_default_model_is_in_the_current_directory(tools):
    outcome = tools.train("-t 0", WDBC)
    assert (outcome.code, outcome.out) == (0, "")
    assert files() == ["toy.txt", "wdbc.train.txt.model"]
    assert load_model("wdbc.train.txt.model").n_features == 30


def test_talk_is_on_stderr_and_quiet_silences_it(tools):
    outcome = tools.train("-t 0 toy.txt m")
    assert outcome.out == ""
    assert all(line.startswith("odm-train: ") for line in outcome.err.splitlines())
    assert "60 rows, 4 features, 240 nonzeros, labels 1, -1" in outcome.err
    assert "converged" in outcome.err
    assert "model written to m" in outcome.err
    assert tools.train("-q -t 0 toy.txt m") == (0, "", "")


def test_options_may_stand_anywhere(tools):
    tools.train("-q -t 0 -c 3 toy.txt m")
    forms = [
        "toy.txt -q -t0 -c3 {}",
        "toy.txt {} --kernel linear --C 3 -q",
        "-c=3 toy.txt -q {} -t linear",
        "-q -c 5 -t 2 -c 3 -t 0 -- toy.txt {}",
    ]
    for k, words in enumerate(forms):
        assert tools.train(words.format(f"m{k}")).code == 0
        assert Path(f"m{k}").read_bytes() == Path("m").read_bytes()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, bytes])
def test_packed_and_piped_input_gives_the_same_bytes(tools, pack):
    tools.train("-q -t 0 toy.txt m")
    Path("packed.dat").write_bytes(pack(TOY.read_bytes()))
    assert tools.train("-q -t 0 packed.dat m2").code == 0
    assert tools.train("-q -t 0 - m3", stdin=pack(TOY.read_bytes())).code == 0
    assert Path("m").read_bytes() == Path("m2").read_bytes() == Path("m3").read_bytes()


def test_real_pipe():
    with start("train", "-q", "-t", "0", "-", "m", stdin=-1) as process:
        out, err = process.communicate(TOY.read_bytes(), timeout=300)
    assert (process.returncode, out, err) == (0, b"", b"")
    assert run("train", "-q", "-t", "0", "toy.txt", "m2").returncode == 0
    assert Path("m").read_bytes() == Path("m2").read_bytes()


@pytest.mark.parametrize("solver", ["newton", "dcd", "blocks", "svrg"])
def test_same_seed_and_threads_same_bytes(tools, solver):
    for threads in (1, 2):
        for name in "ab":
            assert tools.train(f"-q -t 0 --solver {solver} --seed 5 -j {threads}", WDBC, name).code == 0
        assert Path("a").read_bytes() == Path("b").read_bytes()


def test_model_on_stdout(tools):
    outcome = tools.train("-t 0 toy.txt -")
    tools.train("-q -t 0 toy.txt m")
    assert outcome.out == Path("m").read_text()
    assert "model written to standard output" in outcome.err


def test_old_model_is_replaced_whole(tools):
    Path("m").write_text("something old and long\n" * 1000)
    assert tools.train("-q -t 0 toy.txt m").code == 0
    load_model("m")
    assert files() == ["m", "toy.txt"]


def test_inputs_are_never_replaced(tools):
    before = TOY.read_text()
    Path("link").symlink_to("toy.txt")
    Path("weights").write_text("1\n" * 60)
    for words in (
        "toy.txt toy.txt",
        "toy.txt link",
        "toy.txt m --json toy.txt",
        "-W weights toy.txt weights",
    ):
        outcome = tools.train("-t 0", words)
        assert outcome.code == 2
        assert "would replace the input" in outcome.err
    assert TOY.read_text() == before
    assert files() == ["link", "toy.txt", "weights"]


# ---------------------------------------------------------------------------------------- results

REPORT_KEYS = (
    "version machine kernel parameters rows features nonzeros labels status iterations primal dual gap "
    "seconds threads seed support_vectors margin"
)


def test_json_report(tools):
    assert tools.train("-t 0 -c 2 --seed 4 -j 1 --json r.json toy.txt m").code == 0
    report = json.loads(Path("r.json").read_text())
    assert set(REPORT_KEYS.split()) <= set(report)
    assert set(report["seconds"]) == {"read", "train", "write"}
    assert set(report["margin"]) == {"mean", "variance", "min", "quantiles"}
    assert all(seconds >= 0 for seconds in report["seconds"].values())
    assert (report["rows"], report["features"], report["nonzeros"]) == (60, 4, 240)
    assert (report["labels"], report["status"], report["threads"], report["seed"]) == (
        [1, -1],
        "converged",
        1,
        4,
    )
    assert (report["machine"], report["kernel"], report["support_vectors"]) == ("odm", "linear", None)
    assert report["parameters"] == {"C": 2, "lambda": 120, "nu": 0.5, "theta": 0.2, "bias": 1, "tol": 0.001}
    assert 0 <= report["primal"] - report["dual"] <= 1e-3 * max(1, report["primal"])
    model = load_model("m")
    for key in (
        "parameters",
        "rows",
        "labels",
        "status",
        "iterations",
        "primal",
        "dual",
        "gap",
        "margin",
        "seed",
    ):
        assert model.report[key] == report[key], key


def test_json_on_stdout(tools):
    outcome = tools.train("-q -t 0 --json - toy.txt m")
    assert json.loads(outcome.out)["rows"] == 60
    assert outcome.err == ""


def test_json_is_json_even_without_a_gap(tools):
    assert tools.train("-q -t 0 -c 1e300 --solver svrg --json r.json toy.txt m").code == 0

    def refuse(name):
        raise AssertionError(name)

    assert json.loads(Path("r.json").read_text(), parse_constant=refuse)["gap"] is None
    assert tools.predict("-q toy.txt m out").code == 0


def test_margins_in_the_report_are_those_of_the_model(tools):
    tools.train("-q -t 0 --json r.json toy.txt m")
    tools.predict("-q --scores toy.txt m out")
    labels = np.array([float(line.split()[0]) for line in TOY.read_text().splitlines()])
    scores = np.array([float(line.split()[1]) for line in Path("out").read_text().splitlines()])
    margins, report = labels * scores, json.loads(Path("r.json").read_text())["margin"]
    assert np.allclose(
        [margins.mean(), margins.var(), margins.min()], [report["mean"], report["variance"], report["min"]]
    )


def test_lambda_is_c_times_rows(tools):
    tools.train("-q -t 0 -c 2 toy.txt m")
    tools.train("-q -t 0 --lambda 120 toy.txt m2")
    assert Path("m").read_bytes() == Path("m2").read_bytes()


def test_bias(tools):
    tools.train("-q -t 0 toy.txt m")
    tools.train("-q -t 0 -B 1 toy.txt m1")
    assert Path("m").read_bytes() == Path("m1").read_bytes()
    tools.train("-q -t 0 -B 2.5 toy.txt m2")
    tools.train("-q -t 0 -B -1 toy.txt none")
    tools.train("-q -t 0 --bias 0 toy.txt zero")
    assert Path("none").read_bytes() == Path("zero").read_bytes()
    assert load_model("m2").parameters["bias"] == 2.5
    assert load_model("none").function.bias_weights[0] == 0
    # a constant feature in the data is the same thing
    Path("with").write_text("".join(line + " 5:2.5\n" for line in TOY.read_text().splitlines()))
    tools.train("-q -t 0 -B -1 with same")
    tools.predict("-q --scores with same a")
    tools.predict("-q --scores toy.txt m2 b")
    a, b = (np.loadtxt(name) for name in "ab")
    assert np.allclose(a, b, atol=1e-9)


def test_shrinking_flag_and_help(tools):
    for value in "01":
        assert tools.train(f"-q -t 0 --solver dcd -h {value} toy.txt m{value}").code == 0
        assert tools.train(f"-q -t 0 --solver dcd -h{value} toy.txt n{value}").code == 0
        assert Path(f"m{value}").read_bytes() == Path(f"n{value}").read_bytes()
    first, second = load_model("m0").report, load_model("m1").report
    assert abs(first["primal"] - second["primal"]) <= 1e-3 * max(1, first["primal"])
    for words in ("-h", "--help", "-h toy.txt", "toy.txt m -h"):
        outcome = tools.train(words)
        assert (outcome.code, outcome.err) == (0, "")
        assert outcome.out.startswith("usage: odm-train [options] training_set_file [model_file]")
        assert "-h" in outcome.out
    assert tools.train("--version").out.startswith("odm-train ")


def test_every_flag_is_in_the_help(tools):
    text = tools.train("--help-all").out
    flags = (
        "-s -t -d -g -r -c -n -p -m -e -h -b -w -W -B -v -j -q --machine --kernel --lambda --solver --seed "
        "--max-iter --time-limit --init --features --zero-based --json --quiet --threads --version"
    )
    for flag in flags.split():
        assert flag in text.split() or f"{flag}," in text or f"{flag} " in text, flag


def test_options_of_other_machines_are_folded_away(tools):
    short, full, own = (tools.train(words).out for words in ("--help", "--help-all", "--help ssodm"))
    assert "--max-cuts" not in short and "--help ssodm" in short and "--max-cuts N" in full
    assert "--max-cuts N" in own and "--theta T" in own and "--partitions" not in own
    titles = [line for line in short.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles[1:] == [
        "data:", "tables (CSV, TSV, Parquet, Arrow):", "machine:", "kernel:", "solver:", "what to do:",
        "output:", "about the tool:", "examples:",
    ]  # fmt: skip


def test_an_empty_command_line_shows_three_examples(tools):
    outcome = tools.train()
    assert (outcome.code, outcome.out) == (2, "")
    lines = outcome.err.splitlines()
    assert lines[0] == "usage: odm-train [options] training_set_file [model_file]"
    assert [line.split()[0] for line in lines[2:5]] == ["odm-train"] * 3 and len(lines) == 6


# ---------------------------------------------------------------------------------------- weights


def test_class_weight_is_a_row_weight_is_a_repetition(tools):
    """-w1 2, a weight file and rows that stand twice are the same machine (C fixed, not lambda)."""
    lines = TOY.read_text().splitlines(keepends=True)
    Path("twice").write_text("".join(line * (2 if line.startswith("1") else 1) for line in lines))
    Path("weights").write_text("".join("2\n" if line.startswith("1") else "1\n" for line in lines))
    tools.train("-q -t 0 -e 1e-9 -w1 2 toy.txt class")
    tools.train("-q -t 0 -e 1e-9 -W weights toy.txt rows")
    tools.train("-q -t 0 -e 1e-9 twice repeated")
    weights = [load_model(name).function.weights for name in ("class", "rows", "repeated")]
    assert np.allclose(weights[0], weights[1], rtol=1e-5)
    assert np.allclose(weights[0], weights[2], rtol=1e-5)


def test_negative_labels_glued_apart_and_repeated(tools):
    tools.train("-q -t 0 -w-1 5 -w1 0.5 toy.txt a")
    tools.train("-q -t 0 -w -1 5 -w 1 .5 toy.txt b")
    tools.train("-q -t 0 -w-1 7 -w+1 .5 -w-1.0 5 toy.txt c")
    assert Path("a").read_bytes() == Path("b").read_bytes() == Path("c").read_bytes()
    tools.train("-q -t 0 toy.txt plain")
    assert Path("a").read_bytes() != Path("plain").read_bytes()


# ---------------------------------------------------------------------------------------- labels and features


@pytest.mark.parametrize(
    "labels",
    [("0", "1"), ("2", "5"), ("1.5", "1.7"), ("3000000000", "-3000000000"), ("9007199254740992", "0"),
     ("9223372036854775808", "1"), ("0.1", "0.2"), ("-1", "-2")],
)  # fmt: skip
def test_any_two_labels(tools, labels):
    tools.train("-q -t 0 toy.txt m")
    Path("other").write_text(toy(labels=labels))
    assert tools.train("-q -t 0 other m2").code == 0
    assert set(load_model("m2").labels.tolist()) == {float(label) for label in labels}
    first = tools.predict("toy.txt m out")
    second = tools.predict("other m2 out2")
    assert second == first
    names = dict(zip(("1", "-1"), labels, strict=True))
    assert Path("out2").read_text().split() == [names[label] for label in Path("out").read_text().split()]


def test_label_order_is_that_of_first_appearance_but_plus_one_leads(tools):
    for text, labels in (
        ("-1 1:1\n+1 1:2\n", [1, -1]),
        ("0 1:1\n1 1:2\n", [0, 1]),
        ("5 1:1\n2 1:2\n", [5, 2]),
    ):
        Path("d").write_text(text)
        assert tools.train("-q -t 0 d m").code == 0
        assert load_model("m").labels.tolist() == labels


def test_features_and_zero_based(tools):
    tools.train("-q -t 0 --features 9 toy.txt m")
    assert load_model("m").n_features == 9
    outcome = tools.train("-q -t 0 --features 3 toy.txt m2")
    assert outcome.code == 1
    assert outcome.err.startswith("odm-train: toy.txt:1:")
    assert "at most 3" in outcome.err
    zero = TOY.read_text()
    for j in range(1, 5):
        zero = zero.replace(f" {j}:", f" {j - 1}:")
    Path("zero").write_text(zero)
    assert "zero-based" in tools.train("-q -t 0 zero m2").err
    assert not Path("m2").exists()
    assert tools.train("-q -t 0 --zero-based zero m2").code == 0
    tools.train("-q -t 0 toy.txt m")
    first, second = Path("m").read_text(), Path("m2").read_text()
    assert second == first.replace("zero_based 0", "zero_based 1")
    assert tools.predict("toy.txt m out") == tools.predict("zero m2 out2")
    assert Path("out").read_bytes() == Path("out2").read_bytes()


# ---------------------------------------------------------------------------------------- limits


def test_max_iter_is_told_and_stored(tools):
    outcome = tools.train("-q -t 0 --solver dcd --max-iter 1 -e 1e-12 toy.txt m")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.startswith(
        "odm-train: warning: not converged: the limit of 1 iterations was reached "
        "with a relative duality gap of "
    )
    assert outcome.err.count("\n") == 1
    model = load_model("m")
    assert (model.report["status"], model.report["iterations"]) == ("max_iter", 1)
    assert model.report["gap"] > 1e-12


def test_time_limit_is_told_and_stored(tools):
    outcome = tools.train("-q -t 0 --solver svrg --time-limit 1e-9 -e 1e-15 --json r.json toy.txt m")
    assert outcome.code == 0
    assert outcome.err.startswith("odm-train: warning: not converged: the time limit was reached")
    assert load_model("m").report["status"] == "time_limit"
    assert json.loads(Path("r.json").read_text())["status"] == "time_limit"
    assert tools.predict("-q toy.txt m out").code == 0


def test_init_goes_on_with_a_model(tools):
    tools.train("-q -t 0 -e 1e-8 toy.txt m")
    tools.train("-q -t 0 -e 1e-8 --init m toy.txt m")
    assert load_model("m").report["status"] == "converged"
    assert load_model("m").report["iterations"] <= 1


# ---------------------------------------------------------------------------------------- cross-validation


def test_cross_validation_line_is_last_on_stdout(tools):
    outcome = tools.train("-t 0 -v 5 toy.txt")
    assert outcome.code == 0
    number = outcome.out.removeprefix("Cross Validation Accuracy = ").removesuffix("%\n")
    assert outcome.out == f"Cross Validation Accuracy = {number}%\n"
    assert f"{float(number):g}" == number
    assert 80 <= float(number) <= 100
    assert files() == ["toy.txt"]
    assert tools.train("-q -t 0 -v 5 toy.txt") == (0, outcome.out, "")
    assert tools.train("-q -t 0 -v5 --seed 0 -", stdin=TOY.read_bytes()).out == outcome.out


def test_perfect_cross_validation(tools):
    Path("d").write_text("1 1:1\n-1 1:-1\n" * 10)
    assert tools.train("-q -t 0 -v 4 d").out == "Cross Validation Accuracy = 100%\n"


def test_cross_validation_report(tools):
    tools.train("-q -t 0 -v 3 --json r.json toy.txt")
    report = json.loads(Path("r.json").read_text())
    assert report["cross_validation"]["folds"] == 3
    assert 0.8 < report["cross_validation"]["accuracy"] <= 1
    outcome = tools.train("-q -t 0 -v 3 --json - toy.txt")
    assert json.loads(outcome.out)["cross_validation"] == report["cross_validation"]
    assert outcome.err.startswith("Cross Validation Accuracy = ")


def test_more_folds_than_rows(tools):
    Path("d").write_text("1 1:1\n-1 1:-1\n1 1:2\n-1 1:-2\n")
    outcome = tools.train("-q -t 0 -v 100 d")
    assert outcome.out == "Cross Validation Accuracy = 100%\n"
    assert outcome.err == "odm-train: warning: 100 folds for 4 rows: leaving out one row at a time\n"


def test_class_with_one_member_under_cross_validation(tools):
    Path("d").write_text("1 1:1\n" * 9 + "-1 1:-1\n")
    assert tools.train("-q -t 0 -v 5 d") == (0, "Cross Validation Accuracy = 90%\n", "")


def test_unfinished_folds_are_told(tools):
    outcome = tools.train("-q -t 0 --solver dcd -e 1e-14 --max-iter 1 -v 3 toy.txt")
    assert outcome.err == "odm-train: warning: training did not converge in 3 of 3 folds\n"


# ---------------------------------------------------------------------------------------- odd but good data


@pytest.mark.parametrize(
    "text",
    [
        "1 1:1 2:2\n-1 1:1 2:2\n",  # the same row, twice told
        "1 1:5\n-1 1:5\n1 1:5\n",  # constant feature
        "1\n-1\n1\n",  # no features at all
        "1 1:0\n-1 1:0\n",  # zeros only
        "1 2147483647:1\n-1 2147483647:-1\n",
        "1 1:1e-300\n-1 1:-1e-300\n",
        "1 1:1e150\n-1 1:-1e150\n",
        "1 1:1\r\n-1\r\n",
        "# note\n\n1 qid:3 1:1 # more\n-1 1:2",
        "\ufeff1 1:1\n-1 1:2\n",
    ],
    ids=["contradiction", "constant", "empty", "zeros", "far", "tiny", "large", "crlf", "comments", "mark"],
)
@pytest.mark.parametrize("kernel", [0, 2])
def test_odd_data_train_and_predict(tools, text, kernel):
    if kernel:
        pytest.importorskip("odmlib.solvers.kernel.working_set")
    Path("d").write_bytes(text.encode())
    assert tools.train(f"-q -t {kernel} d m").code == 0
    outcome = tools.predict("d m out")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("Accuracy = ")
    assert len(Path("out").read_text().splitlines()) == (
        3 if text.count("\n") == 3 and "note" not in text else 2
    )


@pytest.mark.parametrize("kernel", [0, 2])
def test_a_million_features_in_ten_rows(tools, kernel):
    if kernel:
        pytest.importorskip("odmlib.solvers.kernel.working_set")
    columns = np.random.default_rng(0).choice(10**6, (10, 50), replace=False) + 1
    rows = [
        f"{1 - 2 * (i % 2)}" + "".join(f" {j}:1" for j in sorted(row)) + "\n"
        for i, row in enumerate(columns.tolist())
    ]
    Path("d").write_text("".join(rows))
    assert tools.train(f"-q -t {kernel} d m").code == 0
    assert tools.predict("d m out").out == "Accuracy = 100% (10/10) (classification)\n"


# ---------------------------------------------------------------------------------------- kernels


@pytest.fixture
def kernels():
    pytest.importorskip("odmlib.solvers.kernel.working_set")


def test_default_is_the_rbf_kernel(tools, kernels):
    assert tools.train("-q toy.txt").code == 0
    model = load_model("toy.txt.model")
    assert (model.formula.name, model.parameters["bias"]) == ("rbf", 0)
    X = np.array(
        [[float(item.split(":")[1]) for item in line.split()[1:]] for line in TOY.read_text().splitlines()]
    )
    assert np.isclose(model.formula.gamma, 1 / (4 * X.var()))
    assert tools.predict("toy.txt toy.txt.model out").out.startswith("Accuracy = 9")


@pytest.mark.parametrize("kernel", ["1 -d 2 -r 1", "2 -g 0.5", "3 -g 0.01", "poly -g auto", "rbf -g auto"])
def test_kernels_of_all_kinds(tools, kernels, kernel):
    assert tools.train(f"-q -t {kernel} toy.txt m").code == 0
    assert tools.train(f"-q -t {kernel} toy.txt m2").code == 0
    assert Path("m").read_bytes() == Path("m2").read_bytes()
    assert tools.predict("toy.txt m out").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-t 2 big", "the variance of X overflows; scale the data or give gamma (-g)"),
        ("-t 1 -d 100 -g 1e10 toy.txt", "values of the poly kernel reach inf"),
        ("-m 0.0001 toy.txt", "give at least"),
    ],
)
def test_kernels_that_cannot_be_trained(tools, kernels, words, message):
    Path("big").write_text("1 1:1e200\n-1 1:-1e200\n")
    outcome = tools.train("-q", words, "m")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("odm-train: ")
    assert outcome.err.count("\n") == 1
    assert message in outcome.err
    assert not Path("m").exists()


def test_a_kernel_that_is_not_positive_is_shifted(tools, kernels):
    outcome = tools.train("-t 3 -g 5 -r -3 -c 1000 toy.txt m")
    assert outcome.code == 0
    assert "is not positive semidefinite: trained with" in outcome.err
    assert b"status converged" in Path("m").read_bytes()


def test_a_cache_larger_than_memory_is_only_a_limit(tools, kernels):
    assert tools.train("-q -m 1e9 toy.txt m") == (0, "", "")


def test_linear_kernel_by_name_of_poly(tools, kernels):
    """(1 u'v + 0)^1 with bias 1 is the linear machine."""
    tools.train("-q -t 0 -e 1e-10 toy.txt a")
    tools.train("-q -t 1 -d 1 -g 1 -e 1e-10 toy.txt b")
    for name in "ab":
        tools.predict(f"-q --scores toy.txt {name} {name}.out")
    assert np.allclose(np.loadtxt("a.out"), np.loadtxt("b.out"), atol=1e-4)


def precomputed(X, Y, serials, labels):
    K = np.exp(-0.5 * ((X[:, None] - Y[None]) ** 2).sum(2))
    return "".join(
        f"{label} 0:{serial}" + "".join(f" {j}:{v!r}" for j, v in enumerate(row, 1)) + "\n"
        for label, serial, row in zip(labels, serials, K.tolist(), strict=True)
    )


@pytest.fixture
def matrix_files(tools, kernels):
    """A data set and the same as kernel values, in two orders; test rows as well."""
    lines = TOY.read_text().splitlines()
    labels = [line.split()[0] for line in lines]
    X = np.array([[float(item.split(":")[1]) for item in line.split()[1:]] for line in lines])
    kernel_lines = precomputed(X, X, range(1, 61), labels).splitlines(keepends=True)
    Path("k").write_text("".join(kernel_lines))
    order = np.random.default_rng(3).permutation(60).tolist()
    Path("permuted").write_text("".join(kernel_lines[i] for i in order))
    Path("subset").write_text("".join(kernel_lines[i] for i in order[:40]))
    Path("permuted_rows").write_text("".join(lines[i] + "\n" for i in order))
    Path("subset_rows").write_text("".join(lines[i] + "\n" for i in order[:40]))
    Path("test").write_text(toy(30, seed=9))
    test_lines = Path("test").read_text().splitlines()
    T = np.array([[float(item.split(":")[1]) for item in line.split()[1:]] for line in test_lines])
    Path("test_k").write_text(precomputed(T, X, [1] * 30, [line.split()[0] for line in test_lines]))


@pytest.mark.parametrize(
    "names", [("toy.txt", "k"), ("permuted_rows", "permuted"), ("subset_rows", "subset")]
)
def test_precomputed_kernel_is_the_kernel_it_was_computed_from(tools, matrix_files, names):
    direct, matrix = names
    assert tools.train(f"-q -t 2 -g 0.5 -e 1e-9 {direct} direct.model").code == 0
    assert tools.train(f"-q -t 4 -e 1e-9 {matrix} matrix.model").code == 0
    first = tools.predict("--scores test direct.model a")
    second = tools.predict("--scores test_k matrix.model b")
    assert first.code == second.code == 0
    assert first.out == second.out
    assert np.allclose(np.loadtxt("a"), np.loadtxt("b"), atol=1e-4)
    a, b = load_model("direct.model"), load_model("matrix.model")
    assert abs(a.report["primal"] - b.report["primal"]) < 1e-6 * a.report["primal"]
    cross = [tools.train(f"-q {words} -v 4").out for words in (f"-t 2 -g 0.5 {direct}", f"-t 4 {matrix}")]
    assert cross[0] == cross[1]


def test_precomputed_faults(tools, matrix_files):
    good = Path("k").read_text()
    for text, message in [
        (good.replace(" 0:7 ", " 0:6 "), "serial 6 stands in two rows"),
        (good.replace(" 0:7 ", " 0:61 "), "expected a serial from 1 to 60, found 61"),
        (good.replace(" 0:7 ", " 0:1.5 "), "found 1.5"),
        (good.replace(" 0:7 ", " 0:-7 "), "found -7"),
        (good.replace(" 0:7 ", " 0:0 "), "row 7: a precomputed kernel's row must start with 0:serial"),
        (good.replace(" 0:7 ", " "), "row 7: a precomputed kernel's row must start with 0:serial"),
        (TOY.read_text(), "must start with 0:serial"),
        ("1 0:1 2147483646:1\n-1 0:999999999 1:1\n1 0:1 1:1\n", "stands in two rows"),
    ]:
        Path("bad").write_text(text)
        outcome = tools.train("-t 4 bad m")
        assert outcome.code == 1
        assert outcome.err.startswith("odm-train: bad: ")
        assert message in outcome.err
        assert not Path("m").exists()
    tools.train("-q -t 4 k m")
    outcome = tools.predict("toy.txt m out")
    assert outcome.code == 0  # nothing tells four kernel values from four features
    Path("wide").write_text("1 0:1 61:1\n")
    outcome = tools.predict("wide m out2")
    assert (outcome.code, outcome.err) == (
        1, "odm-predict: wide: found 61 kernel values in a row, the model was trained with 60\n"
    )  # fmt: skip


def test_far_columns_of_a_precomputed_kernel_take_no_memory(tools, kernels):
    Path("d").write_text("1 0:2000000000 2000000000:1\n-1 0:5 5:1\n")
    assert tools.train("-q -t 4 d m").code == 0
    assert load_model("m").n_features == 2_000_000_000
    assert tools.predict("d m out").out == "Accuracy = 100% (2/2) (classification)\n"


def test_wdbc_from_the_readme(tools):
    assert tools.train("-q -t 0 -c 1e-7", WDBC, "m").code == 0
    outcome = tools.predict(WDBC_TEST, "m out")
    assert outcome.out.startswith("Accuracy = ")


def test_options_are_checked_once(tools, monkeypatch):
    checked = []
    check = TrainOptions.__post_init__
    monkeypatch.setattr(TrainOptions, "__post_init__", lambda self: (checked.append(self), check(self)))
    for words in ("-q", "-q -b 1", "-q --loo"):
        checked.clear()
        assert tools.train(words, WDBC, "m").code == 0
        assert len(checked) == 1


# ---------------------------------------------------------------------------------------- hints


def test_labels_that_look_like_targets_are_warned_of(tools):
    random = np.random.default_rng(1)
    Path("d").write_text("".join(f"{y:.3f} 1:{x:.3f}\n" for y, x in random.normal(size=(30, 2))))
    warning = (
        "odm-train: warning: the labels look like targets of a regression: 30 different labels in 30 rows"
    )
    for words in ("-q -t 0 --multiclass ovr d m", "-q -t 0 --multiclass ovr -v 2 d"):
        assert tools.train(words).err.startswith(warning)


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        (
            "1 1:2000\n-1 1:3\n",
            "",
            "features range from 0 to 2,000: scale first (odm-scale -s d.range d > d.scaled)",
        ),
        (
            "".join(f"{2 * (k % 2) - 1} {97 * k + 1}:{k + 1} 6000:{k % 7 + 1}\n" for k in range(40)),
            "",
            "features are counts up to 40: rows of unit length train faster and better",
        ),
        ("1 6000:1\n-1 5:1\n", "", "6000 sparse features: a linear machine (-t linear)"),
        ("1 1:1\n" * 98 + "-1 1:-1\n" * 2, "-t 0", "label -1 has 2 of 100 rows (2%)"),
    ],
    ids=["unscaled", "counts", "wide", "rare"],
)
def test_hints(tools, text, words, hint):
    Path("d").write_text(text)
    assert f"odm-train: hint: {hint}" in tools.train(f"{words} d m").err
    assert "hint" not in tools.train(f"-q {words} d m").err


def test_no_hint_of_linear_machines_to_one(tools):
    Path("d").write_text("1 6000:1\n-1 5:1\n1 6000:2\n-1 5:2\n")
    assert "hint" not in tools.train("-t 0 d m").err


def test_options_without_effect_are_noted(tools):
    assert (
        "odm-train: note: gamma (-g) has no effect with kernel linear\n"
        in tools.train("-t 0 -g 4 toy.txt m").err
    )
    assert tools.train("-q -t Linear toy.txt m2") == (0, "", "")


@pytest.mark.parametrize("number", range(len(DECLARATIONS)))
def test_help_on_a_machine_shows_what_it_reads(tools, number):
    machine = list(DECLARATIONS.values())[number]
    by_name, by_number = (tools.train(f"--help {word}") for word in (machine.name, number))
    assert by_name == by_number and by_name.code == 0
    shown = by_name.out
    assert f"machine {machine.name} (-s {number}): {machine.title}\n" in shown
    options = {option.name.rstrip("_"): option.metadata["flags"] for option in option_fields()}
    for name, flags in options.items():
        if flags and name not in ("machine",):
            reads = name in machine.parameters or name in machine.options
            shared = {"bias"} if machine.has_bias else set()
            shared |= {"theta"} if "theta" in machine.flags else set()  # -p, by another name
            # from Python 3.13 on: -c, --C C
            there = any(re.search(rf"^  {re.escape(flag)}[ ,]", shown, re.MULTILINE) for flag in flags)
            assert there == (reads or name in shared), name
    assert f"solvers: {', '.join(machine.linear.names)} (linear);" in " ".join(shown.split())
    assert ("--assigned FILE" in shown) == (machine.name == "ssodm")
    assert len(shown) < 4500 and "examples" not in shown


def test_percent_signs_of_the_help(tools):
    for words in ("--help", "--help-all", "--help odmo"):
        assert "%%" not in tools.train(words).out


def test_two_outputs_in_one_file_are_refused(tools):
    """The later one would replace the other in silence."""
    Path("d").write_text(toy())
    assert tools.train("-q -t 0 d m").code == 0
    for main, words in (
        (train.main, "--json x d x"),
        (train.main, "--margins x --report ./x d m2"),
        (predict.main, "--json x d m x"),
        (compress.main, "--json x m x"),
        (grid.main, "-out x --json x d"),
    ):
        code, _, err = tools._run(main, (words,), None)
        assert code == 2 and "two outputs would go to the same file" in err, err
    assert tools.train("-q -t 0 --json /dev/null d /dev/null").code == 0
    assert not Path("x").exists()
