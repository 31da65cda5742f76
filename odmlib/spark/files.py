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
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np

from odmlib.data.dataset import Dataset
from odmlib.data.files import is_packed, open_input
from odmlib.data.reading import parse_stream
from odmlib.errors import DataFormatError, OdmError
from odmlib.spark import blocks as spark_blocks
from odmlib.spark.blocks import Fault, RowBlock

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

SMALLEST_PIECE, LARGEST_PIECE = 1 << 18, 1 << 25  # bytes
AHEAD_BYTES = 1 << 16  # read at once while looking for the end of a line


class Grammar(NamedTuple):
    """How the rows are to be read."""

    features: int | None = None
    zero_based: bool = False


class Piece(NamedTuple):
    path: str
    begin: int = 0
    end: int | None = None  # None: all that is in the file, unpacked


def file_blocks(context: SparkContext, path: str, grammar: Grammar) -> RDD:
    """An RDD of RowBlock and Fault; OSError or OdmError where there is nothing to read."""
    local = local_path(path)
    if local is None:
        return addressed_blocks(context, path, grammar)
    pieces = cut(local, context.defaultParallelism)
    n_pieces = len(pieces)

    def read(partition: int, some: Iterable[Piece]) -> Iterator[RowBlock | Fault]:
        for piece in some:
            yield from blocks_of_text(partition, n_pieces, [piece], grammar)

    return context.parallelize(pieces, n_pieces).mapPartitionsWithIndex(read)


def addressed_blocks(context: SparkContext, address: str, grammar: Grammar) -> RDD:
    """Blocks of the files behind an address; each file is held in memory while it is parsed."""
    files = context.binaryFiles(address)
    n_partitions = files.getNumPartitions()

    def read(partition: int, some: Iterable[tuple[str, bytes]]) -> Iterator[RowBlock | Fault]:
        return blocks_of_text(partition, n_partitions, sorted(some), grammar)

    return files.mapPartitionsWithIndex(read)


def local_path(path: str) -> str | None:
    """The path that machines see; None for an address that only Spark can read."""
    if "://" not in path:
        return path
    address = urlsplit(path)
    return unquote(address.path) if address.scheme == "file" else None


def cut(path: str, n_cores: int) -> list[Piece]:
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
    size = min(LARGEST_PIECE, max(SMALLEST_PIECE, total // (2 * n_cores)))
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
    partition: int, n_partitions: int, sources: Iterable[Piece | tuple[str, bytes]], grammar: Grammar
) -> Iterator[RowBlock | Fault]:
    """Blocks of one partition; a fault of the text ends it."""
    number = partition
    for source in sources:
        try:
            rows, labels = read_piece(source, grammar)
        except OdmError as error:
            yield Fault(number, str(error))
            return
        except OSError as error:
            reason = f"{error.strerror or error} (every machine must see the file under this path)"
            yield Fault(number, f"{source[0]}: {reason}")
            return
        for some in row_ranges(rows):
            yield RowBlock(number, rows.take(some), labels[some], np.ones(len(some)))
            number += n_partitions


def row_ranges(rows: Dataset) -> Iterator[np.ndarray]:
    """The rows in ranges of about BLOCK_VALUES stored values."""
    begin = 0
    while begin < rows.n_rows:
        wanted = rows.indptr[begin] + spark_blocks.BLOCK_VALUES
        end = max(begin + 1, int(np.searchsorted(rows.indptr, wanted, side="right")) - 1)
        yield np.arange(begin, min(end, rows.n_rows))
        begin = end


def read_piece(source: Piece | tuple[str, bytes], grammar: Grammar) -> tuple[Dataset, np.ndarray]:
    """Rows and labels; DataFormatError has the place in the whole file."""
    if not isinstance(source, Piece):
        with open_input(source[1]) as stream:
            return _parse(stream, source[0], grammar, whole=True)
    path, begin, end = source
    if end is None:
        with open_input(path) as stream:
            return _parse(stream, path, grammar, whole=True)
    with open(path, "rb", buffering=0) as file:
        try:
            return _parse(Lines(file, begin, end), path, grammar, whole=begin == 0)
        except DataFormatError as error:
            if not error.line:
                raise
            before = _count_lines(path, Lines(file, begin, end).first)
            raise DataFormatError(error.message, path, error.line + before, error.column) from None


def _parse(stream: Any, name: str, grammar: Grammar, whole: bool) -> tuple[Dataset, np.ndarray]:
    """`whole`: the stream begins where the file does, and a byte-order mark may come first."""
    features, zero_based = grammar
    indptr, indices, values, labels, width = parse_stream(
        stream, name, features=features, zero_based=zero_based, threads=1, whole_file=whole, may_be_empty=True
    )
    return Dataset(indptr, indices, values, width), labels


def _count_lines(path: str, end: int) -> int:
    count = 0
    with open(path, "rb") as stream:
        while end > 0 and (some := stream.read(min(end, 1 << 20))):
            count += some.count(b"\n")
            end -= len(some)
    return count


class Lines(io.RawIOBase):
    """The lines of a file that begin in [begin, end), as a stream."""

    def __init__(self, file: IO[bytes], begin: int, end: int):
        self._file, self._end = file, end
        self._ended = False  # whether the last line has been read
        self.first = begin  # where the first line begins
        if begin > 0:
            file.seek(begin - 1)
            self.first = begin - 1 + self._after_line_end()
        self._at = self.first
        self._ended = self.first >= end
        file.seek(self.first)

    def _after_line_end(self) -> int:
        """How many bytes from here to behind the next line end, or to the end of the file."""
        passed = 0
        while some := self._file.read(AHEAD_BYTES):
            place = some.find(b"\n")
            if place >= 0:
                return passed + place + 1
            passed += len(some)
        return passed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._ended:
            return 0
        wanted = len(buffer)
        if self._at < self._end:
            wanted = min(wanted, self._end - self._at)
        some = self._file.read(wanted)
        if not some:
            self._ended = True
            return 0
        if self._at >= self._end:  # the rest of a line that began before
            place = some.find(b"\n")
            if place >= 0:
                some, self._ended = some[: place + 1], True
        elif self._at + len(some) == self._end and some.endswith(b"\n"):
            self._ended = True
        self._at += len(some)
        buffer[: len(some)] = some
        return len(some)
