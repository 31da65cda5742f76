"""Charts as text for a terminal: a grid of characters, or bars from left to right."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from odmlib.plots.chart import Chart, Series

SYMBOLS = "*o+x#@%&"
ROWS = 16
NARROWEST = 40


def text_chart(chart: Chart, width: int = 79) -> str:
    """The chart in lines of at most `width` characters."""
    width = max(NARROWEST, width)
    lines = [chart.title]
    bars = [series for series in chart.series if series.kind == "bars"]
    if bars:
        for series in bars:
            if len(bars) > 1:
                lines.append(series.name)
            lines += _bars(series, width)
        lines.append(f"({chart.x_label} | {chart.y_label})")
    else:
        lines += _grid(chart, width)
    return "\n".join(line.rstrip() for line in lines)


def _bars(series: Series, width: int) -> Iterator[str]:
    most = max(series.y, default=0) or 1
    room = width - 32
    for low, high, count in zip(series.x[:-1], series.x[1:], series.y, strict=True):
        bar = "#" * math.ceil(count * room / most) if count else ""
        yield f"{_short(low)} .. {_short(high)} |{bar:<{room}} {count:8g}"


def _short(value: float) -> str:
    return f"{round(value, 12):8.4g}"


def _grid(chart: Chart, width: int) -> Iterator[str]:
    x_axis, y_axis = chart.x_axis(), chart.y_axis()
    labels = {round((1 - y_axis.place(tick)) * (ROWS - 1)): y_axis.label(tick) for tick in y_axis.ticks}
    edge = max(map(len, labels.values()))
    columns = width - edge - 2
    cells = [[" "] * columns for _ in range(ROWS)]
    for place, _ in chart.marks:
        column = round(x_axis.place(place) * (columns - 1))
        for row in cells:
            row[column] = ":"
    for number, series in chart.numbered():
        _trace(cells, series, x_axis, y_axis, SYMBOLS[number % len(SYMBOLS)])
    yield chart.y_label
    for place, row in enumerate(cells):
        yield f"{labels.get(place, ''):>{edge}} |{''.join(row)}"
    yield " " * edge + " +" + "-" * columns
    line = [" "] * (width + 1)
    free = 0  # where the next label may begin
    for tick in x_axis.ticks:
        text = x_axis.label(tick)
        start = edge + 2 + round(x_axis.place(tick) * (columns - 1)) - len(text) // 2
        start = min(max(start, 0), width - len(text))
        if start >= free:
            line[start : start + len(text)] = text
            free = start + len(text) + 1
    yield "".join(line)
    yield " " * (edge + 2) + chart.x_label
    for number, name in chart.legend():
        yield f"  {SYMBOLS[number % len(SYMBOLS)]} {name}"


def _trace(cells, series: Series, x_axis, y_axis, symbol: str) -> None:  # type: ignore[no-untyped-def]
    rows, columns = len(cells), len(cells[0])
    corners = series.corners()
    places = [(x_axis.place(x) * (columns - 1), (1 - y_axis.place(y)) * (rows - 1)) for x, y in corners]
    places = [(x, y) for x, y in places if math.isfinite(x) and math.isfinite(y)]
    joined = places[:1]
    for (x0, y0), (x1, y1) in pairwise(places):
        steps = 1 if series.kind == "points" else max(1, math.ceil(max(abs(x1 - x0), abs(y1 - y0))))
        joined += [(x0 + (x1 - x0) * k / steps, y0 + (y1 - y0) * k / steps) for k in range(1, steps + 1)]
    for x, y in joined:
        row, column = round(y), round(x)
        if 0 <= row < rows and 0 <= column < columns:
            cells[row][column] = symbol
