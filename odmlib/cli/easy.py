"""odm-easy: scale, search the parameters, train, and predict; LIBSVM's easy.py, with the same file names."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from odmlib.cli import grid, predict, scale, train
from odmlib.cli.common import refuse_overwriting, run_tool
from odmlib.cli.parser import ToolParser, UsageError, parts_of
from odmlib.cli.tables import is_table
from odmlib.cli.training import DATA_FLAGS, add_training_options
from odmlib.machines.declarations import DECLARATIONS
from odmlib.options import option_fields

if TYPE_CHECKING:
    from odmlib.selection.grid import GridPoint

PROGRAM = "odm-easy"
SCALE_FLAGS = ("-l", "--lower", "-u", "--upper", "-y", "--target", "--norm")
TABLE_FLAGS = ("--csv", "--label", "--one-hot", "--no-header")
QUIET_FLAGS = ("-q", "--quiet")
TEXT_LOG2C = "-5,3,2"  # for rows of unit length: the best C is near 1, and a large one takes long

DESCRIPTION = """\
Scale the data, search the best parameters, train, and predict the testing file; every
step is printed as the command that does it alone. For training_file X and testing_file
T the files X.range, X.scale, X.scale.out, X.scale.png, X.model, T.scale and T.predict
are written in the current directory. Sparse data keep their zeros; wide and sparse data,
such as text, get rows of unit length and a linear machine, unless you say otherwise.
"""

EXAMPLES = """\
examples:
  odm-easy heart.train heart.test          ODM with RBF kernel; C and gamma by 5-fold cross-validation
  odm-easy -s svm -t linear a.txt b.txt    linear SVM
  odm-easy --one-hot fruit.csv new.csv     tables, with columns of text
  odm-easy -log2c -1,7,1 --refine 1 a.txt  another grid, and a finer one around its best
"""


def run(argv: Sequence[str]) -> int:
    parser = make_parser()
    arguments = parser.parse(argv)
    words = parser.rearranged(argv)
    words = words[: words.index("--")]  # the options
    for name in (arguments.training_file, arguments.testing_file):
        if name == "-":
            raise UsageError("the files are named after the data, which therefore cannot be standard input")
    if arguments.kernel == "precomputed":
        raise UsageError("a precomputed kernel cannot be scaled; use odm-grid and odm-train")
    training, testing = arguments.training_file, arguments.testing_file
    if arguments.norm is not None and is_table(arguments, training):
        raise UsageError("--norm is for data in LIBSVM format, found a table")
    name = os.path.basename(training)
    scaled, ranges, model = f"{name}.scale", f"{name}.range", f"{name}.model"
    outputs = [scaled, ranges, model]
    if testing is not None:
        test_name = os.path.basename(testing)
        if test_name == name:
            raise UsageError(f"both files are named {name}: their scaled forms would be one file")
        test_scaled, predicted = f"{test_name}.scale", f"{test_name}.predict"
        outputs += [test_scaled, predicted]
        open(testing, "rb").close()  # a slip in its name must not show after the search
    for output in outputs:
        refuse_overwriting(output, [training, testing, arguments.weights])
    step = Steps(arguments.quiet).say
    own = advised_options(arguments)
    if own and not arguments.quiet:
        print(f"The data are sparse: {shlex.join(own)}", flush=True)
    words += [word for word in parser.rearranged(own) if word != "--"]

    reading = words_of(words, {*SCALE_FLAGS, *TABLE_FLAGS, "--zero-based"})
    by_row = any(word.partition("=")[0] == "--norm" for word in words)
    scaling = [*reading, *([] if by_row else ["-s", ranges]), training]
    step("Scaling training data...", ["odm-scale", *scaling], scaled)
    given = scale.scale([*scaling, *arguments.quiet * ["-q"]], scaled)
    # the scaled rows of a table with text labels are a table, too
    tables = ["--csv", *(["--label", given.label] if given.header() else [])] if given.texts else []

    apart = {*SCALE_FLAGS, *TABLE_FLAGS, *QUIET_FLAGS}
    best: list[str] = []
    if arguments.machine and DECLARATIONS[arguments.machine].learns == "one class":
        step(f"Machine {arguments.machine} learns from one class: its parameters stay as given.")
    else:
        searching = [part for word in words if word.partition("=")[0] not in apart for part in parts_of(word)]
        searching += [*tables, *arguments.quiet * ["-q"], scaled]
        step("Validation...", ["odm-grid", *searching])
        best = best_flags(grid.find(searching))

    for_training = {*DATA_FLAGS, *(flag for option in option_fields() for flag in option.metadata["flags"])}
    learning = ["-q", *words_of(words, for_training), *tables, *best, scaled, model]
    step("Training...", ["odm-train", *learning])
    train.run(learning)
    step(f"Output model: {model}")
    if testing is None:
        return 0
    if by_row:
        again = [*words_of(words, {"--norm", "--zero-based"}), testing]
    else:  # ranges know the ends of the interval
        again = [*words_of(words, {*TABLE_FLAGS, "--zero-based"}), "-r", ranges, testing]
    step("Scaling testing data...", ["odm-scale", *again], test_scaled)
    given = scale.scale([*again, *arguments.quiet * ["-q"]], test_scaled)
    predicting = [*(["-b", "1"] if arguments.probability else []), *(["--csv"] if given.texts else [])]
    predicting += [*([] if given.labeled else ["-q"]), test_scaled, model, predicted]
    step("Testing...", ["odm-predict", *predicting])
    predict.run(predicting)
    step(f"Output prediction: {predicted}")
    return 0


def make_parser() -> ToolParser:
    usage = "[scale options] [grid options] [odm-train options] training_file [testing_file]"
    parser = ToolParser(PROGRAM, usage, DESCRIPTION, EXAMPLES, help_flags="--help")
    scale.add_scaling_options(parser, "scale options (default: -l 0 or --norm l2 for sparse data)")
    grid.add_grid_options(parser)
    add_training_options(parser, without=("init",))
    parser.option("-q --quiet", "print only the best parameters, the accuracy and warnings")
    parser.add_argument("training_file")
    parser.add_argument("testing_file", nargs="?")
    return parser


def advised_options(arguments: argparse.Namespace) -> list[str]:
    """Options for sparse data: zeros stay zero, and text gets rows of unit length and a linear machine.

    What the user decided stays as it is.
    """
    if is_table(arguments, arguments.training_file):
        return []
    from odmlib.data.advice import is_wide_and_sparse, row_statistics, scaling_flags
    from odmlib.data.reading import read_dataset

    rows, _ = read_dataset(
        arguments.training_file, zero_based=arguments.zero_based, threads=arguments.threads
    )
    found = row_statistics(rows)
    decided = any(value is not None for value in (arguments.lower, arguments.upper, arguments.target))
    flags = [] if decided or arguments.norm is not None else scaling_flags(found)
    if not is_wide_and_sparse(found):
        return flags
    if arguments.kernel is None:
        flags += ["-t", "linear"]
    if arguments.kernel in (None, "linear") and arguments.range_log2c is None:
        fixed = arguments.C is not None or arguments.lambda_ is not None
        flags += [] if fixed else ["-log2c", TEXT_LOG2C, "--extend", "2"]
    return flags


def words_of(words: Sequence[str], flags: Collection[str]) -> list[str]:
    """Those of these options, as a user would type them."""
    return [part for word in words if word.partition("=")[0] in flags for part in parts_of(word)]


class Steps:
    """Says what comes, as the command that does it."""

    def __init__(self, quiet: bool):
        self.quiet = quiet

    def say(self, title: str, words: Sequence[str] = (), target: str | None = None) -> None:
        redirection = "" if target is None else f" > {shlex.quote(target)}"
        if not self.quiet:
            print(title + (f"\n$ {shlex.join(words)}{redirection}" if words else ""), flush=True)


def best_flags(best: GridPoint) -> list[str]:
    """The options of odm-train that say what the search found."""
    flags = {option.name: next(iter(option.metadata["flags"]), "") for option in option_fields()}
    return [word for name, value in best.parameters.items() for word in (flags[name], repr(value))]


main = partial(run_tool, PROGRAM, run)

if __name__ == "__main__":
    sys.exit(main())
