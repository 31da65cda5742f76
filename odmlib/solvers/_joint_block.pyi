import numpy as np
from numpy.typing import NDArray

from odmlib.solvers._joint import JointMultipliers

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

def proximal_rows(
    state: JointMultipliers,
    rows: Rows,
    t: float,
    scores: Floats,
    centre: Floats,
    zeta: Floats,
    beta: Floats,
    v: Floats,
) -> None: ...
def block_gap(
    state: JointMultipliers, rows: Rows, scores: Floats, zeta: Floats, beta: Floats
) -> tuple[float, float]: ...
def kernel_times(K: Floats, x: Floats, n_classes: int) -> Floats: ...
def count_unknowns(zeta: Floats, beta: Floats) -> int: ...
def newton_direction(
    state: JointMultipliers,
    rows: Rows,
    K: Floats,
    t: float,
    zeta: Floats,
    beta: Floats,
    residual: Floats,
    image: Floats,
    threads: int,
) -> Floats | None: ...
