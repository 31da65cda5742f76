"""Which solver trains a kernel machine.

auto: Newton's method while the kernel matrix fits the memory budget, otherwise the working-set method,
which needs only some of its rows at a time. Kernels that are not positive semidefinite (sigmoid; some
precomputed matrices; poly with coef0 < 0) go to the working set too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odmlib.errors import ParameterError
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import MarginLoss
from odmlib.solvers.control import Control, SolverResult
from odmlib.solvers.kernel_newton import NotPositive, fits, solve_kernel_newton
from odmlib.solvers.working_set import solve_working_set

Floats = NDArray[np.float64]


def solve_kernel(
    kernel: Kernel,
    y: Floats,
    costs: Floats,
    loss: MarginLoss,
    control: Control,
    *,
    solver: str = "auto",
    cache_bytes: int,
    shrinking: bool = True,
    threads: int = 1,
    seed: int = 0,
    start: Floats | None = None,
) -> SolverResult:
    """Train a kernel machine with the named solver; `start` are dual variables to begin from."""
    room = fits(kernel.n_rows, cache_bytes)
    if solver == "newton" and not room:
        raise ParameterError(
            f"solver newton needs the kernel matrix of {kernel.n_rows} rows in memory; "
            "raise cache_mb (-m) or use the working-set solver"
        )
    if solver == "newton" or (solver == "auto" and room and _surely_positive(kernel)):
        try:
            return solve_kernel_newton(
                kernel,
                y,
                costs,
                loss,
                control,
                cache_bytes=cache_bytes,
                threads=threads,
                seed=seed,
                start=start,
            )
        except NotPositive:
            if solver == "newton":
                raise ParameterError(
                    "solver newton needs a positive semidefinite kernel, which this one is not"
                ) from None
    return solve_working_set(
        kernel,
        y,
        costs,
        loss,
        control,
        cache_bytes=cache_bytes,
        shrinking=shrinking,
        threads=threads,
        seed=seed,
        start=start,
    )


def _surely_positive(kernel: Kernel) -> bool:
    formula = kernel.formula
    return formula.name in ("rbf", "linear") or (formula.name == "poly" and formula.coef0 >= 0)
