"""RowParts: all rows of a source, part by part and as often as wanted; memory does not grow with a file.

What is read first is kept while it is small. Beyond that, a file is read again each time. A pipe cannot be
read again, so its rows are kept, however many they are.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from odmlib._core.arrays import Floats
from odmlib.data.dataset import Dataset
from odmlib.data.reading import read_parts
from odmlib.errors import DataFormatError

Part = tuple[Dataset, Floats]  # rows with labels

KEPT_BYTES = 64 << 20  # reading a file of up to about twice this size again would cost more than it saves


class RowParts:
    """Iterate over it: (rows, labels) of each part, the same parts every time."""

    def __init__(
        self,
        path: str,
        zero_based: bool = False,
        threads: int | None = None,
        *,
        kept_bytes: int = KEPT_BYTES,
        part_bytes: int | None = None,  # of text
    ):
        self.path, self.zero_based, self.threads, self.part_bytes = path, zero_based, threads, part_bytes
        self._kept: list[Part] | None = None  # all parts, once they are known
        self._identity = _identity(path)
        self._most = kept_bytes if self._identity is not None else None

    @classmethod
    def of(cls, rows: Dataset, labels: Floats) -> RowParts:
        """Rows that are in memory."""
        parts = cls("-")  # which is not read, because its rows are known
        parts._kept = [(rows, labels)]
        return parts

    def __iter__(self) -> Iterator[Part]:
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[Part] | None = [] if self._most is None or self._most > 0 else None
        n_bytes = 0
        sizes = {} if self.part_bytes is None else {"most_bytes": self.part_bytes}
        for rows, labels in read_parts(self.path, self.zero_based, self.threads, **sizes):
            n_bytes += 12 * rows.n_nonzeros + 16 * rows.n_rows
            if self._most is not None and n_bytes > self._most:
                kept, self._most = None, 0
            if kept is not None:
                kept.append((rows, labels))
            yield rows, labels
        if self._identity is not None and _identity(self.path) != self._identity:
            raise DataFormatError("the file was changed while it was read", self.path)
        self._kept = kept


def _identity(path: str) -> tuple[int, ...] | None:
    """What tells whether a file is still the same; None for what cannot be read again."""
    if path == "-":
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None  # the reader will say so
    if not stat.S_ISREG(found.st_mode):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
