"""Opening what the user named, for reading and for writing.

Input: a path, "-" for standard input, an open file (binary or text), or the bytes themselves. gzip, bzip2
and xz are recognised by their first bytes, so that names do not matter and pipes work. What they unpack to
may be limited, since a small file can hold a thousand times its size.

Output: a path, "-" for standard output, or an open file. A regular file is written under a temporary name
in the same directory and renamed when all went well: whoever looks sees the old file or the whole new one.
The temporary is made when the first bytes come, is never open to more readers than the file it replaces, and
is removed by the next writer where its process was killed.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from operator import index
from typing import IO, Any

from odmlib.errors import DataFormatError, ParameterError

Source = str | os.PathLike[str] | IO[Any] | bytes | bytearray | memoryview
Target = str | os.PathLike[str] | IO[Any]

_OPEN_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)  # not all systems have both

PACKED_BYTES = 1 << 16  # read at once from a compressed file
OUTPUT_BUFFER_BYTES = 1 << 18

# what a model may unpack to unless the user says otherwise: this many bytes, and as many for each packed one
SMALL_BYTES = 64 << 20
SMALL_RATIO = 200

_tool_limit: ContextVar[int | None] = ContextVar("max_unpacked", default=None)


# ---------------------------------------------------------------------------------------- input


def limit_unpacking(most: int) -> None:
    """Let nothing that is opened from now on in this context unpack to more bytes: what a tool is told."""
    _tool_limit.set(_checked_limit(most))


def open_input(source: Source, max_unpacked: int | None = None, small: bool = False) -> Input:
    """Open for reading; close it, or use it in a `with`. Files that came open are left open.

    A packed source that unpacks to more than `max_unpacked` bytes raises DataFormatError. `small`: where no
    limit is given, that of a model is taken, which grows with what is read.
    """
    limit = _tool_limit.get() if max_unpacked is None else _checked_limit(max_unpacked)
    if isinstance(source, bytes | bytearray | memoryview):
        return Input(io.BytesIO(source), "<bytes>", True, limit, small)
    if hasattr(source, "read"):
        return Input(source, _name_of(source), False, limit, small)
    path = _checked_path(source)
    if path == "-":
        if sys.stdin is None:
            raise OSError(errno.EBADF, "standard input is closed", "<stdin>")
        return Input(getattr(sys.stdin, "buffer", sys.stdin), "<stdin>", False, limit, small)
    return Input(open(path, "rb", buffering=0), path, True, limit, small)


def unpacked_limit(packed: int, max_unpacked: int | None = None) -> int:
    """The bytes to which a model of `packed` bytes may unpack, as `open_input` has it."""
    limit = _tool_limit.get() if max_unpacked is None else _checked_limit(max_unpacked)
    return SMALL_BYTES + SMALL_RATIO * packed if limit is None else limit


def _checked_limit(most: Any) -> int:
    try:
        count = index(most)
    except TypeError:
        raise ParameterError(f"max_unpacked must be a whole number of bytes, found {most!r}") from None
    if count < 0:
        raise ParameterError(f"max_unpacked must not be negative, found {count}")
    return count


class Input(io.RawIOBase):
    """Bytes of a source, unpacked. `name` is for messages; errors of the system carry it."""

    def __init__(self, stream: Any, name: str, owned: bool, limit: int | None = None, small: bool = False):
        self.name = name
        self._stream = stream
        self._owned = owned
        # a Ctrl-C between two calls of the system inside BufferedReader.read is not seen before the
        # second one returns, which on a pipe may be never: ask it for one call at a time
        self._one_call = isinstance(stream, io.BufferedReader)
        self._ahead = b""  # bytes read but not yet handed out
        self._unpacked: Callable[[int], bytes] | None = None
        try:
            while len(self._ahead) < MAGIC_BYTES and (more := self._read(MAGIC_BYTES - len(self._ahead))):
                self._ahead += more
            magic = next((magic for magic in _PACKINGS if self._ahead.startswith(magic)), None)
            if magic is not None:
                self._unpacked = _Unpacked(self._take, magic, name, limit, small).read
        except BaseException:
            self.close()
            raise

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._unpacked is None and not self._ahead and hasattr(self._stream, "readinto"):
            # no copy on the way
            read = self._stream.readinto1 if self._one_call else self._stream.readinto
            return self._checked(lambda: read(buffer))
        data = (self._unpacked or self._take)(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def known_size(self) -> int:
        """How many bytes the source holds, where the system knows it; else 0. Only a hint."""
        if self._unpacked is not None:
            return 0
        try:
            return os.fstat(self._stream.fileno()).st_size
        except (OSError, AttributeError):
            return 0

    def close(self) -> None:
        if not self.closed:
            super().close()
            if self._owned:
                self._stream.close()

    def _take(self, size: int) -> bytes:
        if self._ahead:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
            return data
        return self._read(size)

    def _read(self, size: int) -> bytes:
        read = self._stream.read1 if self._one_call else self._stream.read
        data = self._checked(lambda: read(size))
        return data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data

    def _checked(self, read: Callable[[], Any]) -> Any:
        try:
            with _errors_named(self.name):
                result = read()
        except UnicodeDecodeError as error:
            raise DataFormatError(f"found bytes that are not {error.encoding} text", self.name) from None
        if result is None:
            raise OSError(errno.EAGAIN, "no data yet from a stream that does not wait", self.name)
        return result


def is_packed(start: bytes) -> bool:
    """Whether a file that starts with these bytes is one of those that are unpacked."""
    return start.startswith(tuple(_PACKINGS))


# the first bytes of a packed file; its name; module, function and arguments of its decoder
_PACKINGS: dict[bytes, tuple[str, str, str, tuple[int, ...]]] = {
    b"\x1f\x8b": ("gzip", "zlib", "decompressobj", (16 + 15,)),  # gzip's header, the largest window
    b"BZh": ("bzip2", "bz2", "BZ2Decompressor", ()),
    b"\xfd7zXZ\0": ("xz", "lzma", "LZMADecompressor", (1,)),  # FORMAT_XZ
}
MAGIC_BYTES = max(map(len, _PACKINGS))


class _Unpacked:
    """Decompressed bytes, over all the members that stand one after the other in the stream.

    Never more than asked for is unpacked at once. Unlike the readers of the standard library this one
    refuses what follows the last member unless it is padding: rows could be missing there.
    """

    def __init__(
        self,
        read: Callable[[int], bytes],
        magic: bytes,
        name: str,
        limit: int | None = None,
        small: bool = False,
    ):
        self._read_packed = read
        self._n_packed = self._n_unpacked = 0  # bytes so far
        self._limit, self._small = limit, small
        self._kind, module, maker, arguments = _PACKINGS[magic]
        make = getattr(import_module(module), maker)
        self._new_decoder: Callable[[], Any] = lambda: make(*arguments)
        self._decoder = self._new_decoder()
        self._packed = b""
        self._name = name

    def _read(self, size: int) -> bytes:
        data = self._read_packed(size)
        self._n_packed += len(data)
        return data

    def _left(self) -> int | None:
        """How many bytes more may come; None: any number."""
        if self._limit is not None:
            return self._limit - self._n_unpacked
        return SMALL_BYTES + SMALL_RATIO * self._n_packed - self._n_unpacked if self._small else None

    def _refuse(self) -> DataFormatError:
        most = f"{self._limit} bytes"
        if self._limit is None:
            most = f"{SMALL_RATIO} times their size and {SMALL_BYTES >> 20} MB"
        return DataFormatError(
            f"{self._kind} data unpack to more than {most}; --max-unpacked (in Python: max_unpacked) sets "
            "the limit",
            self._name,
        )

    def read(self, size: int) -> bytes:
        while True:
            if self._decoder.eof and not self._next_member():
                return b""
            at_end = False
            if not self._packed and getattr(self._decoder, "needs_input", True):
                self._packed = self._read(PACKED_BYTES)
                at_end = not self._packed
            left = self._left()
            if left is not None:
                size = min(size, max(0, left) + 1)  # one more is enough to know
            try:
                data = self._decoder.decompress(self._packed, size)
            except Exception as error:  # zlib.error, lzma.LZMAError, OSError, EOFError: all mean the same ...
                if isinstance(error, MemoryError) or "allocate" in str(error):  # ... but for this
                    raise MemoryError from None
                raise DataFormatError(f"{self._kind} data are corrupt: {error}", self._name) from None
            self._packed = getattr(self._decoder, "unconsumed_tail", b"")
            if data:
                self._n_unpacked += len(data)
                if left is not None and len(data) > left:
                    raise self._refuse()
                return data
            if at_end and not self._decoder.eof:
                raise DataFormatError(f"{self._kind} data end too early", self._name)

    def _next_member(self) -> bool:
        rest = self._decoder.unused_data.lstrip(b"\0")
        while not rest:
            rest = self._read(PACKED_BYTES)
            if not rest:
                return False
            rest = rest.lstrip(b"\0")
        self._decoder = self._new_decoder()
        self._packed = rest
        return True


# ---------------------------------------------------------------------------------------- output


@contextmanager
def open_output(target: Target, text: bool = False) -> Iterator[IO[Any]]:
    """Open for writing bytes, or UTF-8 text with LF line ends; use it in a `with`.

    An exception inside the `with` leaves the file named by `target` as it was before.
    """
    if hasattr(target, "write"):
        with _writer(_write_of(target), _name_of(target), text) as stream:
            yield stream
        if hasattr(target, "flush"):
            target.flush()
        return
    path = _checked_path(target)
    if path in ("-", "/dev/stdout"):
        with _standard_output(text) as stream:
            yield stream
    elif _is_replaceable(path):
        with _replacement(path, text) as stream:
            yield stream
    else:
        with (
            _opened(path, os.O_WRONLY | os.O_TRUNC) as descriptor,
            _writer(_write_to(descriptor), path, text) as stream,
        ):
            yield stream


class _Sink(io.RawIOBase):
    """Where a buffered writer drops its bytes. After a failure it swallows the rest, because Python
    flushes once more when it clears the buffer away, and the first error is the one to report."""

    def __init__(self, write: Callable[[Any], int | None], name: str):
        self._write = write
        self._name = name
        self.failed = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.failed:
            return len(data)
        try:
            with _errors_named(self._name):
                count = self._write(data)
        except BaseException:
            self.failed = True
            raise
        return len(data) if count is None else count


@contextmanager
def _writer(write: Callable[[Any], int | None], name: str, text: bool) -> Iterator[IO[Any]]:
    sink = _Sink(write, name)
    stream: Any = io.BufferedWriter(sink, OUTPUT_BUFFER_BYTES)
    if text:
        stream = io.TextIOWrapper(stream, "utf-8", "backslashreplace", "\n")  # file names may be any bytes
    try:
        yield stream
        stream.flush()
    except BaseException:
        sink.failed = True
        raise
    finally:
        stream.close()


def _write_to(descriptor: int) -> Callable[[Any], int | None]:
    return lambda data: os.write(descriptor, data)


def _write_of(target: Any) -> Callable[[Any], int | None]:
    """A file object's write, for bytes even where it takes text."""
    if isinstance(target, io.TextIOBase):

        def write(data: Any) -> int:
            target.write(bytes(data).decode("utf-8"))
            return len(data)

        return write
    return target.write


@contextmanager
def _standard_output(text: bool) -> Iterator[IO[Any]]:
    if sys.stdout is None:
        raise OSError(errno.EBADF, "standard output is closed", "<stdout>")
    sys.stdout.flush()
    try:
        write = _write_to(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # replaced by an object that is no file
        write = _write_of(getattr(sys.stdout, "buffer", sys.stdout))
    with _writer(write, "<stdout>", text) as stream:
        yield stream
    sys.stdout.flush()


@contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    """A file descriptor, closed at the end; an error of closing is an error."""
    with _errors_named(path):
        descriptor = os.open(path, flags | _OPEN_FLAGS)
    try:
        yield descriptor
    except BaseException:
        with suppress(OSError):
            os.close(descriptor)
        raise
    with _errors_named(path):
        os.close(descriptor)


def _is_replaceable(path: str) -> bool:
    """A regular file, or a name where one can be made; not a device, a pipe or an open descriptor."""
    if path.startswith(("/proc/", "/dev/fd/", "/dev/std")):
        return False
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True


@contextmanager
def _replacement(path: str, text: bool) -> Iterator[IO[Any]]:
    final = os.path.realpath(path)  # a symbolic link stays one
    before = None
    with suppress(FileNotFoundError):
        before = os.stat(final)
    if before is not None and not os.access(final, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    new = _Temporary(final, path, before)
    try:
        new.open()  # a folder that cannot be written to shows now ...
        new.remove()  # ... but whoever is killed before there is anything to write leaves nothing behind
        with _writer(new.write, path, text) as stream:
            yield stream
        new.finish()
    except BaseException:
        new.remove()
        raise


class _Temporary:
    """The file that is written and takes the place of `final` in the end; errors tell the name `path`."""

    def __init__(self, final: str, path: str, before: os.stat_result | None):
        self._final = final
        self._path = path
        self._before = before  # what is replaced
        self._folder = os.path.dirname(final)
        self._name = ""
        self._descriptor = -1

    def open(self) -> None:
        """Until it has the permissions of the file that it replaces, it is open to nobody else."""
        mode = 0o666 if self._before is None else 0o600
        self._name = os.path.join(self._folder, f".odm-{os.getpid()}-{os.urandom(6).hex()}.tmp")
        with _errors_named(self._path):
            self._descriptor = os.open(self._name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS, mode)
        _lock(self._descriptor)

    def write(self, data: Any) -> int:
        if self._descriptor < 0:
            _remove_stale(self._folder)
            self.open()
        return os.write(self._descriptor, data)

    def finish(self) -> None:
        self.write(b"")  # nothing may have been written
        with _errors_named(self._path):
            if self._before is not None:
                _take_over(self._descriptor, self._before)
            os.fsync(self._descriptor)
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)
            os.replace(self._name, self._final)
            self._name = ""
            _sync_folder(self._folder)

    def remove(self) -> None:
        with suppress(OSError):
            if self._descriptor >= 0:
                os.close(self._descriptor)
        with suppress(OSError):
            if self._name:
                os.unlink(self._name)
        self._descriptor, self._name = -1, ""


def _take_over(descriptor: int, before: os.stat_result) -> None:
    """Owner and permissions of the file that will be replaced, as far as we may set them."""
    if not hasattr(os, "fchown"):  # Windows: access goes with the directory
        return
    mode = stat.S_IMODE(before.st_mode)
    with suppress(PermissionError):
        os.fchown(descriptor, before.st_uid, -1)
    try:
        os.fchown(descriptor, -1, before.st_gid)
    except PermissionError:  # another group: it may do what everybody may
        if os.fstat(descriptor).st_gid != before.st_gid:
            mode = mode & ~0o070 | (mode & 0o007) << 3
    os.fchmod(descriptor, mode)


def _sync_folder(folder: str) -> None:
    """Bring a rename to disk, where the system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:  # Windows, or a folder that may be written but not read
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Take the lock that says a temporary is in use, until the process ends; False where that fails."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _remove_stale(folder: str) -> None:
    """Remove temporaries of ours whose process is dead. The number of a process that runs in a container or
    on another machine may mean nothing here, so the lock must be free as well."""
    if not hasattr(os, "geteuid"):
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = _TEMPORARY.fullmatch(entry.name)
            if found is None or _is_alive(int(found[1])):
                continue
            with suppress(OSError):
                if entry.is_file(follow_symlinks=False) and entry.stat().st_uid == os.geteuid():
                    with _opened(entry.path, os.O_RDONLY | os.O_NOFOLLOW) as descriptor:
                        if _lock(descriptor):
                            os.unlink(entry.path)


_TEMPORARY = re.compile(r"\.odm-([1-9][0-9]{0,9})-[0-9a-f]{12}\.tmp")


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is there, but not ours; or no system has such a number
        pass
    return True


# ---------------------------------------------------------------------------------------- names


def _checked_path(path: Any) -> str:
    try:
        path = os.fspath(path)
    except TypeError:
        raise ParameterError(f"expected a path or an open file, found {type(path).__name__}") from None
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if "\0" in path:
        raise ParameterError(f"a path cannot hold a NUL character: {path!r}")
    return path


def _name_of(stream: Any) -> str:
    name = getattr(stream, "name", None)
    return name if isinstance(name, str) else "<stream>"


@contextmanager
def _errors_named(name: str) -> Iterator[None]:
    """Errors of the system with the name that the user knows, not that of a temporary file or none at all."""
    try:
        yield
    except OSError as error:
        raise (error if error.errno is None else OSError(error.errno, error.strerror, name)) from None
