"""Regression (-s 7) through the tools: LIBSVM's lines, the search by mean squared error, the refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import odmlib
from odmlib.cli import easy, grid, info, plot

from .tools import files


@pytest.fixture
def data(tools):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 4))
    t = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.standard_normal(90) + 3
    odmlib.write_data("train.txt", X[:60], t[:60])
    odmlib.write_data("test.txt", X[60:], t[60:])
    return X, t


def test_train_and_predict(tools, data):
    X, t = data
    assert tools.train("-s 7 -p 0.3 -g 0.2 train.txt m").code == 0
    outcome = tools.predict("test.txt m out")
    predicted = np.loadtxt("out")
    expected = odmlib.train(X[:60], t[:60], machine="odmr", epsilon=0.3, gamma=0.2).predict(X[60:])
    assert predicted == pytest.approx(expected, rel=1e-12)
    error, correlation = np.mean((predicted - t[60:]) ** 2), np.corrcoef(predicted, t[60:])[0, 1] ** 2
    assert outcome.out == (
        f"Mean squared error = {error:g} (regression)\n"
        f"Squared correlation coefficient = {correlation:g} (regression)\n"
    )
    assert tools.predict("-q --scores test.txt m -").out == Path("out").read_text()
    assert tools.predict("-b 1 test.txt m out").code == 1


def test_the_lines_are_those_of_libsvm(tools, data):
    svmutil = pytest.importorskip("libsvm.svmutil")
    X, t = data
    tools.train("-s 7 -q train.txt m")
    ours = tools.predict("test.txt m out").out
    theirs = svmutil.svm_train(t[:60].tolist(), X[:60].tolist(), "-s 3 -q")
    svmutil.svm_predict(t[60:].tolist(), X[60:].tolist(), theirs)
    number = r"[-+.0-9e]+"
    for line in ours.splitlines():
        assert re.fullmatch(
            rf"(Mean squared error|Squared correlation coefficient) = {number} \(regression\)", line
        )
    assert len(ours.splitlines()) == 2


def test_cross_validation(tools, data):
    outcome = tools.train("-s odmr -v 5 -q --json r.json train.txt")
    lines = outcome.out.splitlines()
    assert [line.partition(" = ")[0] for line in lines] == [
        "Cross Validation Mean squared error",
        "Cross Validation Squared correlation coefficient",
    ]
    found = json.loads(Path("r.json").read_text())["cross_validation"]
    assert float(lines[0].split()[-1]) == pytest.approx(found["mean_squared_error"], rel=1e-5)
    assert float(lines[1].split()[-1]) == pytest.approx(found["squared_correlation"], rel=1e-5)
    assert found["folds"] == 5


def test_leave_one_out(tools, data):
    X, t = data
    outcome = tools.train("-s 7 --loo -q train.txt")
    expected = odmlib.leave_one_out(X[:60], t[:60], machine="odmr").measures
    assert outcome.out == (
        f"Leave-one-out Mean squared error = {expected.mean_squared_error:g}\n"
        f"Leave-one-out Squared correlation coefficient = {expected.squared_correlation:g}\n"
    )


def test_search(tools, data):
    outcome = tools.train("-s 7 -t 0 -C -q train.txt m")
    assert re.fullmatch(r"Best C = \S+  CV MSE = \S+\n", outcome.out)
    outcome = tools.train("-s 7 -t 0 -C train.txt")
    rates = [float(rate) for rate in re.findall(r"log2c= *\S+\tMSE=(\S+)", outcome.out)]
    assert len(rates) == 21
    assert float(outcome.out.split()[-1]) == min(rates)


def test_grid(tools, data, capsys):
    words = ["-s", "7", "-log2c", "-3,5,4", "-log2g", "-4,0,2", "-epsilon", "0,0.4,0.4"]
    assert grid.main([*words, "train.txt"]) == 0
    best = capsys.readouterr().out.splitlines()[-1].split()
    lines = Path("train.txt.out").read_text().splitlines()[1:]
    rates = [float(line.rpartition("rate=")[2]) for line in lines]
    assert len(rates) == 18
    assert float(best[2]) == min(rates)
    assert best[3].startswith("epsilon=")
    assert grid.main([*words, "-q", "-resume", "train.txt"]) == 0
    assert capsys.readouterr().out.split() == best


def test_rates_above_100_are_resumed(tools, capsys):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 2))
    odmlib.write_data("big.txt", X, 1000 * X[:, 0] + 500)
    words = ["-q", "-s", "7", "-log2c", "-3,5,4", "-log2g", "null", "big.txt"]
    assert grid.main(words) == 0
    before = capsys.readouterr().out
    assert float(before.split()[-1]) > 100
    assert grid.main(["-resume", *words]) == 0
    assert capsys.readouterr().out == before


def test_easy(tools, data, capsys):
    assert easy.main(["-s", "7", "-log2c", "-3,5,4", "-log2g", "-4,0,2", "train.txt", "test.txt"]) == 0
    assert "Mean squared error = " in capsys.readouterr().out


def test_report_and_pictures(tools, data, capsys):
    outcome = tools.train("-s 7 -q --loo --report r.html --margins z --json r.json train.txt m")
    assert outcome.code == 0
    page = Path("r.html").read_text()
    for words in ("Residuals", "training mean squared error", "leave-one-out mean squared error", "targets"):
        assert words in page
    assert "accuracy" not in page
    X, t = data
    residuals = odmlib.load_model("m").predict(X[:60]) - t[:60]
    assert np.loadtxt("z") == pytest.approx(residuals, abs=1e-6)
    assert plot.main(["histogram", "--data", "-", "train.txt", "m"]) == 0
    chart = json.loads(capsys.readouterr().out)[0]
    assert chart["x"] == "residual"
    words = ["--over", "C", "--values", "0.1,1", "--data", "-", "-q", "train.txt"]
    assert plot.main(["accuracy", "-s", "7", *words]) == 0
    assert json.loads(capsys.readouterr().out)[0]["y"] == "mean squared error"
    tools.train("-q", "-t 0", "test.txt", "c")  # classes: every target is one
    assert plot.main(["margins", "train.txt", "m", "c"]) == 2
    assert plot.main(["histogram", "--per-class", "train.txt", "m"]) == 2


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            "-s 7 -w1 2",
            2,
            "machine odmr tells no classes apart: class weights (-w) mean nothing",
        ),
        ("-s 7 -b 1", 2, "probabilities (-b 1)"),
        ("-s 7 --multiclass ovr", 2, "a class scheme (--multiclass)"),
        ("-s 7 -p -1", 2, "--epsilon must be at least 0, found -1"),
        ("-s 2 --epsilon 1", 2, "--epsilon is for machine odmr (-s 7), found machine odm"),
        ("-s 7 --solver interior-point", 2, "one of auto, working-set"),
    ],
)
def test_refusals(tools, data, words, code, message):
    outcome = tools.train(words, "train.txt m")
    assert outcome.code == code
    assert message in outcome.err
    assert "m" not in files()


def test_weights_and_a_start(tools, data):
    Path("w").write_text("".join(f"{1 + k % 2}\n" for k in range(60)))
    assert tools.train("-s 7 -q -W w train.txt m").code == 0
    assert tools.train("-s 7 -q -c 2 --init m train.txt n").code == 0
    assert tools.train("-s 7 -q -t 0 -B -1 --init m train.txt n").code == 0
    assert odmlib.load_model("n").parameters["bias"] == 0


def test_prediction_intervals(tools, data):
    assert tools.train("-s 7 -q --coverage 1 -c 10 train.txt m").code == 0
    outcome = tools.predict("--coverage 0.8 test.txt m out")
    lines = np.loadtxt("out")
    assert lines.shape == (30, 3)
    assert (lines[:, 1] < lines[:, 0]).all()
    assert (lines[:, 0] < lines[:, 2]).all()
    t = data[1]
    inside = int(((lines[:, 1] <= t[60:]) & (t[60:] <= lines[:, 2])).sum())
    assert outcome.out.splitlines()[2] == f"Coverage = {100 * inside / 30:g}% ({inside}/30) (regression)"
    assert inside >= 19  # of 24 expected
    outcome = tools.predict("--coverage 0.99 test.txt m out")
    assert outcome.code == 1
    assert "coverage must be above 0 and at most 0.9672 here, found 0.99" in outcome.err
    tools.train("-s 7 -q train.txt m")
    assert "holds no residuals of left-out rows" in tools.predict("--coverage 0.8 test.txt m out").err
    tools.train("-t 0 -q test.txt c")
    assert "holds no numbers for label sets" in tools.predict("--coverage 0.8 test.txt c out").err


@pytest.mark.parametrize(("words", "intervals"), [("", "no"), ("--coverage 1", "yes")])
def test_info(tools, data, capsys, words, intervals):
    tools.train(f"-s 7 -q {words} train.txt m")
    capsys.readouterr()
    assert info.main(["m"]) == 0
    text = capsys.readouterr().out
    found = [line.split() for line in text.splitlines()]
    assert ["outputs", "1"] in found and ["prediction", "intervals", intervals] in found
    assert "residual variance" in text and "margin" not in text and "labels" not in text


def test_a_report_of_errors(tools, data):
    metrics = pytest.importorskip("sklearn.metrics")
    _, t = data
    assert tools.train("-q -s 7 --coverage 1 train.txt m").code == 0
    outcome = tools.predict("--report --json r.json --coverage 0.8 test.txt m out")
    predicted, found = np.loadtxt("out")[:, 0], json.loads(Path("r.json").read_text())
    assert found["rows"] == 30 and 0 < found["coverage"] <= 1
    expected = {
        "mean_squared_error": metrics.mean_squared_error(t[60:], predicted),
        "mean_absolute_error": metrics.mean_absolute_error(t[60:], predicted),
        "r_squared": metrics.r2_score(t[60:], predicted),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-9)
    lines = outcome.out.splitlines()
    assert lines[3:] == [
        f"Mean absolute error = {expected['mean_absolute_error']:g} (regression)",
        f"R^2 = {expected['r_squared']:g} (regression)",
    ]
    rows = Path("test.txt").read_text().splitlines(keepends=True)
    Path("same").write_text("".join("1 " + row.partition(" ")[2] for row in rows))
    assert tools.predict("-q --json r.json same m out").code == 0
    assert json.loads(Path("r.json").read_text())["r_squared"] is None  # nothing varies


def test_rows_without_targets(tools, data):
    Path("d.csv").write_text("a,price\n" + "".join(f"{k},{k * k}\n" for k in range(9)))
    Path("new.csv").write_text("a\n1\n2\n")
    assert "odm-train: targets are those of column 'price'\n" in tools.train("-s 7 d.csv m").err
    assert tools.predict("new.csv m out") == (0, "", "odm-predict: there are no targets: no error\n")
    assert len(Path("out").read_text().splitlines()) == 2
    assert tools.predict("--json r new.csv m out").code == 1


@pytest.mark.parametrize("words", ["-s 11", "-s 12 -p 0.1", "-s 13", "--machine=11"])
def test_numbers_of_liblinear_are_explained(tools, data, words):
    outcome = tools.train(f"{words} train.txt m")
    assert outcome.code == 2 and "; LIBLINEAR's regression is -s 7 -t linear here" in outcome.err


def test_refusals_name_flags(tools, data):
    said = tools.train("-s 7 -b 1 train.txt m").err
    assert said == (
        "odm-train: machine odmr tells no classes apart: probabilities (-b 1) mean nothing "
        "(see odm-train --help)\n"
    )
    assert (
        "a class scheme (--multiclass) means nothing" in tools.train("-s 7 --multiclass ovr train.txt m").err
    )
    assert tools.train("-q -s 7 train.txt m").code == 0
    assert tools.predict("-b 1 test.txt m out").err == (
        "odm-predict: machine odmr has no probabilities: it tells no classes apart\n"
    )


def test_test_rows_of_regression(tools, data):
    outcome = tools.train("-q -s 7 --test test.txt train.txt m")
    lines = tools.predict("test.txt m out").out.splitlines()
    assert outcome.code == 0
    assert outcome.out.splitlines() == [line.replace("(regression)", "on test.txt") for line in lines]
    words = "-q -s 7 -c 3 --report page.html --test test.txt --compare m train.txt m2"
    assert tools.train(words).code == 0
    page = Path("page.html").read_text()
    assert "Models side by side, on the test rows" in page and "mean absolute error" in page
    assert "predictions: R^2" in page and page.count("<svg") == 3
    for wrong in ("-q -s 7 --report p --compare c train.txt m2", "-q --report p --compare m two m2"):
        Path("two").write_text("1 1:1\n-1 1:2\n1 1:3\n")
        assert tools.train("-q two c").code == 0
        outcome = tools.train(wrong)
        assert outcome.code == 2 and "one has classes, the other targets" in outcome.err


def test_pictures_of_predictions(tools, data, capsys):
    X, t = data
    assert tools.train("-q -s 7 train.txt m").code == tools.train("-q -s 7 -c 9 train.txt m9").code == 0
    assert plot.main(["predictions", "--data", "p.json", "test.txt", "m", "m9"]) == 0
    (chart,) = json.loads(Path("p.json").read_text())
    assert chart["series"][0]["x"] == t[60:].tolist()
    assert chart["series"][0]["y"] == odmlib.load_model("m").predict(X[60:]).tolist()
    capsys.readouterr()
    for kind in ("roc", "confusion", "boundary"):
        assert plot.main([kind, "test.txt", "m"]) == 1
        assert "about classes, and a model of regression has none" in capsys.readouterr().err
