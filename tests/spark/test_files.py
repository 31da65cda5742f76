"""Files in pieces, as tasks read them."""

import gzip

import numpy as np
import pytest

import odmlib
from odmlib.data.reading import read_dataset
from odmlib.errors import DataFormatError, OdmError
from odmlib.spark.blocks import Fault
from odmlib.spark.files import (
    Grammar,
    Piece,
    address_blocks,
    blocks_of_text,
    cut,
    file_blocks,
    local_path,
    read_piece,
    row_ranges,
)

from .conftest import ROOT

TEXT = b"\xef\xbb\xbf+1 1:0.5 3:2\r\n# a comment\n-1 2:1\n\n+1 1:4 2:1 3:-7.25\n-1\n+1 4:1"


def read_all(pieces):
    """Rows and labels of all pieces, dense."""
    parts = [read_piece(piece, Grammar()) for piece in pieces]
    width = max(rows.n_features for rows, _ in parts)
    dense = np.concatenate([rows.with_features(width).to_dense() for rows, _ in parts])
    return dense, np.concatenate([labels for _, labels in parts])


@pytest.mark.parametrize("text", [TEXT, TEXT + b"\n", TEXT.replace(b"\r\n", b"\n")])
def test_pieces_of_any_size_are_the_file(tmp_path, text):
    path = tmp_path / "data"
    path.write_bytes(text)
    rows, labels = read_dataset(path)
    for size in (1, 2, 3, 7, 11, 13, 40, 1000):
        ends = [*range(size, len(text), size), len(text)]
        pieces = [Piece(str(path), begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
        found, found_labels = read_all(pieces)
        np.testing.assert_array_equal(found, rows.to_dense())
        np.testing.assert_array_equal(found_labels, labels)


def test_a_fault_has_its_place_in_the_whole_file(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"1 1:1\n" * 50 + b"1 3:1 2:x\n" + b"1 1:1\n" * 50)
    with pytest.raises(DataFormatError) as whole:
        read_dataset(path)
    for size in (10, 100, 303, 1000):
        pieces = [Piece(str(path), begin, begin + size) for begin in range(0, 610, size)]
        with pytest.raises(DataFormatError) as caught:
            read_all(pieces)
        assert str(caught.value) == str(whole.value)
        assert ":51:7: " in str(caught.value)


def test_cutting(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    with pytest.raises(OdmError, match="no files in this directory"):
        cut(str(folder), 2)
    (folder / "b").write_bytes(b"-1 2:1\n" * 100)
    (folder / "a").write_bytes(gzip.compress(b"+1 1:1\n" * 100))
    for name in ("_SUCCESS", ".b.crc", "empty"):
        (folder / name).touch()
    pieces = cut(str(folder), 2, smallest_piece=64)
    assert pieces[0] == Piece(str(folder / "a"))
    assert len(pieces) > 4 and all(piece.path.endswith("b") for piece in pieces[1:])
    _, labels = read_all(pieces)
    assert labels.tolist() == [1.0] * 100 + [-1.0] * 100
    (folder / "inside").mkdir()
    with pytest.raises(OdmError, match="expected files, found the directory inside"):
        cut(str(folder), 2)
    with pytest.raises(FileNotFoundError):
        cut(str(tmp_path / "none"), 2)
    with pytest.raises(DataFormatError, match="no rows found"):
        cut(str(folder / "empty"), 2)


def test_what_a_partition_makes_of_its_text(tmp_path):
    rows, _ = read_dataset(b"1 1:1 2:2 3:3\n1 1:1\n0 1:1 2:1 3:1 4:1 5:1\n0\n1 2:2\n")
    assert [some.tolist() for some in row_ranges(rows, 4)] == [[0, 1], [2], [3, 4]]
    text = b"1 1:1 2:2 3:3\n1 1:1\n0 1:1 2:1 3:1 4:1 5:1\n"
    made = [block for _, (block, _) in blocks_of_text(1, ("x", text), Grammar(), block_values=4)]
    assert [(block.number, block.rows.n_rows) for block in made] == [(1 << 20, 2), ((1 << 20) + 1, 1)]
    assert list(blocks_of_text(1, ("y", b""), Grammar())) == []
    ((_, (fault, _)),) = blocks_of_text(0, ("hdfs://x", b"1 0:1\n"), Grammar())
    assert isinstance(fault, Fault) and fault.message.startswith("hdfs://x:1:3: expected an index of 1")
    ((_, (fault, summary)),) = blocks_of_text(0, Piece(str(tmp_path / "gone"), 0, 5), Grammar())
    assert "every machine must see the file" in summary.fault == fault.message
    ((_, (made, _)),) = blocks_of_text(0, ("x", b"1 0:1\n"), Grammar(7, True))
    assert made.rows.shape == (1, 7)


def test_addresses():
    assert local_path("some/file") == "some/file"
    assert local_path("file:///some/a%20file") == "/some/a file"
    assert local_path("hdfs://host/file") is None


def test_training_on_files(spark, tmp_path):
    """Any two labels, the first one first; rows of several widths; a weight of a class."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from odmlib.options import TrainOptions
    from odmlib.spark.training import train_blocks

    X, y = odmlib.read_data(ROOT / "data" / "rings.txt")
    labels = np.where(y == y[0], 7.0, 3.0)
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(2):
        odmlib.write_data(folder / f"part-{k}", X[k::2, : 1 + k], labels[k::2])
    together = np.vstack([X[0::2].toarray() * [1, 0], X[1::2].toarray()])
    options = {"kernel": "linear", "C": 0.1, "tol": 1e-4, "class_weight": {3: 2.0}}
    reference = odmlib.train(together, np.concatenate([labels[0::2], labels[1::2]]), **options)
    sparkly = TrainOptions(machine="sodm", solver="lbfgs", **options)
    for blocks in (
        file_blocks(spark, str(folder), Grammar(), smallest_piece=10_000),
        address_blocks(spark, f"file://{folder}", Grammar()),
    ):
        model = train_blocks(blocks, sparkly, files=True)
        assert model.labels.tolist() == [7.0, 3.0]
        assert model.report["rows"] == len(y)
        assert model.report["primal"] == pytest.approx(reference.report["primal"], rel=2e-4)
        scores = model.decision_function(together)
        np.testing.assert_allclose(scores, reference.decision_function(together), atol=0.05)
