"""The one table of training options: names, flags, defaults, ranges and help.

`odmlib.train` takes its keywords from here and `odm-train` its flags; README's table says the same.
LIBSVM's numbers for machines and kernels are positions in MACHINES and KERNELS of names.py.
"""

# ruff: noqa: RUF009 (`_option` is dataclasses.field)

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from odmlib._core.threads import MAX_THREADS, resolve_threads
from odmlib.errors import ParameterError
from odmlib.names import KERNELS, MACHINES, READY_MACHINES, RELAXATIONS

SOLVERS = {  # per kind of kernel
    "linear": ("auto", "newton", "dcd", "svrg"),
    "kernel": ("auto", "working-set"),
}
BIASED_KERNELS = ("linear", "poly")  # a bias of 1 unless told otherwise
MAX_CACHE_MB = 2**40
MAX_DEGREE = 100


def _option(
    default: Any, flags: str, help: str, convert: Callable[[str], Any] | None = None, metavar: str = ""
) -> Any:
    """A field of TrainOptions with what the command line needs; no flags: Python only."""
    metadata = {"flags": tuple(flags.split()), "help": help, "convert": convert, "metavar": metavar}
    return dataclasses.field(default=default, metadata=metadata)


def _numbered(names: tuple[str, ...], what: str) -> Callable[[str], str]:
    """Reader of a name or of LIBSVM's number for it."""

    def convert(text: str) -> str:
        if text.isascii() and text.isdigit() and int(text) < len(names):
            return names[int(text)]
        if text in names:
            return text
        known = ", ".join(f"{number} {name}" for number, name in enumerate(names))
        raise ValueError(f"unknown {what} '{text}' (known: {known})")

    return convert


def _number(text: str) -> float:
    try:
        return float(_plain(text))
    except ValueError:
        raise ValueError(f"expected a number, found '{text}'") from None


def _whole(text: str) -> int:
    try:
        return int(_plain(text))
    except ValueError:
        raise ValueError(f"expected a whole number, found '{text}'") from None


def _plain(text: str) -> str:
    """Refuse what only Python takes for a number: `1_000`, digits of other scripts."""
    if "_" in text or not text.isascii():
        raise ValueError
    return text


def _gamma(text: str) -> float | str:
    return text if text in ("scale", "auto") else _number(text)


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError(f"expected 0 or 1, found '{text}'")
    return text == "1"


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Everything a user may say about training; made, checked and completed in one place."""

    machine: str = _option(
        "odm",
        "-s --machine",
        "machine, number or name: 2 odm (ODM), 3 mcodm (multi-class ODM)",
        _numbered(MACHINES, "machine"),
        "M",
    )
    kernel: str = _option(
        "rbf",
        "-t --kernel",
        "kernel, number or name: 0 linear u'v, 1 poly (g u'v + r)^d, 2 rbf exp(-g |u-v|^2), "
        "3 sigmoid tanh(g u'v + r), 4 precomputed",
        _numbered(KERNELS, "kernel"),
        "K",
    )
    degree: int = _option(3, "-d --degree", "degree d of poly", _whole, "D")
    gamma: float | str = _option(
        "scale",
        "-g --gamma",
        "gamma g: a number, 'scale' = 1/(features x variance of X) or 'auto' = 1/features",
        _gamma,
        "G",
    )
    coef0: float = _option(0.0, "-r --coef0", "coef0 r of poly and sigmoid", _number, "R")
    C: float | None = _option(None, "-c --C", "C: weight of one row's loss (default 1)", _number, "C")
    lambda_: float | None = _option(
        None, "--lambda", "the papers' total weight instead of C: lambda = C x rows", _number, "L"
    )
    nu: float = _option(
        0.5, "-n --nu", "nu: weight of deviations above the band relative to below, 0 to 1", _number, "NU"
    )
    theta: float = _option(
        0.2, "-p --theta", "theta: half-width of the loss-free band, 0 <= theta < 1", _number, "T"
    )
    bias: float | None = _option(
        None,
        "-B --bias",
        "bias: constant feature of this value (linear), its square added to the kernel (others); "
        "negative: none (default 1 for linear and poly, none for others)",
        _number,
        "B",
    )
    tol: float = _option(1e-3, "-e --tol", "relative duality gap at which training stops", _number, "E")
    cache_mb: float = _option(200.0, "-m --cache-mb", "kernel cache in MB, a hard cap", _number, "MB")
    shrinking: bool = _option(True, "-h --shrinking", "shrinking, 0 or 1", _switch, "0|1")
    multiclass: str | None = _option(
        None,
        "--multiclass",
        "more than two classes: ovo (one-vs-one) or ovr (one-vs-rest) "
        "(default ovr for linear, ovo for other kernels)",
        str,
        "NAME",
    )
    relaxation: str = _option(
        "majorise",
        "--relaxation",
        "mcodm, loss above the band: majorise (the objective falls), or frozen (the published scheme)",
        str,
        "NAME",
    )
    solver: str = _option(
        "auto", "--solver", "auto; linear: newton, dcd, svrg; other kernels: working-set", str, "NAME"
    )
    threads: int | None = _option(
        None, "-j --threads", "threads (default: the cores this process may use)", _whole, "N"
    )
    seed: int = _option(0, "--seed", "seed of everything random", _whole, "N")
    max_iter: int | None = _option(None, "--max-iter", "stop after this many iterations", _whole, "N")
    time_limit: float | None = _option(None, "--time-limit", "stop after this many seconds", _number, "S")
    class_weight: Mapping | str | None = _option(
        None, "", "weight of each class: a mapping from label to weight, or 'balanced'"
    )
    sample_weight: Any = _option(None, "", "weight of each row")
    init: Any = _option(None, "--init", "model to start from", str, "MODEL")
    callback: Callable | None = _option(
        None, "", "called with a Progress after every iteration; a true answer stops training"
    )

    def __post_init__(self) -> None:
        _check(self)

    @property
    def bias_value(self) -> float:
        """Value of the bias feature, 0 for none."""
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
        """(C, lambda) when the row weights sum to `total_weight`: lambda = C total_weight."""
        if self.lambda_ is not None:
            return float(self.lambda_) / total_weight, float(self.lambda_)
        C = 1.0 if self.C is None else float(self.C)
        if math.isinf(C * total_weight):
            raise ParameterError(
                f"{flag_of('C')} is so large that the sum over the rows overflows, found {C}"
            )
        return C, C * total_weight


def option_fields() -> list[dataclasses.Field]:
    return list(dataclasses.fields(TrainOptions))


def flag_of(name: str) -> str:
    """How messages name an option: `theta (-p)`."""
    for option in option_fields():
        if option.name == name and option.metadata["flags"]:
            return f"{name} ({option.metadata['flags'][0]})"
    return name


def _check(options: TrainOptions) -> None:
    _require(options.machine in MACHINES, options, "machine", "one of " + ", ".join(MACHINES))
    if options.machine not in READY_MACHINES:
        raise ParameterError(
            f"machine {options.machine} is not part of this version yet; ready: {', '.join(READY_MACHINES)}"
        )
    _require(options.kernel in KERNELS, options, "kernel", "one of " + ", ".join(KERNELS))
    _require_whole(options, "degree", 1, MAX_DEGREE)
    if not (isinstance(options.gamma, str) and options.gamma in ("scale", "auto")):
        _require_number(options, "gamma", 0, math.inf, open_low=True, also=", 'scale' or 'auto'")
    _require_number(options, "coef0", -math.inf, math.inf)
    if options.C is not None and options.lambda_ is not None:
        raise ParameterError("C (-c) and lambda_ (--lambda) say the same thing; give one of them")
    for name in ("C", "lambda_"):
        if getattr(options, name) is not None:
            _require_number(options, name, 0, math.inf, open_low=True)
    _require_number(options, "nu", 0, 1)
    _require_number(options, "theta", 0, 1, open_high=True)
    if options.bias is not None:
        _require_number(options, "bias", -math.inf, math.inf)
    _require_number(options, "tol", 0, 1, open_low=True)
    _require_number(options, "cache_mb", 0, MAX_CACHE_MB, open_low=True)
    kind = "linear" if options.kernel == "linear" else "kernel"
    _require(
        options.solver in SOLVERS[kind],
        options,
        "solver",
        f"one of {', '.join(SOLVERS[kind])} for kernel {options.kernel}",
    )
    if options.multiclass is not None:
        _require(options.multiclass in ("ovo", "ovr"), options, "multiclass", "ovo or ovr")
    _require(options.relaxation in RELAXATIONS, options, "relaxation", "one of " + ", ".join(RELAXATIONS))
    if options.machine == "mcodm":
        _check_whole(options)
    _require(options.shrinking in (False, True), options, "shrinking", "0 or 1")
    if options.threads is not None:
        _require_whole(options, "threads", 1, MAX_THREADS)
    _require_whole(options, "seed", 0, 2**63 - 1)
    if options.max_iter is not None:
        _require_whole(options, "max_iter", 1, 2**62)
    if options.time_limit is not None:
        _require_number(options, "time_limit", 0, math.inf, open_low=True)
    _check_class_weight(options.class_weight)
    _require(options.callback is None or callable(options.callback), options, "callback", "a function")


def _check_whole(options: TrainOptions) -> None:
    """What a machine that trains all classes in one problem cannot do."""
    _require(options.multiclass is None, options, "multiclass", "left out: mcodm trains all classes together")
    _require(options.solver != "svrg", options, "solver", "one of auto, newton, dcd for machine mcodm")


def _check_class_weight(wish: Mapping | str | None) -> None:
    known = wish == "balanced" if isinstance(wish, str) else wish is None or isinstance(wish, Mapping)
    if not known:
        raise ParameterError(
            f"class_weight must be 'balanced' or a mapping from label to weight, found {wish!r}"
        )
    for label, weight in wish.items() if isinstance(wish, Mapping) else ():
        if not 0 <= _as_float(weight) < math.inf:
            raise ParameterError(
                f"class weight (-w) of {label} must be finite and at least 0, found {weight!r}"
            )


def _as_float(value: Any) -> float:
    """NaN for what is no number; text is none, even if it could be read as one."""
    try:
        return float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        return math.inf


def _require(condition: bool, options: TrainOptions, name: str, expected: str) -> None:
    if not condition:
        raise ParameterError(f"{flag_of(name)} must be {expected}, found {getattr(options, name)!r}")


def _require_number(
    options: TrainOptions,
    name: str,
    low: float,
    high: float,
    *,
    open_low: bool = False,
    open_high: bool = False,
    also: str = "",
) -> None:
    """Refuse what is no finite number of the range; infinite ends are always open."""
    value = getattr(options, name)
    if not isinstance(value, Real):
        raise ParameterError(f"{flag_of(name)} must be a number{also}, found {value!r}")
    number = _as_float(value)
    fits = math.isfinite(number) and low <= number <= high
    fits = fits and not (open_low and number == low) and not (open_high and number == high)
    if fits:
        return
    parts = []
    if math.isfinite(low):
        parts.append(f"{'above' if open_low else 'at least'} {low:g}")
    if math.isfinite(high):
        parts.append(f"{'below' if open_high else 'at most'} {high:g}")
    expected = " and ".join(parts) or "finite"
    raise ParameterError(f"{flag_of(name)} must be {expected}{also}, found {value}")


def _require_whole(options: TrainOptions, name: str, low: int, high: int) -> None:
    value = getattr(options, name)
    if not (isinstance(value, Integral) and low <= int(value) <= high):
        raise ParameterError(f"{flag_of(name)} must be a whole number from {low} to {high}, found {value!r}")
