"""Python objects that lie in a DataFrame, and what tasks make of them, by `DataFrame.mapInArrow` alone.

So everything here runs on a classic session and on Spark Connect. An object is pickled and cut into rows of
some bytes, because neither an Arrow batch nor a row of Java may grow beyond 2 GB. Every object has a number.
Whatever order tasks end in, objects are collected, added and grouped by ascending number: a task that fails
and runs again changes not a bit of the result.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from odmlib._core.arrays import Floats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Pairs = Iterator[tuple[int, Any]]  # (number, object)
Step = Callable[[Iterable[tuple[int, Any]]], Pairs]
Reader = Callable[[Iterable[Any]], Pairs]  # of Arrow batches

NUMBERS_OF_PARTITION = 1 << 20  # objects of partition p are numbered from p times this on
PIECE_BYTES = 1 << 17  # Spark makes Arrow batches of 10,000 rows, and a column of one must stay below 2 GB
PIECES_AT_ONCE = 512
SCHEMA = "key long, number long, piece long, pieces long, data binary"
NOTE, PLACE = -1, -2  # the keys of a note, and of the one row that every partition has


class Spread:
    """Objects in the partitions of a DataFrame, and steps that are still to be done on them."""

    def __init__(self, frame: DataFrame, read: Reader, steps: tuple[Step, ...] = ()):
        self.frame, self.read, self.steps = frame, read, steps

    @classmethod
    def of_tasks(cls, session: SparkSession, n_tasks: int, make: Callable[[int], Pairs]) -> Spread:
        """What `make` gives for 0, 1, ..., each in a partition of its own."""
        return cls(session.range(0, n_tasks, 1, n_tasks), partial(_of_tasks, make))

    def through(self, step: Step) -> Spread:
        """A step on all objects of a partition; done when the result is asked for."""
        return Spread(self.frame, self.read, (*self.steps, step))

    def map(self, make: Callable[[Any], Any]) -> Spread:
        """The same numbers with other objects."""
        return self.through(partial(_mapped, make))

    def ready(self) -> Spread:
        """The same where steps are done again for every use; a team of tasks (barrier.py) does them now."""
        return self

    def grouped(
        self, n_groups: int, group_of: Callable[[int, Any], int], make: Callable[[int, list[Any]], Any]
    ) -> Spread:
        """Objects of a group come together in one task; what `make` gives has the group as its number."""
        frame = self._written(group_of)
        frame = evenly(frame, n_groups, frame.key)
        return Spread(frame, partial(_of_groups, make))

    def kept(self) -> Kept:
        """The objects where they were made, in memory and on disk; of pairs (object, note)."""
        from pyspark import StorageLevel

        frame = self.frame.mapInArrow(partial(_kept, self.read, self.steps), SCHEMA)
        return Kept(frame.persist(StorageLevel.MEMORY_AND_DISK))

    def collect(self) -> list[tuple[int, Any]]:
        """By ascending number."""
        return assembled(self._written(_no_group).collect())

    def of_one(self, number: int) -> Any:
        """What the steps make of one object alone; only a team of tasks (barrier.py) has no need of a job."""
        raise NotImplementedError

    def _written(self, group_of: Callable[[int, Any], int]) -> DataFrame:
        return self.frame.mapInArrow(partial(_work, self.read, self.steps, group_of), SCHEMA)


class Kept:
    """Objects that are used more than once, with a small note of each that can be read without it."""

    def __init__(self, frame: DataFrame):
        self.frame = frame

    @property
    def objects(self) -> Spread:
        return Spread(self.frame.filter("key >= 0"), _unpacked)

    def notes(self) -> list[tuple[int, Any]]:
        return Spread(self.frame.filter(f"key = {NOTE}"), _unpacked).collect()

    def n_partitions(self) -> int:
        """Of the frame, the empty ones too."""
        return self.frame.filter(f"key = {PLACE}").count()

    def release(self) -> None:
        self.frame.unpersist()


def evenly(frame: DataFrame, n: int, group: Any) -> DataFrame:
    """In n partitions, each with the rows of one of the groups 0, 1, ..., n - 1 (a column)."""
    from pyspark.sql import functions as F

    values = F.expr(f"array({', '.join(f'{value}L' for value in _dealt_values(n, frame.sparkSession))})")
    return frame.repartition(n, values[group.cast("int")])


_VALUES: dict[int, list[int]] = {}


def _dealt_values(n: int, session: SparkSession) -> list[int]:
    """Spark deals rows by the hash of a value; these are values that it deals to partitions 0, 1, ..."""
    from pyspark.sql import functions as F

    if n not in _VALUES:
        found = session.range(64 * n).select("id", F.expr(f"pmod(hash(id), {n})").alias("place")).collect()
        of_place = {row.place: row.id for row in found}
        _VALUES[n] = [of_place.get(place, place) for place in range(n)]
    return _VALUES[n]


# ---------------------------------------------------------------------------------------- in the tasks


def first_number() -> int:
    """Of the objects that this task makes."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return (0 if context is None else context.partitionId()) * NUMBERS_OF_PARTITION


def n_cores(session: SparkSession) -> int:
    """How many tasks Spark runs at a time, as it tells without a SparkContext."""
    from pyspark.sql import functions as F

    return session.range(1 << 16).select(F.spark_partition_id()).distinct().count()


def task_threads() -> int:
    """The cores of a task; sums do not depend on their number."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 1 if context is None else max(1, int(context.cpus()))


def _pairs(read: Reader, steps: tuple[Step, ...], batches: Iterable[Any]) -> Pairs:
    pairs = read(batches)
    for step in steps:
        pairs = step(pairs)
    return pairs


def _work(
    read: Reader, steps: tuple[Step, ...], group_of: Callable[[int, Any], int], batches: Iterable[Any]
) -> Iterator[Any]:
    for number, one in _pairs(read, steps, batches):
        yield from pack(group_of(number, one), number, one)


def _kept(read: Reader, steps: tuple[Step, ...], batches: Iterable[Any]) -> Iterator[Any]:
    yield from pack(PLACE, -1 - first_number(), None)
    for number, (one, note) in _pairs(read, steps, batches):
        yield from pack(0, number, one)
        yield from pack(NOTE, number, note)


def _no_group(number: int, one: Any) -> int:
    return 0


def _mapped(make: Callable[[Any], Any], pairs: Iterable[tuple[int, Any]]) -> Pairs:
    for number, one in pairs:
        yield number, make(one)


def _of_tasks(make: Callable[[int], Pairs], batches: Iterable[Any]) -> Pairs:
    for batch in batches:
        for task in batch.column(0).to_pylist():
            yield from make(task)


def _of_groups(make: Callable[[int, list[Any]], Any], batches: Iterable[Any]) -> Pairs:
    groups: dict[int, list[tuple[int, Any]]] = {}
    for (key, number), one in objects_of(batches):
        groups.setdefault(key, []).append((number, one))
    for key in sorted(groups):
        some = sorted(groups.pop(key), key=lambda pair: pair[0])
        yield key, make(key, [one for _, one in some])


def pack(key: int, number: int, one: Any) -> Iterator[Any]:
    """Arrow batches of the pieces of an object."""
    import pyarrow

    data = memoryview(pickle.dumps(one, protocol=5))
    n_pieces = math.ceil(len(data) / PIECE_BYTES)
    for first in range(0, n_pieces, PIECES_AT_ONCE):
        some = data[first * PIECE_BYTES : (first + PIECES_AT_ONCE) * PIECE_BYTES]
        n = math.ceil(len(some) / PIECE_BYTES)
        ends = np.minimum(np.arange(n + 1, dtype=np.int32) * PIECE_BYTES, len(some)).astype(np.int32)
        buffers = [None, pyarrow.py_buffer(ends), pyarrow.py_buffer(some)]
        columns = [np.full(n, key), np.full(n, number), np.arange(first, first + n), np.full(n, n_pieces)]
        arrays = [pyarrow.array(column.astype(np.int64)) for column in columns]
        arrays.append(pyarrow.Array.from_buffers(pyarrow.binary(), n, buffers))
        yield pyarrow.RecordBatch.from_arrays(arrays, ["key", "number", "piece", "pieces", "data"])


def _unpacked(batches: Iterable[Any]) -> Pairs:
    for (_, number), one in objects_of(batches):
        yield number, one


def objects_of(batches: Iterable[Any]) -> Iterator[tuple[tuple[int, int], Any]]:
    """((key, number), object) of all objects, each once its last piece is there."""
    waiting: dict[tuple[int, int], dict[int, Any]] = {}
    for batch in batches:
        columns = [batch.column(k).to_pylist() for k in range(4)]
        data = batch.column(4)
        for place, (key, number, piece, pieces) in enumerate(zip(*columns, strict=True)):
            name = key, number
            found = waiting.setdefault(name, {})
            found[piece] = data[place].as_buffer()
            if len(found) == pieces:
                yield name, _whole(waiting.pop(name))


def assembled(rows: Iterable[Any]) -> list[tuple[int, Any]]:
    """Of rows that were collected, by ascending number."""
    waiting: dict[int, dict[int, Any]] = {}
    found = []
    for row in rows:
        pieces = waiting.setdefault(row.number, {})
        pieces[row.piece] = row.data
        if len(pieces) == row.pieces:
            found.append((row.number, _whole(waiting.pop(row.number))))
    return sorted(found, key=lambda pair: pair[0])


def _whole(pieces: dict[int, Any]) -> Any:
    return pickle.loads(b"".join(pieces[k] for k in range(len(pieces))))


# ---------------------------------------------------------------------------------------- sums


def tree_sum(parts: Spread, numbers: Sequence[int], depth: int) -> Floats:
    """The sum of vectors, always in the same order: a tree of `depth` levels in which every node adds its
    parts by ascending number. `numbers`: all that there may be, ascending."""
    n = len(numbers)
    fan_in = max(2, math.ceil(n ** (1 / depth)))
    parts = parts.through(_folded)
    places = {number: place for place, number in enumerate(numbers)}
    while n > fan_in + math.ceil(n / fan_in):
        n = math.ceil(n / fan_in)
        parts = parts.grouped(n, partial(_node, places, fan_in), _sum_of)
        places = {number: number for number in range(n)}
    total = added(parts.collect())
    assert total is not None
    return total


def _node(places: dict[int, int], fan_in: int, number: int, one: Any) -> int:
    return places[number] // fan_in


def _sum_of(key: int, vectors: list[Floats]) -> Floats | None:
    return added(enumerate(vectors))


def _folded(pairs: Iterable[tuple[int, Any]]) -> Pairs:
    """One sum for all vectors of a partition, numbered as its first one; a task may have several."""
    partitions: dict[int, list[tuple[int, Any]]] = {}
    for number, one in pairs:
        partitions.setdefault(number // NUMBERS_OF_PARTITION, []).append((number, one))
    for some in partitions.values():
        yield min(number for number, _ in some), added(some)


def added(parts: Iterable[tuple[int, Floats | None]]) -> Floats | None:
    """None: no parts."""
    total = None
    for _, part in sorted(parts, key=lambda part: part[0]):
        if part is not None:
            total = part if total is None else total + part
    return total
