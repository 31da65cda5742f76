"""Declaration: what the options, the tools and the model files must know of a machine. Light: no numpy.

Rules are written for a TrainOptions (odmlib/options.py), which is made of the declarations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from odmlib.errors import ParameterError
from odmlib.values import Kind, Option


class Solvers(NamedTuple):
    """Names for --solver, and what they are for, in the words of a message about another name."""

    names: tuple[str, ...]
    place: str = "kernel {0.kernel}"


MACHINE_AND_KERNEL = "machine {0.machine} and kernel {0.kernel}"
LINEAR = Solvers(("auto", "newton", "dcd", "blocks", "svrg"))
NONSMOOTH_LINEAR = Solvers(("auto", "dcd", "interior-point"), MACHINE_AND_KERNEL)
KERNEL = Solvers(("auto", "working-set"))


def per_row(options: Any, total_weight: float) -> tuple[float, float]:
    """(C, lambda) with lambda = C total_weight."""
    if options.lambda_ is not None:
        return float(options.lambda_) / total_weight, float(options.lambda_)
    C = 1.0 if options.C is None else float(options.C)
    if math.isinf(C * total_weight):
        raise ParameterError(f"C (-c) is so large that the sum over the rows overflows, found {C}")
    return C, C * total_weight


def refuse_class_options(options: Any) -> None:
    """For machines that know no classes."""
    for what, name, flag, given in (
        ("class weights ({}) mean", "class_weight", "-w", options.class_weight is not None),
        ("probabilities ({}) mean", "probability", "-b 1", options.probability),
        ("label sets ({}) mean", "coverage", "--coverage 1", options.coverage and options.machine != "odmr"),
        ("a class scheme ({}) means", "multiclass", "--multiclass", options.multiclass is not None),
    ):
        if given:
            why = f"machine {options.machine} tells no classes apart: {what} nothing"
            raise ParameterError(why.format(name), shell=why.format(flag))


class Declaration(NamedTuple):  # a dataclass would cost every tool half a millisecond more at its start
    """One machine; its code is the module of the same name in odmlib/machines: see machines/training.py."""

    name: str
    title: str
    parameters: tuple[str, ...]  # in reports and files, besides the bias, the tolerance and the kernel's
    linear: Solvers = LINEAR
    kernel: Solvers = KERNEL
    solvers_of: Callable[[Any], Solvers | None] = lambda options: None  # where the kernel does not decide
    options: Mapping[str, Option] = {}  # that are its own
    exclusive: bool = False  # other machines refuse its options, instead of ignoring them
    kinds: Mapping[str, Kind] = {}  # of shared options that mean something else here
    rules: Callable[[Any], None] = lambda options: None  # raises ParameterError where options contradict
    weights: Callable[[Any, float], tuple[float, float]] = per_row  # options, sum of row weights: C, lambda
    has_bias: bool = True
    class_scheme: str = "auto"  # of more than two classes: by kernel and data, or "ovr", or "whole"
    semi_supervised: bool = False  # learns from rows without a label too
    leave_one_out: bool = False  # from one fit: selection/left_out.py
    calibrated_by_folds: bool = False  # leave-one-out takes far longer than training: not for probabilities
    learns: str = "classes"  # or "targets" (regression), or "one class" (novelty detection)
    defaults: Mapping[str, Any] = {}  # of shared options that have another one here
    flags: Mapping[str, str] = {}  # whose flag is that of one of its own options here: {"theta": "epsilon"}

    def solvers(self, options: Any) -> Solvers:
        """Those that fit the kernel, or whatever else decides."""
        return self.solvers_of(options) or (self.linear if options.kernel == "linear" else self.kernel)

    def given(self, options: Any, name: str) -> bool:
        """Whether one of the machine's own options is not at its default."""
        return getattr(options, name) != self.options[name].default
