"""odm-scale: bring every feature into one interval, as svm-scale does."""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from odmlib.cli.common import refuse_overwriting, run_tool, warn
from odmlib.cli.parser import ToolParser, UsageError, number, positive_whole_number
from odmlib.cli.tables import add_table_options, is_table, read_test_table, read_training_table
from odmlib.errors import OdmError

if TYPE_CHECKING:
    from odmlib._core.arrays import Floats
    from odmlib.data.dataset import Dataset
    from odmlib.data.parts import RowParts
    from odmlib.data.scaling import Scaling

PROGRAM = "odm-scale"

DESCRIPTION = """\
Scale data in LIBSVM format: each feature is mapped linearly so that its smallest
value becomes LOWER and its largest UPPER. Entries that are not stored count as 0;
features that never change are left out. The result goes to stdout.
"""

EXAMPLES = """\
examples:
  odm-scale -s train.range train.txt > train.scaled.txt    scale, and save how
  odm-scale -r train.range test.txt > test.scaled.txt      scale other data in the same way
  zcat big.gz | odm-scale -l 0 - | odm-train - big.model   in a pipe; -l 0 keeps zeros zero

Always scale test data with the ranges of the training data (-r). Range files are
those of svm-scale: either program reads the other's.
"""


def run(argv: Sequence[str]) -> int:
    scale(argv)
    return 0


def scale(argv: Sequence[str], target: str = "-") -> Given:
    """The whole tool; `target`: a file instead of stdout."""
    options = make_parser().parse(argv)
    check(options)
    # numpy and the compiled parts are slow to load: only once the command line makes sense
    from odmlib.data.files import open_output
    from odmlib.data.scaling import Scaling

    # all rows are read before the first is written: whoever reads our output gets all rows or none
    if options.norm is not None:
        given = read_data(options)
        deque(given.parts, maxlen=0)
        lines = norm_lines(given, options)
    else:
        # before the data: a fault in this small file should not wait for a large one
        known = None if options.restore is None else Scaling.read(options.restore, options.zero_based)
        given = read_data(options, known)
        scaling = find_scaling(given, known, options)
        if options.save is not None:
            # before any output, so that whoever reads our output finds it
            scaling.write(options.save, options.zero_based)
        lines = scaled_lines(given, scaling)
    with open_output(target) as stream:
        stream.writelines(chain([given.header()], lines))
    return given


@dataclass(frozen=True)
class Given:
    """The rows and their labels. LIBSVM's format cannot hold labels that are `texts`, of a table: the output
    is a CSV table then."""

    parts: RowParts
    zero_based: bool
    names: tuple[str, ...] | None = None  # of the columns of a table
    texts: Sequence[str] = ()
    label: str = ""  # the name of the texts' column
    labeled: bool = True  # rows of a table without labels get the label 0

    def header(self) -> bytes:
        from odmlib.data.tables import csv_lines

        return csv_lines([[*self.names, self.label]]) if self.texts and self.names is not None else b""

    def lines(self, block: Dataset, labels: Floats, first: int) -> bytes:
        """Some rows as text; `first` is the number of rows before them."""
        from odmlib.data.tables import csv_lines
        from odmlib.data.writing import format_rows

        if not self.texts:
            return format_rows(block, labels, self.zero_based)
        texts = self.texts[first : first + block.n_rows]
        rows = block.to_dense().tolist()
        return csv_lines([*row, text] for row, text in zip(rows, texts, strict=True))


def read_data(options: argparse.Namespace, known: Scaling | None = None) -> Given:
    """The data; a table has the columns of the ranges that are `known`, where these have names."""
    import numpy as np

    from odmlib.data.parts import RowParts

    path = options.data_file
    if not is_table(options, path):
        return Given(RowParts(path, options.zero_based, options.threads), options.zero_based)
    if known is None or known.names is None:
        table = read_training_table(options, path)
    else:
        table = read_test_table(options, path, known.names, len(known.names), PROGRAM)
    labels, texts = np.zeros(table.rows.n_rows), []
    if table.labels is None:
        if not options.quiet:
            warn(PROGRAM, f"{path} has no column of labels: all rows get the label 0")
    elif table.labels.dtype.kind == "f":
        labels = table.labels
    else:
        texts = [str(label) for label in table.labels]
    if texts and options.target is not None:
        raise OdmError(f"{path}: {table.label_name} holds text, which -y cannot scale")
    return Given(
        RowParts.of(table.rows, labels),
        options.zero_based,
        table.names,
        texts,
        table.label_title,
        labeled=table.labels is not None,
    )


def find_scaling(given: Given, known: Scaling | None, options: argparse.Namespace) -> Scaling:
    """The scaling of the rows, or the known one; it suits all rows."""
    import numpy as np

    from odmlib.data.scaling import ColumnRanges, Scaling

    ranges, ends = None, np.array([np.inf, -np.inf])  # of the features; of the labels
    for rows, labels in given.parts:
        found = ColumnRanges.of(rows)
        ranges = found if ranges is None else ranges.joined(found)
        ends = np.array([min(ends[0], labels.min()), max(ends[1], labels.max())])
    assert ranges is not None  # the reader refuses a file without rows
    remarks = []
    if known is not None:
        scaling = known
        remarks += contradictions(options, scaling) + scaling.remark_unknown(ranges, options.zero_based)
    else:
        label_range = tuple(ends.tolist())
        scaling = Scaling.of_ranges(
            ranges, *feature_ends(options), label_range, options.target, names=given.names
        )
    remarks += scaling.remark_growth(ranges)
    scaling.apply_labels(ends)
    scaling.check_size(ranges)
    if not options.quiet:
        for remark in remarks:
            warn(PROGRAM, remark)
    return scaling


def scaled_lines(given: Given, scaling: Scaling) -> Iterator[bytes]:
    before = 0
    for rows, labels in given.parts:
        scaled, first = scaling.apply_labels(labels), 0
        for block in scaling.blocks(rows, rows_before=before):
            last = first + block.n_rows
            yield given.lines(block, scaled[first:last], before + first)
            first = last
        before += rows.n_rows


def norm_lines(given: Given, options: argparse.Namespace) -> Iterator[bytes]:
    from odmlib.data.scaling import unit_rows

    before = 0
    for rows, labels in given.parts:
        for part in row_parts(rows):
            block = unit_rows(rows.part(part.start, part.stop), options.norm)
            yield given.lines(block, labels[part], before + part.start)
        before += rows.n_rows


def row_parts(dataset: Dataset, most: int = 1 << 20) -> Iterator[slice]:
    """Some rows at a time: about so many values."""
    step = max(1, most * max(1, dataset.n_rows) // max(1, dataset.n_nonzeros))
    for first in range(0, dataset.n_rows, step):
        yield slice(first, min(first + step, dataset.n_rows))


def make_parser() -> ToolParser:
    parser = ToolParser(PROGRAM, "[options] data_file", DESCRIPTION, EXAMPLES)
    parser.add_argument("data_file", help="data in LIBSVM format, also .gz .bz2 .xz; - is stdin")
    add_scaling_options(parser)
    parser.option("-s --save FILE", "save the ranges to FILE")
    parser.option("-r --restore FILE", "take the ranges from FILE; - is stdin")
    parser.option("-j --threads N", "threads (default: all cores)", type=positive_whole_number)
    parser.option("--zero-based", "indices count from 0, in the data and in the range file")
    parser.option("-q --quiet", "no warnings")
    add_table_options(parser)
    return parser


def add_scaling_options(parser: ToolParser, group: str = "options") -> None:
    """How rows are scaled."""
    parser.option("-l --lower LOWER", "lower end for features (default -1)", type=number, group=group)
    parser.option("-u --upper UPPER", "upper end for features (default 1)", type=number, group=group)
    target = "scale the labels too, to this interval (default: labels stay)"
    parser.option("-y --target LOWER UPPER", target, type=number, group=group)
    norm = "divide each row by its length instead: l1, l2 (Euclid's) or max; good for word counts"
    parser.option("--norm NORM", norm, choices=("l1", "l2", "max"), group=group)


def feature_ends(options: argparse.Namespace) -> tuple[float, float]:
    lower, upper = options.lower, options.upper
    return -1.0 if lower is None else lower, 1.0 if upper is None else upper


def check(options: argparse.Namespace) -> None:
    """What no single option can tell."""
    if options.norm is not None:
        for name, flag in (
            ("lower", "-l"),
            ("upper", "-u"),
            ("target", "-y"),
            ("save", "-s"),
            ("restore", "-r"),
        ):
            if getattr(options, name) is not None:
                raise UsageError(
                    f"--norm scales each row by itself: {flag}, about features, has no meaning here"
                )
    if options.save is not None and options.restore is not None:
        raise UsageError("-s and -r cannot be used together: ranges are either made or taken")
    for lower, upper, flags in [(*feature_ends(options), "-l and -u"), (*(options.target or (0, 1)), "-y")]:
        if not lower < upper:
            raise UsageError(
                f"{flags}: the lower end must be below the upper end, found {lower:g} and {upper:g}"
            )
        if upper - lower == float("inf"):
            raise UsageError(f"{flags}: the ends are too far apart, found {lower:g} and {upper:g}")
    if options.save is not None:
        if options.save in ("-", "/dev/stdout"):
            raise UsageError("-s needs a file: the scaled data go to stdout")
        refuse_overwriting(options.save, [options.data_file], f"-s {options.save} would overwrite the data")
    if options.restore == "-" and options.data_file == "-":
        raise UsageError("ranges and data cannot both come from stdin")


def contradictions(options: argparse.Namespace, scaling: Scaling) -> list[str]:
    """A range file decides alone, as in svm-scale; options that say otherwise get a word."""
    remarks = []
    for name, flag in (("lower", "-l"), ("upper", "-u")):
        wanted, found = getattr(options, name), getattr(scaling, name)
        if wanted not in (None, found):
            remarks.append(f"{flag} {wanted:g} is ignored: the range file {options.restore} says {found:g}")
    target = scaling.target
    if options.target is not None and (target is None or options.target != [target.lower, target.upper]):
        says = "does not scale labels" if target is None else f"says {target.lower:g} {target.upper:g}"
        remarks.append(f"-y is ignored: the range file {options.restore} {says}")
    return remarks


main = partial(run_tool, PROGRAM, run)

if __name__ == "__main__":
    sys.exit(main())
