"""What one machine can train and a cluster cannot; light, so that a mistake is told before Spark starts."""

from __future__ import annotations

from odmlib.errors import ParameterError
from odmlib.options import TrainOptions

PARTITIONERS = ("stratified-class", "stratified", "class", "random", "cascade")  # of those of one machine


ENGINES = JOBS, BARRIER = "jobs", "barrier"  # how rounds reach the rows


def check_options(options: TrainOptions, engine: str = JOBS) -> None:
    """ParameterError for what is not available on Spark."""
    if engine not in ENGINES:
        raise ParameterError(f"engine must be one of {', '.join(ENGINES)}, found {engine}")
    if engine == BARRIER and options.kernel != "linear" and options.approx is None:
        raise ParameterError('engine "barrier" is for kernel linear and for approx nystrom')
    if options.multiclass not in (None, "ovr"):
        raise ParameterError(f"on Spark more than two classes are trained as ovr, found {options.multiclass}")
    kernel = options.kernel
    negative = kernel == "poly" and options.coef0 < 0
    if kernel not in ("linear", "rbf", "poly") or negative:
        found = "poly with coef0 (-r) below 0" if negative else kernel
        raise ParameterError(f"on Spark the kernel must be linear, rbf or poly, found {found}")
    if options.approx is None and options.partition not in PARTITIONERS:
        known = ", ".join(PARTITIONERS)
        raise ParameterError(f"on Spark the partition must be one of {known}, found {options.partition}")
    if options.gamma == "mean":
        raise ParameterError("on Spark gamma (-g) must be a number, scale or auto, found mean")
    by_weights = kernel == "linear" or options.approx is not None
    solvers: tuple[str, ...] = ("auto", "newton", "lbfgs") if by_weights else ("auto",)
    if kernel == "linear" and engine == BARRIER:
        solvers += ("dsvrg",)
    elif kernel == "linear" and options.solver == "dsvrg":
        raise ParameterError("on Spark solver dsvrg needs engine barrier")
    if options.solver not in solvers:
        raise ParameterError(f"on Spark the solver must be {', '.join(solvers)}; found {options.solver}")
