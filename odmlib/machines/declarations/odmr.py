from __future__ import annotations

from typing import Any

from odmlib.machines.declarations.declaration import Declaration, refuse_class_options
from odmlib.machines.declarations.many_rows import (
    LANDMARKS_ONLY,
    PARTITIONING,
    rules_without_classes,
    solvers_of,
)
from odmlib.values import Number, Option


def rules(options: Any) -> None:
    refuse_class_options(options)
    rules_without_classes(options)


ODMR = Declaration(
    name="odmr",
    title="regression",
    parameters=("C", "lambda", "nu", "epsilon"),
    options={
        "epsilon": Option(0.1, "--epsilon E", Number(0),
            "odmr: residuals up to this size cost nothing; -p means the same there"),
        **PARTITIONING,
        **LANDMARKS_ONLY,
    },
    exclusive=True,
    flags={"theta": "epsilon"},
    defaults={"nu": 1.0},
    rules=rules,
    solvers_of=solvers_of,
    learns="targets",
    leave_one_out=True,
)  # fmt: skip
