import numpy as np
from numpy.typing import NDArray

from odmlib.losses.loss import MarginLoss

Floats = NDArray[np.float64]

def slopes_and_curvatures(
    loss: MarginLoss, margins: Floats, costs: Floats, threads: int = 1
) -> tuple[float, Floats, Floats]: ...
def along_line(
    loss: MarginLoss, margins: Floats, directions: Floats, step: float, costs: Floats, threads: int = 1
) -> tuple[float, float]: ...
def value_and_gap(
    loss: MarginLoss, duals: Floats, margins: Floats, costs: Floats, threads: int = 1
) -> tuple[float, float]: ...
