"""odm-predict: what it writes, what it says, and where."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from odmlib.cli.predict import output_lines
from odmlib.data.reading import read_dataset
from odmlib.model.text_format import load_model
from tests.model.examples import make_model

from .tools import files, start, toy

ROWS = "1 1:1 2:-2 6:0.5\n-1 3:4\n-1 1:-9\n"


@pytest.fixture(autouse=True)
def data(tools):
    Path("d").write_text(ROWS)
    for kind in ("linear", "rbf"):
        make_model(kind).save(kind)


def scores_of(name: str) -> list[float]:
    return [float(line.split()[1]) for line in Path(name).read_text().splitlines()]


def test_labels_and_accuracy(tools):
    outcome = tools.predict("d linear out")
    assert outcome == (0, "Accuracy = 66.6667% (2/3) (classification)\n", "")
    assert Path("out").read_text() == "1\n-1\n1\n"
    assert files() == ["d", "linear", "out", "rbf"]


@pytest.mark.parametrize(("right", "line"), [(3, "100%"), (0, "0%"), (1, "33.3333%")])
def test_accuracy_has_libsvms_digits(tools, right, line):
    Path("e").write_text("1 1:1\n" * right + "-1 1:1\n" * (3 - right))
    assert tools.predict("e linear out").out == f"Accuracy = {line} ({right}/3) (classification)\n"


def test_output_to_stdout(tools):
    outcome = tools.predict("d linear -")
    assert outcome == (0, "1\n-1\n1\n", "Accuracy = 66.6667% (2/3) (classification)\n")
    assert tools.predict("-q d linear -") == (0, "1\n-1\n1\n", "")


def test_quiet(tools):
    assert tools.predict("-q d linear out") == (0, "", "")
    assert tools.predict("d linear out --quiet") == (0, "", "")


@pytest.mark.parametrize("kind", ["linear", "rbf"])
def test_scores_are_the_decision_values_exactly(tools, kind):
    assert tools.predict(f"--scores -j 2 d {kind} out").code == 0
    model = load_model(kind)
    X = np.zeros((3, 6))
    X[0, [0, 1, 5]], X[1, 2], X[2, 0] = (1, -2, 0.5), 4, -9
    expected = model.decision_function(X)
    assert scores_of("out") == expected.tolist()
    labels = [float(line.split()[0]) for line in Path("out").read_text().splitlines()]
    assert labels == np.where(expected > 0, 1.0, -1.0).tolist()


def test_data_and_model_from_stdin(tools):
    expected = tools.predict("d linear out")
    assert tools.predict("- linear out2", stdin=ROWS.encode()) == expected
    assert tools.predict("d - out3", stdin=Path("linear").read_bytes()) == expected
    assert Path("out").read_bytes() == Path("out2").read_bytes() == Path("out3").read_bytes()
    outcome = tools.predict("- - out4")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("kind", ["linear", "rbf"])
def test_wide_rows_are_cut_and_told_once(tools, kind):
    Path("wide").write_text("1 1:1 7:3\n-1 2:1 2147483647:5\n" * 50)
    Path("cut").write_text("1 1:1\n-1 2:1\n" * 50)
    outcome = tools.predict(f"wide {kind} out")
    assert outcome.err == (
        "odm-predict: warning: features above 6 were not seen in training and are left out "
        "(X has 2147483647)\n"
    )
    assert outcome.out == tools.predict(f"cut {kind} out2").out
    assert Path("out").read_bytes() == Path("out2").read_bytes()


def test_narrow_rows_are_fine(tools):
    Path("narrow").write_text("1\n-1 1:0\n1 2:3\n")
    assert tools.predict("narrow rbf out").err == ""


def test_zero_based_models_read_zero_based_files(tools):
    make_model("linear", zero_based=True).save("zero")
    Path("z").write_text("1 0:1 1:-2 5:0.5\n-1 2:4\n-1 0:-9\n")
    assert tools.predict("--scores z zero out").code == 0
    tools.predict("--scores d linear out2")
    assert Path("out").read_bytes() == Path("out2").read_bytes()


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (np.array([3, -4]), {"3", "-4"}),
        (np.array([2**63 - 1, 5]), {"9223372036854775807", "5"}),
        (np.array([0.5, 1e300]), {"0.5", "1e+300"}),
        (np.array(["spam", "a b"]), {"spam", "a b"}),
        (np.array(["ü\n", "\ud800\t"]), {"ü\\n", "\\ud800\\t"}),
        (np.array([True, False]), {"True", "False"}),
        (np.array([1, "x"], dtype=object), {"1", "x"}),
    ],
)
def test_labels_of_every_type(tools, labels, names):
    make_model("rbf", labels=labels).save("m")
    Path("many").write_text("0 1:1\n0 4:2.5e10\n0\n")
    outcome = tools.predict("many m out")
    assert outcome.code == 0
    lines = Path("out").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    assert set(lines) <= names
    if labels.dtype.kind in "fiub":
        assert outcome.out.endswith("(classification)\n")
    else:
        assert outcome.err == "odm-predict: there are no labels that the model could know: no accuracy\n"


def test_a_score_of_zero_is_the_second_label(tools):
    Path("m").write_bytes(
        Path("linear").read_bytes().replace(b"\n0 1:2.5\n", b"\n").replace(b"weights 4", b"weights 3")
    )
    Path("e").write_text("1\n")
    assert tools.predict("--scores e m -").out == "-1 0.0\n"


def test_overflow_is_no_label(tools):
    Path("e").write_text("1 1:1.7e308 3:1.7e308 6:1.7e308\n")
    Path("m").write_bytes(Path("linear").read_bytes().replace(b"\n1 1:0.1\n", b"\n1 1:10\n"))
    outcome = tools.predict("e m out")
    assert outcome == (1, "", "odm-predict: decision values overflow on these rows; scale the data\n")
    assert not Path("out").exists()


def test_inputs_are_never_replaced(tools):
    for words in ("d linear d", "d linear linear", "d linear ./d"):
        outcome = tools.predict(words)
        assert outcome.code == 2
        assert "would replace the input" in outcome.err
    assert Path("d").read_text() == ROWS
    load_model("linear")


def test_many_rows_in_blocks(tools):
    Path("many").write_text(toy(100))
    tools.predict("--scores many linear out")
    model, (rows, _) = load_model("linear"), read_dataset("many")
    scores = model.decision_function(rows)
    blocks = list(output_lines(model, model.positions_for(scores), scores, block_rows=7))
    assert len(blocks) == 15
    assert b"".join(blocks) == Path("out").read_bytes()
    assert Path("out").read_text().count("\n") == 100


def test_help_and_version(tools):
    for flag in ("-h", "--help"):
        outcome = tools.predict(flag)
        assert (outcome.code, outcome.err) == (0, "")
        assert outcome.out.startswith("usage: odm-predict [options] test_file model_file output_file\n")
    assert tools.predict("--version").out.startswith("odm-predict ")


def test_labels_that_the_model_never_saw_are_counted(tools):
    Path("d").write_text("1 1:1\n-1 1:-1\n")
    Path("t").write_text("1 1:1\n7 1:1\n7 1:-1\n0 1:1\n")
    tools.train("-q -t 0 d m")
    outcome = tools.predict("t m out")
    assert outcome.out == "Accuracy = 25% (1/4) (classification)\n"
    assert outcome.err == (
        "odm-predict: 3 of 4 rows have labels that were not in training (0, 7); "
        "the model knows the labels 1, -1\n"
    )
    assert tools.predict("-q t m out").err == ""


def test_model_and_data_in_the_wrong_order(tools):
    Path("d").write_text(toy())
    tools.train("-q -t 0 d m")
    assert "are the files in the right order?" in tools.predict("m d out").err
    assert "this looks like a model file, not data" in tools.train("m").err


def test_label_sets(tools):
    Path("e").write_text(toy(200))
    assert tools.train("-q --coverage 1 -g 0.1 e m").code == 0
    outcome = tools.predict("--coverage 0.8 e m out")
    accuracy, coverage = outcome.out.splitlines()
    assert accuracy.startswith("Accuracy = ")
    assert coverage.startswith("Coverage = ")
    assert coverage.endswith(" labels per set")
    model = load_model("m")
    rows, labels = read_dataset("e")
    sets, predicted = model.predict_set(rows, 0.8), model.predict(rows)
    for line, label, row in zip(Path("out").read_text().splitlines(), predicted, sets, strict=True):
        first, *others = map(float, line.split())
        assert first == label
        assert others == model.labels[row].tolist()
    inside = int(sets[np.arange(len(labels)), model.codes_of(labels)].sum())
    assert f"({inside}/200)" in coverage


def test_label_sets_refused(tools):
    assert tools.train("-q -g 0.1 d m").code == 0
    outcome = tools.predict("--coverage 0.9 d m out")
    assert outcome.code == 1
    assert outcome.err == (
        "odm-predict: the model holds no numbers for label sets; train it with odm-train --coverage 1\n"
    )
    for words, message in [
        ("--coverage 1", "expected a number above 0 and below 1, found '1'"),
        ("--coverage x", "--coverage"),
        ("--coverage 0.9 --scores", "--scores and --coverage both add words behind the label"),
        ("-b 1 --coverage 0.9", "-b 1 and --coverage both add words"),
    ]:
        outcome = tools.predict(words, "d m out")
        assert outcome.code == 2
        assert message in outcome.err
    assert not Path("out").exists()


def test_rows_of_a_pipe_are_answered_before_it_ends(tools):
    with start("predict", "-", "linear", "-", stdin=subprocess.PIPE) as process:
        for row, answer in ((b"1 1:1 2:-2 6:0.5\n", b"1\n"), (b"-1 3:4\n", b"-1\n")):
            process.stdin.write(row)
            process.stdin.flush()
            assert process.stdout.readline() == answer
        process.stdin.write(b"1 1:x\n")
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.stderr.read().startswith(b"odm-predict: <stdin>:3:5: ")
        assert process.wait(300) == 1


def test_a_fault_late_in_a_file_leaves_no_output(tools):
    Path("long").write_text(ROWS * 200_000 + "1 1:x\n")
    Path("out").write_text("as before")
    outcome = tools.predict("long linear out")
    assert outcome.code == 1
    assert outcome.err.startswith("odm-predict: long:600001:5: ")
    assert Path("out").read_text() == "as before"
    assert files() == ["d", "linear", "long", "out", "rbf"]


def test_many_parts_are_as_one(tools):
    """More rows than a part holds: labels, scores, accuracy and warnings are those of all rows together."""
    Path("long").write_text((ROWS + "1 9:1\n") * 100_000)
    outcome = tools.predict("--scores -j 2 long linear out")
    assert outcome.out == "Accuracy = 75% (300000/400000) (classification)\n"
    assert outcome.err.count("features above 6 were not seen") == 1
    lines = Path("out").read_text().splitlines()
    assert len(lines) == 400_000
    assert lines[:4] * 100_000 == lines
