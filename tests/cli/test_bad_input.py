"""What odm-train and odm-predict must refuse: one line on stderr, an exit code, nothing left behind."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from tests.model.examples import make_model

from .tools import files, toy

GOOD = "1 1:1 2:2\n-1 1:-1 2:0.5\n1 1:2 2:1\n-1 1:-2\n"


@pytest.fixture(autouse=True)
def data(tools):
    Path("good").write_text(GOOD)
    Path("out").write_text("untouched")
    make_model("linear").save("model")


def refused(outcome, program: str, code: int = 1) -> str:
    """Check the manners of a failure; gives the message."""
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err.startswith(f"{program}: ")
    assert outcome.err.count("\n") == 1
    assert outcome.err.endswith("\n")
    assert "internal error" not in outcome.err
    assert len(outcome.err) < 500
    assert Path("out").read_text() == "untouched"
    assert not any(name.startswith(".") or name.endswith((".model", ".tmp")) for name in files())
    return outcome.err.removeprefix(f"{program}: ").removesuffix("\n")


BAD_ROWS = {
    "nothing": "",
    "blanks": " \n\t\n\n",
    "comments": "# one\n# two\n",
    "only a mark": "\ufeff",
    "NUL": "1 1:1\n-1 1:\x002\n",
    "lone CR": "1 1:1\r-1 1:2\r",
    "no label": "1:1 2:1\n-1 1:1\n",
    "word label": "abc 1:1\n",
    "nan label": "nan 1:1\n",
    "inf label": "inf 1:1\n",
    "-inf label": "-inf 1:1\n",
    "large label": "12345678901234567891 1:1\n-1 1:1\n",
    "two labels": "1,2 1:1\n",
    "index 0": "1 0:1\n",
    "index -1": "1 -1:1\n",
    "index 2^31": "1 2147483648:1\n",
    "index 2^32+1": "1 4294967297:1\n",
    "index 2^63": "1 9223372036854775808:1\n",
    "index 1.5": "1 1.5:1\n",
    "no index": "1 :1\n",
    "hex index": "1 0x1:1\n",
    "same index": "1 1:1 1:2\n",
    "descending": "1 2:1 1:2\n",
    "no value": "1 1:\n",
    "two colons": "1 1::2\n",
    "three parts": "1 1:2:3\n",
    "no colon": "1 2\n",
    "fused": "1 1:6.6e-0114:8.7e-01\n",
    "nan value": "1 1:nan\n",
    "inf value": "1 1:inf\n",
    "huge value": "1 1:1e400\n",
    "hex value": "1 1:0x10\n",
    "comma": "1 1:1,5\n",
    "underscore": "1 1:1_000\n",
    "junk": "1 1:1 \x80\xff\n",
    "vertical tab": "1\x0b1:1\n",
    "bad qid": "1 qid:x 1:1\n",
}


@pytest.mark.parametrize("text", BAD_ROWS.values(), ids=BAD_ROWS.keys())
@pytest.mark.parametrize("program", ["odm-train", "odm-predict"])
def test_bad_data(tools, program, text):
    Path("bad").write_bytes(text.encode("utf-8", "surrogateescape"))
    outcome = tools.train("-t 0 bad out") if program == "odm-train" else tools.predict("bad model out")
    assert refused(outcome, program).startswith("bad:")
    outcome = tools.train("-t 0 -v 2 bad") if program == "odm-train" else tools.predict("bad model new")
    refused(outcome, program)
    assert files() == ["bad", "good", "model", "out"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:1\n1 1:2\n", "bad: all rows have the same label (1); odm needs rows of two classes"),
        ("1 1:1\n", "bad: all rows have the same label (1); odm needs rows of two classes"),
    ],
)
def test_too_few_or_too_many_classes(tools, text, message):
    Path("bad").write_text(text)
    for words in ("bad out", "-v 2 bad"):
        assert refused(tools.train("-t 0", words), "odm-train") == message


def test_packed_data_that_do_not_unpack(tools):
    packed = gzip.compress(toy(500).encode())
    for text in (packed[:-9], packed[:200], packed[:100] + b"junk" + packed[104:], packed + b"rubbish"):
        Path("bad.txt").write_bytes(text)
        assert refused(tools.train("-t 0 bad.txt out"), "odm-train").startswith("bad.txt: gzip data ")
        assert refused(tools.predict("bad.txt model out"), "odm-predict").startswith("bad.txt: gzip data ")


def test_a_long_line_is_refused_or_read_but_not_fatal(tools):
    Path("long").write_text("1 " + " ".join(f"{j}:1" for j in range(1, 300_000)) + " x\n")
    assert refused(tools.train("-t 0 long out"), "odm-train").startswith("long:1:")


@pytest.mark.parametrize(
    "name", ["none", "no/such/directory", "good/file", ".", "", "a" * 2000, "x/" * 800 + "y", "with\nbreak"]
)
def test_names_that_cannot_be_read(tools, name):
    for program, main, words in [
        ("odm-train", tools.train, ["-t", "0", Path(name), "out"]),
        ("odm-predict", tools.predict, [Path(name), "model", "out"]),
        ("odm-predict", tools.predict, ["good", Path(name), "out"]),
        ("odm-train", tools.train, ["-t", "0", "-W", Path(name), "good", "out"]),
        ("odm-train", tools.train, ["-t", "0", "--init", Path(name), "-q", "good", "out"]),
    ]:
        assert outcome_is_one_line(main(*words), program)


def outcome_is_one_line(outcome, program):
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(f"{program}: ")
    assert outcome.err.count("\n") == 1
    assert "internal error" not in outcome.err
    return Path("out").read_text() == "untouched"


@pytest.mark.parametrize("name", ["no/such/directory/m", "good/m", ".", "a" * 300])
def test_names_that_cannot_be_written_show_before_the_work(tools, name):
    Path("bad").write_text("1 x\n")  # whose fault would show once the work begins
    for words in ("-t 0 bad", "-t 0 bad new --json"):
        outcome = tools.train(words, Path(name))
        assert outcome_is_one_line(outcome, "odm-train")
        assert "bad" not in outcome.err
    assert outcome_is_one_line(tools.predict("good model", Path(name)), "odm-predict")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_directory(tools):
    Path("locked").mkdir(mode=0o500)
    outcome_is_one_line(tools.train("-t 0 good locked/m"), "odm-train")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_full_disk(tools):
    for words in ("good /dev/full", "good new --json /dev/full"):
        outcome = tools.train("-q -t 0", words)
        assert outcome == (1, "", "odm-train: /dev/full: No space left on device\n")
    assert tools.predict("-q good model /dev/full") == (
        1,
        "",
        "odm-predict: /dev/full: No space left on device\n",
    )
    assert files() == ["good", "model", "out"]


def test_devices(tools):
    assert tools.train("-q -t 0 good /dev/null") == (0, "", "")
    assert refused(tools.train("-q -t 0 /dev/null out"), "odm-train") == "/dev/null: no rows found"
    assert tools.predict("-q good model /dev/null") == (0, "", "")
    assert "found nothing" in refused(tools.predict("good /dev/null out"), "odm-predict")


# ---------------------------------------------------------------------------------------- models


@pytest.mark.parametrize(
    "text",
    [
        "",
        "svm_type c_svc\n",
        "solver_type L2R_LR\n",
        "<html>\n",
        "odmlib model 2\n",
        "odmlib model 1\n",
        "1 1:1\n",
        "\0\1\2",
    ],
)
def test_bad_models(tools, text):
    Path("bad").write_text(text)
    assert refused(tools.predict("good bad out"), "odm-predict").startswith("bad:")
    assert refused(tools.train("-q -t 0 --init bad good out"), "odm-train").startswith("bad:")
    tools.predict("good bad new")
    assert not Path("new").exists()


def test_model_is_judged_before_the_data(tools):
    Path("bad").write_text("odmlib model 1\nmachine odm\n")
    assert refused(tools.predict("none bad out"), "odm-predict").startswith("bad:2: ")


# ---------------------------------------------------------------------------------------- flags


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-q", "training_set_file"),
        ("good out third", "unrecognized arguments: third"),
        ("-c good", "-c/--C: expected a number, found 'good'"),
        ("good out -c", "-c needs a value, found none"),
        ("-c -t 0 good out", "-c needs a value, found the option -t"),
        ("good out -w1", "-w needs 2 values, found one"),
        ("good out -w", "-w needs 2 values, found none"),
        ("-w abc 2 good out", "-w: expected a finite number, found 'abc'"),
        ("-w1 abc good out", "-w: expected a finite number, found 'abc'"),
        ("-w1 -2 good out", "class weight (-w) of 1 must be finite and at least 0, found -2"),
        ("-w1 nan good out", "-w: expected a finite number, found 'nan'"),
        ("--bogus good out", "unknown option '--bogus'"),
        ("-bogus good out", "-b/--probability: expected 0 or 1, found 'ogus'"),
        ("-Z good out", "unknown option '-Z'"),
        ("--kernal 0 good out", "did you mean --kernel?"),
        ("-v 1 good", "-v: cross-validation needs at least 2 folds, found 1"),
        ("-v 0 good", "-v: cross-validation needs at least 2 folds, found 0"),
        ("-v -3 good", "-v: cross-validation needs at least 2 folds, found -3"),
        ("-v 2.5 good", "-v: expected a whole number, found '2.5'"),
        ("-v 5 good out", "-v writes no model, but a model file is named: out"),
        ("-g nan good out", "gamma (-g) must be above 0, 'scale', 'auto' or 'mean', found nan"),
        ("-g inf good out", "gamma (-g) must be above 0, 'scale', 'auto' or 'mean', found inf"),
        ("-g 0 good out", "gamma (-g) must be above 0, 'scale', 'auto' or 'mean', found 0"),
        ("-g -1 good out", "gamma (-g) must be above 0, 'scale', 'auto' or 'mean', found -1"),
        ("-g wide good out", "-g/--gamma: expected a number, found 'wide'"),
        ("-e 0 good out", "tol (-e) must be above 0 and at most 1, found 0"),
        ("-e -1 good out", "tol (-e) must be"),
        ("-e nan good out", "tol (-e) must be"),
        ("-m 0 good out", "cache_mb (-m) must be above 0"),
        ("-m -5 good out", "cache_mb (-m) must be above 0"),
        ("-m inf good out", "cache_mb (-m) must be above 0"),
        ("-p 1 good out", "theta (-p) must be at least 0 and below 1, found 1"),
        ("-p -0.1 good out", "theta (-p) must be at least 0 and below 1, found -0.1"),
        ("-s 5 -n 1.5 good out", "nu (-n) must be at least 0 and at most 1, found 1.5"),
        ("-n -1 good out", "nu (-n) must be at least 0, found -1"),
        ("--lambda 0 good out", "--lambda must be above 0, found 0"),
        ("--lambda -1 good out", "--lambda must be above 0, found -1"),
        ("-c 0 good out", "C (-c) must be above 0, found 0"),
        ("-c inf good out", "C (-c) must be above 0, found inf"),
        ("-c 1_000 good out", "-c/--C: expected a number, found '1_000'"),
        ("-c 1,5 good out", "-c/--C: expected a number, found '1,5'"),
        ("-c 2 --lambda 3 good out", "C (-c) and --lambda say the same thing; give one of them"),
        (
            "--solver nonsense good out",
            "--solver must be one of auto, working-set, dcd for machine odm and kernel rbf",
        ),
        (
            "-t 0 --solver working-set good out",
            "--solver must be one of auto, newton, dcd, blocks, svrg",
        ),
        (
            "-t 9 good out",
            "-t/--kernel: unknown kernel '9' (known: 0 linear, 1 poly, 2 rbf, 3 sigmoid, 4 precomputed)",
        ),
        ("-t ² good out", "unknown kernel"),
        ("-s 9 good out", "-s/--machine: unknown machine '9'"),
        ("-s 6 --partition blocks good out", "--partition must be one of stratified-class, "),
        ("-s 6 --partitions 0 good out", "--partitions must be a whole number from 1 to"),
        ("-s 6 --levels 2.5 good out", "--levels: expected a whole number, found '2.5'"),
        ("-s 6 -t precomputed --partition dc --stop-level 1 good out", "needs the rows themselves"),
        (
            "--stop-level 1 good out",
            "--stop-level is for machine sodm (-s 6), found machine odm",
        ),
        ("-d 0 good out", "degree (-d) must be a whole number from 1 to 100, found 0"),
        ("-d 2.5 good out", "-d/--degree: expected a whole number, found '2.5'"),
        ("-r nan good out", "coef0 (-r) must be finite, found nan"),
        ("-B nan good out", "bias (-B) must be finite, found nan"),
        ("-b 2 good out", "-b/--probability: expected 0 or 1, found '2'"),
        ("-v 5 --loo good", "-v and --loo are two ways to the same end; give one of them"),
        ("-j 0 good out", "threads (-j) must be a whole number from 1 to 1024, found 0"),
        ("-j two good out", "-j/--threads: expected a whole number, found 'two'"),
        ("--seed -1 good out", "--seed must be a whole number from 0"),
        ("--max-iter 0 good out", "--max-iter must be a whole number from 1"),
        ("--time-limit 0 good out", "--time-limit must be above 0, found 0"),
        ("--features 0 good out", "--features: expected a whole number above 0, found '0'"),
        ("-q=1 good out", "-q takes no value, found '1'"),
        ("-", "name a model file when the training set comes from standard input"),
        ("-W - - out", "only one file can come from standard input"),
        ("--init - - out", "only one file can come from standard input"),
        ("--json - good -", "only one of the model, the report and the margins can go to standard output"),
        ("\u2013c 2 good out", "does not start with a hyphen"),
    ],
)
def test_bad_usage_of_train(tools, words, message):
    found = refused(tools.train(words), "odm-train", code=2)
    assert message in found
    assert found.endswith(" (see odm-train --help)")
    assert files() == ["good", "model", "out"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-q", "test_file, model_file, output_file"),
        ("good model", "output_file"),
        ("good model out more", "unrecognized arguments: more"),
        ("-b 2 good model out", "-b/--probability: invalid choice: '2'"),
        ("-b 1 --scores good model out", "-b 1 and --scores both add numbers behind the label"),
        ("-b", "-b needs a value, found none"),
        ("-j 0 good model out", "-j/--threads: expected a whole number above 0, found '0'"),
        ("--score good model out", "did you mean --scores?"),
        ("-x good model out", "unknown option '-x'"),
        ("- - out", "cannot both come from standard input"),
    ],
)
def test_bad_usage_of_predict(tools, words, message):
    found = refused(tools.predict(words), "odm-predict", code=2)
    assert message in found
    assert found.endswith(" (see odm-predict --help)")


def test_the_last_of_repeated_flags_wins(tools):
    tools.train("-q -t 0 -c 5 -c 2 good a")
    tools.train("-q -t 0 -c 2 good b")
    assert Path("a").read_bytes() == Path("b").read_bytes()


# ---------------------------------------------------------------------------------------- weights


def test_class_weight_for_a_label_that_is_not_there(tools):
    message = refused(tools.train("-t 0 -w7 2 good out"), "odm-train")
    assert message == "good: a class weight (-w) is given for label 7, which is not in the data (1, -1)"


def test_classes_without_any_weight(tools):
    message = refused(tools.train("-t 0 -w1 0 good out"), "odm-train")
    assert message == "good: no weight is left for label 1; odm needs rows of every class with weight"
    message = refused(tools.train("-t 0 -w1 0 -w-1 0 good out"), "odm-train")
    assert message == "good: every row has weight 0 (row weight times class weight); nothing to train on"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n1\n1\n", "w: expected 4 row weights, one per row, found shape (3,)"),
        ("1\n1\n1\n1\n1\n", "w: expected 4 row weights, one per row, found shape (5,)"),
        ("1\n1\n1\n-1\n", "w: row weight 4 is -1; weights must be finite and at least 0"),
        ("0\n0\n0\n0\n", "w: all row weights are zero; nothing to train on"),
        ("1\nnan\n1\n1\n", "w:2:1: expected a finite number, found 'nan'"),
        ("1\nx\n1\n1\n", "w:2:1: expected a number as label, found 'x'"),
        ("1 1:1\n1\n1\n1\n", "w: expected one number per line, found index:value items"),
        ("", "w: no rows found"),
    ],
)
def test_bad_row_weights(tools, text, message):
    Path("w").write_text(text)
    assert refused(tools.train("-t 0 -W w good out"), "odm-train") == message


def test_rows_without_weight_do_not_count(tools):
    Path("more").write_text(GOOD + "1 1:-100 2:7\n")
    Path("w").write_text("1\n1\n1\n1\n0\n")
    tools.train("-q -t 0 -e 1e-9 -W w more a")
    tools.train("-q -t 0 -e 1e-9 --features 2 good b")
    from odmlib.model.text_format import load_model

    a, b = load_model("a").function, load_model("b").function
    assert abs(a.weights - b.weights).max() < 1e-6
