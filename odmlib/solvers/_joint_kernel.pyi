import numpy as np
from numpy.typing import ArrayLike, NDArray

from odmlib.kernels.cache import RowCache
from odmlib.kernels.kernel import Kernel
from odmlib.solvers._joint import JointMultipliers

class JointKernel(JointMultipliers):
    scores: NDArray[np.float64]
    gaps: NDArray[np.float64]
    block_rows: int
    sweeps: int
    def __init__(
        self,
        kernel: Kernel,
        labels: ArrayLike,
        costs: ArrayLike,
        n_classes: int,
        nu: float,
        theta: float,
        frozen: bool,
        seed: int,
        cache: RowCache,
        block_rows: int,
        threads: int,
    ) -> None: ...
    def duals(self) -> NDArray[np.float64]: ...
    def measure(self) -> tuple[float, float, float, int]: ...
    def begin(self, scores: NDArray[np.float64]) -> None: ...
    def add(self, rows: NDArray[np.int64], changes: NDArray[np.float64]) -> None: ...
    def solve(self, rows: NDArray[np.int64], upper: bool) -> None: ...
