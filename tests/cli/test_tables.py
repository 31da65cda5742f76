"""CSV tables in the tools: columns by name, one-hot, text labels, hints for files that are no LIBSVM data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from odmlib.cli import scale
from odmlib.model.text_format import load_model


@pytest.fixture
def tables():
    random = np.random.default_rng(2)
    rows = [
        (x, y, "red" if x > 0 else "blue", "yes" if x + y > 0 else "no")
        for x, y in random.normal(size=(60, 2))
    ]
    for name, order in (("d.csv", (0, 1, 2, 3)), ("other.csv", (3, 2, 1, 0)), ("rows.csv", (1, 0, 2))):
        titles = ("x", "y y", "colour", "answer")
        lines = [",".join(titles[k] for k in order), *(",".join(str(row[k]) for k in order) for row in rows)]
        Path(name).write_text("\n".join(lines))


def test_train_and_predict_by_name(tools, tables):
    outcome = tools.train("--one-hot d.csv m")
    assert outcome.code == 0 and "odm-train: labels are those of column 'answer'\n" in outcome.err
    assert load_model("m").columns == ("x", "y y", "colour=blue", "colour=red")
    first, second = tools.predict("d.csv m out"), tools.predict("other.csv m out2")
    assert first == second and first.out.startswith("Accuracy = 100%")
    assert Path("out").read_text() == Path("out2").read_text()
    third = tools.predict("rows.csv m out3")
    assert Path("out").read_text() == Path("out3").read_text()
    assert third == (0, "", "odm-predict: there are no labels that the model could know: no accuracy\n")


def test_flags(tools, tables):
    assert "holds text ('" in tools.train("d.csv m").err
    assert tools.train("--one-hot --label nothing d.csv m").err.startswith(
        "odm-train: d.csv: there is no column"
    )
    Path("t").write_text("1;2;0\n3;4;1\n-1;-2;0\n5;6;1\n")
    assert tools.train("-q --csv -t 0 t m") == (0, "", "")
    assert tools.predict("--csv t m out").out == "Accuracy = 100% (4/4) (classification)\n"
    assert tools.train("-q --csv --label 1 -t 0 t m").err.count("warning") == 0
    assert "not from a table" in tools.train("--csv -t 4 t m").err


def test_scaled_tables_are_libsvm_data(capsys):
    Path("t.tsv").write_text("a\tb\tclass\n0\t5\t1\n10\t7\t2\n")
    assert scale.main(["t.tsv"]) == 0
    assert capsys.readouterr().out == "1 1:-1 2:-1\n2 1:1 2:1\n"


@pytest.mark.parametrize(
    ("text", "hint"),
    [("5.1,3.5,0\n", "a CSV table? --csv"), ("a,b\n1,2\n", "a CSV table? --csv"),
     ("long name,b\n1,2\n", "a header? --csv"),
     ("1\t2\t3\n", "a CSV table? --csv")],
)  # fmt: skip
def test_tables_without_the_flag_are_recognised(tools, text, hint):
    Path("d").write_text(text)
    assert hint in tools.train("d m").err


def test_balanced_class_weights(tools):
    Path("d").write_text("1 1:1\n" * 9 + "-1 1:0.5\n")
    for words in (
        "-q -t 0 -w balanced d m",
        "-q -t 0 -wbalanced d m",
        "-q -t 0 -w-1 5 -w1 0.5555555555555556 d w",
    ):
        assert tools.train(words) == (0, "", "")
    assert Path("m").read_text() == Path("w").read_text()
    assert tools.train("-w balanced -w1 2 d m").code == 2
