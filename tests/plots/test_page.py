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
from odmlib.plots.chart import COLOURS
from odmlib.plots.page import QUANTILES, report_page
from odmlib.plots.page_pieces import STYLE, facts, percent
from odmlib.selection.training import train_model
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
    model = train_model(problem, TrainOptions(callback=trace, **options))
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
    assert classes[1][4] == percent(wanted[0][0] / sum(wanted[0]))
    accuracy = percent(np.mean(predicted == problem.codes))
    quality = dict(row[:2] for row in tables[0][1:])
    assert quality["accuracy"] == accuracy and quality["rows"] == "150"
    assert f'<dd class="">{accuracy}</dd>' in page
    linear = options.get("kernel") == "linear"
    pictures = 5 + 2 * linear  # weights, and a run of several steps
    assert page.count("<svg") == page.count("<desc") == pictures and "relative duality gap" in page
    parameters = dict(row for row in tables[-2] if len(row) == 2)
    assert float(parameters["C"]) == 1 and parameters["solver"] == model.report["solver"]
    assert ["rows", "150"] in tables[-1]


def test_training_and_test_rows_and_other_models():
    model, problem, _ = made(probability=True)
    X, y = np.random.default_rng(9).normal(size=(70, 4)), np.array([0, 1] * 35)
    y[0] = 5  # which the model does not know
    found = model.evaluate(X, y)
    page = "".join(report_page(model, problem, "a.txt", test=("b.txt", found)))
    quality = parsed(page).tables[0]
    assert quality[0] == ["", "training rows", "test rows"] and quality[1] == ["rows", "150", "70"]
    assert quality[3][2] == percent(found.accuracy)
    assert "1 test rows have labels that were not trained" in page and "on b.txt" in page
    assert "calibration of class 1" in page and "from 0.8 to 1.2 cost nothing" in page
    other = train_model(problem, TrainOptions(machine="svm", probability=True)).evaluate(X, y)
    both = parsed("".join(report_page(model, problem, "a.txt", test=("b.txt", found), others={"svm": other})))
    assert both.tables[0][0] == ["", "this model", "svm"]
    assert both.tables[0][3] == ["accuracy", percent(found.accuracy), percent(other.accuracy)]
    assert both.tables[1][0] == ["", "training rows", "test rows"]


def test_quantiles_of_training_and_test_rows_stand_side_by_side():
    model, problem, _ = made()
    X = np.random.default_rng(9).normal(size=(71, 4))
    found = model.evaluate(X, np.arange(71) % 2)
    tables = parsed("".join(report_page(model, problem, "a.txt", test=("b.txt", found)))).tables
    (quantiles,) = (one for one in tables if len(one) > 1 and one[1][0] == "minimum")
    assert quantiles[0] == ["", "training rows", "test rows"]
    assert [line[0] for line in quantiles[1:]] == [*QUANTILES, "mean"]
    assert float(quantiles[4][2]) == pytest.approx(np.median(found.margins), rel=1e-3)


def test_a_run_of_few_steps_has_no_curve():
    """Two points on a line say less than the gap itself."""
    model, problem, page = made()
    assert "relative gap" in page
    steps = [{"task": 1, "iteration": k, "seconds": k / 10, "gap": 10.0**-k} for k in range(3)]
    for n_steps in (2, 3):
        model.report["trace"] = steps[:n_steps]
        page = "".join(report_page(model, problem, "a.txt"))
        assert ("convergence (wanted" in page) == (n_steps == 3)


@pytest.mark.parametrize(("n_facts", "columns"), [(6, 6), (7, 4), (8, 4), (10, 5), (15, 5)])
def test_no_line_of_the_headline_has_a_single_box(n_facts, columns):
    assert f"--columns: {columns}" in facts([("name", "value", "")] * n_facts)


def test_the_labels_of_novelty_detection_are_explained():
    X = np.random.default_rng(3).normal(size=(80, 2))
    problem = Problem.of_one_class(X)
    model = train_model(problem, TrainOptions(machine="odmo"))
    found = model.evaluate(np.vstack([X[:10], X[:10] + 9]), np.repeat([1, -1], 10))
    page = "".join(report_page(model, problem, "a.txt", test=("b.txt", found)))
    assert "rows with the label -1 are novelties" in page
    quality = {line[0]: line[1] for line in parsed(page).tables[0]}
    # of the labels that the training rows have
    assert float(quality["mean F1 of the classes"].split()[0]) > 90


def test_nothing_comes_from_elsewhere():
    _, _, page = made(name="<script>alert(1)</script>&.txt")
    assert "<script" not in page and "&lt;script&gt;" in page
    assert not re.search(r"(src|url\(|@import|https?:)", page)
    assert set(re.findall(r'href="(.)', page)) == {"#"}
    assert page.startswith("<!DOCTYPE html>") and 'name="viewport"' in page


def test_many_classes_get_a_list():
    _, _, page = made(40, n=400, kernel="linear", machine="odm")
    tables = parsed(page).tables
    assert any(table[0] == ["label", "predicted", "rows", "of the label"] for table in tables)
    assert len(page) < 600_000


def test_rows_without_label_and_a_model_that_was_loaded():
    import dataclasses

    model, problem, _ = made()
    problem.codes[:30] = -1
    model = dataclasses.replace(model, training_margins=None)
    page = "".join(report_page(model, problem, "mixed"))
    assert ["rows", "150, 30 of them unlabeled"] in parsed(page).tables[-1]
    assert "training rows: 120 rows" in page


def test_labels_that_are_words():
    problem = Problem.from_arrays(np.array([[1.0], [2.0], [-1.0], [-2.0]]), ["<yes>", "<yes>", "no", "no"])
    model = train_problem(problem, TrainOptions())
    page = "".join(report_page(model, problem, "words"))
    assert "&lt;yes&gt;" in page and "<yes>" not in page
    parsed(page)


def titled(page: Path, folder: Path) -> str:
    """The title that a script on the page gives it, in a browser without a network."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=20000", "--window-size=1400,3200",
        "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("chromium does not answer here")
    found = re.search(r"<title>(.*?)</title>", result.stdout)
    if found is None:
        pytest.skip(f"chromium does not work here: {result.stderr[-200:]}")
    return html.unescape(found.group(1))


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("n_classes", [2, 14])
def test_accessible(tmp_path, n_classes, dark):
    """Axe, the checker of many browsers' tools, finds nothing: contrast, names, landmarks, tables ..."""
    axe_package = pytest.importorskip("axe_core_python")
    axe = next(Path(axe_package.__file__).parent.rglob("axe.min.js")).read_text()
    _, _, page = made(n_classes, n=300, kernel="linear", probability=True)
    if dark:
        page = page.replace("@media (prefers-color-scheme: dark)", "@media all")
    script = (
        f"<script>{axe}</script><script>axe.run(document, {{resultTypes: ['violations']}}).then(r => {{"
        "document.title = 'axe: ' + r.passes.length + ' passes; ' + r.violations.map("
        "v => v.id + ' ' + v.nodes[0].html.slice(0, 150)).join(' | ') + '.' })</script>"
    )
    path = tmp_path / "page.html"
    path.write_text(page.replace("</body>", f"{script}</body>"))
    title = titled(path, tmp_path)
    assert re.fullmatch(r"axe: [1-9]\d* passes; \.", title), title


@pytest.mark.parametrize("width", [390, 1200])
def test_no_wider_than_the_window(tmp_path, width):
    """In a real browser: the page never scrolls sideways, its wide tables do; text on charts is readable."""
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
    title = titled(frame, tmp_path)
    found = re.search(r"found (\S+) (\S+) (\S+) (\S+)", title)
    assert found is not None, title
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
    err = capsys.readouterr().err
    assert train.main(["-q", "--test", iris, "--compare", "m", "--report", "page.html", iris, "m3"]) == 0
    assert re.fullmatch(r"Accuracy = \S+% \(\d+/150\) on iris.txt\n", capsys.readouterr().out)
    assert parsed(Path("page.html").read_text()).tables[0][0] == ["", "this model", "m"]
    before = Path("page.html").read_bytes()
    assert train.main(["-q", "--compare", "m", iris, "m2"]) == 2
    assert train.main(["-q", "--test", "none", "--report", "page.html", iris, "m2"]) == 1
    assert train.main(["-q", "--compare", "none", "--report", "page.html", iris, "m2"]) == 1
    assert train.main(["-q", "-v", "3", "--test", iris, iris]) == 2
    assert before == Path("page.html").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "m3", "page.html"]
    err += capsys.readouterr().err
    assert err.count("\n") == 8 and "--report is about a model; -v makes none" in err


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
    assert "100 %" in Path("p.html").read_text()


def test_points_have_the_colour_of_their_legend_in_the_dark():
    dark = STYLE.partition("prefers-color-scheme: dark")[2]
    assert f':is(.key, circle)[fill="{COLOURS[0]}"]' in dark
