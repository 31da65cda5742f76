// The loops of joint_prox.h for one instruction set; included more than once.

#define VEC ODM_NAME(class_vec)
#define LANES (static_cast<int64_t>(ODM_VECTOR_BYTES / sizeof(double)))
#define LOOP ODM_TARGET static inline
#define AT(array, place) (*reinterpret_cast<VEC *>((array) + (place)))
#define READ(array, place) (*reinterpret_cast<const VEC *>((array) + (place)))

// P += factor x x'; lines end where a vector does, at or beyond the diagonal.
LOOP void ODM_NAME(add_triangle)(const double *x, int64_t d, double factor, double *P, int64_t stride)
{
    for (int64_t p = 0; p < d; ++p) {
        const double step = factor * x[p];
        double *line = P + p * stride;
        for (int64_t q = 0; q <= p; q += LANES) AT(line, q) += step * READ(x, q);
    }
}

LOOP void ODM_NAME(add_pairs)(const odm_joint &s, int64_t i, const odm_bend &bend, const double *zeta, int64_t group,
                              int64_t n_groups, int32_t *classes, double *x, const odm_pairs &pairs)
{
    int64_t n = 0;
    for (int64_t l = 0; l < s.n_classes; ++l)
        if (zeta[l] > 0 || l == bend.label || (bend.above && l == bend.other)) classes[n++] = static_cast<int32_t>(l);
    const bool full = 2 * (s.starts[i + 1] - s.starts[i]) >= s.n_columns;
    if (full) odm_dense_row(s, i, x, pairs.stride);
    for (int64_t a = 0; a < n; ++a) {
        const int64_t l = classes[a];
        if (l % n_groups != group) continue;
        double sum = 0;
        for (int64_t b = 0; b < n; ++b) {
            const int64_t m = classes[b];
            const double J = odm_bend_at(bend, l, zeta[l] > 0, m, zeta[m] > 0);
            sum += J;
            if (m >= l || J == 0) continue;
            double *P = odm_pair_block(s, pairs, l, m);
            if (full)
                ODM_NAME(add_triangle)(x, s.n_columns, -J, P, pairs.stride);
            else
                odm_add_square(s, i, -J, P, pairs.stride);
        }
        if (s.frozen && bend.above) odm_add_square(s, i, sum, odm_pair_block(s, pairs, l, l), pairs.stride);
    }
}

LOOP double ODM_NAME(prox_row)(const odm_joint &s, int64_t i, double t, const double *f, const double *centre,
                               const double *change, double *zeta, double *beta, double *v, double *along)
{
    const int64_t padded = s.padded;
    for (int64_t l = 0; l < padded; l += LANES) AT(zeta, l) = READ(f, l) - t * READ(centre, l);
    const odm_class_row row = odm_class_row_of(s, i, t, true);
    const double total = ODM_NAME(class_block)(row, zeta, s.n_classes, padded, beta);
    const double b = *beta, h = s.h[i];
    for (int64_t l = 0; l < padded; l += LANES) AT(v, l) = -READ(zeta, l);
    v[s.labels[i]] += total - b;
    if (!s.frozen) v[s.others[i]] += b;
    VEC lines = {}, squares = {}, changes = {};
    for (int64_t l = 0; l < padded; l += LANES) {
        const VEC now = READ(v, l), moved = now - READ(centre, l);
        lines += now * READ(f, l);
        squares += moved * moved;
        changes += now * READ(change, l);
    }
    double linear = 0, square = 0;
    for (int64_t lane = 0; lane < LANES; ++lane) {
        linear += lines[lane];
        square += squares[lane];
        *along += changes[lane];
    }
    double value = linear + 0.5 * t * square + 0.5 * h * total * total - (1 - s.theta) * total;
    if (b > 0) value += 0.5 * h * b * b / s.nu + ((s.frozen ? s.references[i] : 0.0) + 1 + s.theta) * b;
    return value;
}

#undef VEC
#undef LANES
#undef LOOP
#undef AT
#undef READ
