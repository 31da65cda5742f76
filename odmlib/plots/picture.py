"""Charts as files: SVG by our own hand, PNG and PDF by matplotlib."""

from __future__ import annotations

import io
import os
from typing import Any

from odmlib.data.files import open_output
from odmlib.errors import OdmError, ParameterError
from odmlib.plots.chart import COLOURS, Chart
from odmlib.plots.svg import svg_document

FORMATS = ("png", "svg", "pdf")
INCHES = (6.4, 3.8)
DOTS = 100  # per inch


def picture_format(path: str) -> str:
    """png, svg or pdf, by the file's name."""
    kind = os.path.splitext(path)[1].lower().removeprefix(".")
    if kind not in FORMATS:
        raise ParameterError(f"a picture's name must end in .png, .svg or .pdf, found '{path}'")
    return kind


def save_picture(charts: list[Chart], path: str) -> None:
    """Write the charts below one another; the end of the name decides the format."""
    kind = picture_format(path)
    content = svg_document(charts).encode() if kind == "svg" else _by_matplotlib(charts, kind)
    with open_output(path) as stream:
        stream.write(content)


def require_matplotlib(kind: str) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise OdmError(
            f"a {kind.upper()} picture needs matplotlib (pip install matplotlib); .svg and text do without"
        ) from None
    return Figure, FigureCanvasAgg


def _by_matplotlib(charts: list[Chart], kind: str) -> bytes:
    Figure, Canvas = require_matplotlib(kind)
    figure = Figure(figsize=(INCHES[0], INCHES[1] * len(charts)), dpi=DOTS, layout="constrained")
    Canvas(figure)
    for place, chart in enumerate(charts, 1):
        _draw(figure.add_subplot(len(charts), 1, place), chart)
    target = io.BytesIO()
    dates = {"CreationDate": None} if kind == "pdf" else {"Software": None}  # same numbers, same bytes
    figure.savefig(target, format=kind, metadata=dates)
    return target.getvalue()


def _draw(axes: Any, chart: Chart) -> None:
    for place, series in chart.numbered():
        style = {"color": COLOURS[place % len(COLOURS)], "label": series.name or None}
        if series.kind == "bars":
            widths = [high - low for low, high in zip(series.x[:-1], series.x[1:], strict=True)]
            axes.bar(series.x[:-1], series.y, widths, align="edge", alpha=0.8, edgecolor="white", **style)
            continue
        points = series.corners()
        marker = "o" if series.kind == "points" or len(points) <= 40 else None
        line = "none" if series.kind == "points" else "-"
        xs, ys = ([point[k] for point in points] for k in (0, 1))
        axes.plot(xs, ys, marker=marker, markersize=4, linestyle=line, **style)
    for where, name in chart.marks:
        axes.axvline(where, color="black", linestyle="--", linewidth=1)
        if name:
            axes.annotate(f" {name}", (where, 0.95), xycoords=("data", "axes fraction"), fontsize=9)
    axes.set_title(chart.title, fontsize=11, loc="left")
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    if chart.x_log:
        axes.set_xscale("log")
    if chart.y_log:
        axes.set_yscale("log")
    axes.grid(alpha=0.25)
    if chart.legend():
        axes.legend(fontsize=9)
