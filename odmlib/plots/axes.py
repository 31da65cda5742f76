"""Pictures on matplotlib's Axes: one function per kind of odm-plot, for notebooks and scripts.

`models` is a Model, an estimator of odmlib.sklearn, or several of them: a mapping by name, or a list, where
each is named after its machine. Every function draws on `ax`, or on new Axes of pyplot, and returns them;
without matplotlib it raises OdmError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odmlib._core.arrays import Floats
from odmlib.errors import ParameterError
from odmlib.model.model import Model
from odmlib.plots import figures, inside, quality
from odmlib.plots.picture import draw

if TYPE_CHECKING:
    from odmlib.selection.grid import GridResult


def plot_margins(models: Any, X: Any, y: Any, relative: bool = False, ax: Any = None) -> Any:
    """Cumulative margin distribution of one or several models."""
    return draw(figures.margin_distribution(_margins(models, X, y), relative), ax)


def plot_histogram(model: Any, X: Any, y: Any, bins: int = figures.BINS, ax: Any = None) -> Any:
    """Histogram of a model's margins; the band of margins without loss is shaded."""
    name, model = _one(model)
    margins = {name: model.margins(X, y)}
    return draw(figures.margin_histograms(margins, bins, band=inside.band_of(model.parameters))[0], ax)


def plot_roc(models: Any, X: Any, y: Any, positive: Any = None, ax: Any = None) -> Any:
    """True against false positive rate; `positive` is the label that is looked for."""
    return draw(quality.roc_chart(_evaluations(models, X, y), positive), ax)


def plot_pr(models: Any, X: Any, y: Any, positive: Any = None, ax: Any = None) -> Any:
    """Precision against recall; `positive` is the label that is looked for."""
    return draw(quality.pr_chart(_evaluations(models, X, y), positive), ax)


def plot_confusion(model: Any, X: Any, y: Any, normalize: bool = False, ax: Any = None) -> Any:
    """Rows by their label and the predicted one; normalize: in percent of the label's rows."""
    name, model = _one(model)
    quality.check_kind(name, model, targets=False)
    return draw(quality.confusion_matrix(model.evaluate(X, y), name, normalize), ax)


def plot_calibration(
    models: Any, X: Any, y: Any, bins: int = quality.RELIABILITY_BINS, positive: Any = None, ax: Any = None
) -> Any:
    """Observed frequency against predicted probability; the models need probability=True."""
    return draw(quality.calibration_chart(_evaluations(models, X, y), bins, positive), ax)


def plot_predictions(models: Any, X: Any, y: Any, ax: Any = None) -> Any:
    """Predicted against true targets, of one or several models of regression."""
    return draw(quality.prediction_chart(_evaluations(models, X, y, targets=True)), ax)


def plot_boundary(model: Any, X: Any, y: Any, columns: Sequence[int] = (1, 2), ax: Any = None) -> Any:
    """The regions of a model in the plane of two columns (counted from 1), and the rows."""
    name, model = _one(model)
    return draw(inside.boundary_chart(model, X, y, columns, name), ax)


def plot_weights(model: Any, top: int = inside.TOP_WEIGHTS, ax: Any = None) -> Any:
    """The largest weights of a linear machine."""
    name, model = _one(model)
    return draw(inside.weight_picture(model, top, name), ax)


def plot_tune(result: GridResult, ax: Any = None) -> Any:
    """The accuracies of `odmlib.grid_search`."""
    return draw(inside.tune_picture(result), ax)


def plot_accuracy(
    X: Any,
    y: Any,
    over: str = "lambda_",
    values: Sequence[float] = (),
    folds: int = 5,
    ax: Any = None,
    **options: Any,
) -> Any:
    """Cross-validated accuracy, with error bars, for each value of an option of `odmlib.train`."""
    return draw(figures.accuracy_curve(X, y, over, values, folds, **options), ax)


def plot_convergence(reports: Mapping[str, Any], ax: Any = None) -> Any:
    """Relative duality gap against time: a report of odm-train --json, or several by name."""
    return draw(figures.convergence({"": reports} if "trace" in reports else reports), ax)


def _by_name(models: Any) -> dict[str, Model]:
    """Models by name; those without one have the name of their machine. Estimators give the model inside."""
    if isinstance(models, Mapping):
        return {name: _inner(model) for name, model in models.items()}
    named: dict[str, Model] = {}
    for model in models if isinstance(models, list | tuple) else [models]:
        inner = _inner(model)
        same = sum(name.split()[0] == inner.machine for name in named)
        named[f"{inner.machine} {same + 1}" if same else inner.machine] = inner
    return named


def _one(models: Any) -> tuple[str, Model]:
    """The name and the model of a picture of a single one."""
    named = _by_name(models)
    if len(named) != 1:
        raise ParameterError(f"this picture shows one model, found {len(named)}")
    return next(iter(named.items()))


def _inner(model: Any) -> Model:
    found = getattr(model, "model_", model)
    if not isinstance(found, Model):
        kind = type(model).__name__
        given = f"{kind}, which is not fitted" if hasattr(model, "fit") else kind
        raise ParameterError(f"expected a Model or a fitted estimator of odmlib.sklearn, found {given}")
    return found


def _evaluations(models: Any, X: Any, y: Any, targets: bool = False) -> dict[str, Any]:
    """Of models of one kind, of classes or of targets."""
    named = _by_name(models)
    for name, model in named.items():
        quality.check_kind(name, model, targets)
    return {name: model.evaluate(X, y) for name, model in named.items()}


def _margins(models: Any, X: Any, y: Any) -> dict[str, Floats]:
    return {name: model.margins(X, y) for name, model in _by_name(models).items()}
