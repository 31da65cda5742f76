// The loops of vectors.h for one instruction set; included more than once.

LOOP double ODM_NAME(inner)(const double *x, const double *y, int64_t n)
{
    VEC sums[4] = {};  // apart, so that no addition waits for the one before
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int64_t part = 0; part < 4; ++part) {
            const int64_t place = i + part * LANES;
            sums[part] += READ(x, place) * READ(y, place);
        }
    const VEC sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    double total = 0;
    for (int64_t lane = 0; lane < LANES; ++lane) total += sum[lane];
    for (; i < n; ++i) total += x[i] * y[i];
    return total;
}
