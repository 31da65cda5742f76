from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odmlib.errors import ParameterError
from odmlib.machines.declarations.declaration import LINEAR, MACHINE_AND_KERNEL, Declaration, Solvers
from odmlib.values import Choice, Option, Whole, with_flag, wrong

# solvers/distributed/partitions.py
PARTITIONERS = ("stratified-class", "stratified", "class", "random", "cascade", "dip", "dc")
BLOCK_PARTITIONERS = tuple(name for name in PARTITIONERS if name not in ("cascade", "dc"))
APPROXIMATIONS = ("nystrom",)
BLOCK_SOLVERS = ("lbfgs", "dsvrg", "cocoa")  # solvers/distributed/blocks.py
MAX_LEVELS, MAX_PARTITIONS = 30, 2**30
LEVELS = ("levels", "stop_level")
PARTITIONING = ("partition", "partitions", "levels", "stop_level", "landmarks")  # options about it


def solvers_of(options: Any) -> Solvers | None:
    """An approximation is trained by the linear engine."""
    return None if options.approx is None else Solvers(LINEAR.names, "approx {0.approx}")


def rules(options: Any) -> None:
    if options.approx is not None:
        negative = options.kernel == "poly" and options.coef0 < 0
        if options.kernel not in ("rbf", "poly") or negative:
            found = "poly with coef0 (-r) below 0" if negative else options.kernel
            raise ParameterError(f"approx (--approx) nystrom is for kernels rbf and poly, found {found}")
        refuse(options, "approx (--approx) nystrom", PARTITIONING)
    elif options.rank is not None:
        raise ParameterError("rank (--rank) needs approx (--approx) nystrom")
    if options.kernel == "linear":
        refuse(options, "kernel linear", LEVELS)
        if options.solver not in BLOCK_SOLVERS:
            refuse(options, "kernel linear", [name for name in PARTITIONING if name != "partitions"])
            if options.partitions is not None:
                known = ", ".join(BLOCK_SOLVERS)
                raise ParameterError(
                    f"partitions (--partitions) with kernel linear is for the solvers {known}"
                )
        elif options.partition not in BLOCK_PARTITIONERS:
            expected = f"one of {', '.join(BLOCK_PARTITIONERS)} for blocks of a linear machine"
            raise wrong("partition (--partition)", f"{expected}, found {options.partition}")
    if options.partition == "dc" and options.stop_level and options.kernel == "precomputed":
        raise ParameterError(
            "partition dc with stop_level (--stop-level) needs the rows themselves, found kernel precomputed"
        )


def refuse(options: Any, where: str, names: Sequence[str]) -> None:
    for name in names:
        if SODM.given(options, name):
            raise ParameterError(f"{with_flag(name, SODM.options[name].usage)} has no meaning with {where}")


SODM = Declaration(
    name="sodm",
    title="ODM by partitions",
    parameters=("C", "lambda", "nu", "theta"),
    linear=Solvers((*LINEAR.names, *BLOCK_SOLVERS, "csvrg"), MACHINE_AND_KERNEL),
    solvers_of=solvers_of,
    options={
        "partition": Option("stratified-class", "--partition NAME", Choice(PARTITIONERS),
            "sodm, how rows go into partitions: " + ", ".join(PARTITIONERS)),
        "partitions": Option(None, "--partitions K", Whole(1, MAX_PARTITIONS),
            "sodm: partitions at the first level (default: 2 to the power of levels, about 1000 rows each)"),
        "levels": Option(None, "--levels L", Whole(0, MAX_LEVELS),
            "sodm: merges from the first level to the whole problem, partitions = a whole number to this "
            "power"),
        "stop_level": Option(None, "--stop-level L", Whole(0, MAX_LEVELS),
            "sodm: end at this level with the average of its machines, partition dc: with a machine for "
            "every cluster (default 0, the whole problem)"),
        "landmarks": Option(None, "--landmarks S", Whole(1, MAX_PARTITIONS),
            "sodm: rows that strata form around (default: a tenth of the rows, at most 64)"),
        "approx": Option(None, "--approx NAME", Choice(APPROXIMATIONS),
            "sodm: nystrom, a machine over --rank landmarks only, for kernels on very many rows"),
        "rank": Option(None, "--rank R", Whole(1, MAX_PARTITIONS),
            "landmarks of --approx nystrom (default 500)"),
    },
    exclusive=True,
    rules=rules,
)  # fmt: skip
