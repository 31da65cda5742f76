import numpy as np
from numpy.typing import NDArray

def gather_ranges(
    indices: NDArray[np.int32],
    values: NDArray[np.float64],
    counts: NDArray[np.int64],
    minimum: NDArray[np.float64],
    maximum: NDArray[np.float64],
) -> None: ...
def scale_rows(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[np.float64],
    first_row: int,
    last_row: int,
    columns: NDArray[np.int32],
    minimum: NDArray[np.float64],
    maximum: NDArray[np.float64],
    lower: float,
    upper: float,
    filled_columns: NDArray[np.int32],
    filled_values: NDArray[np.float64],
    new_indptr: NDArray[np.int64],
    new_indices: NDArray[np.int32],
    new_values: NDArray[np.float64],
) -> int: ...
