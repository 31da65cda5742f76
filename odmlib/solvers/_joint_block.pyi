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

class NewtonSystem:
    cost: float
    couplings: Floats
    def __init__(
        self,
        state: JointMultipliers,
        rows: Rows,
        K: Floats,
        t: float,
        zeta: Floats,
        beta: Floats,
        threads: int,
    ) -> None: ...
    def prepare(self) -> None: ...
    def eliminate(self, l: int) -> bool: ...
    def solve(self, right: Floats) -> Floats: ...

def solve_directly(
    state: JointMultipliers,
    rows: Rows,
    K: Floats,
    t: float,
    zeta: Floats,
    beta: Floats,
    right: Floats,
    threads: int,
) -> Floats | None: ...
