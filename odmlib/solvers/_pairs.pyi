import numpy as np
from numpy.typing import NDArray

from odmlib.kernels.cache import RowCache

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

class Pairs:
    steps: int
    newton_steps: int
    gamma: Floats
    scores: Floats
    gains: Floats
    def __init__(
        self, cache: RowCache, y: Floats, weights: Floats, threads: int, max_size: int
    ) -> None: ...
    def rate(self, lam: float, rho_positive: float, rho_negative: float) -> Indices: ...
    def prefetch(self, rows: Indices) -> None: ...
    def add_rows(self, rows: Indices, amounts: Floats) -> None: ...
    def begin(
        self, rows: Indices, n_positive: int, lam: float, fraction: float, most_steps: int
    ) -> None: ...
    def improve(self) -> bool: ...
    def commit(self) -> None: ...
