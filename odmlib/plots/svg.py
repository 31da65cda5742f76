"""Charts as SVG, drawn here: no library, no script, no network; text takes the colour of the page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from odmlib.plots.chart import COLOURS, Axis, Chart, Series

WIDTH, HEIGHT = 640, 360
PAGE_WIDTH, PAGE_HEIGHT = 440, 320  # on a phone one unit is nearly one pixel: text stays readable
LEFT, RIGHT, TOP, BOTTOM = 66, 26, 34, 50
LINE = 20  # of the legend


def svg_document(charts: list[Chart]) -> str:
    """A file of its own: the charts below one another, on white."""
    parts, top = [], 0
    for chart in charts:
        parts.append(f'<g transform="translate(0 {top})">{"".join(_drawn(chart, WIDTH, HEIGHT))}</g>')
        top += HEIGHT + LINE * len(chart.legend())
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {WIDTH} {top}" '
        f'width="{WIDTH}" height="{top}" color="#222" font-family="sans-serif" font-size="13">'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def svg_element(chart: Chart) -> str:
    """An element for an HTML page, as wide as its place."""
    height = PAGE_HEIGHT + LINE * len(chart.legend())
    return (
        f'<svg viewBox="0 0 {PAGE_WIDTH} {height}" role="img" aria-label="{escape(chart.title)}" '
        f'font-size="13">{"".join(_drawn(chart, PAGE_WIDTH, PAGE_HEIGHT))}</svg>'
    )


def _drawn(chart: Chart, width: int, height: int) -> Iterator[str]:
    x_axis, y_axis = chart.x_axis(), chart.y_axis()
    right, bottom = width - RIGHT, height - BOTTOM

    def x_at(value: float) -> float:
        return LEFT + x_axis.place(value) * (right - LEFT)

    def y_at(value: float) -> float:
        return bottom - y_axis.place(value) * (bottom - TOP)

    yield f'<text x="{LEFT}" y="20" fill="currentColor" font-weight="bold">{escape(chart.title)}</text>'
    for tick in x_axis.ticks:
        x = x_at(tick)
        yield _path([(x, TOP), (x, bottom)], "currentColor", 1, 'stroke-opacity="0.15"')
        yield _text(x, bottom + 18, x_axis.label(tick), "middle")
    for tick in y_axis.ticks:
        y = y_at(tick)
        yield _path([(LEFT, y), (right, y)], "currentColor", 1, 'stroke-opacity="0.15"')
        yield _text(LEFT - 7, y + 5, y_axis.label(tick), "end")
    yield _text((LEFT + right) / 2, bottom + 39, chart.x_label, "middle")
    yield (
        f'<text transform="translate(15 {(TOP + bottom) / 2:.0f}) rotate(-90)" text-anchor="middle" '
        f'fill="currentColor">{escape(chart.y_label)}</text>'
    )
    for place, name in chart.marks:
        x = x_at(place)
        yield _path([(x, TOP), (x, bottom)], "currentColor", 1, 'stroke-dasharray="4 3"')
        if name:
            yield _text(x + 4, TOP + 13, name, "start")
    for place, series in chart.numbered():
        colour = COLOURS[place % len(COLOURS)]
        if series.kind == "bars":
            yield from _bars(series, x_at, y_at, y_axis, colour)
            continue
        points = [(x_at(x), y_at(y)) for x, y in series.corners()]
        points = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
        if series.kind != "points" and len(points) > 1:
            yield _path(points, colour, 2, 'stroke-linejoin="round"')
        if series.kind == "points" or len(points) <= 40:
            yield "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points)
    for line, (place, name) in enumerate(chart.legend()):
        y, colour = height + LINE * line + 5, COLOURS[place % len(COLOURS)]
        yield f'<rect x="{LEFT}" y="{y - 10}" width="22" height="6" fill="{colour}"/>'
        yield _text(LEFT + 30, y - 2, name, "start")


def _bars(series: Series, x_at, y_at, y_axis: Axis, colour: str) -> Iterator[str]:  # type: ignore[no-untyped-def]
    base = y_at(max(0.0, y_axis.low))
    for low, high, count in zip(series.x[:-1], series.x[1:], series.y, strict=True):
        x, y = x_at(low), y_at(count)
        if base - y > 0:
            yield (
                f'<rect x="{x + 0.5:.1f}" y="{y:.1f}" width="{max(0.5, x_at(high) - x - 1):.1f}" '
                f'height="{base - y:.1f}" fill="{colour}" fill-opacity="0.8"/>'
            )


def _path(points: list[tuple[float, float]], colour: str, width: float, more: str = "") -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width}" {more}/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">{escape(text)}</text>'
