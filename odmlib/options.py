"""The one table of training options: names, flags, defaults, ranges and help.

`odmlib.train` takes its keywords from here and `odm-train` its flags; docs/parameters.md says the same.
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
from odmlib.names import (
    APPROXIMATIONS,
    BALANCES,
    KERNELS,
    MACHINES,
    PARTITIONERS,
    RELAXATIONS,
)
from odmlib.parameters import MAX_DEGREE, PARAMETERS

BLOCK_SOLVERS = ("lbfgs", "dsvrg", "cocoa")  # of sodm: solvers/distributed.py
SOLVERS = {  # per kind of kernel
    "linear": ("auto", "newton", "dcd", "blocks", "svrg"),
    "linear with a hinge": ("auto", "dcd", "interior-point"),
    "kernel": ("auto", "working-set"),
    "sodm linear": ("auto", "newton", "dcd", "blocks", "svrg", *BLOCK_SOLVERS, "csvrg"),
    "kmomd linear": ("auto", "newton", "pairs"),
    "kmomd kernel": ("auto", "pairs"),
    "ssodm": ("auto", "master", "mp", "smp"),
}
HINGED_MACHINES = ("svm", "odml")
KMOMD_LAMBDA = 0.1  # unless lambda or C is given
BIASED_KERNELS = ("linear", "poly")  # a bias of 1 unless told otherwise
MAX_CACHE_MB = 2**40
MAX_LEVELS, MAX_PARTITIONS = 30, 2**30
SODM_OPTIONS = ("partition", "partitions", "levels", "stop_level", "landmarks", "approx", "rank")


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


def _balance(text: str) -> str | float | dict[float, float]:
    if ":" not in text:
        return text if text.isalpha() else _number(text)
    fractions: dict[float, float] = {}
    for part in text.split(","):
        label, colon, fraction = part.partition(":")
        if not colon:
            raise ValueError(f"expected LABEL:FRACTION, found '{part}'")
        if _number(label) in fractions:
            raise ValueError(f"label {label} stands twice in '{text}'")
        fractions[_number(label)] = _number(fraction)
    return fractions


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
        "machine, number or name: 0 svm (C-SVM), 1 odml (ODM^L), 2 odm (ODM), 3 mcodm (multi-class ODM), "
        "4 kmomd (KM-OMD), 5 ssodm (semi-supervised ODM), 6 sodm (ODM by partitions)",
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
    C: float | None = _option(
        None,
        "-c --C",
        "C: weight of one row's loss (default 1); ssodm: of one labeled row's (default: from lambda1)",
        _number,
        "C",
    )
    lambda_: float | None = _option(
        None,
        "--lambda",
        "the papers' weight instead of C: lambda = C x rows; kmomd: from 0 (hard margin) to 1 (centroids), "
        "C = (1-lambda)/lambda (default 0.1)",
        _number,
        "L",
    )
    lambda1: float | None = _option(
        None,
        "--lambda1",
        "odml: total weight of the margins' variance (default: lambda); "
        "ssodm: of the labeled rows (default 100)",
        _number,
        "L",
    )
    lambda2: float | None = _option(
        None,
        "--lambda2",
        "odml: total weight of the margins' mean (default: lambda); ssodm: of the unlabeled rows "
        "(default: lambda1/10, lambda1 if balance gives fractions)",
        _number,
        "L",
    )
    nu: float = _option(
        0.5, "-n --nu", "nu: weight of deviations above the band relative to below, 0 to 1", _number, "NU"
    )
    theta: float = _option(
        0.2, "-p --theta", "theta: half-width of the loss-free band, 0 <= theta < 1", _number, "T"
    )
    threshold: str = _option(
        "midpoint",
        "--threshold",
        "kmomd: midpoint of the nearest points, kkt (bias of the equal L2-loss SVM), or none "
        "(with --lambda 1: the average-margin classifier)",
        str,
        "NAME",
    )
    decision_scale: str = _option(
        "unit",
        "--decision-scale",
        "kmomd: decision values are distances (unit) or an SVM's, with margins of 1 (svm)",
        str,
        "NAME",
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
        "(default ovr for linear and kmomd, else ovo)",
        str,
        "NAME",
    )
    probability: bool = _option(
        False,
        "-b --probability",
        "calibrated probabilities for predict_proba and odm-predict -b 1, 0 or 1",
        _switch,
        "0|1",
    )
    relaxation: str = _option(
        "majorise",
        "--relaxation",
        "mcodm, loss above the band: majorise (the objective falls), or frozen (the published scheme)",
        str,
        "NAME",
    )
    unlabeled: Any = _option(0, "--unlabeled", "ssodm: the label of rows without a label", _number, "LABEL")
    balance: str | float | Mapping = _option(
        "band",
        "--balance",
        "ssodm, positive part of the unlabeled rows: band (as in the labels, within two standard errors), "
        "equal (as in the labels), or known: FRACTION of the first label, or LABEL:FRACTION,...",
        _balance,
        "B",
    )
    max_disagree: float | None = _option(
        None,
        "--max-disagree",
        "ssodm: return the supervised machine if the labels found differ from its own on a larger part of "
        "the unlabeled rows (default 0.1, 1 if balance gives fractions)",
        _number,
        "PART",
    )
    max_cuts: int | None = _option(
        None,
        "--max-cuts",
        "ssodm: most label assignments that join the relaxation, 0: no relaxation (default 10; 0 for linear "
        "data of more than a million values and for kernel rows that do not fit into the cache)",
        _whole,
        "N",
    )
    partition: str = _option(
        "stratified-class",
        "--partition",
        "sodm, how rows go into partitions: " + ", ".join(PARTITIONERS),
        str,
        "NAME",
    )
    partitions: int | None = _option(
        None,
        "--partitions",
        "sodm: partitions at the first level (default: 2 to the power of levels, about 1000 rows each)",
        _whole,
        "K",
    )
    levels: int | None = _option(
        None,
        "--levels",
        "sodm: merges from the first level to the whole problem, partitions = a whole number to this power",
        _whole,
        "L",
    )
    stop_level: int | None = _option(
        None,
        "--stop-level",
        "sodm: end at this level with the average of its machines, partition dc: with a machine for every "
        "cluster (default 0, the whole problem)",
        _whole,
        "L",
    )
    landmarks: int | None = _option(
        None,
        "--landmarks",
        "sodm: rows that strata form around (default: a tenth of the rows, at most 64)",
        _whole,
        "S",
    )
    approx: str | None = _option(
        None,
        "--approx",
        "sodm: nystrom, a machine over --rank landmarks only, for kernels on very many rows",
        str,
        "NAME",
    )
    rank: int | None = _option(None, "--rank", "landmarks of --approx nystrom (default 500)", _whole, "R")
    solver: str = _option(
        "auto",
        "--solver",
        "auto; linear: newton, dcd, blocks, svrg (sodm also csvrg, and on partitions lbfgs, dsvrg, cocoa; "
        "svm, odml: dcd, interior-point; kmomd: newton, pairs); "
        "other kernels: working-set (kmomd: pairs); ssodm, its relaxation: master, mp (mirror prox), "
        "smp (stochastic)",
        str,
        "NAME",
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
        """Value of the bias feature, 0 for none; kmomd has a threshold, and constants cancel in it."""
        if self.machine == "kmomd":
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
        """(C, lambda) when the row weights sum to `total_weight`: lambda = C total_weight.

        kmomd: C = (1-lambda) / lambda, whatever the weights."""
        if self.machine == "kmomd":
            if self.C is not None:
                return float(self.C), 1 / (1 + float(self.C))
            share = KMOMD_LAMBDA if self.lambda_ is None else float(self.lambda_)
            return (1 - share) / share if share > 0 else math.inf, share
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
    _require(options.kernel in KERNELS, options, "kernel", "one of " + ", ".join(KERNELS))
    _require_whole(options, "degree", 1, MAX_DEGREE)
    if not (isinstance(options.gamma, str) and options.gamma in ("scale", "auto")):
        _require_number(options, "gamma", 0, math.inf, open_low=True, also=", 'scale' or 'auto'")
    _require_number(options, "coef0", -math.inf, math.inf)
    if options.C is not None and options.lambda_ is not None:
        raise ParameterError("C (-c) and lambda_ (--lambda) say the same thing; give one of them")
    if options.C is not None:
        _require_number(options, "C", 0, math.inf, open_low=True)
    if options.lambda_ is not None and options.machine == "kmomd":
        _require_number(options, "lambda_", 0, 1)
    elif options.lambda_ is not None:
        _require_number(options, "lambda_", 0, math.inf, open_low=True)
    for name in ("lambda1", "lambda2"):
        if getattr(options, name) is not None:
            _require_number(options, name, 0, math.inf)
    for name in ("threshold", "decision_scale"):
        choices = PARAMETERS[name].choices
        _require(getattr(options, name) in choices, options, name, "one of " + ", ".join(choices))
    if options.machine == "kmomd":
        _check_kmomd(options)
    _require_number(options, "nu", 0, 1)
    _require_number(options, "theta", 0, 1, open_high=True)
    if options.bias is not None:
        _require_number(options, "bias", -math.inf, math.inf)
    _require_number(options, "tol", 0, 1, open_low=True)
    _require_number(options, "cache_mb", 0, MAX_CACHE_MB, open_low=True)
    kind, where = "linear" if options.kernel == "linear" else "kernel", f"kernel {options.kernel}"
    if kind == "linear" and options.machine in HINGED_MACHINES:
        kind, where = "linear with a hinge", f"machine {options.machine} and {where}"
    if kind == "linear" and options.machine == "sodm":
        kind, where = "sodm linear", f"machine sodm and {where}"
    if options.approx is not None:
        kind, where = "linear", f"approx {options.approx}"
    if options.machine == "kmomd":
        kind, where = f"kmomd {kind}", f"machine kmomd and {where}"
    if options.machine == "ssodm":
        kind, where = "ssodm", "machine ssodm"
    _require(
        options.solver in SOLVERS[kind],
        options,
        "solver",
        f"one of {', '.join(SOLVERS[kind])} for {where}",
    )
    if options.multiclass is not None:
        _require(options.multiclass in ("ovo", "ovr"), options, "multiclass", "ovo or ovr")
    _require(options.relaxation in RELAXATIONS, options, "relaxation", "one of " + ", ".join(RELAXATIONS))
    if options.machine == "mcodm":
        _check_whole(options)
    _check_balance(options)
    if options.max_disagree is not None:
        _require_number(options, "max_disagree", 0, 1)
    if options.max_cuts is not None:
        _require_whole(options, "max_cuts", 0, 1000)
    if options.machine == "ssodm":
        _check_ssodm(options)
    _check_partitions(options)
    for name in ("shrinking", "probability"):
        _require(getattr(options, name) in (False, True), options, name, "0 or 1")
    if options.threads is not None:
        _require_whole(options, "threads", 1, MAX_THREADS)
    _require_whole(options, "seed", 0, 2**63 - 1)
    if options.max_iter is not None:
        _require_whole(options, "max_iter", 1, 2**62)
    if options.time_limit is not None:
        _require_number(options, "time_limit", 0, math.inf, open_low=True)
    _check_class_weight(options.class_weight)
    _require(options.callback is None or callable(options.callback), options, "callback", "a function")


def _check_kmomd(options: TrainOptions) -> None:
    _, share = options.weights_for(1.0)
    if options.threshold == "none" and share != 1:
        raise ParameterError(
            f"threshold none (the average-margin classifier) needs lambda (--lambda) 1, found {share:g}"
        )
    if share == 1 and (options.threshold == "kkt" or options.decision_scale == "svm"):
        what = "threshold kkt" if options.threshold == "kkt" else "decision_scale svm"
        raise ParameterError(f"{what} needs lambda (--lambda) below 1: at 1 the equal SVM has C = 0")
    if share == 0 and options.solver == "newton":
        raise ParameterError("solver newton needs lambda (--lambda) above 0; the hard margin takes pairs")


def _check_partitions(options: TrainOptions) -> None:
    _require(options.partition in PARTITIONERS, options, "partition", "one of " + ", ".join(PARTITIONERS))
    for name, low in (("partitions", 1), ("levels", 0), ("stop_level", 0), ("landmarks", 1), ("rank", 1)):
        if getattr(options, name) is not None:
            _require_whole(options, name, low, MAX_LEVELS if "level" in name else MAX_PARTITIONS)
    if options.approx is not None:
        _require(options.approx in APPROXIMATIONS, options, "approx", "one of " + ", ".join(APPROXIMATIONS))
    if options.machine != "sodm":
        for name in SODM_OPTIONS:
            if _given(options, name):
                raise ParameterError(
                    f"{flag_of(name)} is for machine sodm (-s 6), found machine {options.machine}"
                )
    _check_approximation(options)
    if options.kernel == "linear":
        _check_linear_partitions(options)
    if options.partition == "dc" and options.stop_level and options.kernel == "precomputed":
        raise ParameterError(
            "partition dc with stop_level (--stop-level) needs the rows themselves, found kernel precomputed"
        )


def _check_approximation(options: TrainOptions) -> None:
    if options.approx is None:
        if options.rank is not None:
            raise ParameterError(f"{flag_of('rank')} needs approx (--approx) nystrom")
        return
    negative = options.kernel == "poly" and options.coef0 < 0
    if options.kernel not in ("rbf", "poly") or negative:
        found = "poly with coef0 (-r) below 0" if negative else options.kernel
        raise ParameterError(f"{flag_of('approx')} nystrom is for kernels rbf and poly, found {found}")
    for name in SODM_OPTIONS[:5]:
        if _given(options, name):
            raise ParameterError(f"{flag_of(name)} has no meaning with approx (--approx) nystrom")


def _check_linear_partitions(options: TrainOptions) -> None:
    for name in ("partition", "levels", "stop_level", "landmarks"):
        if _given(options, name):
            raise ParameterError(f"{flag_of(name)} has no meaning with kernel linear")
    if options.partitions is not None and options.solver not in BLOCK_SOLVERS:
        known = ", ".join(BLOCK_SOLVERS)
        raise ParameterError(f"{flag_of('partitions')} with kernel linear is for the solvers {known}")


def _given(options: TrainOptions, name: str) -> bool:
    return getattr(options, name) != TrainOptions.__dataclass_fields__[name].default


def _check_whole(options: TrainOptions) -> None:
    """What a machine that trains all classes in one problem cannot do."""
    _require(options.multiclass is None, options, "multiclass", "left out: mcodm trains all classes together")
    _require(options.solver != "svrg", options, "solver", "one of auto, newton, dcd for machine mcodm")


def _check_balance(options: TrainOptions) -> None:
    wish = options.balance
    expected = "band, equal, a fraction between 0 and 1, or LABEL:FRACTION,..."
    if isinstance(wish, str):
        _require(wish in BALANCES[:2], options, "balance", expected)
        return
    fractions = list(wish.values()) if isinstance(wish, Mapping) else [wish]
    numbers = [_as_float(fraction) for fraction in fractions]
    _require(bool(numbers) and all(0 < number < 1 for number in numbers), options, "balance", expected)


def _check_ssodm(options: TrainOptions) -> None:
    if options.C is not None and options.lambda1 is not None:
        raise ParameterError("C (-c) and lambda1 (--lambda1) say the same thing; give one of them")
    _require(options.lambda_ is None, options, "lambda_", "left out: ssodm has lambda1 and lambda2")
    if options.lambda1 is not None:
        _require_number(options, "lambda1", 0, math.inf, open_low=True)
    _require(options.multiclass in (None, "ovr"), options, "multiclass", "ovr for machine ssodm")
    _require(options.init is None, options, "init", "left out: ssodm starts from its labeled rows")
    if options.solver in ("mp", "smp"):
        _require_number(options, "nu", 0, 1, open_low=True)


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
