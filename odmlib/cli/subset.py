"""odm-subset: draw a part of the rows at random, lines unchanged; LIBSVM's subset.py, with a seed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from odmlib.cli.common import refuse_overwriting, run_tool, say
from odmlib.cli.parser import ToolParser, UsageError, explained
from odmlib.cli.tables import add_table_options, is_table
from odmlib.names import ARROW_ENDS, SUBSET_METHODS
from odmlib.values import read_whole

PROGRAM = "odm-subset"

DESCRIPTION = """\
Draw a part of the rows of a data file at random. Lines are written unchanged and in their
order; blank lines and comments are left out. Both parts of a CSV table keep its header.
size is a number of rows, or a part of them (80%). The subset goes to subset_file (default:
standard output), the other rows to rest_file. data_file may be - (standard input) and
packed with gzip, bzip2 or xz.
"""

EXAMPLES = """\
examples:
  odm-subset big.txt 1000 small.txt                 1000 rows, as many of each class as in the whole
  odm-subset big.txt 80% train.txt test.txt         four fifths, and the other rows
  odm-subset -s 1 --seed 7 big.txt 1000 | odm-train - m
"""


def run(argv: Sequence[str]) -> int:
    arguments = make_parser().parse(argv)
    outputs = [arguments.subset_file or "-", *filter(None, [arguments.rest_file])]
    check_files(arguments.data_file, outputs)
    table = is_table(arguments, arguments.data_file)
    if arguments.data_file.lower().endswith(ARROW_ENDS):
        raise UsageError("odm-subset reads CSV and TSV tables, whose lines it copies, and no others")
    from odmlib.data.files import open_input, open_output
    from odmlib.data.subset import choose_rows, row_labels, row_lines, table_labels, table_lines
    from odmlib.errors import OdmError

    with ExitStack() as stack:
        # the outputs first: a folder that cannot be written to shows before the reading
        streams = [stack.enter_context(open_output(name)) for name in outputs]
        again = None
        if not os.path.isfile(arguments.data_file):  # a pipe comes once
            from tempfile import TemporaryFile

            again = stack.enter_context(TemporaryFile())
        header, labels = b"", list[Any]()
        with open_input(arguments.data_file) as stream:
            name = stream.name
            if table:
                named = False if arguments.no_header else None
                header, labels = table_labels(stream, name, arguments.label, named, again)
            else:
                labels = row_labels(stream, name, again)
        size = arguments.size
        if isinstance(size, float):  # a part
            size = max(1, round(size * len(labels)))
        if not labels:
            raise OdmError(f"{name}: no rows found")
        if size > len(labels):
            raise OdmError(f"{name}: {size} rows are asked for, the file has {len(labels)}")
        chosen = choose_rows(labels, size, arguments.s, arguments.seed).tolist()
        if again is not None:
            again.seek(0)
        place = 0
        for part in streams:
            part.write(header)
        with open_input(again if again is not None else arguments.data_file) as stream:
            for line in table_lines(stream, name, bool(header)) if table else row_lines(stream):
                target = 0 if chosen[place] else 1
                if target < len(streams):
                    streams[target].write(line)
                place += 1
        if place != len(chosen):
            raise OdmError(f"{name}: the file changed while it was read")
    if not arguments.quiet:
        say(PROGRAM, f"{size} of {len(chosen)} rows, {arguments.s}, seed {arguments.seed}")
    return 0


def make_parser() -> ToolParser:
    usage = "[options] data_file size [subset_file] [rest_file]"
    parser = ToolParser(PROGRAM, usage, DESCRIPTION, EXAMPLES)
    methods = "0 stratified: as many of each class as in the whole (default); 1 random"
    parser.option("-s --method METHOD", methods, type=method, default="stratified", dest="s")
    parser.option("--seed N", "seed of the choice (default 0)", type=seed, default=0)
    parser.option("-q --quiet", "say nothing")
    add_table_options(parser, one_hot=False)
    parser.add_argument("data_file")
    parser.add_argument("size", type=explained(size))
    parser.add_argument("subset_file", nargs="?")
    parser.add_argument("rest_file", nargs="?")
    return parser


def seed(text: str) -> int:
    value = read_whole(text)
    if value < 0:
        raise ValueError(f"expected a whole number of 0 or more, found '{text}'")
    return value


def method(text: str) -> str:
    if text in ("0", "1"):
        return SUBSET_METHODS[int(text)]
    if text not in SUBSET_METHODS:
        raise ValueError(f"expected 0, 1, stratified or random, found '{text}'")
    return text


def size(text: str) -> int | float:
    """A count of rows, or a part of them as a float."""
    try:
        if text.endswith("%") and "_" not in text:
            part = float(text[:-1]) / 100
            if 0 < part <= 1:
                return part
        elif text.isascii() and text.isdigit() and int(text) > 0:
            return int(text)
    except ValueError:
        pass
    raise ValueError(f"expected a number of rows or a part such as 80%, found '{text}'")


def check_files(data_file: str, outputs: Sequence[str]) -> None:
    if outputs.count("-") > 1:
        raise UsageError("only one of the two parts can go to standard output")
    if len(outputs) == 2 and os.path.realpath(outputs[0]) == os.path.realpath(outputs[1]):
        raise UsageError(f"the two parts would go to the same file {outputs[0]}")
    for name in outputs:
        refuse_overwriting(name, [data_file])


main = partial(run_tool, PROGRAM, run)

if __name__ == "__main__":
    sys.exit(main())
