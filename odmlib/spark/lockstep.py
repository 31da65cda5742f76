"""Several solvers side by side, whose requests are answered together: one pass over the rows for all classes.

Each solver runs in a thread and asks as if it were alone. Once all that still run have asked, the caller's
thread answers all of them at once, so a Ctrl-C reaches it as ever. What a solver is answered depends on its
own requests only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

Answer = Callable[[list[Any]], list[Any]]
Ask = Callable[[Any], Any]


class _Cancelled(BaseException):
    """Ends a solver that nobody will answer."""


class _Lockstep:
    def __init__(self, n: int):
        self.turn = threading.Condition()
        self.running, self.over = n, False
        self.asked: dict[int, Any] = {}
        self.answers: dict[int, Any] = {}

    def ask(self, number: int, request: Any) -> Any:
        with self.turn:
            self.asked[number] = request
            self.turn.notify_all()
            while number not in self.answers:
                if self.over:
                    raise _Cancelled
                self.turn.wait()
            return self.answers.pop(number)

    def leave(self) -> None:
        with self.turn:
            self.running -= 1
            self.turn.notify_all()


def side_by_side(solvers: list[Callable[[Ask], Any]], answer: Answer) -> list[Any]:
    """What the solvers return; each gets a function that has a request answered."""
    steps = _Lockstep(len(solvers))
    found: dict[int, Any] = {}
    faults: dict[int, BaseException] = {}

    def run(number: int) -> None:
        try:
            found[number] = solvers[number](lambda request: steps.ask(number, request))
        except _Cancelled:
            pass
        except BaseException as error:
            faults[number] = error
        finally:
            steps.leave()

    for number in range(len(solvers)):
        threading.Thread(target=run, args=(number,), daemon=True).start()
    try:
        while True:
            with steps.turn:
                while len(steps.asked) < steps.running:
                    steps.turn.wait()
                if not steps.running or faults:
                    break
                requests = sorted(steps.asked.items())
                steps.asked.clear()
            answers = answer([request for _, request in requests])
            with steps.turn:
                steps.answers |= {number: one for (number, _), one in zip(requests, answers, strict=True)}
                steps.turn.notify_all()
    finally:
        with steps.turn:
            steps.over = True
            steps.turn.notify_all()
    for number in sorted(faults):
        raise faults[number]
    return [found[number] for number in range(len(solvers))]
