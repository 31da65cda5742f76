"""odm-info, and the report of odm-predict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odmlib.cli import convert, info, scale

from .tools import WDBC, WDBC_TEST


@pytest.fixture
def model(tools):
    tools.train("-q -b 1 -g 0.1", WDBC, "m")
    return "m"


def test_text_and_json(model, capsys):
    assert info.main(["m"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "m: odm, rbf kernel" and any(line.split() == ["gamma", "0.1"] for line in lines)
    assert any(line.split() == ["probabilities", "yes"] for line in lines)
    assert info.main(["--json", "-", "m"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["machine"] == "odm" and found["parameters"]["gamma"] == 0.1 and found["probability"] is True
    assert (
        found["features"] == 30
        and found["columns"] is None
        and len(found["extras"]["probability_slopes"]) == 1
    )


def test_models_of_other_programs(model, capsys):
    assert convert.main(["-q", "m", "svm"]) == 0
    assert info.main(["svm"]) == 0
    assert capsys.readouterr().out.startswith("svm: LIBSVM c_svc\n")


def test_misuse(tools, capsys):
    Path("d").write_text("1 1:1\n")
    assert info.main(["d"]) == 1
    assert "looks like a data file" in capsys.readouterr().err
    assert info.main([]) == 2


@pytest.mark.parametrize("words", ["", "-b 1", "--scores"])
def test_report_of_predictions(tools, model, words):
    outcome = tools.predict(words, "--report --json r", WDBC_TEST, "m out")
    lines = outcome.out.splitlines()
    assert lines[0].startswith("Accuracy = ") and lines[1].split() == [
        "class",
        "precision",
        "recall",
        "f1",
        "auc",
        "rows",
    ]
    found = json.loads(Path("r").read_text())
    assert [line.split()[0] for line in lines[2:]] == [
        *(str(one["label"]) for one in found["classes"]),
        "mean",
    ]
    assert lines[0].startswith(f"Accuracy = {100 * found['accuracy']:g}% ({found['right']}/{found['rows']})")
    assert all(0.9 < one["auc"] <= 1 for one in found["classes"])
    plain = tools.predict(words, WDBC_TEST, "m plain")
    assert plain.out == lines[0] + "\n" and Path("plain").read_bytes() == Path("out").read_bytes()
    outcome = tools.predict(words, "--json -", WDBC_TEST, "m out")
    assert json.loads(outcome.out) == found and outcome.err == plain.out
    assert tools.predict("--json -", WDBC_TEST, "m -").code == 2


@pytest.mark.parametrize(("norm", "row"), [("l1", "1:0.25 3:-0.75"), ("l2", "1:0.31"), ("max", "1:0.33")])
def test_rows_of_unit_length(tools, capsys, norm, row):
    Path("d").write_text("1 1:2 3:-6\n-1\n2 2:1e200 3:1e200\n")
    assert scale.main(["--norm", norm, "d"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"1 {row}") and lines[1] == "-1" and "inf" not in lines[2]
    assert scale.main(["--norm", norm, "-l", "0", "d"]) == 2
