"""What a tool that trains tells of its data and its model: on stderr, and in files."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import IO, TYPE_CHECKING, Any

from odmlib._version import __version__
from odmlib.cli.common import base_name, say, shown_name, warn
from odmlib.cli.parser import UsageError
from odmlib.cli.tables import table_flags
from odmlib.errors import OdmError, ParameterError, shell_words

if TYPE_CHECKING:
    from odmlib.data.dataset import Dataset
    from odmlib.data.problem import Problem
    from odmlib.data.row_store import RowStore
    from odmlib.model.evaluation import Evaluation, TargetEvaluation
    from odmlib.model.model import Model
    from odmlib.options import TrainOptions

    Evaluated = Evaluation | TargetEvaluation  # on rows with labels, or with targets

SCHEMES = {"ovo": "one-vs-one", "ovr": "one-vs-rest"}


def teller(arguments: argparse.Namespace, program: str) -> Callable[[str], None]:
    return (lambda line: None) if arguments.quiet else (lambda line: say(program, line))


def describe_data(labels: Any, rows: int, features: int, nonzeros: int, n_unlabeled: int = 0) -> str:
    from odmlib.data.labels import show_labels

    unlabeled = f" ({n_unlabeled} unlabeled)" if n_unlabeled else ""
    return f"{rows} rows{unlabeled}, {features} features, {nonzeros} nonzeros, labels {show_labels(labels)}"


def describe_problem(problem: Problem) -> str:
    rows = problem.rows
    if problem.targets is not None:
        size = f"{rows.n_rows} rows, {rows.n_features} features, {rows.n_nonzeros} nonzeros"
        return f"{size}, targets from {problem.targets.min():g} to {problem.targets.max():g}"
    if problem.one_class:
        return f"{rows.n_rows} rows, {rows.n_features} features, {rows.n_nonzeros} nonzeros, one class"
    return describe_data(problem.labels, rows.n_rows, rows.n_features, rows.n_nonzeros, problem.n_unlabeled)


def tell_of_data(
    program: str, problem: Problem, options: TrainOptions, arguments: argparse.Namespace
) -> None:
    """What was read, and what its user may want to know before the work begins."""
    from odmlib.cli.training import given_options
    from odmlib.data.advice import targets_message, training_hints
    from odmlib.machines.training import chosen_scheme
    from odmlib.options import without_effect

    tell = teller(arguments, program)
    tell(describe_problem(problem))
    if column := getattr(arguments, "label_column", None):
        what = "labels" if problem.targets is None else "targets"
        tell(f"{what} are those of {column}")
    if (message := targets_message(problem, "-s 7 (odmr)")) is not None:
        warn(program, message)
    if not arguments.quiet:
        if (chosen := chosen_scheme(problem, options)) is not None:
            scheme, why = chosen
            other = "ovr" if scheme == "ovo" else "ovo"
            tell(f"{len(problem.labels)} classes, {SCHEMES[scheme]}: {why} (--multiclass {other} changes it)")
        if problem.one_class and (n := int(problem.codes.sum())):
            rows = f"all {problem.rows.n_rows} rows count as normal, though {n} have the label -1"
            tell(f"note: labels are not looked at: {rows}")
        for note in without_effect(options, given_options(arguments)):
            tell(f"note: {shell_words(note)}")
        name = shown_name(arguments.training_set_file)
        for hint in training_hints(problem, options.kernel, name, table_flags(arguments)):
            tell(f"hint: {hint}")


def warn_of_many_folds(program: str, folds: int, problem: Problem) -> None:
    if folds > problem.rows.n_rows:
        warn(program, f"{folds} folds for {problem.rows.n_rows} rows: leaving out one row at a time")


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
        scheme = SCHEMES.get(model.scheme, model.scheme)
        yield f"{model.n_classes} classes, {scheme}: {done} of {len(tasks)} tasks converged"
    yield (
        f"{report['status']} after {report['iterations']} iterations ({report['solver']}), "
        f"{report['seconds']['train']:.2f} s: "
        f"objective {report['primal']:.6g}, relative gap {report['gap']:.1e}"
    )
    if passes := report["details"].get("passes"):
        drawn = report["details"]["sample_rows"]
        yield f"{passes} passes over the cache; the start is the solution of {drawn} rows of it"
    if notes := report.get("semi_supervised"):
        yield from describe_search(notes)
    if approximation := report.get("approximation"):
        yield (
            f"Nystrom over {approximation['rank']} landmarks: "
            f"{100 * approximation['trace_error']:.2g}% of the kernel's trace is left out; "
            "objective and gap are those of machines over the landmarks"
        )
    if probability := report.get("probability"):
        log_loss = probability["log_loss"]
        known = "no row could be left out" if log_loss is None else f"log-loss {log_loss:.4g}"
        yield f"probabilities from {probability['source']}: {known}"
    if novelty := report.get("novelty"):
        yield (
            f"threshold {novelty['threshold']:.4g} from {novelty['source']}: "
            f"{100 * novelty['false_alarms']:.3g}% of new rows like these will be called novel"
        )
    if label_sets := report.get("label_sets"):
        yield f"label sets from {label_sets['source']} of {label_sets['rows']} rows"
    if compression := report.get("compression"):
        yield from describe_compression(compression)
    if shift := report["details"].get("shift"):
        yield f"the kernel is not positive semidefinite: trained with {shift:.3g} added to its diagonal"
    if sample := report["details"].get("shift_sample_rows"):
        yield (
            "the gap is an estimate: whether the kernel is positive semidefinite was judged on a sample of "
            f"{sample} rows"
        )
    support = "" if model.n_support is None else f"{model.n_support} support vectors; "
    what = "residuals" if model.is_regression else "margins"
    yield (
        f"{support}{what}: mean {margin['mean']:.4g}, variance {margin['variance']:.4g}, "
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


def describe_compression(found: dict[str, Any], data: bool = True) -> Iterator[str]:
    """What fewer support vectors changed."""
    yield f"{found['vectors_before']} support vectors before, {found['vectors']} now"
    which = "rows" if data else "support vectors"
    changed = "" if found["labels_changed"] is None else f"; {found['labels_changed']} labels changed"
    yield (
        f"scores of {found['rows']} {which}: largest change {found['largest_change']:.4g}, "
        f"mean {found['mean_change']:.4g}{changed}"
    )
    if found["norm_of_change"] is not None:
        yield f"scores of any row x: change at most {found['norm_of_change']:.4g} sqrt(k(x, x))"
    if found["accuracy"] is not None:
        yield f"accuracy {100 * found['accuracy_before']:.4g}% before, {100 * found['accuracy']:.4g}% now"
    if (error := found["mean_squared_error"]) is not None:
        yield f"mean squared error {found['mean_squared_error_before']:.6g} before, {error:.6g} now"
        return
    if (objective := found["objective"]) is not None:
        yield (
            f"objective {objective['before']:.6g} before, {objective['after']:.6g} now; "
            f"relative gap {objective['gap_before']:.1e} before, {objective['gap_after']:.1e} now"
        )
    elif data:
        yield "objective: not known (only for svm, odm and sodm on the rows and weights of their training)"
    if found["probability"] is not None:
        yield f"probabilities: {found['probability']}"


def open_wanted(target: str | None, text: bool = True) -> AbstractContextManager[IO[Any] | None]:
    """An output file; none where none is wanted, which the functions below take as well."""
    if target is None:
        return nullcontext()
    from odmlib.data.files import open_output

    return open_output(target, text)


def write_report(file: IO[str] | None, report: dict[str, Any]) -> None:
    if file is not None:  # flushed, so that a full disk shows before the model replaces an older one
        print(json.dumps(plain(report), indent=2), file=file, flush=True)


def report_head(rows: Dataset | RowStore, options: TrainOptions) -> dict[str, Any]:
    """What a report about several trainings begins with."""
    return {
        "version": __version__,
        "machine": options.machine,
        "kernel": options.kernel,
        "rows": rows.n_rows,
        "features": rows.n_features,
        "nonzeros": rows.n_nonzeros,
        "threads": options.n_threads,
        "seed": options.seed,
    }


def write_lines(file: IO[str] | None, numbers: Any) -> None:
    """Numbers, one per line in full precision."""
    if file is None:
        return
    for begin in range(0, len(numbers), 1 << 16):
        some = numbers[begin : begin + (1 << 16)]
        some = some.tolist() if hasattr(some, "tolist") else some
        file.write("".join(f"{number!r}\n" for number in some))
    file.flush()


def load_compared(arguments: argparse.Namespace, options: TrainOptions) -> dict[str, Model]:
    """The models of --compare by name; a test file that cannot be read shows now as well, before the work."""
    from odmlib.data.files import open_input
    from odmlib.model.text_format import load_model

    if arguments.test not in (None, "-"):
        with open_input(arguments.test):
            pass
    paths = arguments.compare.split(",") if arguments.compare else []
    names = [base_name(path) for path in paths]
    names = names if len(set(names)) == len(paths) else paths
    models = dict(zip(names, map(load_model, paths), strict=True))
    for name, model in models.items():
        if model.is_regression != (options.declaration.learns == "targets"):
            raise UsageError(f"--compare: {name} and this machine differ: one has classes, the other targets")
    return models


def read_test(model: Model, arguments: argparse.Namespace) -> tuple[str, Evaluated] | None:
    """Name and evaluation of the rows of --test, where there are any."""
    if arguments.test is None:
        return None
    return base_name(arguments.test), evaluate_file(model, arguments.test, arguments)


def evaluate_file(model: Model, path: str, arguments: argparse.Namespace) -> Evaluated:
    from odmlib.cli.predict import RowsForModels

    try:
        return model.evaluate(*RowsForModels(path, arguments).read(model), arguments.threads)
    except ParameterError as error:
        raise OdmError(f"{shown_name(path)}: {error}") from None


def test_lines(name: str, found: Evaluated) -> list[str]:
    """As odm-predict says it."""
    from odmlib.model.evaluation import TargetEvaluation
    from odmlib.model.regression import regression_measures

    if isinstance(found, TargetEvaluation):
        return [*regression_measures(found.predicted, found.targets).lines(behind=f" on {name}")]
    right = round(found.accuracy * found.n_rows)
    return [f"Accuracy = {100 * found.accuracy:g}% ({right}/{found.n_rows}) on {name}"]


def write_page(
    file: IO[str] | None,
    model: Model,
    problem: Problem | None,
    arguments: argparse.Namespace,
    test: tuple[str, Evaluated] | None,
    compared: dict[str, Model],
) -> None:
    if file is None:
        return
    from odmlib.plots.page import report_page

    path = arguments.test or arguments.training_set_file
    others = {name: evaluate_file(other, path, arguments) for name, other in compared.items()}
    name = base_name(arguments.training_set_file)
    file.writelines(report_page(model, problem, name, arguments.command, test, others))
    file.flush()


def plain(value: Any) -> Any:
    """A report as JSON can say it: numbers that are not finite (a gap not known yet) become null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
