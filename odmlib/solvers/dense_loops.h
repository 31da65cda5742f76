// The loops of dense.h for one instruction set; included more than once.

typedef double ODM_NAME(vec) __attribute__((vector_size(ODM_VECTOR_BYTES), may_alias, aligned(8)));

#define VEC ODM_NAME(vec)
#define LANES (static_cast<int64_t>(ODM_VECTOR_BYTES / sizeof(double)))
#define LOOP ODM_TARGET static inline

// Four rows at a time, so that the sums are read and written a quarter as often.
#define ODM_UPDATE(name, type)                                                                                \
    LOOP void ODM_NAME(name)(void *context, int64_t chunk)                                                    \
    {                                                                                                         \
        const odm_update_job &job = *static_cast<const odm_update_job *>(context);                            \
        const int64_t first = chunk * ODM_UPDATE_COLUMNS, left = job.n_columns - first;                       \
        const int64_t n = left < ODM_UPDATE_COLUMNS ? left : ODM_UPDATE_COLUMNS;                              \
        double *__restrict sums = job.sums + first;                                                           \
        int64_t r = 0;                                                                                        \
        for (; r + 4 <= job.n_rows; r += 4) {                                                                 \
            const type *__restrict a = static_cast<const type *>(job.rows[r]) + first;                        \
            const type *__restrict b = static_cast<const type *>(job.rows[r + 1]) + first;                    \
            const type *__restrict c = static_cast<const type *>(job.rows[r + 2]) + first;                    \
            const type *__restrict d = static_cast<const type *>(job.rows[r + 3]) + first;                    \
            const double *f = job.factors + r;                                                                \
            const double fa = f[0], fb = f[1], fc = f[2], fd = f[3];                                          \
            for (int64_t j = 0; j < n; ++j)                                                                   \
                sums[j] = (((sums[j] + fa * a[j]) + fb * b[j]) + fc * c[j]) + fd * d[j];                      \
        }                                                                                                     \
        for (; r < job.n_rows; ++r) {                                                                         \
            const type *__restrict a = static_cast<const type *>(job.rows[r]) + first;                        \
            const double fa = job.factors[r];                                                                 \
            for (int64_t j = 0; j < n; ++j) sums[j] += fa * a[j];                                             \
        }                                                                                                     \
    }
ODM_UPDATE(update_float, float)
ODM_UPDATE(update_double, double)
#undef ODM_UPDATE

LOOP void ODM_NAME(add_multiple)(int64_t n, double factor, const double *__restrict x, double *__restrict y)
{
    for (int64_t j = 0; j < n; ++j) y[j] += factor * x[j];
}

// matrix[i][j] -= sum_k columns[k][i] columns[k][j] for begin <= j <= i < n, in tiles of four rows that stay in
// registers; a chunk of the rows.
LOOP void ODM_NAME(update_rest)(void *context, int64_t chunk)
{
    const odm_factor_job &job = *static_cast<const odm_factor_job *>(context);
    double *matrix = job.matrix;
    const double *columns = job.columns;
    const int64_t n = job.n, stride = job.stride, begin = job.begin, width = job.width;
    const int64_t line = odm_factor_line(n);
    const int64_t start = begin + chunk * ODM_FACTOR_ROWS;
    const int64_t end = start + ODM_FACTOR_ROWS < n ? start + ODM_FACTOR_ROWS : n;
    for (int64_t first = start; first < end; first += 4) {
        const int64_t last = first + 4 < n ? first + 4 : n;
        int64_t j = begin;
        for (; last == first + 4 && j < last && j + 2 * LANES <= n; j += 2 * LANES) {
            VEC s00 = {}, s01 = {}, s10 = {}, s11 = {}, s20 = {}, s21 = {}, s30 = {}, s31 = {};
            for (int64_t k = 0; k < width; ++k) {
                const double *c = columns + k * line;
                const VEC x = *reinterpret_cast<const VEC *>(c + j);
                const VEC y = *reinterpret_cast<const VEC *>(c + j + LANES);
                s00 += c[first] * x;     s01 += c[first] * y;
                s10 += c[first + 1] * x; s11 += c[first + 1] * y;
                s20 += c[first + 2] * x; s21 += c[first + 2] * y;
                s30 += c[first + 3] * x; s31 += c[first + 3] * y;
            }
            double *m = matrix + first * stride + j;
            *reinterpret_cast<VEC *>(m) -= s00; *reinterpret_cast<VEC *>(m + LANES) -= s01; m += stride;
            *reinterpret_cast<VEC *>(m) -= s10; *reinterpret_cast<VEC *>(m + LANES) -= s11; m += stride;
            *reinterpret_cast<VEC *>(m) -= s20; *reinterpret_cast<VEC *>(m + LANES) -= s21; m += stride;
            *reinterpret_cast<VEC *>(m) -= s30; *reinterpret_cast<VEC *>(m + LANES) -= s31;
        }
        for (; j < last; ++j)
            for (int64_t i = first; i < last; ++i) {
                double sum = 0;
                for (int64_t k = 0; k < width; ++k) sum += columns[k * line + i] * columns[k * line + j];
                matrix[i * stride + j] -= sum;
            }
    }
}

LOOP int64_t ODM_NAME(cholesky)(double *matrix, int64_t n, int64_t stride, double *work, int n_threads)
{
    const int64_t line = odm_factor_line(n);
    for (int64_t first = 0; first < n; first += ODM_FACTOR_BLOCK) {
        const int64_t width = n - first < ODM_FACTOR_BLOCK ? n - first : ODM_FACTOR_BLOCK;
        // `work` holds the block column as rows: work[k][i] = L[i][first + k], worked on along i
        for (int64_t k = 0; k < width; ++k)
            for (int64_t i = first + k; i < n; ++i) work[k * line + i] = matrix[i * stride + first + k];
        for (int64_t k = 0; k < width; ++k) {
            double *column = work + k * line;
            for (int64_t earlier = 0; earlier < k; ++earlier)
                ODM_NAME(add_multiple)(n - first - k, -work[earlier * line + first + k],
                                       work + earlier * line + first + k, column + first + k);
            const double pivot = column[first + k];
            if (!(pivot > 0)) return first + k + 1;
            const double scale = 1 / std::sqrt(pivot);
            for (int64_t i = first + k; i < n; ++i) column[i] *= scale;
        }
        for (int64_t k = 0; k < width; ++k)
            for (int64_t i = first + k; i < n; ++i) matrix[i * stride + first + k] = work[k * line + i];
        odm_factor_job job = {matrix, n, stride, first + width, work, width};
        odm_parallel_for((n - first - width + ODM_FACTOR_ROWS - 1) / ODM_FACTOR_ROWS, n_threads,
                         ODM_NAME(update_rest), &job);
    }
    return 0;
}

// out' = L^-1 B for a chunk of the columns of B, one row after the other.
LOOP void ODM_NAME(forward)(void *context, int64_t chunk)
{
    const odm_forward_job &job = *static_cast<const odm_forward_job *>(context);
    const int64_t first = chunk * ODM_FORWARD_COLUMNS, left = job.n_columns - first;
    const int64_t width = left < ODM_FORWARD_COLUMNS ? left : ODM_FORWARD_COLUMNS;
    double *solved = job.work + chunk * job.n * ODM_FORWARD_COLUMNS;
    double sums[ODM_FORWARD_COLUMNS];
    for (int64_t s = 0; s < job.n; ++s) {
        const double *line = job.factor + s * job.n;
        for (int64_t j = 0; j < ODM_FORWARD_COLUMNS; ++j)
            sums[j] = j < width ? job.right[s * job.n_columns + first + j] : 0.0;
        for (int64_t t = 0; t < s; ++t) {
            const double factor = line[t];
            const double *__restrict y = solved + t * ODM_FORWARD_COLUMNS;
            for (int64_t j = 0; j < ODM_FORWARD_COLUMNS; ++j) sums[j] -= factor * y[j];
        }
        for (int64_t j = 0; j < ODM_FORWARD_COLUMNS; ++j)
            solved[s * ODM_FORWARD_COLUMNS + j] = sums[j] / line[s];
    }
    for (int64_t j = 0; j < width; ++j)
        for (int64_t s = 0; s < job.n; ++s) job.out[(first + j) * job.n + s] = solved[s * ODM_FORWARD_COLUMNS + j];
}

// Two sums, so that an addition waits less for the one before.
LOOP double ODM_NAME(dot)(const double *x, const double *y, int64_t n)
{
    VEC even = {}, odd = {};
    int64_t j = 0;
    for (; j + 2 * LANES <= n; j += 2 * LANES) {
        even += *reinterpret_cast<const VEC *>(x + j) * *reinterpret_cast<const VEC *>(y + j);
        odd += *reinterpret_cast<const VEC *>(x + j + LANES) * *reinterpret_cast<const VEC *>(y + j + LANES);
    }
    even += odd;
    double sum = 0;
    for (int64_t lane = 0; lane < LANES; ++lane) sum += even[lane];
    for (; j < n; ++j) sum += x[j] * y[j];
    return sum;
}

LOOP void ODM_NAME(solve)(const double *factor, int64_t n, int64_t stride, double *x)
{
    for (int64_t i = 0; i < n; ++i) {
        const double *row = factor + i * stride;
        x[i] = (x[i] - ODM_NAME(dot)(row, x, i)) / row[i];
    }
    for (int64_t i = n - 1; i >= 0; --i) {
        x[i] /= factor[i * stride + i];
        ODM_NAME(add_multiple)(i, -x[i], factor + i * stride, x);
    }
}

// The factor of free_factor.h.
LOOP void ODM_NAME(free_append)(double *R, int64_t stride, int64_t n, double *column, double diagonal, double floor)
{
    for (int64_t i = 0; i < n; ++i) {
        double *row = R + i * stride;
        const double value = column[i] / row[i];
        ODM_NAME(add_multiple)(n - i - 1, -value, row + i + 1, column + i + 1);
        row[n] = value;
        diagonal -= value * value;
    }
    R[n * stride + n] = std::sqrt(diagonal > floor ? diagonal : floor);
}

LOOP void ODM_NAME(free_remove)(double *R, int64_t stride, int64_t n, int64_t gone, double *__restrict work)
{
    for (int64_t i = 0; i < gone; ++i) {
        double *row = R + i * stride;
        std::memmove(row + gone, row + gone + 1, static_cast<size_t>(n - gone - 1) * sizeof(double));
    }
    const int64_t left = n - gone - 1;  // rows behind it: their part gets the square of the row that leaves
    std::memcpy(work, R + gone * stride + gone + 1, static_cast<size_t>(left) * sizeof(double));
    for (int64_t k = 0; k < left; ++k) {
        const double *from = R + (gone + k + 1) * stride + gone + 1;
        double *__restrict to = R + (gone + k) * stride + gone;
        const double length = std::sqrt(from[k] * from[k] + work[k] * work[k]);
        const double c = from[k] / length, s = work[k] / length;
        to[k] = length;
        for (int64_t j = k + 1; j < left; ++j) {
            const double x = from[j], y = work[j];
            to[j] = c * x + s * y;
            work[j] = c * y - s * x;
        }
    }
}

LOOP void ODM_NAME(free_solve)(const double *R, int64_t stride, int64_t n, double *x)
{
    for (int64_t i = 0; i < n; ++i) {
        const double *row = R + i * stride;
        x[i] /= row[i];
        ODM_NAME(add_multiple)(n - i - 1, -x[i], row + i + 1, x + i + 1);
    }
    for (int64_t i = n - 1; i >= 0; --i) {
        const double *row = R + i * stride;
        x[i] = (x[i] - ODM_NAME(dot)(row + i + 1, x + i + 1, n - i - 1)) / row[i];
    }
}

#undef VEC
#undef LANES
#undef LOOP
