from __future__ import annotations

from typing import Any

from odmlib.machines.declarations.declaration import Declaration, Solvers
from odmlib.values import Choice, Option, wrong

RELAXATIONS = ("majorise", "frozen")  # solvers/multiclass/linear.py


def rules(options: Any) -> None:
    if options.multiclass is not None:
        fault = f"left out: mcodm trains all classes together, found {options.multiclass!r}"
        raise wrong("multiclass (--multiclass)", fault)


MCODM = Declaration(
    name="mcodm",
    title="multi-class ODM",
    parameters=("C", "lambda", "nu", "theta", "relaxation"),
    linear=Solvers(("auto", "newton", "dcd"), "machine {0.machine}"),
    options={
        "relaxation": Option("majorise", "--relaxation NAME", Choice(RELAXATIONS),
            "mcodm, loss above the band: majorise (the objective falls), or frozen (the published scheme)"),
    },
    rules=rules,
    class_scheme="whole",
)  # fmt: skip
