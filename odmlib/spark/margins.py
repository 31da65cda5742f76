"""The margin distribution of rows in many places: model/margin_parts.py."""

from odmlib.model.margin_parts import MarginPart, margin_part, margins_together

__all__ = ["MarginPart", "margin_part", "margins_together"]
