from numpy.typing import ArrayLike, NDArray

from odmlib.kernels.kernel import Kernel

class RowCache:
    kernel: Kernel
    n_columns: int
    wide: bool
    capacity: int
    hits: int
    misses: int
    def __init__(self, kernel: Kernel, budget_bytes: int, wide: bool = False) -> None: ...
    @property
    def bytes_used(self) -> int: ...
    def resident(self) -> list[int]: ...
    def rows(self, wanted: ArrayLike) -> NDArray: ...
