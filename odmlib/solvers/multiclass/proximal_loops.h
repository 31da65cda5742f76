// The loops of proximal.h for one instruction set; included more than once.

// The four lines a of factor x x', four by four values
LOOP void ODM_NAME(add_lines)(const odm_quads &x, int64_t a, double factor, double *P, int64_t stride)
{
    double *lines = P + 4 * x.quads[a] * stride;
    const double *own = x.values + 4 * a;
    const double s0 = factor * own[0], s1 = factor * own[1], s2 = factor * own[2], s3 = factor * own[3];
    for (int64_t b = 0; b <= a; ++b)
        for (int64_t part = 0; part < 4; part += LANES) {
            const VEC other = READ(x.values, 4 * b + part);
            double *target = lines + 4 * x.quads[b] + part;
            AT(target, 0) += s0 * other;
            AT(target, stride) += s1 * other;
            AT(target, 2 * stride) += s2 * other;
            AT(target, 3 * stride) += s3 * other;
        }
}

// Several rows: some lines of P at a time, which stay in the cache meanwhile.
LOOP void ODM_NAME(add_outer_products)(const odm_quads *rows, const double *factors, int64_t n, int64_t d, double *P,
                                  int64_t stride)
{
    int64_t done[ODM_OUTER_ROWS] = {};
    for (int64_t end = ODM_TILE_LINES; end < d + ODM_TILE_LINES; end += ODM_TILE_LINES)
        for (int64_t r = 0; r < n; ++r)
            for (; done[r] < rows[r].n && 4 * rows[r].quads[done[r]] < end; ++done[r])
                ODM_NAME(add_lines)(rows[r], done[r], factors[r], P, stride);
}

// Lines 4a .. 4a+3 and N vectors of quads from q on of sum_r factor_r x_r x_r' over n full rows: P is read and written once.
template <int N>
LOOP void ODM_NAME(dense_tile)(const double *const *x, const double *factors, int64_t n, int64_t a, int64_t q, double *P,
                              int64_t stride)
{
    VEC sums[4][N];
    for (int line = 0; line < 4; ++line)
        for (int v = 0; v < N; ++v) sums[line][v] = READ(P, (4 * a + line) * stride + q + v * LANES);
    for (int64_t r = 0; r < n; ++r) {
        const double *row = x[r];
        for (int line = 0; line < 4; ++line) {
            const double step = factors[r] * row[4 * a + line];
            for (int v = 0; v < N; ++v) sums[line][v] += step * READ(row, q + v * LANES);
        }
    }
    for (int line = 0; line < 4; ++line)
        for (int v = 0; v < N; ++v) AT(P, (4 * a + line) * stride + q + v * LANES) = sums[line][v];
}

// P += sum of factor x x' over n full rows, by quads of lines (P has lines for all columns of the rows)
LOOP void ODM_NAME(add_dense_outer_products)(const double *const *x, const double *factors, int64_t n, int64_t stride, double *P)
{
    for (int64_t a = 0; 4 * a < stride; ++a) {
        const int64_t end = 4 * (a + 1);
        int64_t q = 0;
        for (; q + 3 * LANES <= end; q += 3 * LANES) ODM_NAME(dense_tile)<3>(x, factors, n, a, q, P, stride);
        for (; q + 2 * LANES <= end; q += 2 * LANES) ODM_NAME(dense_tile)<2>(x, factors, n, a, q, P, stride);
        for (; q < end; q += LANES) ODM_NAME(dense_tile)<1>(x, factors, n, a, q, P, stride);
    }
}

// out += sum of factor x x' u over rows: a row's product with u and the row times that, while it is in the cache.
LOOP void ODM_NAME(outer_products_times)(const odm_mcodm &s, const int32_t *rows, const double *factors, int64_t n, const double *u,
                                    double *out)
{
    constexpr int CHAINS = 4;
    const int64_t last = s.n_columns - 1;
    for (int64_t r = 0; r < n; ++r) {
        const int64_t begin = s.starts[rows[r]], end = s.starts[rows[r] + 1];
        if (r + 6 < n) __builtin_prefetch(s.starts + rows[r + 6]);
        if (r + 2 < n) {  // rows of a pair are far from each other in memory
            const int64_t next = s.starts[rows[r + 2]], far = s.starts[rows[r + 2] + 1];
            for (int64_t p = next; p < far; p += 8) __builtin_prefetch(s.values + p);
            for (int64_t p = next; p < far; p += 16) __builtin_prefetch(s.columns + p);
        }
        double sums[CHAINS] = {};
        int64_t p = begin;
        for (; p + CHAINS <= end; p += CHAINS)
            for (int c = 0; c < CHAINS; ++c) sums[c] += s.values[p + c] * u[s.columns[p + c]];
        for (; p < end; ++p) sums[0] += s.values[p] * u[s.columns[p]];
        if (s.bias != 0) sums[1] += s.bias * u[last];
        const double step = factors[r] * ((sums[0] + sums[1]) + (sums[2] + sums[3]));
        for (p = begin; p < end; ++p) out[s.columns[p]] += step * s.values[p];
        if (s.bias != 0) out[last] += step * s.bias;
    }
}

// The proximal step of row i at base + length change, base being its scores minus t_i center_i: zeta, beta and the
// number of positive zeta. Returns <change, v>. N: vectors of classes, 0 for any number.
template <int N>
LOOP double ODM_NAME(prox_row_of)(const odm_mcodm &s, int64_t i, double t, const double *base, const double *change,
                                  double length, double *zeta, double *beta, int32_t *n_active)
{
    const int64_t padded = N ? N * LANES : s.padded;
    for (int64_t l = 0; l < padded; l += LANES) AT(zeta, l) = READ(base, l) + length * READ(change, l);
    const odm_class_row row = odm_class_row_of(s, i, t, true);
    const double total = ODM_NAME(class_block)(row, zeta, s.n_classes, padded, beta);
    *n_active = 0;
    if (total == 0 && *beta == 0) return 0;
    VEC changes = {}, counts = {};
    const VEC zero = {}, one = zero + 1.0;
    for (int64_t l = 0; l < padded; l += LANES) {
        const VEC x = READ(zeta, l);
        changes += x * READ(change, l);
        counts += x > zero ? one : zero;
    }
    double slope = (total - *beta) * change[s.labels[i]], count = 0;
    for (int64_t lane = 0; lane < LANES; ++lane) {
        slope -= changes[lane];
        count += counts[lane];
    }
    if (!s.frozen) slope += *beta * change[s.others[i]];
    *n_active = static_cast<int32_t>(count);
    return slope;
}

LOOP double ODM_NAME(prox_row)(const odm_mcodm &s, int64_t i, double t, const double *base, const double *change,
                               double length, double *zeta, double *beta, int32_t *n_active)
{
#define ODM_CASE(N) \
    case N: return ODM_NAME(prox_row_of)<N>(s, i, t, base, change, length, zeta, beta, n_active);
    switch (s.padded / LANES) {
        ODM_CASE(1) ODM_CASE(2) ODM_CASE(3) ODM_CASE(4) ODM_CASE(5) ODM_CASE(6)
    default: return ODM_NAME(prox_row_of)<0>(s, i, t, base, change, length, zeta, beta, n_active);
    }
#undef ODM_CASE
}

// v from zeta and beta
LOOP void ODM_NAME(dense_duals)(const odm_mcodm &s, int64_t i, const double *zeta, double beta, double *v)
{
    VEC sums = {};
    for (int64_t l = 0; l < s.padded; l += LANES) {
        sums += READ(zeta, l);
        AT(v, l) = -READ(zeta, l);
    }
    double total = 0;
    for (int64_t lane = 0; lane < LANES; ++lane) total += sums[lane];
    v[s.labels[i]] += total - beta;
    if (!s.frozen) v[s.others[i]] += beta;
}

// w += sum of x_i v_i' over ODM_SOME_ROWS full rows, N vectors of classes
template <int N>
LOOP void ODM_NAME(add_dense)(const odm_mcodm &s, const double *const *x, const double *v, double *w)
{
    VEC steps[ODM_SOME_ROWS][N];
    for (int r = 0; r < ODM_SOME_ROWS; ++r)
        for (int n = 0; n < N; ++n) steps[r][n] = READ(v, r * s.padded + n * LANES);
    for (int64_t j = 0; j < s.n_columns; ++j) {
        double *stripe = w + j * s.padded;
        for (int n = 0; n < N; ++n) {
            VEC sum = AT(stripe, n * LANES);
            for (int r = 0; r < ODM_SOME_ROWS; ++r) sum += x[r][j] * steps[r][n];
            AT(stripe, n * LANES) = sum;
        }
    }
}

// w += sum of x_i v_i' over n <= ODM_SOME_ROWS rows, whose v are one stripe after another
LOOP void ODM_NAME(add_duals)(const odm_mcodm &s, const int64_t *rows, int64_t n, const double *v, double *w)
{
    if (!s.dense || n < ODM_SOME_ROWS) {
        for (int64_t r = 0; r < n; ++r) ODM_NAME(mcodm_add)(s, rows[r], v + r * s.padded, w);
        return;
    }
    const double *x[ODM_SOME_ROWS];
    for (int64_t r = 0; r < ODM_SOME_ROWS; ++r) x[r] = s.dense + rows[r] * s.dense_stride;
    int64_t l = 0;
    for (; l + 2 * LANES <= s.padded; l += 2 * LANES) ODM_NAME(add_dense)<2>(s, x, v + l, w + l);
    if (l < s.padded) ODM_NAME(add_dense)<1>(s, x, v + l, w + l);
}
