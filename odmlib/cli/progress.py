"""ProgressLine: one line on a terminal, rewritten while a solver works; in a file a line every 10 s."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from odmlib.solvers.control import Progress

REFRESH_SECONDS = 0.1  # faster is not read, only flickers
LOG_SECONDS = 10.0  # where lines stay: in a log file, a notebook, a batch system


class ProgressLine:
    """A callback for `Control`: shows each report on `stream`, rewriting one line if that is a terminal, else
    a line every ten seconds, so that a long run is seen to work.

    Use it as a context manager, so that the line is gone before anything else is said:

        with ProgressLine(sys.stderr) as progress:
            train(X, y, callback=progress)
    """

    def __init__(self, stream: TextIO | None, program: str = "", clock: Callable[[], float] = time.monotonic):
        self._stream, self._clock = stream, clock
        self._start = f"{program}: " if program else ""
        self._rewrites = stream is not None and stream.isatty()
        self._shown = 0  # characters on the line now
        self._due = 0.0 if self._rewrites else clock() + LOG_SECONDS

    def __call__(self, progress: Progress) -> None:
        self.show(lambda: describe(progress))

    def show(self, text: Callable[[], str]) -> None:
        """Write the line, unless that was just done."""
        if self._stream is None or (now := self._clock()) < self._due:
            return
        self._due = now + (REFRESH_SECONDS if self._rewrites else LOG_SECONDS)
        if self._rewrites:
            self._rewrite(text())
        else:
            self._write(f"{self._start}{text()}\n")

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
        self._write("\r" + text + padding + ("\r" if not text else ""))
        self._shown = len(text)

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the terminal went away: work on without it
            self._stream = None


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
