"""What odm-train, odm-grid, odm-easy, odm-plot and svmutil share: the options of TrainOptions as flags, data
with weights and serials from files, and models in the files' terms."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from odmlib.cli.common import bad_values_as_usage, shown_name
from odmlib.cli.parser import ToolParser, Topic, UsageError, number, positive_whole_number
from odmlib.cli.tables import add_table_options, is_table, read_training_table
from odmlib.errors import OdmError, ParameterError
from odmlib.machines.declarations import DECLARATIONS, Declaration
from odmlib.names import LEAVE_ONE_OUT_MACHINES
from odmlib.options import TrainOptions, option_fields
from odmlib.values import Choice

if TYPE_CHECKING:
    from odmlib._core.arrays import Floats, Places
    from odmlib.data.problem import Problem
    from odmlib.model.model import Model

BALANCED = "balanced"
DATA, OUTPUT = "data", "output"
GROUPS = {  # of the options that machines share; the others are about the machine
    "kernel": ("kernel", "degree", "gamma", "coef0"),
    "solver": ("tol", "cache_mb", "shrinking", "solver", "threads", "seed", "max_iter", "time_limit", "init"),
}
SOLVER_NAMES = tuple(
    dict.fromkeys(
        name for one in DECLARATIONS.values() for kind in (one.linear, one.kernel) for name in kind.names
    )
)
DATA_FLAGS = ("-w", "-W", "--weights", "--features", "--zero-based")


def add_training_options(parser: ToolParser, without: Sequence[str] = (), tables: bool = True) -> None:
    """The options of TrainOptions, and those of the data; for every tool that trains."""
    parser.option(
        "-w LABEL W",
        "-wLABEL W: weight of a class, repeatable; -w balanced: all classes weigh the same",
        type=label_or_balanced,
        group=DATA,
        action="append",
        single=BALANCED,
    )
    parser.option("-W --weights FILE", "row weights, one number per line", group=DATA)
    parser.option("--features N", "number of features", type=positive_whole_number, group=DATA)
    parser.option("--zero-based", "feature indices in the file count from 0", group=DATA)
    if tables:
        add_table_options(parser)
    for option in option_fields():
        usage = option.metadata["usage"]
        if not usage or option.name in without:
            continue
        kind = option.metadata["kind"]
        details: dict[str, Any] = {"type": kind.read, "group": group_of(option.name)}
        if option.name == "solver":
            details["values"] = SOLVER_NAMES
        elif isinstance(kind, Choice):
            details["values"] = kind.names
        if len(usage.split()) == len(option.metadata["flags"]):  # a switch; None: not given
            del details["type"]
            details["default"] = None
        if usage.startswith("-h "):  # LIBSVM's shrinking; a bare -h asks for help
            details |= {"alone": "--help", "choices": ("0", "1")}
            del details["type"]
        parser.option(usage, with_default(option), dest=option.name, **details)
    for place, machine in enumerate(DECLARATIONS.values()):
        if any(group_of(name) == own_group(machine.name) for name in machine.options):
            parser.fold(own_group(machine.name))
        parser.explain((machine.name, str(place)), topic_of(place, machine))


def group_of(name: str) -> str:
    """The title in the help under which an option of TrainOptions stands."""
    for machine in DECLARATIONS.values():
        if name in machine.options:
            return own_group(machine.name)
    return next((title for title, names in GROUPS.items() if name in names), "machine")


def topic_of(place: int, machine: Declaration) -> Topic:
    """What --help MACHINE says."""
    names = {*machine.parameters, *machine.options, *machine.flags}
    names |= {"bias"} if machine.has_bias else set()
    options = {option.name for option in option_fields() if option.name.rstrip("_") in names}
    solvers = f"{', '.join(machine.linear.names)} (linear); {', '.join(machine.kernel.names)} (other kernels)"
    text = f"machine {machine.name} (-s {place}): {machine.title}\nsolvers: {solvers}\n"
    return Topic(text, options, own_group(machine.name))


def own_group(machine: str) -> str:
    return f"options of machine {machine}"


def with_default(option: dataclasses.Field) -> str:
    text = option.metadata["help"].replace("%", "%%")
    if option.default is None:
        return text
    shown = int(option.default) if isinstance(option.default, bool) else option.default
    return f"{text} (default {shown:g})" if isinstance(shown, float) else f"{text} (default {shown})"


def label_or_balanced(text: str) -> float | str:
    return text if text == BALANCED else number(text)


def given_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the command line says of TrainOptions."""
    given = {
        option.name: getattr(arguments, option.name)
        for option in option_fields()
        if option.metadata["flags"] and getattr(arguments, option.name, None) is not None
    }
    if "shrinking" in given:
        given["shrinking"] = given["shrinking"] == "1"
    given = {own_name(name, given.get("machine")): value for name, value in given.items()}
    if arguments.w and [BALANCED] in arguments.w:
        if len(arguments.w) > 1:
            raise UsageError("-w balanced gives every class its weight; -wLABEL W cannot stand beside it")
        given["class_weight"] = BALANCED
    elif arguments.w:
        from odmlib.data.labels import python_label

        given["class_weight"] = {python_label(label): weight for label, weight in arguments.w}
    return given


def own_name(name: str, machine: str | None) -> str:
    """The option that a flag means: -p is epsilon for odmr."""
    declaration = DECLARATIONS.get(machine or "")
    return name if declaration is None else declaration.flags.get(name, name)


def checked_options(arguments: argparse.Namespace) -> TrainOptions:
    """The options; what is out of range is bad usage, and so are -v and --loo that make no sense."""
    if arguments.v is not None and arguments.v < 2:
        raise UsageError(f"-v: cross-validation needs at least 2 folds, found {arguments.v}")
    if arguments.v is not None and arguments.loo:
        raise UsageError("-v and --loo are two ways to the same end; give one of them")
    with bad_values_as_usage():
        options = TrainOptions(**given_options(arguments))
    if arguments.loo and options.machine not in LEAVE_ONE_OUT_MACHINES:
        known = ", ".join(LEAVE_ONE_OUT_MACHINES)
        raise UsageError(
            f"--loo is for machine {known} (odm -n 0 -p 0: the SVM with squared loss); use -v N instead"
        )
    if arguments.loo and options.hard_margin:
        raise UsageError("--loo is not for --hard-margin; use -v N instead")
    if arguments.loo and options.approx is not None:
        raise UsageError("--loo is not for --approx, whose landmarks depend on the row; use -v N instead")
    return options


def read_problem(arguments: argparse.Namespace, options: TrainOptions) -> tuple[Problem, Places | None, int]:
    """The rows with their weights, a precomputed kernel's serials, and the number of columns in the file."""
    from odmlib.data.precomputed import training_matrix
    from odmlib.data.reading import read_dataset
    from odmlib.machines.training import make_problem

    path, features, precomputed = (
        arguments.training_set_file,
        arguments.features,
        options.kernel == "precomputed",
    )
    columns, serials = None, None
    if is_table(arguments, path):
        if precomputed:
            raise UsageError("a precomputed kernel is read in LIBSVM format, not from a table")
        table = read_training_table(arguments, path)
        rows, labels, columns = table.rows, table.labels, table.names
        arguments.label_column = table.label_name
    else:
        rows, labels = read_dataset(
            path,
            features=features + 1 if precomputed and features else features,  # column 0 holds the serials
            zero_based=arguments.zero_based or precomputed,
            threads=options.threads,
        )
    n_columns = rows.n_features
    if precomputed:
        rows, serials, n_columns = training_matrix(rows, shown_name(path))
    weights = read_weights(arguments.weights, rows.n_rows) if arguments.weights else None
    try:
        problem = make_problem(rows, labels, options.but(sample_weight=weights))
        problem.columns = columns
        problem.require_classes(options.machine)
        return problem, serials, n_columns
    except ParameterError as error:
        raise OdmError(f"{shown_name(path)}: {error.shell}") from None


def read_weights(path: str, n_rows: int) -> Floats:
    """Row weights: a file of single numbers is a data file whose rows are all label."""
    from odmlib.data.problem import check_sample_weights
    from odmlib.data.reading import read_dataset

    rows, weights = read_dataset(path)
    if rows.n_nonzeros:
        raise OdmError(f"{shown_name(path)}: expected one number per line, found index:value items")
    try:
        return check_sample_weights(weights, n_rows)
    except ParameterError as error:
        raise OdmError(f"{shown_name(path)}: {error.shell}") from None


def as_in_file(model: Model, zero_based: bool, serials: Places | None, n_columns: int) -> Model:
    """The model in the terms of its training file: how it counts features, which serials its rows have."""
    from odmlib.model.functions import PrecomputedFunction

    if serials is not None and isinstance(model.function, PrecomputedFunction):
        function = dataclasses.replace(model.function, serials=serials[model.function.serials - 1])
        model = dataclasses.replace(model, function=function, n_features=n_columns)
    return dataclasses.replace(model, zero_based=zero_based)
