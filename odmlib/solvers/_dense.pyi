import numpy as np
from numpy.typing import NDArray

def solve_positive(matrix: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64] | None: ...
