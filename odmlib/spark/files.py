"""LIBSVM files as blocks of rows, read where the tasks run.

A file that all machines see under the same path is cut into pieces by bytes: a piece has the lines that begin
in it. Packed files are one piece each. What Hadoop knows by an address (hdfs://, s3a://) is read by Spark,
file by file. A directory is the files in it, by name, without those that begin with _ or a dot, which Spark
uses for other things.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np

from odmlib.data.dataset import Dataset, sound_rows
from odmlib.data.files import is_packed, open_input
from odmlib.data.reading import parse_stream
from odmlib.errors import DataFormatError, OdmError
from odmlib.spark.blocks import BLOCK_VALUES, Fault, RowBlock, Summary
from odmlib.spark.engine import NUMBERS_OF_PARTITION, Pairs, Spread, n_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALLEST_PIECE, LARGEST_PIECE = 1 << 18, 1 << 25  # bytes


class Grammar(NamedTuple):
    """How the rows are to be read."""

    features: int | None = None
    zero_based: bool = False


class Piece(NamedTuple):
    path: str
    begin: int = 0
    end: int | None = None  # None: all that is in the file, unpacked


def file_blocks(
    session: SparkSession, path: str, grammar: Grammar, smallest_piece: int = SMALLEST_PIECE
) -> Spread:
    """Pairs of a RowBlock or Fault and its summary; OSError or OdmError where there is nothing to read."""
    local = local_path(path)
    if local is None:
        return address_blocks(session, path, grammar)
    pieces = cut(local, n_cores(session), smallest_piece)
    return Spread.of_tasks(session, len(pieces), lambda task: blocks_of_text(task, pieces[task], grammar))


def address_blocks(session: SparkSession, path: str, grammar: Grammar) -> Spread:
    """The same of an address; each file is held in memory while it is parsed."""
    files = session.read.format("binaryFile").load(path)
    names = sorted(row[0] for row in files.select("path").collect())
    places = {name: place for place, name in enumerate(names)}
    return Spread(files.select("path", "content"), partial(_blocks_of_files, places, grammar))


def _blocks_of_files(places: dict[str, int], grammar: Grammar, batches: Iterable[Any]) -> Pairs:
    for batch in batches:
        for place, name in enumerate(batch.column(0).to_pylist()):
            content = batch.column(1)[place].as_py()
            yield from blocks_of_text(places[name], (name, content), grammar)


def local_path(path: str) -> str | None:
    """The path that machines see; None for an address that only Spark can read."""
    if "://" not in path:
        return path
    address = urlsplit(path)
    return unquote(address.path) if address.scheme == "file" else None


def cut(path: str, n_cores: int, smallest_piece: int = SMALLEST_PIECE) -> list[Piece]:
    """Pieces of a file or of the files of a directory: a few for every core, none too small or too large."""
    paths = [path]
    if os.path.isdir(path):
        names = sorted(name for name in os.listdir(path) if not name.startswith(("_", ".")))
        paths = [os.path.join(path, name) for name in names]
        for one in paths:
            if os.path.isdir(one):
                raise OdmError(f"{path}: expected files, found the directory {os.path.basename(one)}")
        if not paths:
            raise OdmError(f"{path}: no files in this directory")
    paths = [os.path.abspath(one) for one in paths]
    total = sum(os.stat(one).st_size for one in paths)
    size = min(LARGEST_PIECE, max(smallest_piece, total // (2 * n_cores)))
    pieces: list[Piece] = []
    for one in paths:
        with open(one, "rb") as stream:
            packed = is_packed(stream.read(16))
        length = os.stat(one).st_size
        if packed:
            pieces.append(Piece(one))
        else:
            pieces += [Piece(one, begin, min(begin + size, length)) for begin in range(0, length, size)]
    if not pieces:
        raise DataFormatError("no rows found", path)
    return pieces


def blocks_of_text(
    place: int, source: Piece | tuple[str, bytes], grammar: Grammar, block_values: int = BLOCK_VALUES
) -> Iterator[tuple[int, tuple[RowBlock | Fault, Summary]]]:
    """Blocks with their summaries; `place`: of the source among all. A fault of the text ends it."""
    number = place * NUMBERS_OF_PARTITION
    try:
        rows, labels = read_piece(source, grammar)
    except OdmError as error:
        fault = Fault(number, str(error))
        yield number, (fault, fault.summary)
        return
    except OSError as error:
        reason = f"{error.strerror or error} (every machine must see the file under this path)"
        fault = Fault(number, f"{source[0]}: {reason}")
        yield number, (fault, fault.summary)
        return
    for some in row_ranges(rows, block_values):
        block = RowBlock(number, rows.take(some), labels[some], np.ones(len(some)))
        yield number, (block, block.summary)
        number += 1


def row_ranges(rows: Dataset, block_values: int) -> Iterator[np.ndarray]:
    """The rows in ranges of about so many stored values."""
    begin = 0
    while begin < rows.n_rows:
        wanted = rows.indptr[begin] + block_values
        end = max(begin + 1, int(np.searchsorted(rows.indptr, wanted, side="right")) - 1)
        yield np.arange(begin, min(end, rows.n_rows))
        begin = end


def read_piece(source: Piece | tuple[str, bytes], grammar: Grammar) -> tuple[Dataset, np.ndarray]:
    """Rows and labels; DataFormatError has the place in the whole file."""
    path, begin, end = source if isinstance(source, Piece) else Piece(source[0])
    if end is None:
        with open_input(path if isinstance(source, Piece) else source[1]) as stream:
            return _parse(stream, path, grammar, whole=True)
    with open(path, "rb") as file:
        first, text = lines_of(file, begin, end)
    try:
        return _parse(io.BytesIO(text), path, grammar, whole=begin == 0)
    except DataFormatError as error:
        if not error.line:
            raise
        before = _count_lines(path, first)
        raise DataFormatError(error.message, path, error.line + before, error.column) from None


def _parse(stream: Any, name: str, grammar: Grammar, whole: bool) -> tuple[Dataset, np.ndarray]:
    """`whole`: the stream begins where the file does, and a byte-order mark may come first."""
    features, zero_based = grammar
    indptr, indices, values, labels, width = parse_stream(
        stream, name, features=features, zero_based=zero_based, threads=1, whole_file=whole, may_be_empty=True
    )
    return sound_rows(indptr, indices, values, width), labels


def _count_lines(path: str, end: int) -> int:
    count = 0
    with open(path, "rb") as stream:
        while end > 0 and (some := stream.read(min(end, 1 << 20))):
            count += some.count(b"\n")
            end -= len(some)
    return count


def lines_of(file: IO[bytes], begin: int, end: int) -> tuple[int, bytes]:
    """Where the first line begins that does so in [begin, end), and the text of all that do."""
    first = begin
    if begin > 0:
        file.seek(begin - 1)
        first += len(file.readline()) - 1
        if first >= end:
            return first, b""
    file.seek(first)
    text = file.read(end - first)
    return first, text if text.endswith(b"\n") else text + file.readline()
