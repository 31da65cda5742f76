"""odm-predict: predict the labels of data in LIBSVM format with a model of odm-train."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from odmlib.cli.common import one_line, refuse_overwriting, run_tool, say, shown_name, warn
from odmlib.cli.parser import ToolParser, UsageError, positive_whole_number
from odmlib.cli.tables import add_table_options, is_table, read_test_table
from odmlib.errors import OdmError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from odmlib._core.arrays import Floats, Places
    from odmlib.data.dataset import Dataset
    from odmlib.model.model import Model

PROGRAM = "odm-predict"

DESCRIPTION = """\
Predict the labels of data in LIBSVM format, one per line of output_file.
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
    for output in (arguments.output_file, arguments.json):
        refuse_overwriting(output, [arguments.test_file, arguments.model_file])
    if arguments.output_file == arguments.json == "-":
        raise UsageError("only one of the predictions and the report can go to standard output")
    if arguments.b == "1" and arguments.scores:
        raise UsageError("-b 1 and --scores both add numbers behind the label; give one of them")
    from odmlib.data.files import open_output
    from odmlib.model.text_format import load_model

    # everything that can go wrong with the inputs goes wrong before the output is touched
    model = load_model(arguments.model_file)
    if arguments.b == "1":
        model.require_probabilities()
    rows, labels = read_rows(arguments, model)
    numbers = scores = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if arguments.b == "1":
            numbers = model.predict_proba(rows, arguments.threads)
            places = numbers.argmax(axis=1)
        elif arguments.scores or wants_report(arguments):
            scores = model.decision_function(rows, arguments.threads)
            places = model.positions_for(scores)
            numbers = scores if arguments.scores else None
        else:
            places = model.positions(rows, arguments.threads)
    for warning in caught:
        warn(PROGRAM, str(warning.message))
    with open_output(arguments.output_file) as stream:
        stream.writelines(output_lines(model, places, numbers, header=arguments.b == "1"))
    to_stderr = "-" in (arguments.output_file, arguments.json)
    if not arguments.quiet:
        print_accuracy(model, places, labels, to_stderr)
    if wants_report(arguments):
        report(arguments, model, labels, places, numbers if scores is None else scores, to_stderr)
    return 0


def wants_report(arguments: argparse.Namespace) -> bool:
    return arguments.report or arguments.json is not None


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
        "(positive: the first label), one per class (one-vs-rest) or pair of classes (one-vs-one) for more",
    )
    parser.option("--report", "print precision, recall, F1 and AUC of every class, too")
    parser.option("--json FILE", "write these, and the confusion matrix, as JSON; - is stdout")
    parser.option("-j --threads N", "threads (default: all cores)", type=positive_whole_number)
    parser.option("-q --quiet", "do not print the accuracy")
    add_table_options(parser, one_hot=False)
    for name in ("test_file", "model_file", "output_file"):
        parser.add_argument(name)
    return parser


def read_rows(arguments: argparse.Namespace, model: Model) -> tuple[Dataset, NDArray | None]:
    """The test rows and their labels; a table may have none."""
    if is_table(arguments, arguments.test_file):
        table = read_test_table(arguments, arguments.test_file, model)
        return table.rows, table.labels
    return RowsForModels(arguments.test_file, arguments.threads).read(model)


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
    places: Places,
    numbers: Floats | None,
    header: bool = False,
    block_rows: int = BLOCK_ROWS,
) -> Iterator[bytes]:
    """The label of each row, `places` in the model's labels; then its numbers, where wanted.

    `header`: LIBSVM's first line `labels ...`.
    """
    from odmlib.data.labels import python_label

    names = [one_line(str(python_label(label))) for label in model.labels]
    if header:
        yield f"labels {' '.join(names)}\n".encode()
    for begin in range(0, len(places), block_rows):
        lines = [names[place] for place in places[begin : begin + block_rows].tolist()]
        if numbers is not None:
            block = numbers[begin : begin + block_rows].reshape(len(lines), -1).tolist()
            lines = [f"{name} {' '.join(map(repr, row))}" for name, row in zip(lines, block, strict=True)]
        yield ("\n".join(lines) + "\n").encode()


def print_accuracy(model: Model, places: Places, labels: NDArray | None, to_stderr: bool) -> None:
    import numpy as np

    from odmlib.data.labels import show_labels

    if labels is None:
        say(PROGRAM, "the table has no column of labels: no accuracy")
        return
    if model.labels.dtype.kind not in "fiub" and labels.dtype.kind == "f":
        say(PROGRAM, "the labels of this model are not numbers: no accuracy")
        return
    unseen = ~np.isin(labels, model.labels)
    if unseen.any():
        which = show_labels(np.unique(labels[unseen]))
        say(
            PROGRAM,
            f"{unseen.sum()} of {len(labels)} rows have labels that were not in training ({which}); "
            f"the model knows the labels {show_labels(model.labels)}",
        )
    right = int((model.labels[places] == labels).sum())
    line = f"Accuracy = {100 * right / len(labels):g}% ({right}/{len(labels)}) (classification)"
    print(line, file=sys.stderr if to_stderr else sys.stdout, flush=True)


def report(
    arguments: argparse.Namespace,
    model: Model,
    labels: NDArray | None,
    places: Places,
    scores: Floats | None,
    to_stderr: bool,
) -> None:
    """Precision, recall, F1 and AUC of every class, as a table and as JSON."""
    from odmlib.data.files import open_output
    from odmlib.model.metrics import class_scores, classification_report

    if labels is None or (model.labels.dtype.kind not in "fiub" and labels.dtype.kind == "f"):
        raise OdmError(f"{shown_name(arguments.test_file)}: no labels that the model knows: no report")
    if scores is not None and arguments.b != "1":
        scores = class_scores(model.scheme, scores.reshape(len(places), -1), model.n_classes)
    found = classification_report(model.labels, labels, places, scores)
    if arguments.json is not None:
        import json

        with open_output(arguments.json, text=True) as stream:
            print(json.dumps(found, indent=2), file=stream)
    if arguments.report:
        for line in report_lines(found):
            print(line, file=sys.stderr if to_stderr else sys.stdout)


def report_lines(found: dict[str, Any]) -> Iterator[str]:
    """A table for people; a dash where nothing can be said."""
    names = ("precision", "recall", "f1", "auc")
    width = max(5, *(len(one_line(str(one["label"]))) for one in found["classes"]))
    yield f"{'class':>{width}}" + "".join(f"{name:>11}" for name in (*names, "rows"))
    for one in [*found["classes"], found["mean"] | {"label": "mean", "rows": found["rows"]}]:
        numbers = (f"{'-':>11}" if one[name] is None else f"{one[name]:11.4f}" for name in names)
        yield f"{one_line(str(one['label'])):>{width}}" + "".join(numbers) + f"{one['rows']:11d}"


main = partial(run_tool, PROGRAM, run)

if __name__ == "__main__":
    sys.exit(main())
