// The jobs of panel.h, which computes kernel values in blocks; apart from its loops, which one module compiles.
#ifndef ODMLIB_PANEL_JOBS_H
#define ODMLIB_PANEL_JOBS_H

#include <atomic>
#include <cstdint>

// ODM_RBF_EXPONENT: the exponent of the RBF kernel, for callers that raise it in float32 themselves
enum odm_kernel_kind { ODM_LINEAR, ODM_POLY, ODM_RBF, ODM_SIGMOID, ODM_RBF_EXPONENT };

struct odm_kernel_formula {
    int kind;
    int degree;
    double gamma;
    double coef0;
    double bias_squared;  // added to every value
};

// Compressed rows. `values` are float or double as the called variant expects; `norms` are squared lengths.
struct odm_rows {
    const int64_t *starts;
    const int32_t *columns;
    const void *values;
    const double *norms;
};

// k(row rows[r] of `source`, row j of `data`) for j = first .. last-1 into out[r][j], an array of float, or of
// double if `wide` (which needs double values).
struct odm_block_job {
    odm_kernel_formula formula;
    odm_rows source, data;
    int64_t n_columns;
    int64_t slab;  // columns of a panel that are worked through before the next ones
    const int64_t *rows;
    int64_t n_rows;
    void **out;
    bool wide;
    int64_t first, last;
    int n_threads;
};

// sums[r * n_outputs + c] += sum_j coefficient_jc k(test row r, support row j), where support row j has the
// coefficients of outputs[k] for k = output_starts[j] .. output_starts[j + 1]-1 and none for others, for test rows
// first_test .. last_test-1 and support rows first .. last-1. Columns of a test row at or beyond n_columns
// are in no support row and count in its norm only.
struct odm_sums_job {
    odm_kernel_formula formula;
    odm_rows support, test;
    int64_t n_columns;
    int64_t slab;  // columns of a panel that are worked through before the next ones
    const int64_t *output_starts;
    const int32_t *outputs;
    const double *coefficients;
    int64_t n_outputs;
    double *sums;
    int64_t first_test, last_test;
    int64_t first, last;
    int n_threads;
    std::atomic<bool> *failed;  // out of memory in some thread
};

// sums[part][i] = sum over some j of coefficient_j k(row i, row j), such that the parts add up to the sum over all j.
// Each pair of rows is computed once. Panels first_panel .. last_panel-1 are worked through; panel p belongs to part
// p % n_parts, so that the sums do not depend on the number of threads.
struct odm_symmetric_job {
    odm_kernel_formula formula;
    odm_rows rows;
    int64_t n_rows;
    int64_t n_columns;
    int64_t slab;
    const double *coefficients;
    double *sums;
    int64_t n_parts;
    int64_t first_panel, last_panel;
    int n_threads;
    std::atomic<bool> *failed;
};

#endif
