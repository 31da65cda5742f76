import numpy as np
from numpy.typing import ArrayLike, NDArray

from odmlib.kernels.kernel import Kernel

class RowCache:
    kernel: Kernel
    n_columns: int
    capacity: int
    hits: int
    misses: int
    def __init__(self, kernel: Kernel, budget_bytes: int) -> None: ...
    @property
    def bytes_used(self) -> int: ...
    def resident(self) -> list[int]: ...
    def rows(self, wanted: ArrayLike) -> NDArray[np.float32]: ...
