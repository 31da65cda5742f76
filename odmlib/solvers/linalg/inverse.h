// X = L^-1 of a large symmetric positive definite matrix A = L L', in place, a block of columns B at a time.
//
// Before the step of B, A_ij holds, in the lower triangle: X for rows i of earlier blocks; for later rows i, what
// is left of A (columns j of B and later) and minus the sum of L_il X_lj over earlier blocks l (columns j before B).
// With T = (L_BB)^-1 the step is
//     X_BB = T,  X_Bj = T A_Bj (j before),  L_iB = A_iB T',  A_ij -= L_iB [X_Bj or L_jB'] (i, j after),  A_iB = -L_iB T:
// one product of a thin matrix with another, n^3/3 multiply-adds in all. Threads share its rows; the bits do not
// depend on them.
#ifndef ODMLIB_INVERSE_H
#define ODMLIB_INVERSE_H

#include "dense.h"

static const int64_t ODM_STEP_ROWS = 64;  // rows of a unit of threaded work

// A small symmetric matrix (its lower triangle is read) becomes the inverse of its Cholesky factor; false if it
// is not positive definite to the machine.
static inline bool odm_small_inverse(double *a, int64_t n) noexcept
{
    for (int64_t k = 0; k < n; ++k) {
        for (int64_t j = 0; j < k; ++j) {
            double sum = a[k * n + j];
            for (int64_t l = 0; l < j; ++l) sum -= a[k * n + l] * a[j * n + l];
            a[k * n + j] = sum / a[j * n + j];
        }
        double pivot = a[k * n + k];
        for (int64_t l = 0; l < k; ++l) pivot -= a[k * n + l] * a[k * n + l];
        if (!(pivot > 0) || !std::isfinite(pivot)) return false;
        a[k * n + k] = std::sqrt(pivot);
    }
    for (int64_t k = 0; k < n; ++k) {
        const double scale = 1 / a[k * n + k];
        for (int64_t j = 0; j < k; ++j) {
            double sum = 0;
            for (int64_t l = j; l < k; ++l) sum += a[k * n + l] * a[l * n + j];
            a[k * n + j] = -sum * scale;  // entries left of j are done with, those from j on are still the factor's
        }
        a[k * n + k] = scale;
        for (int64_t j = k + 1; j < n; ++j) a[k * n + j] = 0;
    }
    return true;
}

// The step of the columns from `first` on; false if the matrix is not positive definite to the machine.
static inline int odm_inverse_step(double *matrix, int64_t n, int64_t first, double *scratch, int n_threads) noexcept
{
    const int64_t line = odm_factor_line(n), last = first + ODM_STEP_WIDTH < n ? first + ODM_STEP_WIDTH : n;
    const int64_t width = last - first;
    double *raw = scratch, *panel = raw + ODM_STEP_WIDTH * line, *factor = panel + ODM_STEP_WIDTH * line;
    double *transposed = factor + ODM_STEP_WIDTH * ODM_STEP_WIDTH;
    for (int64_t k = 0; k < width; ++k)
        std::memcpy(factor + k * width, matrix + (first + k) * n + first, width * sizeof(double));
    if (!odm_small_inverse(factor, width)) return false;
    for (int64_t k = 0; k < width; ++k)
        for (int64_t l = 0; l < width; ++l) transposed[l * width + k] = -factor[k * width + l];
    for (int64_t k = 0; k < width; ++k) {
        std::memcpy(raw + k * line, matrix + (first + k) * n, first * sizeof(double));
        std::memset(raw + k * line + first, 0, (line - first) * sizeof(double));
    }
    for (int64_t i = last; i < n; ++i)
        for (int64_t k = 0; k < width; ++k) raw[k * line + i] = matrix[i * n + first + k];

    const int64_t column_chunks = (line + ODM_PANEL_COLUMNS - 1) / ODM_PANEL_COLUMNS;
    odm_multiply_job product = {width, line, factor, raw, panel};
    odm_factor_job rest = {matrix, n, n, last, 0, ODM_STEP_ROWS, panel, width};
    odm_parallel_for(column_chunks, n_threads, ODM_CHOOSE(multiply), &product);
    odm_parallel_for((n - last + ODM_STEP_ROWS - 1) / ODM_STEP_ROWS, n_threads, ODM_CHOOSE(subtract_products), &rest);
    for (int64_t k = 0; k < width; ++k) {
        std::memcpy(matrix + (first + k) * n, panel + k * line, first * sizeof(double));
        std::memcpy(matrix + (first + k) * n + first, factor + k * width, width * sizeof(double));
    }
    product = {width, line, transposed, panel, raw};
    odm_parallel_for(column_chunks, n_threads, ODM_CHOOSE(multiply), &product);
    for (int64_t i = last; i < n; ++i)
        for (int64_t k = 0; k < width; ++k) matrix[i * n + first + k] = raw[k * line + i];
    return true;
}

#endif
