"""What is to be drawn, as numbers: Chart (axes), Matrix (cells) and Bars (named bars).

svg.py, text.py and picture.py draw all three.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from odmlib.errors import ParameterError

# colours that people with any colour sight can tell apart (Okabe and Ito)
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f", "#555555")
# signed shades: cells and bars above and below 0
POSITIVE, NEGATIVE = COLOURS[0], COLOURS[1]
DEEPEST = 0.7  # opacity of a full shade: dark text on white and light text on black stay readable
SMALLEST = 1e-300  # on a logarithmic axis


@dataclass(frozen=True)
class Series:
    """Points to be joined (`line`, `step`), dotted (`points`), or bars over the intervals between len(y) + 1
    edges x (`bars`)."""

    name: str
    x: list[float]
    y: list[float]
    kind: str = "line"
    colour: int | None = None  # place among the colours; None: that of the series in the chart
    errors: list[float] | None = None  # half the length of the error bar of each point

    def corners(self) -> list[tuple[float, float]]:
        """The points; of a step function, which takes each y from its x on, with the corners between them."""
        points = list(zip(self.x, self.y, strict=True))
        corners = points[:1]
        for x, y in points[1:]:
            corners += [(x, corners[-1][1]), (x, y)] if self.kind == "step" else [(x, y)]
        return corners


@dataclass(frozen=True)
class Regions:
    """A plane cut into cells: `codes[row][column]` is the colour of a cell, from the lower left corner on;
    `depths` are 0 to 2, the palest to the deepest shade of this colour."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    codes: list[list[int]]
    depths: list[list[int]]

    def runs(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Cells of one row that look alike, together: row, first column, end, code, depth."""
        for row, (codes, depths) in enumerate(zip(self.codes, self.depths, strict=True)):
            begin = 0
            cells = list(zip(codes, depths, strict=True))
            for column in range(1, len(cells) + 1):
                if column == len(cells) or cells[column] != cells[begin]:
                    yield row, begin, column, *cells[begin]
                    begin = column


@dataclass(frozen=True)
class Chart:
    """One picture with axes."""

    title: str
    x_label: str
    y_label: str
    series: list[Series]
    x_log: bool = False
    y_log: bool = False
    marks: list[tuple[float, str]] = field(default_factory=list)  # vertical lines: place, name
    bands: list[tuple[float, float, str]] = field(default_factory=list)  # shaded: from, to, name
    guides: list[Series] = field(default_factory=list)  # dashed lines to compare with, such as chance
    regions: Regions | None = None  # behind everything
    square: bool = False  # both axes equally long
    y_range: tuple[float, float] | None = None  # instead of what the values need

    def data(self) -> dict[str, Any]:
        """The numbers, as JSON can hold them."""
        series: list[dict[str, Any]] = []
        for one in self.series:
            series.append({"name": one.name, "x": list(one.x), "y": list(one.y)})
            if one.errors is not None:
                series[-1]["errors"] = list(one.errors)
        result: dict[str, Any] = {"title": self.title, "x": self.x_label, "y": self.y_label, "series": series}
        if self.regions is not None:
            result["regions"] = asdict(self.regions)
        return result

    def numbered(self) -> list[tuple[int, Series]]:
        """Every series with its place among the colours (or symbols)."""
        return [(k if one.colour is None else one.colour, one) for k, one in enumerate(self.series)]

    def legend(self) -> list[tuple[int, str]]:
        """Place and name of the series that have a name, where that tells them apart."""
        named = [(place, series.name) for place, series in self.numbered() if series.name]
        return named if len(named) > 1 else []

    def x_axis(self) -> Axis:
        values = [value for series in [*self.series, *self.guides] for value in series.x]
        values += [place for place, _ in self.marks]
        values += [edge for low, high, _ in self.bands for edge in (low, high)]
        return Axis.over(values, self.x_log) if self.regions is None else Axis.within(*self.regions.x_range)

    def y_axis(self) -> Axis:
        values = [value for series in [*self.series, *self.guides] for value in series.y]
        for series in self.series:
            for value, error in zip(series.y, series.errors or [], strict=False):
                values += [value - error, value + error]
        if any(series.kind == "bars" for series in self.series):
            values += [0.0, 1.1 * max(values)] if self.bands else [0.0]  # room for the band's name
        wanted = self.y_range if self.regions is None else self.regions.y_range
        return Axis.over(values, self.y_log) if wanted is None else Axis.within(*wanted)


@dataclass(frozen=True)
class Matrix:
    """A table of cells: `shades` are -1 to 1 (0 is the colour of the page), `texts` stand in the cells."""

    title: str
    x_label: str
    y_label: str
    columns: list[str]
    rows: list[str]
    values: list[list[float]]
    shades: list[list[float]]
    texts: list[list[str]]
    mark: tuple[int, int] | None = None  # a cell with a frame: row, column

    def data(self) -> dict[str, Any]:
        """The numbers, as JSON can hold them."""
        values = [[value if math.isfinite(value) else None for value in row] for row in self.values]
        return {
            "title": self.title,
            "x": self.x_label,
            "y": self.y_label,
            "columns": self.columns,
            "rows": self.rows,
            "values": values,
        }

    def hint(self, row: int, column: int) -> str:
        """What a cell says in words."""
        words = f"{self.y_label} {self.rows[row]}, {self.x_label} {self.columns[column]}"
        return f"{words}: {self.texts[row][column]}"


@dataclass(frozen=True)
class Bars:
    """Named bars from 0 to the right or to the left."""

    title: str
    x_label: str
    names: list[str]
    values: list[float]

    def data(self) -> dict[str, Any]:
        """The numbers, as JSON can hold them."""
        return {"title": self.title, "x": self.x_label, "names": self.names, "values": self.values}


Picture = Chart | Matrix | Bars


@dataclass(frozen=True)
class Axis:
    """From numbers to places between 0 and 1, with ticks at round numbers."""

    low: float
    high: float
    log: bool
    ticks: list[float]

    @classmethod
    def over(cls, values: list[float], log: bool) -> Axis:
        shown = [value for value in values if math.isfinite(value) and (value >= SMALLEST or not log)]
        low, high = (min(shown), max(shown)) if shown else (0.1, 1.0)
        if log:
            first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
            last = max(last, first + 1)
            stride = max(1, math.ceil((last - first) / 6))
            ticks = [10.0**power for power in range(first, last + 1, stride)]
            return cls(10.0**first, 10.0**last, True, ticks)
        if high - low > 1e300:
            raise ParameterError(f"values from {low:g} to {high:g} are too far apart to be drawn")
        if high - low <= 1e-12 * max(abs(low), abs(high), 1e-280):  # as good as one value
            room = 0.5 * max(abs(low), abs(high)) or 0.5
            low, high = low - room, high + room
        step = round_step((high - low) / 6)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        ticks = [place * step for place in range(first, last + 1)]
        return cls(ticks[0], ticks[-1], False, ticks)

    @classmethod
    def within(cls, low: float, high: float) -> Axis:
        """Exactly from low to high, with round ticks inside."""
        wider = cls.over([low, high], False)
        return cls(low, high, False, [tick for tick in wider.ticks if low <= tick <= high])

    def place(self, value: float) -> float:
        """0 at the lower end, 1 at the upper; nan where a value has no place."""
        if not math.isfinite(value) or (self.log and value < SMALLEST):
            return math.nan
        if self.log:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)

    def label(self, tick: float) -> str:
        if self.log:
            power = round(math.log10(tick))
            return f"{tick:g}" if -3 <= power <= 4 else f"1e{power}"
        return f"{round(tick, 12):g}"


def round_step(raw: float) -> float:
    """The nearest of 1, 2, 2.5, 5 times a power of ten that is not below.

    >>> round_step(0.13), round_step(34)
    (0.2, 50.0)
    """
    power = 10.0 ** math.floor(math.log10(raw))
    return power * next(step for step in (1, 2, 2.5, 5, 10) if step * power >= raw * 0.999)
