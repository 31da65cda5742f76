import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib.kernels.cache import RowCache
from odmlib.losses.loss import MarginLoss

class WorkingSet:
    duals: NDArray[np.float64]
    scores: NDArray[np.float64]
    gains: NDArray[np.float64]
    weights: NDArray[np.float64]
    newton_steps: int
    sweeps: int
    def __init__(
        self,
        source: RowCache | Rows,
        loss: MarginLoss,
        y: NDArray[np.float64],
        costs: NDArray[np.float64],
        threads: int,
        seed: int,
        max_size: int,
    ) -> None: ...
    def measure(self) -> tuple[float, float]: ...
    def resume(self, duals: NDArray[np.float64], scores: NDArray[np.float64]) -> None: ...
    def add_rows(self, rows: NDArray[np.int64], duals: NDArray[np.float64]) -> None: ...
    def prefetch(self, rows: NDArray[np.int64]) -> None: ...
    def prefer_held(self, factor: float) -> None: ...
    def begin(self, rows: NDArray[np.int64], fraction: float, enough: float) -> None: ...
    def improve(self) -> bool: ...
    def commit(self) -> None: ...
    def rebuild(self) -> None: ...

def add_block(
    block: NDArray, factors: NDArray[np.float64], sums: NDArray[np.float64], threads: int
) -> None: ...
