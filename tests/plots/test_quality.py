"""Pictures of predictions and of models: their numbers against plain computations, and every renderer."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from sklearn import metrics
from sklearn.calibration import calibration_curve

import odmlib
from odmlib.plots.chart import Bars, Chart, Matrix
from odmlib.plots.inside import band_of, boundary_chart, class_weights_of, tune_picture, weight_picture
from odmlib.plots.picture import save_picture
from odmlib.plots.quality import calibration_chart, confusion_matrix, pr_chart, roc_chart
from odmlib.plots.svg import svg_document, svg_element
from odmlib.plots.text import text_chart
from odmlib.selection.grid import GridPoint, GridResult

RANDOM = np.random.default_rng(3)


def made(n_classes: int = 2, n: int = 150, width: int = 3, **options):
    X = RANDOM.normal(size=(n, width))
    y = np.digitize(X[:, 0] + 0.5 * RANDOM.normal(size=n), np.linspace(-1.5, 1.5, n_classes + 1)[1:-1])
    return odmlib.train(X, y, **options), X, y


@pytest.fixture(scope="module")
def two():
    model, X, y = made(probability=True)
    return {
        "odm": model.evaluate(X, y),
        "svm": odmlib.train(X, y, machine="svm", probability=True).evaluate(X, y),
    }


def test_roc_and_precision(two):
    for chart, area in (
        (roc_chart(two), metrics.roc_auc_score),
        (pr_chart(two), metrics.average_precision_score),
    ):
        for series, found in zip(chart.series, two.values(), strict=True):
            place = found.positive()
            wanted = area(found.codes == place, found.class_scores[:, place])
            assert series.name.endswith(f": {wanted:.3f}")
            assert series.x[-1] == 1 and min(series.x) == 0
    assert "class 1 against 0" in roc_chart(two, on="t").title
    one = {"odm": two["odm"]}
    assert roc_chart(one).legend() == [] and "(AUC 0." in roc_chart(one).title
    turned = roc_chart(one, positive=0)  # the mirror image
    assert "class 0 against 1" in turned.title
    assert turned.title[-6:] == roc_chart(one).title[-6:]


def test_curves_of_many_classes():
    model, X, y = made(12, n=600)
    found = model.evaluate(X, y)
    chart = roc_chart({"odm": found})
    areas = {c: found.ranking(c).auc() for c in found.present()}
    assert chart.series[0].name == f"average: {np.mean(list(areas.values())):.3f}"
    assert len(chart.series) == 8  # and the worst of the classes
    worst = found.names[min(areas, key=areas.get)]
    assert any(series.name.startswith(f"class {worst}:") for series in chart.series)
    assert [s.name.partition(",")[0] for s in roc_chart({"a": found, "b": found}).series] == ["a", "b"]
    one = roc_chart({"odm": found}, positive=3).series
    assert [series.name for series in one] == [f"odm: {areas[found.positive(3)]:.3f}"]


def test_one_label_cannot_be_ranked():
    model, X, y = made(3)
    found = model.evaluate(X[y == 1], y[y == 1])
    with pytest.raises(odmlib.ParameterError, match="nothing to rank"):
        roc_chart({"odm": found})


def test_confusion(two):
    found = two["odm"]
    labels, predicted = found.labels[found.codes], found.labels[found.predicted]
    picture = confusion_matrix(found, "odm")
    np.testing.assert_array_equal(picture.values, metrics.confusion_matrix(labels, predicted))
    assert f"{np.sum(labels != predicted)} of 150 rows wrong" in picture.title
    normal = confusion_matrix(found, normalize=True)
    wanted = 100 * metrics.confusion_matrix(labels, predicted, normalize="true")
    np.testing.assert_allclose(normal.values, wanted)
    assert picture.shades[0][0] > 0 >= picture.shades[0][1]  # right and wrong have other colours


def test_calibration_is_scikit_learns(two):
    found = two["odm"]
    chart = calibration_chart(two)
    place = found.positive()
    part, mean = calibration_curve(found.codes == place, found.probabilities[:, place], n_bins=10)
    np.testing.assert_allclose(chart.series[0].y, part, atol=1e-12)
    np.testing.assert_allclose(chart.series[0].x, mean, atol=1e-12)
    assert all(error > 0 for error in chart.series[0].errors)
    model, X, y = made(3, probability=True)
    many = calibration_chart({"odm": model.evaluate(X, y)})
    assert many.title.startswith("calibration of predicted labels") and min(many.series[0].x) >= 1 / 3
    plain, X, y = made()
    with pytest.raises(odmlib.ParameterError, match="probability=True"):
        calibration_chart({"odm": plain.evaluate(X, y)})


@pytest.mark.parametrize("width", [2, 4])
def test_boundary_is_what_the_model_predicts(width):
    model, X, y = made(3, width=width)
    columns = (2, 1)
    chart = boundary_chart(model, X, y, columns, cells=(9, 7))
    regions = chart.regions
    assert (len(regions.codes), len(regions.codes[0])) == (7, 9)
    row = np.median(X, axis=0)
    (low, high), (bottom, top) = regions.x_range, regions.y_range
    row[1], row[0] = low + (high - low) * 8.5 / 9, bottom + (top - bottom) * 1.5 / 7
    assert model.labels[regions.codes[1][8]] == model.predict(row[None])[0]
    assert sum(len(series.x) for series in chart.series) == len(X)
    assert ("other columns" in chart.title) == (width == 4)
    for wrong in ((1, 1), (0, 1), (1, width + 1)):
        with pytest.raises(odmlib.ParameterError, match="two different columns"):
            boundary_chart(model, X, y, wrong)


def test_the_band_is_the_deepest():
    model, X, y = made(width=2, theta=0.2, C=10)
    assert band_of(model.parameters) == (0.8, 1.2)
    regions = boundary_chart(model, X, y, cells=(30, 30)).regions
    depths = {depth for line in regions.depths for depth in line}
    assert depths <= {0, 1, 2} and 0 in depths
    assert band_of({}) is None


def test_weights():
    model, _, _ = made(kernel="linear")
    bars = weight_picture(model, top=2)
    assert isinstance(bars, Bars) and bars.names[0] == "column 1"  # the one that decides
    step = np.zeros((2, 3))
    step[1, 0] = 1
    slope = (
        -np.diff(model.decision_function(step))[0]
        if model.labels[0] == 0
        else np.diff(model.decision_function(step))[0]
    )
    assert bars.values[0] == pytest.approx(slope) and slope > 0
    with pytest.raises(odmlib.ParameterError, match="linear machine"):
        weight_picture(made()[0])


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_weights_of_many_classes(multiclass):
    model, _, _ = made(4, kernel="linear", multiclass=multiclass)
    picture = weight_picture(model)
    assert isinstance(picture, Matrix) and picture.columns == ["0", "1", "2", "3"]
    row = picture.rows.index("column 1")
    assert picture.values[row][0] < 0 < picture.values[row][3]
    weights, _ = class_weights_of(model)
    assert weights.shape == (3, 4)


def test_tune():
    _, X, y = made(n=60)
    result = odmlib.grid_search(X, y, log2c=(-1, 3, 2), log2g=(1, -3, -2), folds=3)
    picture = tune_picture(result, "toy")
    row, column = picture.mark
    assert picture.values[row][column] == result.best.rate == np.max(picture.values)
    assert picture.columns == ["-1", "1", "3"] and picture.rows == ["1", "-1", "-3"]
    curve = tune_picture(odmlib.grid_search(X, y, log2c=(-1, 3, 2), log2g=None, folds=3))
    assert isinstance(curve, Chart) and curve.series[0].x == [-1, 1, 3]


def test_the_best_of_a_regression_is_the_lowest():
    result = GridResult({"C": [1.0, 2.0], "gamma": [1.0, 2.0]}, 4, lower_is_better=True)
    for C, gamma, rate in ((1.0, 1.0, 3.0), (2.0, 1.0, 2.5), (1.0, 2.0, 100.0), (2.0, 2.0, np.inf)):
        result.add(GridPoint({"C": C, "gamma": gamma}, rate))
    picture = tune_picture(result)
    row, column = picture.mark
    assert picture.title == "best 2.5"
    assert picture.values[row][column] == 2.5 and picture.shades[row][column] == 1.0
    assert np.max(picture.shades) == 1.0 and np.min(picture.shades) == 0.0
    curve = GridResult({"C": [1.0, 2.0]}, 2, lower_is_better=True)
    curve.add(GridPoint({"C": 1.0}, 4.0))
    curve.add(GridPoint({"C": 2.0}, 3.0))
    chart = tune_picture(curve)
    assert (chart.marks, chart.y_label) == ([(1.0, "")], "mean squared error")


def test_rates_that_overflow_are_drawn_without_a_warning():
    two = GridResult({"C": [1.0, 2.0], "gamma": [1.0, 2.0]}, 4, lower_is_better=True)
    one = GridResult({"C": [1.0]}, 1, lower_is_better=True)
    one.add(GridPoint({"C": 1.0}, np.inf))
    for C in (1.0, 2.0):
        for gamma in (1.0, 2.0):
            two.add(GridPoint({"C": C, "gamma": gamma}, np.inf))
    assert np.all(np.array(tune_picture(two).shades) == 0.0)
    with pytest.raises(odmlib.ParameterError, match="no point of the search has a finite rate"):
        tune_picture(one)


def pictures(two):
    model, X, y = made(26, n=500, kernel="linear")
    plane, A, b = made(width=2)
    long = Matrix(
        "t",
        "x",
        "y",
        ["a" * 40, "b"],
        ["c" * 40, "<&>"],
        [[1, 2], [3, np.nan]],
        [[1, -1], [0, 0]],
        [["1", "2"], ["3", ""]],
    )
    return [
        roc_chart(two),
        pr_chart(two),
        calibration_chart(two),
        confusion_matrix(two["odm"]),
        confusion_matrix(model.evaluate(X, y)),
        boundary_chart(plane, A, b),
        weight_picture(model),
        weight_picture(made(kernel="linear")[0]),
        long,
        Bars("none", "x", [], []),
        Bars("zero", "x", ["a"], [0.0]),
    ]


def test_every_picture_in_every_form(two, tmp_path):
    import json

    shown = pictures(two)
    root = ElementTree.fromstring(svg_document(shown))
    hints = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "label 0, predicted 0" in " ".join(hints) and "nan" not in svg_document(shown).lower()
    for picture in shown:
        element = ElementTree.fromstring(svg_element(picture, "p1"))
        assert element.attrib["aria-labelledby"] == "p1-t p1-d" and element[1].text
        for width in (40, 79):
            lines = text_chart(picture, width).splitlines()
            assert max(map(len, lines[1:])) <= max(width, 79 if isinstance(picture, Matrix) else 0)
        json.loads(json.dumps(picture.data(), allow_nan=False))
    pytest.importorskip("matplotlib")
    save_picture(shown, str(tmp_path / "p.png"))
    assert (tmp_path / "p.png").stat().st_size > 10_000


def test_functions_return_axes():
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    from odmlib import plots
    from odmlib.sklearn import LinearODM, ODMClassifier

    model, X, y = made(width=2, probability=True)
    linear = odmlib.train(X, y, kernel="linear")
    estimator = ODMClassifier().fit(X, y)
    _, mine = pyplot.subplots()
    listed = plots.plot_roc([model, estimator], X, y)
    names = [text.get_text().partition(":")[0] for text in listed.get_legend().get_texts()]
    assert names == ["odm", "odm 2"]
    with pytest.raises(odmlib.ParameterError, match="found LinearODM, which is not fitted"):
        plots.plot_roc(LinearODM(), X, y)
    with pytest.raises(odmlib.ParameterError, match="this picture shows one model, found 2"):
        plots.plot_confusion([model, estimator], X, y)
    assert plots.plot_roc({"odm": model, "linear": linear, "sk": estimator}, X, y, ax=mine) is mine
    assert len(mine.get_lines()) == 4 and mine.get_legend() is not None
    search = odmlib.grid_search(X, y, log2c=(-1, 1, 2), log2g=(1, -1, -2), folds=3)
    cells = [text.get_text() for text in plots.plot_confusion(model, X, y).texts]
    assert "0" not in cells and sum(map(int, cells)) == len(y)
    drawn = [
        plots.plot_pr(model, X, y),
        plots.plot_confusion(estimator, X, y, normalize=True),
        plots.plot_calibration(model, X, y),
        plots.plot_boundary(estimator, X, y),
        plots.plot_weights(linear),
        plots.plot_tune(search),
        plots.plot_margins({"a": model, "b": linear}, X, y),
        plots.plot_histogram(model, X, y),
        plots.plot_accuracy(X, y, "C", [1, 2], folds=3),
        plots.plot_convergence({"trace": [{"seconds": 1.0, "gap": 0.1}]}),
    ]
    assert all(axes.get_title(loc="left") for axes in drawn)
    pyplot.close("all")
