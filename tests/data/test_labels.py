from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odmlib.data.labels import format_label


@pytest.mark.parametrize(
    ("label", "text"),
    [(1.0, "1"), (-1.0, "-1"), (0.0, "0"), (-0.0, "0"), (1.5, "1.5"), (0.1, "0.1"), (3e9, "3000000000"),
     (9007199254740991.0, "9007199254740991"), (1e300, "1e+300"), (1e-7, "1e-07"), (10, "10")],
)  # fmt: skip
def test_known_labels(label, text):
    assert format_label(label) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_reads_back_to_the_same_number(label):
    assert struct.pack("d", float(format_label(label))) == struct.pack("d", label + 0.0)
