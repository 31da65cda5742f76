"""CSV tables in the tools: columns by name, one-hot, text labels, hints for files that are no LIBSVM data."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from odmlib.cli import check, easy, plot, scale
from odmlib.model.text_format import load_model


@pytest.fixture
def tables(tools):
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


def test_scaled_tables_are_libsvm_data(tools, capsys):
    Path("t.tsv").write_text("a\tb\tclass\n0\t5\t1\n10\t7\t2\n")
    assert scale.main(["t.tsv"]) == 0
    assert capsys.readouterr().out == "1 1:-1 2:-1\n2 1:1 2:1\n"


def test_scaled_tables_with_text_labels_are_tables(tools, tables, capsys):
    assert scale.main(["--one-hot", "-s", "r", "d.csv"]) == 0
    Path("scaled").write_text(capsys.readouterr().out)
    lines = Path("scaled").read_text().splitlines()
    assert lines[0] == "x,y y,colour=blue,colour=red,answer" and lines[1].endswith((",yes", ",no"))
    assert Path("r").read_text().endswith('columns\n"x"\n"y y"\n"colour=blue"\n"colour=red"\n')
    assert tools.train("-q --csv scaled m").code == 0
    for name in ("other.csv", "d.csv"):  # columns are found by name, whatever their order
        assert scale.main(["-r", "r", name]) == 0
        assert capsys.readouterr().out == Path("scaled").read_text()
    assert scale.main(["-r", "r", "rows.csv"]) == 0  # rows without labels
    found = capsys.readouterr()
    assert found.out.startswith("0 1:")
    assert "rows.csv has no column of labels: all rows get the label 0" in found.err
    assert scale.main(["-y", "0", "1", "--one-hot", "d.csv"]) == 1
    assert "which -y cannot scale" in capsys.readouterr().err
    Path("bad").write_text("x\n-1 1\n1 0 2\n2 0 2\ncolumns\nx\n")
    assert scale.main(["-r", "bad", "d.csv"]) == 1
    assert "bad:6: expected the name of a column in double quotes" in capsys.readouterr().err


def test_easy(tables, capsys):
    words = ["-log2c", "0,2,2", "-log2g", "0,0,1", "-v", "3"]
    assert easy.main([*words, "--one-hot", "d.csv", "other.csv"]) == 0
    said = capsys.readouterr().out
    assert "$ odm-train -q --csv --label answer -c " in said and " d.csv.scale d.csv.model\n" in said
    assert "Accuracy = 100% (60/60)" in said or "Accuracy = 9" in said
    assert Path("d.csv.scale").read_text() == Path("other.csv.scale").read_text()
    assert load_model("d.csv.model").columns == ("x", "y y", "colour=blue", "colour=red")
    assert easy.main([*words, "--one-hot", "d.csv", "rows.csv"]) == 0  # no labels, no accuracy
    assert "Accuracy" not in capsys.readouterr().out and len(Path("rows.csv.predict").read_text()) > 60
    assert easy.main([*words, "--norm", "l2", "d.csv"]) == 2


def test_plots_of_tables(tools, tables, capsys):
    assert tools.train("-q -b 1 --one-hot d.csv m").code == 0
    for kind in ("margins", "histogram", "roc", "pr", "confusion", "calibration"):
        assert plot.main([kind, "--data", f"{kind}.1", "d.csv", "m"]) == 0
        assert plot.main([kind, "--data", f"{kind}.2", "other.csv", "m"]) == 0
        first, second = (Path(f"{kind}.{k}").read_text() for k in "12")
        assert first == second.replace("other.csv", "d.csv")
    capsys.readouterr()
    assert plot.main(["margins", "rows.csv", "m"]) == 1
    assert "rows.csv: there is no column of labels; --label names one" in capsys.readouterr().err
    assert plot.main(["accuracy", "--one-hot", "-v", "3", "--over", "C", "--values", "1,2", "d.csv"]) == 0
    capsys.readouterr()
    assert tools.train("-q --one-hot --test other.csv d.csv m").out.startswith("Accuracy = ")


def test_check_of_tables(tables, capsys):
    assert check.main(["--one-hot", "d.csv"]) == 0
    said = capsys.readouterr().out
    assert (
        "d.csv: no faults in 61 lines\nlabels      of column 'answer'\nrows        60\nfeatures    4\n"
        in said
    )
    assert check.main(["d.csv"]) == 1
    assert capsys.readouterr().out.startswith("d.csv:2: column 'colour' holds text")
    Path("t").write_text("1,2,0\n3,x,1\n")
    assert check.main(["-q", "--csv", "t"]) == 1
    assert capsys.readouterr().out.startswith("t:2: column 2 holds text ('x')")


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


def test_the_hint_about_scaling_reads_the_table_as_training_did(tools, capsys):
    Path("d.csv").write_text(
        "size,colour,kind\n" + "".join(f"{9 * k},{'rg'[k % 2]},{'ab'[k % 3 == 0]}\n" for k in range(30))
    )
    said = tools.train("--one-hot --label kind d.csv m").err
    command = re.search(r"scale first \((odm-scale .*) > d.csv.scaled\)", said)[1]
    assert command == "odm-scale --label kind --one-hot -s d.csv.range d.csv"
    assert scale.main(command.split()[1:]) == 0
