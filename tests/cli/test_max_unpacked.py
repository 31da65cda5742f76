"""--max-unpacked: every tool that reads packed files has it, with one wording."""

from __future__ import annotations

import gzip

import pytest

from odmlib.cli import check, convert, easy, grid, plot, predict, scale, subset, train
from odmlib.cli.parser import UsageError, size_in_bytes
from odmlib.data.reading import read_data
from odmlib.errors import ModelFormatError
from odmlib.model.foreign.files import load_foreign_model
from odmlib.model.text_format import load_model
from odmlib.svmutil import svm_parameter

TEXT = b"1 1:1 2:0.5\n-1 1:-1 2:0.25\n" * 50
LIMIT = "gzip data unpack to more than 1024 bytes; --max-unpacked (in Python: max_unpacked) sets the limit\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.gz").write_bytes(gzip.compress(TEXT))
    (tmp_path / "b.gz").write_bytes(gzip.compress(TEXT[:200]))
    assert train.main(["-q", "-t", "0", "a.gz", "m"]) == 0
    model = (tmp_path / "m").read_bytes()
    (tmp_path / "m.gz").write_bytes(gzip.compress(model.replace(b"solver ", b"solver " + b"x" * 2000)))


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        (train, ["-q", "a.gz", "out"]),
        (train, ["-q", "-W", "a.gz", "b.gz", "out"]),
        (train, ["-q", "--init", "m.gz", "-t", "0", "b.gz", "out"]),
        (predict, ["-q", "a.gz", "m", "out"]),
        (predict, ["-q", "b.gz", "m.gz", "out"]),
        (scale, ["a.gz"]),
        (scale, ["-r", "a.gz", "b.gz"]),
        (check, ["a.gz"]),
        (subset, ["a.gz", "10", "out"]),
        (convert, ["m.gz", "out"]),
        (grid, ["a.gz"]),
        (easy, ["a.gz"]),
        (plot, ["margins", "b.gz", "m.gz"]),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, list) else part.PROGRAM,
)
def test_every_tool_refuses_what_is_too_large(tool, words, files, capsys, tmp_path):
    capsys.readouterr()
    before = sorted(path.name for path in tmp_path.iterdir())
    place = 1 if tool is plot else 0  # the kind of picture comes first
    code = tool.main([*words[:place], "--max-unpacked", "1K", *words[place:]])
    out, err = capsys.readouterr()
    name = next(word for word in words if word in ("a.gz", "m.gz"))
    assert (code, err) == (1, f"{tool.PROGRAM}: {name}: {LIMIT}")
    if tool is not easy:
        assert "\n1 " not in out
    assert [path.name for path in tmp_path.iterdir() if path.name not in before] == []
    read_data("a.gz")  # the limit ended with the tool
    load_model("m.gz")


def test_sizes():
    assert [size_in_bytes(text) for text in ("0", "1000", "1K", "2k", "3M", "4G")] == [
        0, 1000, 1024, 2048, 3 << 20, 4 << 30,
    ]  # fmt: skip
    for text in ("", "K", "-1", "1.5M", "1T", "1KB", "²", "1_0", "9" * 30):
        with pytest.raises(UsageError, match="--max-unpacked: expected a size such as"):
            train.make_parser().parse(["--max-unpacked", text, "x"])


def test_python_has_it_too(files):
    for call in (load_model, load_foreign_model):
        assert call("m.gz", max_unpacked=10**6).n_features == 2
        with pytest.raises(ModelFormatError, match=r"^m.gz: gzip data unpack to more than 1024 bytes"):
            call("m.gz", max_unpacked=1024)
    svm_parameter("--max-unpacked 1")
    read_data("a.gz")
