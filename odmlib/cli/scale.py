"""odm-scale [options] data_file

Bring every feature into one interval, as svm-scale does; the result goes to stdout in full precision.

    odm-scale -s train.range train.txt > train.scaled.txt
    odm-scale -r train.range test.txt > test.scaled.txt
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odmlib.cli.common import ToolParser, UsageError, number, positive_whole_number, run_tool, warn

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from odmlib.data.dataset import Dataset
    from odmlib.data.scaling import Scaling

PROGRAM = "odm-scale"
LOWER, UPPER = -1.0, 1.0

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


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool(PROGRAM, lambda: scale(sys.argv[1:] if argv is None else argv))


def scale(argv: Sequence[str], target: str = "-") -> int:
    """`target`: a file instead of stdout."""
    options = make_parser().parse(argv)
    check(options)
    # numpy and the compiled parts are slow to load: only once the command line makes sense
    from odmlib.data.files import open_output
    from odmlib.data.reading import read_dataset
    from odmlib.data.scaling import Scaling
    from odmlib.data.writing import format_rows

    def read_data() -> tuple[Dataset, NDArray[np.float64]]:
        return read_dataset(options.data_file, zero_based=options.zero_based, threads=options.threads)

    if options.restore is not None:
        # before the data: a fault in this small file should not wait for a large one
        scaling = Scaling.read(options.restore, options.zero_based)
        dataset, labels = read_data()
        remarks = contradictions(options, scaling) + scaling.remark_unknown(dataset, options.zero_based)
    else:
        dataset, labels = read_data()
        scaling = Scaling.fit(dataset, options.lower, options.upper, labels, options.target)
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
            stream.write(format_rows(block, labels[first:last], 0, block.n_rows, options.zero_based))
            first = last
    return 0


def make_parser() -> ToolParser:
    parser = ToolParser(PROGRAM, DESCRIPTION, usage=f"{PROGRAM} [options] data_file", epilog=EXAMPLES)
    parser.add_argument("data_file", help="data in LIBSVM format, also .gz .bz2 .xz; - is stdin")
    parser.option("-l", "--lower", type=number, metavar="LOWER", help="lower end for features (default -1)")
    parser.option("-u", "--upper", type=number, metavar="UPPER", help="upper end for features (default 1)")
    parser.option(
        "-y",
        "--target",
        words=2,
        type=number,
        metavar="LOWER UPPER",
        help="scale the labels too, to this interval (default: labels stay)",
    )
    parser.option("-s", "--save", metavar="FILE", help="save the ranges to FILE")
    parser.option("-r", "--restore", metavar="FILE", help="take the ranges from FILE; - is stdin")
    parser.option(
        "-j", "--threads", type=positive_whole_number, metavar="N", help="threads (default: all cores)"
    )
    parser.switch("--zero-based", help="indices count from 0, in the data and in the range file")
    parser.switch("-q", "--quiet", help="no warnings")
    return parser


def check(options: argparse.Namespace) -> None:
    """What no single option can tell; fills in the defaults."""
    if options.save is not None and options.restore is not None:
        raise UsageError("-s and -r cannot be used together: ranges are either made or taken")
    options.given = {name for name in ("lower", "upper", "target") if getattr(options, name) is not None}
    if options.lower is None:
        options.lower = LOWER
    if options.upper is None:
        options.upper = UPPER
    for lower, upper, flags in [
        (options.lower, options.upper, "-l and -u"),
        (*(options.target or (0, 1)), "-y"),
    ]:
        if not lower < upper:
            raise UsageError(
                f"{flags}: the lower end must be below the upper end, found {lower:g} and {upper:g}"
            )
        if upper - lower == float("inf"):
            raise UsageError(f"{flags}: the ends are too far apart, found {lower:g} and {upper:g}")
    if options.save is not None:
        if options.save in ("-", "/dev/stdout"):
            raise UsageError("-s needs a file: the scaled data go to stdout")
        if os.path.exists(options.save) and same_file(options.save, options.data_file):
            raise UsageError(f"-s {options.save} would overwrite the data")
    if options.restore == "-" and options.data_file == "-":
        raise UsageError("ranges and data cannot both come from stdin")


def same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def contradictions(options: argparse.Namespace, scaling: Scaling) -> list[str]:
    """A range file decides alone, as in svm-scale; options that say otherwise get a word."""
    remarks = []
    for name, flag in (("lower", "-l"), ("upper", "-u")):
        wanted, found = getattr(options, name), getattr(scaling, name)
        if name in options.given and wanted != found:
            remarks.append(f"{flag} {wanted:g} is ignored: the range file {options.restore} says {found:g}")
    if "target" in options.given:
        target = scaling.target
        if target is None:
            remarks.append(f"-y is ignored: the range file {options.restore} does not scale labels")
        elif options.target != [target.lower, target.upper]:
            says = f"{target.lower:g} {target.upper:g}"
            remarks.append(f"-y is ignored: the range file {options.restore} says {says}")
    return remarks


if __name__ == "__main__":
    sys.exit(main())
