"""Novelty detection (-s 8) through the tools."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import odmlib
from odmlib.cli import easy, grid, info

from .tools import files


@pytest.fixture
def data(tools):
    rng = np.random.default_rng(0)
    X, far = rng.standard_normal((80, 3)), 6 + rng.standard_normal((20, 3))
    odmlib.write_data("normal.txt", X, np.ones(80))
    odmlib.write_data("test.txt", np.concatenate([X[:20], far]), np.repeat([1, -1], 20))
    return X, far


def test_train_and_predict(tools, data):
    outcome = tools.train("-s 8 -n 0.05 normal.txt m")
    assert outcome.code == 0
    assert "one class" in outcome.err
    assert "from leave-one-out: 4.94% of new rows like these will be called novel" in outcome.err
    outcome = tools.predict("test.txt m out")
    labels = np.loadtxt("out")
    right = int((labels == np.repeat([1, -1], 20)).sum())
    assert (labels[20:] == -1).all()
    assert outcome.out == f"Accuracy = {100 * right / 40:g}% ({right}/40) (classification)\n"


def test_scores_have_p_values(tools, data):
    tools.train("-s odmo -q normal.txt m")
    lines = [line.split() for line in tools.predict("-q --scores test.txt m -").out.splitlines()]
    model, (X, far) = odmlib.load_model("m"), data
    new = np.concatenate([X[:20], far])
    assert [int(line[0]) for line in lines] == model.predict(new).tolist()
    assert [float(line[1]) for line in lines] == pytest.approx(model.decision_function(new).tolist())
    assert [float(line[2]) for line in lines] == model.p_values(new).tolist()


def test_cross_validation_compares_with_the_labels(tools, data):
    assert tools.train("-s 8 -v 5 -q normal.txt").out.startswith("Cross Validation Accuracy = ")
    text = Path("normal.txt").read_text()
    Path("other.txt").write_text(text.replace("1 1:", "-1 1:"))
    normal = float(tools.train("-s 8 -v 5 -q normal.txt").out.split()[-1].rstrip("%"))
    turned = float(tools.train("-s 8 -v 5 -q other.txt").out.split()[-1].rstrip("%"))
    assert 75 < normal < 100
    assert normal + turned == pytest.approx(100)


def test_report(tools, data):
    assert tools.train("-s 8 -q --report r.html --margins z normal.txt m").code == 0
    assert "odmo, rbf kernel" in Path("r.html").read_text()
    assert len(np.loadtxt("z")) == 80


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-s 8 -n 0", "nu (-n) must be above 0 and below 1, found 0"),
        ("-s 8 -b 1", "machine odmo tells no classes apart"),
        ("-s 8 -C", "machine odmo learns from one class: no accuracy tells which parameters are best"),
        ("-s 8 --loo", "--loo is for machine odml, odm, odmr"),
    ],
)
def test_refusals(tools, data, words, message):
    outcome = tools.train(words, "normal.txt m")
    assert outcome.code == 2
    assert message in outcome.err
    assert "m" not in files()


def test_the_grid_is_refused(tools, data, capsys):
    assert grid.main(["-s", "8", "normal.txt"]) == 2
    assert "learns from one class" in capsys.readouterr().err


def test_easy_keeps_the_parameters(tools, data, capsys):
    assert easy.main(["-s", "8", "-n", "0.05", "normal.txt", "test.txt"]) == 0
    printed = capsys.readouterr().out
    assert "odmo learns from one class: its parameters stay as given" in printed
    assert "odm-grid" not in printed and "$ odm-train -q -s 8 -n 0.05 normal.txt.scale" in printed
    assert (np.loadtxt("test.txt.predict")[20:] == -1).all()


def test_info(tools, data, capsys):
    tools.train("-s 8 -q normal.txt m")
    capsys.readouterr()
    assert info.main(["m"]) == 0
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["p-values", "yes"] in words and "probabilities" not in {line[0] for line in words}


def test_labels_of_two_classes_are_told_to_be_unused(tools):
    Path("two").write_text("".join(f"{1 if k % 3 else -1} 1:{k % 7} 2:{k % 5}\n" for k in range(40)))
    Path("one").write_text("".join(f"1 1:{k % 7} 2:{k % 5}\n" for k in range(40)))
    note = "note: labels are not looked at: all 40 rows count as normal, though 14 have the label -1\n"
    assert note in tools.train("-s 8 two m").err and "note:" not in tools.train("-s 8 one m").err
    assert note not in tools.train("-s 8 -q two m").err
