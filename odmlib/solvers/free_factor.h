// Cholesky factor of the free rows of an active-set method: A = R'R, changed by one row at a time.
//
// R is kept by rows, R[i][j] for i <= j < n, so that every loop below runs along memory. A pivot is never
// below the floor given: where a new row depends on the others, the step becomes a long one, which the method
// cuts at the nearest bound. Loops of dense_loops.h; costs n^2 multiplications each.
#ifndef ODMLIB_FREE_FACTOR_H
#define ODMLIB_FREE_FACTOR_H

#include "dense.h"

// A row more: `column` has its n products with the rows at hand (and is used up), `diagonal` that with itself.
static inline void odm_free_append(double *R, int64_t stride, int64_t n, double *column, double diagonal,
                                   double floor) noexcept
{
    ODM_CALL(free_append, R, stride, n, column, diagonal, floor);
}

// Row `gone` leaves; what it had taken from the later ones is given back. `work` has room for n numbers.
static inline void odm_free_remove(double *R, int64_t stride, int64_t n, int64_t gone, double *work) noexcept
{
    ODM_CALL(free_remove, R, stride, n, gone, work);
}

// x = A^-1 x
static inline void odm_free_solve(const double *R, int64_t stride, int64_t n, double *x) noexcept
{
    ODM_CALL(free_solve, R, stride, n, x);
}

#endif
