// Small dense loops of the kernel solvers: sums of kernel rows, and Cholesky factors in float64.
//
// dense_loops.h holds them; it is compiled for every processor and on x86-64 once more for AVX2 and FMA,
// chosen at run time as in kernels/panel.h. Threads only split the output: the bits do not depend on them.
#ifndef ODMLIB_DENSE_H
#define ODMLIB_DENSE_H

#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "instructions.h"
#include "parallel.h"

static const int64_t ODM_UPDATE_COLUMNS = 1024;  // columns per unit of threaded work: 8 kB of sums
static const int64_t ODM_FACTOR_BLOCK = 32;      // columns that are factored before the rest is updated

struct odm_update_job {
    const void *const *rows;
    const double *factors;
    int64_t n_rows, n_columns;
    double *sums;
};

struct odm_factor_job {
    double *matrix;
    int64_t n, stride, begin;
    const double *columns;
    int64_t width;
};

static const int64_t ODM_FACTOR_ROWS = 32;  // rows per unit of threaded work

// Not a multiple of a large power of two: such rows would fall on the same lines of the cache.
static inline int64_t odm_factor_line(int64_t n) noexcept { return (n + 15) / 16 * 16 + 8; }

#define ODM_LOOPS "dense_loops.h"
#include "each_variant.h"

// sums[j] += sum_r factors[r] rows[r][j], in the order of r; rows of float, or of double if `wide`.
static inline void odm_add_rows(const void *const *rows, bool wide, const double *factors, int64_t n_rows,
                                int64_t n_columns, double *sums, int n_threads) noexcept
{
    odm_update_job job = {rows, factors, n_rows, n_columns, sums};
    const odm_task task = wide ? ODM_CHOOSE(update_double)
                               : ODM_CHOOSE(update_float);
    odm_parallel_for((n_columns + ODM_UPDATE_COLUMNS - 1) / ODM_UPDATE_COLUMNS, n_threads, task, &job);
}

// y += factor x
static inline void odm_add_multiple(int64_t n, double factor, const double *x, double *y) noexcept
{
    ODM_CALL(add_multiple, n, factor, x, y);
}

// The lower triangle of a symmetric matrix (what is above may be overwritten) becomes its factor L (A = L L'). `work` has room for
// odm_factor_line(n) * ODM_FACTOR_BLOCK numbers. 0, or the number of the first row (from 1) whose pivot is not positive.
static inline int64_t odm_cholesky(double *matrix, int64_t n, int64_t stride, double *work, int n_threads) noexcept
{
    return ODM_CALL(cholesky, matrix, n, stride, work, n_threads);
}

// x = A^-1 x from the factor.
static inline void odm_cholesky_solve(const double *factor, int64_t n, int64_t stride, double *x) noexcept
{
    ODM_CALL(solve, factor, n, stride, x);
}

#endif
