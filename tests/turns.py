"""What tests count instead of seconds: looks at a clock, and turns of another thread."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

from odmlib.solvers.control import TIME_LIMIT

TRIES = 200


class Clock:
    """Says that the time is over when it is asked for the time after `turns`, and from then on."""

    def __init__(self, turns: int):
        self.turns, self.asked = turns, 0

    def over(self) -> str | None:
        self.asked += 1
        return TIME_LIMIT if self.asked > self.turns else None


def turns_during(call: Callable[[], object], enough: Callable[[int, float], bool]) -> tuple[int, float]:
    """Turns of another thread during a call, and the caller's processor time, in the first call with enough.

    The interpreter never takes the lock away from the caller meanwhile, so a turn is one that the call itself
    made possible: a call that keeps the lock gives none, on any machine. How many there are depends on when
    the system lets the other thread run. So the call is made again where they were too few: the last is
    returned."""
    turns, over = 0, threading.Event()

    def take_turns() -> None:
        nonlocal turns
        while not over.is_set():
            turns += 1
            time.sleep(0.0005)  # gives the lock back

    interval, thread = sys.getswitchinterval(), threading.Thread(target=take_turns)
    sys.setswitchinterval(1e6)
    thread.start()
    try:
        for _ in range(TRIES):
            before, used = turns, time.thread_time()
            call()
            found = turns - before, time.thread_time() - used
            if enough(*found):
                break
    finally:
        sys.setswitchinterval(interval)
        over.set()
        thread.join()
    return found
