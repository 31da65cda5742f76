"""The pictures of the papers, as numbers: functions that make charts.

A chart's `data()` are its numbers; plots.picture.save_picture and plots.text.text_chart draw it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.data.labels import python_label
from odmlib.errors import ParameterError
from odmlib.plots.chart import Chart, Series, round_step

if TYPE_CHECKING:
    from odmlib.data.problem import Problem
    from odmlib.options import TrainOptions

MOST_POINTS = 1000  # of a curve: more are not seen
BINS = 24
MOST_NAMED = 8  # tasks that have names and colours of their own
MOST_CURVES = 64  # beyond: a cloud of points
ZERO = [(0.0, "")]


def cumulative(margins: Floats) -> tuple[Floats, Floats]:
    """Ascending margins, and the part of the rows up to each.

    >>> [values.tolist() for values in cumulative(np.array([2.0, -1.0, 1.0, 3.0]))]
    [[-1.0, 1.0, 2.0, 3.0], [0.25, 0.5, 0.75, 1.0]]
    """
    values = np.sort(np.asarray(margins, dtype=np.float64))
    return values, np.arange(1, len(values) + 1) / len(values)


def thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """At most MOST_POINTS points of a curve, with its ends."""
    if len(x) <= MOST_POINTS:
        return x, y
    kept = np.unique(np.linspace(0, len(x) - 1, MOST_POINTS).astype(np.int64))
    return x[kept], y[kept]


def margin_distribution(
    margins: Mapping[str, Floats],
    relative: bool = False,
    title: str = "",
    band: tuple[float, float] | None = None,
) -> Chart:
    """Cumulative margin distribution of one or several models: name -> `model.margins(X, y)`; the ODM paper's
    Figure 1.

    relative: each model's margins are divided by their mean size, so that only the shapes are compared.
    band: margins to shade, such as those without loss (inside.band_of).
    """
    series = []
    for name, values in _scaled(margins, relative).items():
        x, y = thinned(*cumulative(values))
        series.append(Series(name, [float(x[0]), *x.tolist()], [0.0, *y.tolist()], "step"))
    title = title or "cumulative margin distribution"
    shaded = _shaded(band, relative)
    return Chart(title, _margin_label(relative), "part of the rows", series, marks=ZERO, bands=shaded)


def margin_histograms(
    margins: Mapping[str, Floats],
    bins: int = BINS,
    relative: bool = False,
    title: str = "",
    band: tuple[float, float] | None = None,
) -> list[Chart]:
    """Histograms of margins on the same intervals, a chart per name; an edge is at 0 (mcODM's Figure 2)."""
    scaled = _scaled(margins, relative)
    low, high = (float(f([f(values) for values in scaled.values()])) for f in (min, max))
    if high - low > 1e300:
        raise ParameterError(f"margins from {low:g} to {high:g} are too far apart to be drawn")
    width = round_step(max(high - low, 1e-9 * max(abs(low), abs(high)), 1e-280) / bins)
    first, last = math.floor(low / width + 1e-9), math.ceil(high / width - 1e-9)
    edges = np.arange(first, max(last, first + 1) + 1) * width
    charts = []
    for name, values in scaled.items():
        counts, _ = np.histogram(values, edges)
        bars = Series(name, edges.tolist(), counts.astype(float).tolist(), "bars")
        wrong = f"{100 * np.mean(values <= 0):.3g}% at or below 0"
        heading = f"{title}{name}: {len(values):,} rows, {wrong}"
        label, shaded = _margin_label(relative), _shaded(band, relative)
        charts.append(Chart(heading, label, "rows", [bars], marks=ZERO, bands=shaded))
    return charts


def _shaded(band: tuple[float, float] | None, relative: bool) -> list[tuple[float, float, str]]:
    """The band, unless margins of several machines are divided by their own sizes."""
    return [] if band is None or relative or band[0] == band[1] else [(*band, "no loss")]


def _margin_label(relative: bool) -> str:
    return "margin / mean size" if relative else "margin"


def by_class(margins: Floats, y: Any) -> dict[str, Floats]:
    """The margins of the rows of each class, by its label."""
    labels = np.asarray(y).ravel()
    return {f"class {python_label(label)}": margins[labels == label] for label in np.unique(labels)}


def _scaled(margins: Mapping[str, Floats], relative: bool) -> dict[str, Floats]:
    result = {}
    for name, values in margins.items():
        values = np.asarray(values, dtype=np.float64)
        if len(values) == 0:
            raise ParameterError(f"{name}: no margins to draw")
        size = float(np.abs(values).mean()) if relative else 1.0
        result[name] = values / size if size > 0 else values
    return result


def accuracy_curve(
    X: Any, y: Any, over: str = "lambda_", values: Sequence[float] = (), folds: int = 5, **options: Any
) -> Chart:
    """Cross-validated accuracy for each value of a number of `train`: lambda_, C, gamma, nu, theta ...

    Error bars are one standard error, from the spread of the folds' accuracies.

    >>> import odmlib
    >>> X, y = odmlib.read_data("data/iris.txt")
    >>> accuracy_curve(X, y, "C", [0.01, 1], kernel="linear").series[0].x
    [0.01, 1.0]
    """
    from odmlib.data.problem import Problem
    from odmlib.machines.training import make_settings

    settings = make_settings(options)
    problem = Problem.from_arrays(X, y, settings.sample_weight, settings.class_weight)
    return accuracy_chart(problem, settings, over, values, folds)


def accuracy_chart(
    problem: Problem, settings: TrainOptions, over: str, values: Sequence[float], folds: int
) -> Chart:
    """`accuracy_curve` for data that are checked already."""
    from odmlib.selection.cross_validation import cross_validate, cross_validate_targets

    if not values:
        raise ParameterError("no values are given to measure the accuracy at")
    points = [with_value(settings, over, value) for value in values]
    name, y_range = over.rstrip("_"), None
    numbers = [float(value) for value in values]
    log = min(numbers) > 0 and max(numbers) / min(numbers) > 20
    if problem.targets is None:
        measure, axis = "accuracy", "accuracy in %"
        found = [cross_validate(problem, point, folds) for point in points]
        heights = [100 * one.accuracy for one in found]
        series = Series("", numbers, heights, errors=[100 * one.standard_error for one in found])
        if max(heights) == min(heights) and not any(series.errors or ()):  # the axis is to end at 100
            y_range = max(0.0, heights[0] - 5), min(100.0, heights[0] + 5)
    else:
        measure = axis = "mean squared error"
        results = [cross_validate_targets(problem, point, folds) for point in points]
        series = Series("", numbers, [one.measures.mean_squared_error for one in results])
    title = f"{folds}-fold {measure} against {name}: {settings.machine}, {settings.kernel} kernel"
    return Chart(title, name, axis, [series], x_log=log, y_range=y_range)


def residual_chart(chart: Chart) -> Chart:
    """A chart of margins, in the words of regression."""
    title, x_label = (text.replace("margin", "residual") for text in (chart.title, chart.x_label))
    return dataclasses.replace(chart, title=title, x_label=x_label)


def with_value(settings: TrainOptions, name: str, value: float) -> TrainOptions:
    """The settings with another value of one number."""
    changes: dict[str, Any] = {"C": None, "lambda_": None} if name in ("C", "lambda_") else {}
    changes[name] = int(value) if name == "degree" else float(value)
    return dataclasses.replace(settings, **changes)


def convergence(reports: Mapping[str, Mapping[str, Any]]) -> Chart:
    """Relative duality gap against time: name -> report with a `trace`, as odm-train --json writes it."""
    series = []
    for place, (name, report) in enumerate(reports.items()):
        trace = report.get("trace")
        if not isinstance(trace, list) or not trace:
            raise ParameterError(
                f"{name}: the report holds no trace; odm-train --json of this version writes one"
            )
        series += _gap_series(name if len(reports) > 1 else "", trace, len(reports) > 1, place)
    tolerances = {report.get("parameters", {}).get("tol") for report in reports.values()}
    wanted = f" (wanted {tolerances.pop():g})" if len(tolerances) == 1 and None not in tolerances else ""
    several = ""
    if len(reports) == 1:  # a thinned trace may have lost some
        traced = {point.get("task", 1) for report in reports.values() for point in report["trace"]}
        n_tasks = max(len(traced), *(len(report.get("tasks") or []) for report in reports.values()))
        several = f" of {n_tasks} tasks" if n_tasks > 1 else ""
    return Chart(f"convergence{several}{wanted}", "seconds", "relative duality gap", series, y_log=True)


def _gap_series(name: str, trace: list[dict[str, Any]], several: bool, colour: int) -> list[Series]:
    """A curve per task; of several runs, or of many tasks, all of one colour."""
    known = [point for point in trace if point.get("gap") is not None and point["gap"] > 0]
    tasks: dict[int, list[dict[str, Any]]] = {}
    for point in sorted(known, key=lambda point: point.get("task", 1)):
        tasks.setdefault(point.get("task", 1), []).append(point)
    if len(tasks) <= 1:
        return [_line(name, known, colour)]
    if len(tasks) <= MOST_NAMED and not several:
        return [_line(f"task {task}", points) for task, points in tasks.items()]
    title = f"{name}, {len(tasks)} tasks" if name else ""
    if len(tasks) > MOST_CURVES:  # most have too few points for a curve
        return [_line(title, known, colour, "points")]
    return [_line("" if k else title, points, colour) for k, points in enumerate(tasks.values())]


def _line(name: str, points: list[dict[str, Any]], colour: int | None = None, kind: str = "line") -> Series:
    x, y = ([float(point[key]) for point in points] for key in ("seconds", "gap"))
    return Series(name, x, y, kind, colour)


def level_charts(report: Mapping[str, Any], name: str = "") -> list[Chart]:
    """Gap, and accuracy where it is known, of every level of a partitioned machine against time."""
    runs = _level_runs(report)
    if not runs:
        raise ParameterError(f"{name or 'the report'}: no levels; those are of machine sodm")
    first = next(iter(runs.values()))
    title = "levels: " + ", ".join(str(level.get("partitions", "?")) for level in first) + " partitions"
    charts = []
    for key, label, factor in (("gap", "relative duality gap", 1.0), ("accuracy", "accuracy in %", 100.0)):
        series = []
        for run, levels in runs.items():
            # a level's seconds are its own: the picture shows when it ended
            ends = np.cumsum([float(level.get("seconds") or 0.0) for level in levels]).tolist()
            known = [
                (end, level[key])
                for end, level in zip(ends, levels, strict=True)
                if level.get(key) is not None
            ]
            x = [end for end, _ in known]
            y = [factor * float(value) for _, value in known]
            series += [Series(run, x, y)] if known else []
        if series:
            charts.append(Chart(title, "seconds", label, series, y_log=key == "gap"))
    if not charts:
        raise ParameterError(f"{name or 'the report'}: the levels have neither a gap nor an accuracy")
    return charts


def _level_runs(report: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The levels of a run, or of each of its tasks, by name."""
    levels = report.get("levels") or (report.get("details") or {}).get("levels")
    if isinstance(levels, list) and levels:
        return {"": levels}
    tasks = enumerate(report.get("tasks") or [], 1)
    return {f"task {place}": task["levels"] for place, task in tasks if task.get("levels")}
