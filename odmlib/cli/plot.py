"""odm-plot: pictures of data, models and runs, in the terminal or as PNG, SVG or PDF."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from odmlib.cli.common import bad_values_as_usage, base_name, one_line, run_tool, say, shown_name, warn
from odmlib.cli.parser import ToolParser, UsageError, number, positive_whole_number, terminal_columns
from odmlib.cli.tables import add_table_options
from odmlib.errors import OdmError

if TYPE_CHECKING:
    from odmlib.data.dataset import Dataset
    from odmlib.model.model import Model
    from odmlib.plots.chart import Picture

PROGRAM = "odm-plot"

DESCRIPTION = """\
Draw what machines of the margin distribution are about. Without -o the picture is text on
standard output; with -o FILE.png, .svg or .pdf it is a file (.png and .pdf need matplotlib).

kinds (odm-plot KIND --help says more):
  margins      data_file model_file ...   cumulative margin distribution of one or several models
  histogram    data_file model_file ...   histogram of the margins, a picture per model (or per class)
  roc          data_file model_file ...   true against false positive rate
  pr           data_file model_file ...   precision against recall
  confusion    data_file model_file ...   rows by their label and the predicted one
  predictions  data_file model_file ...   predicted against true targets (models of regression)
  calibration  data_file model_file ...   frequencies against probabilities (models of odm-train -b 1)
  boundary     data_file model_file ...   regions of the labels in the plane of two columns
  weights      model_file ...             largest weights of linear machines
  tune         result_file ...            accuracies of a search, from odm-grid -out
  accuracy     data_file                  cross-validated accuracy against lambda, C, gamma, nu or theta
  convergence  report.json ...            relative duality gap against time, from odm-train --json
  levels       report.json                what each level of a partitioned machine (sodm) reached
"""

EXAMPLES = """\
examples:
  odm-plot margins test.txt svm.model odm.model              in the terminal
  odm-plot margins -o margins.png test.txt svm.model odm.model
  odm-plot histogram --per-class test.txt odm.model
  odm-plot roc -o roc.png test.txt svm.model odm.model       two models in one picture
  odm-plot confusion test.txt odm.model
  odm-plot accuracy --over lambda --log2 0,20,2 -t linear -o lambda.svg train.txt
  odm-train --json run.json train.txt m && odm-plot convergence run.json
"""

MARGINS = """\
Cumulative margin distribution of one or several models on a data file: for every margin the part
of the rows that have at most this one. Left of 0: rows predicted wrongly."""
ROC = """\
True against false positive rate at every threshold; the legend shows the area under each curve.
More than two classes: each class against the rest, and the average."""
PR = """\
Precision against recall at every threshold; the legend shows the average precision (AP). More than two
classes: each class against the rest, and the average."""
CONFUSION = "Rows by their label (down) and the predicted label (across), one picture per model."
PREDICTIONS = """\
Predicted against true targets of models of regression, with R^2. Points on the dashed line are right."""
CALIBRATION = """\
Observed frequency against predicted probability, with one standard error. Two classes: of the
positive label. More: of the predicted label. The models must come from odm-train -b 1."""
BOUNDARY = """\
The label that a model predicts in the plane of two columns, and the rows of the data. Other columns
are held at their median. The deepest shade is the band of margins without loss."""
WEIGHTS = "The largest weights of linear machines, one picture per model."
TUNE = "The accuracies of a search, from the result file of odm-grid (-out) or LIBSVM's grid.py."
CONVERGENCE = "Relative duality gap against time, from odm-train --json."
LEVELS = "What the levels of a partitioned machine reached, and when."

# name on the command line: name of the option
NUMBERS = {"lambda": "lambda_"} | {name: name for name in ("C", "gamma", "nu", "theta", "epsilon", "degree")}
DEFAULTS = {
    "lambda": [2.0**k for k in range(0, 21, 2)],
    "C": [2.0**k for k in range(-5, 16, 2)],
    "gamma": [2.0**k for k in range(-15, 4, 2)],
    "nu": [0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
    "theta": [0.0, 0.2, 0.4, 0.6, 0.8],
    "epsilon": [0.0, 0.1, 0.2, 0.4, 0.8],
    "degree": [1.0, 2.0, 3.0, 4.0, 5.0],
}


def run(argv: Sequence[str]) -> int:
    if argv and argv[0] in KINDS:
        parser_of_kind, draw = KINDS[argv[0]]
        arguments = parser_of_kind().parse(argv[1:])
        check_outputs(arguments)
        show(draw(arguments), arguments)
        return 0
    kind = next(iter(make_parser().parse(argv).words), None)
    known = ", ".join(KINDS)
    raise UsageError(
        f"unknown kind '{kind}' (known: {known})" if kind else f"name a kind of picture: {known}"
    )


# ---------------------------------------------------------------------------------------- command line


def make_parser() -> ToolParser:
    parser = ToolParser(PROGRAM, "KIND [options] files", DESCRIPTION, EXAMPLES)
    parser.add_argument("words", nargs="*", metavar="KIND")
    parser.kinds = {kind: make for kind, (make, _) in KINDS.items()}
    return parser


def new_parser(kind: str, description: str, files: str) -> ToolParser:
    parser = ToolParser(f"{PROGRAM} {kind}", f"[options] {files}", description)
    add_outputs(parser)
    return parser


def add_outputs(parser: ToolParser) -> None:
    parser.option("-o --output FILE", "write a picture: .png, .svg or .pdf (default: text)")
    parser.option("--data FILE", "write the numbers of the picture as JSON; - is stdout")
    parser.option("--title TEXT", "title of the picture")


def models_parser(kind: str, description: str) -> ToolParser:
    """Of a picture of models on data."""
    parser = new_parser(kind, description, "data_file model_file ...")
    parser.option("--names A,B,...", "names of the models (default: of their files)")
    parser.option("-j --threads N", "threads", type=positive_whole_number)
    add_table_options(parser, one_hot=False)
    parser.add_argument("data_file")
    parser.add_argument("model_file", nargs="+")
    return parser


def margin_parser(kind: str, description: str) -> ToolParser:
    parser = models_parser(kind, description)
    parser.option("--relative", "divide by the mean size of each model's margins: compares shapes only")
    return parser


def curve_parser(kind: str, description: str) -> ToolParser:
    parser = models_parser(kind, description)
    parser.option("--positive LABEL", "the label to look for (default: the larger of two)")
    return parser


def confusion_parser() -> ToolParser:
    parser = models_parser("confusion", CONFUSION)
    parser.option("--normalize", "percent of the rows with this label, instead of rows")
    return parser


def calibration_parser() -> ToolParser:
    parser = curve_parser("calibration", CALIBRATION)
    parser.option("--bins N", "bins of probabilities (default 10)", type=positive_whole_number, default=10)
    return parser


def boundary_parser() -> ToolParser:
    parser = models_parser("boundary", BOUNDARY)
    parser.option("--columns A,B", "the two columns, counted from 1 (default 1,2)", type=column_pair)
    return parser


def weights_parser() -> ToolParser:
    parser = new_parser("weights", WEIGHTS, "model_file ...")
    parser.option("--names A,B,...", "names of the models (default: of their files)")
    parser.option("--top N", "so many weights (default 15)", type=positive_whole_number, default=15)
    parser.add_argument("model_file", nargs="+")
    return parser


def tune_parser() -> ToolParser:
    parser = new_parser("tune", TUNE, "result_file ...")
    parser.add_argument("result_file", nargs="+")
    return parser


def column_pair(text: str) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2:
        raise ValueError(f"expected two columns such as 1,2, found '{text}'")
    first, second = (positive_whole_number(part) for part in parts)
    return first, second


def histogram_parser() -> ToolParser:
    parser = margin_parser("histogram", "Histogram of the margins of a data file's rows, one per model.")
    parser.option("--per-class", "one histogram per class")
    parser.option("--bins N", "about N bars (default 24)", type=positive_whole_number, default=24)
    return parser


def accuracy_parser() -> ToolParser:
    from odmlib.cli.train import make_parser

    parser = make_parser()
    parser.prog = f"{PROGRAM} accuracy"
    parser.usage = f"{PROGRAM} accuracy [options] [odm-train options] data_file"
    parser.description = (
        "Cross-validated accuracy (-v N folds, default 5) against one number of the machine;\n"
        "error bars are one standard error, from the spread of the folds."
    )
    parser.epilog = EXAMPLES
    add_outputs(parser)
    parser.option("--over NAME", ", ".join(NUMBERS), choices=tuple(NUMBERS), default="lambda")
    parser.option("--values A,B,...", "values to measure at", type=numbers)
    parser.option("--log2 B,E,S", "powers of 2 from B to E by S, as in grid.py", type=powers)
    return parser


def report_parser(kind: str, description: str) -> ToolParser:
    parser = new_parser(kind, description, "report.json ...")
    parser.add_argument("report", nargs="+")
    return parser


def numbers(text: str) -> list[float]:
    return [number(part) for part in text.split(",")]


def powers(text: str) -> list[float]:
    parts = numbers(text)
    if len(parts) != 3 or parts[2] == 0 or (parts[1] - parts[0]) / parts[2] < 0:
        raise ValueError(f"expected begin,end,step such as -5,15,2, found '{text}'")
    count = int((parts[1] - parts[0]) / parts[2] + 1e-9) + 1
    if count > 1000 or max(abs(parts[0]), abs(parts[1])) > 1000:
        raise ValueError(f"expected at most 1000 values within 2^-1000 .. 2^1000, found '{text}'")
    return [2.0 ** (parts[0] + k * parts[2]) for k in range(count)]


def check_outputs(arguments: argparse.Namespace) -> None:
    """What can be said against the outputs before any work is done."""
    if arguments.output is None:
        return
    from odmlib.plots.picture import picture_format, require_matplotlib

    with bad_values_as_usage():
        kind = picture_format(arguments.output)
    if kind != "svg":
        require_matplotlib(f"a {kind.upper()} picture")


# ---------------------------------------------------------------------------------------- work


def draw_margins(arguments: argparse.Namespace) -> list[Picture]:
    from odmlib.plots.figures import margin_distribution

    models, margins, _ = margins_of_models(arguments)
    title = f"cumulative margin distribution on {on_data(arguments)}"
    return in_their_words(
        models, [margin_distribution(margins, arguments.relative, title, common_band(models))]
    )


def draw_histogram(arguments: argparse.Namespace) -> list[Picture]:
    from odmlib.plots.figures import by_class, margin_histograms

    models, margins, labels = margins_of_models(arguments)
    if arguments.per_class:
        several = len(margins) > 1
        margins = {
            f"{name}, {label}" if several else label: part
            for name, values in margins.items()
            for label, part in by_class(values, labels).items()
        }
    charts = margin_histograms(margins, arguments.bins, arguments.relative, band=common_band(models))
    return in_their_words(models, charts)


def in_their_words(models: dict[str, Model], charts: Sequence[Any]) -> list[Picture]:
    """Charts of margins; of residuals where the models are those of regression."""
    from odmlib.plots.figures import residual_chart

    regression = all(model.is_regression for model in models.values())
    return [residual_chart(chart) if regression else chart for chart in charts]


def margins_of_models(arguments: argparse.Namespace) -> tuple[dict[str, Model], dict[str, Any], Any]:
    """Models and their margins on the data, by name; and the labels of the data."""
    models, margins, labels = {}, {}, None
    for name, model, rows, labels in models_on_data(arguments):
        models[name] = model
        margins[name] = model.margins(rows, labels, arguments.threads)
    return models, margins, labels


def check_kinds(models: Sequence[Model], arguments: argparse.Namespace) -> None:
    """Margins of classes and residuals of regression have nothing in common."""
    kinds = {model.is_regression for model in models}
    if len(kinds) > 1:
        raise UsageError("margins of classes and residuals of regression cannot be drawn together")
    if True in kinds and getattr(arguments, "per_class", False):
        raise UsageError("--per-class is for classes; a model of regression has none")


def common_band(models: dict[str, Model]) -> tuple[float, float] | None:
    """The band of margins without loss, where all models have the same."""
    from odmlib.plots.inside import band_of

    bands = {band_of(model.parameters) for model in models.values()}
    return bands.pop() if len(bands) == 1 else None


def draw_roc(arguments: argparse.Namespace) -> list[Picture]:
    from odmlib.plots.quality import roc_chart

    return [roc_chart(evaluations(arguments), arguments.positive, on_data(arguments))]


def draw_pr(arguments: argparse.Namespace) -> list[Picture]:
    from odmlib.plots.quality import pr_chart

    return [pr_chart(evaluations(arguments), arguments.positive, on_data(arguments))]


def draw_confusion(arguments: argparse.Namespace) -> list[Picture]:
    from odmlib.plots.quality import confusion_matrix

    on = on_data(arguments)
    return [
        confusion_matrix(evaluation, name, arguments.normalize, on)
        for name, evaluation in evaluations(arguments).items()
    ]


def draw_predictions(arguments: argparse.Namespace) -> list[Picture]:
    from odmlib.plots.quality import prediction_chart

    return [prediction_chart(evaluations(arguments, targets=True), on_data(arguments))]


def draw_calibration(arguments: argparse.Namespace) -> list[Picture]:
    from odmlib.plots.quality import calibration_chart

    return [calibration_chart(evaluations(arguments), arguments.bins, arguments.positive, on_data(arguments))]


def draw_boundary(arguments: argparse.Namespace) -> list[Picture]:
    from odmlib.plots.inside import boundary_chart

    columns = arguments.columns or (1, 2)
    return [
        boundary_chart(model, rows, labels, columns, name, threads=arguments.threads)
        for name, model, rows, labels in models_on_data(arguments)
    ]


def draw_weights(arguments: argparse.Namespace) -> list[Picture]:
    from odmlib.model.text_format import load_model
    from odmlib.plots.inside import weight_picture

    models = zip(model_names(arguments), map(load_model, arguments.model_file), strict=True)
    return [weight_picture(model, arguments.top, name) for name, model in models]


def draw_tune(arguments: argparse.Namespace) -> list[Picture]:
    from odmlib.plots.inside import tune_picture
    from odmlib.selection.grid_file import read_search

    return [tune_picture(read_search(path), base_name(path)) for path in arguments.result_file]


def evaluations(arguments: argparse.Namespace, targets: bool = False) -> dict[str, Any]:
    """Every model on the data, by name; all are about classes, or all about targets."""
    from odmlib.plots.quality import check_kind

    result = {}
    for name, model, rows, labels in models_on_data(arguments):
        check_kind(name, model, targets)
        evaluation = model.evaluate(rows, labels, arguments.threads)
        if not targets and evaluation.n_unknown:
            warn(PROGRAM, f"{evaluation.n_unknown} rows have labels that {name} does not know")
        result[name] = evaluation
    return result


def models_on_data(arguments: argparse.Namespace) -> Iterator[tuple[str, Model, Dataset, Any]]:
    """Name, model, rows and labels, for every model file."""
    from odmlib.cli.predict import RowsForModels
    from odmlib.model.text_format import load_model

    names = model_names(arguments)
    if [arguments.data_file, *arguments.model_file].count("-") > 1:
        raise UsageError("only one file can come from standard input")
    models = [load_model(path) for path in arguments.model_file]
    check_kinds(models, arguments)
    data = RowsForModels(arguments.data_file, arguments)
    for name, model in zip(names, models, strict=True):
        yield name, model, *data.read(model)


def on_data(arguments: argparse.Namespace) -> str:
    return base_name(arguments.data_file)


def model_names(arguments: argparse.Namespace) -> list[str]:
    paths = arguments.model_file
    if arguments.names is not None:
        names = arguments.names.split(",")
        if len(names) != len(paths):
            raise UsageError(f"--names: {len(names)} names for {len(paths)} models")
    else:
        names = [base_name(path).removesuffix(".model") for path in paths]
        if len(set(names)) < len(names):
            names = [one_line(path) for path in paths]
    if len(set(names)) < len(names):
        raise UsageError("two models have the same name; give others with --names")
    return names


def draw_accuracy(arguments: argparse.Namespace) -> list[Picture]:
    from odmlib.cli.progress import ProgressLine
    from odmlib.cli.train import make_options
    from odmlib.cli.training import read_problem
    from odmlib.plots.figures import accuracy_chart, with_value

    if arguments.values and arguments.log2:
        raise UsageError("--values and --log2 say the same thing; give one of them")
    if arguments.model_file is not None:
        raise UsageError(f"one data file is drawn at a time, found also {arguments.model_file}")
    if any(getattr(arguments, name) for name in ("json", "margins", "report", "test", "compare", "loo")):
        raise UsageError(
            "--json, --margins, --report, --test, --compare and --loo are odm-train's; "
            "--data writes what is drawn here"
        )
    arguments.v = 5 if arguments.v is None else arguments.v
    options = make_options(arguments)
    over = NUMBERS[arguments.over]
    values = arguments.values or arguments.log2 or DEFAULTS[arguments.over]
    with bad_values_as_usage():  # before the work
        for value in values:
            with_value(options, over, value)
    problem, _, _ = read_problem(arguments, options)
    with ProgressLine(None if arguments.quiet else sys.stderr, PROGRAM) as progress:
        return [accuracy_chart(problem, options.but(callback=progress), over, values, arguments.v)]


def draw_convergence(arguments: argparse.Namespace) -> list[Picture]:
    from odmlib.plots.figures import convergence

    return [convergence(read_reports(arguments.report))]


def draw_levels(arguments: argparse.Namespace) -> list[Picture]:
    from odmlib.plots.figures import level_charts

    reports = read_reports(arguments.report)
    return [chart for name, report in reports.items() for chart in level_charts(report, name)]


def read_reports(paths: Sequence[str]) -> dict[str, dict[str, Any]]:
    from odmlib.data.files import open_input

    reports = {}
    for path in paths:
        with open_input(path, small=True) as stream:
            try:
                report = json.loads(stream.read())
            except ValueError:
                report = None
        if not isinstance(report, dict):
            raise OdmError(f"{shown_name(path)}: not a report; odm-train --json FILE writes one")
        reports[path] = report
    return reports


def show(charts: list[Picture], arguments: argparse.Namespace) -> None:
    import dataclasses

    from odmlib.data.files import open_output
    from odmlib.plots.picture import save_picture
    from odmlib.plots.text import text_chart

    if arguments.title is not None:
        charts = [dataclasses.replace(charts[0], title=arguments.title), *charts[1:]]
    if arguments.data is not None:
        with open_output(arguments.data, text=True) as stream:
            print(json.dumps([chart.data() for chart in charts], indent=1), file=stream)
    if arguments.output is not None:
        save_picture(charts, arguments.output)
        say(PROGRAM, f"picture written to {arguments.output}")
    elif arguments.data != "-":
        print("\n\n".join(text_chart(chart, terminal_columns() - 1) for chart in charts))


KINDS: dict[str, tuple[Callable[[], ToolParser], Callable[[argparse.Namespace], list[Picture]]]] = {
    "margins": (lambda: margin_parser("margins", MARGINS), draw_margins),
    "histogram": (histogram_parser, draw_histogram),
    "roc": (lambda: curve_parser("roc", ROC), draw_roc),
    "pr": (lambda: curve_parser("pr", PR), draw_pr),
    "confusion": (confusion_parser, draw_confusion),
    "predictions": (lambda: models_parser("predictions", PREDICTIONS), draw_predictions),
    "calibration": (calibration_parser, draw_calibration),
    "boundary": (boundary_parser, draw_boundary),
    "weights": (weights_parser, draw_weights),
    "tune": (tune_parser, draw_tune),
    "accuracy": (accuracy_parser, draw_accuracy),
    "convergence": (lambda: report_parser("convergence", CONVERGENCE), draw_convergence),
    "levels": (lambda: report_parser("levels", LEVELS), draw_levels),
}

main = partial(run_tool, PROGRAM, run)

if __name__ == "__main__":
    sys.exit(main())
