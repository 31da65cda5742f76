// The loops of class_block.h for one instruction set; included more than once.

// into the caller: with a known number of classes the loops over classes disappear
#define INLINE LOOP __attribute__((always_inline))

INLINE VEC ODM_NAME(lane_numbers)()
{
    VEC numbers = {};
    for (int64_t lane = 0; lane < LANES; ++lane) numbers[lane] = static_cast<double>(lane);
    return numbers;
}

// One value of a stripe is set, or gets something added, by whole vectors: the processor cannot hand a single number that
// was just written to a reader of the vector around it, and waits.
INLINE void ODM_NAME(set_at)(double *stripe, int64_t index, double value)
{
    const VEC all = VEC{} + value;
    double *around = stripe + index / LANES * LANES;
    AT(around, 0) = ODM_NAME(lane_numbers)() == static_cast<double>(index % LANES) ? all : AT(around, 0);
}

INLINE void ODM_NAME(add_at)(double *stripe, int64_t index, double value)
{
    const VEC all = VEC{} + value, zero = {};
    double *around = stripe + index / LANES * LANES;
    AT(around, 0) += ODM_NAME(lane_numbers)() == static_cast<double>(index % LANES) ? all : zero;
}

INLINE double ODM_NAME(stripe_max)(const double *stripe, int64_t n)
{
    VEC most = READ(stripe, 0);
    for (int64_t l = LANES; l < n; l += LANES) {
        const VEC x = READ(stripe, l);
        most = x > most ? x : most;
    }
    double result = most[0];
    for (int64_t lane = 1; lane < LANES; ++lane) result = most[lane] > result ? most[lane] : result;
    return result;
}

// The largest value but that of one class; this one and the padding become minus infinity.
INLINE double ODM_NAME(best_of_others)(double *stripe, int64_t n_classes, int64_t padded, int64_t label)
{
    const VEC zero = {}, none = zero + ODM_NO_SCORE;
    VEC numbers = ODM_NAME(lane_numbers)(), most = none;
    for (int64_t l = 0; l < padded; l += LANES) {
        VEC x = AT(stripe, l);
        x = numbers == static_cast<double>(label) ? none : x;
        x = numbers >= static_cast<double>(n_classes) ? none : x;
        AT(stripe, l) = x;
        most = x > most ? x : most;
        numbers += static_cast<double>(LANES);
    }
    double result = most[0];
    for (int64_t lane = 1; lane < LANES; ++lane) result = most[lane] > result ? most[lane] : result;
    return result;
}

// The root nu of Q nu - P + sum_l min(0, nu - b_l); `top` is the largest b_l, minus infinity for an empty list.
INLINE double ODM_NAME(threshold)(const double *b, int64_t n, double top, double P, double Q)
{
    if (P >= Q * top) return P / Q;
    double nu = (P + top) / (Q + 1);  // as if the largest alone were active: not above the root
    int64_t last = 1;
    for (;;) {
        auto counts = VEC{} > 1.0;  // numbers of the vectors' width, all 0
        for (int64_t l = 0; l < n; l += LANES) counts -= READ(b, l) > nu;
        int64_t count = 0;
        for (int64_t lane = 0; lane < LANES; ++lane) count += counts[lane];
        if (count == last) return nu;  // active ones only become fewer, so these are the same
        VEC sums = {};
        const VEC zero = {};
        for (int64_t l = 0; l < n; l += LANES) {
            const VEC x = READ(b, l);
            sums += x > nu ? x : zero;
        }
        double sum = P;
        for (int64_t lane = 0; lane < LANES; ++lane) sum += sums[lane];
        const double next = sum / (Q + static_cast<double>(count));
        if (!(next > nu)) return nu;
        nu = next;
        last = count;
    }
}

INLINE double ODM_NAME(class_block)(const odm_class_row &row, double *b, int64_t n_classes, int64_t padded, double *beta)
{
    const double A = row.curvature, h = row.h, e = row.e, D = A + h;
    const double score_y = b[row.label];
    const double shift = ODM_NAME(best_of_others)(b, n_classes, padded, row.label);
    for (int64_t l = 0; l < padded; l += LANES) AT(b, l) -= shift;
    const double b_y = score_y - shift - (1 - row.theta);
    *beta = 0;
    // the common case: the margin is in the band and no multiplier is wanted
    const bool quiet_above = !(e < std::numeric_limits<double>::infinity())
                             || (row.other < 0 ? row.reference + 1 + row.theta >= score_y
                                               : b_y - b[row.other] <= 2 * row.theta);
    if (b_y >= 0 && quiet_above) {
        const VEC zero = {};
        for (int64_t l = 0; l < padded; l += LANES) AT(b, l) = zero;
        return 0;
    }

    const double inverse_D = 1 / D;
    double nu = ODM_NAME(threshold)(b, padded, 0.0, A * b_y * inverse_D, A * inverse_D);
    if (e < std::numeric_limits<double>::infinity()) {
        const double a_y = (nu - b_y) * inverse_D;
        if (row.other < 0) {
            const double F = row.reference + 1 + row.theta - score_y;
            if (A * a_y > F) {
                const double E = A + e, Dl = h * (A + e) + A * e;  // D E - A^2
                nu = ODM_NAME(threshold)(b, padded, 0.0, A * (E * b_y + A * F) / Dl, A * E / Dl);
                *beta = (A * (E * (nu - b_y) - A * F) / Dl - F) / E;
            }
        } else {
            const double b_q = b[row.other], G = b_q - b_y + 2 * row.theta;
            if (A * a_y + (b_q > nu ? b_q - nu : 0.0) > G) {
                const double E2 = 2 * A + e, Dl = A * (A + e + 2 * h) + h * e;  // D E2 - A^2
                ODM_NAME(set_at)(b, row.other, ODM_NO_SCORE);
                const double top = ODM_NAME(stripe_max)(b, padded);
                nu = ODM_NAME(threshold)(b, padded, top, A * (E2 * b_y + A * G) / Dl, A * E2 / Dl);
                *beta = (A * (E2 * (nu - b_y) - A * G) / Dl - G) / E2;
            }
        }
        if (!(*beta > 0)) *beta = 0;
    }
    VEC totals = {};
    const VEC zero = {};
    const double inverse = 1 / A;
    for (int64_t l = 0; l < padded; l += LANES) {
        const VEC x = (AT(b, l) - nu) * inverse;
        const VEC zeta = x > zero ? x : zero;
        AT(b, l) = zeta;
        totals += zeta;
    }
    double total = 0;
    for (int64_t lane = 0; lane < LANES; ++lane) total += totals[lane];
    return total;
}

#undef INLINE
