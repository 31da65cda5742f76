from __future__ import annotations

from typing import Any

from odmlib.machines.declarations.declaration import Declaration, refuse_class_options
from odmlib.machines.declarations.many_rows import (
    LANDMARKS_ONLY,
    PARTITIONING,
    rules_without_classes,
    solvers_of,
)
from odmlib.values import Number


def rules(options: Any) -> None:
    refuse_class_options(options)
    rules_without_classes(options)


ODMO = Declaration(
    name="odmo",
    title="novelty detection",
    parameters=("C", "lambda", "nu", "theta"),
    options={**PARTITIONING, **LANDMARKS_ONLY},
    exclusive=True,
    kinds={"nu": Number(0, 1, open_low=True, open_high=True)},
    defaults={"nu": 0.1, "theta": 0.0},
    rules=rules,
    solvers_of=solvers_of,
    learns="one class",
)
