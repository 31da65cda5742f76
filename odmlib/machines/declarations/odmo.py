from __future__ import annotations

from odmlib.machines.declarations.declaration import Declaration, refuse_class_options
from odmlib.values import Number

ODMO = Declaration(
    name="odmo",
    title="novelty detection",
    parameters=("C", "lambda", "nu", "theta"),
    kinds={"nu": Number(0, 1, open_low=True, open_high=True)},
    defaults={"nu": 0.1, "theta": 0.0},
    rules=refuse_class_options,
    learns="one class",
)
