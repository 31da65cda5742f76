from numpy.typing import ArrayLike, NDArray

from odmlib._core.arrays import Floats
from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula

SYMMETRY_TOLERANCE: float
FEW_COLUMNS: int
CHECK_ROWS: int

def float32_is_too_coarse(formula: KernelFormula, squared_norm: float) -> bool: ...
def check_symmetric(matrix: Floats) -> float: ...

class Kernel:
    formula: KernelFormula
    n_rows: int
    precise: bool
    threads: int
    shift: float
    def __init__(self, formula: KernelFormula, data: Dataset | ArrayLike, threads: int = 1) -> None: ...
    def __len__(self) -> int: ...
    def shift_diagonal(self, shift: float) -> None: ...
    def diagonal(self) -> Floats: ...
    def restricted(self, rows: ArrayLike) -> Kernel: ...
    def block(
        self, rows: ArrayLike, out: NDArray | None = None, onto: Kernel | None = None, wide: bool = False
    ) -> NDArray: ...
