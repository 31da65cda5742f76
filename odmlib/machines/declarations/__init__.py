"""What each machine declares of itself: its parameters, options, solvers and rules. A new machine is an entry
below, and a module with its code in odmlib/machines; options of its own have a module of this name here."""

from __future__ import annotations

from odmlib.machines.declarations.declaration import (
    KERNEL,
    MACHINE_AND_KERNEL,
    NONSMOOTH_LINEAR,
    Declaration,
    Solvers,
)
from odmlib.machines.declarations.kmomd import KMOMD
from odmlib.machines.declarations.mcodm import MCODM
from odmlib.machines.declarations.odml import ODML
from odmlib.machines.declarations.odmo import ODMO
from odmlib.machines.declarations.odmr import ODMR
from odmlib.machines.declarations.sodm import SODM
from odmlib.machines.declarations.ssodm import SSODM

SVM = Declaration("svm", "C-SVM", ("C", "lambda"), linear=NONSMOOTH_LINEAR)
ODM = Declaration(
    "odm",
    "ODM",
    ("C", "lambda", "nu", "theta"),
    kernel=Solvers((*KERNEL.names, "dcd"), MACHINE_AND_KERNEL),
    leave_one_out=True,
)

# the place of a machine is its number for -s, and stays so
DECLARATIONS: dict[str, Declaration] = {
    machine.name: machine for machine in (SVM, ODML, ODM, MCODM, KMOMD, SSODM, SODM, ODMR, ODMO)
}
