import numpy as np
from numpy.typing import NDArray

def solve_positive(
    matrix: NDArray[np.float64], right: NDArray[np.float64], overwrite: bool = False
) -> NDArray[np.float64] | None: ...
def dense_gram(
    rows: NDArray[np.float64], coefficients: NDArray[np.float64], threads: int = 1
) -> NDArray[np.float64]: ...
def forward_substitution(
    factor: NDArray[np.float64], right: NDArray[np.float64], out: NDArray[np.float64], threads: int = 1
) -> None: ...

class PositiveFactor:
    @staticmethod
    def of(matrix: NDArray[np.float64]) -> PositiveFactor | None: ...
    def solve(self, right: NDArray[np.float64]) -> NDArray[np.float64]: ...
