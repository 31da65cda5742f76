"""The rates of a grid as a table, and as shades of text; plots/inside.py draws pictures.

Two parameters are drawn, the ones with most values; of the points that agree in them the best counts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from odmlib.selection.grid import AXES, GridResult, on_axis

SHADES = " .:-=+*#%@"
SPAN = 10.0  # percent below the best from which on all is shown alike
TITLES = {"C": "log2(C)", "gamma": "log2(gamma)", "lambda1": "log2(lambda1)", "lambda2": "log2(lambda2)"}


def rate_table(result: GridResult) -> tuple[tuple[str, list[float]], tuple[str, list[float]] | None, NDArray]:
    """The horizontal and the vertical axis (name, values ascending) and the rates; NaN: not known."""
    values = {
        name: sorted({on_axis(name, point.parameters[name]) for point in result.points})
        for name in AXES
        if name in result.axes
    }
    names = sorted(values, key=lambda name: (-len(values[name]), AXES.index(name)))[:2]
    names.sort(key=AXES.index)
    across, down = names[0], names[1] if len(names) > 1 else None
    table = np.full((1 if down is None else len(values[down]), len(values[across])), math.nan)
    for point in result.points:
        column = values[across].index(on_axis(across, point.parameters[across]))
        row = 0 if down is None else values[down].index(on_axis(down, point.parameters[down]))
        better = np.fmin if result.lower_is_better else np.fmax
        table[row, column] = better(table[row, column], point.rate)
    return (across, values[across]), None if down is None else (down, values[down]), table


def text_heat_map(result: GridResult) -> str:
    """The rates as two characters each, the darker the higher.

    >>> from odmlib.selection.grid import GridPoint
    >>> result = GridResult({"C": [1.0, 2.0]}, 2)
    >>> result.add(GridPoint({"C": 1.0}, 50.0))
    >>> result.add(GridPoint({"C": 2.0}, 97.5))
    >>> print(text_heat_map(result))
         |  @@|
    log2(C) across, from 0 to 1; 50 to 97.5 %
    """
    (across, columns), down, table = rate_table(result)
    best, bottom = shown_range(result, table)
    lines = []
    for place in reversed(range(len(table))):
        cells = "".join(2 * _shade(rate, bottom, best) for rate in table[place])
        name = "" if down is None else f"{down[1][place]:g}"
        lines.append(f"{name:>4} |{cells}|")
    title = "" if down is None else f"{TITLES.get(down[0], down[0])} downwards, "
    lines.append(
        f"{title}{TITLES.get(across, across)} across, from {columns[0]:g} to {columns[-1]:g}; "
        f"{np.nanmin(table):g} to {np.nanmax(table):g}{unit_of(result)}"
    )
    return "\n".join(lines)


def shown_range(result: GridResult, table: NDArray) -> tuple[float, float]:
    """The best rate, and the one from which on all worse ones are shown alike."""
    if result.lower_is_better:
        best = float(np.nanmin(table))
        return best, min(float(np.nanmax(table)), 2 * best)
    best = float(np.nanmax(table))
    return best, max(float(np.nanmin(table)), best - SPAN)


def unit_of(result: GridResult) -> str:
    return "" if result.lower_is_better else " %"


def _shade(rate: float, bottom: float, best: float) -> str:
    if not math.isfinite(rate):
        return "?"
    part = 1.0 if best == bottom else max(0.0, (rate - bottom) / (best - bottom))
    return SHADES[min(len(SHADES) - 1, int(part * len(SHADES)))]
