"""Pictures of what a model has learned: its regions in the plane, its weights, and the search before it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Floats
from odmlib.data.dataset import Dataset
from odmlib.data.labels import python_label
from odmlib.errors import ParameterError
from odmlib.model.functions import LinearFunction
from odmlib.model.schemes import class_pairs, margins_of
from odmlib.plots.chart import Bars, Chart, Matrix, Regions, Series
from odmlib.plots.quality import check_kind
from odmlib.selection.heat_map import TITLES, rate_table, shown_range, unit_of

if TYPE_CHECKING:
    from odmlib.model.model import Model
    from odmlib.selection.grid import GridResult

CELLS = (144, 96)  # of the plane, across and down
MOST_POINTS = 1000  # drawn on regions
TOP_WEIGHTS = 15


def band_of(parameters: Any) -> tuple[float, float] | None:
    """The margins without loss, [1 - theta, 1 + theta], of machines that have such a band."""
    theta = parameters.get("theta")
    return None if theta is None else (1 - float(theta), 1 + float(theta))


def boundary_chart(
    model: Model,
    X: Any,
    y: Any,
    columns: Sequence[int] = (1, 2),
    name: str = "",
    cells: tuple[int, int] = CELLS,
    threads: int | None = None,
) -> Chart:
    """The label that the model predicts over the plane of two columns (counted from 1), and the rows.

    Other columns are held at their median over the rows. The deepest strip is the band of margins that cost
    nothing, where the machine has one; the palest part is nearer to the border.
    """
    check_kind(name or model.machine, model)
    rows = Dataset.from_any(X).with_features(model.n_features)
    if model.formula.name == "precomputed":
        raise ParameterError("a precomputed kernel has no columns to draw")
    pair = _checked_pair(columns, model.n_features)
    middle, (x, y_values) = _medians(rows), (_column(rows, place) for place in pair)
    x_range, y_range = _with_room(x), _with_room(y_values)
    across, down = (_centres(low_high, n) for low_high, n in zip((x_range, y_range), cells, strict=True))
    codes, depths = [], []
    for height in down:  # a line at a time: rows of a wide model are never all in memory
        plane = np.repeat(middle[None, :], len(across), axis=0)
        plane[:, pair[0]], plane[:, pair[1]] = across, height
        scores = model.decision_function(plane, threads).reshape(len(across), -1)
        winner = model.positions_for(scores)
        margins = margins_of(model.scheme, scores, winner, model.n_classes)
        codes.append(winner.tolist())
        depths.append(_depths(margins, band_of(model.parameters)).tolist())
    regions = Regions(x_range, y_range, codes, depths)
    held = f"; {model.n_features - 2} other columns at their median" if model.n_features > 2 else ""
    title = f"{name or model.machine}, {model.formula.name} kernel{held}"
    x_label, y_label = (_column_name(model, place) for place in pair)
    return Chart(
        title, x_label, y_label, _class_points(model, x, y_values, np.asarray(y).ravel()), regions=regions
    )


def _checked_pair(columns: Sequence[int], n_features: int) -> tuple[int, int]:
    if n_features < 2:
        raise ParameterError("a boundary needs data of at least two columns")
    if len(columns) != 2 or columns[0] == columns[1] or not all(1 <= c <= n_features for c in columns):
        raise ParameterError(f"expected two different columns from 1 to {n_features}, found {tuple(columns)}")
    return columns[0] - 1, columns[1] - 1


def _medians(rows: Dataset) -> Floats:
    """Of every column: 0 where most rows have no value."""
    medians = np.zeros(rows.n_features)
    often = np.flatnonzero(2 * np.bincount(rows.indices, minlength=rows.n_features) >= rows.n_rows)
    for place in often.tolist():
        medians[place] = np.median(_column(rows, place))
    return medians


def _column(rows: Dataset, place: int) -> Floats:
    values = np.zeros(rows.n_rows)
    found = np.flatnonzero(rows.indices == place)
    values[rows.row_of_each()[found]] = rows.values[found]
    return values


def _with_room(values: Floats) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    room = 0.06 * (high - low) or 0.5
    return low - room, high + room


def _centres(ends: tuple[float, float], n: int) -> Floats:
    return ends[0] + (np.arange(n) + 0.5) * (ends[1] - ends[0]) / n


def _depths(margins: Floats, band: tuple[float, float] | None) -> NDArray:
    low, high = band or (1.0, math.inf)
    return np.where(margins < low, 0, np.where(margins <= high, 2, 1))


def _class_points(model: Model, x: Floats, y: Floats, labels: NDArray) -> list[Series]:
    """At most MOST_POINTS rows, spread evenly, in the colours of their classes."""
    step = max(1, math.ceil(len(x) / MOST_POINTS))
    codes = model.codes_of(labels)[::step]
    x, y = x[::step], y[::step]
    return [
        Series(f"class {python_label(label)}", x[codes == c].tolist(), y[codes == c].tolist(), "points", c)
        for c, label in enumerate(model.labels)
    ]


def weight_picture(model: Model, top: int = TOP_WEIGHTS, name: str = "") -> Bars | Matrix:
    """The largest weights of a linear machine: bars for two classes, a column of cells per class for more.

    With two classes positive weights speak for the larger label. One-vs-one machines have a weight per pair:
    a class gets the mean of its pairs.
    """
    weights, columns = class_weights_of(model)
    size = np.abs(weights).max(axis=1)
    largest = np.argsort(-size, kind="stable")[:top]
    names = [_column_name(model, int(columns[place])) for place in largest]
    head = f"{name or model.machine}: " if len(weights) else ""
    title = f"{head}largest {len(largest)} of {len(columns)} weights"
    if model.n_classes == 2:
        place = int(np.argmax(model.labels))
        label = f"weight (positive: for class {python_label(model.labels[place])})"
        return Bars(title, label, names, weights[largest, place].tolist())
    order = np.argsort(model.labels, kind="stable")
    cells = weights[np.ix_(largest, order)]
    most = float(np.abs(cells).max(initial=0.0)) or 1.0
    labels = [str(python_label(model.labels[c])) for c in order]
    unit = 10.0 ** math.floor(math.log10(most))
    title += "" if unit == 1 else f", in units of {unit:g}"
    texts = [[f"{value:.1f}" for value in row] for row in (cells / unit).tolist()]
    return Matrix(title, "class", "column", labels, names, cells.tolist(), (cells / most).tolist(), texts)


def class_weights_of(model: Model) -> tuple[Floats, NDArray]:
    """(columns x classes) weights for each class, and the columns (from 0) they belong to."""
    function = model.function
    if not isinstance(function, LinearFunction):
        raise ParameterError(
            f"weights are those of a linear machine; this one has the {model.formula.name} kernel"
        )
    outputs, k = function.weights, model.n_classes
    if model.scheme == "binary":
        return np.stack([outputs[:, 0], -outputs[:, 0]], axis=1), function.columns
    if model.scheme != "ovo":
        return outputs, function.columns
    weights = np.zeros((len(outputs), k))
    for output, (first, second) in enumerate(zip(*class_pairs(k), strict=True)):
        weights[:, first] += outputs[:, output] / (k - 1)
        weights[:, second] -= outputs[:, output] / (k - 1)
    return weights, function.columns


def _column_name(model: Model, place: int) -> str:
    """What the training data call the column, else its number in the file."""
    names = getattr(model, "columns", None)
    return str(names[place]) if names is not None else f"column {place + (not model.zero_based)}"


def tune_picture(result: GridResult, title: str = "") -> Matrix | Chart:
    """Rates of a grid: cells for two parameters, a curve for one; the best has a frame."""
    if not result.points:
        raise ParameterError("the search holds no points")
    (across, columns), down, table = rate_table(result)
    best, worst = shown_range(result, table)
    unit = unit_of(result)
    title = f"{title + ': ' if title else ''}best {best:g}{unit}"
    x_label = TITLES.get(across, across)
    if down is None:
        known = [(x, rate) for x, rate in zip(columns, table[0].tolist(), strict=True) if math.isfinite(rate)]
        if not known:
            raise ParameterError("no point of the search has a finite rate")
        xs, ys = ([point[k] for point in known] for k in (0, 1))
        y_label = "accuracy in %" if unit else "mean squared error"
        return Chart(title, x_label, y_label, [Series("", xs, ys)], marks=[(xs[ys.index(best)], "")])
    table = table[::-1]  # the largest value above, as on an axis
    shades = np.zeros_like(table)
    finite = np.isfinite(table)
    if math.isfinite(best):
        worst = worst if math.isfinite(worst) else max(table[finite])
        shades[finite] = np.clip((table[finite] - worst) / ((best - worst) or 1.0), 0.0, 1.0)
    texts = [["" if math.isnan(rate) else f"{rate:.3g}" for rate in row] for row in table.tolist()]
    row, column = (int(place[0]) for place in np.nonzero(table == best))
    names = [[f"{value:g}" for value in values] for values in (columns, down[1][::-1])]
    return Matrix(
        title,
        x_label,
        TITLES.get(down[0], down[0]),
        names[0],
        names[1],
        table.tolist(),
        shades.tolist(),
        texts,
        (row, column),
    )
