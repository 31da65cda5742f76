import numpy as np
from numpy.typing import ArrayLike, NDArray

from odmlib.data.dataset import Dataset
from odmlib.kernels.formula import KernelFormula

def kernel_scores(
    formula: KernelFormula,
    support: Dataset,
    coefficients: ArrayLike | Dataset,
    test: Dataset,
    threads: int = 1,
) -> NDArray[np.float64]: ...
