"""odm-train and odm-predict with more than two classes, and the margins that odm-train writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from odmlib.data.reading import read_data
from odmlib.model.text_format import load_model

from .tools import files, toy


@pytest.fixture(autouse=True)
def data(tools):
    random = np.random.default_rng(2)
    codes = random.permutation(np.arange(90) % 3)
    X = (random.normal(size=(90, 3)) + 3 * np.eye(3)[codes]).round(3)
    names = ("3", "-1", "2.5")
    lines = [
        names[code] + "".join(f" {j}:{v}" for j, v in enumerate(row, 1)) + "\n"
        for code, row in zip(codes.tolist(), X.tolist(), strict=True)
    ]
    Path("three").write_text("".join(lines))
    Path("two").write_text(toy())


@pytest.mark.parametrize(
    ("words", "scheme"), [("-t 0", "ovo"), ("-t 2", "ovo"), ("-t 0 --multiclass ovr", "ovr")]
)
def test_train_and_predict(tools, words, scheme):
    outcome = tools.train(words, "three m")
    assert outcome.code == 0
    name = {"ovr": "one-vs-rest", "ovo": "one-vs-one"}[scheme]
    assert f"3 classes, {name}: 3 of 3 tasks converged" in outcome.err
    model = load_model("m")
    X, y = read_data("three")
    assert model.scheme == scheme
    right = int((model.predict(X) == y).sum())
    assert right > 80
    line = f"Accuracy = {100 * right / 90:g}% ({right}/90) (classification)\n"
    assert tools.predict("three m out") == (0, line, "")
    assert [float(word) for word in Path("out").read_text().split()] == model.predict(X).tolist()


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_scores(tools, scheme):
    """The label, then a decision value per class or pair."""
    assert tools.train("-q --multiclass", scheme, "three m").code == 0
    assert tools.predict("-q --scores three m out").code == 0
    lines = Path("out").read_text().splitlines()
    found = np.array([[float(word) for word in line.split()] for line in lines])
    model = load_model("m")
    X, _ = read_data("three")
    assert np.array_equal(found[:, 0], model.predict(X))
    assert np.array_equal(found[:, 1:], model.decision_function(X))


def test_labels_that_the_model_does_not_know_are_wrong_answers(tools):
    assert tools.train("-q three m").code == 0
    lines = Path("three").read_text().splitlines()
    lines[0] = "77 " + lines[0].split(" ", 1)[1]
    Path("test").write_text("\n".join(lines))
    X, y = read_data("three")
    right = (load_model("m").predict(X) == y)[1:].sum()
    assert f"({right}/90)" in tools.predict("test m out").out


def test_cross_validation(tools):
    outcome = tools.train("-q -v 5 three")
    assert outcome.out.startswith("Cross Validation Accuracy = ")
    assert float(outcome.out.split()[-1].rstrip("%")) > 85
    assert files() == ["three", "two"]


def test_report(tools):
    assert tools.train("-q --json r three m").code == 0
    report = json.loads(Path("r").read_text())
    assert (report["scheme"], len(report["tasks"]), report["status"]) == ("ovo", 3, "converged")
    assert report["tasks"][1]["labels"] == [report["labels"][0], report["labels"][2]]


def test_class_weights_and_start(tools):
    assert tools.train("-q -t 0 -w3 5 -w2.5 0.5 three m").code == 0
    assert tools.train("-q -t 0 --init m three n").code == 0
    assert tools.train("-q -t 0 --multiclass ovo three pairs").code == 0
    message = "odm-train: the model to start from is of scheme ovo, this training is of scheme ovr\n"
    assert tools.train("-q -t 0 --multiclass ovr --init pairs three out") == (1, "", message)
    assert tools.train("-q -t 0 --multiclass ovr three rest").code == 0
    assert tools.train("-q -t 0 --init rest three out").code == 0  # which keeps its scheme
    assert load_model("out").scheme == "ovr"


def test_the_scheme_of_a_linear_machine_is_said_with_its_reason(tools):
    line = (
        "odm-train: 3 classes, one-vs-one: 3 features are fewer than 90 rows (--multiclass ovr changes it)\n"
    )
    assert line in tools.train("-t 0 three m").err
    assert line in tools.train("-t 0 -v 3 three").err
    wide = "3 classes, one-vs-rest: 200 features are not fewer than 90 rows (--multiclass ovo changes it)\n"
    assert wide in tools.train("-t 0 --features 200 three m").err
    assert load_model("m").scheme == "ovr"
    for words in ("-q -t 0 three m", "-t 2 three m", "-t 0 --multiclass ovo three m", "-t 0 two m"):
        assert "changes it" not in tools.train(words).err


def test_multiclass_must_be_known(tools):
    outcome = tools.train("--multiclass all three m")
    assert outcome.code == 2
    assert "--multiclass must be ovo or ovr, found 'all'" in outcome.err


# ---------------------------------------------------------------------------------------- margins


@pytest.mark.parametrize("name", ["two", "three"])
@pytest.mark.parametrize("words", ["-t 0", "-t 2"])
def test_margins_are_those_of_the_model(tools, name, words):
    assert tools.train("-q", words, "--margins margins --json r", name, "m").code == 0
    margins = np.array([float(line) for line in Path("margins").read_text().splitlines()])
    X, y = read_data(name)
    np.testing.assert_allclose(margins, load_model("m").margins(X, y), atol=1e-4)
    summary = json.loads(Path("r").read_text())["margin"]
    assert summary["min"] == margins.min()
    assert summary["quantiles"]["0.5"] == np.quantile(margins, 0.5, method="inverted_cdf")
    assert load_model("m").report["margin"] == summary


def test_margins_on_stdout(tools):
    outcome = tools.train("-q -t 0 --margins - two m")
    assert len(outcome.out.splitlines()) == 60
    assert outcome.err == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--margins - --json - two m", "only one of the model, the report and the margins"),
        ("--margins - two -", "only one of the model, the report and the margins"),
        ("--margins two two m", "the output would replace the input two"),
        ("-v 3 --margins margins two", "--margins are those of a model; -v makes none"),
    ],
)
def test_margins_that_cannot_be_written(tools, words, message):
    outcome = tools.train(words)
    assert outcome.code == 2
    assert message in outcome.err
    assert files() == ["three", "two"]
