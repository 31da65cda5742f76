"""odm-train [options] training_set_file [model_file]

Train a machine on data in LIBSVM format and write a model file.

    odm-train heart.txt                        model in heart.txt.model
    odm-train -t linear -c 4 train.txt m       linear machine, model in m
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import IO, TYPE_CHECKING, Any

from odmlib._version import __version__
from odmlib.cli.common import ProgressLine, ToolParser, UsageError, run_tool, say, warn
from odmlib.cli.parser import number, positive_whole_number, whole_number
from odmlib.errors import OdmError, ParameterError
from odmlib.names import LEAVE_ONE_OUT_MACHINES, SEMI_SUPERVISED_MACHINES
from odmlib.options import TrainOptions, option_fields

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from odmlib.data.problem import Problem
    from odmlib.model.model import Model

PROGRAM = "odm-train"

DESCRIPTION = """\
Train an optimal margin distribution machine on data in LIBSVM format.
training_set_file may be - (standard input) and may be packed with gzip, bzip2 or xz;
model_file defaults to the name of the training file + .model, in this directory.
"""

EXAMPLES = """\
examples:
  odm-train heart.txt                             ODM with RBF kernel; model in heart.txt.model
  odm-train -t linear -c 4 -n 0.5 -p 0.2 a.txt m  linear ODM; model in m
  odm-train -v 5 -g 0.5 a.txt                     5-fold cross-validation, no model
  odm-train -C a.txt m                            search C and gamma; model of the best in m
  odm-train --loo -g 0.5 a.txt                    leave-one-out from one fit, no model
  odm-train -s 5 --assigned found mixed.txt       unlabeled rows (label 0) help; their labels in found
  odm-scale -l 0 -s r a.txt | odm-train - m       from a pipe
  odm-train -s 6 --spark local[2] parts/ m        on Spark, from a directory of files
"""


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool(PROGRAM, lambda: run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    arguments = make_parser().parse(argv)
    arguments.command = " ".join([PROGRAM, *argv])
    options = make_options(arguments)
    if arguments.spark is not None:
        from odmlib.cli.spark import spark_options

        options = spark_options(arguments, options)
    check_files(arguments)
    if arguments.v is not None and not arguments.search:
        return validate(arguments, options)
    return train(arguments, options)


# ---------------------------------------------------------------------------------------- command line


def make_parser() -> ToolParser:
    parser = ToolParser(
        PROGRAM,
        DESCRIPTION,
        usage="odm-train [options] training_set_file [model_file]",
        epilog=EXAMPLES,
        help_flags=("--help",),
    )
    add_training_options(parser)
    parser.option("-v", type=whole_number, metavar="N", help="N-fold cross-validation; writes no model")
    parser.switch(
        "-C",
        "--search",
        dest="search",
        help="search C and gamma where they are not given, by cross-validation (-v, default 5) or --loo; "
        "a model of the best is written only if named; odm-grid does more",
    )
    parser.switch(
        "--loo",
        help="leave-one-out accuracy from one fit, and the paper's bound; a model is written only if named",
    )
    parser.option("--json", metavar="FILE", help="write a machine-readable report of the run")
    parser.option("--report", metavar="FILE", help="write a report of the run as one HTML page")
    parser.option("--margins", metavar="FILE", help="write the margin of every training row, one per line")
    parser.option(
        "--assigned",
        metavar="FILE",
        help="ssodm: write the label found for every unlabeled row, one per line",
    )
    parser.option(
        "--spark",
        metavar="MASTER",
        help="sodm: train on the Spark cluster of this master (local[2], spark://host:7077, yarn); "
        "training_set_file may be a directory of files, or an address (hdfs://...)",
    )
    parser.switch("-q", "--quiet", help="say nothing but warnings and results")
    parser.add_argument("training_set_file", metavar="training_set_file")
    parser.add_argument("model_file", nargs="?", metavar="model_file")
    return parser


def add_training_options(parser: ToolParser, without: Sequence[str] = ()) -> None:
    """The options of TrainOptions, and those of the data; for every tool that trains."""
    for option in option_fields():
        flags = option.metadata["flags"]
        if not flags or option.name in without:
            continue
        details: dict[str, Any] = {}
        if "-h" in flags:  # LIBSVM's shrinking; a bare -h asks for help
            details = {"alone": "--help", "choices": ("0", "1")}
        parser.option(
            *flags,
            type=str if "-h" in flags else explained(option.metadata["convert"]),
            metavar=option.metadata["metavar"],
            dest=option.name,
            help=with_default(option),
            **details,
        )
    parser.option(
        "-w",
        words=2,
        type=number,
        repeat=True,
        metavar="LABEL W",
        help="-wLABEL W: weight of a class, repeatable",
    )
    parser.option("-W", "--weights", metavar="FILE", help="row weights, one number per line")
    parser.option("--features", type=positive_whole_number, metavar="N", help="number of features")
    parser.switch("--zero-based", help="feature indices in the file count from 0")


def explained(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """`convert` with its own words for a fault, which argparse would drop."""

    def converted(text: str) -> Any:
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return converted


def with_default(option: dataclasses.Field) -> str:
    text = option.metadata["help"].replace("%", "%%")
    if option.default is None:
        return text
    shown = int(option.default) if isinstance(option.default, bool) else option.default
    return f"{text} (default {shown:g})" if isinstance(shown, float) else f"{text} (default {shown})"


def given_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the command line says of TrainOptions."""
    given = {
        option.name: getattr(arguments, option.name)
        for option in option_fields()
        if option.metadata["flags"] and getattr(arguments, option.name, None) is not None
    }
    if "shrinking" in given:
        given["shrinking"] = given["shrinking"] == "1"
    if arguments.w:
        from odmlib.data.labels import python_label

        given["class_weight"] = {python_label(label): weight for label, weight in arguments.w}
    return given


def check_folds(v: int | None) -> None:
    if v is not None and v < 2:
        raise UsageError(f"-v: cross-validation needs at least 2 folds, found {v}")


def checked_options(given: dict[str, Any]) -> TrainOptions:
    """What is out of range is bad usage."""
    try:
        return TrainOptions(**given)
    except ParameterError as error:
        raise UsageError(str(error)) from None


def make_options(arguments: argparse.Namespace) -> TrainOptions:
    """The options, checked."""
    check_folds(arguments.v)
    if arguments.v is not None and arguments.loo:
        raise UsageError("-v and --loo are two ways to the same end; give one of them")
    options = checked_options(given_options(arguments))
    if arguments.assigned is not None and options.machine not in SEMI_SUPERVISED_MACHINES:
        raise UsageError(f"--assigned is for machine {', '.join(SEMI_SUPERVISED_MACHINES)}")
    check_leave_one_out(arguments.loo, options)
    if (arguments.loo or arguments.search) and arguments.model_file is None:
        options = dataclasses.replace(options, probability=False)  # for nobody
    return options


def check_leave_one_out(wanted: bool, options: TrainOptions) -> None:
    if wanted and options.machine not in LEAVE_ONE_OUT_MACHINES:
        known = ", ".join(LEAVE_ONE_OUT_MACHINES)
        raise UsageError(
            f"--loo is for machine {known} (-n 0 -p 0: the SVM with squared loss); use -v N instead"
        )


def check_files(arguments: argparse.Namespace) -> None:
    inputs = [arguments.training_set_file, arguments.weights, arguments.init]
    if inputs.count("-") > 1:
        raise UsageError("only one file can come from standard input")
    refuse_overwriting(arguments.json, inputs)
    refuse_overwriting(arguments.margins, inputs)
    refuse_overwriting(arguments.report, inputs)
    refuse_overwriting(arguments.assigned, inputs)
    if arguments.v is not None and not arguments.search:
        if arguments.report is not None:
            raise UsageError("--report is about a model; -v makes none (--json writes what -v found)")
        if arguments.assigned is not None:
            raise UsageError("--assigned are labels found in training; -v makes no model")
        if arguments.margins is not None:
            raise UsageError("--margins are those of a model; -v makes none")
        if arguments.model_file is not None:
            raise UsageError(f"-v writes no model, but a model file is named: {arguments.model_file}")
        return
    if arguments.search and arguments.model_file is None and arguments.margins is not None:
        raise UsageError("--margins are those of a model; -C makes one only if a model file is named")
    if arguments.model_file is None and not (arguments.loo or arguments.search):  # which may want no model
        if arguments.training_set_file == "-":
            raise UsageError("name a model file when the training set comes from standard input")
        arguments.model_file = os.path.basename(arguments.training_set_file.rstrip("/")) + ".model"
    if outputs(arguments).count("-") > 1:
        raise UsageError("only one of the model, the report and the margins can go to standard output")
    refuse_overwriting(arguments.model_file, inputs[:2])  # --init may name the model to go on with


def outputs(arguments: argparse.Namespace) -> list[str | None]:
    return [
        arguments.model_file,
        arguments.json,
        arguments.margins,
        arguments.report,
        arguments.assigned,
    ]


def refuse_overwriting(output: str | None, inputs: Sequence[str | None]) -> None:
    """A slip of the fingers must not cost the user the data."""
    for name in inputs:
        if (
            output
            and name
            and os.path.isfile(name)
            and os.path.exists(output)
            and os.path.samefile(name, output)
        ):
            raise UsageError(f"the output would replace the input {name}")


# ---------------------------------------------------------------------------------------- work


def train(arguments: argparse.Namespace, options: TrainOptions) -> int:
    from odmlib.data.files import open_output
    from odmlib.data.labels import python_label
    from odmlib.machines.ssodm import fallback_message
    from odmlib.machines.training import convergence_message, train_problem
    from odmlib.model.text_format import model_text
    from odmlib.solvers.control import CONVERGED
    from odmlib.solvers.trace import Trace

    # the outputs are opened first: a directory that cannot be written to shows before the work, not after
    named = arguments.model_file is not None
    with (
        open_report(arguments.json) as write_report,
        open_lines(arguments.margins) as write_margins,
        open_lines(arguments.assigned) as write_assigned,
        open_output(arguments.report, text=True) if arguments.report else nullcontext() as page,
        open_output(arguments.model_file) if named else nullcontext() as stream,
    ):
        started = time.perf_counter()
        tell, problem, read_seconds = teller(arguments), None, None
        serials, n_columns, found = None, 0, None
        if arguments.spark is None:
            problem, serials, n_columns = read_problem(arguments, options)
            read_seconds = time.perf_counter() - started
            tell(describe_data(problem))
        if arguments.search and problem is not None:
            from odmlib.cli.grid import short_search

            options, found = short_search(arguments, options, problem)
            if not named:
                write_report(found)
                return 0
        with ProgressLine(None if arguments.quiet else sys.stderr) as progress:
            trace = Trace(progress)
            traced = dataclasses.replace(options, callback=trace)
            if problem is not None:
                model = train_problem(problem, traced)
            else:
                from odmlib.cli.spark import train_on_spark

                model = train_on_spark(arguments, traced, progress)
        if problem is None:
            tell(describe_rows(model))
        model.report["trace"] = trace.points()
        trained = model
        estimate = ""
        if arguments.loo:
            assert problem is not None
            estimate = leave_one_out_line(model, problem, options)
        model = as_in_file(model, arguments.zero_based, serials, n_columns)
        for line in describe_model(model):
            tell(line)
        if (fallback := fallback_message(model.report)) is not None:
            warn(PROGRAM, fallback)
        if model.report["status"] != CONVERGED:
            warn(PROGRAM, convergence_message(model.report, options.tol))
        if estimate:
            print(estimate, file=sys.stderr if "-" in outputs(arguments) else sys.stdout, flush=True)
        started = time.perf_counter()
        if stream is not None:
            for piece in model_text(model):
                stream.write(piece)
        written = time.perf_counter() - started if named else None
        model.report["seconds"] |= {"read": read_seconds, "write": written}
        if found is not None:
            model.report["search"] = found["search"]
        if problem is not None:
            write_margins(model.training_margins)
        write_assigned([] if model.assigned is None else [python_label(label) for label in model.assigned])
        if page is not None:
            write_page(page, trained, problem, arguments)
        write_report(model.report)
    if named:
        tell(f"model written to {'standard output' if arguments.model_file == '-' else arguments.model_file}")
    return 0


def leave_one_out_line(model: Model, problem: Problem, options: TrainOptions) -> str:
    """The result as LIBSVM words it, the paper's bound beside it; the report gets its entry."""
    from odmlib.selection.leave_one_out import leave_one_out_of

    if "leave_one_out" not in model.report:  # probabilities have it made already
        model.report["leave_one_out"] = leave_one_out_of(model, problem, options).report()
    found, rows = model.report["leave_one_out"], problem.rows.n_rows
    right = f"{rows - found['errors']}/{rows}"
    return (
        f"Leave-one-out Accuracy = {100 * found['accuracy']:g}% ({right}; "
        f"{found['errors']} errors, at most {found['bound']:.1f} by the paper's bound)"
    )


def validate(arguments: argparse.Namespace, options: TrainOptions) -> int:
    from odmlib.selection.cross_validation import cross_validate

    with open_report(arguments.json) as write_report:
        started = time.perf_counter()
        problem, _, _ = read_problem(arguments, options)
        read_seconds = time.perf_counter() - started
        tell = teller(arguments)
        tell(describe_data(problem))
        if arguments.v > problem.rows.n_rows:
            warn(
                PROGRAM, f"{arguments.v} folds for {problem.rows.n_rows} rows: leaving out one row at a time"
            )
        started = time.perf_counter()
        with ProgressLine(None if arguments.quiet else sys.stderr) as progress:
            result = cross_validate(problem, dataclasses.replace(options, callback=progress), arguments.v)
        if result.unfinished:
            warn(PROGRAM, f"training did not converge in {result.unfinished} of {result.n_folds} folds")
        line = f"Cross Validation Accuracy = {100 * result.accuracy:g}%"
        print(line, file=sys.stderr if arguments.json == "-" else sys.stdout, flush=True)
        write_report(
            {
                "version": __version__,
                "machine": options.machine,
                "kernel": options.kernel,
                "rows": problem.rows.n_rows,
                "features": problem.rows.n_features,
                "nonzeros": problem.rows.n_nonzeros,
                "cross_validation": {
                    "folds": result.n_folds,
                    "accuracy": result.accuracy,
                    "unfinished": result.unfinished,
                },
                "seconds": {"read": read_seconds, "train": time.perf_counter() - started, "write": None},
                "threads": options.n_threads,
                "seed": options.seed,
            }
        )
    return 0


def read_problem(
    arguments: argparse.Namespace, options: TrainOptions
) -> tuple[Problem, NDArray[np.int64] | None, int]:
    """The rows with their weights, a precomputed kernel's serials, and the number of columns in the file."""
    from odmlib.data.precomputed import split_serials, square_matrix
    from odmlib.data.reading import read_dataset
    from odmlib.machines.training import make_problem

    precomputed = options.kernel == "precomputed"
    features = arguments.features
    rows, labels = read_dataset(
        arguments.training_set_file,
        features=features + 1 if precomputed and features else features,  # column 0 holds the serials
        zero_based=arguments.zero_based or precomputed,
        threads=options.threads,
    )
    serials, n_columns = None, rows.n_features
    if precomputed:
        serials, values = split_serials(rows, shown_name(arguments.training_set_file))
        rows, n_columns = (
            square_matrix(serials, values, shown_name(arguments.training_set_file)),
            values.n_features,
        )
    weights = read_weights(arguments.weights, rows.n_rows) if arguments.weights else None
    try:
        problem = make_problem(rows, labels, dataclasses.replace(options, sample_weight=weights))
        problem.require_classes(options.machine)
        return problem, serials, n_columns
    except ParameterError as error:
        raise OdmError(f"{shown_name(arguments.training_set_file)}: {error}") from None


def read_weights(path: str, n_rows: int) -> NDArray[np.float64]:
    """Row weights: a file of single numbers is a data file whose rows are all label."""
    from odmlib.data.problem import check_sample_weights
    from odmlib.data.reading import read_dataset

    rows, weights = read_dataset(path)
    if rows.n_nonzeros:
        raise OdmError(f"{shown_name(path)}: expected one number per line, found index:value items")
    try:
        return check_sample_weights(weights, n_rows)
    except ParameterError as error:
        raise OdmError(f"{shown_name(path)}: {error}") from None


def as_in_file(model: Model, zero_based: bool, serials: NDArray[np.int64] | None, n_columns: int) -> Model:
    """The model in the terms of its training file: how it counts features, which serials its rows have."""
    from odmlib.model.functions import PrecomputedFunction

    if serials is not None and isinstance(model.function, PrecomputedFunction):
        function = dataclasses.replace(model.function, serials=serials[model.function.serials - 1])
        model = dataclasses.replace(model, function=function, n_features=n_columns)
    return dataclasses.replace(model, zero_based=zero_based)


@contextmanager
def open_report(target: str | None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that writes the JSON report; does nothing where none is wanted."""
    if target is None:
        yield lambda report: None
        return
    from odmlib.data.files import open_output

    with open_output(target, text=True) as stream:
        # flushed, so that a full disk shows before the model replaces an older one
        yield lambda report: print(json.dumps(plain(report), indent=2), file=stream, flush=True)


def write_page(page: IO[str], model: Model, problem: Problem | None, arguments: argparse.Namespace) -> None:
    from odmlib.plots.page import report_page

    name = os.path.basename(shown_name(arguments.training_set_file))
    for piece in report_page(model, problem, name, arguments.command):
        page.write(piece)
    page.flush()


@contextmanager
def open_lines(target: str | None) -> Iterator[Callable[[Any], None]]:
    """A function that writes numbers, one per line in full precision; does nothing where none are wanted."""
    if target is None:
        yield lambda numbers: None
        return
    from odmlib.data.files import open_output

    with open_output(target, text=True) as stream:

        def write(numbers: Any) -> None:
            assert numbers is not None
            for begin in range(0, len(numbers), 1 << 16):
                some = numbers[begin : begin + (1 << 16)]
                some = some.tolist() if hasattr(some, "tolist") else some
                stream.write("".join(f"{number!r}\n" for number in some))
            stream.flush()

        yield write


def plain(value: Any) -> Any:
    """A report as JSON can say it: numbers that are not finite (a gap not known yet) become null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


# ---------------------------------------------------------------------------------------- talk


def teller(arguments: argparse.Namespace, program: str = PROGRAM) -> Callable[[str], None]:
    return (lambda line: None) if arguments.quiet else (lambda line: say(program, line))


def shown_name(path: str) -> str:
    return "<stdin>" if path == "-" else path


def describe_data(problem: Problem) -> str:
    from odmlib.data.labels import show_labels

    rows = problem.rows
    unlabeled = f" ({problem.n_unlabeled} unlabeled)" if problem.n_unlabeled else ""
    return (
        f"{rows.n_rows} rows{unlabeled}, {rows.n_features} features, {rows.n_nonzeros} nonzeros, "
        f"labels {show_labels(problem.labels)}"
    )


def describe_rows(model: Model) -> str:
    """The same of rows that were never here."""
    from odmlib.data.labels import show_labels

    report = model.report
    return (
        f"{report['rows']} rows, {report['features']} features, {report['nonzeros']} nonzeros, "
        f"labels {show_labels(model.labels)}"
    )


def describe_model(model: Model) -> Iterator[str]:
    report, margin = model.report, model.report["margin"]
    parameters = ", ".join(
        f"{name} {value}" if isinstance(value, str) else f"{name} {value:g}"
        for name, value in model.parameters.items()
        if name != "tol"
    )
    yield f"{model.machine}, {model.formula.name} kernel: {parameters}"
    if tasks := report.get("tasks"):
        done = sum(task["status"] == "converged" for task in tasks)
        scheme = {"ovo": "one-vs-one", "ovr": "one-vs-rest"}.get(model.scheme, model.scheme)
        yield f"{model.n_classes} classes, {scheme}: {done} of {len(tasks)} tasks converged"
    yield (
        f"{report['status']} after {report['iterations']} iterations ({report['solver']}), "
        f"{report['seconds']['train']:.2f} s: "
        f"objective {report['primal']:.6g}, relative gap {report['gap']:.1e}"
    )
    if notes := report.get("semi_supervised"):
        yield from describe_search(notes)
    if approximation := report.get("approximation"):
        yield (
            f"Nystrom over {approximation['rank']} landmarks: "
            f"{100 * approximation['trace_error']:.2g}% of the kernel's trace is left out; "
            "objective and gap are those of machines over the landmarks"
        )
    if probability := report.get("probability"):
        yield f"probabilities from {probability['source']}: log-loss {probability['log_loss']:.4g}"
    if shift := report["details"].get("shift"):
        yield f"the kernel is not positive semidefinite: trained with {shift:.3g} added to its diagonal"
    support = "" if model.n_support is None else f"{model.n_support} support vectors; "
    yield (
        f"{support}margins: mean {margin['mean']:.4g}, variance {margin['variance']:.4g}, "
        f"minimum {margin['min']:.4g}, median {margin['quantiles']['0.5']:.4g}"
    )


def describe_search(notes: dict[str, Any]) -> Iterator[str]:
    """How ssodm labeled the unlabeled rows."""
    for place, note in enumerate(notes.get("tasks", [notes]), 1):
        task = f"task {place}: " if "tasks" in notes else ""
        low, high = note["positives"]
        found = "" if note["P"] is None else f", objective {note['P']:.6g}"
        found += "" if note["J"] is None else f", relaxed {note['J']:.6g} after {note['cuts']} cuts"
        yield (
            f"{task}{note['branch']}: {note['assigned_positive']} unlabeled rows positive "
            f"({low} to {high} allowed), {100 * note['disagreement']:.3g}% against the supervised machine"
            f"{found}"
        )


if __name__ == "__main__":
    sys.exit(main())
