// Products with a symmetric float32 matrix of which the rows hold the columns up to the diagonal block.
//
// A row is read once and used twice, as a row and as a column: half the memory traffic of a full matrix,
// which is what bounds such a product. Sums are in double. Four rows go together, so that the vector and the
// sums are read and written a quarter as often. Compiled once more for AVX2 and FMA, chosen at run time.
#ifndef ODMLIB_SYMMETRIC_H
#define ODMLIB_SYMMETRIC_H

#include <cstdint>
#include <cstdlib>

typedef float odm_quad __attribute__((vector_size(16), may_alias, aligned(4)));
typedef double odm_quad_double __attribute__((vector_size(32), may_alias, aligned(8)));

// dots[r] += sum_j rows[r][j] v[j] and, with `both`, sums[j] += sum_r rows[r][j] factors[r], for four rows
#define ODM_SYMMETRIC_LOOP(NAME, TARGET)                                                                       \
    TARGET static void NAME(const float *const *rows, const double *factors, int64_t n, const double *v,       \
                            double *sums, double *dots, bool both) noexcept                                    \
    {                                                                                                          \
        const float *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];                                    \
        odm_quad_double sa = {}, sb = {}, sc = {}, sd = {};                                                    \
        int64_t j = 0;                                                                                         \
        for (; j + 4 <= n; j += 4) {                                                                           \
            const odm_quad_double x = *reinterpret_cast<const odm_quad_double *>(v + j);                       \
            const auto ka = __builtin_convertvector(*reinterpret_cast<const odm_quad *>(a + j), odm_quad_double); \
            const auto kb = __builtin_convertvector(*reinterpret_cast<const odm_quad *>(b + j), odm_quad_double); \
            const auto kc = __builtin_convertvector(*reinterpret_cast<const odm_quad *>(c + j), odm_quad_double); \
            const auto kd = __builtin_convertvector(*reinterpret_cast<const odm_quad *>(d + j), odm_quad_double); \
            sa += ka * x;                                                                                      \
            sb += kb * x;                                                                                      \
            sc += kc * x;                                                                                      \
            sd += kd * x;                                                                                      \
            if (both) {                                                                                        \
                odm_quad_double *s = reinterpret_cast<odm_quad_double *>(sums + j);                            \
                *s += (ka * factors[0] + kb * factors[1]) + (kc * factors[2] + kd * factors[3]);               \
            }                                                                                                  \
        }                                                                                                      \
        for (; j < n; ++j) {                                                                                   \
            sa[0] += a[j] * v[j];                                                                              \
            sb[0] += b[j] * v[j];                                                                              \
            sc[0] += c[j] * v[j];                                                                              \
            sd[0] += d[j] * v[j];                                                                              \
            if (both) sums[j] += (a[j] * factors[0] + b[j] * factors[1]) + (c[j] * factors[2] + d[j] * factors[3]); \
        }                                                                                                      \
        dots[0] += (sa[0] + sa[1]) + (sa[2] + sa[3]);                                                          \
        dots[1] += (sb[0] + sb[1]) + (sb[2] + sb[3]);                                                          \
        dots[2] += (sc[0] + sc[1]) + (sc[2] + sc[3]);                                                          \
        dots[3] += (sd[0] + sd[1]) + (sd[2] + sd[3]);                                                          \
    }

ODM_SYMMETRIC_LOOP(odm_four_rows_plain, )
#if defined(__x86_64__) && defined(__GNUC__)
ODM_SYMMETRIC_LOOP(odm_four_rows_avx2, __attribute__((target("avx2,fma"))))
#endif

static inline void odm_four_rows(const float *const *rows, const double *factors, int64_t n, const double *v,
                                 double *sums, double *dots, bool both) noexcept
{
#if defined(__x86_64__) && defined(__GNUC__)
    static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
                             && std::getenv("ODMLIB_BASELINE") == nullptr;
    if (avx2) {
        odm_four_rows_avx2(rows, factors, n, v, sums, dots, both);
        return;
    }
#endif
    odm_four_rows_plain(rows, factors, n, v, sums, dots, both);
}

#endif
