"""odm-compress: make a kernel model smaller: fewer support vectors, and a report of what that changes."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from functools import partial

from odmlib.cli import reports
from odmlib.cli.common import (
    bad_values_as_usage,
    refuse_overwriting,
    refuse_twice,
    run_tool,
    shown_name,
    warn,
)
from odmlib.cli.parser import ToolParser, UsageError, number, positive_whole_number
from odmlib.cli.tables import add_table_options

PROGRAM = "odm-compress"

DESCRIPTION = """\
Write a kernel model with fewer support vectors. data_file holds rows on which the scores
should stay, best the training set; without it the support vectors are these rows. The
report says how far the scores moved. Any one of the files may be - (standard input,
standard output); with the model on standard output the report goes to stderr.
"""

EXAMPLES = """\
examples:
  odm-compress --vectors 500 big.model train.txt small.model
  odm-compress --error 0.05 big.model train.txt small.model        no score moves by more on these rows
  odm-compress --accuracy-loss 0.1 big.model test.txt small.model  lose at most 0.1 points on these rows
  odm-compress big.model small.model                               as --error 0.1 on the support vectors
"""


def run(argv: Sequence[str]) -> int:
    arguments = make_parser().parse(argv)
    source, data, target = arguments.model_file, arguments.data_file, arguments.smaller_file
    wanted = {name: getattr(arguments, name) for name in ("vectors", "error", "accuracy_loss")}
    if sum(value is not None for value in wanted.values()) > 1:
        raise UsageError("give one of --vectors, --error and --accuracy-loss")
    if wanted["accuracy_loss"] is not None and data is None:
        raise UsageError("--accuracy-loss needs a data file to measure the accuracy on")
    if source == "-" == data:
        raise UsageError("the model and the data cannot both come from standard input")
    if target == "-" == arguments.json:
        raise UsageError("only one of the model and the report can go to standard output")
    for output in (target, arguments.json):
        refuse_overwriting(output, [source, data])
    refuse_twice([target, arguments.json])
    from odmlib.cli.predict import RowsForModels
    from odmlib.data.files import open_output
    from odmlib.errors import OdmError, ParameterError
    from odmlib.model.text_format import load_model
    from odmlib.model.text_writer import model_pieces
    from odmlib.selection.compressing import check_compressible, compress

    model = load_model(source)
    with reports.open_wanted(arguments.json) as report, open_output(target) as stream:
        try:
            check_compressible(model)
        except ParameterError as error:
            raise OdmError(f"{shown_name(source)}: {error}") from None
        rows, labels = RowsForModels(data, arguments).read(model) if data else (None, None)
        with warnings.catch_warnings(record=True) as caught, bad_values_as_usage():
            warnings.simplefilter("always")
            smaller = compress(model, rows, labels, **wanted, threads=arguments.threads)
        for warning in caught:
            warn(PROGRAM, str(warning.message))
        stream.writelines(model_pieces(smaller, target))
        found = smaller.report["compression"]
        reports.write_report(report, found)
        if not arguments.quiet:
            lines = "\n".join(reports.describe_compression(found, data is not None))
            print(lines, file=sys.stderr if "-" in (target, arguments.json) else sys.stdout, flush=True)
    return 0


def make_parser() -> ToolParser:
    usage = "[options] model_file [data_file] smaller_file"
    parser = ToolParser(PROGRAM, usage, DESCRIPTION, EXAMPLES)
    parser.option("--vectors N", "keep at most N support vectors", type=positive_whole_number)
    parser.option(
        "--error E",
        "keep as few as change no score of the rows by more than E (default 0.1; odmr, odmo: a tenth of the "
        "standard deviation of the scores)",
        type=number,
    )
    parser.option(
        "--accuracy-loss P",
        "keep as few as lose at most P points (hundredths) of accuracy on the rows of data_file (not odmr)",
        type=number,
    )
    parser.option("--json FILE", "write the report as JSON; - is stdout, then the text goes to stderr")
    parser.option("-j --threads N", "threads (default: all cores)", type=positive_whole_number)
    parser.option("-q --quiet", "do not print the report")
    add_table_options(parser, one_hot=False)
    parser.add_argument("model_file")
    parser.add_argument("data_file", nargs="?")
    parser.add_argument("smaller_file")
    return parser


main = partial(run_tool, PROGRAM, run)

if __name__ == "__main__":
    sys.exit(main())
