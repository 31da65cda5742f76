"""One row's sub-problem of the multi-class machine, for tests and curious users; solvers use class_block.h."""

import numpy as np

from odmlib._core.types cimport index_t
from odmlib.losses.class_block cimport odm_class_block, odm_class_row, odm_padded_classes


def solve_class_block(const double[::1] scores, int label, double curvature, double h, double nu, double theta,
                      int other=-1, double reference=0.0):
    """(zeta, beta): the multipliers of one row whose scores without its own part are given.

    `other` is the label q of the majorised problem; -1 stands for the frozen one with its constant `reference`.
    nu = 0: no side above, beta = 0.

    >>> import numpy as np
    >>> zeta, beta = solve_class_block(np.array([3.0, 0.0, 3.0]), 0, 1.0, 1.0, 1.0, 0.0, other=1)
    >>> zeta.tolist(), beta
    ([0.0, 0.0, 0.625], 0.875)
    """
    cdef index_t k = scores.shape[0]
    if not (0 <= label < k and -1 <= other < k and other != label):
        raise ValueError("label and other must be two different classes")
    if not (curvature > 0 and h > 0):
        raise ValueError("curvature and h must be above 0")
    cdef odm_class_row row = odm_class_row(curvature, h, h / nu if nu > 0 else float("inf"), theta, reference,
                                           label, other)
    stripe = np.zeros(odm_padded_classes(k))
    stripe[:k] = scores
    cdef double[::1] view = stripe
    cdef double beta
    odm_class_block(row, &view[0], k, view.shape[0], &beta)
    return stripe[:k], beta
