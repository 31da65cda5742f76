// The loops of panel.h for one ODM_REAL (float or double) and one instruction set; included several times.
//
// Vectors are the GCC/Clang extension, so the text is the same on every processor. Nothing here relies on
// fast-math: infinities and NaN pass through as IEEE says.

typedef ODM_REAL ODM_NAME(vec) __attribute__((vector_size(ODM_VECTOR_BYTES), may_alias));
typedef ODM_WORD ODM_NAME(ivec) __attribute__((vector_size(ODM_VECTOR_BYTES), may_alias));

#define REAL ODM_REAL
#define VEC ODM_NAME(vec)
#define IVEC ODM_NAME(ivec)
#define LANES (static_cast<int64_t>(ODM_VECTOR_BYTES / sizeof(REAL)))
#define WIDTH (static_cast<int64_t>(ODM_PANEL_BYTES / sizeof(REAL)))
#define LOOP ODM_TARGET static inline
// inlined always, so that vectors never cross a call (their calling convention depends on the target)
#define INLINE ODM_TARGET __attribute__((always_inline)) static inline

// out[0 .. WIDTH-1] += products of one compressed row with the rows of a panel over the columns below `end`,
// from position *at on. Eight registers of sums hide the latency of the multiply-add; each lane is one
// running sum over ascending columns.
INLINE void ODM_NAME(products)(const REAL *values, const int32_t *columns, int64_t n, int32_t end, int64_t *at,
                               const char *panel, const int32_t *slots, REAL *out)
{
    int64_t k = *at;
#if ODM_VECTOR_BYTES == 64
    VEC s0 = {}, s1 = {}, s2 = {}, s3 = {};
    for (; k < n && columns[k] < end; ++k) {
        const int64_t line = slots ? slots[columns[k]] : columns[k];
        const VEC *p = reinterpret_cast<const VEC *>(panel + line * ODM_PANEL_BYTES);
        const REAL v = values[k];
        s0 += v * p[0]; s1 += v * p[1]; s2 += v * p[2]; s3 += v * p[3];
    }
    VEC *o = reinterpret_cast<VEC *>(out);
    o[0] += s0; o[1] += s1; o[2] += s2; o[3] += s3;
#else
    for (int64_t strip = 0; strip < ODM_PANEL_BYTES; strip += 8 * ODM_VECTOR_BYTES) {
        VEC s0 = {}, s1 = {}, s2 = {}, s3 = {}, s4 = {}, s5 = {}, s6 = {}, s7 = {};
        for (k = *at; k < n && columns[k] < end; ++k) {
            const int64_t line = slots ? slots[columns[k]] : columns[k];
            const VEC *p = reinterpret_cast<const VEC *>(panel + line * ODM_PANEL_BYTES + strip);
            const REAL v = values[k];
            s0 += v * p[0]; s1 += v * p[1]; s2 += v * p[2]; s3 += v * p[3];
            s4 += v * p[4]; s5 += v * p[5]; s6 += v * p[6]; s7 += v * p[7];
        }
        VEC *o = reinterpret_cast<VEC *>(reinterpret_cast<char *>(out) + strip);
        o[0] += s0; o[1] += s1; o[2] += s2; o[3] += s3; o[4] += s4; o[5] += s5; o[6] += s6; o[7] += s7;
    }
#endif
    *at = k;
}

// The same for two rows without zeros (values at columns begin .. end-1): every line of the panel is used twice.
INLINE void ODM_NAME(full_products)(const REAL *first, const REAL *second, int64_t begin, int64_t end,
                                    const char *panel, REAL *out)
{
    for (int64_t strip = 0; strip < ODM_PANEL_BYTES; strip += 4 * ODM_VECTOR_BYTES) {
        VEC s0 = {}, s1 = {}, s2 = {}, s3 = {}, t0 = {}, t1 = {}, t2 = {}, t3 = {};
        for (int64_t k = begin; k < end; ++k) {
            const VEC *p = reinterpret_cast<const VEC *>(panel + k * ODM_PANEL_BYTES + strip);
            const REAL v = first[k], w = second[k];
            s0 += v * p[0]; s1 += v * p[1]; s2 += v * p[2]; s3 += v * p[3];
            t0 += w * p[0]; t1 += w * p[1]; t2 += w * p[2]; t3 += w * p[3];
        }
        VEC *o = reinterpret_cast<VEC *>(reinterpret_cast<char *>(out) + strip);
        o[0] += s0; o[1] += s1; o[2] += s2; o[3] += s3;
        o += ODM_PANEL_BYTES / ODM_VECTOR_BYTES;
        o[0] += t0; o[1] += t1; o[2] += t2; o[3] += t3;
    }
}

#if ODM_VECTOR_BYTES == 64
// The same for four rows, of `length` columns each, one after the other: there are registers enough.
INLINE void ODM_NAME(four_full_products)(const REAL *values, int64_t length, int64_t begin, int64_t end,
                                         const char *panel, REAL *out)
{
    VEC s0 = {}, s1 = {}, s2 = {}, s3 = {}, t0 = {}, t1 = {}, t2 = {}, t3 = {};
    VEC u0 = {}, u1 = {}, u2 = {}, u3 = {}, v0 = {}, v1 = {}, v2 = {}, v3 = {};
    for (int64_t k = begin; k < end; ++k) {
        const VEC *p = reinterpret_cast<const VEC *>(panel + k * ODM_PANEL_BYTES);
        const REAL s = values[k], t = values[length + k], u = values[2 * length + k], v = values[3 * length + k];
        s0 += s * p[0]; s1 += s * p[1]; s2 += s * p[2]; s3 += s * p[3];
        t0 += t * p[0]; t1 += t * p[1]; t2 += t * p[2]; t3 += t * p[3];
        u0 += u * p[0]; u1 += u * p[1]; u2 += u * p[2]; u3 += u * p[3];
        v0 += v * p[0]; v1 += v * p[1]; v2 += v * p[2]; v3 += v * p[3];
    }
    VEC *o = reinterpret_cast<VEC *>(out);
    o[0] += s0; o[1] += s1; o[2] += s2; o[3] += s3; o[4] += t0; o[5] += t1; o[6] += t2; o[7] += t3;
    o[8] += u0; o[9] += u1; o[10] += u2; o[11] += u3; o[12] += v0; o[13] += v1; o[14] += v2; o[15] += v3;
}
#endif

// exp(x) = power (1 + rest) for x <= 0, with power = 2^n: n is the integer nearest to x / ln 2, the remainder
// r = x - n ln 2 is taken in two parts, rest = e^r - 1 = r + r^2 P(r) with P interpolated at Chebyshev nodes
// of |r| <= ln(2)/2. Beyond the smallest normal number, power is 0.
INLINE void ODM_NAME(exp_parts)(const VEC &x, VEC &power, VEC &rest)
{
    const bool single = sizeof(REAL) == 4;
    const REAL lowest = single ? REAL(-87.3) : REAL(-708.3);
    const REAL shift = single ? REAL(12582912.0) : REAL(6755399441055744.0);  // 1.5 2^23, 1.5 2^52
    const REAL ln2_high = single ? REAL(0.693359375) : REAL(0x1.62e42feep-1);
    const REAL ln2_low = single ? REAL(-0.00021219444005469057) : REAL(1.9082149292705877e-10);
    const VEC bounded = x > lowest ? x : VEC{} + lowest;
    const VEC shifted = bounded * REAL(1.4426950408889634) + shift;
    const VEC n = shifted - shift;
    const VEC r = bounded - n * ln2_high - n * ln2_low;
    VEC p;
    if (single) {
        p = VEC{} + REAL(0.00139261835877135);
        p = p * r + REAL(0.008363179052722582);
        p = p * r + REAL(0.041666554617204574);
        p = p * r + REAL(0.16666576989698775);
    } else {
        p = VEC{} + REAL(2.5100385495510327e-08);
        p = p * r + REAL(2.7620088445409757e-07);
        p = p * r + REAL(2.7557268459997064e-06);
        p = p * r + REAL(2.4801521295954376e-05);
        p = p * r + REAL(0.00019841269863053618);
        p = p * r + REAL(0.0013888888917213717);
        p = p * r + REAL(0.008333333333330062);
        p = p * r + REAL(0.04166666666662413);
        p = p * r + REAL(0.16666666666666669);
    }
    p = p * r + REAL(0.5);
    rest = p * (r * r) + r;
    // the low bits of `shifted` are n: move them to the exponent
    const IVEC bits = ((IVEC)shifted << (single ? 23 : 52))
                      + (single ? ODM_WORD(127) << 23 : ODM_WORD(int64_t(1023) << (single ? 0 : 52)));
    power = x > lowest ? (VEC)bits : VEC{};
}

// Exponents x <= 0 -> exp(x) + bias, in place; n is a multiple of the lanes.
INLINE void ODM_NAME(raise)(REAL *values, int64_t n, REAL bias)
{
    VEC *x = reinterpret_cast<VEC *>(values);
    for (int64_t k = 0; k < n / LANES; ++k) {
        VEC power, rest;
        ODM_NAME(exp_parts)(x[k], power, rest);
        x[k] = (power * rest + power) + bias;
    }
}

// Scalar products of one streaming row with a panel -> kernel values, in place.
INLINE void ODM_NAME(apply)(const odm_kernel_formula &f, REAL *tile_row, const REAL *panel_norms, REAL norm)
{
    VEC *row = reinterpret_cast<VEC *>(tile_row);
    const int64_t n = WIDTH / LANES;
    const REAL bias = REAL(f.bias_squared), gamma = REAL(f.gamma), coef0 = REAL(f.coef0);
    if (f.kind == ODM_LINEAR) {
        for (int64_t k = 0; k < n; ++k) row[k] += bias;
    } else if (f.kind == ODM_POLY) {
        for (int64_t k = 0; k < n; ++k) {
            VEC factor = gamma * row[k] + coef0, result = VEC{} + REAL(1);
            for (int degree = f.degree; degree; degree >>= 1) {
                if (degree & 1) result *= factor;
                factor *= factor;
            }
            row[k] = result + bias;
        }
    } else if (f.kind == ODM_RBF || f.kind == ODM_RBF_EXPONENT) {
        const VEC *norms = reinterpret_cast<const VEC *>(panel_norms);  // these are gamma |x|^2
        for (int64_t k = 0; k < n; ++k) {
            const VEC x = (gamma + gamma) * row[k] - (norms[k] + norm);
            row[k] = x < 0 ? x : VEC{};
        }
        if (f.kind == ODM_RBF) ODM_NAME(raise)(tile_row, WIDTH, bias);
    } else {
        for (int64_t k = 0; k < n; ++k) {
            const VEC x = gamma * row[k] + coef0;
            const VEC minus_twice = x < 0 ? x + x : -(x + x);
            VEC power, rest;
            ODM_NAME(exp_parts)(minus_twice, power, rest);
            const VEC less = (power - REAL(1)) + power * rest;  // exp(-2|x|) - 1, exact near 0
            const VEC result = less / (less + REAL(2));         // -tanh |x|
            row[k] = (x < 0 ? result : -result) + bias;
        }
    }
}

// Kernel values of streaming rows first .. first+n-1 with a panel into tile[t * WIDTH + r]. The columns are
// taken in slabs, so that the part of the panel in use stays in the first-level cache and long sums are
// sums of shorter ones; the slabs depend on the data only.
LOOP void ODM_NAME(fill_tile)(const odm_kernel_formula &formula, const odm_rows &data, int64_t first, int64_t n,
                              int64_t n_columns, int64_t slab, const char *panel, const int32_t *slots,
                              const REAL *norms, REAL *tile)
{
    int64_t at[ODM_TILE_ROWS];
    std::memset(at, 0, sizeof(at));
    std::memset(tile, 0, n * ODM_PANEL_BYTES);
    for (int64_t begin = 0, end; begin < n_columns; begin = end) {
        end = begin + slab < n_columns ? begin + slab : n_columns;
        for (int64_t t = 0; t < n; ++t) {
            const int64_t start = data.starts[first + t], length = data.starts[first + t + 1] - start;
            const REAL *values = static_cast<const REAL *>(data.values) + start;
#if ODM_VECTOR_BYTES == 64
            if (!slots && t + 3 < n && length == n_columns
                && data.starts[first + t + 4] == start + 4 * n_columns
                && data.starts[first + t + 2] == start + 2 * n_columns
                && data.starts[first + t + 3] == start + 3 * n_columns) {
                ODM_NAME(four_full_products)(values, n_columns, begin, end, panel, tile + t * WIDTH);
                t += 3;
                continue;
            }
#endif
            if (!slots && t + 1 < n && length == n_columns
                && data.starts[first + t + 2] == start + 2 * n_columns) {
                ODM_NAME(full_products)(values, values + n_columns, begin, end, panel, tile + t * WIDTH);
                ++t;
                continue;
            }
            const int32_t *columns = data.columns + start, limit = static_cast<int32_t>(end);
            if (slots)
                ODM_NAME(products)(values, columns, length, limit, at + t, panel, slots, tile + t * WIDTH);
            else
                ODM_NAME(products)(values, columns, length, limit, at + t, panel, nullptr, tile + t * WIDTH);
        }
    }
    for (int64_t t = 0; t < n; ++t)
        ODM_NAME(apply)(formula, tile + t * WIDTH, norms, REAL(formula.gamma * data.norms[first + t]));
}

// A panel: lines of WIDTH values, one line per column, or (slots given) one per column that its rows use,
// line 0 being all zeros. Returns nothing; `panel` has room for every line that can occur.
LOOP void ODM_NAME(build)(const odm_rows &data, const int64_t *rows, int64_t n, int64_t n_columns,
                          REAL *panel, int32_t *slots)
{
    int32_t used = 1;
    std::memset(panel, 0, ODM_PANEL_BYTES * (slots ? 1 : n_columns));
    for (int64_t r = 0; r < n; ++r) {
        const int64_t i = rows[r];
        for (int64_t k = data.starts[i]; k < data.starts[i + 1]; ++k) {
            const int32_t column = data.columns[k];
            if (column >= n_columns) break;
            int64_t line = column;
            if (slots) {
                if (slots[column] == 0) {
                    std::memset(panel + used * WIDTH, 0, ODM_PANEL_BYTES);
                    slots[column] = used++;
                }
                line = slots[column];
            }
            panel[line * WIDTH + r] = static_cast<const REAL *>(data.values)[k];
        }
    }
}

// Make all slots zero again, touching only those in use.
LOOP void ODM_NAME(clear)(const odm_rows &data, const int64_t *rows, int64_t n, int64_t n_columns, int32_t *slots)
{
    for (int64_t r = 0; r < n; ++r)
        for (int64_t k = data.starts[rows[r]]; k < data.starts[rows[r] + 1]; ++k)
            if (data.columns[k] < n_columns) slots[data.columns[k]] = 0;
}

// Lines that a panel of these rows can need.
LOOP int64_t ODM_NAME(lines)(const odm_rows &data, const int64_t *rows, int64_t n, int64_t n_columns)
{
    if (n_columns <= ODM_DIRECT_COLUMNS) return n_columns;
    int64_t total = 1;
    for (int64_t r = 0; r < n; ++r) total += data.starts[rows[r] + 1] - data.starts[rows[r]];
    return total < n_columns + 1 ? total : n_columns + 1;
}

// Memory of one or more panels with their slots and norms, aligned to a cache line.
struct ODM_NAME(room) {
    char *panels = nullptr;
    int32_t *slots = nullptr;
    bool take(int64_t panel_bytes, int64_t n_slots) noexcept
    {
        panels = static_cast<char *>(odm_aligned_alloc(64, panel_bytes > 0 ? panel_bytes : 64));
        if (n_slots) slots = static_cast<int32_t *>(std::calloc(n_slots, sizeof(int32_t)));
        return panels && (slots || !n_slots);
    }
    ~ODM_NAME(room)() { odm_aligned_free(panels); std::free(slots); }
};

// Norms as `apply` wants them: gamma |x|^2 for the RBF kernel.
LOOP void ODM_NAME(panel_norms)(const odm_kernel_formula &f, const odm_rows &data, const int64_t *rows,
                                int64_t n, REAL *out)
{
    for (int64_t r = 0; r < WIDTH; ++r) out[r] = r < n ? REAL(f.gamma * data.norms[rows[r]]) : REAL(0);
}

#include "panel_block.h"
#include "panel_sums.h"

#undef REAL
#undef VEC
#undef IVEC
#undef LANES
#undef WIDTH
#undef LOOP
#undef INLINE
#undef ODM_REAL
#undef ODM_WORD
#undef ODM_VARIANT
#undef ODM_RAISE
