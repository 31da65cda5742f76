import numpy as np
from numpy.typing import NDArray

STEP_WIDTH: int

def scratch_size(n: int) -> int: ...
def inverse_step(
    matrix: NDArray[np.float64], first: int, scratch: NDArray[np.float64], threads: int
) -> bool: ...
