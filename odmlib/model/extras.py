"""Optional parts of a model: lists of numbers under a key of the header, such as probability parameters.

A model without one is as good as before; a file that has it twice, too short or too long is refused. A new
optional part adds its key to EXTRAS, with the count of numbers it holds.
"""

from __future__ import annotations

import math

COUNTS = ("outputs", "classes")  # or a number

EXTRAS: dict[str, str | int] = {
    "probability_slopes": "outputs",  # model/probability.py
    "probability_offsets": "outputs",
    "theta_midpoint": "outputs",  # kmomd: both thresholds, of which `offsets` are one
    "theta_kkt": "outputs",
    "norm": "outputs",  # kmomd: |v| of the nearest points' difference
    "semi_supervised": "outputs",  # ssodm: 0 where the supervised machine was returned
    "relaxed": "outputs",  # ssodm: J of the relaxation
    "disagreement": "outputs",  # ssodm: share of the unlabeled rows labeled against the supervised machine
    "positives_low": "outputs",  # ssodm: bounds for the number of positive labels among the unlabeled rows
    "positives_high": "outputs",
}


def read_extra(text: str, count: int) -> tuple[float, ...]:
    """The numbers of an extra; ValueError unless there are `count` finite ones."""
    words = text.split()
    if len(words) != count:
        raise ValueError
    numbers = tuple(float(word) for word in words)
    if "_" in text or not all(math.isfinite(number) for number in numbers):
        raise ValueError
    return numbers


def extra_count(key: str, n_outputs: int, n_classes: int) -> int:
    """How many numbers the extra has in a model of this size."""
    count = EXTRAS[key]
    if isinstance(count, int):
        return count
    return {"outputs": n_outputs, "classes": n_classes}[count]
