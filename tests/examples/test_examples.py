"""The scripts in examples/ run, in small sizes, and leave pictures with something on them."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import odmlib

FOLDER = Path(__file__).resolve().parent.parent.parent / "examples"
SCRIPTS = sorted(path.name for path in FOLDER.glob("[a-z]*.py"))
PICTURES = [name for name in SCRIPTS if "_figure.run" in (FOLDER / name).read_text()]


def run_script(name, arguments, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    return runpy.run_path(str(FOLDER / name), run_name="__main__")


def test_there_is_a_gallery():
    assert len(PICTURES) >= 6
    assert set(SCRIPTS) - set(PICTURES) == {"compare_with_svc.py", "mlflow_pyfunc.py", "pictures.py"}
    described = (FOLDER / "README.md").read_text()
    for name in SCRIPTS:
        assert f"`{name}`" in described


@pytest.mark.parametrize("name", PICTURES)
def test_pictures(name, tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    try:
        run_script(name, ["--quick", "--output", tmp_path / "picture.png"], monkeypatch)
    finally:
        pyplot.close("all")
    assert capsys.readouterr().out.endswith("picture.png\n")
    picture = pyplot.imread(tmp_path / "picture.png")
    assert min(picture.shape[:2]) >= 300
    assert picture[..., :3].std() > 0.05


def test_pictures_of_the_manual(tmp_path, monkeypatch):
    """The script draws all pictures of the gallery, and the manual has no picture that no page shows."""
    pytest.importorskip("matplotlib")
    docs = FOLDER.parent / "docs"
    run_script("pictures.py", [tmp_path], monkeypatch)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert set(re.findall(r"pictures/(\w+\.png)", (docs / "gallery.md").read_text())) == drawn
    shown = {
        name
        for page in docs.rglob("*.md")
        for name in re.findall(r"pictures/([\w-]+\.(?:png|svg))", page.read_text())
    }
    assert {path.name for path in (docs / "pictures").iterdir()} == shown


def test_comparison_with_svc(monkeypatch, capsys, tmp_path):
    pytest.importorskip("sklearn")
    names = run_script("compare_with_svc.py", ["--repeat", "1", "--rows", "300"], monkeypatch)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["set", "digits", "wdbc", "wine"]
    found = names["main"](["--rows", "150", "--repeat", "1", str(FOLDER.parent / "data" / "iris.txt")])
    assert found[0][0] == "iris.txt"
    assert found[0][2] > 90


@pytest.mark.parametrize("given", [False, True])
def test_mlflow(tmp_path, given):
    """In a process of its own, because mlflow changes logging for good."""
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    arguments = [tmp_path / "model"]
    if given:
        X, y = odmlib.read_data(FOLDER.parent / "data" / "wdbc.txt")
        odmlib.train(X, y, kernel="linear", C=1e-6).save(tmp_path / "file")
        arguments.append(tmp_path / "file")
    command = [sys.executable, FOLDER / "mlflow_pyfunc.py", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert f"an MLflow model of {30 if given else 4} features; 5 rows are " in done.stdout


@pytest.mark.slow
def test_the_stated_comparison_holds(monkeypatch):
    """docs/measured.md: more accurate and faster than SVC with default parameters on three real sets."""
    pytest.importorskip("sklearn")
    from tests.real_data import FOLDER as REAL_DATA
    from tests.real_data import real_path

    sets = ["covtype.binary.5k", "dna.scale", "letter"]
    for name in sets:
        real_path(name)
    main = runpy.run_path(str(FOLDER / "compare_with_svc.py"))["main"]
    found = main(
        [str(REAL_DATA), "--rows", "5000", "--repeat", "1", "--jobs", "1", "--processor", "--names", *sets]
    )
    assert [name for name, *_ in found] == sets
    for _, theirs, ours, ratio in found:
        assert ours > theirs
        assert ratio < 1
