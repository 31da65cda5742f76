from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odmlib.errors import ParameterError
from odmlib.machines.declarations.declaration import Declaration, Solvers
from odmlib.values import Kind, Number, Option, Switch, Whole, as_float, read_number, shown_value, wrong

BALANCES = ("band", "equal", "fraction")  # in model files; solvers/semi/assignments.py
SOLVERS = Solvers(("auto", "master", "mp", "smp"), "machine {0.machine}")


class Balance(Kind):
    """band, equal, a fraction, or fractions by label."""

    def fault(self, value: Any) -> str | None:
        if isinstance(value, str):
            good = value in BALANCES[:2]
        else:
            fractions = list(value.values()) if isinstance(value, Mapping) else [value]
            good = bool(fractions) and all(0 < as_float(fraction) < 1 for fraction in fractions)
        expected = "band, equal, a fraction between 0 and 1, or LABEL:FRACTION,..."
        return None if good else f"{expected}, found {shown_value(value)}"

    def read(self, text: str) -> str | float | dict[float, float]:
        if ":" not in text:
            return text if text.isalpha() else read_number(text)
        fractions: dict[float, float] = {}
        for part in text.split(","):
            label, colon, fraction = part.partition(":")
            if not colon:
                raise ValueError(f"expected LABEL:FRACTION, found '{part}'")
            if read_number(label) in fractions:
                raise ValueError(f"label {label} stands twice in '{text}'")
            fractions[read_number(label)] = read_number(fraction)
        return fractions


class Label(Kind):
    """A number on the command line, anything in Python."""

    def read(self, text: str) -> float:
        return read_number(text)


def rules(options: Any) -> None:
    if options.C is not None and options.lambda1 is not None:
        raise ParameterError("C (-c) and lambda1 (--lambda1) say the same thing; give one of them")
    if options.lambda_ is not None:
        raise wrong(
            "lambda_ (--lambda)",
            f"left out: ssodm has lambda1 and lambda2, found {shown_value(options.lambda_)}",
        )
    if options.lambda1 == 0:
        raise wrong("lambda1 (--lambda1)", f"above 0, found {options.lambda1}")
    if options.multiclass == "ovo":
        raise wrong("multiclass (--multiclass)", f"ovr for machine ssodm, found {options.multiclass!r}")
    if options.init is not None:
        raise wrong("init (--init)", f"left out: ssodm starts from its labeled rows, found {options.init!r}")
    if options.raw and options.solver != "smp":
        raise ParameterError(f"raw (--raw) is for solver smp, found {options.solver}")
    if options.raw and options.max_cuts is not None:
        raise ParameterError("raw (--raw) and max_cuts (--max-cuts) cannot stand together: raw has no cuts")
    if options.solver in ("mp", "smp") and options.nu == 0:
        raise wrong("nu (-n)", f"above 0 and at most 1, found {options.nu}")


SSODM = Declaration(
    name="ssodm",
    title="semi-supervised ODM",
    parameters=("C", "lambda1", "lambda2", "nu", "theta", "balance", "max_disagree"),
    linear=SOLVERS,
    kernel=SOLVERS,
    options={
        "unlabeled": Option(0, "--unlabeled LABEL", Label(), "ssodm: the label of rows without a label"),
        "balance": Option("band", "--balance B", Balance(),
            "ssodm, positive part of the unlabeled rows: band (as in the labels, within two standard "
            "errors), equal (as in the labels), or known: FRACTION of the first label, or "
            "LABEL:FRACTION,..."),
        "max_disagree": Option(None, "--max-disagree PART", Number(0, 1),
            "ssodm: return the supervised machine if the labels found differ from its own on a larger part "
            "of the unlabeled rows (default 0.1, 1 if balance gives fractions)"),
        "max_cuts": Option(None, "--max-cuts N", Whole(0, 1000),
            "ssodm: most label assignments that join the relaxation, 0: no relaxation (default 10; 0 for "
            "linear data of more than a million values and for kernel rows that do not fit into the cache)"),
        "raw": Option(False, "--raw", Switch(),
            "ssodm, solver smp: the published algorithm without our working set, polish and safeguard; it "
            "seldom comes near the gap"),
    },
    kinds={"nu": Number(0, 1)},  # above 1, the best labels do not follow from sorting the scores
    rules=rules,
    class_scheme="ovr",
    semi_supervised=True,
)  # fmt: skip
