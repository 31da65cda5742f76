"""Options of kernel machines for very many rows: partitions, and landmarks only (machines/many_rows.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odmlib.errors import ParameterError
from odmlib.machines.declarations.declaration import LINEAR, Solvers
from odmlib.values import Choice, Option, Whole, with_flag

# solvers/distributed/partitions.py
PARTITIONERS = ("stratified-class", "stratified", "class", "random", "cascade", "dip", "dc")
APPROXIMATIONS = ("nystrom",)
MAX_LEVELS, MAX_PARTITIONS = 30, 2**30
AUTO = "auto"  # stop_level

PARTITIONING = {
    "partition": Option("stratified-class", "--partition NAME", Choice(PARTITIONERS),
        "sodm, odmr, odmo, how rows go into partitions: " + ", ".join(PARTITIONERS)),
    "partitions": Option(None, "--partitions K", Whole(1, MAX_PARTITIONS),
        "sodm, odmr, odmo: partitions at the first level (default: 2 to the power of levels, about 1000 rows "
        "each)"),
    "levels": Option(None, "--levels L", Whole(0, MAX_LEVELS),
        "sodm, odmr, odmo: merges from the first level to the whole problem, partitions = a whole number to "
        "this power"),
    "landmarks": Option(None, "--landmarks S", Whole(1, MAX_PARTITIONS),
        "sodm, odmr, odmo: rows that strata form around (default: a tenth of the rows, at most 64)"),
}  # fmt: skip
LANDMARKS_ONLY = {
    "approx": Option(None, "--approx NAME", Choice(APPROXIMATIONS),
        "sodm, odmr, odmo: nystrom, a machine over --rank landmarks only, for kernels on very many rows"),
    "rank": Option(None, "--rank R", Whole(1, MAX_PARTITIONS),
        "landmarks of --approx nystrom (default 500)"),
}  # fmt: skip


def solvers_of(options: Any) -> Solvers | None:
    """An approximation is trained by the linear engine."""
    return None if options.approx is None else Solvers(LINEAR.names, "approx {0.approx}")


def refuse(options: Any, where: str, names: Sequence[str]) -> None:
    machine = options.declaration
    for name in names:
        if name in machine.options and machine.given(options, name):
            flag = with_flag(name, machine.options[name].usage)
            raise ParameterError(f"{flag} has no meaning with {where}")


def approximation_rules(options: Any) -> None:
    if options.approx is not None:
        negative = options.kernel == "poly" and options.coef0 < 0
        if options.kernel not in ("rbf", "poly") or negative:
            found = "poly with coef0 (-r) below 0" if negative else options.kernel
            raise ParameterError(f"approx (--approx) nystrom is for kernels rbf and poly, found {found}")
        refuse(options, "approx (--approx) nystrom", (*PARTITIONING, "stop_level", "pass_up"))
    elif options.rank is not None:
        raise ParameterError("rank (--rank) needs approx (--approx) nystrom")


def rules_without_classes(options: Any) -> None:
    """For machines whose solution must be that of all rows: residuals of left-out rows rest on it."""
    approximation_rules(options)
    if options.kernel == "linear":
        refuse(options, "kernel linear", tuple(PARTITIONING))
    if options.partition == "cascade":
        raise ParameterError(
            f"partition (--partition) cascade does not solve the whole problem, which {options.machine} needs"
        )
