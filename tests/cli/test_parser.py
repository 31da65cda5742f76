"""ToolParser: every way to write an option, and every way to get it wrong."""

from __future__ import annotations

import pytest

from odmlib._version import __version__
from odmlib.cli.parser import Finished, ToolParser, UsageError, number, positive_whole_number
from odmlib.values import read_whole


def make_parser() -> ToolParser:
    usage = "[options] data [model]"
    parser = ToolParser("odm-demo", usage, "A tool for the tests.", help_flags="--help")
    parser.option("-l --lower L", "lower end", type=number, default=-1.0)
    parser.option("-y --target LOWER UPPER", "two numbers", type=number)
    parser.option("-w --weight LABEL WEIGHT", "weight of a class", action="append")
    parser.option("-s --save FILE", "where to save", group="files")
    parser.option("-j --threads N", "threads", type=positive_whole_number)
    parser.option("-v N", "folds", type=read_whole)
    parser.option("-h 0|1", "shrinking", choices=("0", "1"), default="1", alone="--help")
    parser.option("-q --quiet", "quiet")
    parser.add_argument("data")
    parser.add_argument("model", nargs="?")
    return parser


@pytest.mark.parametrize(
    "words",
    ["-l 0.5", "-l0.5", "-l=0.5", "--lower 0.5", "--lower=0.5", "-l .5", "-l +0.5", "-l 5e-1", "-l 7 -l .5"],
)
def test_forms_of_an_option(words):
    assert make_parser().parse([*words.split(), "heart.txt"]).lower == 0.5
    assert make_parser().parse(["heart.txt", *words.split()]).lower == 0.5


@pytest.mark.parametrize("text", ["-1", "-1e-3", "-.5", "-1.", "-1E+2", "-0"])
def test_negative_values(text):
    for words in (["-l", text], [f"-l{text}"], [f"-l={text}"], ["--lower", text], [f"--lower={text}"]):
        assert make_parser().parse([*words, "heart.txt"]).lower == float(text), words


def test_several_words():
    assert make_parser().parse(["-y", "-1", "-.5", "f"]).target == [-1.0, -0.5]
    assert make_parser().parse(["-y-1", "1", "f"]).target == [-1.0, 1.0]
    assert make_parser().parse(["--target=-1", "1", "f"]).target == [-1.0, 1.0]
    weights = make_parser().parse(["-w1", "2", "-w-1", "0.5", "-w", "3", "4", "f"]).weight
    assert weights == [["1", "2"], ["-1", "0.5"], ["3", "4"]]


def test_files_and_options_in_any_order():
    for words in ("-q -l 0 a b", "a -q b -l 0", "a b -q -l 0", "-l 0 -q -- a b"):
        found = make_parser().parse(words.split())
        assert (found.data, found.model, found.quiet, found.lower) == ("a", "b", True, 0.0)


def test_streams_and_strange_names():
    assert make_parser().parse(["-"]).data == "-"
    assert make_parser().parse(["-s", "-", "a"]).save == "-"
    assert make_parser().parse(["--", "-a"]).data == "-a"
    assert make_parser().parse(["-s=-l", "a"]).save == "-l"
    assert make_parser().parse(["-s", "-x y=z", "a"]).save == "-x y=z"
    assert make_parser().parse(["-sa=b", "a"]).save == "a=b"
    assert make_parser().parse(["-s", "", "a"]).save == ""
    assert make_parser().parse(["a b"]).data == "a b"


def test_defaults():
    found = make_parser().parse(["a"])
    assert (found.lower, found.target, found.weight, found.save, found.quiet) == (
        -1.0,
        None,
        None,
        None,
        False,
    )
    assert found.model is None


def test_a_flag_that_may_stand_alone(capsys):
    assert make_parser().parse(["-h", "0", "a"]).h == "0"
    assert make_parser().parse(["-h0", "a"]).h == "0"
    assert make_parser().parse(["a"]).h == "1"
    for words in (["-h"], ["-h", "a"]):
        with pytest.raises(Finished):
            make_parser().parse(words)
        assert capsys.readouterr().out.startswith("usage: odm-demo")


def test_help_and_version_go_to_stdout(capsys):
    with pytest.raises(Finished):
        make_parser().parse(["--help"])
    out, err = capsys.readouterr()
    assert "-y LOWER UPPER, --target LOWER UPPER" in out
    assert "files:" in out
    assert err == ""
    with pytest.raises(Finished):
        make_parser().parse(["--version"])
    assert capsys.readouterr().out == f"odm-demo {__version__}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("a -l", "-l needs a value, found none"),
        ("-l --quiet a", "-l needs a value, found the option --quiet"),
        ("-s -l 0 a", "-s needs a value, found the option -l"),
        ("-l -- a", "-l needs a value, found none"),
        ("a -y", "-y needs 2 values, found none"),
        ("a -y 1", "-y needs 2 values, found one"),
        ("-y 1 -q a", "-y needs 2 values, found one"),
        ("-y 1 x a", "-y/--target: expected a finite number, found 'x'"),
        ("-l= a", "-l/--lower: expected a finite number, found nothing"),
        ("-l nan a", "-l/--lower: expected a finite number, found 'nan'"),
        ("-l inf a", "-l/--lower: expected a finite number, found 'inf'"),
        ("-l 1e999 a", "-l/--lower: expected a finite number, found '1e999'"),
        ("-l 1_0 a", "-l/--lower: expected a finite number, found '1_0'"),
        ("-l 0x10 a", "-l/--lower: expected a finite number, found '0x10'"),
        ("-lower 1 a", "unknown option '-lower'; did you mean --lower?"),
        ("--lowr 1 a", "unknown option '--lowr'; did you mean --lower?"),
        ("--low 1 a", "unknown option '--low'"),
        ("-z 1 a", "unknown option '-z'"),
        ("-q1 a", "unknown option '-q1'"),
        ("--quiet=1 a", "--quiet takes no value, found '1'"),
        ("-j 0 a", "-j/--threads: expected a whole number above 0, found '0'"),
        ("-j 1.5 a", "-j/--threads: expected a whole number, found '1.5'"),
        ("-v 1_0 a", "-v: expected a whole number, found '1_0'"),
        ("-y 1 2", "the following arguments are required: data"),
        ("a b c", "unrecognized arguments: c"),
        ("–l 0 a", "'–l' does not start with a hyphen: '–' (U+2013) is another character"),
        ("—lower 0 a", "'—lower' does not start with a hyphen: '—' (U+2014) is another character"),
        ("-l −1 a", "expected a finite number, found '−1': '−' (U+2212) is another character"),
    ],
)
def test_mistakes(words, message):
    with pytest.raises(UsageError) as caught:
        make_parser().parse(words.split())
    assert message in str(caught.value)
