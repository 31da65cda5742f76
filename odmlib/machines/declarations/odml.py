"""ODM^L's hard margin."""

from __future__ import annotations

from typing import Any

from odmlib.errors import ParameterError
from odmlib.machines.declarations.declaration import NONSMOOTH_LINEAR, Declaration, Solvers
from odmlib.values import Option, Switch


def rules(options: Any) -> None:
    if not options.hard_margin:
        return
    if options.lambda1 is None or options.lambda2 is None:
        raise ParameterError(
            "hard_margin (--hard-margin) needs lambda1 (--lambda1) and lambda2 (--lambda2), which are "
            "multiples of C otherwise"
        )
    if options.C is not None or options.lambda_ is not None:
        raise ParameterError("hard_margin (--hard-margin) and C (-c, --lambda) cannot stand together")


ODML = Declaration(
    "odml",
    "ODM^L",
    ("C", "lambda", "lambda1", "lambda2"),
    linear=Solvers((*NONSMOOTH_LINEAR.names, "svrg"), NONSMOOTH_LINEAR.place),
    options={
        "hard_margin": Option(False, "--hard-margin", Switch(),
            "odml: no margin below 1 at all, with --lambda1 and --lambda2; an error where the classes cannot "
            "be separated"),
    },
    exclusive=True,
    rules=rules,
    leave_one_out=True,
    calibrated_by_folds=True,
)  # fmt: skip
