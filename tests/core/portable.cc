// The loops of odmlib without Python, for compilers and processors of other systems; test_portable.py compares what
// it prints on two of them.
#include <cstdio>
#include <vector>

#include "class_block.h"
#include "dense.h"
#include "memory.h"
#include "numbers.h"
#include "panel.h"
#include "thread_pool.h"
#include "vectors.h"

static double number_at(int64_t i) { return static_cast<double>(i * 7919 % 1009) / 1009 - 0.5; }

static void print(const char *name, const double *values, int64_t n)
{
    std::printf("%s", name);
    for (int64_t i = 0; i < n; ++i) std::printf(" %.17g", values[i]);
    std::printf("\n");
}

int main()
{
    odm_use_pool(odm_run_in_pool);

    const int64_t n = 70, d = 33;
    std::vector<double> values(n * d), norms(n);
    std::vector<float> narrow(n * d);
    std::vector<int64_t> starts(n + 1), rows(n);
    std::vector<int32_t> columns(n * d);
    for (int64_t i = 0; i < n; ++i) {
        rows[i] = i;
        starts[i + 1] = (i + 1) * d;
        for (int64_t j = 0; j < d; ++j) {
            values[i * d + j] = number_at(i * d + j);
            narrow[i * d + j] = static_cast<float>(values[i * d + j]);
            columns[i * d + j] = static_cast<int32_t>(j);
        }
        norms[i] = odm_inner(&values[i * d], &values[i * d], d);
    }
    print("norms", norms.data(), n);

    // memory
    double *matrix = static_cast<double *>(odm_aligned_alloc(64, n * n * sizeof(double) + 64 - n * n * sizeof(double) % 64));
    if (!matrix || reinterpret_cast<uintptr_t>(matrix) % 64 != 0) return 1;

    // kernel rows, in float and in double, with one thread and with three
    std::vector<float> floats(n * n);
    for (int wide = 0; wide < 2; ++wide)
        for (int kind : {ODM_LINEAR, ODM_POLY, ODM_RBF, ODM_SIGMOID}) {
            std::vector<void *> out(n);
            for (int64_t i = 0; i < n; ++i) out[i] = wide ? static_cast<void *>(matrix + i * n) : &floats[i * n];
            const void *data = wide ? static_cast<const void *>(values.data()) : narrow.data();
            const odm_rows source = {starts.data(), columns.data(), data, norms.data()};
            double first = 0;
            for (int n_threads : {1, 3}) {
                const odm_block_job job = {{kind, 3, 0.5, 0.25, 0}, source, source, d, d, rows.data(), n, out.data(),
                                           wide != 0, 0, n, n_threads};
                if (odm_kernel_block(&job, wide != 0) != 0) return 2;
                const double found = wide ? matrix[n + 5] : floats[n + 5];
                if (n_threads > 1 && found != first) return 3;
                first = found;
            }
            std::vector<double> shown(n);
            for (int64_t j = 0; j < n; ++j) shown[j] = wide ? matrix[3 * n + j] : floats[3 * n + j];
            print(wide ? "wide" : "narrow", shown.data(), n);
        }

    // factor and solution of a positive definite matrix
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) matrix[i * n + j] = odm_inner(&values[i * d], &values[j * d], d) + (i == j ? n : 0);
    std::vector<double> work(odm_factor_line(n) * ODM_FACTOR_BLOCK), x(n);
    for (int64_t i = 0; i < n; ++i) x[i] = number_at(3 * i);
    if (ODM_CALL(cholesky, matrix, n, n, work.data(), 3) != 0) return 4;
    ODM_CALL(solve, matrix, n, n, x.data());
    print("solution", x.data(), n);
    odm_aligned_free(matrix);

    // one row of the multi-class machine
    double scores[8] = {0.3, -0.2, 0.9, 0.1, 0.4, 0, 0, 0}, beta = 0;
    const odm_class_row row = {1.5, 0.4, 0.7, 0.2, 0, 2, 4};
    ODM_CALL(class_block, row, scores, 5, odm_padded_classes(5), &beta);
    print("classes", scores, 5);

    // numbers as text
    for (const char *text : {"0.1        ", "-12345.678901234e-30        ", "1e308        ", "123456789.123456789        "}) {
        double number = 0;
        int status = 0;
        char out[ODM_NUMBER_CHARS];
        odm_parse_number(text, &number, &status);
        *odm_format_number(number, out) = 0;
        std::printf("number %s\n", out);
    }
    return 0;
}
