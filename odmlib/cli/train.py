"""odm-train: train a machine on data in LIBSVM format and write a model file."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from odmlib.cli import reports
from odmlib.cli.common import refuse_overwriting, refuse_twice, run_tool, warn
from odmlib.cli.parser import ToolParser, UsageError
from odmlib.cli.progress import ProgressLine
from odmlib.cli.training import (
    OUTPUT,
    add_training_options,
    as_in_file,
    checked_options,
    own_group,
    read_problem,
)
from odmlib.names import SEMI_SUPERVISED_MACHINES
from odmlib.values import read_whole

if TYPE_CHECKING:
    from odmlib.cli.stream import Stored
    from odmlib.data.problem import Problem
    from odmlib.model.model import Model
    from odmlib.options import TrainOptions

PROGRAM = "odm-train"
WORK = "what to do"

DESCRIPTION = """\
Train an optimal margin distribution machine on data in LIBSVM format, or on a table (CSV).
training_set_file may be - (standard input) and may be packed with gzip, bzip2 or xz;
model_file defaults to the name of the training file + .model, in this directory; a name that ends
in .npz gets a binary model, which loads faster.
"""

EXAMPLES = """\
examples:
  odm-train heart.txt                             ODM with RBF kernel; model in heart.txt.model
  odm-train -t linear -c 4 -n 0.5 -p 0.2 a.txt m  linear ODM; model in m
  odm-train -v 5 -g 0.5 a.txt                     5-fold cross-validation, no model
  odm-train -C a.txt m                            search C and gamma; model of the best in m
  odm-train --loo -g 0.5 a.txt                    leave-one-out from one fit, no model
  odm-train -s 7 -p 0.5 prices.txt m              regression; residuals up to 0.5 cost nothing
  odm-train -s 8 -n 0.05 normal.txt m             novelty detection; 5% of normal rows may be called novel
  odm-train --report r.html --test b.txt a.txt m  one page about training and test rows
  odm-train -s 5 --assigned found mixed.txt       unlabeled rows (label 0) help; their labels in found
  odm-scale -l 0 -s r a.txt | odm-train - m       from a pipe
  odm-train -s 6 --spark local[2] parts/ m        on Spark, from a directory of files
  odm-train -t 0 --stream -m 500 big.txt m        data larger than memory, in at most 500 MB
"""


def run(argv: Sequence[str]) -> int:
    arguments = make_parser().parse(argv)
    arguments.command = " ".join([PROGRAM, *argv])
    options = make_options(arguments)
    from odmlib.cli.stream import stream_options

    options = stream_options(arguments, options)
    if arguments.spark is not None:
        from odmlib.cli.spark import check_spark_options

        check_spark_options(arguments, options)
    elif arguments.engine is not None:
        raise UsageError("--engine is for --spark")
    check_files(arguments)
    if arguments.v is not None and not arguments.search:
        return validate(arguments, options)
    return train(arguments, options)


def make_parser() -> ToolParser:
    usage = "[options] training_set_file [model_file]"
    parser = ToolParser(PROGRAM, usage, DESCRIPTION, EXAMPLES, help_flags="--help")
    add_training_options(parser)
    parser.option("-v N", "N-fold cross-validation; writes no model", type=read_whole, group=WORK)
    parser.option(
        "-C --search",
        "search C and gamma where they are not given, by cross-validation (-v, default 5) or --loo; "
        "a model of the best is written only if named; odm-grid does more",
        group=WORK,
    )
    left_out = (
        "leave-one-out accuracy from one fit (odm: with a proven bound); a model is written only if named"
    )
    parser.option("--loo", left_out, group=WORK)
    stream = "train a linear machine (odm, svm, odml) on rows that do not fit into memory; -m caps the memory"
    parser.option("--stream", stream, group=WORK)
    cache_dir = "--stream: where its cache of the rows is written (default: the current directory)"
    parser.option("--cache-dir FOLDER", cache_dir, group=WORK)
    keep = "--stream: leave the cache for other runs on the same file; it is removed otherwise"
    parser.option("--keep-cache", keep, group=WORK)
    parser.option("--json FILE", "write a machine-readable report of the run", group=OUTPUT)
    parser.option("--report FILE", "write a report of the run as one HTML page", group=OUTPUT)
    test = "test rows: prints the accuracy (regression: the error) on them, and --report shows them"
    parser.option("--test FILE", test, group=OUTPUT)
    compare = "models that --report shows beside this one, on the same rows"
    parser.option("--compare MODEL,...", compare, group=OUTPUT)
    parser.option("--margins FILE", "write the margin of every training row, one per line", group=OUTPUT)
    assigned = "ssodm: write the label found for every unlabeled row, one per line"
    parser.option("--assigned FILE", assigned, group=own_group("ssodm"))
    parser.option(
        "--spark MASTER",
        "sodm: train on the Spark cluster of this master (local[2], spark://host:7077, yarn), or on this "
        "Spark Connect server (sc://host:15002); training_set_file may be a directory, or an address "
        "(hdfs://...)",
        group=own_group("sodm"),
    )
    engine = (
        "--spark: jobs, a job for every round (default), or barrier, one barrier stage, whose rounds take "
        "milliseconds"
    )
    parser.option("--engine NAME", engine, group=own_group("sodm"))
    parser.option("-q --quiet", "say nothing but warnings and results", group=OUTPUT)
    parser.add_argument("training_set_file")
    parser.add_argument("model_file", nargs="?")
    return parser


def make_options(arguments: argparse.Namespace) -> TrainOptions:
    """The options, checked."""
    options = checked_options(arguments)
    if arguments.assigned is not None and options.machine not in SEMI_SUPERVISED_MACHINES:
        raise UsageError(f"--assigned is for machine {', '.join(SEMI_SUPERVISED_MACHINES)}")
    if (arguments.loo or arguments.search) and arguments.model_file is None:
        options = options.but(probability=False)  # for nobody
    return options


def check_files(arguments: argparse.Namespace) -> None:
    inputs = [arguments.training_set_file, arguments.weights, arguments.init, arguments.test]
    if arguments.compare is not None and arguments.report is None:
        raise UsageError("--compare names models for --report; name a file with --report")
    if arguments.compare and not arguments.test and (arguments.training_set_file == "-" or arguments.spark):
        raise UsageError("--compare needs rows that can be read again; give --test FILE")
    if inputs.count("-") > 1:
        raise UsageError("only one file can come from standard input")
    for output in outputs(arguments)[1:]:
        refuse_overwriting(output, inputs)
    if arguments.v is not None and not arguments.search:
        for output, message in (
            (arguments.report, "--report is about a model; -v makes none (--json writes what -v found)"),
            (arguments.test, "--test rows are for a model; -v makes none"),
            (arguments.assigned, "--assigned are labels found in training; -v makes no model"),
            (arguments.margins, "--margins are those of a model; -v makes none"),
            (arguments.model_file, f"-v writes no model, but a model file is named: {arguments.model_file}"),
        ):
            if output is not None:
                raise UsageError(message)
        return
    if arguments.search and arguments.model_file is None:
        for flag in ("margins", "report", "assigned"):
            if getattr(arguments, flag) is not None:
                raise UsageError(f"--{flag} is about a model; -C makes one only if a model file is named")
    if arguments.model_file is None and not (arguments.loo or arguments.search):  # which may want no model
        if arguments.training_set_file == "-":
            raise UsageError("name a model file when the training set comes from standard input")
        arguments.model_file = os.path.basename(arguments.training_set_file.rstrip("/")) + ".model"
    if outputs(arguments).count("-") > 1:
        raise UsageError("only one of the model, the report and the margins can go to standard output")
    refuse_overwriting(
        arguments.model_file, [*inputs[:2], arguments.test]
    )  # --init may name the model to go on with
    refuse_twice(outputs(arguments))


def outputs(arguments: argparse.Namespace) -> list[str | None]:
    return [getattr(arguments, name) for name in ("model_file", "json", "margins", "report", "assigned")]


def train(arguments: argparse.Namespace, options: TrainOptions) -> int:
    from odmlib.data.labels import python_label
    from odmlib.model.text_writer import model_pieces

    # the outputs are opened first: a directory that cannot be written to shows before the work, not after
    named = arguments.model_file is not None
    compared = reports.load_compared(arguments, options)
    with (
        reports.open_wanted(arguments.json) as report,
        reports.open_wanted(arguments.margins) as margins,
        reports.open_wanted(arguments.assigned) as assigned,
        reports.open_wanted(arguments.report) as page,
        reports.open_wanted(arguments.model_file, text=False) as stream,
        ExitStack() as stack,
    ):
        started = time.perf_counter()
        tell, problem, read_seconds = reports.teller(arguments, PROGRAM), None, None
        serials, n_columns, found = None, 0, None
        if arguments.spark is None and not arguments.stream:
            problem, serials, n_columns = read_problem(arguments, options)
            read_seconds = time.perf_counter() - started
            reports.tell_of_data(PROGRAM, problem, options, arguments)
        stored = None
        if arguments.stream:
            from odmlib.cli.stream import streamed_rows

            stored = stack.enter_context(streamed_rows(arguments, options))
        if arguments.search:
            options, found = search(arguments, options, problem, stored)
            if not named:
                reports.write_report(report, found)
                return 0
        trained = learn(arguments, options, problem, stored)
        if problem is None:
            rows_of = [trained.report[name] for name in ("rows", "features", "nonzeros")]
            tell(reports.describe_data(trained.labels, *rows_of))
        estimate = leave_one_out_line(trained, problem, options) if arguments.loo and problem else ""
        model = as_in_file(trained, arguments.zero_based, serials, n_columns)
        for line in reports.describe_model(model):
            tell(line)
        warn_of_the_end(model, options)
        test = reports.read_test(model, arguments)
        lines = [estimate] if estimate else []
        lines += reports.test_lines(*test) if test is not None else []
        for line in lines:
            print(line, file=sys.stderr if "-" in outputs(arguments) else sys.stdout, flush=True)
        started = time.perf_counter()
        if stream is not None:
            stream.writelines(model_pieces(model, arguments.model_file))
        written = time.perf_counter() - started if named else None
        model.report["seconds"] |= {"read": read_seconds, "write": written}
        if found is not None:
            model.report["search"] = found["search"]
        if problem is not None:
            reports.write_lines(margins, model.training_margins)
        labels = () if model.assigned is None else model.assigned
        reports.write_lines(assigned, [python_label(label) for label in labels])
        reports.write_page(
            page, replace(trained, zero_based=model.zero_based), problem, arguments, test, compared
        )
        reports.write_report(report, model.report)
    if named:
        tell(f"model written to {'standard output' if arguments.model_file == '-' else arguments.model_file}")
    return 0


def search(
    arguments: argparse.Namespace, options: TrainOptions, problem: Problem | None, stored: Stored | None
) -> tuple[TrainOptions, dict[str, Any]]:
    """The options that -C finds for the problem or the stream, and the report."""
    if problem is not None:
        from odmlib.cli.grid import short_search

        return short_search(arguments, options, problem)
    from odmlib.cli.stream import short_search_of_stream

    assert stored is not None
    return short_search_of_stream(arguments, options, stored)


def learn(
    arguments: argparse.Namespace, options: TrainOptions, problem: Problem | None, stored: Stored | None
) -> Model:
    """The model of the problem, of a stream, or of files that Spark reads; its report has the trace."""
    from odmlib.selection.training import train_model
    from odmlib.solvers.trace import Trace

    with ProgressLine(None if arguments.quiet else sys.stderr, PROGRAM) as progress:
        trace = Trace(progress)
        traced = options.but(callback=trace)
        if problem is not None:
            model = train_model(problem, traced)
        elif stored is not None:
            from odmlib.cli.stream import train_on_stream

            model = train_on_stream(traced, stored)
        else:
            from odmlib.cli.spark import train_on_spark

            model = train_on_spark(arguments, traced, progress)
    model.report["trace"] = trace.points()
    return model


def warn_of_the_end(model: Model, options: TrainOptions) -> None:
    """Say what is not as the user would expect it."""
    from odmlib.machines.building import convergence_message
    from odmlib.machines.ssodm import fallback_message, raw_message
    from odmlib.solvers.control import CONVERGED

    if (fallback := fallback_message(model.report)) is not None:
        warn(PROGRAM, fallback)
    if (missed := raw_message(model.report)) is not None:
        warn(PROGRAM, missed)
    if model.report["status"] != CONVERGED:
        warn(PROGRAM, convergence_message(model.report, options.tol))


def leave_one_out_line(model: Model, problem: Problem, options: TrainOptions) -> str:
    """The result as LIBSVM words it, the bound beside it; the report gets its entry."""
    from odmlib.model.regression import RegressionMeasures
    from odmlib.selection.leave_one_out import leave_one_out_of

    if "leave_one_out" not in model.report:  # probabilities have it made already
        model.report["leave_one_out"] = leave_one_out_of(model, problem, options).report()
    found, rows = model.report["leave_one_out"], problem.rows.n_rows
    if problem.targets is not None:
        return "\n".join(RegressionMeasures(**found).lines("Leave-one-out "))
    right = f"{rows - found['errors']}/{rows}"
    bound = "" if found["bound"] is None else f", at most {found['bound']} in true refits"
    return f"Leave-one-out Accuracy = {100 * found['accuracy']:g}% ({right}; {found['errors']} errors{bound})"


def validate(arguments: argparse.Namespace, options: TrainOptions) -> int:
    from odmlib.selection.cross_validation import TargetValidation, cross_validate, cross_validate_targets

    if arguments.stream:
        return validate_streamed(arguments, options)
    with reports.open_wanted(arguments.json) as report:
        started = time.perf_counter()
        problem, _, _ = read_problem(arguments, options)
        read_seconds = time.perf_counter() - started
        reports.tell_of_data(PROGRAM, problem, options, arguments)
        reports.warn_of_many_folds(PROGRAM, arguments.v, problem)
        started = time.perf_counter()
        with ProgressLine(None if arguments.quiet else sys.stderr, PROGRAM) as progress:
            how = cross_validate if problem.targets is None else cross_validate_targets
            result = how(problem, options.but(callback=progress), arguments.v)
        if result.unfinished:
            warn(PROGRAM, f"training did not converge in {result.unfinished} of {result.n_folds} folds")
        lines: tuple[str, ...]
        measures: dict[str, float]
        if isinstance(result, TargetValidation):
            lines, measures = result.measures.lines("Cross Validation "), result.measures._asdict()
        else:
            lines = (f"Cross Validation Accuracy = {100 * result.accuracy:g}%",)
            measures = {"accuracy": result.accuracy}
        print(*lines, sep="\n", file=sys.stderr if arguments.json == "-" else sys.stdout, flush=True)
        found = {"folds": result.n_folds, **measures, "unfinished": result.unfinished}
        seconds = {"read": read_seconds, "train": time.perf_counter() - started, "write": None}
        reports.write_report(
            report,
            reports.report_head(problem.rows, options) | {"cross_validation": found, "seconds": seconds},
        )
    return 0


def validate_streamed(arguments: argparse.Namespace, options: TrainOptions) -> int:
    from odmlib.cli.stream import streamed_rows
    from odmlib.machines.streaming import cross_validate_store

    with reports.open_wanted(arguments.json) as report:
        with streamed_rows(arguments, options) as stored:
            accuracy, unfinished = cross_validate_store(*stored, options, arguments.v)
            head = reports.report_head(stored[0], options)
        if unfinished:
            warn(PROGRAM, f"training did not converge in {unfinished} of {arguments.v} folds")
        line = f"Cross Validation Accuracy = {100 * accuracy:g}%"
        print(line, file=sys.stderr if arguments.json == "-" else sys.stdout, flush=True)
        found = {"folds": arguments.v, "accuracy": accuracy, "unfinished": unfinished}
        reports.write_report(report, head | {"cross_validation": found})
    return 0


main = partial(run_tool, PROGRAM, run)

if __name__ == "__main__":
    sys.exit(main())
