from __future__ import annotations

from odmlib.machines.declarations.declaration import Declaration, refuse_class_options
from odmlib.values import Number, Option

ODMR = Declaration(
    name="odmr",
    title="regression",
    parameters=("C", "lambda", "nu", "epsilon"),
    options={
        "epsilon": Option(0.1, "--epsilon E", Number(0),
            "odmr: residuals up to this size cost nothing; -p means the same there"),
    },
    exclusive=True,
    flags={"theta": "epsilon"},
    defaults={"nu": 1.0},
    rules=refuse_class_options,
    learns="targets",
    leave_one_out=True,
)  # fmt: skip
