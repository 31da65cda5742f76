# One row's sub-problem of the multi-class machine; see class_block.h.
from odmlib._core.types cimport index_t, int32_t

cdef extern from "class_block.h" nogil:
    ctypedef struct odm_class_row:
        double curvature, h, e, theta, reference
        int32_t label, other

    index_t odm_padded_classes(index_t n) noexcept
    double odm_class_block "ODM_CHOOSE(class_block)"(const odm_class_row &row, double *stripe, index_t n_classes,
                                                     index_t padded, double *beta) noexcept
