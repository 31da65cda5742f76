import numpy as np
from numpy.typing import NDArray

from odmlib.kernels.kernel import Kernel

def matrix_bytes(n_rows: int) -> int: ...

class KernelMatrix:
    kernel: Kernel
    n_rows: int
    def __init__(self, kernel: Kernel) -> None: ...
    def product(
        self, v: NDArray[np.float64], wanted: NDArray[np.uint8] | None = None, threads: int = 1
    ) -> NDArray[np.float64]: ...
