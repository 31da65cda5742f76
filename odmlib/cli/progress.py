"""ProgressLine: one line on a terminal, rewritten while a solver works."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from odmlib.solvers.control import Progress

REFRESH_SECONDS = 0.1  # faster is not read, only flickers


class ProgressLine:
    """A callback for `Control`: shows each report on `stream` if that is a terminal, else does nothing.

    Use it as a context manager, so that the line is gone before anything else is said:

        with ProgressLine(sys.stderr) as progress:
            train(X, y, callback=progress)
    """

    def __init__(self, stream: TextIO | None, clock: Callable[[], float] = time.monotonic):
        self._stream = stream if stream is not None and stream.isatty() else None
        self._shown = 0  # characters on the line now
        self._clock, self._due = clock, 0.0

    def __call__(self, progress: Progress) -> None:
        if self._stream is not None:
            self.show(lambda: describe(progress))

    def show(self, text: Callable[[], str]) -> None:
        """Rewrite the line, unless that was just done."""
        if self._stream is not None and (now := self._clock()) >= self._due:
            self._due = now + REFRESH_SECONDS
            self._rewrite(text())

    def clear(self) -> None:
        if self._shown:
            self._rewrite("")

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def _rewrite(self, text: str) -> None:
        if self._stream is None:
            return
        text = text[: _columns(self._stream) - 1]  # a full line would wrap and scroll
        padding = " " * (self._shown - len(text))
        try:
            self._stream.write("\r" + text + padding + ("\r" if not text else ""))
            self._stream.flush()
        except OSError:  # the terminal went away: work on without it
            self._stream = None
        self._shown = len(text)


def describe(progress: Progress) -> str:
    gap = f"{progress.gap:.1e}" if math.isfinite(progress.gap) else "-"
    objective = f"{progress.primal:.6g}"
    task = f"task {progress.task} of {progress.tasks}  " if progress.tasks > 1 else ""
    task += f"{progress.stage}  " if progress.stage else ""
    return f"{task}iteration {progress.iteration}  objective {objective}  gap {gap}  {progress.seconds:.1f} s"


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
