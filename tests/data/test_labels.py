from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odmlib.data.labels import format_label, python_label, read_labels, show_labels, write_labels


@pytest.mark.parametrize(
    ("label", "text"),
    [(1.0, "1"), (-1.0, "-1"), (0.0, "0"), (-0.0, "0"), (1.5, "1.5"), (0.1, "0.1"), (3e9, "3000000000"),
     (9007199254740991.0, "9007199254740991"), (2.0**53, "9007199254740992"), (2.0**63, "9223372036854775808"), (1e300, "1e+300"), (1e-7, "1e-07"), (10, "10")],
)  # fmt: skip
def test_known_labels(label, text):
    assert format_label(label) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_reads_back_to_the_same_number(label):
    assert struct.pack("d", float(format_label(label))) == struct.pack("d", label + 0.0)


@pytest.mark.parametrize(
    ("label", "plain"),
    [(np.float64(2), 2), (np.float64(2.5), 2.5), (np.int8(-3), -3), (np.bool_(True), True), (np.str_("a"), "a"),
     (b"a", "a"), ("a", "a"), (True, True), (2.0**53, 2**53), (2.0**63, 2**63), (1e300, 1e300)],
)  # fmt: skip
def test_plain_labels(label, plain):
    found = python_label(label)
    assert found == plain
    assert type(found) is type(plain)


def test_labels_in_messages():
    assert show_labels(np.array([1.0, -1.0, 0.5])) == "1, -1, 0.5"
    assert show_labels(np.arange(20)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..."


CHARACTERS = "ab01.- \n\r\t\0\"'\\/[]{},:\x85\u2028éß猫\U0001f408\ud800"


@given(st.lists(st.text(CHARACTERS), min_size=1, max_size=5))
def test_any_text_survives(texts):
    kind, written = write_labels(np.array(texts, dtype=object))
    assert kind == "mixed"
    assert "\n" not in written
    assert read_labels(kind, written).tolist() == texts


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_any_number_survives(numbers):
    kind, written = write_labels(np.array(numbers))
    assert kind == "float"
    assert read_labels(kind, written).tolist() == numbers


@given(st.text(CHARACTERS + "truefalsnINy+", max_size=30), st.sampled_from(["float", "int", "unsigned", "bool", "str", "mixed", "other"]))
def test_reading_anything_gives_labels_or_a_value_error(text, kind):
    try:
        labels = read_labels(kind, text)
    except ValueError:
        return
    assert labels.ndim == 1
