"""RowStore: rows with labels in a file of checked blocks, for passes over data that do not fit into memory.

    header   MAGIC
    blocks   one after the other, each at a multiple of 8 bytes:
             values float64, row offsets int64, weights float64 (where rows have any), columns int32, labels
             int32 (positions in the list of labels), filled up to 8 bytes; the index has their CRC-32
    index    JSON: what the file was made of, labels, and of each block its place, sizes and checksum
    tail     place and length of the index, its CRC-32, MAGIC

The index comes last and the file gets its name when it is complete, so that a file with this name is whole. A
pass reads blocks into memory of its own rather than mapping the file: pages of a map count as memory of the
process, and a disk that fails would end the process with a signal instead of a message. One thread reads
ahead. The first pass of a run checks every checksum and all columns and offsets.

`Sample` keeps some rows, each with the same chance, of a stream whose length is not known.
"""

from __future__ import annotations

import json
import os
import queue
import struct
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Floats
from odmlib.data.dataset import Dataset, sound_rows, stacked
from odmlib.data.files import open_output
from odmlib.data.problem import encode_labels
from odmlib.errors import FileFormatError, ParameterError

MAGIC = b"odmrows1"
TAIL = struct.Struct("<QQQ8s")  # place, length and CRC-32 of the index
BYTES_PER_VALUE = 12
BYTES_PER_ROW = 64  # offset, label and weight, and what a pass computes for it
MAX_LABELS = 1000  # more are no classes
READ_BYTES = 1 << 24  # between two looks at the end of a pass


class CacheFormatError(FileFormatError):
    """A cache of rows has a fault."""


@dataclass(frozen=True)
class Identity:
    """What a cache was made of. A cache serves a run only if all of it is the same."""

    path: str
    size: int
    mtime_ns: int
    features: int | None
    zero_based: bool
    block_bytes: int  # a run with less memory needs smaller blocks
    byte_order: str = sys.byteorder

    @classmethod
    def of_file(cls, path: str, features: int | None, zero_based: bool, block_bytes: int) -> Identity:
        real = os.path.realpath(path)
        found = os.stat(real)
        return cls(real, found.st_size, found.st_mtime_ns, features, zero_based, block_bytes)

    def cache_name(self) -> str:
        """Sources of the same name in different folders have different caches."""
        return f"{os.path.basename(self.path)}-{zlib.crc32(os.fsencode(self.path)):08x}.odmrows"


def _filled_up(n: int) -> int:
    return n + -n % 8


@dataclass(frozen=True)
class _Place:
    """A block in the file."""

    start: int
    n_rows: int
    n_values: int
    weighted: bool
    checksum: int

    def layout(self) -> list[tuple[type, int]]:
        n, k = self.n_rows, self.n_values
        weights = [(np.float64, n)] if self.weighted else []
        return [(np.float64, k), (np.int64, n + 1), *weights, (np.int32, k), (np.int32, n)]

    @property
    def n_bytes(self) -> int:
        return _filled_up(sum(np.dtype(kind).itemsize * n for kind, n in self.layout()))

    def arrays(self, view: memoryview) -> list[NDArray]:
        """The arrays of the block in these bytes."""
        found: list[NDArray] = []
        start = 0
        for kind, n in self.layout():
            found.append(np.frombuffer(view, kind, n, start))
            start += found[-1].nbytes
        return found


@dataclass(frozen=True, eq=False)
class StoredBlock:
    """Some rows; `first` is the number of the first one among all, `codes` are positions in `labels`."""

    number: int
    first: int
    rows: Dataset
    codes: NDArray[np.int32]
    weights: Floats | None = None  # None: all 1


class Sample:
    """Rows drawn from a stream, each with the same chance, of at most so many bytes."""

    def __init__(self, most_bytes: int, seed: int = 0):
        self.most_bytes, self.chance = most_bytes, 1.0
        self._random = np.random.default_rng(seed)
        self._parts: list[tuple[Floats, Dataset, NDArray[np.int32], Floats]] = []
        self._bytes = 0

    def add(self, rows: Dataset, codes: NDArray[np.int32], weights: Floats | None) -> None:
        draws = self._random.random(rows.n_rows)
        some = np.flatnonzero(draws < self.chance)
        if len(some):
            kept = np.ones(len(some)) if weights is None else weights[some]
            self._parts.append((draws[some], rows.take(some), codes[some], kept))
            self._bytes += self._size(self._parts[-1])
        while self._bytes > self.most_bytes and self.chance > 1e-12:
            self.chance /= 2
            thinned = []
            for draws, rows, codes, kept in self._parts:
                some = np.flatnonzero(draws < self.chance)
                if len(some):
                    thinned.append((draws[some], rows.take(some), codes[some], kept[some]))
            self._parts, self._bytes = thinned, sum(map(self._size, thinned))

    @staticmethod
    def _size(part: tuple[Floats, Dataset, NDArray[np.int32], Floats]) -> int:
        # a solver keeps a good dozen numbers per row beside it
        return BYTES_PER_VALUE * part[1].n_nonzeros + 4 * BYTES_PER_ROW * part[1].n_rows

    def block(self, width: int) -> StoredBlock:
        """The rows, with `width` features."""
        if not self._parts:
            empty = np.empty(0)
            rows = sound_rows(np.zeros(1, np.int64), np.empty(0, np.int32), empty, width)
            return StoredBlock(0, 0, rows, np.empty(0, np.int32), empty)
        together = stacked([part[1] for part in self._parts])
        columns = (np.concatenate([part[k] for part in self._parts]) for k in (2, 3))
        together = sound_rows(together.indptr, together.indices, together.values, width)
        return StoredBlock(0, 0, together, *columns)


@dataclass
class Labels:
    """Distinct labels in order of appearance."""

    found: list[Any] = field(default_factory=list)

    def codes(self, y: Any) -> NDArray[np.int32]:
        known = self._known_codes(y)
        if known is not None:
            return known
        codes, distinct = encode_labels(y)
        places = {label: place for place, label in enumerate(self.found)}
        for label in distinct.tolist():
            if label not in places:
                places[label] = len(self.found)
                self.found.append(label)
        if len(self.found) > MAX_LABELS:
            raise ParameterError(
                f"more than {MAX_LABELS} different labels; are they targets of a regression?"
            )
        return np.array([places[label] for label in distinct.tolist()], dtype=np.int32)[codes]

    def _known_codes(self, y: Any) -> NDArray[np.int32] | None:
        """Without the sort of `encode_labels`, where all labels are among few known numbers."""
        few = len(self.found) <= 8 and isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype == np.float64
        if not few or not all(isinstance(label, float) for label in self.found):
            return None
        codes = np.full(len(y), -1, dtype=np.int32)
        for code, label in enumerate(self.found):
            codes[y == label] = code
        return None if len(codes) and codes.min() < 0 else codes

    def order(self) -> tuple[NDArray, NDArray[np.int32]]:
        """The labels as a Model has them, and the code of each; {-1, +1} always begins with +1."""
        codes = np.arange(len(self.found), dtype=np.int32)
        if self.found == [-1, 1]:
            codes = codes[::-1].copy()
        labels = np.array(self.found)
        if labels.dtype.kind in "SU" and not all(isinstance(label, str | bytes) for label in self.found):
            labels = np.empty(len(self.found), dtype=object)
            labels[:] = self.found
        return labels[codes], codes


class RowStore:
    """A complete file of blocks, open for passes; `close` or `with` lets go of it."""

    def __init__(self, path: str, index: dict[str, Any], labels: Labels, stream: IO[bytes]):
        self.path, self.labels = path, labels
        self.n_features = int(index["features"])
        self.n_rows = int(index["rows"])
        self.n_nonzeros = int(index["nonzeros"])
        self.class_rows = np.array(index["class_rows"], dtype=np.int64)  # by code, as stored
        self.class_weights = np.array(index["class_weights"], dtype=np.float64)  # sums of row weights
        self._places = [_Place(*place) for place in index["blocks"]]
        self._firsts = np.cumsum([0, *(place.n_rows for place in self._places)]).tolist()
        self._stream = stream
        self.inode = os.fstat(stream.fileno()).st_ino
        self._sound: set[int] = set()  # blocks that have been checked
        self.passes = 0

    @property
    def n_blocks(self) -> int:
        return len(self._places)

    @property
    def n_bytes(self) -> int:
        return sum(place.n_bytes for place in self._places)

    def __enter__(self) -> RowStore:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()

    # ------------------------------------------------------------------------------------ making one

    @classmethod
    def make(
        cls,
        path: str,
        parts: Iterable[tuple[Any, Any] | tuple[Any, Any, Floats | None]],
        block_bytes: int,
        identity: Identity | None = None,
        sample: Sample | None = None,
        features: int | None = None,
    ) -> RowStore:
        """Write (rows, labels) or (rows, labels, weights), in blocks of about so many bytes, and open it.

        Nothing is left at `path` if that fails.
        """
        labels = Labels()
        waiting: list[tuple[Dataset, NDArray[np.int32], Floats | None]] = []
        n_rows = n_nonzeros = waiting_bytes = width = 0
        class_rows = np.zeros(MAX_LABELS, dtype=np.int64)
        class_weights = np.zeros(MAX_LABELS)
        with open_output(path) as stream:
            stream.write(MAGIC)
            writer = _BlockWriter(stream, len(MAGIC))
            for part in parts:
                rows, y, weights = part if len(part) == 3 else (*part, None)
                codes = labels.codes(y)
                width = max(width, rows.n_features)
                class_rows += np.bincount(codes, minlength=MAX_LABELS)
                class_weights += np.bincount(codes, weights, minlength=MAX_LABELS)
                if sample is not None:
                    sample.add(rows, codes, weights)
                for some in _cut(rows, block_bytes):
                    own = None if weights is None else weights[some]
                    piece = rows.part(some.start, some.stop)
                    size = _size(piece)
                    if waiting and (
                        waiting_bytes + size > block_bytes or (waiting[0][2] is None) != (own is None)
                    ):
                        writer.write(waiting)
                        waiting, waiting_bytes = [], 0
                    waiting.append((piece, codes[some], own))
                    waiting_bytes += size
                n_rows, n_nonzeros = n_rows + rows.n_rows, n_nonzeros + rows.n_nonzeros
            if waiting:
                writer.write(waiting)
            if n_rows == 0:
                raise ParameterError("no rows found")
            numbers = all(isinstance(label, int | float) for label in labels.found)
            index = {
                "identity": None if identity is None or not numbers else asdict(identity),
                "rows": n_rows,
                "features": width if features is None else features,
                "nonzeros": n_nonzeros,
                "labels": labels.found if numbers else [],
                "class_rows": class_rows[: len(labels.found)].tolist(),
                "class_weights": class_weights[: len(labels.found)].tolist(),
                "blocks": writer.entries,
            }
            text = json.dumps(index).encode()
            stream.write(text)
            stream.write(TAIL.pack(writer.place, len(text), zlib.crc32(text), MAGIC))
        return cls(path, index, labels, open(path, "rb", buffering=0))

    @classmethod
    def reopen(cls, path: str, identity: Identity) -> RowStore | None:
        """The cache at `path` if it is whole and was made of the same source; None if it must be made anew.

        CacheFormatError where the file claims to be such a cache and its index is damaged.
        """
        try:
            stream = open(path, "rb", buffering=0)  # noqa: SIM115 (kept open)
        except FileNotFoundError:
            return None
        try:
            index = _read_index(stream, path)
            if index["identity"] != asdict(identity):
                stream.close()
                return None
            return cls(path, index, Labels(list(index["labels"])), stream)
        except BaseException:
            stream.close()
            raise

    # ------------------------------------------------------------------------------------ reading

    def draw(self, sample: Sample) -> None:
        """Fill a sample, in a pass of its own: the same rows as `make` would have drawn."""
        for block in self.blocks():
            sample.add(block.rows, block.codes, block.weights)

    def blocks(self, order: NDArray[np.int64] | None = None) -> Iterator[StoredBlock]:
        """All blocks, as they lie in the file or in another order. The arrays of one are good until the next
        but one is asked for."""
        self.passes += 1
        numbers = range(self.n_blocks) if order is None else order.tolist()
        with read_ahead(self._read_blocks(numbers), 1) as blocks:
            yield from blocks

    def _read_blocks(self, numbers: Iterable[int]) -> Iterator[StoredBlock]:
        buffers = [bytearray() for _ in range(4)]  # at work: 2; waiting: 1; being read: 1
        for turn, number in enumerate(numbers):
            place, slot = self._places[number], turn % len(buffers)
            if len(buffers[slot]) < place.n_bytes:
                buffers[slot] = bytearray(place.n_bytes)
            yield self._read_block(number, place, self._firsts[number], buffers[slot])

    def _read_block(self, number: int, place: _Place, first: int, buffer: bytearray) -> StoredBlock:
        view = memoryview(buffer)[: place.n_bytes]
        filled = 0
        while filled < len(view):
            with errors_named(self.path):
                count = os.preadv(
                    self._stream.fileno(), [view[filled : filled + READ_BYTES]], place.start + filled
                )
            if not count:
                raise CacheFormatError(f"block {number + 1} ends too early{AGAIN}", self.path)
            filled += count
        values, indptr, *weights, columns, codes = place.arrays(view)
        if number in self._sound:
            rows = sound_rows(indptr, columns, values, self.n_features)
        else:
            if zlib.crc32(view) != place.checksum:
                raise CacheFormatError(f"block {number + 1} is damaged (wrong checksum){AGAIN}", self.path)
            unsound = CacheFormatError(f"block {number + 1} holds no sound rows{AGAIN}", self.path)
            try:
                rows = Dataset(indptr, columns, values, self.n_features)
            except ParameterError:
                raise unsound from None
            if not _within(codes, len(self.labels.found)):
                raise unsound
            self._sound.add(number)
        return StoredBlock(number, first, rows, codes, weights[0] if weights else None)


AGAIN = "; delete the file and run again"


def _within(codes: NDArray[np.int32], n: int) -> bool:
    return len(codes) == 0 or (int(codes.min()) >= 0 and int(codes.max()) < n)


def _size(rows: Dataset) -> int:
    return BYTES_PER_VALUE * rows.n_nonzeros + BYTES_PER_ROW * rows.n_rows


def _cut(rows: Dataset, block_bytes: int) -> Iterator[slice]:
    """Pieces of at most so many bytes, or of one row."""
    before = BYTES_PER_VALUE * rows.indptr + BYTES_PER_ROW * np.arange(rows.n_rows + 1)
    first = 0
    while first < rows.n_rows:
        last = int(np.searchsorted(before, before[first] + block_bytes, side="right")) - 1
        last = max(last, first + 1)
        yield slice(first, last)
        first = last


class _BlockWriter:
    """Puts rows together to blocks in one piece of memory, and writes these."""

    def __init__(self, stream: IO[bytes], start: int):
        self.stream, self.place = stream, start
        self.entries: list[tuple[int, int, int, bool, int]] = []
        self._buffer = np.empty(0, np.uint8)

    def write(self, parts: list[tuple[Dataset, NDArray[np.int32], Floats | None]]) -> None:
        """Rows, codes and weights of a block; all parts have weights or none has."""
        n_rows, n_values = (
            sum(getattr(part[0], name) for part in parts) for name in ("n_rows", "n_nonzeros")
        )
        entry = _Place(self.place, n_rows, n_values, parts[0][2] is not None, 0)
        if len(self._buffer) < entry.n_bytes:
            self._buffer = np.zeros(entry.n_bytes, np.uint8)
        self._buffer[entry.n_bytes - 8 : entry.n_bytes] = 0  # what fills up, too
        arrays = entry.arrays(self._buffer.data)
        values, indptr, *weights, columns, codes = arrays
        row = value = 0
        indptr[0] = 0
        for rows, own_codes, own_weights in parts:
            next_row, next_value = row + rows.n_rows, value + rows.n_nonzeros
            values[value:next_value], columns[value:next_value] = rows.values, rows.indices
            np.add(rows.indptr[1:], value, out=indptr[row + 1 : next_row + 1])
            codes[row:next_row] = own_codes
            if own_weights is not None:
                weights[0][row:next_row] = own_weights
            row, value = next_row, next_value
        data = self._buffer[: entry.n_bytes].data
        self.stream.write(data)
        self.entries.append((self.place, n_rows, n_values, entry.weighted, zlib.crc32(data)))
        self.place += entry.n_bytes


def _read_index(stream: IO[bytes], path: str) -> dict[str, Any]:
    """The index of a cache whose parts fit the size of the file."""
    size = os.fstat(stream.fileno()).st_size
    damaged = CacheFormatError(f"this is no whole cache of rows{AGAIN}", path)
    if size < len(MAGIC) + TAIL.size or stream.read(len(MAGIC)) != MAGIC:
        raise damaged
    stream.seek(size - TAIL.size)
    place, length, checksum, magic = TAIL.unpack(stream.read(TAIL.size))
    if magic != MAGIC or place + length + TAIL.size != size:
        raise damaged
    stream.seek(place)
    text = stream.read(length)
    if len(text) != length or zlib.crc32(text) != checksum:
        raise damaged
    try:
        index = json.loads(text)
        places = [_Place(*(int(number) for number in entry)) for entry in index["blocks"]]  # type: ignore[arg-type]
        whole = all(
            0 <= some.start <= place - some.n_bytes and min(some.n_rows, some.n_values) >= 0
            for some in places
        )
        whole = whole and sum(some.n_rows for some in places) == index["rows"] == sum(index["class_rows"])
        whole = whole and len(index["labels"]) == len(index["class_rows"]) == len(index["class_weights"])
    except (ValueError, TypeError, KeyError):
        raise damaged from None
    if not whole:
        raise damaged
    return index


@contextmanager
def errors_named(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


@contextmanager
def read_ahead(items: Iterator[Any], waiting: int) -> Iterator[Iterator[Any]]:
    """The items, made by a thread of their own, of which at most so many wait; the thread ends with the
    `with`. An exception of the thread is raised where its item would have come."""
    ready: queue.Queue[tuple[str, Any]] = queue.Queue(waiting)
    over = threading.Event()

    def put(kind: str, item: Any) -> bool:
        while not over.is_set():
            try:
                ready.put((kind, item), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def read() -> None:
        try:
            for item in items:
                if not put("item", item):
                    return
            put("end", None)
        except BaseException as error:
            put("error", error)

    def received() -> Iterator[Any]:
        while True:
            kind, item = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise item
            yield item

    thread = threading.Thread(target=read, name="odmlib read-ahead", daemon=True)
    try:
        try:
            thread.start()
            yield received()
        finally:
            over.set()
            if thread.ident is not None:
                thread.join()
    finally:
        over.set()  # where an interrupt came before the first
