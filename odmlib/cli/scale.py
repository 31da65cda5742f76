"""odm-scale: bring every feature into one interval, as svm-scale does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from odmlib.cli.common import refuse_overwriting, run_tool, warn
from odmlib.cli.parser import ToolParser, UsageError, number, positive_whole_number
from odmlib.cli.tables import add_table_options, is_table, read_training_table
from odmlib.errors import OdmError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from odmlib.data.dataset import Dataset
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


def scale(argv: Sequence[str], target: str = "-") -> int:
    """`target`: a file instead of stdout."""
    options = make_parser().parse(argv)
    check(options)
    # numpy and the compiled parts are slow to load: only once the command line makes sense
    from odmlib.data.files import open_output
    from odmlib.data.reading import read_dataset
    from odmlib.data.scaling import Scaling, unit_rows
    from odmlib.data.writing import format_rows

    def read_data() -> tuple[Dataset, NDArray[np.float64]]:
        if is_table(options, options.data_file):
            table = read_training_table(options, options.data_file)
            if table.labels is None or table.labels.dtype.kind != "f":
                raise OdmError(
                    f"{options.data_file}: {table.label_name} holds text; the output needs numbers"
                )
            return table.rows, table.labels
        return read_dataset(options.data_file, zero_based=options.zero_based, threads=options.threads)

    if options.norm is not None:
        dataset, labels = read_data()
        with open_output(target) as stream:
            for part in row_parts(dataset):
                block = unit_rows(dataset.part(part.start, part.stop), options.norm)
                stream.write(format_rows(block, labels[part], options.zero_based))
        return 0
    if options.restore is not None:
        # before the data: a fault in this small file should not wait for a large one
        scaling = Scaling.read(options.restore, options.zero_based)
        dataset, labels = read_data()
        remarks = contradictions(options, scaling) + scaling.remark_unknown(dataset, options.zero_based)
    else:
        dataset, labels = read_data()
        scaling = Scaling.fit(dataset, *feature_ends(options), labels, options.target)
        remarks = []
    remarks += scaling.remark_growth(dataset)
    labels = scaling.apply_labels(labels)
    scaling.check_size(dataset)
    if options.save is not None:
        # before any output, so that whoever reads our output finds it
        scaling.write(options.save, options.zero_based)
    if not options.quiet:
        for remark in remarks:
            warn(PROGRAM, remark)
    with open_output(target) as stream:
        first = 0
        for block in scaling.blocks(dataset):
            last = first + block.n_rows
            stream.write(format_rows(block, labels[first:last], options.zero_based))
            first = last
    return 0


def make_parser() -> ToolParser:
    parser = ToolParser(PROGRAM, "[options] data_file", DESCRIPTION, EXAMPLES)
    parser.add_argument("data_file", help="data in LIBSVM format, also .gz .bz2 .xz; - is stdin")
    parser.option("-l --lower LOWER", "lower end for features (default -1)", type=number)
    parser.option("-u --upper UPPER", "upper end for features (default 1)", type=number)
    target = "scale the labels too, to this interval (default: labels stay)"
    parser.option("-y --target LOWER UPPER", target, type=number)
    parser.option("-s --save FILE", "save the ranges to FILE")
    parser.option("-r --restore FILE", "take the ranges from FILE; - is stdin")
    norm = "divide each row by its length instead: l1, l2 (Euclid's) or max; good for word counts"
    parser.option("--norm NORM", norm, choices=("l1", "l2", "max"))
    parser.option("-j --threads N", "threads (default: all cores)", type=positive_whole_number)
    parser.option("--zero-based", "indices count from 0, in the data and in the range file")
    parser.option("-q --quiet", "no warnings")
    add_table_options(parser)
    return parser


def row_parts(dataset: Dataset, most: int = 1 << 20) -> Iterator[slice]:
    """Some rows at a time: about so many values."""
    step = max(1, most * max(1, dataset.n_rows) // max(1, dataset.n_nonzeros))
    for first in range(0, dataset.n_rows, step):
        yield slice(first, min(first + step, dataset.n_rows))


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


main = partial(run_tool, PROGRAM, scale)

if __name__ == "__main__":
    sys.exit(main())
