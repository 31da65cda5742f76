"""Opening inputs and outputs: names, compression, pipes, temporary files, errors."""

import bz2
import errno
import fcntl
import gzip
import io
import lzma
import os
import stat
import subprocess
import sys
import threading
import tracemalloc
import zlib
from pathlib import Path

import pytest

from odmlib.data.files import open_input, open_output
from odmlib.data.reading import read_data
from odmlib.errors import DataFormatError, ParameterError

ROOT = Path(__file__).parents[2]
TEXT = b"1 1:2 3:4\n-1 2:5\n" * 50
PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def contents(source):
    with open_input(source) as stream:
        return stream.read()


def run(code, **options):
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=300, **options)


# ------------------------------------------------------------------------------------ input


def test_kinds_of_source(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(TEXT)
    assert contents(str(path)) == TEXT
    assert contents(path) == TEXT
    assert contents(TEXT) == contents(bytearray(TEXT)) == contents(memoryview(TEXT)) == TEXT
    assert contents(io.BytesIO(TEXT)) == TEXT
    assert contents(io.StringIO(TEXT.decode())) == TEXT
    with path.open("rb") as binary, path.open() as text, path.open("rb", buffering=0) as raw:
        for stream in (binary, text, raw):
            assert contents(stream) == TEXT
            assert not stream.closed


def test_only_read_is_needed():
    class Minimal:
        def __init__(self):
            self.inner = io.BytesIO(gzip.compress(TEXT))

        def read(self, size):
            return self.inner.read(min(size, 5))

    assert contents(Minimal()) == TEXT


def test_names(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(b"1 x\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("1 x\n"))
    with path.open("rb") as stream:
        for source, name in [("a.txt", "a.txt"), (path, str(path)), (stream, str(path)), ("-", "<stdin>")]:
            with pytest.raises(DataFormatError) as caught:
                read_data(source)
            assert str(caught.value).startswith(f"{name}:1:3: ")


@pytest.mark.parametrize("kind", PACKERS)
def test_compression_is_known_by_content(kind, tmp_path):
    path = tmp_path / "plain.txt"
    path.write_bytes(PACKERS[kind](TEXT))
    assert contents(path) == TEXT


@pytest.mark.parametrize("kind", PACKERS)
def test_members_one_after_the_other(kind):
    pack = PACKERS[kind]
    padding = b"" if kind == "bz2" else bytes(8)
    assert contents(pack(TEXT) + pack(b"") + pack(TEXT)) == 2 * TEXT
    assert contents(pack(TEXT) + padding + pack(TEXT) + padding) == 2 * TEXT


@pytest.mark.parametrize("kind", PACKERS)
def test_large_and_very_compressible(kind):
    data = b"1 1:2\n" * 500_000
    assert contents(PACKERS[kind](data)) == data


@pytest.mark.parametrize("kind", PACKERS)
def test_truncated_at_every_byte(kind):
    packed = PACKERS[kind](TEXT)
    for length in range(6, len(packed)):
        with pytest.raises(DataFormatError, match=r"^<bytes>: \w+ data (end too early|are corrupt)"):
            contents(packed[:length])


@pytest.mark.parametrize("kind", PACKERS)
def test_corrupt_or_followed_by_something_else(kind, tmp_path):
    packed = bytearray(PACKERS[kind](TEXT))
    path = tmp_path / "data"
    path.write_bytes(bytes(packed) + b"1 1:2\n")
    with pytest.raises(DataFormatError) as caught:
        read_data(path)
    assert caught.value.path == str(path)
    packed[len(packed) // 2] ^= 0xFF
    with pytest.raises(DataFormatError, match=r"corrupt|too early"):
        contents(bytes(packed))


def test_fifo_with_compressed_data(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(gzip.compress(TEXT),))
    writer.start()
    X, _ = read_data(path)
    writer.join()
    assert X.shape == (100, 3)


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
@pytest.mark.parametrize("pack", [bytes, lzma.compress])
def test_standard_input_by_pipe(name, pack):
    code = f"from odmlib.data.reading import read_dataset; print(read_dataset({name!r})[0])"
    result = run(code, input=pack(TEXT))
    assert result.stdout == b"Dataset(100 rows, 3 features, 150 nonzeros)\n", result.stderr


def test_missing_directory_and_unreadable(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        open_input(tmp_path / "none")
    assert caught.value.filename == str(tmp_path / "none")
    with pytest.raises(IsADirectoryError) as caught:
        open_input(str(tmp_path))
    assert caught.value.filename == str(tmp_path)
    secret = tmp_path / "secret"
    secret.touch(mode=0)
    if not AS_ROOT:
        with pytest.raises(PermissionError):
            open_input(secret)
    with pytest.raises(OSError, match="too long"):
        open_input("x" * 5000)


@pytest.mark.parametrize("source", [3, None, "a\0b", 2.5])
def test_what_is_no_source(source):
    with pytest.raises(ParameterError):
        open_input(source)
    with pytest.raises(ParameterError), open_output(source):
        pass


def test_dev_null_has_no_rows():
    with pytest.raises(DataFormatError, match=r"^/dev/null: no rows found$"):
        read_data("/dev/null")


def test_text_file_in_another_encoding(tmp_path):
    path = tmp_path / "latin"
    path.write_bytes(b"1 1:2 # caf\xe9\n")
    with path.open(encoding="utf-8") as stream, pytest.raises(DataFormatError, match="not utf-8 text"):
        read_data(stream)


# ------------------------------------------------------------------------------------ output


def write(target, data=b"new"):
    with open_output(target) as stream:
        stream.write(data)


def test_writes_bytes_and_text(tmp_path):
    write(tmp_path / "bytes")
    assert (tmp_path / "bytes").read_bytes() == b"new"
    with open_output(tmp_path / "text", text=True) as stream:
        stream.write("é\n")
    assert (tmp_path / "text").read_bytes() == "é\n".encode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bytes", "text"]


def test_nothing_is_seen_before_the_end(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with open_output(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit, OSError])
@pytest.mark.parametrize("text", [False, True])
def test_an_exception_leaves_no_trace(error, text, tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    for target in (path, tmp_path / "other"):
        with pytest.raises(error), open_output(target, text=text) as stream:
            stream.write("half" if text else b"half")
            raise error
    assert path.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_error_about_another_file_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, open_output(tmp_path / "out"):
        open_input("elsewhere")
    assert caught.value.filename == "elsewhere"


def test_permissions_are_those_of_a_plain_open(tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "new")
        (tmp_path / "plain").write_bytes(b"")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode
    kept = tmp_path / "kept"
    kept.touch()
    kept.chmod(0o751)
    write(kept)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o751


@pytest.mark.skipif(AS_ROOT, reason="root may write anything")
def test_a_protected_file_is_not_replaced(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(PermissionError) as caught:
        write(path)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"


def test_a_symbolic_link_stays_one(tmp_path):
    (tmp_path / "deep").mkdir()
    real, link, dangling = tmp_path / "deep" / "real", tmp_path / "link", tmp_path / "dangling"
    real.write_bytes(b"old")
    link.symlink_to(real)
    dangling.symlink_to(tmp_path / "deep" / "made")
    write(link)
    write(dangling)
    assert link.is_symlink()
    assert real.read_bytes() == (tmp_path / "deep" / "made").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("none/out", FileNotFoundError),
        (".", IsADirectoryError),
        ("file/out", NotADirectoryError),
        ("x" * 300, OSError),
    ],
)
def test_impossible_targets(name, error, tmp_path):
    (tmp_path / "file").touch()
    target = f"{tmp_path}/{name}"
    with pytest.raises(error) as caught:
        write(target)
    assert caught.value.filename == target


def test_file_objects_are_left_open(tmp_path):
    binary, text = io.BytesIO(), io.StringIO()
    for target in (binary, text):
        write(target)
        with open_output(target, text=True) as stream:
            stream.write("ß")
        assert not target.closed
    assert binary.getvalue() == "newß".encode()
    assert text.getvalue() == "newß"
    with (tmp_path / "out").open("wb") as target:
        write(target)
        assert not target.closed
        assert (tmp_path / "out").read_bytes() == b"new"


def test_devices_and_pipes_are_written_directly(tmp_path):
    write("/dev/null")
    assert not Path("/dev/null").is_file()
    path = tmp_path / "pipe"
    os.mkfifo(path)
    received = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    write(path)
    reader.join()
    assert received == [b"new"]
    assert path.is_fifo()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("size", [1, 10**6])
def test_a_full_disk_is_noticed(size):
    with pytest.raises(OSError, match="No space left") as caught:
        write("/dev/full", b"x" * size)
    assert caught.value.filename == "/dev/full"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_standard_output_is_noticed_once():
    code = (
        "from odmlib.data.files import open_output\n"
        "try:\n"
        "    with open_output('-', text=True) as stream: stream.write('x')\n"
        "except OSError as error: raise SystemExit(str(error))\n"
    )
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-X", "dev", "-c", code],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=300,
        )
    assert (result.returncode, result.stderr) == (1, b"[Errno 28] No space left on device: '<stdout>'\n")


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_standard_output(name, tmp_path):
    code = (
        "from odmlib.data.files import open_output\n"
        "print('before')\n"
        f"with open_output({name!r}) as stream: stream.write(b'new\\n')\n"
        "print('after')\n"
    )
    assert run(code).stdout == b"before\nnew\nafter\n"
    with (tmp_path / "out").open("wb") as file:
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=file, check=True, timeout=300)
    assert (tmp_path / "out").read_bytes() == b"before\nnew\nafter\n"


def test_standard_output_replaced_by_an_object(capsys, monkeypatch):
    write("-", b"one")
    assert capsys.readouterr().out == "one"
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    write("-", b"two")
    assert sys.stdout.getvalue() == "two"


def test_broken_pipe_is_raised():
    code = (
        "from odmlib.data.files import open_output\n"
        "try:\n"
        "    with open_output('-') as stream:\n"
        "        for _ in range(100): stream.write(b'x' * 100000)\n"
        "except BrokenPipeError: raise SystemExit(7)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    assert process.wait(300) == 7
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize("error", [MemoryError(), zlib.error("Unable to allocate output buffer.")])
def test_too_little_memory_is_not_a_corrupt_file(error, monkeypatch):
    class Decoder:
        eof, needs_input = False, True

        def decompress(self, packed, size):
            raise error

    monkeypatch.setattr(zlib, "decompressobj", lambda wbits: Decoder())
    with pytest.raises(MemoryError):
        contents(gzip.compress(TEXT))


# ------------------------------------------------------------------------------------ temporary files


def litter(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(".odm-"))


def test_there_is_no_temporary_before_the_writing(tmp_path):
    with open_output(tmp_path / "out") as stream:
        assert list(tmp_path.iterdir()) == []  # a process that is killed now leaves nothing
        stream.write(b"new")
        stream.flush()
        assert len(litter(tmp_path)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_file_without_a_byte_is_made_too(tmp_path):
    (tmp_path / "out").write_bytes(b"old")
    with open_output(tmp_path / "out"):
        pass
    assert (tmp_path / "out").read_bytes() == b""
    assert litter(tmp_path) == []


@pytest.mark.skipif(AS_ROOT, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_shows_at_once(tmp_path):
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(PermissionError) as caught, open_output(tmp_path / "out"):
            pytest.fail("the work began")
        assert caught.value.filename == str(tmp_path / "out")
    finally:
        tmp_path.chmod(0o755)


def test_a_missing_folder_shows_at_once(tmp_path):
    with pytest.raises(FileNotFoundError), open_output(tmp_path / "none" / "out"):
        pytest.fail("the work began")


KILLED = """
import os, signal, sys
from odmlib.data.files import open_output
with open_output(sys.argv[1]) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_leavings_of_killed_processes_are_removed(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    for _ in range(2):
        subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=ROOT, timeout=300)
        assert path.read_bytes() == b"old"
        assert len(litter(tmp_path)) == 1  # the second one removes that of the first
    write(path)
    assert path.read_bytes() == b"new"
    assert litter(tmp_path) == []


def test_only_what_is_certainly_stale_is_removed(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    names = [
        f".odm-{os.getpid()}-0123456789ab.tmp",  # of a process that lives
        f".odm-{dead.pid}-0123456789ab.tmp.bak",
        f".odm-{dead.pid}-short.tmp",
        f"odm-{dead.pid}-0123456789ab.tmp",
        ".odm-0-0123456789ab.tmp",
        ".odm-99999999999999999999-0123456789ab.tmp",
    ]
    for name in names:
        (tmp_path / name).write_bytes(b"mine")
    (tmp_path / f".odm-{dead.pid}-00000000000a.tmp").mkdir()
    (tmp_path / f".odm-{dead.pid}-00000000000b.tmp").symlink_to(names[0])
    held = tmp_path / f".odm-{dead.pid}-00000000000c.tmp"  # in use by a process of another pid namespace
    with held.open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        (tmp_path / f".odm-{dead.pid}-00000000000d.tmp").write_bytes(b"stale")
        before = {path.name for path in tmp_path.iterdir()}
        write(tmp_path / "out")
        after = {path.name for path in tmp_path.iterdir()}
    assert before - after == {f".odm-{dead.pid}-00000000000d.tmp"}
    assert after - before == {"out"}


def test_one_of_our_own_temporaries_is_locked(tmp_path):
    with open_output(tmp_path / "out") as stream:
        stream.write(b"new")
        stream.flush()
        (name,) = litter(tmp_path)
        with (tmp_path / name).open("rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400, 0o666])
def test_a_private_file_stays_private_at_every_moment(mode, tmp_path, monkeypatch):
    path = tmp_path / "secret"
    path.write_bytes(b"old")
    path.chmod(mode)
    seen = []
    kept = {name: getattr(os, name) for name in ("open", "write", "fsync", "fchmod", "fchown")}

    def watched(name):
        def call(*arguments, **options):
            result = kept[name](*arguments, **options)
            seen.extend(stat.S_IMODE((tmp_path / other).stat().st_mode) for other in litter(tmp_path))
            return result

        return call

    for name in kept:
        monkeypatch.setattr(os, name, watched(name))
    if mode == 0o400 and not AS_ROOT:
        with pytest.raises(PermissionError):
            write(path)
        return
    write(path)
    assert seen
    assert all(found & ~(mode | 0o600) == 0 for found in seen)
    assert seen[0] & 0o077 == 0
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(not AS_ROOT, reason="only root can give a file to another group")
def test_a_group_that_cannot_be_kept_gains_nothing(tmp_path, monkeypatch):
    path = tmp_path / "shared"
    path.write_bytes(b"old")
    os.chown(path, -1, os.getegid() + 1)
    path.chmod(0o664)

    def refused(*arguments):
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refused)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644  # as for everybody else


def test_the_folder_is_brought_to_disk_after_the_rename(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace

    def watched_fsync(descriptor):
        calls.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        return fsync(descriptor)

    def watched_replace(*names):
        calls.append("rename")
        return replace(*names)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    write(tmp_path / "out")
    assert calls == ["file", "rename", "folder"]


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "fchmod"])
def test_a_call_that_fails_leaves_the_old_file_and_no_litter(call, tmp_path, monkeypatch):
    path = tmp_path / "out"
    path.write_bytes(b"old")

    def fails(*arguments, **options):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, call, fails)
    with pytest.raises(OSError, match="Input/output error") as caught:
        write(path)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert litter(tmp_path) == []


# ------------------------------------------------------------------------------------ limits of unpacking


@pytest.mark.parametrize("kind", PACKERS)
def test_unpacking_ends_at_the_limit(kind):
    packed = PACKERS[kind](TEXT)
    for limit in (len(TEXT), len(TEXT) + 1, 10**9):
        with open_input(packed, limit) as stream:
            assert stream.read() == TEXT
    for limit in (0, 1, len(TEXT) // 2, len(TEXT) - 1):
        with open_input(packed, limit) as stream, pytest.raises(DataFormatError) as caught:
            stream.read()
        assert str(caught.value) == (
            f"<bytes>: {'gzip' if kind == 'gz' else 'bzip2' if kind == 'bz2' else 'xz'} data unpack to more "
            f"than {limit} bytes; --max-unpacked (in Python: max_unpacked) sets the limit"
        )
    with open_input(TEXT, 1) as stream:  # nothing is unpacked here
        assert stream.read() == TEXT
    several = packed + packed
    with open_input(several, 2 * len(TEXT)) as stream:
        assert stream.read() == 2 * TEXT
    with open_input(several, 2 * len(TEXT) - 1) as stream, pytest.raises(DataFormatError):
        stream.read()


@pytest.mark.parametrize("kind", PACKERS)
def test_little_more_than_the_limit_is_unpacked(kind):
    packed = PACKERS[kind](b"1 1:2\n" * 2_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(DataFormatError, match="more than 100000 bytes"):
            read_data(packed, max_unpacked=100_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000


def test_models_have_a_limit_of_their_own():
    packed = gzip.compress(bytes(80 << 20))
    with open_input(packed) as stream:  # data may be as large as they like
        assert len(stream.read()) == 80 << 20
    random = gzip.compress(os.urandom(500_000))  # hardly packed: the ratio is what counts
    huge = gzip.compress(bytes(100 << 20))
    sources = (gzip.compress(bytes(64 << 20)), True), (huge, False), (random + huge, True)
    for source, allowed in sources:
        with open_input(source, small=True) as stream:
            if allowed:
                assert len(stream.read()) >= 64 << 20
            else:
                with pytest.raises(DataFormatError, match="more than 200 times their size and 64 MB"):
                    stream.read()
    with open_input(huge, 100 << 20, small=True) as stream:
        assert len(stream.read()) == 100 << 20


@pytest.mark.parametrize("limit", [-1, 2.5, "1M"])
def test_what_is_no_limit(limit):
    with pytest.raises(ParameterError, match="max_unpacked"):
        open_input(TEXT, limit)
