"""Pictures as text for a terminal: a grid of characters, bars from left to right, or a table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from odmlib.plots.chart import Bars, Chart, Matrix, Picture, Regions, Series

SYMBOLS = "*o+x#@%&"
GROUND = ".:'`,-~_"  # of regions, in the order of SYMBOLS
SHADES = " .:-=+*#%@"  # of cells that have no room for a number
ROWS = 16
NARROWEST = 40


def text_chart(chart: Picture, width: int = 79) -> str:
    """The picture in lines of at most `width` characters."""
    width = max(NARROWEST, width)
    lines = [chart.title]
    if isinstance(chart, Chart):
        lines += _chart(chart, width)
    else:
        lines += _matrix(chart, width) if isinstance(chart, Matrix) else _named_bars(chart, width)
    return "\n".join(line.rstrip() for line in lines)


def _chart(chart: Chart, width: int) -> Iterator[str]:
    bars = [series for series in chart.series if series.kind == "bars"]
    if bars:
        for series in bars:
            if len(bars) > 1:
                yield series.name
            yield from _bars(series, width)
        yield f"({chart.x_label} | {chart.y_label})"
    else:
        yield from _grid(chart, width)


def _matrix(matrix: Matrix, width: int) -> Iterator[str]:
    """A table where its numbers have room, else a character per cell, the darker the deeper its shade."""
    edge = min(18, max(map(len, matrix.rows), default=0))
    letters = max((len(text) for texts in [matrix.columns, *matrix.texts] for text in texts), default=1)
    if edge + 2 + (letters + 1) * len(matrix.columns) <= width:
        yield " " * (edge + 2) + " ".join(f"{name:>{letters}}" for name in matrix.columns)
        for name, texts in zip(matrix.rows, matrix.texts, strict=True):
            yield f"{name[:edge]:>{edge}} |" + " ".join(f"{text:>{letters}}" for text in texts)
    else:
        room = width - edge - 3
        for name, shades in zip(matrix.rows, matrix.shades, strict=True):
            yield f"{name[:edge]:>{edge}} |" + "".join(map(_shade, shades))[:room] + "|"
        if len(matrix.columns) > room:
            yield f"{len(matrix.columns) - room} columns more: -o FILE shows all"
    yield f"(down: {matrix.y_label}; across: {matrix.x_label})"


def _shade(shade: float) -> str:
    place = math.ceil(abs(shade) * (len(SHADES) - 1)) if math.isfinite(shade) else 0
    return SHADES[min(place, len(SHADES) - 1)]


def _named_bars(bars: Bars, width: int) -> Iterator[str]:
    edge = min(18, max(map(len, bars.names), default=0))
    most = max(map(abs, bars.values), default=0.0) or 1.0
    room = width - edge - 14
    for name, value in zip(bars.names, bars.values, strict=True):
        bar = ("+" if value > 0 else "-") * math.ceil(abs(value) * room / most)
        yield f"{name[:edge]:>{edge}} |{bar:<{room}} {value:10.4g}"
    yield f"({bars.x_label})"


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
    if chart.regions is not None:
        _fill(cells, chart.regions)
    for place, _ in chart.marks:
        column = round(x_axis.place(place) * (columns - 1))
        for row in cells:
            row[column] = ":"
    for guide in chart.guides:
        _trace(cells, guide, x_axis, y_axis, ".")
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


def _fill(cells: list[list[str]], regions: Regions) -> None:
    """Each cell of the text with the sign of the region below its middle."""
    codes, rows, columns = regions.codes, len(cells), len(cells[0])
    for place, row in enumerate(cells):
        line = codes[(2 * (rows - 1 - place) + 1) * len(codes) // (2 * rows)]
        middles = ((2 * column + 1) * len(line) // (2 * columns) for column in range(columns))
        row[:] = [GROUND[line[middle] % len(GROUND)] for middle in middles]


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
