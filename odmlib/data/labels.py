"""How labels are written."""

from __future__ import annotations


def format_label(label: float) -> str:
    """The shortest text that reads back to the same number; whole numbers without a fraction.

    >>> format_label(1.0), format_label(-0.0), format_label(0.1), format_label(3e9)
    ('1', '0', '0.1', '3000000000')
    """
    return repr(float(label) + 0.0).removesuffix(".0")  # + 0.0 turns -0.0 into 0.0
