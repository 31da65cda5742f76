"""odm-train -s 3: three classes through the tools."""

from __future__ import annotations

import json
from pathlib import Path


def test_train_predict_and_cross_validate(tools):
    rows = [f"{c} 1:{2 * c + shift} 2:{shift - c}\n" for c in (1, 2, 3) for shift in (0, 1, 2)]
    Path("three.txt").write_text("".join(rows))
    outcome = tools.train("-s 3 -t 0 --relaxation majorise --json report three.txt m")
    assert outcome.code == 0 and "mcodm, linear kernel" in outcome.err
    assert "relaxation majorise" in outcome.err
    details = json.loads(Path("report").read_text())["details"]
    assert details["dual"] <= details["objective"] <= details["relaxed"] and details["outer_steps"] >= 0
    assert "\nrelaxation majorise\n" in Path("m").read_text()
    outcome = tools.predict("--scores three.txt m out")
    assert outcome.code == 0 and outcome.out.startswith("Accuracy = ")
    assert [len(line.split()) for line in Path("out").read_text().splitlines()] == [4] * 9
    outcome = tools.train("-s mcodm -t 2 -v 3 three.txt")
    assert outcome.code == 0 and outcome.out.startswith("Cross Validation Accuracy = ")


def test_wrong_words(tools):
    Path("three.txt").write_text("1 1:1\n2 1:2\n3 1:3\n")
    outcome = tools.train("-s 3 --relaxation frosty three.txt m")
    assert outcome.code == 2 and "majorise, frozen, found 'frosty'" in outcome.err
    outcome = tools.train("-s 3 --multiclass ovr three.txt m")
    assert outcome.code == 2 and len(outcome.err.splitlines()) == 1
    assert not Path("m").exists()
