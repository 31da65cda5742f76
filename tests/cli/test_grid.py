"""odm-grid, odm-train -C and odm-easy: lines, files, exit codes, interruption, resumption."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from odmlib.cli import easy, grid
from odmlib.model.text_format import load_model

from .tools import ROOT, WDBC, WDBC_TEST, environment, files, start, toy

SMALL = "-log2c -1,3,2 -log2g -1,-3,-2"


@pytest.fixture
def run(tools):
    def tool(main, *words):
        return tools._run(main, words, None)

    Path("d").write_text(toy())
    return tool


def test_lines_and_files(run, tools):
    result = run(grid.main, f"{SMALL} -v 3 -gnuplot null d")
    assert result.code == 0
    lines = result.out.splitlines()
    assert len(lines) == 7
    number = r"-?[\d.]+(?:e-\d+)?"
    pattern = rf"\[local\] ({number}) ({number}) ({number}) \(best c={number}, g={number}, rate={number}\)"
    points = [re.fullmatch(pattern, line).groups() for line in lines[:-1]]
    assert {(float(c), float(g)) for c, g, _ in points} == {(c, g) for c in (-1, 1, 3) for g in (-1, -3)}
    best = max(float(rate) for _, _, rate in points)
    c, g, rate = map(float, lines[-1].split())  # as easy.py reads it
    assert rate == best
    head, *rows = Path("d.out").read_text().splitlines()
    assert head.startswith("# odm-grid data=") and "machine=odm kernel=rbf folds=3" in head
    assert rows == [f"log2c={c} log2g={g} rate={rate}" for c, g, rate in points]
    assert files() == ["d", "d.out"]
    assert "60 rows" in result.err and "log2(gamma) downwards" in result.err
    # the same folds as odm-train -v
    single = tools.train(f"-q -v 3 -c {c} -g {g} d")
    assert float(single.out.split()[-1][:-1]) == pytest.approx(rate, abs=1.7)  # a row is 1.67 %
    exact = run(grid.main, f"-q -e 1e-9 {SMALL} -v 3 -out null -png null d").out.split()
    single = tools.train(f"-q -e 1e-9 -v 3 -c {exact[0]} -g {exact[1]} d")
    assert single.out == f"Cross Validation Accuracy = {exact[2]}%\n"


def test_other_parameters_stand_behind_the_rate(run):
    result = run(grid.main, f"-q {SMALL} -nu 0.2,0.6,0.4 -theta 0,0.2,0.2 -out r -gnuplot null d")
    *_, nu, theta = result.out.split()
    assert nu in ("nu=0.2", "nu=0.6") and theta in ("theta=0.0", "theta=0.2")
    assert len(Path("r").read_text().splitlines()) == 1 + 6 * 4
    linear = run(grid.main, "-q -t linear -log2c 0,2,2 -gnuplot null d")
    assert len(linear.out.split()) == 2
    fixed = run(grid.main, "-q -c 2 -log2g -1,-3,-2 -gnuplot null d")
    assert len(fixed.out.split()) == 2
    machines = [run(grid.main, f"-q -s {name} {SMALL} -gnuplot null d").code for name in range(5)]
    assert machines == [0] * 5


def test_picture_and_report(run):
    pytest.importorskip("matplotlib")
    result = run(grid.main, f"-q {SMALL} --json j d")
    assert files() == ["d", "d.out", "d.png", "j"]
    assert Path("d.png").read_bytes().startswith(b"\x89PNG")
    report = json.loads(Path("j").read_text())
    assert report["machine"] == "odm" and len(report["search"]["points"]) == 6
    best = report["search"]["best"]
    assert result.out == f"{best['C']} {best['gamma']} {best['rate']:g}\n"


def test_best_on_the_edge(run):
    words = "-t linear -log2c -8,-6,2 -v 3 -out null -png null d"
    result = run(grid.main, words)
    assert result.out.splitlines()[-1].startswith("0.015625 ")
    said = "odm-grid: the best C, 0.015625, is the largest that was tried; --extend 3 goes on from there\n"
    assert said in result.err
    assert run(grid.main, f"-q {words}").err == ""
    assert len(run(grid.main, f"--extend 1 {words}").out.splitlines()) == 2 + 1 + 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-log2c 1,2 d", "argument -log2c: expected begin,end,step or null, found '1,2'"),
        ("-log2c 1,5,-1 d", "never gets from 1 to 5 by steps of -1"),
        ("-log2c 1,5,0 d", "never gets"),
        ("-log2c -1,3,2 -c 4 d", "-log2c searches what another option fixes"),
        ("-s svm -nu 0,1,0.5 d", "-nu: machine svm with kernel rbf has no nu"),
        ("-t linear -log2g 1,2,1 d", "-log2g: machine odm with kernel linear has no gamma"),
        ("-nu -1,2,1 d", "nu (-n) must be at least 0, found -1"),
        ("-log2c null -log2g null d", "nothing to search"),
        ("-v 1 d", "at least 2 folds"),
        ("-v 3 --loo d", "two ways to the same end"),
        ("--loo -s svm d", "--loo is for machine odm"),
        ("-out d d", "would replace the input"),
        ("-out - d", "need files of their own"),
        ("-cross 3 d", "expected a number, found 'ross'"),
        ("--fold 3 d", "unknown option '--fold'"),
        ("-q", "required: dataset"),
    ],
)
def test_bad_usage(run, words, message):
    result = run(grid.main, words)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert message.removeprefix("argument ") in result.err
    assert files() == ["d"]


def test_bad_data_and_files(run):
    Path("bad").write_text("1 1:1\n-1 2:x\n")
    for words, message in [
        ("bad", "bad:2:6"),
        ("none", "none: No such file"),
        ("-resume none d", "none: No such file"),
        ("-out no/r d", "no/r: No such file"),
    ]:
        result = run(grid.main, f"-gnuplot null {words}")
        assert (result.code, result.out) == (1, "") and message in result.err, result
    assert files() == ["bad", "d"]


def test_options_of_grid_py_without_meaning_are_said(run):
    result = run(grid.main, f"-q -svmtrain /x/svm-train -gnuplot /x/gnuplot -png null {SMALL} d")
    assert result.code == 0
    assert "-svmtrain /x/svm-train has no meaning here" in result.err
    assert "-gnuplot /x/gnuplot is not used" in result.err


def test_resume(run):
    whole = run(grid.main, f"{SMALL} -gnuplot null d")
    lines = Path("d.out").read_text().splitlines(keepends=True)
    # a file that was cut in the middle of a line: that point is done again
    Path("d.out").write_text("".join(lines[:4]) + lines[4][:12])
    again = run(grid.main, f"{SMALL} -gnuplot null -resume d")
    assert again.code == 0
    assert again.out.count("[resumed]") == 3 and again.out.count("[local]") == 3
    assert sorted(Path("d.out").read_text().splitlines()) == sorted(line.strip() for line in lines)
    assert again.out.splitlines()[-1] == whole.out.splitlines()[-1]
    # from another file
    shutil.copy("d.out", "old")
    third = run(grid.main, f"{SMALL} -gnuplot null -resume old -out new d")
    assert third.out.count("[resumed]") == 6 and Path("new").read_text() == Path("old").read_text()
    # rates of another search
    other = run(grid.main, f"{SMALL} -s svm -gnuplot null -resume old d")
    assert other.code == 1 and "old: belongs to another search: '# odm-grid data=" in other.err
    Path("d").write_text(toy(seed=1))
    assert run(grid.main, f"{SMALL} -gnuplot null -resume old d").code == 1
    Path("old").write_text("log2c=1 log2g=x rate=3\n")
    fault = run(grid.main, f"{SMALL} -gnuplot null -resume old d")
    assert fault.code == 1 and "old:1: expected log2c=..., log2g=..., rate=..., found 'log2g=x'" in fault.err


@pytest.fixture
def svm_grid():
    """Debian's grid.py."""
    path = shutil.which("svm-grid")
    if path is None or shutil.which("svm-train") is None:
        pytest.skip("Debian's libsvm-tools is not installed")

    def grid_py(options: str) -> list[str]:
        words = f"-svmtrain {shutil.which('svm-train')} -gnuplot null {options} d".split()
        done = subprocess.run(
            [sys.executable, path, *words], capture_output=True, text=True, timeout=300, check=True
        )
        return done.stdout.splitlines()

    return grid_py


def test_files_go_to_grid_py_and_back(run, svm_grid):
    ours = run(grid.main, f"-s svm {SMALL} -gnuplot null d")
    resumed = svm_grid(f"{SMALL} -out null -resume d.out")
    assert sum(line.startswith("[resumed]") for line in resumed) == 6
    assert list(map(float, resumed[-1].split())) == list(map(float, ours.out.splitlines()[-1].split()))
    # and theirs to us
    theirs = svm_grid(f"{SMALL} -out theirs")
    back = run(grid.main, f"-s svm {SMALL} -gnuplot null -resume theirs -out null d")
    assert back.out.count("[resumed]") == 6
    assert "does not say what its rates belong to" in back.err
    assert list(map(float, back.out.splitlines()[-1].split())) == list(map(float, theirs[-1].split()))
    # the same lines, but for the numbers
    shape = re.compile(r"-?\d+(\.\d+)?(e-\d+)?")
    assert {shape.sub("N", line) for line in theirs} == {
        shape.sub("N", line) for line in ours.out.splitlines()
    }


# 40,000 points: however fast the machine is, it works when the signal comes
LONG = ["-e", "1e-6", "-log2c", "-5,15,0.1", "-log2g", "3,-17,-0.1", "-gnuplot", "null"]


def test_interruption_keeps_the_best(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    rows = random.normal(size=(900, 8)).round(3)
    Path("d").write_text(
        "".join(
            f"{random.choice([1, -1])}" + "".join(f" {j}:{v}" for j, v in enumerate(row, 1)) + "\n"
            for row in rows
        )
    )
    for number, code, word in [(signal.SIGINT, 130, b"interrupted"), (signal.SIGTERM, 143, b"terminated")]:
        with start("grid", *LONG, "d") as process:
            assert process.stdout is not None
            seen = [process.stdout.readline() for _ in range(5)]
            assert seen[-1].startswith(b"[local]")
            process.send_signal(number)
            out, err = process.communicate(timeout=300)
        assert process.returncode == code and word in err and b"Traceback" not in err
        lines = [line.decode() for line in seen] + out.decode().splitlines(keepends=True)
        rates = [float(line.split()[3]) for line in lines[:-1]]
        assert len(lines[-1].split()) == 3 and float(lines[-1].split()[2]) == max(rates)
        text = Path("d.out").read_text()
        assert text.endswith("\n") and text.count("rate=") == len(rates)
        assert files() == ["d", "d.out"]
    with start("grid", *LONG, "-resume", "d") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"[resumed]")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
    assert Path("d.out").read_text().startswith(text)


def test_time_limit(run):
    Path("large").write_text(toy(3000))
    result = run(grid.main, "-q --time-limit 0.01 -gnuplot null large")
    assert result.code == 1 and "time limit (--time-limit) was reached before the first point" in result.err


def test_pipe(run, tools):
    result = tools._run(grid.main, (f"-q {SMALL} -gnuplot null -",), Path("d").read_bytes())
    assert result.code == 0 and files() == ["d", "stdin.out"]


def test_train_search(run, tools):
    result = tools.train("-C -t linear -v 3 d")
    lines = result.out.splitlines()
    assert lines[0] == "Doing parameter search with 3-fold cross validation."
    assert lines[1].startswith("log2c= -10.00\trate=") and len(lines) == 23
    match = re.fullmatch(r"Best C = ([\d.]+)  CV accuracy = ([\d.]+)%", lines[-1])
    assert match and files() == ["d"]
    assert match[2] == f"{max(float(line.rpartition('=')[2]) for line in lines[1:-1]):g}"
    # a model is written where one is named
    result = tools.train("-q -C -p 0.1 d m --json j")
    match = re.fullmatch(r"Best C = ([\d.]+)  gamma = ([\d.e-]+)  CV accuracy = ([\d.]+)%\n", result.out)
    model = load_model("m")
    assert model.parameters["C"] == float(match[1]) and model.parameters["theta"] == 0.1
    assert model.parameters["gamma"] == pytest.approx(float(match[2]), rel=1e-9)
    assert len(json.loads(Path("j").read_text())["search"]["points"]) == 45
    loo = tools.train("-q -C --loo -g 0.5 d")
    assert loo.code == 0 and loo.out.startswith("Best C = ")
    for words, message in [
        ("-C -c 1 -g 1 d", "nothing to search"),
        ("-C --margins x d", "only if a model file is named"),
        ("-C --report x d", "only if a model file is named"),
        ("-C -s 5 --assigned x d", "only if a model file is named"),
    ]:
        wrong = tools.train(words)
        assert wrong.code == 2 and message in wrong.err


def test_easy(run, tools):
    result = run(easy.main, f"-log2c -1,3,2 -log2g -3,-5,-2 {WDBC} {WDBC_TEST}")
    assert result.code == 0
    assert set(files()) - {"wdbc.train.txt.scale.png"} == {
        "d",
        "wdbc.train.txt.scale",
        "wdbc.train.txt.range",
        "wdbc.train.txt.model",
        "wdbc.train.txt.scale.out",
        "wdbc.test.txt.scale",
        "wdbc.test.txt.predict",
    }
    lines = result.out.splitlines()
    accuracy = re.fullmatch(r"Accuracy = ([\d.]+)% \(\d+/171\) \(classification\)", lines[-2])
    assert float(accuracy[1]) > 93
    # the commands that it prints do the same
    before = {name: Path(name).read_bytes() for name in files() if not name.endswith(".png")}
    commands = [line[2:] for line in lines if line.startswith("$ ")]
    assert [command.split()[0] for command in commands] == [
        "odm-scale",
        "odm-grid",
        "odm-train",
        "odm-scale",
        "odm-predict",
    ]
    for name in files():
        if name != "d":
            Path(name).unlink()
    path = f"{ROOT / 'bin'}:{environment()['PATH']}"
    for command in commands:
        subprocess.run(["sh", "-c", command], env=environment(PATH=path), check=True, capture_output=True)
    assert {name: Path(name).read_bytes() for name in before} == before


def test_easy_on_sparse_data(run):
    random = np.random.default_rng(0)
    lines = []
    for k in range(60):
        words = np.unique(random.integers(2, 6000, size=20))
        lines.append(f"{k % 2} 1:{1 + 9 * (k % 2)} " + " ".join(f"{word}:{k % 7 + 1}" for word in words))
    Path("text").write_text("\n".join(lines))
    Path("new").write_text("\n".join(lines[:9]))
    result = run(easy.main, "-v 3 text new")
    assert result.code == 0
    assert "$ odm-scale --norm l2 new > new.scale\n" in result.out
    assert len(Path("new.predict").read_text().splitlines()) == 9
    assert "The data are sparse: --norm l2 -t linear -log2c -5,3,2 --extend 2\n" in result.out
    assert "$ odm-scale --norm l2 text > text.scale\n" in result.out
    assert load_model("text.model").formula.name == "linear" and "text.range" not in files()
    # what is given stays; few features keep their zeros
    given = run(easy.main, "-u 2 -t rbf -v 3 -log2c 0,0,1 -log2g 0,0,1 text")
    assert "$ odm-scale -u 2 -s text.range text > text.scale\n" in given.out and "sparse" not in given.out
    Path("few").write_text("".join(f"{k % 2} {k % 4 + 1}:{k}\n" for k in range(1, 41)))
    few = run(easy.main, "-v 3 -log2c 0,0,1 -log2g 0,0,1 few")
    assert "The data are sparse: -l 0\n" in few.out and "$ odm-scale -l 0 -s few.range few" in few.out
    assert Path("few.range").read_text().splitlines()[1] == "0 1"
    quiet = run(easy.main, "-q -v 3 -log2c 0,0,1 -log2g 0,0,1 few")
    assert len(quiet.out.splitlines()) == 1 and quiet.err == ""


def test_easy_passes_options_on_and_refuses(run):
    result = run(easy.main, "-s svm -t linear -w1 2 --threads=2 -log2c 0,2,2 d")
    assert result.code == 0
    assert "$ odm-grid -s svm -t linear -w 1 2 --threads 2 -log2c 0,2,2 d.scale" in result.out
    assert re.search(
        r"\$ odm-train -q -s svm -t linear -w 1 2 --threads 2 -c [\d.]+ d.scale d.model", result.out
    )
    model = load_model("d.model")
    assert (model.machine, model.formula.name) == ("svm", "linear")
    for words, code, message in [
        ("none", 1, "none: No such file"),
        ("d none", 1, "none: No such file"),
        ("-", 2, "cannot be standard input"),
        ("-t 4 d", 2, "cannot be scaled"),
        ("d ./d", 2, "both files are named d"),
    ]:
        wrong = run(easy.main, words)
        assert wrong.code == code and message in wrong.err
