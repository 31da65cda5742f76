"""Pictures of predictions for rows with known labels: ROC, precision and recall, confusion, calibration.

All of them take evaluations by name: `{"odm": model.evaluate(X, y)}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.errors import ParameterError
from odmlib.model.evaluation import Evaluation, Ranking, TargetEvaluation
from odmlib.model.regression import r_squared
from odmlib.plots.chart import Chart, Matrix, Series
from odmlib.plots.figures import thinned

MOST_CLASSES = 7  # that have curves of their own; of more, those that are ranked worst
GRID = np.linspace(0, 1, 501)  # where curves of several classes are averaged
RELIABILITY_BINS = 10
MOST_POINTS = 1000  # of predictions that are drawn

if TYPE_CHECKING:
    from odmlib.model.model import Model

Evaluations = Mapping[str, Evaluation]


def roc_chart(evaluations: Evaluations, positive: Any = None, on: str = "") -> Chart:
    """True against false positive rate; the area under the curve stands in the legend.

    Two classes, or a `positive` label: a curve per model. More: the average over the classes, and for a
    single model the curves of the classes, too.
    """
    curves = _curves(evaluations, positive, Ranking.auc, Ranking.roc)
    guide = Series("chance", [0.0, 1.0], [0.0, 1.0])
    title = _title("ROC", "AUC", evaluations, positive, on, curves)
    return Chart(title, "false positive rate", "true positive rate", curves, guides=[guide], square=True)


def pr_chart(evaluations: Evaluations, positive: Any = None, on: str = "") -> Chart:
    """Precision against recall; the average precision (AP) stands in the legend. Curves as in `roc_chart`."""
    curves = _curves(evaluations, positive, Ranking.average_precision, _precision_curve)
    title = _title("precision and recall", "AP", evaluations, positive, on, curves)
    return Chart(title, "recall", "precision", curves, square=True, y_range=(0.0, 1.0))


def _title(
    what: str, number: str, evaluations: Evaluations, positive: Any, on: str, curves: list[Series]
) -> str:
    first = next(iter(evaluations.values()))
    names = first.names
    if len(names) == 2 or positive is not None:
        place = first.positive(positive)
        rest = names[1 - place] if len(names) == 2 else "the rest"
        about = f"class {names[place]} against {rest}"
    else:
        about = f"{len(names)} classes, each against the rest"
    if len(curves) == 1:  # which has no legend
        number += curves[0].name.rpartition(":")[2]
    return f"{what}{' on ' + on if on else ''}: {about} ({number})"


def _precision_curve(ranking: Ranking) -> tuple[Floats, Floats]:
    """From recall 0 on, with the precision of the first threshold."""
    recall, precision = ranking.precision_recall()
    return np.concatenate([[0.0], recall]), np.concatenate([precision[:1], precision])


def _curves(evaluations: Evaluations, positive: Any, area: Any, curve: Any) -> list[Series]:
    series = []
    for place, (name, evaluation) in enumerate(evaluations.items()):
        if len(evaluation.labels) == 2 or positive is not None:
            ranking = evaluation.ranking(evaluation.positive(positive))
            series.append(_curve(name, area(ranking), curve(ranking), place))
            continue
        rankings = {c: evaluation.ranking(c) for c in evaluation.present()}
        if not rankings:
            raise ParameterError(f"{name}: all rows have one label: there is nothing to rank")
        areas = {c: area(ranking) for c, ranking in rankings.items()}
        mean = np.mean([np.interp(GRID, *curve(ranking)) for ranking in rankings.values()], axis=0)
        average = f"{name}, average" if len(evaluations) > 1 else "average"
        series.append(_curve(average, float(np.mean(list(areas.values()))), (GRID, mean), place))
        if len(evaluations) == 1:
            worst = sorted(areas, key=areas.__getitem__)[:MOST_CLASSES]
            named = [c for c in rankings if c in worst]
            labels = evaluation.names
            series += [
                _curve(f"class {labels[c]}", areas[c], curve(rankings[c]), 1 + k) for k, c in enumerate(named)
            ]
    return series


def _curve(name: str, area: float, points: tuple[Floats, Floats], colour: int) -> Series:
    x, y = thinned(*points)
    return Series(f"{name}: {area:.3f}", x.tolist(), y.tolist(), colour=colour)


def confusion_matrix(evaluation: Evaluation, name: str = "", normalize: bool = False, on: str = "") -> Matrix:
    """Rows by their label (down) and the predicted one (across), shaded by the part of the label's rows.

    normalize: the cells say percent of the rows with this label.
    """
    order = evaluation.order
    counts = evaluation.counts()[np.ix_(order, order)]
    parts = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    shades = np.where(np.eye(len(order), dtype=bool), 1.0, -1.0) * np.sqrt(parts)  # few errors are seen, too
    if normalize:
        texts = [[_percent(part) for part in row] for row in parts.tolist()]
    else:
        texts = [[f"{count:d}" for count in row] for row in counts.tolist()]
    names = [evaluation.names[c] for c in order]
    wrong = int(counts.sum() - np.trace(counts)) + evaluation.n_unknown
    head = f"{name}: " if name else ""
    title = f"{head}{wrong:,} of {evaluation.n_rows:,} rows wrong{' on ' + on if on else ''}"
    values = (100 * parts if normalize else counts).astype(float).tolist()
    return Matrix(title, "predicted", "label", names, names, values, shades.tolist(), texts)


def _percent(part: float) -> str:
    return "0" if part == 0 else f"{100 * part:.0f}" if part >= 0.01 else "<1"


def calibration_chart(
    evaluations: Evaluations, bins: int = RELIABILITY_BINS, positive: Any = None, on: str = ""
) -> Chart:
    """Observed frequency against predicted probability, in bins of equal width.

    Two classes, or a `positive` label: the probability of this label. More: the probability of the predicted
    label, against how often it is right. Error bars are one standard error of a bin's frequency.
    """
    series, binary = [], True
    for name, evaluation in evaluations.items():
        if evaluation.probabilities is None:
            none = f"{name}: the model holds no probabilities; train it with"
            raise ParameterError(f"{none} probability=True", shell=f"{none} odm-train -b 1")
        binary = len(evaluation.labels) == 2 or positive is not None
        if binary:
            place = evaluation.positive(positive)
            claimed, true = evaluation.probabilities[:, place], evaluation.codes == place
        else:
            claimed = evaluation.probabilities.max(axis=1)
            true = evaluation.codes == evaluation.probabilities.argmax(axis=1)
        x, y, errors, gap = reliability(claimed, true, bins)
        series.append(Series(f"{name}: {100 * gap:.1f} % off", x, y, errors=errors))
    first = next(iter(evaluations.values()))
    about = f"class {first.names[first.positive(positive)]}" if binary else "predicted labels"
    off = f" ({series[0].name.rpartition(': ')[2]})" if len(series) == 1 else ""
    title = f"calibration of {about}{' on ' + on if on else ''}{off}"
    guide = Series("perfect", [0.0, 1.0], [0.0, 1.0])
    label = "part of the rows with this label" if binary else "part of the rows that are right"
    return Chart(
        title, "predicted probability", label, series, guides=[guide], square=True, y_range=(0.0, 1.0)
    )


def check_kind(name: str, model: Model, targets: bool = False) -> None:
    """Pictures are about classes, or about the targets of a regression."""
    if model.is_regression and not targets:
        raise ParameterError(
            f"{name}: this picture is about classes, and a model of regression has none; "
            "predictions, margins and histogram draw its errors"
        )
    if targets and not model.is_regression:
        raise ParameterError(f"{name}: this picture is about targets, and a model of classes has none")


def prediction_chart(evaluations: Mapping[str, TargetEvaluation], on: str = "") -> Chart:
    """Predicted against true targets; R^2 stands in the legend. At most MOST_POINTS rows are drawn, spread
    evenly. A single model of several outputs has points of their own for each output."""
    series, limits = [], []
    for name, one in evaluations.items():
        step = max(1, -(-one.n_rows // MOST_POINTS))
        outputs = one.targets.shape[1]
        each = range(outputs) if len(evaluations) == 1 and outputs > 1 else (slice(None),)
        for output in each:
            targets, predicted = one.targets[:, output], one.predicted[:, output]
            title = f"output {output + 1}" if isinstance(output, int) else name
            fit = r_squared(predicted.reshape(len(targets), -1), targets.reshape(len(targets), -1))
            x, y = (part[::step].ravel().tolist() for part in (targets, predicted))
            series.append(Series(f"{title}: {fit:.3f}", x, y, "points"))
            limits += [float(targets.min()), float(targets.max())]
    guide = Series("perfect", [min(limits), max(limits)], [min(limits), max(limits)])
    alone = series[0].name.rpartition(":")[2] if len(series) == 1 else ""  # which has no legend
    title = f"predictions{' on ' + on if on else ''}: R^2{alone}"
    return Chart(title, "target", "prediction", series, guides=[guide])


def reliability(claimed: Floats, true: Any, bins: int) -> tuple[list[float], list[float], list[float], float]:
    """Of each bin with rows: mean probability, frequency, standard error of it; and the mean distance of
    the two over all rows (expected calibration error).

    >>> reliability(np.array([0.1, 0.1, 0.9, 0.9]), np.array([0, 0, 1, 0]), 10)[:2]
    ([0.1, 0.9], [0.0, 0.5])
    """
    places = np.minimum((claimed * bins).astype(np.int64), bins - 1)
    counts = np.bincount(places, minlength=bins)
    filled = counts > 0
    n = counts[filled]
    mean = np.bincount(places, claimed, bins)[filled] / n
    part = np.bincount(places, np.asarray(true, dtype=np.float64), bins)[filled] / n
    smoothed = (part * n + 1) / (n + 2)  # a bin of one row is not certain
    errors = np.sqrt(smoothed * (1 - smoothed) / n)
    gap = float(np.sum(n * np.abs(mean - part)) / n.sum())
    return mean.tolist(), part.tolist(), errors.tolist(), gap
