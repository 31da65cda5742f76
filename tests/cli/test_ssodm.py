"""odm-train -s 5: labeled and unlabeled rows through the tools."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest


def write_mixed(mark: str = "0", labels: tuple[str, str] = ("1", "-1"), n: int = 80) -> np.ndarray:
    """mixed.txt and whole.txt; the true labels of the unlabeled rows."""
    rng = np.random.default_rng(0)
    truth = rng.random(n) < 0.5
    X = rng.normal(size=(n, 3)).round(3)
    X[:, 0] += np.where(truth, 3, -3)
    names = np.where(truth, labels[0], labels[1])
    known = np.arange(n) % 5 == 0
    for file, given in (("mixed.txt", np.where(known, names, mark)), ("whole.txt", names)):
        lines = [
            f"{y}" + "".join(f" {j}:{v:g}" for j, v in enumerate(row, 1)) + "\n"
            for y, row in zip(given, X, strict=True)
        ]
        Path(file).write_text("".join(lines))
    return names[~known]


@pytest.mark.parametrize("kernel", ["0", "2"])
def test_train_and_predict(tools, kernel):
    truth = write_mixed()
    outcome = tools.train(f"-s 5 -t {kernel} --assigned found --json report --margins z mixed.txt m")
    assert outcome.code == 0 and outcome.out == ""
    assert "80 rows (64 unlabeled), 3 features" in outcome.err and "labels 1, -1" in outcome.err
    assert "semi-supervised: " in outcome.err and "relaxed " in outcome.err
    found = Path("found").read_text().split()
    assert len(found) == 64 and np.mean(np.array(found) == truth) > 0.9
    assert len(Path("z").read_text().split()) == 80
    note = json.loads(Path("report").read_text())["semi_supervised"]
    assert set(note) >= {"J", "gap", "P", "disagreement", "cuts", "branch", "positives", "reason"}
    assert "\nmachine ssodm\n" in Path("m").read_text() and "\nsemi_supervised 1\n" in Path("m").read_text()
    outcome = tools.predict("whole.txt m out")
    assert outcome.code == 0 and float(outcome.out.split()[2].rstrip("%")) > 90


def test_other_marks_and_pipes(tools):
    truth = write_mixed("7", ("0", "3"))
    outcome = tools.train(
        "-s ssodm -t 0 --unlabeled 7 --balance 3:0.5 --assigned - -q - m",
        stdin=Path("mixed.txt").read_bytes(),
    )
    assert outcome.code == 0 and outcome.err == ""
    assert np.mean(np.array(outcome.out.split()) == truth) > 0.9
    outcome = tools.train("-s 5 -t 0 --unlabeled 7 -v 4 mixed.txt")
    assert outcome.code == 0 and outcome.out.startswith("Cross Validation Accuracy = ")
    assert float(outcome.out.split()[4].rstrip("%")) > 70


def test_the_warning_says_why(tools):
    write_mixed()
    outcome = tools.train("-s 5 -t 0 -q --balance 0.95 --max-disagree 0.05 mixed.txt m")
    assert outcome.code == 0
    assert "warning: the supervised machine is returned: the labels found differ" in outcome.err
    outcome = tools.train("-s 5 -t 0 -q whole.txt m")
    assert outcome.code == 0 and "there are no unlabeled rows" in outcome.err


@pytest.mark.parametrize(
    "words, code, message",
    [
        ("-s 5 --balance half mixed.txt m", 2, "--balance must be band, equal, a fraction"),
        ("-s 5 --balance 1.5 mixed.txt m", 2, "--balance must be band, equal, a fraction"),
        ("-s 5 --balance 1:0.5,x mixed.txt m", 2, "expected LABEL:FRACTION, found 'x'"),
        ("-s 5 --balance 1:0.5,1:0.5 mixed.txt m", 2, "label 1 stands twice"),
        ("-s 5 --balance 4:0.5 mixed.txt m", 1, "names label 4, which no labeled row has (1, -1)"),
        ("-s 5 --solver newton mixed.txt m", 2, "one of auto, master, mp, smp for machine ssodm"),
        ("-s 5 -c 1 --lambda1 2 mixed.txt m", 2, "say the same thing"),
        ("-s 5 --max-disagree 2 mixed.txt m", 2, "--max-disagree must be at least 0"),
        ("-s 5 --init m mixed.txt m", 2, "--init must be left out"),
        ("-s 2 --assigned found mixed.txt m", 2, "--assigned is for machine ssodm"),
        ("-s 5 --assigned mixed.txt mixed.txt m", 2, "the output would replace the input mixed.txt"),
        ("-s 5 --assigned - --json - mixed.txt m", 2, "only one of the model"),
        ("-s 5 -v 3 --assigned found mixed.txt", 2, "-v makes no model"),
        ("-s 5 --unlabeled 1 mixed.txt m", 1, "ssodm on"),
        ("-s 5 --unlabeled x mixed.txt m", 2, "expected a number, found 'x'"),
        ("-s 5 nothing.txt m", 1, "no row has a label"),
        ("-s 5 one.txt m", 1, "all labeled rows have the same label (1)"),
    ],
)
def test_wrong_words(tools, words, code, message):
    write_mixed()
    Path("nothing.txt").write_text("0 1:1\n0 1:2\n")
    Path("one.txt").write_text("0 1:1\n1 1:2\n")
    # with 1 as the mark there are two labels left, 0 and -1: a third makes it three
    if "--unlabeled 1" in words:
        Path("mixed.txt").write_text(Path("mixed.txt").read_text() + "5 1:1\n")
    outcome = tools.train(words)
    assert outcome.code == code and message in outcome.err
    said = [line for line in outcome.err.splitlines() if "hint:" not in line]
    assert len(said) == (2 if "80 rows" in outcome.err or "81 rows" in outcome.err else 1)
    assert not Path("m").exists() and not Path("found").exists()
