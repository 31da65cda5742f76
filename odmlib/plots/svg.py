"""Pictures as SVG, drawn here: no library, no script, no network; text takes the colour of the page.

Points, bars and cells have titles, which browsers show where the pointer rests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

from odmlib.plots.chart import (
    COLOURS,
    DEEPEST,
    NEGATIVE,
    POSITIVE,
    Axis,
    Bars,
    Chart,
    Matrix,
    Picture,
    Regions,
    Series,
)

WIDTH, HEIGHT = 640, 360
PAGE_WIDTH, PAGE_HEIGHT = 440, 320  # on a phone one unit is nearly one pixel: text stays readable
LEFT, RIGHT, TOP, BOTTOM = 66, 26, 34, 50
LINE = 20  # of the legend, and of a named bar
LETTER = 7.0  # width of a letter, about
LONGEST_NAME = 18  # letters of a name beside a cell or bar; longer ones are cut
SMALLEST_CELL = 24  # that has room for a number at the size of other text
MOST_DOTS = 60  # points of a curve that can be pointed at
DEPTHS = (0.12, 0.22, 0.38)  # opacity of regions

Place = Callable[[float], float]


def svg_document(pictures: Sequence[Picture]) -> str:
    """A file of its own: the pictures below one another, on white."""
    parts, top = [], 0.0
    for picture in pictures:
        parts.append(f'<g transform="translate(0 {top:g})">{"".join(_drawn(picture, WIDTH, HEIGHT))}</g>')
        top += _height(picture, WIDTH, HEIGHT)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {WIDTH} {top:g}" '
        f'width="{WIDTH}" height="{top:g}" color="#222" font-family="sans-serif" font-size="13">'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def svg_element(picture: Picture, name: str = "picture") -> str:
    """An element for an HTML page, as wide as its place; `name` is unique on the page."""
    height = _height(picture, PAGE_WIDTH, PAGE_HEIGHT)
    return (
        f'<svg viewBox="0 0 {PAGE_WIDTH} {height:g}" role="img" aria-labelledby="{name}-t {name}-d" '
        f'font-size="13"><title id="{name}-t">{escape(picture.title)}</title>'
        f'<desc id="{name}-d">{escape(described(picture))}</desc>'
        f"{''.join(_drawn(picture, PAGE_WIDTH, PAGE_HEIGHT))}</svg>"
    )


def described(picture: Picture) -> str:
    """The picture in one sentence, for those who cannot see it."""
    if isinstance(picture, Bars):
        bars = (f"{n} {_number(v)}" for n, v in zip(picture.names, picture.values, strict=True))
        return f"{picture.x_label}: {', '.join(bars)}"
    if isinstance(picture, Matrix):
        rows, columns = len(picture.rows), len(picture.columns)
        return f"{rows} rows ({picture.y_label}), {columns} columns ({picture.x_label})."
    names = ", ".join(series.name for series in picture.series if series.name)
    return f"{picture.y_label} against {picture.x_label}" + (f": {names}." if names else ".")


def _height(picture: Picture, width: int, height: int) -> float:
    if isinstance(picture, Bars):
        return TOP + LINE * len(picture.names) + BOTTOM
    if isinstance(picture, Matrix):
        return _MatrixPlan(picture, width).height
    legend = len(picture.legend())
    return _plot_height(picture, width, height) + LINE * legend + (8 if legend else 0)


def _plot_height(chart: Chart, width: int, height: int) -> int:
    """As asked for, or such that the axes are equally long, up to a limit."""
    return min(int(1.2 * height), width - LEFT - RIGHT + TOP + BOTTOM) if chart.square else height


def _drawn(picture: Picture, width: int, height: int) -> Iterator[str]:
    if isinstance(picture, Bars):
        return _drawn_bars(picture, width)
    if isinstance(picture, Matrix):
        return _drawn_matrix(picture, width)
    return _drawn_chart(picture, width, _plot_height(picture, width, height))


# ---------------------------------------------------------------------------------------- charts


def _drawn_chart(chart: Chart, width: int, height: int) -> Iterator[str]:
    x_axis, y_axis = chart.x_axis(), chart.y_axis()
    left, right, bottom = LEFT, width - RIGHT, height - BOTTOM
    if chart.square:
        right = left + bottom - TOP

    def x_at(value: float) -> float:
        return left + x_axis.place(value) * (right - left)

    def y_at(value: float) -> float:
        return bottom - y_axis.place(value) * (bottom - TOP)

    yield _title(chart.title, width)
    if chart.regions is not None:
        yield from _regions(chart.regions, x_at, y_at)
    for low, high, name in chart.bands:
        yield (
            f'<rect x="{x_at(low):.1f}" y="{TOP}" width="{x_at(high) - x_at(low):.1f}" '
            f'height="{bottom - TOP}" fill="{COLOURS[4]}" fill-opacity="0.2">{_hint(name)}</rect>'
        )
        yield _text((x_at(low) + x_at(high)) / 2, TOP + 13, name, "middle", 'font-size="11"')
    yield from _grid(x_axis, y_axis, x_at, y_at, left, right, bottom)
    yield _text((left + right) / 2, bottom + 39, chart.x_label, "middle")
    yield _sideways(chart.y_label, (TOP + bottom) / 2)
    for place, name in chart.marks:
        x = x_at(place)
        yield _path([(x, TOP), (x, bottom)], "currentColor", 1, 'stroke-dasharray="4 3"')
        if name:
            yield _text(x + 4, TOP + 13, name, "start")
    for guide in chart.guides:
        points = [(x_at(x), y_at(y)) for x, y in guide.corners()]
        yield _path(points, "currentColor", 1, 'stroke-dasharray="4 3" stroke-opacity="0.6"')
    for place, series in chart.numbered():
        yield from _series(series, x_at, y_at, y_axis, COLOURS[place % len(COLOURS)])
    for line, (place, name) in enumerate(chart.legend()):
        y, colour = height + LINE * line + 13, COLOURS[place % len(COLOURS)]
        yield f'<rect x="{left}" y="{y - 10}" width="22" height="6" fill="{colour}" class="key"/>'
        yield _text(left + 30, y - 2, name, "start")


def _grid(
    x_axis: Axis, y_axis: Axis, x_at: Place, y_at: Place, left: float, right: float, bottom: float
) -> Iterator[str]:
    for tick in x_axis.ticks:
        x = x_at(tick)
        yield _path([(x, TOP), (x, bottom)], "currentColor", 1, 'stroke-opacity="0.15"')
        yield _text(x, bottom + 18, x_axis.label(tick), "middle")
    for tick in y_axis.ticks:
        y = y_at(tick)
        yield _path([(left, y), (right, y)], "currentColor", 1, 'stroke-opacity="0.15"')
        yield _text(left - 7, y + 5, y_axis.label(tick), "end")


def _series(series: Series, x_at: Place, y_at: Place, y_axis: Axis, colour: str) -> Iterator[str]:
    if series.kind == "bars":
        yield from _histogram(series, x_at, y_at, y_axis, colour)
        return
    corners = [(x_at(x), y_at(y)) for x, y in series.corners()]
    corners = [(x, y) for x, y in corners if math.isfinite(x) and math.isfinite(y)]
    if series.kind != "points" and len(corners) > 1:
        yield _path(corners, colour, 2, 'stroke-linejoin="round"')
    points = list(zip(series.x, series.y, series.errors or [0.0] * len(series.x), strict=True))
    shown = series.kind == "points" or len(points) <= 40
    step = 1 if shown else math.ceil(len(points) / MOST_DOTS)
    for x, y, error in points[::step]:
        px, py = x_at(x), y_at(y)
        if not (math.isfinite(px) and math.isfinite(py)):
            continue
        if error:
            ends = [min(max(y_axis.low, end), y_axis.high) for end in (y - error, y + error)]
            yield _path([(px, y_at(end)) for end in ends], colour, 1.5)
        spread = f" ± {_number(error)}" if error else ""
        words = _hint(f"{series.name + ': ' if series.name else ''}{_number(x)}, {_number(y)}{spread}")
        look = 'r="3"' if shown else 'r="7" fill-opacity="0"'  # there only to be pointed at
        yield f'<circle cx="{px:.1f}" cy="{py:.1f}" {look} fill="{colour}">{words}</circle>'


def _histogram(series: Series, x_at: Place, y_at: Place, y_axis: Axis, colour: str) -> Iterator[str]:
    base = y_at(max(0.0, y_axis.low))
    for low, high, number in zip(series.x[:-1], series.x[1:], series.y, strict=True):
        x, y = x_at(low), y_at(number)
        if base - y > 0:
            words = _hint(f"{_number(low)} to {_number(high)}: {_number(number)}")
            yield (
                f'<rect x="{x + 0.5:.1f}" y="{y:.1f}" width="{max(0.5, x_at(high) - x - 1):.1f}" '
                f'height="{base - y:.1f}" fill="{colour}" fill-opacity="0.8">{words}</rect>'
            )


def _regions(regions: Regions, x_at: Place, y_at: Place) -> Iterator[str]:
    """One path per colour and depth, of a box for every run of cells."""
    n_rows, n_columns = len(regions.codes), len(regions.codes[0])
    left, top = x_at(regions.x_range[0]), y_at(regions.y_range[1])
    wide = (x_at(regions.x_range[1]) - left) / n_columns
    high = (y_at(regions.y_range[0]) - top) / n_rows
    boxes: dict[tuple[int, int], list[str]] = {}
    for row, begin, end, code, depth in regions.runs():
        x, y, width = left + begin * wide, top + (n_rows - 1 - row) * high, (end - begin) * wide
        boxes.setdefault((code, depth), []).append(f"M{x:.1f} {y:.1f}h{width:.1f}v{high:.2f}h{-width:.1f}z")
    for (code, depth), paths in boxes.items():
        yield (
            f'<path d="{"".join(paths)}" fill="{COLOURS[code % len(COLOURS)]}" '
            f'fill-opacity="{DEPTHS[depth]}" shape-rendering="crispEdges"/>'
        )


# ---------------------------------------------------------------------------------------- matrices, bars


class _MatrixPlan:
    """Where the cells of a matrix lie."""

    def __init__(self, matrix: Matrix, width: int):
        n = len(matrix.columns)
        longest = max(map(len, matrix.rows), default=0)
        self.left = 30 + LETTER * min(LONGEST_NAME, longest) + 8
        self.cell = min(64.0, (width - self.left - 12) / max(1, n))
        widest = max((len(cut(name)) for name in matrix.columns), default=0) * LETTER
        self.upright = widest > self.cell - 2  # names of columns that stand on their ends
        self.side = min(self.cell, 40.0 if n <= 12 else self.cell)  # height of a cell
        self.bottom = TOP + self.side * len(matrix.rows)
        self.height = self.bottom + (widest if self.upright else 14) + 34
        self.every = max(1, math.ceil(11 / self.side))  # names that have room


def _drawn_matrix(matrix: Matrix, width: int) -> Iterator[str]:
    plan = _MatrixPlan(matrix, width)
    right = plan.left + plan.cell * len(matrix.columns)
    yield _title(matrix.title, width)
    small = f'font-size="{min(13.0, plan.side * 0.8):.1f}"'
    for row, name in enumerate(matrix.rows):
        if row % plan.every == 0:
            y = TOP + plan.side * (row + 0.5) + 4
            yield _text(plan.left - 6, y, cut(name), "end", small)
    for column, name in enumerate(matrix.columns):
        if column % plan.every == 0:
            x, y = plan.left + plan.cell * (column + 0.5), plan.bottom + 15
            turned = f'transform="translate({x + 4:.1f} {plan.bottom + 6:.1f}) rotate(-90)" {small}'
            yield _turned(cut(name), turned) if plan.upright else _text(x, y, name, "middle", small)
    yield (
        f'<rect x="{plan.left:.1f}" y="{TOP}" width="{right - plan.left:.1f}" '
        f'height="{plan.bottom - TOP:.1f}" fill="currentColor" fill-opacity="0.03" '
        f'stroke="currentColor" stroke-opacity="0.3"/>'
    )
    letters = max((len(text) for row in matrix.texts for text in row), default=1)
    size = min(13.0, plan.side * 0.62, (plan.cell - 3) / max(1, letters) * 1.75)
    fine = "" if plan.cell >= SMALLEST_CELL and size >= 8 else ' class="fine"'  # too small for a phone
    for row, shades in enumerate(matrix.shades):
        for column, shade in enumerate(shades):
            if shade == 0 and not matrix.values[row][column]:
                continue
            x, y = plan.left + plan.cell * column, TOP + plan.side * row
            yield (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{plan.cell:.1f}" height="{plan.side:.1f}" '
                f'fill="{POSITIVE if shade > 0 else NEGATIVE}" '
                f'fill-opacity="{DEEPEST * abs(shade):.2f}">{_hint(matrix.hint(row, column))}</rect>'
            )
            if size >= 4.5:
                look = f'font-size="{size:.1f}" pointer-events="none"{fine}'
                yield _text(
                    x + plan.cell / 2,
                    y + plan.side / 2 + size * 0.36,
                    matrix.texts[row][column],
                    "middle",
                    look,
                )
    if matrix.mark is not None:
        x, y = plan.left + plan.cell * matrix.mark[1], TOP + plan.side * matrix.mark[0]
        yield (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{plan.cell:.1f}" height="{plan.side:.1f}" '
            'fill="none" stroke="currentColor" stroke-width="2.5"/>'
        )
    yield _text((plan.left + right) / 2, plan.height - 8, matrix.x_label, "middle")
    yield _sideways(matrix.y_label, (TOP + plan.bottom) / 2)


def _drawn_bars(bars: Bars, width: int) -> Iterator[str]:
    axis = Axis.over([0.0, *bars.values], False)
    left = 14 + LETTER * min(LONGEST_NAME, max(map(len, bars.names), default=0))
    right, bottom = width - RIGHT, TOP + LINE * len(bars.names)

    def x_at(value: float) -> float:
        return left + axis.place(value) * (right - left)

    yield _title(bars.title, width)
    every = 1 if len(axis.ticks) * 6 * LETTER < right - left else 2
    for tick in axis.ticks[::every]:
        x = x_at(tick)
        yield _path([(x, TOP), (x, bottom)], "currentColor", 1, 'stroke-opacity="0.15"')
        yield _text(x, bottom + 18, axis.label(tick), "middle")
    for line, (name, value) in enumerate(zip(bars.names, bars.values, strict=True)):
        y, ends = TOP + LINE * line, sorted((x_at(0.0), x_at(value)))
        yield _text(left - 7, y + 15, cut(name), "end")
        yield (
            f'<rect x="{ends[0]:.1f}" y="{y + 3}" width="{max(0.5, ends[1] - ends[0]):.1f}" '
            f'height="{LINE - 5}" fill="{POSITIVE if value > 0 else NEGATIVE}" fill-opacity="0.8">'
            f"{_hint(f'{name}: {_number(value)}')}</rect>"
        )
    yield _path([(x_at(0.0), TOP), (x_at(0.0), bottom)], "currentColor", 1)
    yield _text((left + right) / 2, bottom + 39, bars.x_label, "middle")


# ---------------------------------------------------------------------------------------- pieces


def cut(name: str) -> str:
    """A name of at most LONGEST_NAME letters."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _number(value: float) -> str:
    return f"{round(value, 12):,.4g}" if abs(value) < 1e5 else f"{value:.4g}"


def _hint(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""


def _title(text: str, width: int) -> str:
    """Above the picture; a long one is written smaller rather than cut."""
    size = max(9.0, min(13.0, 13.0 * (width - 20) / (7.4 * max(1, len(text)))))
    start = LEFT if len(text) * 7.4 * size / 13 <= width - LEFT else 10
    look = f'font-size="{size:.1f}" font-weight="bold"'
    return f'<text x="{start}" y="20" fill="currentColor" {look}>{escape(text)}</text>'


def _sideways(text: str, middle: float) -> str:
    return _turned(text, f'transform="translate(15 {middle:.0f}) rotate(-90)"', "middle")


def _turned(text: str, where: str, anchor: str = "end") -> str:
    return f'<text {where} text-anchor="{anchor}" fill="currentColor">{escape(text)}</text>'


def _path(points: list[tuple[float, float]], colour: str, width: float, more: str = "") -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width}" {more}/>'


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor" {more}>'
        f"{escape(text)}</text>"
    )
