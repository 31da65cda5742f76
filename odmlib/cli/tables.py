"""Tables (CSV, TSV, Parquet, Arrow) as data of the tools: the flags, and rows for training and prediction."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from odmlib.cli.common import warn
from odmlib.cli.parser import ToolParser
from odmlib.names import is_table_name

if TYPE_CHECKING:
    from odmlib.data.tables import Table, TableRows

GROUP = "tables (CSV, TSV, Parquet, Arrow)"


def add_table_options(parser: ToolParser, one_hot: bool = True) -> None:
    parser.option(
        "--csv",
        "the data are a CSV or TSV table, not in LIBSVM format (default: by the name, .csv, .tsv, .parquet, "
        ".arrow or .feather)",
        group=GROUP,
    )
    label = "column of the labels, name or number from 1 (default: label, class, target or y, else the last)"
    parser.option("--label COLUMN", label, group=GROUP)
    if one_hot:
        parser.option("--one-hot", "make a column of 0 and 1 of each value of a column of text", group=GROUP)
    parser.option("--no-header", "the first line is a row, though it holds no number", group=GROUP)


def table_flags(arguments: argparse.Namespace) -> list[str]:
    """The options that were given about the table, as a user types them."""
    label = getattr(arguments, "label", None)
    switches = [f"--{name}" for name in ("csv", "one-hot", "no-header")]
    given = [flag for flag in switches if getattr(arguments, flag[2:].replace("-", "_"), False)]
    return [*([] if label is None else ["--label", label]), *given]


def is_table(arguments: argparse.Namespace, path: str) -> bool:
    return arguments.csv or is_table_name(path)


def load_any_table(arguments: argparse.Namespace, path: str) -> Table:
    from odmlib.data.tables import load_table

    return load_table(path, False if arguments.no_header else None)


def read_training_table(arguments: argparse.Namespace, path: str) -> TableRows:
    from odmlib.data.tables import training_rows

    one_hot = getattr(arguments, "one_hot", False)
    return training_rows(load_any_table(arguments, path), arguments.label, one_hot)


def read_test_table(
    arguments: argparse.Namespace, path: str, columns: tuple[str, ...] | None, width: int, program: str
) -> TableRows:
    """The columns that a model was trained on, or that ranges were made of."""
    from odmlib.data.tables import rows_like

    found = rows_like(load_any_table(arguments, path), arguments.label, columns, width)
    for note in found.notes:
        warn(program, note)
    return found
