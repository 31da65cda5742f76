"""What a model file costs to read is linear in its size, whatever stands in it."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from odmlib.data.files import Source
from odmlib.data.labels import are_distinct, read_labels, write_labels
from odmlib.data.scaling import Scaling
from odmlib.errors import ModelFormatError, OdmError
from odmlib.model.foreign.files import foreign_text, load_foreign_model
from odmlib.model.text_format import load_model
from odmlib.model.text_writer import model_text

from .examples import make_model

PRIME = sys.hash_info.modulus  # whole numbers that differ by it have the same hash in Python


def with_labels(kind: str, labels: str, scheme: str = "ovr") -> bytes:
    """A model file with these labels; where everything else fits only by luck."""
    text = b"".join(model_text(make_model("rbf joint"))).decode()
    lines = text.split("\n")
    for place, line in enumerate(lines):
        if line.startswith("label_type "):
            lines[place] = f"label_type {kind}"
        elif line.startswith("labels "):
            lines[place] = f"labels {labels}"
        elif line.startswith("scheme "):
            lines[place] = f"scheme {scheme}"
        elif line.startswith("offsets "):
            lines[place] = ""
    return "\n".join(line for line in lines if line).encode() + b"\n"


def with_field(key: str, value: str) -> bytes:
    text = b"".join(model_text(make_model("rbf joint"))).decode()
    lines = [line for line in text.split("\n") if not line.startswith(key + " ")]
    return "\n".join([lines[0], f"{key} {value}", *lines[1:]]).encode()


FILES = {
    "one long string": lambda n: with_labels(
        "str", '"' + "x" * (n // 2) + '" ' + " ".join(f'"{i}"' for i in range(n // 12))
    ),
    "one label again and again": lambda n: with_labels("int", "1 " * (n // 2)),
    "floats again and again": lambda n: with_labels("float", "1 " * (n // 2)),
    "different whole numbers": lambda n: with_labels("int", " ".join(map(str, range(n // 6)))),
    "blanks": lambda n: with_labels("int", "1" + " " * n + "2"),
    "colliding hashes": lambda n: with_labels("mixed", " ".join(str(PRIME * i) for i in range(1, n // 24))),
    "digits": lambda n: with_field("primal", "1." + "1" * n),
    "numbers": lambda n: with_field("margin_quantiles", "1 " * (n // 2)),
    "offsets": lambda n: with_field("offsets", "1 " * (n // 2)),
    "a name": lambda n: with_field("solver", "x" * n),
    "unknown keys": lambda n: with_field("seed", "\n".join(["3", *(f"key{i} 1" for i in range(n // 10))])),
}


def peak_bytes(text: bytes) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        with suppress(ModelFormatError):
            load_model(text)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", FILES)
def test_memory_is_linear(kind):
    small, large = (FILES[kind](n) for n in (100_000, 200_000))
    peak_bytes(small)  # what is loaded at first use
    first, second = peak_bytes(small), peak_bytes(large)
    assert second < 2.5 * first
    assert second < 100 * len(large)


class Counted(str):
    """Text that counts the characters which are copied out of it."""

    copied = 0

    def __getitem__(self, where: Any) -> Counted:
        found = Counted(super().__getitem__(where))
        Counted.copied += len(found)
        return found

    def strip(self, *args: Any) -> Counted:
        Counted.copied += len(self)
        return Counted(super().strip(*args))


def test_labels_are_parted_in_linear_work():
    Counted.copied = 0
    text = Counted("1 " * 20_000)
    assert len(read_labels("int", text)) == 20_000
    assert Counted.copied < 10 * len(text)


def test_equal_hashes_are_not_compared_with_each_other():
    compared = 0

    class Whole(int):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return int(self) == other

        def __hash__(self) -> int:
            return int.__hash__(self)

    labels = np.empty(300, dtype=object)
    labels[:] = [Whole(PRIME * i) for i in range(5, 305)]
    assert are_distinct(labels)
    assert compared <= 300
    for twice in ([2**80, 3, float(2**80)], [1, 2, True], [1, "a", 1.0], ["a", "a"]):
        labels = np.empty(len(twice), dtype=object)
        labels[:] = twice
        assert not are_distinct(labels)
    labels[:] = ["0x10000000000000000", 2**64]
    assert are_distinct(labels)


def as_objects(values: list[str]) -> np.ndarray:
    labels = np.empty(len(values), dtype=object)
    labels[:] = values
    return labels


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["b", "c" * 70_000]),
        as_objects(["b", "c"]),
        as_objects(["a" * 50_000, *map(str, range(3000))]),
        np.array(["a" * 5000, *map(str, range(300))]),
    ],
    ids=["even", "objects", "uneven objects", "uneven"],
)
def test_uneven_strings_come_back_and_are_written_the_same(labels):
    kind, text = write_labels(labels)
    again = read_labels(kind, text)
    assert again.tolist() == labels.tolist()
    assert (again == labels).all()
    assert write_labels(again) == (kind, text)
    assert again.nbytes < 100 * len(text)


def test_a_long_label_does_not_make_a_long_message():
    long = '"' + "x" * 10_000 + '"'
    for kind, labels in (("str", f"{long} {long}"), ("int", f"1 {long}"), ("str", long)):
        with pytest.raises(ModelFormatError) as caught:
            load_model(with_labels(kind, labels))
        assert len(str(caught.value)) < 300


def test_a_long_header_is_read():
    """Models of many classes have one; a limit would refuse what training wrote."""
    name = "x" * (17 << 20)
    assert load_model(with_field("solver", name)).report["solver"] == name


# --------------------------------------------------------------------------- every header key

TEXTS = {
    kind: b"".join(model_text(make_model(kind)))
    for kind in ("linear", "linear ovo", "rbf joint", "poly", "sigmoid", "precomputed ovr")
}
LIBSVM = b"".join(foreign_text(make_model("rbf", labels=(1.0, -1.0)), "libsvm"))
LIBLINEAR = b"".join(foreign_text(make_model("linear", labels=(1.0, -1.0)), "liblinear"))
LOADERS: dict[str, tuple[bytes, Callable[[Source], Any]]] = {
    **{kind: (text, load_model) for kind, text in TEXTS.items()},
    "libsvm": (LIBSVM, load_foreign_model),
    "liblinear": (LIBLINEAR, load_foreign_model),
    "range": (b"y\n0 1\n-5 5\nx\n-1 1\n1 0 10\n", Scaling.read),
}

# a value of so many bytes: one long word, many words, many numbers of which no two are equal
VALUES: tuple[Callable[[int], str], ...] = (
    lambda n: "x" * n,
    lambda n: "9" * n,
    lambda n: "1 " * (n // 2),
    lambda n: '"a" ' * (n // 4),
    lambda n: " ".join(map(str, range(n // 6))),
    lambda n: "0." + "0" * n + "1",
)


def header_lines(text: bytes) -> list[int]:
    lines = text.split(b"\n")
    ends = [lines.index(mark) for mark in (b"SV", b"w", b"coefficients") if mark in lines]
    return list(range(1 if lines[0].startswith(b"odmlib") else 0, min(ends, default=len(lines) - 1)))


def with_value(text: bytes, line: int, value: str) -> bytes:
    """The file with another value in one line: behind its key, or in a range file all of it."""
    lines = text.split(b"\n")
    key, blank, _ = lines[line].partition(b" ")
    lines[line] = (key + blank if key.isalpha() or b"_" in key else b"") + value.encode()
    return b"\n".join(lines)


def work_of(load: Callable[[Source], Any], text: bytes) -> tuple[int, int]:
    """(calls of functions, peak memory) of loading a file that need not be right."""
    calls = 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    tracemalloc.start()
    sys.setprofile(count)
    try:
        with suppress(OdmError):
            load(text)
        sys.setprofile(None)
        return calls, tracemalloc.get_traced_memory()[1]
    finally:
        sys.setprofile(None)
        tracemalloc.stop()


@pytest.mark.parametrize("kind", LOADERS)
def test_work_and_memory_are_linear_for_every_key(kind):
    text, load = LOADERS[kind]
    n, n_checked = 12_000, 0
    work_of(load, text)  # what is loaded at first use
    for line in header_lines(text):
        for value in VALUES:
            work_of(load, with_value(text, line, value(100)))
            (calls, peak), (more_calls, more_peak) = (
                work_of(load, with_value(text, line, value(size))) for size in (n, 2 * n)
            )
            where = text.split(b"\n")[line][:40], value(10)
            assert more_calls <= 2.2 * calls + 100, where
            assert more_peak <= 2.2 * peak + (1 << 16), where
            assert more_peak <= 200 * n, where
            n_checked += 1
    assert n_checked >= 5 * len(VALUES)


@pytest.mark.parametrize("index", [10**6, 2**31 - 1])
def test_a_huge_index_in_a_small_file_takes_no_memory(index):
    libsvm = b"".join(foreign_text(make_model("linear", labels=(1.0, -1.0)), "libsvm"))
    last = libsvm.rstrip().rsplit(b" ", 1)[-1].split(b":")[0]
    for text in (libsvm, LIBSVM):
        grown = text.replace(b" " + last + b":", f" {index}:".encode())
        assert grown != text
        work_of(load_foreign_model, grown)
        assert work_of(load_foreign_model, grown)[1] < 3 << 20  # blocks of the reader
