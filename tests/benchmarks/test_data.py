"""Data sets by name: found, merged, fetched from a folder and from a server, checked."""

from __future__ import annotations

import functools
import http.server
import lzma
import threading

import numpy as np
import pytest

from benchmarks import data

TEXT = "1 1:0.5 3:2\n-1 2:1\n"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """An empty $ODMLIB_DATA, no shared folder, and one known checksum."""
    folder = tmp_path / "own"
    monkeypatch.setenv("ODMLIB_DATA", str(folder))
    monkeypatch.setattr(data, "SHARED", tmp_path / "nothing")
    known = tmp_path / "known.libsvm"
    known.write_text(TEXT)
    table = tmp_path / "data.tsv"
    table.write_text(f"file\tsha256\ntiny\t{data.checksum(known)}\n")
    monkeypatch.setattr(data, "CHECKSUMS", table)
    data.load.cache_clear()
    yield folder
    data.load.cache_clear()


@pytest.fixture
def mirror(tmp_path):
    folder = tmp_path / "mirror"
    folder.mkdir()
    (folder / "tiny.libsvm.xz").write_bytes(lzma.compress(b"1.0 1:5e-1 3:2.0\n-1 2:1\n"))  # the same numbers
    (folder / "strange").write_text(TEXT)
    return folder


@pytest.fixture
def server(mirror, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Quiet, directory=str(mirror))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("kind", ["folder", "server"])
def test_get(own, mirror, kind, request):
    source = str(mirror) if kind == "folder" else request.getfixturevalue("server")
    assert not data.is_here("tiny")
    with pytest.raises(data.NotHere, match=r"benchmarks\.data get tiny"):
        data.load("tiny")
    assert data.main(["get", "tiny", "--from", source]) == 0
    assert data.find("tiny") == own / "tiny.libsvm.xz"
    X, y = data.load("tiny")
    assert X.toarray().tolist() == [[0.5, 0, 2], [0, 1, 0]] and y.tolist() == [1, -1]
    assert data.get("tiny", "http://nowhere.invalid") == []  # it is here


@pytest.mark.parametrize("kind", ["folder", "server"])
def test_what_is_not_known_is_not_kept(own, mirror, kind, request):
    source = str(mirror) if kind == "folder" else request.getfixturevalue("server")
    with pytest.raises(SystemExit, match="no known checksum; --trust keeps it"):
        data.get("strange", source)
    (mirror / "tiny.libsvm.xz").write_bytes(lzma.compress(b"1 1:0.5 3:2.5\n-1 2:1\n"))
    with pytest.raises(SystemExit, match="another checksum"):
        data.get("tiny", source)
    assert list(own.iterdir()) == []
    assert data.get("strange", source, trust=True) == [own / "strange"]
    with pytest.raises(SystemExit, match="missing: not "):
        data.get("missing", source)


def test_faults_are_one_line(own, mirror, capsys, monkeypatch):
    (mirror / "tiny.libsvm.xz").write_bytes(b"no xz")
    with pytest.raises(SystemExit, match=r"tiny: the file cannot be read: .*xz"):
        data.get("tiny", str(mirror))
    with pytest.raises(SystemExit, match="nowhere: not a folder"):
        data.get("tiny", str(mirror / "nowhere"))
    with pytest.raises(SystemExit, match=r"tiny: .* refused.* --from takes it from"):
        data.get("tiny", "http://127.0.0.1:9")
    assert list(own.iterdir()) == []
    (mirror / "tiny.libsvm.xz").write_bytes(lzma.compress(TEXT.encode()))
    for _ in range(2):
        assert data.main(["get", "tiny", "--from", str(mirror)]) == 0
    path = own / "tiny.libsvm.xz"
    assert capsys.readouterr().out == f"{path}\n{path}: here already\n"
    monkeypatch.delenv("ODMLIB_DATA")
    for words, fault in ((["get"], "arguments are required"), (["gte"], "invalid choice")):
        with pytest.raises(SystemExit):
            data.main(words)
        err = capsys.readouterr().err
        assert fault in err and err.count("\n") == 1 and err.startswith("python -m benchmarks.data")


def test_a_set_of_two_files(own, monkeypatch):
    own.mkdir()
    monkeypatch.setitem(data.FILES, "pair", ("a", "b"))
    (own / "a").write_text(TEXT)
    assert not data.is_here("pair")
    (own / "b").write_text("2 5:1\n")
    X, y = data.load("pair")
    assert X.shape == (3, 5) and y.tolist() == [1, -1, 2]


def test_sizes_of_the_papers():
    """The rows that the papers state, where the sets are here."""
    for name, rows in {
        "vowel": 990,
        "svmguide4": 612,
        "house": 232,
        "a7a": 32_561,
        "svmguide1": 7_089,
    }.items():
        if data.is_here(name):
            assert data.load(name)[0].shape[0] == rows


def test_checksums_of_the_table():
    for file in ("iris", "heart", "vowel.scale.t"):
        if (path := data.find(file)) is not None:
            assert data.checksum(path) == data.known_checksums()[file]
    assert np.all([len(digest) == 64 for digest in data.known_checksums().values()])
