"""The real sets kept beside the project, for tests that want them; absent: the test is skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from odmlib.data.reading import read_data

FOLDER = Path(__file__).resolve().parent.parent.parent / "shared" / "data"


def real_path(name: str) -> Path:
    for suffix in (".libsvm", ".libsvm.xz"):
        path = FOLDER / (name + suffix)
        if path.exists():
            return path
    pytest.skip(f"the real set {name} is not in {FOLDER.parent.name}/{FOLDER.name} beside the project")


def real_set(name: str):
    """(X, y) of a real set."""
    return read_data(real_path(name))
