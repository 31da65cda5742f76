"""Inverse of the Cholesky factor of a large symmetric positive definite matrix, in place and in blocks.

    A = L L',   A^-1 = X' X  with  X = L^-1,   (A^-1)_ii = sum_k X_ki^2.

n^3/3 multiply-adds and no second matrix. A block is one short call of numpy's matrix product, so that
Ctrl-C is seen between two of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BLOCK = 256


def inverse_factor(matrix: Floats) -> bool:
    """Replace the lower triangle of `matrix` by X and clear the upper one.

    Only the lower triangle is read. False if the matrix is not positive definite to the machine; then
    its contents are lost all the same.
    """
    from scipy.linalg.lapack import dpotrf, dtrtri

    n = len(matrix)
    blocks = [slice(begin, min(begin + BLOCK, n)) for begin in range(0, n, BLOCK)]
    for place, block in enumerate(blocks):  # the factor, with its diagonal blocks inverted at once
        factor, not_positive = dpotrf(matrix[block, block], lower=True, clean=True)
        if not_positive or not np.isfinite(factor).all():
            return False
        inverse, singular = dtrtri(factor, lower=True)
        if singular:
            return False
        matrix[block, block] = inverse
        below = matrix[block.stop :, block]
        below[:] = below @ inverse.T
        for other in blocks[place + 1 :]:
            matrix[other.start :, other] -= matrix[other.start :, block] @ matrix[other, block].T
    for place in range(len(blocks) - 1, -1, -1):  # from the right, below is X already
        block = blocks[place]
        matrix[block, block.stop :] = 0.0
        below = matrix[block.stop :, block] @ matrix[block, block]
        for other in blocks[place + 1 :]:
            matrix[other, block] = -(
                matrix[other, block.stop : other.stop] @ below[: other.stop - block.stop]
            )
    return True


def inverse_diagonal(inverse: Floats) -> Floats:
    """Diagonal of A^-1 from X."""
    total = np.zeros(len(inverse))
    for begin in range(0, len(inverse), BLOCK):
        total += np.einsum("ij,ij->j", inverse[begin : begin + BLOCK], inverse[begin : begin + BLOCK])
    return total


def inverse_product(inverse: Floats, right: Floats) -> Floats:
    """A^-1 right from X."""
    return inverse.T @ (inverse @ right)
