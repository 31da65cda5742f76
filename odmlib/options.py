"""The one table of training options: names, flags, defaults, ranges and help.

A machine declares its own options, its solvers and its rules in machines/declarations; here are those that
machines share, and the check of all of them.
`odmlib.train` takes its keywords from here and `odm-train` its flags; docs/parameters.md says the same.
LIBSVM's numbers for machines and kernels are positions in MACHINES and KERNELS of names.py.
"""

# ruff: noqa: RUF009 (`_option` and `_declared` are dataclasses.field)

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from odmlib.errors import ParameterError
from odmlib.machines.declarations import DECLARATIONS, Declaration
from odmlib.machines.declarations.kmomd import KMOMD_LAMBDA
from odmlib.names import KERNEL_NUMBERS, KERNELS, MACHINES
from odmlib.parameters import MAX_DEGREE
from odmlib.threads import MAX_THREADS, resolve_threads
from odmlib.values import (
    Choice,
    ClassWeight,
    Function,
    Kind,
    Number,
    Switch,
    Whole,
    shown_value,
    with_flag,
    wrong,
)

__all__ = ["KERNELS", "KMOMD_LAMBDA", "MACHINES", "TrainOptions", "flag_of", "option_fields"]

BIASED_KERNELS = ("linear", "poly")  # a bias of 1 unless told otherwise
MAX_CACHE_MB = 2**40
DEFAULTS = {"nu": 0.5, "theta": 0.2}  # of options that some machines have another one for
LIBLINEAR = dict.fromkeys(("11", "12", "13"), "LIBLINEAR's regression is -s 7 -t linear here")
LIBLINEAR["21"] = "LIBLINEAR's one-class SVM is -s 8 -t linear here"  # numbers of -s that we do not have
GAMMA_WORDS = ("scale", "auto", "mean")
ANY, FROM_0, ABOVE_0 = Number(), Number(0), Number(0, open_low=True)


def _option(default: Any, usage: str, kind: Kind, help: str) -> Any:
    """A field of TrainOptions with what the command line needs."""
    flags = tuple(word for word in usage.split() if word.startswith("-"))
    metadata = {"kind": kind, "help": help, "usage": usage, "flags": flags}
    return dataclasses.field(default=default, metadata=metadata)


def _declared(name: str) -> Any:
    """The field of an option that a machine declares as its own."""
    return _option(*next(one.options[name] for one in DECLARATIONS.values() if name in one.options))


def _solver_help() -> str:
    """The solvers by kind of kernel, and the machines that have them."""
    kinds = []
    for kind in ("linear", "kernel"):
        machines: dict[tuple[str, ...], list[str]] = {}
        for machine in DECLARATIONS.values():
            machines.setdefault(getattr(machine, kind).names[1:], []).append(machine.name)
        kinds.append("; ".join(f"{', '.join(names)} ({', '.join(who)})" for names, who in machines.items()))
    return f"auto; kernel linear: {kinds[0]}; other kernels: {kinds[1]}"


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Everything a user may say about training; made, checked and completed in one place."""

    # a table: what an option is on its first line, the help below
    # fmt: off
    machine: str = _option("odm", "-s --machine M", Choice(MACHINES, numbered="machine", elsewhere=LIBLINEAR),
        "machine, number or name: "
        + ", ".join(f"{k} {one.name} ({one.title})" for k, one in enumerate(DECLARATIONS.values())))
    kernel: str = _option("rbf", "-t --kernel K", Choice(KERNELS, numbered="kernel"),
        "kernel, number or name: 0 linear u'v, 1 poly (g u'v + r)^d, 2 rbf exp(-g |u-v|^2), 3 sigmoid "
        "tanh(g u'v + r), 4 precomputed")
    degree: int = _option(3, "-d --degree D", Whole(1, MAX_DEGREE), "degree d of poly")
    gamma: float | str = _option("scale", "-g --gamma G", Number(0, open_low=True, words=GAMMA_WORDS),
        "gamma g: a number, 'scale' = 1/(features x variance of X), 'auto' = 1/features or 'mean' = 1/(2 x "
        "squared mean distance between rows)")
    coef0: float = _option(0.0, "-r --coef0 R", ANY, "coef0 r of poly and sigmoid")
    C: float | None = _option(None, "-c --C C", ABOVE_0,
        "C: weight of one row's loss (default 1); ssodm: of one labeled row's (default: from lambda1)")
    lambda_: float | None = _option(None, "--lambda L", ABOVE_0,
        "the papers' weight instead of C: lambda = C x rows; kmomd: from 0 (hard margin) to 1 (centroids), "
        "C = (1-lambda)/lambda (default 0.1)")
    lambda1: float | None = _option(None, "--lambda1 L", FROM_0,
        "odml: total weight of the margins' variance (default: lambda); ssodm: of the labeled rows (default "
        "100)")
    lambda2: float | None = _option(None, "--lambda2 L", FROM_0,
        "odml: total weight of the margins' mean (default: lambda); ssodm: of the unlabeled rows (default: "
        "lambda1/10, lambda1 if balance gives fractions)")
    nu: float = _option(None, "-n --nu NU", FROM_0,
        "nu: weight of deviations above the band relative to below, at least 0 (default 0.5; odmr: 1); "
        "odmo: part of new rows like the training rows that may be called novel (default 0.1)")
    theta: float = _option(None, "-p --theta T", Number(0, 1, open_high=True),
        "theta: half-width of the loss-free band, 0 <= theta < 1 (default 0.2; odmo: 0); odmr: epsilon")
    epsilon: float = _declared("epsilon")
    threshold: str = _declared("threshold")
    decision_scale: str = _declared("decision_scale")
    bias: float | None = _option(None, "-B --bias B", ANY,
        "bias: constant feature of this value (linear), its square added to the kernel (others); negative: "
        "none (default 1 for linear and poly, none for others)")
    tol: float = _option(1e-3, "-e --tol E", Number(0, 1, open_low=True),
        "relative duality gap at which training stops")
    cache_mb: float = _option(200.0, "-m --cache-mb MB", Number(0, MAX_CACHE_MB, open_low=True),
        "kernel cache in MB, a hard cap")
    shrinking: bool = _option(True, "-h --shrinking 0|1", Switch(), "shrinking, 0 or 1")
    multiclass: str | None = _option(None, "--multiclass NAME", Choice(("ovo", "ovr"), "ovo or ovr"),
        "more than two classes: ovo (one-vs-one) or ovr (one-vs-rest) (default ovo; ovr for kmomd, "
        "ssodm, and linear with more features than rows or too many pairs)")
    probability: bool = _option(False, "-b --probability 0|1", Switch(),
        "calibrated probabilities for predict_proba and odm-predict -b 1, 0 or 1")
    coverage: bool = _option(False, "--coverage 0|1", Switch(),
        "numbers for label sets with predict_set and odm-predict --coverage, 0 or 1")
    relaxation: str = _declared("relaxation")
    unlabeled: Any = _declared("unlabeled")
    balance: str | float | Mapping = _declared("balance")
    max_disagree: float | None = _declared("max_disagree")
    max_cuts: int | None = _declared("max_cuts")
    raw: bool = _declared("raw")
    hard_margin: bool = _declared("hard_margin")
    partition: str = _declared("partition")
    partitions: int | None = _declared("partitions")
    levels: int | None = _declared("levels")
    stop_level: int | str | None = _declared("stop_level")
    pass_up: str = _declared("pass_up")
    landmarks: int | None = _declared("landmarks")
    approx: str | None = _declared("approx")
    rank: int | None = _declared("rank")
    eta: float | None = _declared("eta")
    inner_steps: int | None = _declared("inner_steps")
    solver: str = _option("auto", "--solver NAME", Kind(), _solver_help())
    threads: int | None = _option(None, "-j --threads N", Whole(1, MAX_THREADS),
        "threads (default: the cores this process may use)")
    seed: int = _option(0, "--seed N", Whole(0, 2**63 - 1), "seed of everything random")
    max_iter: int | None = _option(None, "--max-iter N", Whole(1, 2**62), "stop after this many iterations")
    time_limit: float | None = _option(None, "--time-limit S", ABOVE_0, "stop after this many seconds")
    max_vectors: int | None = _option(None, "--max-vectors N", Whole(1, 2**62),
        "compress the trained model to at most this many support vectors (odm-compress does more)")
    class_weight: Mapping | str | None = _option(None, "", ClassWeight(),
        "weight of each class: a mapping from label to weight, or 'balanced'")
    sample_weight: Any = _option(None, "", Kind(), "weight of each row")
    init: Any = _option(None, "--init MODEL", Kind(), "model to start from")
    callback: Callable | None = _option(None, "", Function(),
        "called with a Progress after every iteration; a true answer stops training")
    # fmt: on

    def __post_init__(self) -> None:
        if self.max_iter == -1:  # scikit-learn's word for no limit
            object.__setattr__(self, "max_iter", None)
        for option in option_fields():
            value, kind = getattr(self, option.name), option.metadata["kind"]
            if value is None and option.default is None:
                continue
            if option.name != "machine":  # which is the first, and known from then on
                kind = self.declaration.kinds.get(option.name, kind)
            if (fault := kind.fault(value)) is not None:
                raise wrong(flag_of(option.name), fault)
        for name in DEFAULTS:
            if getattr(self, name) is None:
                object.__setattr__(self, name, self.default_of(name))
        if self.C is not None and self.lambda_ is not None:
            raise ParameterError("C (-c) and lambda_ (--lambda) say the same thing; give one of them")
        if self.max_vectors is not None and self.kernel in ("linear", "precomputed"):
            raise ParameterError(
                f"max_vectors (--max-vectors) is for kernels poly, rbf and sigmoid, found {self.kernel}"
            )
        if self.max_vectors is not None and self.declaration.learns != "classes":
            raise ParameterError(
                f"max_vectors (--max-vectors) is for machines that tell classes apart, found {self.machine}; "
                "use approx nystrom (--approx nystrom --rank N) or odmlib.compress (odm-compress)"
            )
        self._refuse_options_of_others()
        names, place = self.declaration.solvers(self)
        if self.solver not in names:
            fault = f"one of {', '.join(names)} for {place.format(self)}, found {shown_value(self.solver)}"
            raise wrong(flag_of("solver"), fault)
        self.declaration.rules(self)

    def _refuse_options_of_others(self) -> None:
        for number, machine in enumerate(DECLARATIONS.values()):
            if machine.exclusive:
                for name in machine.options:
                    if name not in self.declaration.options and machine.given(self, name):
                        whose = f"machine {machine.name} (-s {number})"
                        raise ParameterError(f"{flag_of(name)} is for {whose}, found machine {self.machine}")

    @property
    def declaration(self) -> Declaration:
        """What the machine declares of itself."""
        return DECLARATIONS[self.machine]

    def default_of(self, name: str) -> Any:
        """What an option is for this machine where it is not given."""
        default = DEFAULTS.get(name, TrainOptions.__dataclass_fields__[name].default)
        return self.declaration.defaults.get(name, default)

    def but(self, **changes: Any) -> TrainOptions:
        """A copy with values that need no check: a callback, or numbers computed from checked ones."""
        other = copy.copy(self)
        vars(other).update(changes)
        return other

    @property
    def bias_value(self) -> float:
        """Value of the bias feature, 0 for none."""
        if not self.declaration.has_bias:
            return 0.0
        if self.bias is None:
            return 1.0 if self.kernel in BIASED_KERNELS else 0.0
        return max(0.0, float(self.bias))

    @property
    def cache_bytes(self) -> int:
        return int(self.cache_mb * 2**20)

    @property
    def n_threads(self) -> int:
        return resolve_threads(self.threads)

    def weights_for(self, total_weight: float) -> tuple[float, float]:
        """(C, lambda) when the row weights sum to `total_weight`."""
        return self.declaration.weights(self, total_weight)


def without_effect(options: TrainOptions, given: Collection[str]) -> Iterator[str]:
    """A sentence for each given option that this machine or this kernel does not look at."""
    machine, numbers = options.declaration, KERNEL_NUMBERS[options.kernel]
    for name in ("degree", "gamma", "coef0"):
        if name in given and name not in numbers:
            yield f"{flag_of(name)} has no effect with kernel {options.kernel}"
    own = {name for other in DECLARATIONS.values() for name in other.options}
    for name in given:
        unused = name in ("nu", "theta", "lambda1", "lambda2") and name not in machine.parameters
        unused = unused or (name == "bias" and not machine.has_bias)
        if unused or (name in own and name not in machine.options):
            yield f"{flag_of(name)} has no effect with machine {machine.name}"


def option_fields() -> tuple[dataclasses.Field, ...]:
    return dataclasses.fields(TrainOptions)


def flag_of(name: str) -> str:
    """How messages name an option: `theta (-p)`."""
    return with_flag(name, TrainOptions.__dataclass_fields__[name].metadata["usage"])
