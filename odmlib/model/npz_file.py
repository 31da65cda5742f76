"""Arrays in numpy's npz container: a zip file of .npy files, written without packing and read without trust.

numpy.load takes memory on the word of a file's header and reads whatever the zip file claims to unpack to.
Here every size is compared with what the file holds before memory is taken. Only the types below are read,
none of which can hold Python objects.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from odmlib.errors import ModelFormatError

MAGIC = b"PK\x03\x04"
TYPES = ("|u1", "<u2", "<i4", "<i8", "<f8")
MOST_MEMBERS = 64
# version 1.0 as numpy writes it: length of the header, type, number of entries
_NPY_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '([^']{3})', 'fortran_order': False, "
    rb"'shape': \(([0-9]{1,18}),\), \} *\n",
    re.DOTALL,
)
_DATE = (1980, 1, 1, 0, 0, 0)  # the same arrays make the same bytes
_ALIGNMENT = 64
_PADDING_ID = 0xD935  # the extra field that zipalign pads with
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # of a member: mark, lengths of its name and of its extra field


def npz_pieces(arrays: Iterable[tuple[str, NDArray]]) -> Iterator[bytes]:
    """The file in pieces; every array has one dimension and one of TYPES.

    Numbers begin at multiples of 64 bytes, so that they can be used where they stand.
    """
    out = _Pieces()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays:
            text = io.BytesIO()
            npy.write_array(text, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
            member = zipfile.ZipInfo(f"{name}.npy", _DATE)
            place = archive.start_dir + _LOCAL_HEADER.size + len(member.filename) + 4
            padding = bytes(-place % _ALIGNMENT)
            member.extra = struct.pack("<HH", _PADDING_ID, len(padding)) + padding
            archive.writestr(member, text.getbuffer())
            yield from out.taken()
    yield from out.taken()


class _Pieces(io.RawIOBase):
    """What a zip file writes, to be taken in pieces."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def taken(self) -> list[bytes]:
        pieces, self._pieces = self._pieces, []
        return pieces


def smallest(values: NDArray, bound: int) -> NDArray:
    """Whole numbers from 0 to below `bound` in the smallest of TYPES that holds them."""
    dtype = "|u1" if bound <= 1 << 8 else "<u2" if bound <= 1 << 16 else "<i4" if bound <= 1 << 31 else "<i8"
    return values.astype(dtype)


def read_npz(data: memoryview, name: str, most: int) -> dict[str, NDArray]:
    """All arrays of a file, which may unpack to `most` bytes; ModelFormatError says what is wrong."""
    try:
        with zipfile.ZipFile(_View(data)) as archive:
            members = archive.infolist()
            _check_members(members, name, most)
            return {
                member.filename.removesuffix(".npy"): _array(_content(archive, member, data), member, name)
                for member in members
            }
    except ModelFormatError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise ModelFormatError(f"the npz file is corrupt: {error}", name) from None


def _check_members(members: list[zipfile.ZipInfo], name: str, most: int) -> None:
    if len(members) > MOST_MEMBERS:
        raise ModelFormatError(f"not an odmlib model: a zip file of {len(members)} files", name)
    names = [member.filename for member in members]
    if len(set(names)) < len(names):
        raise ModelFormatError("the npz file holds two arrays of one name", name)
    for member in members:
        if not member.filename.endswith(".npy"):
            raise ModelFormatError(f"not an odmlib model: a zip file with '{member.filename[:60]}'", name)
        if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ModelFormatError(f"'{member.filename[:60]}' is packed in a way that is not read here", name)
    # arrays that are not packed take no memory beside the file's own
    if sum(member.file_size for member in members if member.compress_type != zipfile.ZIP_STORED) > most:
        raise ModelFormatError(
            f"the npz file unpacks to more than {most} bytes; --max-unpacked (in Python: max_unpacked) sets "
            "the limit",
            name,
        )


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo, data: memoryview) -> memoryview:
    """The bytes of a member: a part of `data` where it is not packed."""
    if member.compress_type != zipfile.ZIP_STORED:
        return memoryview(archive.read(member))  # never more than member.file_size, which has been checked
    header = data[member.header_offset :][: _LOCAL_HEADER.size]
    if member.header_offset < 0 or len(header) < _LOCAL_HEADER.size:
        raise zipfile.BadZipFile(f"no header of '{member.filename[:60]}'")
    mark, name_length, extra_length = _LOCAL_HEADER.unpack(header)
    begin = member.header_offset + _LOCAL_HEADER.size + name_length + extra_length
    content = data[begin : begin + member.file_size]
    if mark != MAGIC or len(content) != member.file_size or member.compress_size != member.file_size:
        raise zipfile.BadZipFile(f"'{member.filename[:60]}' is cut off")
    if zlib.crc32(content) != member.CRC:
        raise zipfile.BadZipFile(f"'{member.filename[:60]}' has another checksum than it should")
    return content


def _array(content: memoryview, member: zipfile.ZipInfo, name: str) -> NDArray:
    shown = f"'{member.filename[:60]}'"
    found = _NPY_HEADER.match(content)
    if found is None or found[2].decode("latin1") not in TYPES:
        kinds = ", ".join(TYPES)
        raise ModelFormatError(f"{shown}: expected an array of one dimension and type {kinds}", name)
    dtype, count, held = np.dtype(found[2].decode()), int(found[3]), len(content) - found.end()
    if found.end() != 10 + int.from_bytes(found[1], "little") or count * dtype.itemsize != held:
        size = dtype.itemsize
        raise ModelFormatError(
            f"{shown}: the header says {count} numbers of {size} bytes, the file holds {held} bytes", name
        )
    array = np.frombuffer(content[found.end() :], dtype).astype(dtype.newbyteorder("="), copy=False)
    return array if array.flags.aligned else array.copy()


class _View(io.RawIOBase):
    """Bytes as a file, without a copy."""

    def __init__(self, data: memoryview):
        self._data, self._place = data, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: len(self._data)}[whence]
        if base + offset < 0:
            raise ValueError("a place before the beginning")
        self._place = base + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        piece = self._data[self._place : self._place + len(buffer)]
        buffer[: len(piece)] = piece
        self._place += len(piece)
        return len(piece)
