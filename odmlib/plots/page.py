"""The report of a training run as one HTML page: no script, nothing from the network, readable on a phone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Codes
from odmlib.data.checking import statistics
from odmlib.data.labels import python_label
from odmlib.errors import ParameterError
from odmlib.model.regression import regression_measures
from odmlib.plots.chart import Chart
from odmlib.plots.figures import (
    convergence,
    level_charts,
    margin_distribution,
    margin_histograms,
    residual_chart,
)
from odmlib.plots.svg import svg_element

if TYPE_CHECKING:
    from odmlib.data.problem import Problem
    from odmlib.model.model import Model

MOST_CLASSES = 30  # of a confusion matrix; beyond, the commonest confusions are listed
MOST_LINES = 50  # of a table

STYLE = """
:root { color-scheme: light dark; --page: #fff;
  --line: #8884; --soft: #8881; --good: #009e73; --bad: #d55e00; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; font: 1rem/1.5 system-ui, sans-serif;
  background: var(--page); color: #222; }
@media (prefers-color-scheme: dark) { :root { --page: #16181c; } body { color: #ddd; } }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); }
p { margin: .5rem 0; overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .5rem; }
.facts div { background: var(--soft); border-radius: .5rem; padding: .5rem .75rem; }
.facts b { display: block; font-size: 1.25rem; overflow-wrap: anywhere; }
.good { color: var(--good); } .bad { color: var(--bad); }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .25rem 0; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; }
.matrix td, .matrix thead th { text-align: center; }
.matrix th:first-child { position: sticky; left: 0; background: var(--page); }
.zero { opacity: .35; }
.small { font-size: .85rem; opacity: .8; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 1rem; }
svg { display: block; width: 100%; height: auto; max-width: 36rem; }
code { overflow-wrap: anywhere; }
"""


def report_page(model: Model, problem: Problem | None, name: str, command: str = "") -> Iterator[str]:
    """The page in pieces: `model` as it was trained on `problem`, which came from the file `name`.

    Without a problem, which lies on a cluster, the page has what the report of the model says of it.

    The report of the model may hold a `trace` (solvers/trace.py) and `levels`; they are drawn if there.
    """
    report = model.report
    title = f"{model.machine}, {model.formula.name} kernel, on {name}"
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>\n"
    )
    counts = None if model.is_regression else _counts(model, problem)
    yield f"<h1>{escape(title)}</h1>\n"
    yield _facts(_headline(model, problem, counts))
    if command:
        yield f'<p class="small"><code>{escape(command)}</code></p>\n'
    for heading, pieces in (
        ("Data", _data(report, problem)),
        ("Parameters", _parameters(report)),
        ("Convergence", _convergence(report)),
        ("Residuals" if model.is_regression else "Margins", _margins(model, problem)),
        ("Labels predicted for the training rows", () if counts is None else _labels(model.labels, counts)),
        ("Tasks", _tasks(report.get("tasks") or [])),
    ):
        if content := "".join(pieces):
            yield f"<h2>{heading}</h2>\n{content}"
    yield f'<p class="small">odmlib {escape(str(report["version"]))}</p>\n</main></body></html>\n'


def _counts(model: Model, problem: Problem | None) -> Codes:
    """Rows by the position of their label and of the one predicted."""
    k = model.n_classes
    if problem is None:
        details = model.report["details"]
        (n, other), (right, other_right) = details["class_rows"], details["right"]
        return np.array([[right, n - right], [other - other_right, other_right]])
    labeled = np.flatnonzero(problem.codes >= 0)  # of a semi-supervised machine not all are
    codes, predicted = problem.codes[labeled], model.positions(problem.rows)[labeled]
    return np.bincount(codes * k + predicted, minlength=k * k).reshape(k, k)


def _headline(model: Model, problem: Problem | None, counts: Codes | None) -> Iterator[tuple[str, str, str]]:
    report = model.report
    done = report["status"] == "converged"
    yield "status", report["status"].replace("_", " "), "good" if done else "bad"
    yield "relative duality gap", _short(report["gap"]), "good" if done else "bad"
    found = report.get("leave_one_out")
    if counts is not None:
        yield "training accuracy", f"{100 * int(np.trace(counts)) / int(counts.sum()):.4g}%", ""
        if found:
            yield "leave-one-out accuracy", f"{100 * found['accuracy']:.4g}%", ""
    else:
        if problem is not None and problem.targets is not None:
            predicted = model.function.scores(problem.rows, 1)
            for name, value in regression_measures(predicted, problem.targets)._asdict().items():
                yield f"training {name.replace('_', ' ')}", _short(value), ""
        for name, value in (found or {}).items():
            yield f"leave-one-out {name.replace('_', ' ')}", _short(value), ""
    yield "seconds", _short(report["seconds"]["train"]), ""
    if report["support_vectors"] is not None:
        yield "support vectors", f"{report['support_vectors']:,}", ""
    what = "residual" if model.is_regression else "margin"
    yield f"mean {what}", _short(report["margin"]["mean"]), ""
    yield f"{what} variance", _short(report["margin"]["variance"]), ""


def _facts(facts: Iterable[tuple[str, str, str]]) -> str:
    boxes = "".join(
        f'<div>{escape(name)}<b class="{kind}">{escape(value)}</b></div>' for name, value, kind in facts
    )
    return f'<div class="facts">{boxes}</div>\n'


def _data(report: Mapping[str, Any], problem: Problem | None) -> str:
    if problem is None:
        return _table([], [(name, f"{report[name]:,}") for name in ("rows", "features", "nonzeros")])
    # codes tell the classes as well as labels do, whatever these are
    found = statistics(problem.rows, problem.codes.astype(np.float64))
    unlabeled = int((problem.codes < 0).sum())
    lines = [
        ("rows", f"{found['rows']:,}" + (f", {unlabeled:,} of them unlabeled" if unlabeled else "")),
        ("features", f"{found['features']:,}"),
        ("never change", f"{found['constant_features']:,}"),
        ("values stored", f"{found['nonzeros']:,} ({100 * found['density']:.3g}%)"),
        ("values", f"{found['lowest']:g} to {found['highest']:g}"),
        ("rows that repeat others", f"{found['duplicate_rows']:,}"),
    ]
    if problem.targets is None:
        lines.append(("errors that cannot be avoided", f"{found['unavoidable_errors']:,}"))
    else:
        lines.append(("targets", f"{problem.targets.min():g} to {problem.targets.max():g}"))
    return _table([], lines)


def _parameters(report: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (name, _short(value) if isinstance(value, int | float) else str(value))
        for name, value in report["parameters"].items()
    ]
    rows += [("seed", str(report["seed"])), ("threads", str(report["threads"])), ("solver", report["solver"])]
    if len(report["labels"]) > 2:
        rows.append(("scheme", report["scheme"]))
    yield _table([], rows)


def _convergence(report: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"<p>{report['iterations']:,} iterations; primal objective {_short(report['primal'], 8)}, "
        f"dual {_short(report['dual'], 8)}.</p>\n"
    )
    charts = []
    with suppress(ParameterError):  # trained without a trace
        charts += [convergence({"": report})]
    with suppress(ParameterError):  # most machines have no levels
        charts += level_charts(report)
    yield _charts(chart for chart in charts if any(len(series.x) > 1 for series in chart.series))


def _margins(model: Model, problem: Problem | None) -> Iterator[str]:
    margins = model.training_margins
    what, said = "margin", "By how much the label of each training row wins; rows at or left of 0 lose."
    if model.is_regression:
        what, said = (
            "residual",
            "Prediction less target of each training row; of several outputs the largest one.",
        )
    elif margins is None and problem is not None:  # a model that was loaded
        labeled = np.flatnonzero(problem.codes >= 0)
        margins = model.margins(problem.rows.take(labeled), problem.labels[problem.codes[labeled]])
    summary = model.report["margin"]
    yield f"<p>{said}</p>\n"
    head = ["", "minimum", *(f"{100 * float(part):g}%" for part in summary["quantiles"]), "mean"]
    numbers = [summary["min"], *summary["quantiles"].values(), summary["mean"]]
    yield _table(head, [(what, *map(_short, numbers))])
    if margins is not None:
        charts = [margin_distribution({model.machine: margins}), *margin_histograms({f"{what}s": margins})]
        if model.is_regression:
            charts = [residual_chart(chart) for chart in charts]
        yield _charts(charts)


def _labels(labels: NDArray, counts: Codes) -> Iterator[str]:
    k = len(labels)
    order = np.argsort(labels) if labels.dtype.kind in "fiu" else np.arange(k)
    names = [str(python_label(label)) for label in labels[order]]
    counts = counts[np.ix_(order, order)]
    true, given, hits = counts.sum(axis=1), counts.sum(axis=0), np.diag(counts)
    if k <= MOST_CLASSES:
        yield "<p>Rows: the label in the data. Columns: the label predicted.</p>\n"
        yield _matrix(names, counts)
    else:
        wrong = counts - np.diag(hits)
        most = np.argsort(-wrong.ravel(), kind="stable")[:20]
        pairs = [divmod(place, k) for place in most.tolist()]
        confusions = [(names[a], names[b], f"{wrong[a, b]:,}") for a, b in pairs if wrong[a, b]]
        yield f"<p>{k} classes; the commonest confusions:</p>\n"
        yield _table(["label", "predicted", "rows"], confusions)
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = np.stack([hits / given, hits / true, 2 * hits / (given + true)], axis=1)
    lines = [(names[c], f"{true[c]:,}", f"{given[c]:,}", *map(_percent, parts[c])) for c in range(k)]
    yield _table(["label", "rows", "predicted", "precision", "recall", "F1"], lines[:MOST_LINES])
    if k > MOST_LINES:
        yield f'<p class="small">and {k - MOST_LINES} labels more</p>\n'
    yield '<p class="small">These rows were trained on: other data will do worse (odm-train -v, --loo).</p>\n'


def _matrix(names: Sequence[str], counts: Codes) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = []
    for name, row in zip(names, counts, strict=True):
        cells = ""
        for other, count in zip(names, row.tolist(), strict=True):
            colour = "0 158 115" if name == other else "213 94 0"  # right, wrong
            shade = f'style="background:rgb({colour} / {0.6 * count / max(1, row.sum()):.2f})"'
            cells += f"<td {shade}>{count:,}</td>" if count else '<td class="zero">0</td>'
        lines.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    return (
        f'<div class="scroll"><table class="matrix"><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>\n"
    )


def _tasks(tasks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    lines = [
        (
            " against ".join(map(str, task["labels"])) + " against others" * (len(task["labels"]) == 1),
            task["status"].replace("_", " "),
            f"{task['iterations']:,}",
            _short(task["gap"]),
            "" if task["support_vectors"] is None else f"{task['support_vectors']:,}",
        )
        for task in tasks[:MOST_LINES]
    ]
    if lines:
        yield _table(["classes", "status", "iterations", "gap", "support vectors"], lines)
    if len(tasks) > MOST_LINES:
        yield f'<p class="small">and {len(tasks) - MOST_LINES} tasks more</p>\n'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = f"<thead><tr>{''.join(f'<th>{escape(text)}</th>' for text in head)}</tr></thead>" if head else ""
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>\n'


def _charts(charts: Iterable[Chart]) -> str:
    return f'<div class="charts">{"".join(map(svg_element, charts))}</div>\n'


def _short(value: Any, digits: int = 4) -> str:
    return "unknown" if value is None else f"{value:.{digits}g}"


def _percent(part: float) -> str:
    return f"{100 * part:.4g}%" if np.isfinite(part) else "-"
