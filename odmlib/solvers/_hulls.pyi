import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

class Hulls:
    rows: NDArray[np.int64]
    n_positive: int
    def __init__(self, y: Floats, weights: Floats) -> None: ...
    def measure(
        self, gamma: Floats, scores: Floats, lam: float
    ) -> tuple[float, float, float, tuple[float, float]]: ...
    def spread(self, scores: Floats, lam: float) -> Floats: ...
