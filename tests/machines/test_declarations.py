"""What machines declare of themselves, and that their code is where the declaration says."""

from __future__ import annotations

import pytest

from odmlib.machines.declarations import DECLARATIONS
from odmlib.machines.training import fitter_of
from odmlib.names import LEAVE_ONE_OUT_MACHINES, MACHINES, SEMI_SUPERVISED_MACHINES
from odmlib.options import TrainOptions
from odmlib.parameters import PARAMETERS, parameter_names


def test_numbers_of_machines_never_change():
    """They stand in scripts (-s 2)."""
    assert MACHINES[:9] == ("svm", "odml", "odm", "mcodm", "kmomd", "ssodm", "sodm", "odmr", "odmo")
    assert SEMI_SUPERVISED_MACHINES == ("ssodm",)
    assert LEAVE_ONE_OUT_MACHINES == ("odml", "odm", "odmr")


@pytest.mark.parametrize("name", MACHINES)
def test_a_declaration_is_complete(name):
    machine = DECLARATIONS[name]
    assert machine.name == name
    assert machine.title in TrainOptions.__dataclass_fields__["machine"].metadata["help"]
    assert callable(fitter_of(name))
    assert set(parameter_names(name)) <= set(PARAMETERS)
    for solvers in (machine.linear, machine.kernel):
        assert solvers.names[0] == "auto"
    for option in machine.options.values():
        assert option.default is None or option.kind.fault(option.default) is None
