// The loops of inverse.h for one instruction set; included more than once.

typedef double ODM_NAME(step_vec) __attribute__((vector_size(ODM_VECTOR_BYTES), may_alias, aligned(8)));

#define VEC ODM_NAME(step_vec)
#define LANES (static_cast<int64_t>(ODM_VECTOR_BYTES / sizeof(double)))
#define LOOP ODM_TARGET static inline

// out = factor in, for some columns.
LOOP void ODM_NAME(multiply)(void *context, int64_t chunk)
{
    const odm_step_job &job = *static_cast<const odm_step_job *>(context);
    const int64_t begin = chunk * ODM_STEP_COLUMNS, rest = job.line - begin;
    const int64_t length = rest < ODM_STEP_COLUMNS ? rest : ODM_STEP_COLUMNS;
    for (int64_t k = 0; k < job.width; ++k) {
        double *__restrict out = job.out + k * job.line + begin;
        for (int64_t j = 0; j < length; ++j) out[j] = 0;
        for (int64_t l = 0; l < job.width; ++l) {
            const double factor = job.factor[k * job.width + l];
            if (factor == 0) continue;  // half of a triangle
            const double *__restrict in = job.in + l * job.line + begin;
            for (int64_t j = 0; j < length; ++j) out[j] += factor * in[j];
        }
    }
}

// matrix[i][j] -= sum_k panel[k][i] panel[k][j] for some rows i and all j <= i (some j > i change, too), in tiles
// of four rows that stay in registers.
LOOP void ODM_NAME(subtract)(void *context, int64_t chunk)
{
    const odm_step_job &job = *static_cast<const odm_step_job *>(context);
    const int64_t n = job.n, line = job.line, begin = job.first_row + chunk * ODM_STEP_ROWS;
    const int64_t end = begin + ODM_STEP_ROWS < n ? begin + ODM_STEP_ROWS : n;
    const double *panel = job.out;
    for (int64_t block = 0; block < end; block += ODM_STEP_COLUMNS) {
        const int64_t stop = block + ODM_STEP_COLUMNS < end ? block + ODM_STEP_COLUMNS : end;
        for (int64_t i = begin; i < end; i += 4) {
            int64_t j = block;
            for (; i + 4 <= end && j < stop && j + 2 * LANES <= n; j += 2 * LANES) {
                VEC s00 = {}, s01 = {}, s10 = {}, s11 = {}, s20 = {}, s21 = {}, s30 = {}, s31 = {};
                const double *a = panel + i, *b = panel + j;
                for (int64_t k = 0; k < job.width; ++k, a += line, b += line) {
                    const VEC x = *reinterpret_cast<const VEC *>(b);
                    const VEC y = *reinterpret_cast<const VEC *>(b + LANES);
                    s00 += a[0] * x; s01 += a[0] * y;
                    s10 += a[1] * x; s11 += a[1] * y;
                    s20 += a[2] * x; s21 += a[2] * y;
                    s30 += a[3] * x; s31 += a[3] * y;
                }
                double *m = job.matrix + i * n + j;
                *reinterpret_cast<VEC *>(m) -= s00; *reinterpret_cast<VEC *>(m + LANES) -= s01; m += n;
                *reinterpret_cast<VEC *>(m) -= s10; *reinterpret_cast<VEC *>(m + LANES) -= s11; m += n;
                *reinterpret_cast<VEC *>(m) -= s20; *reinterpret_cast<VEC *>(m + LANES) -= s21; m += n;
                *reinterpret_cast<VEC *>(m) -= s30; *reinterpret_cast<VEC *>(m + LANES) -= s31;
            }
            for (; j < stop; ++j)
                for (int64_t row = i; row < i + 4 && row < end; ++row) {
                    double sum = 0;
                    for (int64_t k = 0; k < job.width; ++k) sum += panel[k * line + row] * panel[k * line + j];
                    job.matrix[row * n + j] -= sum;
                }
        }
    }
}

#undef VEC
#undef LANES
#undef LOOP
