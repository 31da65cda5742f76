"""Linear machines on a core of the rows that stands for all of them (CSVRG; docs/internals/mathematics.md).

A greedy cover of radius r: rows are taken in their order, and one becomes a core row if no core row of its
class lies within r of it; else the nearest core row stands for it. The machine of the core rows, each with
the costs of all it stands for, is what stochastic steps on gradients at the core rows tend to (the published
CSVRG). It is found here by dual coordinate descent, which needs no step size. It is off by O(r), which no
further step mends. So the gap on all rows is looked at (1/2 |grad P|^2, as in newton.py), and while it is too
large r is halved, and the next core starts from the weights of the last. Once the core would be half of the
rows there is nothing to gain from it: SVRG on all rows (svrg.py) does the rest.

A cover costs a product per row and core row: this pays for rows that lie in dense clumps in few dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Places
from odmlib._core.rows import Rows
from odmlib._core.vectors import inner
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.solvers.control import Control, Resources, SolverResult, WarmStart
from odmlib.solvers.linear.dcd import solve_dcd
from odmlib.solvers.linear.svrg import solve_svrg
from odmlib.solvers.problem import LinearProblem


@dataclass(frozen=True)
class CoresetTuning:
    first_radius: float = 0.5  # in units of the rows' root mean square distance from their mean
    most_rows: float = 0.5  # in the core
    core_tol: float = 0.3  # part of the tolerance to which the first core is solved ...
    tol_factor: float = 0.3  # ... and each next one to this part of that: only the core may be left to mend
    smallest_tol: float = 1e-13
    max_iterations: int = 10_000
    chunk_rows: int = 256  # looked at together


TUNING = CoresetTuning()


def solve_csvrg(
    problem: LinearProblem,
    control: Control,
    resources: Resources,
    start: WarmStart | None = None,
    tuning: CoresetTuning = TUNING,
) -> SolverResult:
    """Train a linear machine from the start's weights. `details`: of the last core."""
    rows, y, costs, threads = problem.rows, problem.y, problem.costs, resources.threads
    dataset = rows.dataset()
    known = None if start is None else start.weights
    w = np.zeros(rows.n_columns) if known is None else known.copy()
    mean_norm = float(dataset.squared_norms().mean()) if dataset.n_rows else 0.0
    means = np.bincount(dataset.indices, dataset.values, minlength=dataset.n_features) / dataset.n_rows
    radius = tuning.first_radius * math.sqrt(max(0.0, mean_norm - inner(means, means)))
    iterations, core_tol = 0, tuning.core_tol * control.tol
    details: dict[str, Any] = {"core": 0, "radius": radius}
    while True:
        margins = problem.margins(w, threads)
        losses, slopes, _ = problem.slopes_and_curvatures(margins, threads)
        gradient = w + problem.weights_of(slopes, threads)
        primal, gap = 0.5 * inner(w, w) + losses, 0.5 * inner(gradient, gradient)
        status = control.step(iterations, primal, gap, tuning.max_iterations)
        if status is not None:
            break
        kernel = Kernel(KernelFormula("linear"), dataset, threads)
        most = int(tuning.most_rows * len(y))
        found = cover(kernel, y > 0, radius, most, tuning.chunk_rows, control.out_of_time)
        left = control.left(iterations, least=1)
        if found is None:
            rest_control = control.part(max_iter=left, callback=control.callback)
            rest = solve_svrg(problem, rest_control, resources, WarmStart(w))
            rest.iterations += iterations
            rest.solver = "csvrg+svrg"
            rest.details |= details
            return rest
        core, stands_for = found
        core_costs = np.bincount(stands_for, costs, minlength=len(core)).astype(np.float64)
        part = LinearProblem(Rows(dataset.take(core), rows.bias), y[core], core_costs, problem.loss)
        # silent: the core's gap is not that of all rows
        core_control = control.part(tol=core_tol, max_iter=left)
        some = solve_dcd(part, core_control, resources, WarmStart(duals=part.start_duals(w, threads)))
        iterations += max(1, some.iterations)
        w, details = some.weights, {"core": len(core), "radius": radius}
        radius, core_tol = radius / 2, max(tuning.smallest_tol, core_tol * tuning.tol_factor)
    found_here = {"weights": w, "margins": margins, "details": details}
    return SolverResult.at(status, primal, gap, iterations, "csvrg", **found_here)


def cover(
    kernel: Kernel,
    positive: NDArray[np.bool_],
    radius: float,
    most: int,
    chunk_rows: int,
    out_of_time: Callable[[], object] = lambda: None,
) -> tuple[Places, Places] | None:
    """Core rows, and for every row the place of its core row among them; `chunk_rows` are looked at together.

    None: more than `most` would be needed, or the time is over.
    """
    norms, reach = kernel.diagonal(), radius * radius
    core: list[int] = []
    stands_for = np.empty(kernel.n_rows, dtype=np.int64)
    for rows in (np.flatnonzero(positive), np.flatnonzero(~positive)):
        before = len(core)
        for begin in range(0, len(rows), chunk_rows):
            chunk = rows[begin : begin + chunk_rows]
            known = np.array(core[before:], dtype=np.int64)
            nearest = np.full(len(chunk), np.inf)
            if len(known):
                products = kernel.block(chunk, onto=kernel.restricted(known), wide=True)
                distances = norms[chunk][:, None] + norms[known] - 2 * products
                places = np.argmin(distances, axis=1)
                nearest = distances[np.arange(len(chunk)), places]
                stands_for[chunk] = before + places
            new = np.flatnonzero(nearest > reach)
            among = kernel.block(chunk[new], onto=kernel.restricted(chunk[new]), wide=True)
            among = norms[chunk[new]][:, None] + norms[chunk[new]] - 2 * among
            fresh: list[int] = []  # positions in `new`
            for k, row in enumerate(chunk[new].tolist()):
                distance = among[k, fresh]
                if fresh and distance.min() <= reach:
                    stands_for[row] = len(core) - len(fresh) + int(distance.argmin())
                else:
                    stands_for[row] = len(core)
                    core.append(row)
                    fresh.append(k)
            if len(core) > most or out_of_time() is not None:
                return None
    return np.array(core, dtype=np.int64), stands_for
