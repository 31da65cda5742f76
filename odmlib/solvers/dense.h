// Small dense loops of the kernel solvers: sums of kernel rows, and Cholesky factors in float64.
//
// dense_loops.h holds them; it is compiled for every processor and on x86-64 once more for AVX2 and FMA,
// chosen at run time as in kernels/panel.h. Threads only split the output: the bits do not depend on them.
#ifndef ODMLIB_DENSE_H
#define ODMLIB_DENSE_H

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

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

struct odm_forward_job {
    const double *factor;  // L: n x n, its lower triangle
    const double *right;   // B: n x n_columns
    int64_t n, n_columns;
    double *work;          // n * ODM_FORWARD_COLUMNS numbers for every chunk
    double *out;           // (L^-1 B)': n_columns x n
};

static const int64_t ODM_FORWARD_COLUMNS = 32;  // per unit of threaded work: their sums stay in registers
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

// matrix[i][j] -= sum_k rows[k][i] rows[k][j] for j <= i < n (what is above may be overwritten). A row has n numbers and
// room for odm_factor_line(n).
static inline void odm_subtract_products(double *matrix, int64_t n, const double *rows, int64_t n_rows,
                                         int n_threads) noexcept
{
    odm_factor_job job = {matrix, n, n, 0, rows, n_rows};
    odm_parallel_for((n + ODM_FACTOR_ROWS - 1) / ODM_FACTOR_ROWS, n_threads, ODM_CHOOSE(update_rest), &job);
}

static inline void odm_forward(odm_forward_job *job, int n_threads) noexcept
{
    odm_parallel_for((job->n_columns + ODM_FORWARD_COLUMNS - 1) / ODM_FORWARD_COLUMNS, n_threads,
                     ODM_CHOOSE(forward), job);
}

// x = A^-1 x from the factor.
static inline void odm_cholesky_solve(const double *factor, int64_t n, int64_t stride, double *x) noexcept
{
    ODM_CALL(solve, factor, n, stride, x);
}

#endif
