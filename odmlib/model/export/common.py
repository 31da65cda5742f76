"""What all targets have in common: the models that they can hold, and scaling built in."""

from __future__ import annotations

from typing import Any

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.data.scaling import Scaling
from odmlib.errors import ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.model.functions import KernelFunction, LinearFunction, RoutedFunction
from odmlib.model.model import Model
from odmlib.model.probability import COUPLING_ENOUGH, HAIR, LARGEST

PRECISIONS = {"float64": np.float64, "float32": np.float32}
# hair, end of the coupling and largest exponent of model/probability.py in these types
HAIRS = {"float64": (HAIR, COUPLING_ENOUGH, LARGEST), "float32": (2.0**-20, 1e-5, 1e30)}
WIDEST = 1 << 24  # features of a row, which is dense in every target


def check_precision(precision: str) -> None:
    if precision not in PRECISIONS:
        raise ParameterError(f"precision must be one of {', '.join(PRECISIONS)}, found {precision!r}")


def exportable(model: Model, target: str) -> LinearFunction | KernelFunction:
    """The model's function; ParameterError where the target cannot hold it."""
    function = model.function
    if isinstance(function, RoutedFunction):
        raise ParameterError(f"a model of several regions (partition dc) cannot become {target}")
    if not isinstance(function, LinearFunction | KernelFunction):
        raise ParameterError(
            f"a model with precomputed kernel cannot become {target}: it holds no vectors, and nothing there "
            "could compute the kernel values"
        )
    if not 1 <= model.n_features <= WIDEST:
        raise ParameterError(
            f"a model of {model.n_features} features cannot become {target}, which takes dense rows of 1 to "
            f"{WIDEST} features; models of LIBSVM get their number of features from --features"
        )
    return function


def constants_of(function: LinearFunction | KernelFunction) -> Floats:
    """What is added to each output in the end."""
    if isinstance(function, LinearFunction):
        with np.errstate(over="ignore", invalid="ignore"):  # refused by `rounded`
            return function.bias * function.bias_weights - function.offsets
    return -function.offsets


def formula_of(function: LinearFunction | KernelFunction) -> KernelFormula | None:
    """The kernel; None for a function that needs none."""
    return function.formula if isinstance(function, KernelFunction) else None


def range_tables(scaling: Scaling, n_features: int) -> tuple[Floats, Floats]:
    """Minimum and maximum of every feature; both 0 for features that scaling drops."""
    tables = np.zeros((2, n_features))
    known = scaling.columns < n_features
    varying = known & (scaling.minimum < scaling.maximum)
    columns = scaling.columns[varying]
    tables[0, columns], tables[1, columns] = scaling.minimum[varying], scaling.maximum[varying]
    return tables[0], tables[1]


def rounded(values: Any, dtype: type, what: str) -> Floats:
    """The numbers in the target's type; ParameterError where one has no place in it."""
    with np.errstate(over="ignore", under="ignore"):
        result: Floats = np.asarray(values).astype(dtype)
    if not np.isfinite(result).all():
        raise ParameterError(f"{what}: the model holds numbers too large for {np.dtype(dtype).name}")
    return result
