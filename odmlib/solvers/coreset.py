"""Linear machines on a core of the rows that stands for all of them (CSVRG, spec/sodm.md section 6).

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib._core.vectors import inner
from odmlib.kernels.formula import KernelFormula
from odmlib.kernels.kernel import Kernel
from odmlib.losses.loss import MarginLoss
from odmlib.losses.sums import slopes_and_curvatures
from odmlib.solvers.control import Control, SolverResult, relative_gap
from odmlib.solvers.dcd import best_multiple, duals_from_margins, solve_dcd
from odmlib.solvers.svrg import solve_svrg

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

FIRST_RADIUS = 0.5  # in units of the rows' root mean square distance from their mean
MOST_ROWS = 0.5  # in the core
CHUNK_ROWS = 256  # looked at together
CORE_TOL = 0.3  # part of the tolerance to which the first core is solved ...
TOL_FACTOR = 0.3  # ... and each next one to this part of that: the core may be all there is to mend
SMALLEST_TOL = 1e-13
MAX_ITERATIONS = 10_000


def solve_csvrg(
    rows: Rows,
    y: Floats,
    costs: Floats,
    loss: MarginLoss,
    control: Control,
    *,
    threads: int = 1,
    seed: int = 0,
    start: Floats | None = None,
) -> SolverResult:
    """Train a linear machine; `start` are weights to begin from. `details`: of the last core."""
    dataset = rows.dataset()
    w = np.zeros(rows.n_columns) if start is None else start.copy()
    mean_norm = float(dataset.squared_norms().mean()) if dataset.n_rows else 0.0
    means = np.bincount(dataset.indices, dataset.values, minlength=dataset.n_features) / dataset.n_rows
    radius = FIRST_RADIUS * math.sqrt(max(0.0, mean_norm - inner(means, means)))
    iterations, core_tol = 0, CORE_TOL * control.tol
    details: dict[str, Any] = {"core": 0, "radius": radius}
    while True:
        margins = y * rows.product(w, threads)
        losses, slopes, _ = slopes_and_curvatures(loss, margins, costs, threads)
        gradient = w + rows.transposed_product(y * slopes, threads)
        primal, gap = 0.5 * inner(w, w) + losses, 0.5 * inner(gradient, gradient)
        status = control.step(iterations, primal, gap, MAX_ITERATIONS)
        if status is not None:
            break
        kernel = Kernel(KernelFormula("linear"), dataset, threads)
        found = cover(kernel, y > 0, radius, int(MOST_ROWS * len(y)), control.out_of_time)
        if found is None:
            rest = solve_svrg(
                rows, y, costs, loss, _Rest(control, iterations), threads=threads, seed=seed, start=w
            )
            rest.iterations += iterations
            rest.solver = "csvrg+svrg"
            rest.details |= details
            return rest
        core, stands_for = found
        part = Rows(dataset.take(core), rows.bias)
        core_costs = np.bincount(stands_for, costs, minlength=len(core)).astype(np.float64)
        duals = duals_from_margins(y[core] * part.product(w, threads), core_costs, loss, threads)
        duals = best_multiple(part, y[core], core_costs, loss, duals, threads)
        budget = _Rest(control, iterations, core_tol)
        some = solve_dcd(part, y[core], core_costs, loss, budget, threads=threads, seed=seed, start=duals)
        assert some.weights is not None
        iterations += max(1, some.iterations)
        w, details = some.weights, {"core": len(core), "radius": radius}
        radius, core_tol = radius / 2, max(SMALLEST_TOL, core_tol * TOL_FACTOR)
    return SolverResult(
        status,
        primal,
        primal - gap,
        relative_gap(primal, gap),
        iterations,
        "csvrg",
        w,
        None,
        margins,
        details,
    )


class _Rest(Control):
    """The run's clock and what is left of its iterations, with a tolerance of its own."""

    def __init__(self, control: Control, done: int, tol: float | None = None):
        left = None if control.max_iter is None else max(1, control.max_iter - done)
        told = control.callback if tol is None else None  # the core's gap is not that of all rows
        super().__init__(control.tol if tol is None else tol, left, control.time_limit, told)
        self.started, self.control = control.started, control

    def out_of_time(self) -> str | None:
        return self.control.out_of_time()


def cover(
    kernel: Kernel,
    positive: NDArray[np.bool_],
    radius: float,
    most: int,
    out_of_time: Callable[[], object] = lambda: None,
) -> tuple[Places, Places] | None:
    """Core rows, and for every row the place of its core row among them.

    None: more than `most` would be needed, or the time is over.
    """
    norms, reach = kernel.diagonal(), radius * radius
    core: list[int] = []
    stands_for = np.empty(kernel.n_rows, dtype=np.int64)
    for rows in (np.flatnonzero(positive), np.flatnonzero(~positive)):
        before = len(core)
        for begin in range(0, len(rows), CHUNK_ROWS):
            chunk = rows[begin : begin + CHUNK_ROWS]
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
