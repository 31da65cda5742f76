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

#include "dense_sizes.h"
#include "instructions.h"
#include "parallel.h"

// of one unit of threaded work
static const int64_t ODM_UPDATE_COLUMNS = 1024, ODM_MOST_UPDATE_COLUMNS = 16384;  // 8 and 128 kB of sums
static const int64_t ODM_FORWARD_COLUMNS = 32;   // their sums stay in registers
static const int64_t ODM_FACTOR_ROWS = 32;

static const int64_t ODM_PANEL_COLUMNS = 128;  // of a panel that stay in the cache meanwhile

struct odm_update_job {
    const void **rows;
    const double *factors;
    int64_t n_rows, n_columns;
    double *sums;
    int64_t width;  // columns of a chunk
};

struct odm_factor_job {
    double *matrix;
    int64_t n, stride, first_row, first_column;
    int64_t rows;  // of a chunk
    const double *columns;  // width x odm_factor_line(n)
    int64_t width;
};

struct odm_multiply_job {
    int64_t width, line;
    const double *factor;  // width x width
    const double *in;      // width x line
    double *out;           // width x line
};

struct odm_forward_job {
    const double *factor;  // L: n x n, its lower triangle
    const double *right;   // B: n x n_columns
    int64_t n, n_columns;
    double *work;          // n * ODM_FORWARD_COLUMNS numbers for every chunk
    double *out;           // (L^-1 B)': n_columns x n
};

#define ODM_LOOPS "dense_loops.h"
#include "each_variant.h"

// sums[j] += sum_r factors[r] rows[r][j], in the order of r; rows of float, or of double if `wide`.
static inline void odm_add_rows(const void **rows, int wide, const double *factors, int64_t n_rows,
                                int64_t n_columns, double *sums, int n_threads) noexcept
{
    // long pieces of rows: memory streams them at 24 GB/s, where it gives pieces of 1024 columns at 15
    int64_t width = n_threads > 1 ? n_columns / (2 * n_threads) / 16 * 16 : ODM_MOST_UPDATE_COLUMNS;
    if (width < ODM_UPDATE_COLUMNS) width = ODM_UPDATE_COLUMNS;
    if (width > ODM_MOST_UPDATE_COLUMNS) width = ODM_MOST_UPDATE_COLUMNS;
    odm_update_job job = {rows, factors, n_rows, n_columns, sums, width};
    const odm_task task = wide ? ODM_CHOOSE(update_double) : ODM_CHOOSE(update_float);
    odm_parallel_for((n_columns + width - 1) / width, n_threads, task, &job);
}

// matrix[i][j] -= sum_k rows[k][i] rows[k][j] for j <= i < n (what is above may be overwritten). A row has n numbers and
// room for odm_factor_line(n).
static inline void odm_subtract_products(double *matrix, int64_t n, const double *rows, int64_t n_rows,
                                         int n_threads) noexcept
{
    odm_factor_job job = {matrix, n, n, 0, 0, ODM_FACTOR_ROWS, rows, n_rows};
    odm_parallel_for((n + ODM_FACTOR_ROWS - 1) / ODM_FACTOR_ROWS, n_threads, ODM_CHOOSE(subtract_products), &job);
}

#endif
