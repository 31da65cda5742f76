"""Tables (CSV, TSV, Parquet, Arrow) as data of the tools: the flags, and rows for training and prediction."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from odmlib.cli.parser import ToolParser
from odmlib.names import is_table_name

if TYPE_CHECKING:
    from odmlib.data.tables import TableRows
    from odmlib.model.model import Model

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


def is_table(arguments: argparse.Namespace, path: str) -> bool:
    return arguments.csv or is_table_name(path)


def read_training_table(arguments: argparse.Namespace, path: str) -> TableRows:
    from odmlib.data.tables import load_table, training_rows

    one_hot = getattr(arguments, "one_hot", False)
    return training_rows(load_table(path, _header(arguments)), arguments.label, one_hot)


def read_test_table(arguments: argparse.Namespace, path: str, model: Model) -> TableRows:
    """The columns that the model was trained on."""
    from odmlib.data.tables import load_table, rows_like

    table = load_table(path, _header(arguments))
    return rows_like(table, arguments.label, model.columns, model.n_features)


def _header(arguments: argparse.Namespace) -> bool | None:
    return False if arguments.no_header else None
