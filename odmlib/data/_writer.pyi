import numpy as np
from numpy.typing import NDArray

def format_rows(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[np.float64],
    labels: NDArray[np.float64],
    first_row: int,
    last_row: int,
    base: int,
) -> bytes: ...
def format_number(number: float, by_snprintf: bool = False) -> str: ...
