// Sums over vectors.
#ifndef ODMLIB_VECTORS_H
#define ODMLIB_VECTORS_H

#include <cstdint>

#include "instructions.h"

#define ODM_LOOPS "vector_loops.h"
#include "each_variant.h"

static inline double odm_inner(const double *x, const double *y, int64_t n) noexcept
{
    return ODM_CALL(inner, x, y, n);
}

#endif
