"""Reading data in LIBSVM format: blocks of a stream go to the parser, a fault becomes a message.

The grammar is at the head of `_reader.pyx`. Memory in use is the CSR arrays and one block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from odmlib._core.arrays import Columns, Floats, Places
from odmlib.data._reader import PADDING, RowParser
from odmlib.data.dataset import MAX_FEATURES, Dataset, checked_width, sound_rows
from odmlib.data.faults import describe, header_hint, token_at
from odmlib.data.files import Source, open_input
from odmlib.errors import DataFormatError, FileFormatError
from odmlib.threads import resolve_threads

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FIRST_BLOCK_BYTES = 1 << 18  # a small file should not pay for a large buffer
BLOCK_BYTES = 1 << 21  # for each thread: what it parses should still be in the processor's cache
LARGEST_BLOCK_BYTES = 1 << 26
CHUNK_BYTES = 1 << 18  # of a block, for one thread at a time

UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class ReadableInto(Protocol):
    """What the parser asks of a stream; 0 means that it has ended."""

    def readinto(self, buffer: Any, /) -> int | None: ...


def read_data(
    source: Source,
    features: int | None = None,
    zero_based: bool = False,
    threads: int | None = None,
    max_unpacked: int | None = None,
) -> tuple[csr_array, Floats]:
    """Read a file in LIBSVM format into a sparse matrix and the labels.

    source        a path, "-" for standard input, an open file, or bytes; .gz, .bz2 and .xz are unpacked
    features      number of columns; by default the largest index in the file
    zero_based    the indices in the file count from 0, not from 1
    threads       by default all cores that this process may use
    max_unpacked  bytes to which a packed source may unpack; by default any number

    >>> X, y = read_data(b"+1 1:0.5 3:2\\n-1 2:1\\n")
    >>> X.toarray().tolist(), y.tolist()
    ([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]], [1.0, -1.0])
    """
    from scipy.sparse import csr_array

    with open_input(source, max_unpacked) as stream:
        indptr, indices, values, labels, width = parse_stream(
            stream, stream.name, features=features, zero_based=zero_based, threads=threads
        )
    if len(values) < 2**31:
        indptr = indptr.astype(np.int32)  # scipy wants one width for both
    return csr_array((values, indices, indptr), shape=(len(labels), width), copy=False), labels


def read_dataset(
    source: Source, features: int | None = None, zero_based: bool = False, threads: int | None = None
) -> tuple[Dataset, Floats]:
    """`read_data` for use inside odmlib: the rows as a Dataset, without scipy."""
    with open_input(source) as stream:
        indptr, indices, values, labels, width = parse_stream(
            stream, stream.name, features=features, zero_based=zero_based, threads=threads
        )
    return sound_rows(indptr, indices, values, width), labels


def parse_rows(
    buffer: bytes | bytearray | memoryview,
    name: str,
    first_line: int = 1,
    features: int | None = None,
    zero_based: bool = False,
    error: type[FileFormatError] = DataFormatError,
    threads: int | None = 1,
    strict_lines: bool = False,
) -> tuple[Dataset, Floats]:
    """Rows that stand inside another file, such as the support vectors of a model file.

    `name` and `first_line` say where the buffer starts, `error` is what a fault raises. With
    `strict_lines` empty lines, comments and qid are faults too. No rows at all is not a fault here.
    """
    from io import BytesIO

    indptr, indices, values, labels, width = parse_stream(
        BytesIO(buffer),
        name,
        first_line=first_line,
        features=features,
        zero_based=zero_based,
        error=error,
        threads=threads,
        strict_lines=strict_lines,
        whole_file=False,
    )
    return sound_rows(indptr, indices, values, width), labels


def parse_stream(
    stream: ReadableInto,
    name: str,
    *,
    first_line: int = 1,
    features: int | None = None,
    zero_based: bool = False,
    error: type[FileFormatError] = DataFormatError,
    threads: int | None = None,
    strict_lines: bool = False,
    whole_file: bool = True,
    may_be_empty: bool = False,
    block_bytes: int | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> tuple[Places, Columns, Floats, Floats, int]:
    """Parse a stream to its end: row pointers, columns, values, labels, number of features.

    `whole_file`: a byte-order mark may come first, and there must be at least one row unless `may_be_empty`.
    The last two arguments are for tests; no result and no message depends on them.
    """
    features = checked_features(features)
    n_threads = resolve_threads(threads)
    if block_bytes is None:
        block_bytes = min(n_threads * BLOCK_BYTES, LARGEST_BLOCK_BYTES)
    parser = RowParser(*allowed_indices(features, zero_based), strict_lines, n_threads, chunk_bytes)
    start = (name, error) if whole_file else None
    for part in text_blocks(stream, start, min(block_bytes, FIRST_BLOCK_BYTES), block_bytes):
        _feed(parser, part, name, first_line + parser.n_lines, features, zero_based, error)
    if whole_file and parser.n_rows == 0 and not may_be_empty:
        raise error("no rows found", name)
    width = parser.n_columns if features is None else features
    return *parser.finish(), width


def read_parts(
    source: Source,
    zero_based: bool = False,
    threads: int | None = None,
    features: int | None = None,
    most_bytes: int = LARGEST_BLOCK_BYTES,
) -> Iterator[tuple[Dataset, Floats]]:
    """`read_dataset` part by part, as the rows come: memory does not grow with the file, and rows of a pipe
    are there before it ends. Each part is as wide as its rows ask for, or has `features` columns.
    `most_bytes`: of text in memory, where lines are not longer."""
    features = checked_features(features)
    n_threads = resolve_threads(threads)
    most = min(n_threads * BLOCK_BYTES, LARGEST_BLOCK_BYTES, most_bytes)
    n_lines, n_rows = 0, 0
    with open_input(source) as stream:
        start = (stream.name, DataFormatError)
        for part in text_blocks(stream, start, min(most, FIRST_BLOCK_BYTES), most, as_it_comes=True):
            parser = RowParser(*allowed_indices(features, zero_based), False, n_threads, CHUNK_BYTES)
            _feed(parser, part, stream.name, 1 + n_lines, features, zero_based, DataFormatError)
            n_lines, n_rows = n_lines + parser.n_lines, n_rows + parser.n_rows
            width = parser.n_columns if features is None else features
            if parser.n_rows:
                indptr, indices, values, labels = parser.finish()
                yield sound_rows(indptr, indices, values, width), labels
        if n_rows == 0:
            raise DataFormatError("no rows found", stream.name)


def _feed(
    parser: RowParser,
    part: tuple[bytearray, int, int],
    name: str,
    first_line: int,
    features: int | None,
    zero_based: bool,
    error: type[FileFormatError],
) -> None:
    """Parse whole lines of a block, the first of which has this number; a fault raises `error`."""
    block, begin, end = part
    fault = parser.feed(block, begin, end)
    if fault is not None:
        code, place, previous = fault
        line = first_line + block.count(b"\n", begin, place)
        column = place + 1 - max(begin, block.rfind(b"\n", begin, place) + 1)
        token = token_at(block, place)
        message = describe(code, token, previous, features, zero_based)
        message += header_hint(code, token) if line == 1 else ""
        raise error(message, name, line, column)


def allowed_indices(features: int | None, zero_based: bool) -> tuple[int, int]:
    """The number that a file gives to column 0, and the largest one."""
    base = 0 if zero_based else 1
    return base, (MAX_FEATURES if features is None else features) - 1 + base


def text_blocks(
    stream: ReadableInto,
    start: tuple[str, type[FileFormatError]] | None,
    first_bytes: int,
    most_bytes: int,
    as_it_comes: bool = False,
) -> Iterator[tuple[bytearray, int, int]]:
    """Blocks of a stream, each with the place of whole lines in it; the very last line gets its line end.

    `start`: the stream begins a file of this name and may begin with a byte-order mark; that of UTF-16 raises
    the error. Blocks grow up to `most_bytes`, and beyond for a line that is longer. `as_it_comes`: a block
    need not be full where a read brought the end of a line.
    """
    block = bytearray(first_bytes + PADDING)
    filled = 0  # bytes of the block in use: at first those of an unfinished line
    ended = False
    while not ended:  # Python delivers Ctrl-C between two blocks
        unfinished, capacity = filled, len(block) - PADDING
        with memoryview(block) as view:
            while filled < capacity and not ended:
                count = stream.readinto(view[filled:capacity])
                filled += count or 0
                ended = not count
                if as_it_comes and block.find(b"\n", unfinished, filled) >= 0:
                    break
        if ended and filled and block[filled - 1] != 0x0A:
            block[filled] = 0x0A
            filled += 1
        begin = 0
        if start is not None:
            if block.startswith(UTF16_MARKS, 0, filled):
                raise start[1]("found UTF-16 text, expected ASCII or UTF-8", start[0])
            begin = len(UTF8_MARK) if block.startswith(UTF8_MARK, 0, filled) else 0
        end = block.rfind(b"\n", unfinished, filled) + 1
        yield block, begin, end
        wanted = capacity if capacity >= most_bytes else min(4 * capacity, most_bytes)
        if end == 0:
            wanted = 2 * capacity  # a line longer than the block
        else:
            start = None
        larger = bytearray(wanted + PADDING) if wanted > capacity else block
        larger[: filled - end] = memoryview(block)[end:filled]
        block, filled = larger, filled - end


def checked_features(features: int | None) -> int | None:
    return None if features is None else checked_width(features, "features")
