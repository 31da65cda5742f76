"""odm-predict [options] test_file model_file output_file

Predict the labels of data in LIBSVM format with a model of odm-train.

    odm-predict test.txt heart.model predicted.txt
    odm-predict --scores test.txt heart.model - | head
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from odmlib.cli.common import ToolParser, UsageError, one_line, positive_whole_number, run_tool, say, warn

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool(PROGRAM, lambda: run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    arguments = make_parser().parse(argv)
    if arguments.test_file == "-" and arguments.model_file == "-":
        raise UsageError("the test set and the model cannot both come from standard input")
    for name in (arguments.test_file, arguments.model_file):
        output = arguments.output_file
        if os.path.isfile(name) and os.path.exists(output) and os.path.samefile(name, output):
            raise UsageError(f"the output would replace the input {name}")
    if arguments.b != "0":
        raise UsageError("-b: probabilities are not part of this version; only -b 0 is accepted")
    return predict(arguments)


def make_parser() -> ToolParser:
    parser = ToolParser(
        PROGRAM, DESCRIPTION, usage="odm-predict [options] test_file model_file output_file", epilog=EXAMPLES
    )
    parser.option("-b", type=str, metavar="0|1", default="0", help="probabilities: only 0 in this version")
    parser.switch(
        "--scores",
        help="each line is the label, then the decision values in full precision: one for two classes "
        "(positive: the first label), one per class (one-vs-rest) or pair of classes (one-vs-one) for more",
    )
    parser.option(
        "-j", "--threads", type=positive_whole_number, metavar="N", help="threads (default: all cores)"
    )
    parser.switch("-q", "--quiet", help="do not print the accuracy")
    for name in ("test_file", "model_file", "output_file"):
        parser.add_argument(name)
    return parser


def predict(arguments: argparse.Namespace) -> int:
    from odmlib.data.files import open_output
    from odmlib.model.text_format import load_model

    # everything that can go wrong with the inputs goes wrong before the output is touched
    model = load_model(arguments.model_file)
    rows, labels = read_rows(arguments.test_file, model, arguments.threads)
    scores = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if arguments.scores:
            scores = model.decision_function(rows, arguments.threads)
            places = model.positions_for(scores)
        else:
            places = model.positions(rows, arguments.threads)
    for warning in caught:
        warn(PROGRAM, str(warning.message))
    with open_output(arguments.output_file) as stream:
        for block in output_lines(model, places, scores):
            stream.write(block)
    if not arguments.quiet:
        print_accuracy(model, places, labels, to_stderr=arguments.output_file == "-")
    return 0


def read_rows(path: str, model: Model, threads: int | None) -> tuple[Dataset, NDArray[np.float64]]:
    from odmlib.data.reading import read_dataset

    precomputed = model.formula.name == "precomputed"
    rows, labels = read_dataset(path, zero_based=model.zero_based or precomputed, threads=threads)
    if precomputed:
        from odmlib.data.precomputed import test_values

        rows = test_values(rows, model.n_features, "<stdin>" if path == "-" else path)
    return rows, labels


def output_lines(
    model: Model, places: NDArray[np.int64], scores: NDArray[np.float64] | None
) -> Iterator[bytes]:
    """The label of each row, `places` in the model's labels; then its decision values, where wanted."""
    from odmlib.data.labels import python_label

    names = [one_line(str(python_label(label))) for label in model.labels]
    for begin in range(0, len(places), BLOCK_ROWS):
        lines = [names[place] for place in places[begin : begin + BLOCK_ROWS].tolist()]
        if scores is not None:
            block = scores[begin : begin + BLOCK_ROWS].reshape(len(lines), -1).tolist()
            lines = [f"{name} {' '.join(map(repr, row))}" for name, row in zip(lines, block, strict=True)]
        yield ("\n".join(lines) + "\n").encode()


def print_accuracy(
    model: Model, places: NDArray[np.int64], labels: NDArray[np.float64], to_stderr: bool
) -> None:
    if model.labels.dtype.kind not in "fiub":
        say(PROGRAM, "the labels of this model are not numbers: no accuracy")
        return
    right = int((model.labels[places] == labels).sum())
    line = f"Accuracy = {100 * right / len(labels):g}% ({right}/{len(labels)}) (classification)"
    print(line, file=sys.stderr if to_stderr else sys.stdout, flush=True)


if __name__ == "__main__":
    sys.exit(main())
