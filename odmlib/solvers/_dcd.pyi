import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib.losses.loss import MarginLoss

Floats = NDArray[np.float64]

class Sweeper:
    n_active: int
    duals: Floats
    weights: Floats
    def __init__(
        self,
        rows: Rows,
        loss: MarginLoss,
        y: Floats,
        costs: Floats,
        duals: Floats,
        weights: Floats,
        seed: int,
    ) -> None: ...
    def restore(self) -> None: ...
    def rows_aside(self) -> NDArray[np.int64]: ...
    def begin_sweep(self) -> None: ...
    def advance(self, nonzeros: int, slack: float) -> float: ...
