"""odm-plot: from files to pictures, and misuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import odmlib
from odmlib.cli import plot

from .tools import ROOT, files, run, run_python, toy

IRIS = ROOT / "data" / "iris.txt"


def plotted(tools, *words, stdin=None):
    return tools._run(plot.main, words, stdin)


@pytest.fixture
def models(tools):
    Path("d").write_text(toy())
    assert tools.train("-q -s svm --json svm.json d svm.model").code == 0
    assert tools.train("-q -s odm --json odm.json d odm.model").code == 0


def test_margins(tools, models):
    code, out, err = plotted(tools, "margins d svm.model odm.model")
    assert (code, err) == (0, "")
    assert out.startswith("cumulative margin distribution on d\n") and "* svm" in out and "o odm" in out
    assert plotted(tools, "margins --data numbers -o p.svg d svm.model odm.model").code == 0
    assert Path("p.svg").read_text().startswith("<?xml")
    series = json.loads(Path("numbers").read_text())[0]["series"]
    X, y = odmlib.read_data("d")
    model = odmlib.load_model("odm.model")
    assert series[1]["name"] == "odm"
    np.testing.assert_allclose(series[1]["x"][1:], np.sort(model.margins(X, y)), rtol=1e-12)
    assert plotted(tools, "margins --relative --names A,B --title T d svm.model odm.model").out.startswith(
        "T\n"
    )


def test_histogram(tools):
    tools.train("-q", IRIS, "m")
    code, out, _ = plotted(tools, "histogram", IRIS, "m")
    assert code == 0 and out.startswith("m: 150 rows")
    code, out, _ = plotted(tools, "histogram --per-class --bins 8", IRIS, "m")
    assert code == 0 and out.count("50 rows") == 3
    tools.train("-q -s svm", IRIS, "s")
    assert plotted(tools, "histogram --per-class", IRIS, "m s").out.count("50 rows") == 6


def test_pictures_of_predictions(tools, models):
    code, out, err = plotted(tools, "roc d svm.model odm.model")
    assert (code, err) == (0, "") and out.startswith("ROC on d: class 1 against -1 (AUC)\n")
    X, y = odmlib.read_data("d")
    found = odmlib.load_model("odm.model").evaluate(X, y)
    assert f"o odm: {found.ranking(found.positive()).auc():.3f}" in out
    assert "class -1 against 1" in plotted(tools, "roc --positive -1 d odm.model").out
    assert plotted(tools, "pr --names A,B -o pr.svg d svm.model odm.model").code == 0
    assert "A: 0." in Path("pr.svg").read_text()
    code, out, _ = plotted(tools, "confusion d odm.model")
    wrong = 60 - round(60 * found.accuracy)
    assert code == 0 and out.startswith(f"odm: {wrong} of 60 rows wrong on d\n")
    assert "100" in plotted(tools, "confusion --normalize --title T d odm.model").out or wrong
    tools.train("-q -b 1 d p.model")
    code, out, _ = plotted(tools, "calibration --bins 5 d p.model")
    assert code == 0 and out.startswith("calibration of class 1 on d (")
    Path("mixed").write_text(Path("d").read_text() + "7 1:1\n")
    code, out, err = plotted(tools, "confusion mixed odm.model")
    assert code == 0 and f"{wrong + 1} of 61 rows wrong" in out
    assert "1 rows have labels that odm does not know" in err


def test_pictures_of_models(tools, models):
    code, out, _ = plotted(tools, "boundary --columns 2,1 d odm.model")
    assert code == 0 and "2 other columns at their median" in out and "column 2" in out
    tools.train("-q -t linear d linear.model")
    code, out, _ = plotted(tools, "weights --top 2 linear.model")
    assert code == 0 and out.splitlines()[1].startswith("column 1 |+++")
    from odmlib.cli import grid

    code, _, _ = tools._run(
        grid.main, ("-q -log2c -1,1,2 -log2g -1,-3,-2 -v 3 -out g.out -png null d",), None
    )
    assert code == 0
    code, out, _ = plotted(tools, "tune g.out")
    assert code == 0 and out.startswith("g.out: best") and "(down: log2(gamma); across: log2(C))" in out


def test_convergence(tools, models):
    trace = json.loads(Path("odm.json").read_text())["trace"]
    assert trace[-1]["gap"] <= 1e-3 and set(trace[0]) == {"seconds", "iteration", "primal", "gap"}
    code, out, _ = plotted(tools, "convergence svm.json odm.json")
    assert code == 0 and out.startswith("convergence (wanted 0.001)") and "o odm.json" in out
    tools.train("-q --json iris.json", IRIS, "m")
    assert "o task 2" in plotted(tools, "convergence iris.json").out
    assert "convergence of 3 tasks" in plotted(tools, "convergence iris.json").out


def test_levels(tools):
    Path("r").write_text(json.dumps({"details": {"levels": [{"partitions": 2, "gap": 0.1, "seconds": 1}]}}))
    code, out, _ = plotted(tools, "levels r")
    assert code == 0 and out.startswith("levels: 2 partitions")


def test_accuracy(tools):
    code, out, err = plotted(tools, "accuracy --over C --values 0.01,1 -t linear -v 3 --data -", IRIS)
    assert (code, err) == (0, "")
    series = json.loads(out)[0]["series"][0]
    assert series["x"] == [0.01, 1.0] and len(series["errors"]) == 2
    wanted = tools.train("-q -v 3 -t linear -c 1", IRIS).out.split()[-1]
    assert f"{series['y'][1]:g}%" == wanted
    code, out, _ = plotted(tools, "accuracy --log2 0,4,2 -t linear -v 3", IRIS)
    assert code == 0 and "against lambda: odm, linear kernel" in out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("--title", 2, "unknown option"),
        ("pie d m", 2, "unknown kind 'pie'"),
        ("margins d", 2, "required"),
        ("margins -o p.gif d svm.model", 2, "must end in .png"),
        ("margins d none.model", 1, "none.model: No such file"),
        ("margins d d", 1, "not an odmlib model"),
        ("margins none svm.model", 1, "none: No such file"),
        ("margins - -", 2, "only one file"),
        ("margins --names A d svm.model odm.model", 2, "1 names for 2 models"),
        ("margins d svm.model svm.model", 2, "same name"),
        ("margins wrong svm.model", 1, "which the model does not know"),
        ("roc --positive 7 d odm.model", 1, "does not know the label 7"),
        ("roc wrong odm.model", 1, "no row has a label"),
        ("calibration d odm.model", 1, "odm-train -b 1"),
        ("boundary --columns 1 d odm.model", 2, "two columns such as 1,2"),
        ("boundary --columns 1,9 d odm.model", 1, "two different columns from 1 to 4"),
        ("weights odm.model", 1, "linear machine"),
        ("tune d", 1, "expected log2c"),
        ("tune empty", 1, "found none"),
        ("convergence d", 1, "d: not a report; odm-train --json FILE writes one"),
        ("convergence list", 1, "not a report"),
        ("levels odm.json", 1, "no levels"),
        ("accuracy --log2 1,2 d", 2, "begin,end,step"),
        ("accuracy --over theta --values 2 d", 2, "theta (-p) must be"),
        ("accuracy --json j d", 2, "--data"),
        ("accuracy --values 1 --log2 1,2,1 d", 2, "give one of them"),
    ],
)
def test_misuse(tools, models, words, code, message):
    Path("wrong").write_text("5 1:1\n")
    Path("list").write_text("[]")
    Path("empty").write_text("")
    before = files()
    found, out, err = plotted(tools, words)
    assert (found, out) == (code, "") and message in err and err.count("\n") == 1
    assert files() == before


def test_help_and_pipe(tools, models):
    assert "convergence" in plotted(tools, "--help").out
    assert "--relative" in plotted(tools, "margins --help").out
    assert "--over" in plotted(tools, "accuracy --help").out
    piped = run("plot", "margins", "-", "svm.model", "odm.model", input=Path("d").read_bytes())
    assert piped.returncode == 0 and b"* svm" in piped.stdout


def test_text_needs_no_matplotlib(tools, models):
    script = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from odmlib.cli.plot import main\n"
        "main(['margins', 'd', 'svm.model']) and sys.exit(3)\n"
        "main(['margins', '-o', 'p.svg', 'd', 'svm.model']) and sys.exit(3)\n"
        "sys.exit(main(['margins', '-o', 'p.png', 'd', 'svm.model']))"
    )
    result = run_python(script)
    assert result.returncode == 1
    assert "needs matplotlib" in result.stderr and not Path("p.png").exists() and Path("p.svg").exists()


def test_a_warning_is_one_line(tools, models):
    """Python's own form names a file of ours and shows its line."""
    Path("wide").write_text("+1 1:1 9:1\n-1 1:-1\n")
    script = "import warnings; warnings.simplefilter('default'); from odmlib.cli.plot import main; "
    found = run_python(script + "main(['roc', 'wide', 'odm.model'])")
    assert found.stderr.startswith("odm-plot: warning: features above"), found.stderr
    assert found.stderr.count("\n") == 1, found.stderr
