from __future__ import annotations

from typing import Any

from odmlib.errors import ParameterError
from odmlib.machines.declarations.declaration import LINEAR, MACHINE_AND_KERNEL, Declaration, Solvers
from odmlib.machines.declarations.many_rows import (
    AUTO,
    LANDMARKS_ONLY,
    MAX_LEVELS,
    PARTITIONERS,
    PARTITIONING,
    approximation_rules,
    refuse,
    solvers_of,
)
from odmlib.values import Choice, Number, Option, Whole, wrong

BLOCK_PARTITIONERS = tuple(name for name in PARTITIONERS if name not in ("cascade", "dc"))
BLOCK_SOLVERS = ("lbfgs", "dsvrg", "cocoa")  # solvers/distributed/blocks.py
LEVELS = ("levels", "stop_level", "pass_up")
ABOUT_PARTITIONS = (*PARTITIONING, "stop_level", "pass_up")
STAGES = ("eta", "inner_steps")  # of dsvrg


def linear_by_levels(options: Any) -> bool:
    """Whether a linear kernel is solved by levels as other kernels are: where their options are given."""
    asked = options.solver == "auto" and options.kernel == "linear" and options.approx is None
    return asked and any(SODM.given(options, name) for name in ABOUT_PARTITIONS)


def rules(options: Any) -> None:
    approximation_rules(options)
    if options.solver != "dsvrg":
        refuse(options, f"solver {options.solver}", STAGES)
    if options.kernel == "linear" and not linear_by_levels(options):
        where = f"kernel linear and solver {options.solver}"
        refuse(options, where, LEVELS if options.solver in BLOCK_SOLVERS else ABOUT_PARTITIONS)
        if options.partition not in BLOCK_PARTITIONERS:
            expected = f"one of {', '.join(BLOCK_PARTITIONERS)} for blocks of a linear machine"
            raise wrong("partition (--partition)", f"{expected}, found {options.partition}")
    if options.stop_level == AUTO and options.partition == "dc":
        raise ParameterError(
            "stop_level (--stop-level) auto has no meaning with partition dc, whose clusters are no parts of "
            "one machine"
        )
    if options.partition == "cascade" and options.pass_up == "all":
        raise ParameterError("pass_up (--pass-up) all has no meaning with partition cascade")
    if options.partition == "dc" and options.stop_level and options.kernel == "precomputed":
        raise ParameterError(
            "partition dc with stop_level (--stop-level) needs the rows themselves, found kernel precomputed"
        )


SODM = Declaration(
    name="sodm",
    title="ODM by partitions",
    parameters=("C", "lambda", "nu", "theta"),
    linear=Solvers((*LINEAR.names, *BLOCK_SOLVERS, "csvrg"), MACHINE_AND_KERNEL),
    solvers_of=solvers_of,
    options={
        **PARTITIONING,
        "stop_level": Option(None, "--stop-level L", Whole(0, MAX_LEVELS, AUTO),
            "sodm: end at this level with the average of its machines, partition dc: with a machine for "
            "every cluster; auto: at the first level whose average reaches the gap -e on all rows (default "
            "0, the whole problem)"),
        "pass_up": Option("support", "--pass-up NAME", Choice(("support", "all")),
            "sodm, rows that take part in the next level: support (vectors), or all (as published)"),
        **LANDMARKS_ONLY,
        "eta": Option(None, "--eta E", Number(0, open_low=True),
            "sodm, solver dsvrg: step size of all stages, as published (default: begins at a bound and is "
            "halved when a stage fails)"),
        "inner_steps": Option(None, "--inner-steps T", Whole(1, 2**62),
            "sodm, solver dsvrg: stochastic steps of a stage (default: a quarter of the rows)"),
    },
    exclusive=True,
    rules=rules,
)  # fmt: skip
