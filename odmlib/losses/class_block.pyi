import numpy as np
from numpy.typing import NDArray

def solve_class_block(
    scores: NDArray[np.float64],
    label: int,
    curvature: float,
    h: float,
    nu: float,
    theta: float,
    other: int = -1,
    reference: float = 0.0,
) -> tuple[NDArray[np.float64], float]: ...
