"""odm-train --stream: train on a file that does not fit into memory."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias

from odmlib.cli.common import bad_values_as_usage, shown_name
from odmlib.cli.parser import UsageError
from odmlib.cli.progress import ProgressLine
from odmlib.cli.tables import is_table
from odmlib.errors import OdmError, ParameterError
from odmlib.options import TrainOptions

if TYPE_CHECKING:
    from odmlib.data.row_store import RowStore, StoredBlock
    from odmlib.model.model import Model

    Stored: TypeAlias = tuple[RowStore, StoredBlock]  # rows in their cache, and a sample of them

# what needs all rows in memory
NOT_AVAILABLE = {
    "loo": "--loo",
    "margins": "--margins",
    "assigned": "--assigned",
    "report": "--report",
    "compare": "--compare",
    "weights": "-W",
    "spark": "--spark",
}
# of -m, for the program itself; measured: 33 MB before there are rows, and 16 later (threads, libraries). A
# constant, so that the same command makes the same blocks and the same model
PROGRAM_MB = 64
LEAST_MB = 16  # that must be left
# of all weights, beside the rows: while a model is made and written, and of each fold. Measured: news20, 20
# classes of 62,061 features, took 406 MB with -m 400
MODEL_COPIES, FOLD_COPIES = 42, 12


def stream_options(arguments: argparse.Namespace, options: TrainOptions) -> TrainOptions:
    """The options with what of -m is left for rows; UsageError for what a stream cannot do, and for its flags
    without it."""
    if not arguments.stream:
        for name, flag in (("cache_dir", "--cache-dir"), ("keep_cache", "--keep-cache")):
            if getattr(arguments, name):
                raise UsageError(f"{flag} is about the cache of --stream, which is not given")
        return options
    for name, flag in NOT_AVAILABLE.items():
        if getattr(arguments, name):
            raise UsageError(f"{flag} is not available with --stream")
    if arguments.keep_cache and arguments.training_set_file == "-":
        raise UsageError(
            "--keep-cache needs a file: nobody can tell whether a pipe holds the same rows again"
        )
    if is_table(arguments, arguments.training_set_file):
        raise UsageError("--stream reads LIBSVM format, not tables")
    from odmlib.machines.streaming import check_streamed_options

    with bad_values_as_usage():
        check_streamed_options(options)
    if options.cache_mb < PROGRAM_MB + LEAST_MB:
        needed = PROGRAM_MB + LEAST_MB
        raise UsageError(
            f"-m {options.cache_mb:g}: the program itself takes {PROGRAM_MB} MB; --stream needs {needed}"
        )
    return options.but(cache_mb=options.cache_mb - PROGRAM_MB)


@contextmanager
def streamed_rows(arguments: argparse.Namespace, options: TrainOptions) -> Iterator[Stored]:
    """The rows of the file in their cache, and a sample of them."""
    from odmlib.selection.streaming import stored_rows

    name = arguments.training_set_file
    how = arguments.cache_dir, arguments.keep_cache, arguments.features, arguments.zero_based
    try:
        with ExitStack() as stack:
            with ProgressLine(None if arguments.quiet else sys.stderr, "odm-train") as progress:
                progress.show(lambda: f"reading {name}")
                stored = stack.enter_context(stored_rows(name, options, *how))
            _check_weights(arguments, options, stored[0])
            yield stored
    except ParameterError as error:
        told = error.shell
        raise OdmError(told if name in told else f"{shown_name(name)}: {told}") from None


def _check_weights(arguments: argparse.Namespace, options: TrainOptions, store: RowStore) -> None:
    """-m must hold the weights of all classes, which stay in memory."""
    n_classes, folds = len(store.labels.found), arguments.v or 0
    outputs = 1 if n_classes == 2 else n_classes
    needed = 8 * outputs * store.n_features * max(MODEL_COPIES, FOLD_COPIES * folds) / 2**20
    if needed > options.cache_mb:
        parts = f"{outputs} x {store.n_features} weights" + (f" in {folds} folds" if folds else "")
        least = PROGRAM_MB + ceil(needed)
        raise ParameterError(f"{parts} need -m {least} or more")


def train_on_stream(options: TrainOptions, stored: Stored) -> Model:
    """The model of the rows in the file."""
    from odmlib.machines.streaming import train_store
    from odmlib.model.text_writer import check_numbers

    model = train_store(*stored, options)
    check_numbers(model)
    return model


def short_search_of_stream(
    arguments: argparse.Namespace, options: TrainOptions, stored: Stored
) -> tuple[TrainOptions, dict[str, Any]]:
    """-C: the options with the best C, and the report."""
    from odmlib.cli.grid import short_search_of
    from odmlib.selection.streaming import search_store

    return short_search_of(arguments, options, stored[0], partial(search_store, *stored))
