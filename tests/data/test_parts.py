"""RowParts: the same parts every time, in bounded memory, and never of a file that changed."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from odmlib.data import parts as module
from odmlib.data.dataset import Dataset
from odmlib.data.parts import RowParts
from odmlib.data.writing import write_data
from odmlib.errors import DataFormatError


@pytest.fixture
def file(tmp_path):
    generator = np.random.default_rng(0)
    write_data(tmp_path / "data", generator.random((3000, 20)).round(3), np.arange(3000))
    return str(tmp_path / "data")


def reads(monkeypatch):
    """How often the reader was called, as a list that grows."""
    seen, read = [], module.read_parts

    def counted(path, *args, **kwargs):
        seen.append(path)
        return read(path, *args, **kwargs)

    monkeypatch.setattr(module, "read_parts", counted)
    return seen


@pytest.mark.parametrize(("kept", "expected"), [(1 << 30, 1), (100_000, 3), (0, 3)])
def test_small_files_are_read_once_and_others_each_time(file, monkeypatch, kept, expected):
    seen = reads(monkeypatch)
    source = RowParts(file, kept_bytes=kept, part_bytes=1 << 15)
    found = [[(rows.to_dense().tolist(), labels.tolist()) for rows, labels in source] for _ in range(3)]
    assert len(found[0]) > 3
    assert sum(len(labels) for _, labels in found[0]) == 3000
    assert found[0] == found[1] == found[2]
    assert len(seen) == expected


def test_a_pipe_is_kept(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    text = "".join(f"{row} 1:{row + 1}\n" for row in range(5000))
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(text,))
    writer.start()
    seen = reads(monkeypatch)
    source = RowParts(str(tmp_path / "pipe"), kept_bytes=0, part_bytes=1 << 12)
    for _ in range(2):
        assert sum(rows.n_rows for rows, _ in source) == 5000
    assert len(seen) == 1
    writer.join()


def test_a_file_that_changes_is_refused(file):
    source = RowParts(file, kept_bytes=0)
    assert sum(rows.n_rows for rows, _ in source) == 3000
    with open(file, "a") as stream:
        stream.write("1 1:1\n")
    with pytest.raises(DataFormatError, match="data: the file was changed while it was read"):
        list(source)


def test_rows_in_memory():
    rows, labels = Dataset.from_any([[1.0, 2.0]]), np.array([1.0])
    for _ in range(2):
        assert list(RowParts.of(rows, labels)) == [(rows, labels)]
