"""Pictures as files: SVG by our own hand, PNG and PDF by matplotlib; and on Axes of matplotlib."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from typing import Any

from odmlib.data.files import open_output
from odmlib.errors import OdmError, ParameterError
from odmlib.plots.chart import COLOURS, DEEPEST, NEGATIVE, POSITIVE, Bars, Chart, Matrix, Picture, Series
from odmlib.plots.svg import DEPTHS, cut, svg_document

FORMATS = ("png", "svg", "pdf")
INCHES = (6.4, 3.8)
DOTS = 200  # per inch: sharp on screens with twice the dots
BAR_INCHES = 0.24  # of a named bar
INK = "#222222"
STYLE = {"fontsize": 10, "color": INK}


def picture_format(path: str) -> str:
    """png, svg or pdf, by the file's name."""
    kind = os.path.splitext(path)[1].lower().removeprefix(".")
    if kind not in FORMATS:
        raise ParameterError(f"a picture's name must end in .png, .svg or .pdf, found '{path}'")
    return kind


def save_picture(pictures: Sequence[Picture], path: str, kind: str | None = None) -> None:
    """Write the pictures below one another, as `kind` or what the end of the name says."""
    kind = kind or picture_format(path)
    content = svg_document(pictures).encode() if kind == "svg" else _by_matplotlib(pictures, kind)
    with open_output(path) as stream:
        stream.write(content)


def require_matplotlib(kind: str) -> Any:
    """Matplotlib's Figure and canvas; OdmError where it is not installed. `kind` is what needs it."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise OdmError(
            f"{kind} needs matplotlib (pip install matplotlib); .svg and text do without"
        ) from None
    return Figure, FigureCanvasAgg


def draw(picture: Picture, ax: Any = None) -> Any:
    """Draw on matplotlib's Axes `ax`, or on new ones of pyplot, and return them."""
    if ax is None:
        require_matplotlib("a plot_ function")
        from matplotlib import pyplot

        _, ax = pyplot.subplots(figsize=_inches(picture), layout="constrained")
    drawers: dict[type, Callable[[Any, Any], None]] = {Chart: _chart, Matrix: _matrix, Bars: _bars}
    drawers[type(picture)](ax, picture)
    ax.set_title(picture.title, fontsize=11, loc="left", color=INK)
    ax.set_xlabel(picture.x_label, **STYLE)
    for spine in ax.spines.values():
        spine.set_color("#bbbbbb")
    ax.tick_params(colors=INK, labelsize=9)
    return ax


def _by_matplotlib(pictures: Sequence[Picture], kind: str) -> bytes:
    Figure, Canvas = require_matplotlib(f"a {kind.upper()} picture")
    sizes = [_inches(picture) for picture in pictures]
    heights = [height for _, height in sizes]
    figure = Figure(figsize=(max(w for w, _ in sizes), sum(heights)), dpi=DOTS, layout="constrained")
    Canvas(figure)
    panels = figure.subplots(len(pictures), 1, squeeze=False, height_ratios=heights)
    for axes, picture in zip(panels[:, 0], pictures, strict=True):
        draw(picture, axes)
    target = io.BytesIO()
    dates = {"CreationDate": None} if kind == "pdf" else {"Software": None}  # same numbers, same bytes
    figure.savefig(target, format=kind, metadata=dates)
    return target.getvalue()


def _inches(picture: Picture) -> tuple[float, float]:
    if isinstance(picture, Bars):
        return INCHES[0], 1.1 + BAR_INCHES * len(picture.names)
    if isinstance(picture, Matrix):
        side = max(0.18, min(0.6, 4.2 / max(1, len(picture.columns))))
        return INCHES[0], min(14.0, 1.2 + side * len(picture.rows))
    return (INCHES[0], 5.0) if picture.square else INCHES


def _chart(axes: Any, chart: Chart) -> None:
    if chart.regions is not None:
        _regions(axes, chart)
    for low, high, name in chart.bands:
        axes.axvspan(low, high, color=COLOURS[4], alpha=0.2, linewidth=0)
        axes.annotate(
            name,
            ((low + high) / 2, 0.97),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="top",
            fontsize=8,
        )
    for guide in chart.guides:
        xs, ys = zip(*guide.corners(), strict=True)
        axes.plot(xs, ys, color=INK, alpha=0.6, linestyle="--", linewidth=1)
    for place, series in chart.numbered():
        _series(axes, series, {"color": COLOURS[place % len(COLOURS)], "label": series.name or None})
    for where, name in chart.marks:
        axes.axvline(where, color=INK, linestyle="--", linewidth=1)
        if name:
            axes.annotate(f" {name}", (where, 0.95), xycoords=("data", "axes fraction"), fontsize=9)
    axes.set_ylabel(chart.y_label, **STYLE)
    if chart.x_log:
        axes.set_xscale("log")
    if chart.y_log:
        axes.set_yscale("log")
    if any(series.kind == "bars" for series in chart.series):  # they count rows
        axes.yaxis.get_major_locator().set_params(integer=True)
        if chart.bands:
            axes.set_ylim(0, chart.y_axis().high)
    if chart.y_range is not None:
        axes.set_ylim(chart.y_range[0], 1.02 * chart.y_range[1])
    if chart.square:
        axes.set_box_aspect(1)
    if chart.regions is None:
        axes.grid(alpha=0.25)
    if chart.legend():
        axes.legend(fontsize=9)


def _series(axes: Any, series: Series, style: dict[str, Any]) -> None:
    if series.kind == "bars":
        widths = [high - low for low, high in zip(series.x[:-1], series.x[1:], strict=True)]
        axes.bar(series.x[:-1], series.y, widths, align="edge", alpha=0.8, edgecolor="white", **style)
        return
    points = series.corners()
    marker = "o" if series.kind == "points" or len(points) <= 40 else None
    line = "none" if series.kind == "points" else "-"
    xs, ys = ([point[k] for point in points] for k in (0, 1))
    if series.errors is not None:
        axes.errorbar(xs, ys, series.errors, marker="o", markersize=4, linestyle=line, capsize=3, **style)
        return
    axes.plot(xs, ys, marker=marker, markersize=4, linestyle=line, **style)


def _regions(axes: Any, chart: Chart) -> None:
    from matplotlib.colors import to_rgb

    regions = chart.regions
    assert regions is not None
    colours = [to_rgb(colour) for colour in COLOURS]
    image = [
        [(*colours[code % len(colours)], DEPTHS[depth]) for code, depth in zip(codes, depths, strict=True)]
        for codes, depths in zip(regions.codes, regions.depths, strict=True)
    ]
    axes.imshow(image, origin="lower", extent=(*regions.x_range, *regions.y_range), aspect="auto")


def _matrix(axes: Any, matrix: Matrix) -> None:
    from matplotlib.colors import to_rgb

    image = [
        [(*to_rgb(POSITIVE if shade > 0 else NEGATIVE), DEEPEST * abs(shade)) for shade in shades]
        for shades in matrix.shades
    ]
    axes.imshow(image, aspect="auto")
    n_rows, n_columns = len(matrix.rows), len(matrix.columns)
    every = max(1, max(n_rows, n_columns) // 40)
    upright = max(map(len, matrix.columns), default=0) * n_columns > 60
    shown = [cut(name) for name in matrix.columns[::every]]
    axes.set_xticks(range(0, n_columns, every), shown, rotation=90 if upright else 0)
    axes.set_yticks(range(0, n_rows, every), [cut(name) for name in matrix.rows[::every]])
    if n_columns <= 30:
        letters = max((len(text) for texts in matrix.texts for text in texts), default=1)
        size = max(4.0, min(9.0, 330 / (max(1, n_columns) * max(2, letters))))
        for row, texts in enumerate(matrix.texts):
            for column, text in enumerate(texts):
                if matrix.shades[row][column] == 0 and not matrix.values[row][column]:
                    continue  # empty cells stay empty
                axes.text(column, row, text, ha="center", va="center", fontsize=size, color=INK)
    if matrix.mark is not None:
        from matplotlib.patches import Rectangle

        row, column = matrix.mark
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=INK, linewidth=2))
    axes.set_ylabel(matrix.y_label, **STYLE)


def _bars(axes: Any, bars: Bars) -> None:
    colours = [POSITIVE if value > 0 else NEGATIVE for value in bars.values]
    places = range(len(bars.names))
    axes.barh(places, bars.values, color=colours, alpha=0.8)
    axes.set_yticks(places, [cut(name) for name in bars.names])
    axes.invert_yaxis()
    axes.axvline(0, color=INK, linewidth=1)
    axes.grid(alpha=0.25, axis="x")
