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

MAX_UNHEARD = 1000  # progress reports that may wait for a slow callback


class TaskControl(Control):
    """The control of one task: the run's limits and clock, and the run's end when it comes early."""

    def __init__(self, run: TaskRun, number: int):
        control = run.control
        told = None if control.callback is None else self._tell
        super().__init__(control.tol, control.max_iter, control.time_limit, told)
        self.started = control.started
        self.run, self.number = run, number

    def _tell(self, progress: Progress) -> bool:
        return self.run.tell(dataclasses.replace(progress, task=self.number, tasks=self.run.n_tasks))

    def out_of_time(self) -> str | None:
        return self.run.ended or self.run.control.out_of_time()


class TaskRun:
    """Solve tasks and hand each result on, in the calling thread and in the order in which they end."""

    def __init__(self, control: Control, n_tasks: int):
        self.control, self.n_tasks = control, n_tasks
        self.ended: str | None = None  # why all tasks must come to their end now
        self.messages: queue.Queue[tuple[str, Any]] | None = None

    def tell(self, progress: Progress) -> bool:
        """From a task: pass the progress on; true if it should stop."""
        if self.messages is None:
            self._hear(progress)
        elif self.ended is None:
            self.messages.put(("progress", progress))
        return self.ended is not None

    def _hear(self, progress: Progress) -> None:
        assert self.control.callback is not None
        if self.control.callback(progress) and self.ended is None:
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
                keep(task, solve(task, TaskControl(self, task.output + 1), threads))
            return
        self.messages = queue.Queue(MAX_UNHEARD)
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
                    work = threading.Thread(target=self._work, args=(next_task, solve, share), daemon=True)
                    work.start()
                    next_task, begun = next(waiting, None), begun + 1
                self._take(active, keep)
        except BaseException:
            self.ended = STOPPED
            raise
        finally:
            while active:  # whatever happened: nothing of ours goes on working behind
                self._take(active, None)

    def _work(self, task: Any, solve: Solve, threads: int) -> None:
        assert self.messages is not None
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # seen in the objective
                result = solve(task, TaskControl(self, task.output + 1), threads)
        except BaseException as error:  # raised again where the run is waited for
            self.messages.put(("failed", (task, error)))
        else:
            self.messages.put(("done", (task, result)))

    def _take(self, active: dict[int, int], keep: Keep | None) -> None:
        """Wait for one message; without `keep` only to see the tasks off."""
        assert self.messages is not None
        kind, content = self.messages.get()
        if kind == "progress":
            if keep is not None:
                self._hear(content)
            return
        task, outcome = content
        del active[task.output]
        if keep is None:
            return
        if kind == "failed":
            raise outcome
        keep(task, outcome)
