import numpy as np
from numpy.typing import NDArray

from odmlib._core.rows import Rows
from odmlib.losses.loss import MarginLoss

Floats = NDArray[np.float64]

def evaluate(
    rows: Rows,
    y: Floats,
    costs: Floats,
    loss: MarginLoss,
    w: Floats,
    margins: Floats,
    curvatures: Floats,
    threads: int = 1,
) -> tuple[float, Floats]: ...
