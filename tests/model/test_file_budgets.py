"""What a model file costs to read is linear in its size, whatever stands in it."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from odmlib.data.labels import are_distinct, read_labels, write_labels
from odmlib.errors import ModelFormatError
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
