"""The report of a training run as one HTML page: no script, nothing from the network, readable on a phone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from odmlib._core.arrays import Codes, Floats
from odmlib.data.checking import statistics
from odmlib.errors import ParameterError
from odmlib.model.evaluation import Evaluation, TargetEvaluation
from odmlib.model.functions import LinearFunction
from odmlib.plots.chart import Matrix, Picture
from odmlib.plots.figures import (
    convergence,
    level_charts,
    margin_distribution,
    margin_histograms,
    residual_chart,
)
from odmlib.plots.inside import band_of, weight_picture
from odmlib.plots.page_pieces import STYLE, duration, facts, percent, scrolling, shown, table
from odmlib.plots.quality import (
    RELIABILITY_BINS,
    calibration_chart,
    confusion_matrix,
    pr_chart,
    prediction_chart,
    roc_chart,
)
from odmlib.plots.svg import svg_element

if TYPE_CHECKING:
    from odmlib.data.problem import Problem
    from odmlib.model.model import Model

MOST_CELLS = 40  # classes of a drawn confusion matrix, and of its table
MANY_CLASSES = 12  # beyond, the commonest confusions are listed as well
MOST_LINES = 50  # of a table
QUANTILES = {
    "minimum": 0.0,
    "5 %": 0.05,
    "25 %": 0.25,
    "median": 0.5,
    "75 %": 0.75,
    "95 %": 0.95,
    "maximum": 1.0,
}
FEWEST_STEPS = 3  # of a curve that says how a run converged
FEWEST_BINS, ROWS_PER_BIN = 4, 30  # of probabilities: with fewer rows a bin says little
TRAINED_ON = (
    '<p class="small">These rows were trained on: other data will do worse. '
    "odm-train --test FILE adds test rows; -v and --loo estimate without them.</p>\n"
)


@dataclass
class Report:
    """What a page is about: a trained model, and how it does on rows."""

    model: Model
    problem: Problem | None
    training: Evaluation | None  # None: the rows lie on a cluster
    test: Evaluation | None = None
    test_name: str = ""
    others: Mapping[str, Any] = field(default_factory=dict)  # other models, on the rows shown
    targets: dict[str, TargetEvaluation] = field(default_factory=dict)  # of regression: by the rows' names
    n_pictures: int = 0

    @property
    def shown(self) -> Evaluation | None:
        """The rows that say most of the model: those it was not trained on, where there are any."""
        return self.test or self.training

    @property
    def rows_name(self) -> str:
        return "test" if self.test is not None or "test rows" in self.targets else "training"

    def parts(self) -> dict[str, Evaluation]:
        """Training and test rows, as far as they are known."""
        both = {"training rows": self.training, "test rows": self.test}
        return {name: part for name, part in both.items() if part is not None}

    def compared(self) -> dict[str, Evaluation]:
        """The model and the others, on the rows shown."""
        assert self.shown is not None
        return {"this model": self.shown, **self.others}

    def draw(self, pictures: Iterable[Picture]) -> str:
        """Pictures side by side; a table of cells gets more room."""
        pieces = []
        for picture in pictures:
            self.n_pictures += 1
            many = isinstance(picture, Matrix) and len(picture.columns) > MANY_CLASSES
            wide = ' class="large"' if many else ""
            pieces.append(f"<div{wide}>{svg_element(picture, f'picture{self.n_pictures}')}</div>")
        return f'<div class="charts">{"".join(pieces)}</div>\n' if pieces else ""


def report_page(
    model: Model,
    problem: Problem | None,
    name: str,
    command: str = "",
    test: tuple[str, Any] | None = None,
    others: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """The page in pieces: `model` as it was trained on `problem`, which came from the file `name`.

    Without a problem, which lies on a cluster, the page has what the report of the model says of it.
    test: name and evaluation of rows that were not trained on. others: evaluations of other models by name,
    on the test rows if there are any, else on the training rows.

    The report of the model may hold a `trace` (solvers/trace.py) and `levels`; they are drawn if there.
    """
    training = None if problem is None or model.is_regression else _training(model, problem)
    report = Report(model, problem, training)
    if model.is_regression and problem is not None:
        report.targets["training rows"] = TargetEvaluation(
            model.function.scores(problem.rows, 1), cast(Floats, problem.targets)
        )
    if test is not None and model.is_regression:
        report.test_name, report.targets["test rows"] = test
    elif test is not None:
        report.test_name, report.test = test
    report.others = others or {}
    title = f"{model.machine}, {model.formula.name} kernel, on {name}"
    sections = [
        (heading, content) for heading, write in SECTIONS.items() if (content := "".join(write(report)))
    ]
    if model.is_regression:
        sections = [(heading.replace("Margins", "Residuals"), content) for heading, content in sections]
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n"
        f"<header><h1>{escape(title)}</h1>\n{facts(_headline(report))}"
    )
    if command:
        yield f'<p class="small"><code>{escape(command)}</code></p>\n'
    links = "".join(f'<a href="#s{place}">{heading}</a>' for place, (heading, _) in enumerate(sections))
    yield f'<nav aria-label="Sections">{links}</nav></header>\n<main>\n'
    for place, (heading, content) in enumerate(sections):
        yield f'<section aria-labelledby="s{place}"><h2 id="s{place}">{heading}</h2>\n{content}</section>\n'
    version = escape(str(model.report["version"]))
    yield f'</main>\n<footer><p class="small">odmlib {version}</p></footer></body></html>\n'


def _training(model: Model, problem: Problem) -> Evaluation:
    labeled = np.flatnonzero(problem.codes >= 0)  # of a semi-supervised machine not all are
    rows = problem.rows if len(labeled) == len(problem.codes) else problem.rows.take(labeled)
    return model.evaluate(rows, problem.labels[problem.codes[labeled]])


# ---------------------------------------------------------------------------------------- sections


def _headline(report: Report) -> Iterator[tuple[str, str, str]]:
    found = report.model.report
    if report.test is not None:
        yield "test accuracy", percent(report.test.accuracy), ""
    if report.training is not None:
        yield "training accuracy", percent(report.training.accuracy), ""
    elif right := found["details"].get("right"):
        yield "training accuracy", percent(sum(right) / sum(found["details"]["class_rows"])), ""
    if report.model.is_regression:
        yield from _errors(report)
    elif left_out := found.get("leave_one_out"):
        yield "leave-one-out accuracy", percent(left_out["accuracy"]), ""
    done = found["status"] == "converged"
    yield "status", found["status"].replace("_", " "), "good" if done else "bad"
    yield "relative duality gap", shown(found["gap"], 2), "good" if done else "bad"
    yield "training time", duration(found["seconds"]["train"]), ""
    if found["support_vectors"] is not None:
        yield "support vectors", f"{found['support_vectors']:,}", ""


def _errors(report: Report) -> Iterator[tuple[str, str, str]]:
    """The measures of a regression."""
    for name, one in reversed(report.targets.items()):
        rows, found = name.removesuffix(" rows"), one.report()
        yield f"{rows} R²", shown(found["r_squared"]), ""
        yield f"{rows} mean squared error", shown(found["mean_squared_error"]), ""
    for name, value in (report.model.report.get("leave_one_out") or {}).items():
        yield f"leave-one-out {name.replace('_', ' ')}", shown(value), ""


def _quality(report: Report) -> Iterator[str]:
    if report.targets:
        yield from _quality_of_targets(report)
        return
    parts = report.parts()
    if not parts:
        return
    tables = []
    if report.others:
        tables.append(_measures(report.compared(), f"Models side by side, on the {report.rows_name} rows"))
    if not report.others or report.test is not None:
        tables.append(_measures(parts, "This model"))
    yield f'<div class="columns">{"".join(tables)}</div>\n'
    if report.test is None:
        yield TRAINED_ON
    elif report.test.n_unknown:
        unknown = f"{report.test.n_unknown:,} test rows have labels that were not trained"
        yield f"<p>{unknown}; they count as wrong.</p>\n"


def _quality_of_targets(report: Report) -> Iterator[str]:
    """The errors of a regression, and its predictions against the targets."""
    rows = f"{report.rows_name} rows"
    compared = {"this model": report.targets[rows], **report.others}
    tables = []
    if report.others:
        tables.append(_errors_of(compared, f"Models side by side, on the {rows}"))
    if not report.others or report.rows_name == "test":
        tables.append(_errors_of(report.targets, "This model"))
    yield f'<div class="columns">{"".join(tables)}</div>\n'
    if report.rows_name == "training":
        yield TRAINED_ON
    yield (
        f"<p>The {rows} by their target (across) and what is predicted (up): "
        "points on the dashed line are right.</p>\n"
    )
    yield report.draw([prediction_chart(compared if report.others else {rows: report.targets[rows]})])


def _errors_of(evaluations: Mapping[str, TargetEvaluation], caption: str) -> str:
    """A table with a column per evaluation."""
    lines = [["rows", *(f"{one.n_rows:,}" for one in evaluations.values())]]
    found = [one.report() for one in evaluations.values()]
    names = {name: name.replace("_", " ") for name in found[0]} | {"r_squared": "R²"}
    lines += [[title, *(shown(one[name]) for one in found)] for name, title in names.items()]
    return table(["", *evaluations], lines, caption, "names")


def _measures(evaluations: Mapping[str, Evaluation], caption: str) -> str:
    """A table with a column per evaluation."""
    lines = [[name, *(measure(one) for one in evaluations.values())] for name, measure in MEASURES.items()]
    lines = [line for line in lines if any(line[1:])]
    return table(["", *evaluations], lines, caption, "names")


def _mean_f1(evaluation: Evaluation) -> str:
    counts = evaluation.counts()
    return percent(float(np.mean(_rates(counts)[counts.sum(axis=1) > 0, 2])))


def _mean_recall(evaluation: Evaluation) -> str:
    return percent(float(np.nanmean(_rates(evaluation.counts())[:, 1])))


def _area(evaluation: Evaluation) -> str:
    present = evaluation.present()
    areas = [evaluation.ranking(c).auc() for c in present]
    return f"{np.mean(areas):.3f}" if areas else ""


def _log_loss(evaluation: Evaluation) -> str:
    if evaluation.probabilities is None:
        return ""
    own = evaluation.probabilities[np.arange(len(evaluation.codes)), evaluation.codes]
    return shown(float(-np.mean(np.log(np.maximum(own, 1e-15)))))


MEASURES: dict[str, Callable[[Evaluation], str]] = {
    "rows": lambda one: f"{one.n_rows:,}",
    "wrong": lambda one: f"{one.n_rows - round(one.accuracy * one.n_rows):,}",
    "accuracy": lambda one: percent(one.accuracy),
    "mean recall of the classes": _mean_recall,
    "mean F1 of the classes": _mean_f1,
    "area under the ROC curve": _area,
    "log-loss": _log_loss,
    "mean margin": lambda one: shown(float(one.margins.mean())),
    "variance of the margins": lambda one: shown(float(one.margins.var())),
}


def _labels(report: Report) -> Iterator[str]:
    evaluation = report.shown
    if evaluation is None:
        yield from _labels_on_cluster(report)
        return
    order = evaluation.order
    names = [evaluation.names[c] for c in order]
    counts = evaluation.counts()[np.ix_(order, order)]
    k = len(names)
    yield (
        f"<p>The {report.rows_name} rows by their label (down) and the predicted label (across). "
        "Blue cells are right, orange cells are wrong; the shade is the part of the label's rows.</p>\n"
    )
    left, right = "", _classes(names, counts)
    if report.model.machine == "odmo":
        yield (
            "<p>Rows with the label 1 are like the training rows; rows with the label -1 are novelties.</p>\n"
        )
    if k <= MOST_CELLS:
        on = report.test_name if report.test is not None else "the training rows"
        left = report.draw([confusion_matrix(evaluation, on=on)])
        left += f"<details><summary>The numbers as a table</summary>{_matrix(names, counts)}</details>\n"
    if k > MANY_CLASSES:  # the matrix needs the whole width
        yield left
        left = _confusions(names, counts)
    yield f'<div class="columns"><div>{left}</div><div>{right}</div></div>\n'


def _labels_on_cluster(report: Report) -> Iterator[str]:
    details = report.model.report["details"]
    if "class_rows" in details:
        (n, other), (right, other_right) = details["class_rows"], details["right"]
        counts = np.array([[right, n - right], [other - other_right, other_right]])
        names = [str(label) for label in report.model.report["labels"]]
        yield _matrix(names, counts)
        yield _classes(names, counts)


def _classes(names: Sequence[str], counts: Codes) -> str:
    true, given, rates = counts.sum(axis=1), counts.sum(axis=0), _rates(counts)
    lines = [
        [name, f"{true[c]:,}", f"{given[c]:,}", *map(percent, rates[c].tolist())]
        for c, name in enumerate(names)
    ]
    head = ["label", "rows", "predicted", "precision", "recall", "F1"]
    more = f'<p class="small">and {len(names) - MOST_LINES} labels more</p>\n'
    return table(head, lines[:MOST_LINES], "Every label") + (more if len(names) > MOST_LINES else "")


def _rates(counts: Codes) -> Floats:
    """Precision, recall and F1 of every class; nan where a class has no rows to tell."""
    hits, true, given = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.stack([hits / given, hits / true, 2 * hits / (given + true)], axis=1)


def _confusions(names: Sequence[str], counts: Codes) -> str:
    wrong = counts - np.diag(np.diag(counts))
    most = np.argsort(-wrong.ravel(), kind="stable")[:10]
    pairs = [divmod(place, len(names)) for place in most.tolist()]
    rows = counts.sum(axis=1)
    lines = [
        [names[a], names[b], f"{wrong[a, b]:,}", percent(wrong[a, b] / rows[a])]
        for a, b in pairs
        if wrong[a, b]
    ]
    head = ["label", "predicted", "rows", "of the label"]
    return table(head, lines, "Commonest confusions") if lines else ""


def _matrix(names: Sequence[str], counts: Codes) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    lines = []
    for name, row in zip(names, counts.tolist(), strict=True):
        cells = "".join(f"<td>{count:,}</td>" if count else '<td class="zero">0</td>' for count in row)
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    return scrolling(
        "confusion matrix",
        f'<table class="matrix"><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>",
    )


def _ranking(report: Report) -> Iterator[str]:
    evaluation = report.shown
    if evaluation is None or not evaluation.present():
        return
    several = len(evaluation.labels) > 2
    if report.others:
        curves = report.compared()
    elif several:
        curves = {report.rows_name: evaluation}
    else:
        curves = report.parts()
    curves = {name: one for name, one in curves.items() if one.present()}
    yield (
        f"<p>How well {'each class' if several else 'the larger label'} is told from the "
        f"{'rest' if several else 'other'} by its score, at every threshold. "
        "1.000 is perfect; a ROC curve on the diagonal is chance.</p>\n"
    )
    yield report.draw([roc_chart(curves), pr_chart(curves)])


def _reliability(report: Report) -> Iterator[str]:
    shown_ones = report.compared() if report.others and report.shown else report.parts()
    known = {name: one for name, one in shown_ones.items() if one.probabilities is not None}
    if known:
        yield (
            "<p>Of rows with a predicted probability of 0.8, 80 % should have the label: "
            "points near the diagonal are good. Bars are one standard error.</p>\n"
        )
        fewest = min(len(one.codes) for one in known.values())
        bins = min(RELIABILITY_BINS, max(FEWEST_BINS, fewest // ROWS_PER_BIN))
        yield report.draw([calibration_chart(known, bins)])


def _margins(report: Report) -> Iterator[str]:
    model, parts = report.model, report.parts()
    if model.is_regression:
        yield from _residuals(report)
        return
    band = band_of(model.parameters)
    yield "<p>By how much the label of each row wins; rows at or left of 0 lose. "
    if band is not None and band[0] < band[1]:
        yield f"Margins in the shaded band from {band[0]:g} to {band[1]:g} cost nothing in training."
    yield "</p>\n"
    if not parts:
        yield _known_quantiles(report)
        return
    margins = {name: one.margins for name, one in parts.items()}
    quantiles = _quantiles(margins, "Quantiles of the margins")
    if report.others:
        margins = {name: one.margins for name, one in report.compared().items()}
        band = None  # machines scale their margins in their own ways
    histogram = {report.rows_name + " rows": report.shown.margins} if report.shown else {}
    charts = [
        margin_distribution(margins, band=band, relative=bool(report.others)),
        *margin_histograms(histogram, band=band_of(model.parameters)),
    ]
    yield report.draw(charts)
    yield quantiles


def _residuals(report: Report) -> Iterator[str]:
    yield "<p>Prediction less target of each row; of several outputs the one that is farthest off.</p>\n"
    if report.targets:
        residuals = {name: one.residuals for name, one in report.targets.items()}
        last = dict([list(residuals.items())[-1]])
        charts = [margin_distribution(residuals), *margin_histograms(last)]
        yield report.draw(residual_chart(chart) for chart in charts)
        yield _quantiles(residuals, "Quantiles of the residuals")
    else:
        yield _known_quantiles(report)


def _quantiles(values: Mapping[str, Floats], caption: str) -> str:
    """A table with a column for each set of rows."""
    found = [[*np.quantile(numbers, list(QUANTILES.values())), numbers.mean()] for numbers in values.values()]
    columns = [[shown(float(number)) for number in numbers] for numbers in found]
    lines = [[name, *cells] for name, *cells in zip([*QUANTILES, "mean"], *columns, strict=True)]
    return table(["", *values], lines, caption, "names")


def _known_quantiles(report: Report) -> str:
    """What the report of the model says of its training rows, where the rows themselves are not here."""
    summary = report.model.report["margin"]
    names = ["minimum", *(f"{100 * float(part):g} %" for part in summary["quantiles"]), "mean"]
    numbers = [summary["min"], *summary["quantiles"].values(), summary["mean"]]
    return table(["", "training rows"], [[name, shown(x)] for name, x in zip(names, numbers, strict=True)])


def _weights(report: Report) -> Iterator[str]:
    if isinstance(report.model.function, LinearFunction) and len(report.model.function.columns):
        many = report.model.n_classes > 2
        each = "Positive (blue) cells speak for the class, negative (orange) ones against it." if many else ""
        yield f"<p>What the linear machine looks at most. {each} Compare columns of the same scale.</p>\n"
        yield report.draw([weight_picture(report.model)])


def _convergence(report: Report) -> Iterator[str]:
    found = report.model.report
    iterations = f"{found['iterations']:,} iteration" + ("" if found["iterations"] == 1 else "s")
    yield (
        f"<p>{iterations} of the solver {escape(str(found['solver']))}; "
        f"primal objective {shown(found['primal'], 8)}, dual objective {shown(found['dual'], 8)}, "
        f"relative gap {shown(found['gap'], 2)}.</p>\n"
    )
    charts = []
    steps = Counter(point.get("task", 1) for point in found.get("trace") or [])
    if max(steps.values(), default=0) >= FEWEST_STEPS:
        charts.append(convergence({"": found}))
    with suppress(ParameterError):  # most machines have no levels
        charts += level_charts(found)
    yield report.draw(chart for chart in charts if any(len(series.x) > 1 for series in chart.series))
    yield _tasks(found.get("tasks") or [])


def _settings(report: Report) -> Iterator[str]:
    found = report.model.report
    rows = [
        [name, shown(value) if isinstance(value, int | float) else str(value)]
        for name, value in found["parameters"].items()
    ]
    rows += [[name, str(found[name])] for name in ("seed", "threads", "solver")]
    if len(found["labels"]) > 2:
        rows.append(["scheme", found["scheme"]])
    yield f'<div class="columns">{table([], rows, "Parameters")}{_data(report)}</div>\n'


def _data(report: Report) -> str:
    found, problem = report.model.report, report.problem
    if problem is None:
        lines = [[name, f"{found[name]:,}"] for name in ("rows", "features", "nonzeros")]
        return table([], lines, "Training data")
    # codes tell the classes as well as labels do, whatever these are
    about = statistics(problem.rows, problem.codes.astype(np.float64))
    unlabeled = int((problem.codes < 0).sum())
    lines = [
        ["rows", f"{about['rows']:,}" + (f", {unlabeled:,} of them unlabeled" if unlabeled else "")],
        ["columns", f"{about['features']:,}"],
        ["columns that never change", f"{about['constant_features']:,}"],
        ["values stored", f"{about['nonzeros']:,} ({percent(about['density'])})"],
        ["values", f"{shown(about['lowest'])} to {shown(about['highest'])}"],
        ["rows that repeat others", f"{about['duplicate_rows']:,}"],
    ]
    if problem.targets is None:
        lines.append(["errors that cannot be avoided", f"{about['unavoidable_errors']:,}"])
    else:
        lines.append(["targets", f"{shown(problem.targets.min())} to {shown(problem.targets.max())}"])
    return table([], lines, "Training data")


def _tasks(tasks: Sequence[Mapping[str, Any]]) -> str:
    if not tasks:
        return ""
    lines = [
        [
            " against ".join(map(str, task["labels"])) + " against others" * (len(task["labels"]) == 1),
            task["status"].replace("_", " "),
            f"{task['iterations']:,}",
            shown(task["gap"], 2),
            "" if task["support_vectors"] is None else f"{task['support_vectors']:,}",
        ]
        for task in tasks[:MOST_LINES]
    ]
    body = table(["classes", "status", "iterations", "gap", "support vectors"], lines)
    if len(tasks) > MOST_LINES:
        body += f'<p class="small">and {len(tasks) - MOST_LINES} tasks more</p>\n'
    done = sum(task["status"] == "converged" for task in tasks)
    summary = f"{len(tasks)} tasks of two sides each, {done} of them converged"
    return f"<details><summary>{summary}</summary>{body}</details>\n"


SECTIONS: dict[str, Callable[[Report], Iterator[str]]] = {
    "Quality": _quality,
    "Labels": _labels,
    "Ranking": _ranking,
    "Probabilities": _reliability,
    "Margins": _margins,
    "Weights": _weights,
    "Convergence": _convergence,
    "Parameters and data": _settings,
}
