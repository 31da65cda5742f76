"""odm-predict: predict the labels of data in LIBSVM format with a model of odm-train."""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from odmlib.cli.common import one_line, refuse_overwriting, refuse_twice, run_tool, say, shown_name, warn
from odmlib.cli.parser import ToolParser, UsageError, number, positive_whole_number
from odmlib.cli.tables import add_table_options, is_table, load_any_table, read_test_table
from odmlib.errors import OdmError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from odmlib._core.arrays import Floats, Places
    from odmlib.data.dataset import Dataset
    from odmlib.data.tables import Table
    from odmlib.model.model import Model

PROGRAM = "odm-predict"

DESCRIPTION = """\
Predict the labels (regression: the targets) of data in LIBSVM format, one per line of output_file.
test_file or model_file may be - (standard input); output_file may be - (standard
output), then the accuracy goes to stderr. Test rows need a label; any number will do
where the true one is not known. Rows are predicted as they come: memory does not grow
with the file, and a fault late in a pipe comes after the labels of the rows before it.
"""

EXAMPLES = """\
examples:
  odm-predict test.txt heart.model predicted.txt
  odm-predict --scores test.txt heart.model - | sort -k2 -g | head    surest rows of the second label
"""

BLOCK_ROWS = 1 << 16


def run(argv: Sequence[str]) -> int:
    arguments = make_parser().parse(argv)
    if arguments.test_file == "-" and arguments.model_file == "-":
        raise UsageError("the test set and the model cannot both come from standard input")
    for output in (arguments.output_file, arguments.json):
        refuse_overwriting(output, [arguments.test_file, arguments.model_file])
    refuse_twice([arguments.output_file, arguments.json])
    if arguments.output_file == arguments.json == "-":
        raise UsageError("only one of the predictions and the report can go to standard output")
    refuse_two_kinds_of_words(arguments)
    from odmlib.data.files import open_output
    from odmlib.model.text_format import load_model

    # the model and the first rows are looked at before the output is touched
    model = load_model(arguments.model_file)
    answers = Answers(model, arguments)
    parts = row_parts(arguments, model)
    first = next(parts)
    with open_output(arguments.output_file) as stream:
        stream.write(answers.header())
        for rows, labels in chain([first], parts):
            stream.writelines(answers.lines(rows, labels))
            stream.flush()
    talk = sys.stderr if "-" in (arguments.output_file, arguments.json) else sys.stdout
    if not arguments.quiet:
        for line in answers.summary():
            print(line, file=talk, flush=True)
    if wants_report(arguments):
        for line in answers.report():
            print(line, file=talk)
    return 0


def wants_report(arguments: argparse.Namespace) -> bool:
    return arguments.report or arguments.json is not None


def refuse_two_kinds_of_words(arguments: argparse.Namespace) -> None:
    wanted = {
        "-b 1": arguments.b == "1",
        "--scores": arguments.scores,
        "--coverage": arguments.coverage is not None,
    }
    given = [flag for flag, is_given in wanted.items() if is_given]
    if len(given) > 1:
        what = "numbers" if "--coverage" not in given else "words"
        raise UsageError(f"{given[0]} and {given[1]} both add {what} behind the label; give one of them")


class Answers:
    """The lines that a model writes for rows, and the sums over all of them."""

    def __init__(self, model: Model, arguments: argparse.Namespace):
        from odmlib.model.regression import RegressionSums

        self.model, self.arguments, self.sums = model, arguments, RegressionSums()
        self.n_rows = self.right = self.inside = self.members = 0
        self.warned: set[str] = set()
        self.unseen: Counter[Any] = Counter()  # labels that the model does not know
        self.has_labels = True
        self.kept: list[tuple[Any, ...]] = []  # labels, places and scores, for the report
        if arguments.b == "1":
            model.require_probabilities()
        if arguments.coverage is not None and model.is_regression:
            self.interval = model.interval(arguments.coverage)
        elif arguments.coverage is not None:
            self.threshold = model.threshold_for(arguments.coverage)

    def header(self) -> bytes:
        return f"labels {' '.join(names_of(self.model))}\n".encode() if self.arguments.b == "1" else b""

    def lines(self, rows: Dataset, labels: NDArray | None) -> Iterator[bytes]:
        """The lines of some rows; they are counted in the sums."""
        model, arguments = self.model, self.arguments
        places: Any = None
        scores: Any = None
        if labels is None:  # of a table
            labels, self.has_labels = no_labels(model, rows.n_rows), False
        words: Floats | list[str] | None = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if model.is_regression:
                words = self.predicted(model.predict(rows, arguments.threads), labels)
            elif arguments.b == "1":
                words = model.predict_proba(rows, arguments.threads)
                places = words.argmax(axis=1)
            elif arguments.scores:
                words = scores = model.decision_function(rows, arguments.threads)
                places = model.positions_for(words)
                if "conformal_scores" in model.lists:
                    import numpy as np

                    words = np.stack([words, model.p_values_for(words)], axis=1)
            elif wants_report(arguments):
                scores = model.decision_function(rows, arguments.threads)
                places = model.positions_for(scores)
            elif arguments.coverage is not None:
                scores = model.decision_function(rows, arguments.threads)
                places = model.positions_for(scores)
                words = self.label_sets(scores, labels)
            else:
                places = model.positions(rows, arguments.threads)
        for warning in caught:
            kind = str(warning.message).split("(")[0]  # the same for every part of the rows
            if kind not in self.warned:
                warn(PROGRAM, str(warning.message))
            self.warned.add(kind)
        if places is None:
            return number_lines(words)
        self.n_rows += len(places)
        self.right += int((model.labels[places] == labels).sum())
        self.count_unseen(labels)
        if wants_report(arguments):
            self.kept.append((labels, places, words if arguments.b == "1" else scores))
        return output_lines(model, places, words)

    def comparable(self, labels: NDArray) -> bool:
        """Whether labels of a file can be those of the model, which may be text."""
        return self.model.labels.dtype.kind in "fiub" or labels.dtype.kind != "f"

    def count_unseen(self, labels: NDArray) -> None:
        import numpy as np

        if self.has_labels and self.comparable(labels):
            self.unseen.update(labels[~np.isin(labels, self.model.labels)].tolist())
        else:
            self.has_labels = False

    def predicted(self, numbers: Floats, targets: Floats) -> Floats:
        """The predictions of a regression, with the ends of their intervals where these are wanted."""
        self.n_rows += len(numbers)
        if numbers.ndim > 1:
            return numbers
        self.sums.add(numbers, targets)
        if self.arguments.coverage is None:
            return numbers
        import numpy as np

        ends = np.add.outer(numbers, np.array([0.0, *self.interval]))
        self.inside += int(((ends[:, 1] <= targets) & (targets <= ends[:, 2])).sum())
        return ends

    def label_sets(self, scores: Floats, labels: Floats) -> list[str]:
        """The labels of the set of every row, in the order of the model."""
        sets = self.model.sets_for(scores, self.threshold)
        self.members += int(sets.sum())
        self.inside += int((sets & (labels[:, None] == self.model.labels)).sum())
        names = names_of(self.model)
        return [
            " ".join(name for name, there in zip(names, row, strict=True) if there) for row in sets.tolist()
        ]

    def summary(self) -> Iterator[str]:
        if self.model.is_regression:
            yield from self.errors()
            return
        if not self.has_labels:
            say(PROGRAM, "there are no labels that the model could know: no accuracy")
            return
        if self.unseen:
            import numpy as np

            from odmlib.data.labels import show_labels

            which = show_labels(np.array(sorted(self.unseen)))
            say(
                PROGRAM,
                f"{self.unseen.total()} of {self.n_rows} rows have labels that were not in training "
                f"({which}); the model knows the labels {show_labels(self.model.labels)}",
            )
        n = self.n_rows
        yield f"Accuracy = {100 * self.right / n:g}% ({self.right}/{n}) (classification)"
        if self.arguments.coverage is not None:
            share = f"{100 * self.inside / n:g}% ({self.inside}/{n})"
            yield f"Coverage = {share}, {self.members / n:.4g} labels per set"

    def report(self) -> Iterator[str]:
        """Precision, recall, F1 and AUC of every class: the lines of a table; JSON is written."""
        import numpy as np

        from odmlib.model.metrics import classification_report
        from odmlib.model.schemes import class_scores

        model, arguments = self.model, self.arguments
        if not self.has_labels or (model.is_regression and model.n_outputs > 1):
            what = "labels that the model could know" if not model.is_regression else "targets for the model"
            raise OdmError(f"{shown_name(arguments.test_file)}: a report needs {what}")
        if model.is_regression:
            yield from self.report_of_errors()
            return
        labels, places = (np.concatenate([part[k] for part in self.kept]) for k in (0, 1))
        scores = None
        if all(part[2] is not None for part in self.kept):
            scores = np.concatenate([part[2].reshape(len(part[1]), -1) for part in self.kept])
            scores = scores if arguments.b == "1" else class_scores(model.scheme, scores, model.n_classes)
        found = classification_report(model.labels, labels, places, scores)
        self.write_json(found)
        if arguments.report:
            yield from report_lines(found)

    def report_of_errors(self) -> Iterator[str]:
        """The lines for regression; JSON is written."""
        found = {"rows": self.n_rows, **self.sums.report()}
        if self.arguments.coverage is not None:
            found["coverage"] = self.inside / self.n_rows
        self.write_json({name: value if math.isfinite(value) else None for name, value in found.items()})
        if self.arguments.report:
            yield f"Mean absolute error = {found['mean_absolute_error']:g} (regression)"
            yield f"R^2 = {found['r_squared']:g} (regression)"

    def write_json(self, found: dict[str, Any]) -> None:
        if self.arguments.json is None:
            return
        import json

        from odmlib.data.files import open_output

        with open_output(self.arguments.json, text=True) as stream:
            print(json.dumps(found, indent=2), file=stream)

    def errors(self) -> Iterator[str]:
        """LIBSVM's lines for regression, and how many intervals hold their target."""
        if self.model.n_outputs > 1:
            say(PROGRAM, "the model has several outputs, a data file has one target per row: no error")
            return
        if not self.has_labels:
            say(PROGRAM, "there are no targets: no error")
            return
        yield from self.sums.measures().lines(behind=" (regression)")
        if self.arguments.coverage is not None:
            share = f"{100 * self.inside / self.n_rows:g}% ({self.inside}/{self.n_rows})"
            yield f"Coverage = {share} (regression)"


def number_lines(numbers: Any, block_rows: int = BLOCK_ROWS) -> Iterator[bytes]:
    """The numbers of each row, in full precision."""
    for begin in range(0, len(numbers), block_rows):
        block = numbers[begin : begin + block_rows]
        lines = block.reshape(len(block), -1).tolist()
        yield "".join(f"{' '.join(map(repr, row))}\n" for row in lines).encode()


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
        "each line is the label, then the labels of a set that holds the true one for about P of the rows "
        "(0 < P < 1); regression: the prediction and the ends of an interval that holds the target as often; "
        "the model must come from odm-train --coverage 1",
        type=coverage,
    )
    report = "precision, recall, F1 and AUC of every class, too; regression: mean absolute error and R^2"
    parser.option("--report", f"print {report}")
    parser.option("--json FILE", "write these, and the confusion matrix or the errors, as JSON; - is stdout")
    parser.option("-j --threads N", "threads (default: all cores)", type=positive_whole_number)
    parser.option("-q --quiet", "do not print the accuracy")
    add_table_options(parser, one_hot=False)
    for name in ("test_file", "model_file", "output_file"):
        parser.add_argument(name)
    return parser


def coverage(text: str) -> float:
    value = number(text)
    if not 0 < value < 1:
        raise ValueError(f"expected a number above 0 and below 1, found '{text}'")
    return value


def row_parts(arguments: argparse.Namespace, model: Model) -> Iterator[tuple[Dataset, NDArray | None]]:
    """The test rows and their labels, part by part; a table is read whole, and may have no labels."""
    if is_table(arguments, arguments.test_file):
        table = read_test_table(arguments, arguments.test_file, model.columns, model.n_features, PROGRAM)
        return iter([(table.rows, table.labels)])
    return RowsForModels(arguments.test_file, arguments).parts(model)


def no_labels(model: Model, n_rows: int) -> NDArray:
    """Labels that no model knows."""
    import numpy as np

    return np.full(n_rows, np.nan if model.labels.dtype.kind in "fiub" else "")


class RowsForModels:
    """Data for models that may count features in different ways; each way is read once.

    `arguments` has the threads and the table options of a tool. A table gives each model its own columns.
    """

    def __init__(self, path: str, arguments: argparse.Namespace):
        self.path, self.threads, self.arguments = path, arguments.threads, arguments
        self.known: dict[bool, tuple[Dataset, Floats]] = {}
        self.table: Table | None = None

    def read(self, model: Model) -> tuple[Dataset, NDArray]:
        from odmlib.data.reading import read_dataset

        if is_table(self.arguments, self.path):
            return self._from_table(model)
        precomputed = model.formula.name == "precomputed"
        zero_based = model.zero_based or precomputed
        if zero_based not in self.known:
            if self.known and self.path == "-":
                raise UsageError(
                    "these models count features differently: the data must be a file, not a pipe"
                )
            self.known[zero_based] = read_dataset(self.path, zero_based=zero_based, threads=self.threads)
        rows, labels = self.known[zero_based]
        return self._as_the_model_takes_them(rows, model), labels

    def _from_table(self, model: Model) -> tuple[Dataset, NDArray]:
        from odmlib.data.tables import rows_like

        if self.table is None:
            self.table = load_any_table(self.arguments, self.path)
        found = rows_like(self.table, self.arguments.label, model.columns, model.n_features)
        if found.labels is None:
            raise OdmError(f"{shown_name(self.path)}: there is no column of labels; --label names one")
        return found.rows, found.labels

    def parts(self, model: Model) -> Iterator[tuple[Dataset, Floats]]:
        """The same part by part, as they come; nothing is kept."""
        from odmlib.data.reading import read_parts

        zero_based = model.zero_based or model.formula.name == "precomputed"
        for rows, labels in read_parts(self.path, zero_based, self.threads):
            yield self._as_the_model_takes_them(rows, model), labels

    def _as_the_model_takes_them(self, rows: Dataset, model: Model) -> Dataset:
        if model.formula.name != "precomputed":
            return rows
        from odmlib.data.precomputed import test_values

        return test_values(rows, model.n_features, shown_name(self.path))


def output_lines(
    model: Model, places: Places, words: Floats | list[str] | None, block_rows: int = BLOCK_ROWS
) -> Iterator[bytes]:
    """The label of each row, `places` in the model's labels; then its numbers or words, where wanted."""
    names = names_of(model)
    for begin in range(0, len(places), block_rows):
        lines = [names[place] for place in places[begin : begin + block_rows].tolist()]
        if words is not None:
            some = words[begin : begin + block_rows]
            if not isinstance(some, list):
                some = [" ".join(map(repr, row)) for row in some.reshape(len(lines), -1).tolist()]
            lines = [f"{name} {more}" if more else name for name, more in zip(lines, some, strict=True)]
        yield ("\n".join(lines) + "\n").encode()


def names_of(model: Model) -> list[str]:
    from odmlib.data.labels import python_label

    return [one_line(str(python_label(label))) for label in model.labels]


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
