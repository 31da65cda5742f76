"""The numbers and choices of each machine, as reports and model files name them.

For the trainer, the report and the model file's reader and writer. Light: no numpy.
"""

from __future__ import annotations

from odmlib.machines.declarations import DECLARATIONS
from odmlib.names import BALANCES
from odmlib.values import Choice, Kind, Number

MAX_DEGREE = 100  # of the poly kernel

PARAMETERS: dict[str, Kind] = dict.fromkeys(("C", "lambda", "lambda1", "lambda2", "nu", "bias"), Number(0))
PARAMETERS |= {"theta": Number(0, 1, open_high=True), "tol": Number(0, 1)}
PARAMETERS |= {name: own.kind for machine in DECLARATIONS.values() for name, own in machine.options.items()}
PARAMETERS["balance"] = Choice(BALANCES)  # files do not say which fraction

MACHINE_PARAMETERS = {name: machine.parameters for name, machine in DECLARATIONS.items()}


def parameter_names(machine: str) -> tuple[str, ...]:
    """All of a machine's parameters, in the order of reports and files; those of the kernel come behind."""
    return (*MACHINE_PARAMETERS[machine], "bias", "tol")


def parameter_kind(machine: str, name: str) -> Kind:
    """What a parameter may hold; a machine may have a range of its own."""
    return DECLARATIONS[machine].kinds.get(name, PARAMETERS[name])
