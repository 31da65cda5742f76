"""Trace: how a run went, as a callback that remembers; for reports and pictures of convergence."""

from __future__ import annotations

from typing import Any

from odmlib.solvers.control import Progress

MOST_POINTS = 512  # kept of a run; beyond, every second one is dropped
MOST_TASKS = 64  # whose last points are all kept; of more only the very last


class Trace:
    """A callback for `train`: keeps some hundred of its points, evenly spread, and the last of each task.

    >>> import numpy as np, odmlib
    >>> from odmlib.solvers.trace import Trace
    >>> trace = Trace()
    >>> model = odmlib.train(np.array([[1.0], [-1.0]]), [1, 0], kernel="linear", callback=trace)
    >>> trace.points()[-1]["gap"] <= 1e-3
    True
    """

    def __init__(self, also: Any = None):
        self._also = also  # another callback to call
        self._kept: list[Progress] = []
        self._last: dict[int, Progress] = {}  # of every task
        self._stride = 1
        self._count = 0

    def __call__(self, progress: Progress) -> object:
        if self._count % self._stride == 0:
            self._kept.append(progress)
            if len(self._kept) > MOST_POINTS:
                del self._kept[1::2]
                self._stride *= 2
        self._count += 1
        self._last[progress.task if progress.tasks <= MOST_TASKS else 0] = progress
        return None if self._also is None else self._also(progress)

    def points(self) -> list[dict[str, Any]]:
        """The points by time: seconds, iteration, primal, gap; and the task where there are several."""
        kept = {id(progress): progress for progress in [*self._kept, *self._last.values()]}
        several = any(progress.tasks > 1 for progress in kept.values())
        points = []
        for progress in sorted(kept.values(), key=lambda progress: (progress.seconds, progress.iteration)):
            point: dict[str, Any] = {"task": progress.task} if several else {}
            names = ("seconds", "iteration", "primal", "gap")
            points.append(point | {name: getattr(progress, name) for name in names})
        return points
