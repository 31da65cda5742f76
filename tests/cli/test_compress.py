"""odm-compress on the command line: report, streams, usage, and nothing half-written."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from odmlib.cli import compress
from odmlib.model.text_format import load_model

from .tools import WDBC, WDBC_TEST, Tools, command, files


@pytest.fixture
def model(tools: Tools) -> str:
    assert tools.train("-q -b 1 -g 1e-5", WDBC, "m").code == 0
    return "m"


def compressed(tools: Tools, *words):
    return tools._run(compress.main, words, None)


def test_report_in_words_and_json(tools, model):
    outcome = compressed(tools, "--vectors 30 --json r m", WDBC, "s")
    assert outcome.code == 0
    assert outcome.err == ""
    lines = outcome.out.splitlines()
    assert lines[0].endswith("support vectors before, 30 now")
    assert lines[1].startswith("scores of 398 rows: largest change ")
    assert lines[2].startswith("scores of any row x: change at most ")
    assert lines[3].startswith("accuracy ")
    assert lines[4].startswith("objective ")
    assert lines[5].startswith("probabilities: ")
    report = json.loads(Path("r").read_text())
    assert report["vectors"] == 30
    assert report["rows"] == 398
    assert tools.predict("-b 1", WDBC_TEST, "s", "out").code == 0


def test_without_data_the_support_vectors_count(tools, model):
    outcome = compressed(tools, "m s")
    assert outcome.code == 0
    assert "support vectors: largest change" in outcome.out
    assert len(Path("s").read_bytes()) < len(Path("m").read_bytes()) / 2


def test_binary_model_file(tools, model):
    assert compressed(tools, "-q --vectors 30 m s.npz").code == 0
    assert compressed(tools, "-q --vectors 30 m s").code == 0
    assert load_model("s.npz").to_bytes() == load_model("s").to_bytes()


def test_model_on_standard_output(tools, model):
    made = subprocess.run(
        [*command("compress"), "--error", "0.05", "m", "-"], capture_output=True, check=True
    )
    assert made.stdout.startswith(b"odmlib model 1\n")
    assert made.stdout.endswith(b"end\n")
    assert b"support vectors before" in made.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--vectors 3 --error 1 m s", "give one of --vectors, --error and --accuracy-loss"),
        ("--accuracy-loss 1 m s", "--accuracy-loss needs a data file"),
        ("--error -1 m s", "error must be a finite number of 0 or more"),
        ("--vectors 0 m s", "--vectors"),
        ("m m", "the output would replace the input m"),
        ("- - s", "cannot both come from standard input"),
        ("--json - m -", "only one of the model and the report"),
    ],
)
def test_bad_usage(tools, model, words, message):
    before = files()
    outcome = compressed(tools, words)
    assert outcome.code == 2
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert files() == before


def test_what_cannot_be_compressed(tools):
    assert tools.train("-q -t linear", WDBC, "linear").code == 0
    Path("bad").write_text("1 1:x\n")
    assert tools.train("-q", WDBC, "m").code == 0
    for words, message in [
        (["linear", "s"], "odm-compress: linear: a linear model has weights instead of support vectors"),
        (["m", "bad", "s"], "odm-compress: bad:1:5: "),
        (["nowhere", "s"], "nowhere: No such file"),
        (["bad", "s"], "bad:1: not an odmlib model"),
    ]:
        outcome = compressed(tools, *words)
        assert outcome.code == 1
        assert message in outcome.err
        assert not Path("s").exists()


def test_max_vectors_of_odm_train(tools):
    outcome = tools.train("--max-vectors 25 -g 1e-5 --json r", WDBC, "m")
    assert outcome.code == 0
    assert "support vectors before, 25 now" in outcome.err
    assert json.loads(Path("r").read_text())["compression"]["vectors"] == 25
    outcome = tools.train("--max-vectors 25 -t linear", WDBC, "n")
    assert outcome.code == 2
    assert "--max-vectors is for kernels poly, rbf and sigmoid, found linear" in outcome.err
