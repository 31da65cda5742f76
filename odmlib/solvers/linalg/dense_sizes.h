// Sizes of the arrays that the loops of dense.h and inverse.h work in.
#ifndef ODMLIB_DENSE_SIZES_H
#define ODMLIB_DENSE_SIZES_H

#include <cstdint>

static const int64_t ODM_FACTOR_BLOCK = 32;  // columns that are factored before the rest is updated

// Not a multiple of a large power of two: such rows would fall on the same lines of the cache.
static inline int64_t odm_factor_line(int64_t n) noexcept { return (n + 15) / 16 * 16 + 8; }

static const int64_t ODM_STEP_WIDTH = 64;  // columns of a step of inverse.h

// Doubles of scratch memory that such a step needs.
static inline int64_t odm_step_scratch(int64_t n) noexcept
{
    return 2 * ODM_STEP_WIDTH * (odm_factor_line(n) + ODM_STEP_WIDTH);
}

#endif
