import numpy as np
from numpy.typing import NDArray

def inner(a: NDArray[np.float64], b: NDArray[np.float64]) -> float: ...
