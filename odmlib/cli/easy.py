"""odm-easy: scale, search the parameters, train, and predict; LIBSVM's easy.py, with the same file names."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from odmlib.cli import grid, predict, scale, train
from odmlib.cli.common import refuse_overwriting, run_tool
from odmlib.cli.parser import ToolParser, UsageError, parts_of
from odmlib.cli.training import DATA_FLAGS, add_training_options
from odmlib.options import option_fields

if TYPE_CHECKING:
    from odmlib.selection.grid import GridPoint

PROGRAM = "odm-easy"

DESCRIPTION = """\
Scale the data, search the best parameters, train, and predict the testing file; every
step is printed as the command that does it alone. For training_file X and testing_file
T the files X.range, X.scale, X.scale.out, X.scale.png, X.model, T.scale and T.predict
are written in the current directory.
"""

EXAMPLES = """\
examples:
  odm-easy heart.train heart.test          ODM with RBF kernel; C and gamma by 5-fold cross-validation
  odm-easy -s svm -t linear a.txt b.txt    linear SVM
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
    zero_based = ["--zero-based"] if arguments.zero_based else []

    step("Scaling training data...", ["odm-scale", "-s", ranges, *zero_based, training], scaled)
    scale.scale(["-s", ranges, *zero_based, training], scaled)

    searching = [*(part for word in words for part in parts_of(word)), scaled]
    step("Validation...", ["odm-grid", *searching])
    best = grid.find(searching)

    for_training = {*DATA_FLAGS, *(flag for option in option_fields() for flag in option.metadata["flags"])}
    kept = [part for word in words if word.partition("=")[0] in for_training for part in parts_of(word)]
    learning = ["-q", *kept, *best_flags(best), scaled, model]
    step("Training...", ["odm-train", *learning])
    train.run(learning)
    print(f"Output model: {model}", flush=True)
    if testing is None:
        return 0
    step("Scaling testing data...", ["odm-scale", "-r", ranges, *zero_based, testing], test_scaled)
    scale.scale(["-r", ranges, *zero_based, testing], test_scaled)
    predicting = [*(["-b", "1"] if arguments.probability else []), test_scaled, model, predicted]
    step("Testing...", ["odm-predict", *predicting])
    predict.run(predicting)
    print(f"Output prediction: {predicted}", flush=True)
    return 0


def make_parser() -> ToolParser:
    usage = "[grid options] [odm-train options] training_file [testing_file]"
    parser = ToolParser(PROGRAM, usage, DESCRIPTION, EXAMPLES, help_flags="--help")
    grid.add_grid_options(parser)
    add_training_options(parser, without=("init",), tables=False)
    parser.add_argument("training_file")
    parser.add_argument("testing_file", nargs="?")
    return parser


def step(title: str, words: list[str], target: str | None = None) -> None:
    """Say what comes, as the command that does it."""
    redirection = "" if target is None else f" > {shlex.quote(target)}"
    print(f"{title}\n$ {shlex.join(words)}{redirection}", flush=True)


def best_flags(best: GridPoint) -> list[str]:
    """The options of odm-train that say what the search found."""
    flags = {option.name: next(iter(option.metadata["flags"]), "") for option in option_fields()}
    return [word for name, value in best.parameters.items() for word in (flags[name], repr(value))]


main = partial(run_tool, PROGRAM, run)

if __name__ == "__main__":
    sys.exit(main())
