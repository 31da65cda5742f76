"""TaskRun: who works when, with how much, and how it ends."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from odmlib.machines.machine import Task
from odmlib.solvers.control import CONVERGED, STOPPED, Control, SolverResult
from odmlib.solvers.running import TaskRun


def tasks(n):
    return [Task(output, (output, None), np.ones(1), np.ones(1)) for output in range(n)]


def done(task):
    return SolverResult(CONVERGED, 0.0, 0.0, 0.0, task.output, "none")


class Book:
    """Solves nothing, and notes who was at work together. No task ends before `together` have met."""

    def __init__(self, sizes, together=1):
        self.sizes, self.together, self.met = sizes, together, threading.Event()
        self.lock, self.active, self.most, self.most_bytes = threading.Lock(), set(), 0, 0
        self.shares, self.kept = {}, {}

    def solve(self, task, control, threads):
        with self.lock:
            self.active.add(task.output)
            self.shares[task.output] = threads
            self.most = max(self.most, len(self.active))
            self.most_bytes = max(self.most_bytes, sum(self.sizes[output] for output in self.active))
            if self.most >= self.together:
                self.met.set()
        assert self.met.wait(300)
        with self.lock:
            self.active.remove(task.output)
        return done(task)

    def keep(self, task, result):
        assert threading.current_thread() is threading.main_thread()
        assert task.output == result.iterations
        self.kept[task.output] = result

    def run(self, threads, budget, **details):
        n = len(self.sizes)
        TaskRun(Control(), n).run(
            tasks(n), self.solve, self.keep, threads=threads, budget=budget,
            need=lambda task: self.sizes[task.output], **details,
        )  # fmt: skip
        assert sorted(self.kept) == list(range(n))
        assert not self.active


def test_small_tasks_fill_the_threads():
    book = Book([1] * 12, together=3)
    book.run(threads=3, budget=100)
    assert book.most == 3
    assert [book.shares[output] for output in (0, 5)] == [1, 1]
    assert book.shares[11] == 3  # the last one has them all


def test_memory_is_never_exceeded():
    sizes = np.random.default_rng(0).integers(1, 60, size=40).tolist()
    book = Book(sizes, together=2)
    book.run(threads=8, budget=100)
    assert book.most_bytes <= 100
    assert book.most > 1


def test_a_task_that_wants_everything_runs_alone_with_all_threads():
    book = Book([500, 10, 10, 10, 10])
    book.run(threads=2, budget=100)
    assert book.shares[0] == 2
    assert book.shares[1] == 1
    assert book.most_bytes in (500, 20)


def test_one_after_the_other_where_asked():
    book = Book([0] * 5)
    book.run(threads=4, budget=0, side_by_side=False)
    assert book.most == 1
    assert set(book.shares.values()) == {4}


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, MemoryError])
def test_an_error_ends_the_others_and_comes_out(kind):
    seen = []

    def solve(task, control, threads):
        if task.output == 2:
            raise kind("of task 2")
        while control.out_of_time() is None:
            time.sleep(0.001)
            if task.output < 2:
                break
        seen.append((task.output, control.out_of_time()))
        return done(task)

    with pytest.raises(kind, match="of task 2"):
        TaskRun(Control(), 50).run(tasks(50), solve, lambda task, result: None, threads=3)
    assert len(seen) <= 5  # the rest was never begun
    assert {status for output, status in seen if output > 2} <= {STOPPED}


def test_nothing_works_on_after_an_interrupt():
    """An exception in the waiting thread, as Ctrl-C makes one, waits for the tasks to see it."""
    ended = []

    def solve(task, control, threads):
        control.step(0, 1.0, 1.0, 10)
        while control.out_of_time() is None:
            time.sleep(0.001)
        ended.append(task.output)
        return done(task)

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TaskRun(Control(callback=interrupt), 9).run(tasks(9), solve, lambda task, result: None, threads=3)
    assert 1 <= len(ended) <= 3
