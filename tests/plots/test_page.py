"""The HTML report: whole, self-contained, true to the model, and no wider than a phone."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from odmlib.data.problem import Problem
from odmlib.machines.training import train_problem
from odmlib.options import TrainOptions
from odmlib.plots.page import report_page
from odmlib.solvers.trace import Trace

VOID = {"meta"}


class Balanced(HTMLParser):
    """Every element that opens closes, in order; gathers tables as lists of rows of text."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.tables: list[list[list[str]]] = []

    def handle_starttag(self, tag, attributes):
        if tag in VOID:
            return
        self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data


def made(n_classes: int = 2, name: str = "data.txt", n: int = 150, **options):
    random = np.random.default_rng(n_classes)
    X = random.normal(size=(n, 4))
    edges = np.linspace(-1, 1, n_classes + 1)[1:-1]
    y = np.digitize(X[:, 0] + 0.3 * random.normal(size=n), edges)
    problem = Problem.from_arrays(X, y)
    trace = Trace()
    model = train_problem(problem, TrainOptions(callback=trace, **options))
    model.report["trace"] = trace.points()
    return model, problem, "".join(report_page(model, problem, name, "odm-train data.txt"))


def parsed(page: str) -> Balanced:
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    return parser


@pytest.mark.parametrize("options", [{}, {"kernel": "linear"}, {"machine": "mcodm", "kernel": "linear"}])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_page_says_what_the_model_does(n_classes, options):
    model, problem, page = made(n_classes, **options)
    tables = parsed(page).tables
    predicted = model.positions(problem.rows)
    order = np.argsort(model.labels)
    wanted = [[int(((problem.codes == i) & (predicted == j)).sum()) for j in order] for i in order]
    names = [str(int(label)) for label in sorted(model.labels)]
    matrix = next(table for table in tables if table[0] == ["", *names])
    assert [[int(cell) for cell in row[1:]] for row in matrix[1:]] == wanted
    classes = next(table for table in tables if table[0][:2] == ["label", "rows"])
    recall = 100 * wanted[0][0] / sum(wanted[0])
    assert classes[1][4] == f"{recall:.4g}%"
    assert f"{100 * np.mean(predicted == problem.codes):.4g}%" in page
    assert page.count("<svg") == 3 and "relative duality gap" in page
    assert ["rows", "150"] in tables[0]
    parameters = dict(row for row in tables[1] if len(row) == 2)
    assert float(parameters["C"]) == 1 and parameters["solver"] == model.report["solver"]


def test_nothing_comes_from_elsewhere():
    _, _, page = made(name="<script>alert(1)</script>&.txt")
    assert "<script" not in page and "&lt;script&gt;" in page
    assert not re.search(r"(src|href|url\(|@import|https?:)", page)
    assert page.startswith("<!DOCTYPE html>") and 'name="viewport"' in page


def test_many_classes_get_a_list():
    _, _, page = made(40, n=400, kernel="linear", machine="odm")
    tables = parsed(page).tables
    assert any(table[0] == ["label", "predicted", "rows"] for table in tables)
    assert len(page) < 200_000


def test_rows_without_label_and_a_model_that_was_loaded():
    import dataclasses

    model, problem, _ = made()
    problem.codes[:30] = -1
    model = dataclasses.replace(model, training_margins=None)
    page = "".join(report_page(model, problem, "mixed"))
    assert ["rows", "150, 30 of them unlabeled"] in parsed(page).tables[0]
    assert "margins: 120 rows" in page


def test_labels_that_are_words():
    problem = Problem.from_arrays(np.array([[1.0], [2.0], [-1.0], [-2.0]]), ["<yes>", "<yes>", "no", "no"])
    model = train_problem(problem, TrainOptions())
    page = "".join(report_page(model, problem, "words"))
    assert "&lt;yes&gt;" in page and "<yes>" not in page
    parsed(page)


@pytest.mark.parametrize("width", [390, 1200])
def test_no_wider_than_the_window(tmp_path, width):
    """In a real browser: the page never scrolls sideways, its wide tables do; text on charts is readable."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    _, _, page = made(25, n=300, kernel="linear", machine="odm", name="a-very-long-name-without-blanks" * 3)
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<iframe srcdoc="{html.escape(page)}" width="{width}" height="3000"></iframe><script>'
        "onload = () => { const d = document.querySelector('iframe').contentDocument;"
        "const s = [...d.querySelectorAll('.scroll')];"
        "document.title = ['found', d.documentElement.scrollWidth, d.documentElement.clientWidth,"
        "Math.max(...s.map(e => e.scrollWidth - e.clientWidth)),"
        "d.querySelector('svg').getBoundingClientRect().width / 440 * 13].join(' ') }</script>"
    )
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=5000", "--window-size=1400,3200", "--dump-dom", frame.as_uri(),
    ]  # fmt: skip
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("chromium does not answer here")
    found = re.search(r"<title>found (\S+) (\S+) (\S+) (\S+)</title>", result.stdout)
    if found is None:
        pytest.skip(f"chromium does not work here: {result.stderr[-200:]}")
    inner, window, scrolled, letters = map(float, found.groups())
    assert inner <= window <= width
    assert letters >= 9.5
    if width == 390:
        assert scrolled > 0


def test_page_of_odm_train(tmp_path, monkeypatch, capsys):
    from odmlib.cli import train
    from tests.cli.tools import ROOT

    monkeypatch.chdir(tmp_path)
    iris = str(ROOT / "data" / "iris.txt")
    assert train.main(["-q", "--report", "page.html", iris, "m"]) == 0
    assert parsed(Path("page.html").read_text()).tables
    assert train.main(["-q", "--report", "-", iris, "m"]) == 0
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")
    assert train.main(["-q", "--report", "-", iris, "-"]) == 2
    assert train.main(["-q", "-v", "3", "--report", "p", iris]) == 2
    assert train.main(["-q", "--report", "none/page.html", iris, "m2"]) == 1
    assert train.main(["-q", "--report", iris, iris, "m2"]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "page.html"]
    err = capsys.readouterr().err
    assert err.count("\n") == 4 and "--report is about a model; -v makes none" in err


def test_page_of_a_precomputed_kernel(tmp_path, monkeypatch):
    from odmlib.cli import train

    monkeypatch.chdir(tmp_path)
    values = [1.0, 2.0, -1.5, -1.0]
    Path("k").write_text(
        "".join(
            f"{1 if x > 0 else -1} 0:{i} "
            + " ".join(f"{j}:{x * z:g}" for j, z in enumerate(values, 1))
            + "\n"
            for i, x in enumerate(values, 1)
        )
    )
    assert train.main(["-q", "-t", "4", "--report", "p.html", "k", "m"]) == 0
    assert "100%" in Path("p.html").read_text()
