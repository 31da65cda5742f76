"""The result file of a search: a line per point, in the form of LIBSVM's grid.py.

    # odm-grid data=1c291ca3 machine=odm kernel=rbf folds=5 ...
    log2c=5 log2g=-7 rate=76.3
    log2c=5 log2g=-7 nu=0.5 theta=0.2 rate=76.4

grid.py can go on from our files, and we from its. The first line says what the rates belong to; files
without one are believed.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from typing import Any

from odmlib.data.problem import Problem
from odmlib.errors import DataFormatError
from odmlib.options import TrainOptions, option_fields
from odmlib.selection.grid import AXES, POWERS, GridPoint, GridResult, on_axis

HEAD = "# odm-grid"
NAMES = {"C": "log2c", "gamma": "log2g", "lambda1": "log2lambda1", "lambda2": "log2lambda2"}
# what does not change a rate (beyond its last digits)
NEUTRAL = {"cache_mb", "threads", "time_limit", "callback", "init", "probability", "shrinking", "solver"}


def head_line(problem: Problem, options: TrainOptions, axes: Iterable[str], validation: str) -> str:
    """What the rates belong to: the data by a checksum, and every option that is not the default."""
    rows = problem.rows
    data = 0
    given = problem.codes if problem.targets is None else problem.targets
    for array in (rows.indptr, rows.indices, rows.values, given, problem.weights):
        data = zlib.crc32(array.tobytes(), data)
    words = [f"data={data:08x}", f"machine={options.machine}", f"kernel={options.kernel}", validation]
    for option in option_fields():
        value, default = getattr(options, option.name), options.default_of(option.name)
        told = option.name in ("machine", "kernel", "class_weight", "sample_weight") or option.name in axes
        if not told and option.name not in NEUTRAL and value is not None and value != default:
            words.append(f"{option.name}={value}")
    return f"{HEAD} {' '.join(words)}\n"


def point_line(point: GridPoint) -> str:
    return f"{shown_parameters(point)} rate={point.rate:.6g}\n"


def shown_parameters(point: GridPoint) -> str:
    return " ".join(
        f"{NAMES.get(name, name)}={_number(name, point.parameters[name])}"
        for name in AXES
        if name in point.parameters
    )


def _number(name: str, value: float) -> str:
    """Without an exponent, which grid.py would not understand."""
    text = f"{on_axis(name, value):.9f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def read_points(path: str, most: float = 100.0) -> tuple[str | None, list[GridPoint]]:
    """The first line (None where it is not ours) and the points of a result file.

    `most`: the largest rate that makes sense. A last line without an end was cut short while it was written:
    it does not count.
    """
    with open(path, "rb") as stream:
        lines = stream.read().split(b"\n")[:-1]
    head, points = None, []
    for number, raw in enumerate(lines, 1):
        line = raw.decode("utf-8", "replace").strip()
        if number == 1 and line.startswith(HEAD):
            head = line + "\n"
        elif line and not line.startswith("#"):
            points.append(_read_point(line, path, number, most))
    return head, points


def read_search(path: str) -> GridResult:
    """A result file as the result of a search."""
    head, points = read_points(path, math.inf)
    lower_is_better = " machine=odmr " in (head or "")
    axes = {
        name: sorted({point.parameters[name] for point in points})
        for name in AXES
        if points and all(name in point.parameters for point in points)
    }
    if not axes:
        raise DataFormatError("expected lines such as log2c=5 log2g=-7 rate=76.3, found none", path)
    result = GridResult(axes, len(points), lower_is_better=lower_is_better)
    for point in points:
        result.add(point)
    return result


def _read_point(line: str, path: str, number: int, most: float) -> GridPoint:
    parameters: dict[str, float] = {}
    rate = None
    axis_of = {NAMES.get(name, name): name for name in AXES}
    for word in line.split():
        name, _, text = word.partition("=")
        try:
            value = float(text)
            if name == "rate":
                rate = value
            else:
                parameters[axis_of[name]] = _parameter(axis_of[name], value)
        except (KeyError, ValueError, OverflowError):
            raise DataFormatError(
                f"expected log2c=..., log2g=..., rate=..., found '{word}'", path, number
            ) from None
    if rate is None or not 0 <= rate <= most:
        raise DataFormatError("expected a line that ends in rate=PERCENT", path, number)
    return GridPoint(parameters, rate, resumed=True)


def _parameter(name: str, value: float) -> float:
    """A parameter from its value on the axis; ValueError where no search could have tried it."""
    parameter = 2.0**value if name in POWERS else value
    if not math.isfinite(parameter) or (name in POWERS and parameter == 0):
        raise ValueError
    return parameter


class ResultFile:
    """A result file that grows by a whole line per point. Whoever looks sees no half-written line, and a
    process that is killed loses nothing but the point at work."""

    def __init__(self, path: str, head: str, known: Iterable[GridPoint] = ()):
        from odmlib.data.files import open_output

        with open_output(path, text=True) as stream:
            stream.write(head)
            stream.writelines(point_line(point) for point in known)
        self._stream: Any = open(path, "ab", buffering=0)  # noqa: SIM115 (open as long as the search runs)
        self.path = path

    def add(self, point: GridPoint) -> None:
        try:
            self._stream.write(point_line(point).encode())
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from None

    def close(self) -> None:
        self._stream.close()
