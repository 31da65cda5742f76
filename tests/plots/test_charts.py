"""Charts: their numbers against plain computations, and each way of drawing them."""

from __future__ import annotations

import builtins
import io
import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import odmlib
from odmlib.plots.chart import Axis, Chart, Series
from odmlib.plots.figures import (
    MOST_POINTS,
    accuracy_curve,
    by_class,
    convergence,
    cumulative,
    level_charts,
    margin_distribution,
    margin_histograms,
)
from odmlib.plots.picture import save_picture
from odmlib.plots.svg import svg_document, svg_element
from odmlib.plots.text import text_chart
from odmlib.solvers.control import Progress
from odmlib.solvers.trace import Trace

RANDOM = np.random.default_rng(0)
MARGINS = {"a": RANDOM.normal(0.5, 1, 300), "b <&>": RANDOM.normal(1, 0.2, 5000)}


def test_margin_distribution():
    chart = margin_distribution(MARGINS)
    for series, values in zip(chart.series, MARGINS.values(), strict=True):
        assert len(series.x) <= MOST_POINTS + 1 and series.y[0] == 0 and series.y[-1] == 1
        for x, y in zip(series.x[1:], series.y[1:], strict=True):
            assert y == pytest.approx(np.mean(values <= x), abs=1e-12)
    assert [series.name for series in chart.series] == ["a", "b <&>"]
    relative = margin_distribution({"a": MARGINS["a"], "twice": 2 * MARGINS["a"]}, relative=True)
    np.testing.assert_allclose(relative.series[0].x, relative.series[1].x)


def test_histograms_share_their_edges_and_lose_no_row():
    charts = margin_histograms(MARGINS, bins=20)
    edges = charts[0].series[0].x
    assert edges == charts[1].series[0].x
    assert min(abs(edge) for edge in edges) < 1e-12  # no bar mixes right and wrong
    for chart, values in zip(charts, MARGINS.values(), strict=True):
        assert sum(chart.series[0].y) == len(values)
        right = sum(n for n, low in zip(chart.series[0].y, edges, strict=False) if low > -1e-12)
        assert right == np.sum(values >= 0)
    parts = by_class(MARGINS["a"], [1, 2, 2] * 100)
    assert {name: len(values) for name, values in parts.items()} == {"class 1": 100, "class 2": 200}
    with pytest.raises(odmlib.ParameterError, match="no margins"):
        margin_histograms({"none": np.array([])})


def test_accuracy_axis_ends_at_100():
    X = np.array([[-1.0], [-2.0], [-3.0], [1.0], [2.0], [3.0]])
    chart = accuracy_curve(X, np.sign(X[:, 0]), "C", [1, 2], folds=3, kernel="linear")
    assert chart.series[0].y == [100.0, 100.0] and chart.y_range == (95.0, 100.0)


def test_accuracy_curve_is_cross_validation():
    from odmlib.data.problem import Problem
    from odmlib.options import TrainOptions
    from odmlib.selection.cross_validation import cross_validate

    X, y = RANDOM.normal(size=(60, 3)), RANDOM.integers(0, 2, 60)
    chart = accuracy_curve(X, y, "lambda_", [1, 100], folds=3, kernel="linear")
    wanted = [
        100 * cross_validate(Problem.from_arrays(X, y), TrainOptions(kernel="linear", lambda_=v), 3).accuracy
        for v in (1.0, 100.0)
    ]
    assert chart.series[0].y == wanted and chart.x_log
    with pytest.raises(odmlib.ParameterError, match="no values"):
        accuracy_curve(X, y, "C", [])


def test_trace_and_convergence():
    X, y = RANDOM.normal(size=(200, 5)), RANDOM.integers(0, 2, 200)
    heard = []
    trace = Trace(heard.append)
    model = odmlib.train(X, y, callback=trace)
    points = trace.points()
    assert len(points) == len(heard) and points[-1]["gap"] == heard[-1].gap
    assert points[-1]["gap"] <= 1e-3 and "task" not in points[0]
    chart = convergence({"run": {"trace": points, "parameters": {"tol": 1e-3}}})
    assert chart.series[0].y[-1] == points[-1]["gap"] and chart.y_log
    assert points[-1]["gap"] <= model.report["gap"] <= 1e-3  # which adds bounds on rounding
    assert chart.title == "convergence (wanted 0.001)"
    with pytest.raises(odmlib.ParameterError, match="run: the report holds no trace"):
        convergence({"run": {}})


def test_long_traces_are_thinned_evenly_and_keep_the_last():
    trace = Trace()
    for i in range(100_000):
        trace(Progress(i, 1.0, 1.0 / (i + 1), i / 1000))
    points = trace.points()
    assert 200 < len(points) < 600
    assert points[0]["iteration"] == 0 and points[-1]["iteration"] == 99_999
    steps = np.diff([point["iteration"] for point in points])[:-1]
    assert steps.max() <= 2 * steps.min()


def test_convergence_of_tasks():
    points = [
        {
            "task": task,
            "seconds": 0.1 * i + 0.01 * task,
            "gap": 1.0 / (i + task),
            "iteration": i,
            "primal": 1.0,
        }
        for i in range(5)
        for task in (1, 2, 3)
    ]
    assert [series.name for series in convergence({"r": {"trace": points}}).series] == [
        "task 1",
        "task 2",
        "task 3",
    ]
    many = [point | {"task": task} for task in range(1, 20) for point in points[:2]]
    several = convergence({"r": {"trace": many}, "s": {"trace": many}})
    assert [series.name for series in several.series] == (["r, 19 tasks"] + [""] * 18) + (
        ["s, 19 tasks"] + [""] * 18
    )
    assert [place for place, _ in several.numbered()] == [0] * 19 + [1] * 19
    one = convergence({"r": {"trace": many}})
    assert len(one.series) == 19 and one.title == "convergence of 19 tasks"
    crowd = [point | {"task": task} for task in range(1, 100) for point in points[:2]]
    assert [series.kind for series in convergence({"r": {"trace": crowd}}).series] == ["points"]


def test_levels():
    levels = [
        {"level": 2, "partitions": 4, "gap": 0.5, "seconds": 1.0, "accuracy": 0.9},
        {"level": 1, "partitions": 2, "gap": 0.05, "seconds": 0.25, "accuracy": None},
    ]
    gap, accuracy = level_charts({"levels": levels})
    assert gap.series[0].x == [1.0, 1.25]  # when each level ended, not how long it took
    assert gap.series[0].y == [0.5, 0.05] and accuracy.series[0].y == [90.0]
    assert level_charts({"details": {"levels": levels}})[0].data() == gap.data()
    tasks = level_charts({"tasks": [{"levels": levels}, {}, {"levels": levels}]})
    assert [series.name for series in tasks[0].series] == ["task 1", "task 3"]
    with pytest.raises(odmlib.ParameterError, match="no levels"):
        level_charts({"details": {}}, "r")


@given(
    st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=5),
    st.booleans(),
)
def test_axes_hold_their_values(values, log):
    axis = Axis.over(values, log)
    assert 2 <= len(axis.ticks) <= 10 and axis.ticks == sorted(axis.ticks)
    for value in values:
        if value >= 1e-300 or not log:
            assert -1e-6 <= axis.place(value) <= 1 + 1e-6
        else:
            assert math.isnan(axis.place(value))


def charts() -> list[Chart]:
    return [
        margin_distribution(MARGINS),
        *margin_histograms(MARGINS),
        Chart(
            "log",
            "x",
            "y",
            [Series("s", [1, 10, 100], [1e-9, 1.0, 0.0]), Series("t", [1], [2], "points")],
            True,
            True,
        ),
        Chart("nothing", "x", "y", [Series("", [], [])]),
    ]


def test_svg_is_xml_with_every_curve():
    root = ElementTree.fromstring(svg_document(charts()))
    space = "{http://www.w3.org/2000/svg}"
    words = [text.text for text in root.iter(f"{space}text")]
    assert "b <&>" in words and "cumulative margin distribution" in words
    assert len(list(root.iter(f"{space}rect"))) > 20
    assert "nan" not in svg_document(charts())
    for chart in charts():
        ElementTree.fromstring(svg_element(chart))


@pytest.mark.parametrize("width", [40, 79, 200])
def test_text_keeps_its_width(width):
    for chart in charts():
        text = text_chart(chart, width)
        assert text.splitlines()[0] == chart.title
        assert max(map(len, text.splitlines()[1:])) <= width


def test_text_shows_the_curve():
    lines = text_chart(Chart("t", "x", "y", [Series("", [0.0, 1.0], [0.0, 1.0])]), 50).splitlines()
    grid = [line.partition("|")[2] for line in lines if "|" in line]
    places = [row.index("*") for row in grid]
    assert places == sorted(places, reverse=True) and len(places) == 16


@pytest.mark.parametrize(("name", "start"), [("p.png", b"\x89PNG"), ("p.pdf", b"%PDF"), ("p.svg", b"<?xml")])
def test_pictures(tmp_path, name, start):
    if not name.endswith("svg"):
        pytest.importorskip("matplotlib")
    for again in range(2):
        save_picture(charts()[:2], str(tmp_path / f"{again}{name}"))
    content = (tmp_path / f"0{name}").read_bytes()
    assert content.startswith(start) and content == (tmp_path / f"1{name}").read_bytes()


def test_a_picture_without_matplotlib(tmp_path, monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest, **more):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(odmlib.OdmError, match=r"needs matplotlib .* \.svg and text do without"):
        save_picture(charts(), str(tmp_path / "p.png"))
    save_picture(charts(), str(tmp_path / "p.svg"))
    with pytest.raises(odmlib.ParameterError, match=r"must end in \.png"):
        save_picture(charts(), str(tmp_path / "p.gif"))


def test_cumulative_of_one():
    assert [part.tolist() for part in cumulative(np.array([3.0]))] == [[3.0], [1.0]]
    assert io.StringIO(text_chart(margin_distribution({"one": np.array([3.0])}))).readline() != ""
