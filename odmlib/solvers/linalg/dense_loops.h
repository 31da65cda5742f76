// The loops of dense.h for one instruction set; included more than once.

// Four rows at a time, so that the sums are read and written a quarter as often.
#define ODM_UPDATE(name, type)                                                                                \
    LOOP void ODM_NAME(name)(void *context, int64_t chunk)                                                    \
    {                                                                                                         \
        const odm_update_job &job = *static_cast<const odm_update_job *>(context);                            \
        const int64_t first = chunk * job.width, left = job.n_columns - first;                                \
        const int64_t n = left < job.width ? left : job.width;                                                \
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

// y += factor x
LOOP void ODM_NAME(add_multiple)(int64_t n, double factor, const double *__restrict x, double *__restrict y)
{
    for (int64_t j = 0; j < n; ++j) y[j] += factor * x[j];
}

// matrix[i][j] -= sum_k columns[k][i] columns[k][j] for a chunk of the rows from first_row on and
// first_column <= j <= i (some j > i change, too), in tiles of four rows that stay in registers.
LOOP void ODM_NAME(subtract_products)(void *context, int64_t chunk)
{
    const odm_factor_job &job = *static_cast<const odm_factor_job *>(context);
    const int64_t n = job.n, stride = job.stride, line = odm_factor_line(n), begin = job.first_row + chunk * job.rows;
    const int64_t end = begin + job.rows < n ? begin + job.rows : n;
    for (int64_t block = job.first_column; block < end; block += ODM_PANEL_COLUMNS) {
        for (int64_t i = begin; i < end; i += 4) {
            const int64_t last = i + 4 < end ? i + 4 : end;
            const int64_t stop = block + ODM_PANEL_COLUMNS < last ? block + ODM_PANEL_COLUMNS : last;
            int64_t j = block;
            for (; last == i + 4 && j < stop && j + 2 * LANES <= n; j += 2 * LANES) {
                VEC s00 = {}, s01 = {}, s10 = {}, s11 = {}, s20 = {}, s21 = {}, s30 = {}, s31 = {};
                const double *a = job.columns + i, *b = job.columns + j;
                for (int64_t k = 0; k < job.width; ++k, a += line, b += line) {
                    const VEC x = READ(b, 0), y = READ(b, LANES);
                    s00 += a[0] * x; s01 += a[0] * y;
                    s10 += a[1] * x; s11 += a[1] * y;
                    s20 += a[2] * x; s21 += a[2] * y;
                    s30 += a[3] * x; s31 += a[3] * y;
                }
                double *m = job.matrix + i * stride + j;
                AT(m, 0) -= s00; AT(m, LANES) -= s01; m += stride;
                AT(m, 0) -= s10; AT(m, LANES) -= s11; m += stride;
                AT(m, 0) -= s20; AT(m, LANES) -= s21; m += stride;
                AT(m, 0) -= s30; AT(m, LANES) -= s31;
            }
            for (; j < stop; ++j)
                for (int64_t row = i; row < last; ++row) {
                    double sum = 0;
                    for (int64_t k = 0; k < job.width; ++k) sum += job.columns[k * line + row] * job.columns[k * line + j];
                    job.matrix[row * stride + j] -= sum;
                }
        }
    }
}

// out = factor in, for some columns.
LOOP void ODM_NAME(multiply)(void *context, int64_t chunk)
{
    const odm_multiply_job &job = *static_cast<const odm_multiply_job *>(context);
    const int64_t begin = chunk * ODM_PANEL_COLUMNS, rest = job.line - begin;
    const int64_t length = rest < ODM_PANEL_COLUMNS ? rest : ODM_PANEL_COLUMNS;
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

// The lower triangle of a symmetric matrix (what is above may be overwritten) becomes its factor L (A = L L'). `work`
// has room for odm_factor_line(n) * ODM_FACTOR_BLOCK numbers. 0, or the number of the first row (from 1) whose pivot is
// not positive.
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
        odm_factor_job job = {matrix, n, stride, first + width, first + width, ODM_FACTOR_ROWS, work, width};
        odm_parallel_for((n - first - width + ODM_FACTOR_ROWS - 1) / ODM_FACTOR_ROWS, n_threads,
                         ODM_NAME(subtract_products), &job);
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
        even += READ(x, j) * READ(y, j);
        odd += READ(x, j + LANES) * READ(y, j + LANES);
    }
    even += odd;
    double sum = 0;
    for (int64_t lane = 0; lane < LANES; ++lane) sum += even[lane];
    for (; j < n; ++j) sum += x[j] * y[j];
    return sum;
}

// x = A^-1 x from the factor.
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

// Cholesky factor of the free rows of an active-set method: A = R'R, changed by one row at a time at the cost of n^2
// multiplications. R is kept by rows, R[i][j] for i <= j < n, so that every loop runs along memory. A pivot is never
// below the floor given: where a new row depends on the others, the step becomes a long one, which the method cuts at
// the nearest bound.

// A row more: `column` has its n products with the rows at hand (and is used up), `diagonal` that with itself.
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

// Row `gone` leaves; what it had taken from the later ones is given back. `work` has room for n numbers.
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

// x = A^-1 x
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
