"""One barrier stage in which all tasks stay until training ends: engine="barrier".

Every task gets its objects once and keeps them. The first task runs what the driver would run; it has a
`Spread` (engine.py) whose steps go to the other tasks over sockets (sockets.py), and whose answers come back
that way. So a round costs some milliseconds instead of a job of Spark, the solvers are the same, and sums are
added in the same order, hence to the same bits. Spark starts the whole stage again if it loses a task.
"""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from odmlib.errors import OdmError
from odmlib.spark.engine import (
    NUMBERS_OF_PARTITION,
    PLACE,
    SCHEMA,
    Kept,
    Spread,
    Step,
    assembled,
    evenly,
    n_cores,
    objects_of,
    pack,
)
from odmlib.spark.messages import reason
from odmlib.spark.sockets import Channel, Door, knock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Main = Callable[[Spread], Any]

ECHO_SECONDS = 1.0
GIVEN = 0  # the objects that a task was given; others are kept under higher numbers


def together(blocks: Spread, main: Main) -> Any:
    """What `main` returns for the pairs (object, note) of `blocks`, from the first task of a barrier stage.

    It runs beside the objects: its argument is a Spread that `main` cannot tell from one of jobs. OdmError is
    raised here as there; any other fault ends as one line.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    kept = blocks.kept()
    try:
        n_partitions = kept.n_partitions()  # makes the objects, in the usual kind of stage
        n_slots = slots(kept.frame)
        frame = kept.frame if n_partitions <= n_slots else _dealt(kept, n_slots)
        try:
            found = frame.mapInArrow(partial(_member, main), SCHEMA, True)
            rows = found.repartition(1).collect()  # Spark restarts a barrier stage only if another follows
        except (Py4JError, PySparkException) as error:
            raise OdmError(f'engine "barrier": {reason(str(error)) or type(error).__name__}') from error
    finally:
        kept.release()
    ((_, (answer, fault)),) = assembled(rows)
    if fault is not None:
        raise fault
    return answer


def slots(frame: DataFrame) -> int:
    """How many tasks can run at a time."""
    session = frame.sparkSession
    return max(1, n_cores(session) // int(session.conf.get("spark.task.cpus", "1") or 1))


def _dealt(kept: Kept, n: int) -> DataFrame:
    """The same rows in n partitions of about as many of the old ones each, which stay whole."""
    from pyspark.sql import functions as F

    return evenly(kept.frame.filter(f"key <> {PLACE}"), n, F.expr(f"number div {NUMBERS_OF_PARTITION} % {n}"))


# ---------------------------------------------------------------------------------------- in the tasks


class Store:
    """What one task holds."""

    def __init__(self, given: list[tuple[int, Any]]):
        self.objects = {GIVEN: given}

    def answer(
        self, source: int, steps: tuple[Step, ...], keep_as: int | None = None, only: int | None = None
    ) -> list[tuple[int, Any]]:
        """What the steps make of the objects, or of one; of pairs to be kept under a number, the notes."""
        pairs: Any = iter(pair for pair in self.objects[source] if only is None or pair[0] == only)
        for step in steps:
            pairs = step(pairs)
        found = list(pairs)
        if keep_as is None:
            return found
        self.objects[keep_as] = [(number, one) for number, (one, _) in found]
        return [(number, note) for number, (_, note) in found]


class Team:
    """All tasks, as the first one sees them."""

    def __init__(self, store: Store, channels: list[Channel]):
        self.store, self.channels = store, channels
        self.n_kept = 0
        self.holders: dict[int, Channel | None] = {}  # of objects, by their numbers; None: this task

    def ask(self, source: int, steps: tuple[Step, ...], keep_as: int | None = None) -> list[tuple[int, Any]]:
        """Answers of all tasks, by ascending number."""
        from pyspark import cloudpickle

        message = cloudpickle.dumps((source, steps, keep_as), protocol=5)
        for channel in self.channels:
            channel.send_bytes(message)
        found = self.store.answer(source, steps, keep_as)
        for channel in self.channels:
            answer = _answer_of(channel)
            self.holders |= {number: channel for number, _ in answer}
            found += answer
        return sorted(found, key=lambda pair: pair[0])

    def ask_one(self, source: int, steps: tuple[Step, ...], number: int) -> Any:
        """What the steps make of one object that was heard of before."""
        from pyspark import cloudpickle

        channel = self.holders.get(number)
        if channel is None:
            ((_, found),) = self.store.answer(source, steps, only=number)
            return found
        channel.send_bytes(cloudpickle.dumps((source, steps, None, number), protocol=5))
        ((_, found),) = _answer_of(channel)
        return found

    def keep(self, source: int, steps: tuple[Step, ...]) -> tuple[int, list[tuple[int, Any]]]:
        """Where the objects are kept, and their notes."""
        self.n_kept += 1
        return self.n_kept, self.ask(source, steps, self.n_kept)

    def release(self, source: int) -> None:
        self.ask(source, (_nothing,), source)

    def end(self) -> None:
        for channel in self.channels:
            channel.send(None)


def _answer_of(channel: Channel) -> list[tuple[int, Any]]:
    answer, fault = channel.receive()
    if fault:
        raise RuntimeError(fault)
    return answer


class TeamSpread(Spread):
    """Objects that the tasks hold, and steps that are still to be done on them."""

    def __init__(self, team: Team, source: int = GIVEN, steps: tuple[Step, ...] = ()):
        self.team, self.source, self.steps = team, source, steps

    def through(self, step: Step) -> Spread:
        return TeamSpread(self.team, self.source, (*self.steps, step))

    def ready(self) -> Spread:
        return self.through(_noted).kept().objects

    def grouped(
        self, n_groups: int, group_of: Callable[[int, Any], int], make: Callable[[int, list[Any]], Any]
    ) -> Spread:
        return Here(self.collect()).grouped(n_groups, group_of, make)

    def kept(self) -> Kept:
        return TeamKept(self.team, *self.team.keep(self.source, self.steps))

    def collect(self) -> list[tuple[int, Any]]:
        return self.team.ask(self.source, self.steps)

    def of_one(self, number: int) -> Any:
        return self.team.ask_one(self.source, self.steps, number)


class TeamKept(Kept):
    """Objects that the tasks hold under a number."""

    def __init__(self, team: Team, source: int, notes: list[tuple[int, Any]]):
        self.team, self.source, self._notes = team, source, notes

    @property
    def objects(self) -> Spread:
        return TeamSpread(self.team, self.source)

    def notes(self) -> list[tuple[int, Any]]:
        return self._notes

    def release(self) -> None:
        self.team.release(self.source)


class Here(Spread):
    """Objects in the first task: sums of a tree, and what one task does for all."""

    def __init__(self, pairs: list[tuple[int, Any]], steps: tuple[Step, ...] = ()):
        self.pairs, self.steps = pairs, steps

    def through(self, step: Step) -> Spread:
        return Here(self.pairs, (*self.steps, step))

    def grouped(
        self, n_groups: int, group_of: Callable[[int, Any], int], make: Callable[[int, list[Any]], Any]
    ) -> Spread:
        groups: dict[int, list[Any]] = {}
        for number, one in self.collect():
            groups.setdefault(group_of(number, one), []).append(one)
        return Here([(key, make(key, groups[key])) for key in sorted(groups)])

    def collect(self) -> list[tuple[int, Any]]:
        pairs: Any = iter(self.pairs)
        for step in self.steps:
            pairs = step(pairs)
        return sorted(pairs, key=lambda pair: pair[0])


def _nothing(pairs: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    return iter(())


def _noted(pairs: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Objects with a note that says nothing."""
    for number, one in pairs:
        yield number, (one, None)


def _member(main: Main, batches: Iterable[Any]) -> Iterator[Any]:
    """One task from its beginning to its end; the first one yields what `main` returns."""
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    meeting = _Later(partial(_meet, context))  # Spark takes a second for it
    objects: dict[int, list[Any]] = {}
    for (key, number), one in objects_of(batches):
        objects.setdefault(number, [None, None])[key < 0] = one
    store = Store([(number, (one, note)) for number, (one, note) in sorted(objects.items()) if number >= 0])
    objects.clear()
    channels = meeting.result()
    try:
        if context.partitionId() > 0:
            _serve(store, channels[0])
        else:
            yield from pack(0, 0, _lead(main, Team(store, channels)))
    finally:
        for channel in channels:
            channel.close()


def _lead(main: Main, team: Team) -> tuple[Any, OdmError | None]:
    found: tuple[Any, OdmError | None]
    try:
        found = main(TeamSpread(team)), None
    except OdmError as error:
        found = None, error  # an exception would have Spark try again
    team.end()
    return found


def _serve(store: Store, first: Channel) -> None:
    """Answer until the first task ends it."""
    fault: BaseException | None = None
    try:
        while (asked := first.receive()) is not None:
            try:
                answer = store.answer(*asked), ""
            except BaseException as error:
                fault = error
                answer = [], "".join(traceback.format_exception_only(error)).strip()
            first.send(answer)
            if fault is not None:
                break
    except OSError:
        if fault is None:
            # The first task has failed, and Spark tells of the failure that it hears of first. A task must
            # not end without one: with half of a barrier stage done, Spark may wait for ever.
            time.sleep(ECHO_SECONDS)
            raise
    if fault is not None:
        raise fault


def _meet(context: Any) -> list[Channel]:
    """The first task's ways to the others in their order; theirs to the first."""
    number, tasks = context.partitionId(), context.getTaskInfos()
    if number > 0:
        host, port, secret = context.allGather("")[0].rsplit(" ", 2)
        return [knock((host, int(port)), bytes.fromhex(secret), number)]
    host = tasks[0].address.rpartition(":")[0].strip("[]")
    door = Door(host)
    try:
        context.allGather(f"{host} {door.address[1]} {door.secret.hex()}")
        return door.channels(len(tasks) - 1)
    finally:
        door.close()


class _Later:
    """A call in a thread of its own, which does not keep the process from ending."""

    def __init__(self, call: Callable[[], Any]):
        self._found: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue()
        threading.Thread(target=self._run, args=(call,), daemon=True).start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self._found.put((call(), None))
        except BaseException as error:
            self._found.put((None, error))

    def result(self) -> Any:
        found, error = self._found.get()
        if error is not None:
            raise error
        return found
