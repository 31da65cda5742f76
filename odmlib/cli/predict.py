"""odm-predict: predict the labels of data in LIBSVM format with a model of odm-train."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from odmlib.cli.common import one_line, refuse_overwriting, run_tool, say, shown_name, warn
from odmlib.cli.parser import ToolParser, UsageError, number, positive_whole_number

if TYPE_CHECKING:
    from odmlib._core.arrays import Floats, Places
    from odmlib.data.dataset import Dataset
    from odmlib.model.model import Model

PROGRAM = "odm-predict"

DESCRIPTION = """\
Predict the labels (regression: the targets) of data in LIBSVM format, one per line of output_file.
test_file or model_file may be - (standard input); output_file may be - (standard
output), then the accuracy goes to stderr. Test rows need a label; any number will do
where the true one is not known.
"""

EXAMPLES = """\
examples:
  odm-predict test.txt heart.model predicted.txt
  odm-predict --scores test.txt heart.model - | sort -k2 -g | head    least certain of the second label
"""

BLOCK_ROWS = 1 << 16


def run(argv: Sequence[str]) -> int:
    arguments = make_parser().parse(argv)
    if arguments.test_file == "-" and arguments.model_file == "-":
        raise UsageError("the test set and the model cannot both come from standard input")
    refuse_overwriting(arguments.output_file, [arguments.test_file, arguments.model_file])
    if arguments.b == "1" and arguments.scores:
        raise UsageError("-b 1 and --scores both add numbers behind the label; give one of them")
    import numpy as np

    from odmlib.data.files import open_output
    from odmlib.errors import OdmError
    from odmlib.model.text_format import load_model

    # everything that can go wrong with the inputs goes wrong before the output is touched
    model = load_model(arguments.model_file)
    if arguments.b == "1":
        model.require_probabilities()
    if arguments.coverage is not None:
        if not model.is_regression:
            raise OdmError(f"{shown_name(arguments.model_file)}: --coverage is for models of machine odmr")
        model.interval(arguments.coverage)  # refused before the data are read
    rows, labels = RowsForModels(arguments.test_file, arguments.threads).read(model)
    numbers = places = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if arguments.b == "1":
            numbers = model.predict_proba(rows, arguments.threads)
            places = numbers.argmax(axis=1)
        elif model.is_regression:
            numbers = model.predict(rows, arguments.threads)
            if arguments.coverage is not None:
                numbers = np.add.outer(numbers, np.array([0.0, *model.interval(arguments.coverage)]))
        elif arguments.scores:
            numbers = model.decision_function(rows, arguments.threads)
            places = model.positions_for(numbers)
            if "conformal_scores" in model.lists:
                numbers = np.stack([numbers, model.p_values_for(numbers)], axis=1)
        else:
            places = model.positions(rows, arguments.threads)
    for warning in caught:
        warn(PROGRAM, str(warning.message))
    with open_output(arguments.output_file) as stream:
        stream.writelines(output_lines(model, places, numbers, header=arguments.b == "1"))
    if not arguments.quiet:
        to_stderr = arguments.output_file == "-"
        if places is None:
            print_measures(model, numbers, labels, to_stderr)
        else:
            print_accuracy(model, places, labels, to_stderr)
    return 0


def make_parser() -> ToolParser:
    parser = ToolParser(PROGRAM, "[options] test_file model_file output_file", DESCRIPTION, EXAMPLES)
    parser.option(
        "-b --probability 0|1",
        "1: a first line `labels ...`, then the label and the probability of each label, in that order; "
        "the model must come from odm-train -b 1",
        dest="b",
        choices=("0", "1"),
        default="0",
    )
    parser.option(
        "--scores",
        "each line is the label, then the decision values in full precision: one for two classes "
        "(positive: the first label), one per class (one-vs-rest) or pair of classes (one-vs-one) for more; "
        "odmo: one, and its p-value",
    )
    parser.option(
        "--coverage P",
        "regression: each line is the prediction and the ends of an interval that holds the target with this "
        "probability, from 0 to 1; the model must come from odm-train -s 7 --loo",
        type=number,
    )
    parser.option("-j --threads N", "threads (default: all cores)", type=positive_whole_number)
    parser.option("-q --quiet", "do not print the accuracy")
    for name in ("test_file", "model_file", "output_file"):
        parser.add_argument(name)
    return parser


class RowsForModels:
    """Data for models that may count features in different ways; each way is read once."""

    def __init__(self, path: str, threads: int | None):
        self.path, self.threads = path, threads
        self.known: dict[bool, tuple[Dataset, Floats]] = {}

    def read(self, model: Model) -> tuple[Dataset, Floats]:
        from odmlib.data.reading import read_dataset

        precomputed = model.formula.name == "precomputed"
        zero_based = model.zero_based or precomputed
        if zero_based not in self.known:
            if self.known and self.path == "-":
                raise UsageError(
                    "these models count features differently: the data must be a file, not a pipe"
                )
            self.known[zero_based] = read_dataset(self.path, zero_based=zero_based, threads=self.threads)
        rows, labels = self.known[zero_based]
        if precomputed:
            from odmlib.data.precomputed import test_values

            rows = test_values(rows, model.n_features, shown_name(self.path))
        return rows, labels


def output_lines(
    model: Model,
    places: Places | None,
    numbers: Floats | None,
    header: bool = False,
    block_rows: int = BLOCK_ROWS,
) -> Iterator[bytes]:
    """The label of each row, `places` in the model's labels; then its numbers, where wanted.

    `header`: LIBSVM's first line `labels ...`.
    """
    from odmlib.data.labels import python_label

    if places is None:  # regression
        yield from number_lines(numbers, block_rows)
        return
    names = [one_line(str(python_label(label))) for label in model.labels]
    if header:
        yield f"labels {' '.join(names)}\n".encode()
    for begin in range(0, len(places), block_rows):
        lines = [names[place] for place in places[begin : begin + block_rows].tolist()]
        if numbers is not None:
            block = numbers[begin : begin + block_rows].reshape(len(lines), -1).tolist()
            lines = [f"{name} {' '.join(map(repr, row))}" for name, row in zip(lines, block, strict=True)]
        yield ("\n".join(lines) + "\n").encode()


def number_lines(numbers: Any, block_rows: int = BLOCK_ROWS) -> Iterator[bytes]:
    """The numbers of each row, in full precision."""
    for begin in range(0, len(numbers), block_rows):
        block = numbers[begin : begin + block_rows]
        lines = block.reshape(len(block), -1).tolist()
        yield "".join(f"{' '.join(map(repr, row))}\n" for row in lines).encode()


def print_measures(model: Model, numbers: Any, targets: Floats, to_stderr: bool) -> None:
    """LIBSVM's lines for regression; `numbers` may have the ends of intervals behind each prediction."""
    if model.n_outputs > 1:
        say(PROGRAM, "a data file has one target per row, the model has several outputs: no error is printed")
        return
    from odmlib.model.regression import regression_measures

    columns = numbers.reshape(len(numbers), -1).T
    lines = [*regression_measures(columns[0], targets).lines(behind=" (regression)")]
    if len(columns) == 3:
        inside = int(((columns[1] <= targets) & (targets <= columns[2])).sum())
        lines.append(f"Coverage = {100 * inside / len(targets):g}% ({inside}/{len(targets)}) (regression)")
    print(*lines, sep="\n", file=sys.stderr if to_stderr else sys.stdout, flush=True)


def print_accuracy(model: Model, places: Places, labels: Floats, to_stderr: bool) -> None:
    if model.labels.dtype.kind not in "fiub":
        say(PROGRAM, "the labels of this model are not numbers: no accuracy")
        return
    right = int((model.labels[places] == labels).sum())
    line = f"Accuracy = {100 * right / len(labels):g}% ({right}/{len(labels)}) (classification)"
    print(line, file=sys.stderr if to_stderr else sys.stdout, flush=True)


main = partial(run_tool, PROGRAM, run)

if __name__ == "__main__":
    sys.exit(main())
