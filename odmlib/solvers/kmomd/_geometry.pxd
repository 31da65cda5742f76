# The level of water in a class: shared by the bound and by the blocks of the pair method.
from odmlib._core.types cimport index_t

# rho with sum_i weights_i [rho - levels_i]_+ = amount, for amount > 0 and weights > 0
cdef double water_level(const double *levels, const double *weights, index_t n, double amount) noexcept nogil
