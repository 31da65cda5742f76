# The fixed-width types of every compiled part.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

ctypedef int32_t column_t   # a feature's column
ctypedef int64_t index_t    # a row, a position in the CSR arrays, a count
ctypedef double value_t     # data, weights, scores
ctypedef float kernel_t     # a cached kernel value
