"""The tasks of one run, one after the other or several at a time, within the run's threads, memory and time.

A task is admitted when a worker is free and the bytes it asks for fit beside those at work; one that asks for
everything runs alone. How much a task gets never depends on the number of threads, so that neither does its
result. Solvers work in threads of their own; the thread that called `train` waits, and is the only one that
calls the callback and sees Ctrl-C.
"""

from __future__ import annotations

import dataclasses
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from odmlib.solvers.control import STOPPED, Control, Progress, SolverResult

# a task is whatever has an `output`: a number of its own among the tasks of a run
Solve = Callable[[Any, Control, int], SolverResult]  # with so many threads
Keep = Callable[[Any, SolverResult], None]
Messages = queue.Queue[tuple[str, Any]]  # a kind, and what belongs to it

MAX_WAITING = 1000  # progress reports that may wait for a slow callback


class TaskRun:
    """Solve tasks and hand each result on, in the calling thread and in the order in which they end."""

    def __init__(self, control: Control, n_tasks: int):
        self.control, self.n_tasks = control, n_tasks
        self.ended: str | None = None  # why all tasks must come to their end now
        self.messages: Messages | None = None

    def _control(self, task: Any) -> Control:
        """The control of one task: the run's limits and clock, and the run's end when it comes early."""
        number, control = task.output + 1, self.control

        def forward(progress: Progress) -> bool:
            """From a task: pass the progress on; true if the task should stop."""
            progress = dataclasses.replace(progress, task=number, tasks=self.n_tasks)
            if self.messages is None:
                self._call_back(progress)
            elif self.ended is None:
                self.messages.put(("progress", progress))
            return self.ended is not None

        return control.part(
            max_iter=control.max_iter,
            callback=None if control.callback is None else forward,
            over=lambda: self.ended,
        )

    def _call_back(self, progress: Progress) -> None:
        if self.control.callback is not None and self.control.callback(progress) and self.ended is None:
            self.ended = STOPPED

    def run(
        self,
        tasks: Iterable[Any],
        solve: Solve,
        keep: Keep,
        *,
        threads: int,
        side_by_side: bool = True,
        budget: int = 0,
        need: Callable[[Any], int] = lambda task: 0,
    ) -> None:
        """`solve` every task: as many at a time as there are threads, unless they are not to work
        `side_by_side`, or together `need` more than `budget` bytes."""
        if threads <= 1 or not side_by_side or self.n_tasks == 1:
            for task in tasks:
                keep(task, solve(task, self._control(task), threads))
            return
        messages = self.messages = queue.Queue(MAX_WAITING)
        active: dict[int, int] = {}  # bytes of the tasks at work, by output
        waiting = iter(tasks)
        next_task, begun = next(waiting, None), 0
        try:
            while next_task is not None or active:
                while next_task is not None and len(active) < threads:
                    wanted = min(budget, need(next_task))
                    if active and sum(active.values()) + wanted > budget:
                        break
                    active[next_task.output] = wanted
                    # those that come to share the threads: as many as fit, and as are left
                    others = min(threads, self.n_tasks - begun, budget // wanted if wanted else threads)
                    share = max(1, threads // max(1, others))
                    work = messages, next_task, solve, share
                    threading.Thread(target=self._work, args=work, daemon=True).start()
                    next_task, begun = next(waiting, None), begun + 1
                self._take(messages.get(), active, keep)
        except BaseException:
            self.ended = STOPPED
            raise
        finally:
            while active:  # whatever happened: nothing of ours goes on working behind
                self._take(messages.get(), active, None)

    def _work(self, messages: Messages, task: Any, solve: Solve, threads: int) -> None:
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # seen in the objective
                result = solve(task, self._control(task), threads)
        except BaseException as error:  # raised again where the run is waited for
            messages.put(("failed", (task, error)))
        else:
            messages.put(("done", (task, result)))

    def _take(self, message: tuple[str, Any], active: dict[int, int], keep: Keep | None) -> None:
        """Act on a message of a task; without `keep` only to see the tasks off."""
        kind, content = message
        if kind == "progress":
            if keep is not None:
                self._call_back(content)
            return
        task, outcome = content
        del active[task.output]
        if keep is None:
            return
        if kind == "failed":
            raise outcome
        keep(task, outcome)
