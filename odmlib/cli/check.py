"""odm-check: every fault of a file in LIBSVM format, what its rows hold, and advice."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from odmlib.cli.common import one_line, run_tool
from odmlib.cli.parser import ToolParser, positive_whole_number
from odmlib.cli.tables import add_table_options, is_table
from odmlib.errors import flags_alone
from odmlib.values import counted, read_whole

if TYPE_CHECKING:
    from odmlib.data.checking import DataCheck

PROGRAM = "odm-check"
FAULTS_SHOWN = 100
CLASSES_SHOWN = 10
ADVISED = 3  # exit code of --strict

DESCRIPTION = """\
Check data in LIBSVM format: every fault with line and column (not only the first), then
statistics and advice about the rows without fault. data_file may be - (standard input)
and packed with gzip, bzip2 or xz. Of a table (CSV, TSV, Parquet, Arrow) the first fault is told.
"""

EXAMPLES = """\
examples:
  odm-check train.txt                            all there is to say
  odm-check -q train.txt && odm-train train.txt  in a script: only faults, and the exit code
  zcat big.gz | odm-check --json - - | jq .statistics.density

exit codes: 0 no fault, 1 faults found (or no file to read), 2 bad usage,
3 with --strict: no fault, but advice
"""


def run(argv: Sequence[str]) -> int:
    arguments = make_parser().parse(argv)
    from odmlib.data.checking import check_data, check_table
    from odmlib.data.files import open_output

    if is_table(arguments, arguments.data_file):
        check = check_table(
            arguments.data_file, arguments.label, arguments.one_hot, False if arguments.no_header else None
        )
    else:
        check = check_data(
            arguments.data_file,
            features=arguments.features,
            zero_based=arguments.zero_based,
            max_faults=arguments.faults if arguments.faults > 0 else None,
        )
    if arguments.json is not None:
        import json

        with open_output(arguments.json, text=True) as stream:
            print(json.dumps(check.report(), indent=2), file=stream)
    if arguments.json != "-":
        for line in lines(check, arguments.quiet):
            print(line)
    if not check.good:
        return 1
    return ADVISED if arguments.strict and check.advice else 0


def make_parser() -> ToolParser:
    parser = ToolParser(PROGRAM, "[options] data_file", DESCRIPTION, EXAMPLES)
    parser.add_argument("data_file")
    faults = f"show at most N faults, 0 for all (default {FAULTS_SHOWN}); all are counted"
    parser.option("--faults N", faults, type=read_whole, default=FAULTS_SHOWN)
    parser.option("--features N", "refuse indices above N", type=positive_whole_number)
    parser.option("--zero-based", "feature indices in the file count from 0")
    parser.option("--json FILE", "write all as JSON; - is stdout, then without the text")
    parser.option("--strict", f"exit with {ADVISED} where there is advice")
    parser.option("-q --quiet", "only faults and how many there are")
    add_table_options(parser)
    return parser


def lines(check: DataCheck, quiet: bool) -> Iterator[str]:

    name = one_line(check.name)
    for fault in check.faults:
        place = ":".join([name, *(str(number) for number in (fault.line, fault.column) if number)])
        yield f"{place}: {flags_alone(fault.message)}"
    if check.n_faults > len(check.faults):
        yield f"... and {check.n_faults - len(check.faults)} faults more (--faults 0 shows all)"
    if check.n_faulty_lines:
        faults = counted(check.n_faults, "fault")
        yield f"{faults} in {check.n_faulty_lines} of {counted(check.n_lines, 'line')}"
    elif check.good and not quiet:
        yield f"{name}: no faults in {counted(check.n_lines, 'line')}"
    if quiet or not check.statistics:
        return
    if check.label_column:
        yield f"labels      of {check.label_column}"
    yield from describe(check)
    yield from (f"advice: {sentence}" for sentence in check.advice)


def describe(check: DataCheck) -> Iterator[str]:
    found = check.statistics
    unused = found["features"] - found["used_features"]
    only = "" if check.good else " without fault, and only these in what follows"
    yield f"rows        {found['rows']}{only}"
    never = f", {unused} of them never used" if unused else ""
    yield f"features    {found['features']}{never}"
    yield (
        f"nonzeros    {found['nonzeros']} ({100 * found['density']:.3g}%), "
        f"at most {found['longest_row']} in a row"
    )
    yield f"values      {found['lowest']:g} to {found['highest']:g}"
    if found["widest_feature"] is not None:
        yield (
            f"ranges      of features: {found['narrowest_range']:g} to {found['widest_range']:g} "
            f"(feature {found['widest_feature']}), median {found['median_range']:g}"
        )
    yield f"constant    {found['constant_features']} features"
    empty = f"; {found['empty_rows']} rows are empty" if found["empty_rows"] else ""
    yield f"duplicates  {found['duplicate_rows']} rows{empty}"
    counts = found["class_counts"].items()
    classes = [f"{label} {100 * count / found['rows']:.3g}% ({count})" for label, count in counts]
    more = ["..."] if len(classes) > CLASSES_SHOWN else []
    yield f"classes     {found['classes']}: {', '.join(classes[:CLASSES_SHOWN] + more)}"


main = partial(run_tool, PROGRAM, run)

if __name__ == "__main__":
    sys.exit(main())
