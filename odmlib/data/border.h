// Checks of foreign arrays, as fast as memory delivers them.
#ifndef ODMLIB_BORDER_H
#define ODMLIB_BORDER_H

#include <cstdint>

#include "instructions.h"

#define ODM_LOOPS "border_loops.h"
#include "each_variant.h"

// Copies columns; `beyond` collects the bits that no column has (a negative number has them, too), `largest` the largest.
static inline void odm_take_columns(const int32_t *given, int32_t *out, int64_t n, uint64_t *beyond, int32_t *largest) noexcept
{
    ODM_CALL(take_columns_32, given, out, n, beyond, largest);
}

static inline void odm_take_columns(const int64_t *given, int32_t *out, int64_t n, uint64_t *beyond, int32_t *largest) noexcept
{
    ODM_CALL(take_columns_64, given, out, n, beyond, largest);
}

// How many of columns[1..n-1] are not larger than the one before.
static inline int64_t odm_falls(const int32_t *columns, int64_t n) noexcept
{
    return ODM_CALL(falls, columns, n);
}

static inline bool odm_all_finite(const double *values, int64_t n) noexcept
{
    return ODM_CALL(all_finite, values, n);
}

#endif
