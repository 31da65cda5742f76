"""Opening what the user named, for reading and for writing.

Input: a path, "-" for standard input, an open file (binary or text), or the bytes themselves. gzip, bzip2
and xz are recognised by their first bytes, so that names do not matter and pipes work.

Output: a path, "-" for standard output, or an open file. A regular file is written under a temporary name
in the same directory and renamed when all went well: whoever looks sees the old file or the whole new one.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from odmlib.errors import DataFormatError, ParameterError

Source = str | os.PathLike[str] | IO[Any] | bytes | bytearray | memoryview
Target = str | os.PathLike[str] | IO[Any]

PACKED_BYTES = 1 << 16  # read at once from a compressed file
OUTPUT_BUFFER_BYTES = 1 << 18


# ---------------------------------------------------------------------------------------- input


def open_input(source: Source) -> Input:
    """Open for reading; close it, or use it in a `with`. Files that came open are left open."""
    if isinstance(source, bytes | bytearray | memoryview):
        return Input(io.BytesIO(source), "<bytes>", owned=True)
    if hasattr(source, "read"):
        return Input(source, _name_of(source), owned=False)
    path = _checked_path(source)
    if path == "-":
        if sys.stdin is None:
            raise OSError(errno.EBADF, "standard input is closed", "<stdin>")
        return Input(getattr(sys.stdin, "buffer", sys.stdin), "<stdin>", owned=False)
    return Input(open(path, "rb", buffering=0), path, owned=True)


class Input(io.RawIOBase):
    """Bytes of a source, unpacked. `name` is for messages; errors of the system carry it."""

    def __init__(self, stream: Any, name: str, owned: bool):
        self.name = name
        self._stream = stream
        self._owned = owned
        # a Ctrl-C between two calls of the system inside BufferedReader.read is not seen before the
        # second one returns, which on a pipe may be never: ask it for one call at a time
        self._one_call = isinstance(stream, io.BufferedReader)
        self._ahead = b""  # bytes read but not yet handed out
        try:
            while len(self._ahead) < MAGIC_BYTES and (more := self._read(MAGIC_BYTES - len(self._ahead))):
                self._ahead += more
            self._unpacked = _unpacker(self._ahead, self._take, name)
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
            result = read()
        except OSError as error:
            raise _named(error, self.name) from None
        except UnicodeDecodeError as error:
            raise DataFormatError(f"found bytes that are not {error.encoding} text", self.name) from None
        if result is None:
            raise OSError(errno.EAGAIN, "no data yet from a stream that does not wait", self.name)
        return result


def _unpacker(start: bytes, read: Callable[[int], bytes], name: str) -> Callable[[int], bytes] | None:
    for magic, (kind, new_decoder) in _PACKINGS.items():
        if start.startswith(magic):
            return _Unpacked(read, new_decoder, kind, name).read
    return None


def is_packed(start: bytes) -> bool:
    """Whether a file that starts with these bytes is one of those that are unpacked."""
    return start.startswith(tuple(_PACKINGS))


def _new_gzip_decoder() -> Any:
    import zlib

    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)


def _new_bzip2_decoder() -> Any:
    import bz2

    return bz2.BZ2Decompressor()


def _new_xz_decoder() -> Any:
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_XZ)


_PACKINGS: dict[bytes, tuple[str, Callable[[], Any]]] = {
    b"\x1f\x8b": ("gzip", _new_gzip_decoder),
    b"BZh": ("bzip2", _new_bzip2_decoder),
    b"\xfd7zXZ\0": ("xz", _new_xz_decoder),
}
MAGIC_BYTES = max(map(len, _PACKINGS))


class _Unpacked:
    """Decompressed bytes, over all the members that stand one after the other in the stream.

    Never more than asked for is unpacked at once. Unlike the readers of the standard library this one
    refuses what follows the last member unless it is padding: rows could be missing there.
    """

    def __init__(self, read: Callable[[int], bytes], new_decoder: Callable[[], Any], kind: str, name: str):
        self._read = read
        self._new_decoder = new_decoder
        self._decoder = new_decoder()
        self._packed = b""
        self._kind = kind
        self._name = name

    def read(self, size: int) -> bytes:
        while True:
            if self._decoder.eof and not self._next_member():
                return b""
            at_end = False
            if not self._packed and getattr(self._decoder, "needs_input", True):
                self._packed = self._read(PACKED_BYTES)
                at_end = not self._packed
            try:
                data = self._decoder.decompress(self._packed, size)
            except Exception as error:  # zlib.error, lzma.LZMAError, OSError, EOFError: all mean the same ...
                if isinstance(error, MemoryError) or "allocate" in str(error):  # ... but for this
                    raise MemoryError from None
                raise DataFormatError(f"{self._kind} data are corrupt: {error}", self._name) from None
            self._packed = getattr(self._decoder, "unconsumed_tail", b"")
            if data:
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
            _opened(path, os.O_WRONLY | os.O_TRUNC, path) as descriptor,
            _writer(_write_to(descriptor), path, text) as stream,
        ):
            yield stream


class _Sink(io.RawIOBase):
    """Where a buffered writer drops its bytes. After a failure it swallows the rest, because Python
    flushes once more when it clears the buffer away, and the first error is the one to report."""

    def __init__(self, write: Callable[[Any], int | None], name: str):
        self._write = write
        self._name = name
        self._failed = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self._failed:
            return len(data)
        try:
            count = self._write(data)
        except BaseException as error:
            self._failed = True
            if isinstance(error, OSError):
                raise _named(error, self._name) from None
            raise
        return len(data) if count is None else count

    def discard(self) -> None:
        self._failed = True


@contextmanager
def _writer(write: Callable[[Any], int | None], name: str, text: bool) -> Iterator[IO[Any]]:
    sink = _Sink(write, name)
    stream: Any = io.BufferedWriter(sink, OUTPUT_BUFFER_BYTES)
    if text:
        stream = io.TextIOWrapper(stream, encoding="utf-8", newline="\n")
    try:
        yield stream
        stream.flush()
    except BaseException:
        sink.discard()
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
def _opened(path: str, flags: int, name: str, mode: int = 0o666) -> Iterator[int]:
    """A file descriptor, closed at the end; an error of closing is an error."""
    try:
        descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0), mode)
    except OSError as error:
        raise _named(error, name) from None
    try:
        yield descriptor
    except BaseException:
        with suppress(OSError):
            os.close(descriptor)
        raise
    try:
        os.close(descriptor)
    except OSError as error:
        raise _named(error, name) from None


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
    temporary = os.path.join(os.path.dirname(final), f".odm-{os.getpid()}-{os.urandom(6).hex()}.tmp")
    try:
        with _opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, path) as descriptor:
            with _writer(_write_to(descriptor), path, text) as stream:
                yield stream
            try:
                if before is not None:
                    _take_over(descriptor, before)
                os.fsync(descriptor)
            except OSError as error:
                raise _named(error, path) from None
        try:
            os.replace(temporary, final)
        except OSError as error:
            raise _named(error, path) from None
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _take_over(descriptor: int, before: os.stat_result) -> None:
    """Owner and permissions of the file that will be replaced, as far as we may set them."""
    if not hasattr(os, "fchown"):  # Windows: access goes with the directory
        return
    with suppress(PermissionError):
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


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


def _named(error: OSError, name: str) -> OSError:
    """The error with the name that the user knows, not that of a temporary file or none at all."""
    return error if error.errno is None else OSError(error.errno, error.strerror, name)
