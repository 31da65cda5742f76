// Rows of the proximal Newton method for the multi-class machine; newton.py states the method.
//
// Row i's proximal step v_i(f) = argmin_v conj_i(v) + <f, v> + t_i/2 |v - center_i|^2 is the sub-problem of
// class_block.h with curvature t_i. Its derivative is -J_i, with S = {l: zeta_l > 0}:
//
//   J = sum_{l in S} g_l e_l e_l' + g_y u u' - a a' / sum g + k p p',     a = sum_{l in S} g_l e_l + g_y u,   g_l = 1/t
//   beta = 0:            g_y = 1/(t+h),  u = e_y,                        k = 0
//   beta > 0, majorise:  g_y = E/(D E - t^2), u = e_y - t/E p,  k = 1/E, p = e_y - e_q,  E = 2t + h/nu,  D = t + h
//   beta > 0, frozen:    the same with p = e_y, E = t + h/nu
#ifndef ODMLIB_PROXIMAL_H
#define ODMLIB_PROXIMAL_H

#include <new>
#include <vector>

#include "mcodm.h"
#include "memory.h"

struct odm_jacobian {  // J of one row
    double g, g_y, inverse, pull, k;  // inverse: of sum g; pull: t/E
    int32_t label, other;         // other = -1: p = e_y
    bool above;                   // beta > 0
};

// J of a row; n_active is the number of its positive zeta. False: J = 0.
static inline bool odm_jacobian_of(const odm_mcodm &s, int64_t i, double t, int64_t n_active, double beta,
                               odm_jacobian *jacobian) noexcept
{
    if (n_active == 0 && !(beta > 0)) return false;
    const double h = s.h[i];
    jacobian->label = s.labels[i];
    jacobian->other = s.frozen ? -1 : s.others[i];
    jacobian->above = beta > 0;
    jacobian->g = 1 / t;
    if (beta > 0) {
        const double e = h / s.nu, E = (s.frozen ? t : 2 * t) + e;
        jacobian->g_y = s.frozen ? E / (h * (t + e) + t * e) : E / (t * (t + e + 2 * h) + h * e);
        jacobian->pull = t / E;
        jacobian->k = 1 / E;
    } else {
        jacobian->g_y = 1 / (t + h);
        jacobian->pull = jacobian->k = 0;
    }
    if (n_active == 0) jacobian->g = jacobian->g_y = 0;  // T stays 0
    jacobian->inverse = n_active ? 1 / (n_active * jacobian->g + jacobian->g_y) : 1;
    return true;
}

// u and p at class l
static inline double odm_jacobian_p(const odm_jacobian &b, int64_t l) noexcept
{
    if (!b.above) return 0;
    return l == b.label ? 1.0 : l == b.other ? -1.0 : 0.0;
}

static inline double odm_jacobian_u(const odm_jacobian &b, int64_t l) noexcept
{
    return (l == b.label ? 1.0 : 0.0) - b.pull * odm_jacobian_p(b, l);
}

// J[l][m]; `active` tells whether the class is in S
static inline double odm_jacobian_at(const odm_jacobian &b, int64_t l, bool active_l, int64_t m, bool active_m) noexcept
{
    const double u_l = odm_jacobian_u(b, l), u_m = odm_jacobian_u(b, m);
    const double a_l = (active_l ? b.g : 0) + b.g_y * u_l, a_m = (active_m ? b.g : 0) + b.g_y * u_m;
    return (l == m && active_l ? b.g : 0) + b.g_y * u_l * u_m - a_l * a_m * b.inverse +
           b.k * odm_jacobian_p(b, l) * odm_jacobian_p(b, m);
}

// d becomes J d
static inline void odm_jacobian_product(const odm_jacobian &b, const double *zeta, double *d, int64_t n_classes,
                                    int64_t padded) noexcept
{
    const double p_d = b.above ? d[b.label] - (b.other >= 0 ? d[b.other] : 0) : 0;
    const double u_d = d[b.label] - b.pull * p_d;
    double mean = b.g_y * u_d;
    for (int64_t l = 0; l < n_classes; ++l)
        if (zeta[l] > 0) mean += b.g * d[l];
    mean *= b.inverse;
    for (int64_t l = 0; l < n_classes; ++l) d[l] = zeta[l] > 0 ? b.g * (d[l] - mean) : 0;
    for (int64_t l = n_classes; l < padded; ++l) d[l] = 0;
    const double along_u = b.g_y * (u_d - mean), along_p = b.k * p_d - b.pull * along_u;
    d[b.label] += along_u;
    if (b.above) {
        d[b.label] += along_p;
        if (b.other >= 0) d[b.other] -= along_p;
    }
}

// J_i x_i x_i' in parts: factor x_i x_i' belongs to a pair of classes.
struct odm_pair_term {
    int32_t pair, row;
    double factor;
};

// The Hessian is kept by pairs of classes: J = sum_l (sum_m J_lm) e_l e_l' - sum_{l > m} J_lm (e_l - e_m)(e_l - e_m)',
// whose first sum is 0 where the classes' moves add up to 0. A row with one active class then adds one triangle
// instead of those of two classes and the square between them. Pair (l, m), m <= l, has the index l(l+1)/2 + m.
// Adds the terms of row i; `classes` is scratch. False: no memory.
static inline bool odm_row_pair_terms(const odm_mcodm &s, int64_t i, double t, int64_t n_active, double beta,
                                      const double *zeta, int32_t *classes, std::vector<odm_pair_term> *terms) noexcept
try {
    odm_jacobian b;
    if (!odm_jacobian_of(s, i, t, n_active, beta, &b)) return true;
    const auto add = [&](int64_t l, int64_t m, double factor) {
        const int64_t pair = l > m ? l * (l + 1) / 2 + m : m * (m + 1) / 2 + l;
        terms->push_back({static_cast<int32_t>(pair), static_cast<int32_t>(i), factor});
    };
    if (!b.above && n_active == 1) {  // the usual rows: one wrong class and y
        int64_t l = 0;
        while (!(zeta[l] > 0)) ++l;
        add(l, b.label, b.g * b.g_y * b.inverse);
        return true;
    }
    int64_t n = 0;  // classes in which J_i is not 0
    for (int64_t l = 0; l < s.n_classes; ++l)
        if (zeta[l] > 0 || l == b.label || (b.above && l == b.other)) classes[n++] = static_cast<int32_t>(l);
    const bool sums_count = s.frozen && b.above;
    for (int64_t a = 0; a < n; ++a) {
        const int64_t l = classes[a], end = sums_count ? n : a;
        double sum = 0;
        for (int64_t c = 0; c < end; ++c) {
            const int64_t m = classes[c];
            const double J = odm_jacobian_at(b, l, zeta[l] > 0, m, zeta[m] > 0);
            sum += J;
            if (c < a && J != 0) add(l, m, -J);
        }
        if (sums_count) add(l, l, sum);
    }
    return true;
} catch (const std::bad_alloc &) {
    return false;
}

// A row's values (bias included) by quads of neighbouring columns, those without a value left out: `quads` are their
// numbers. Outer products x x' are then sums of short vectors, whether the row is full or not.
struct odm_quads {
    int32_t *quads;
    double *values;
    int64_t n;
};

static const int64_t ODM_SOME_ROWS = 4;    // rows that join the weights at a time
static const int64_t ODM_OUTER_ROWS = 64;   // rows whose outer products are added at a time
static const int64_t ODM_TILE_LINES = 32;

static inline int64_t odm_quad_lines(int64_t d) noexcept { return (d + 3) / 4; }

static inline void odm_quads_of(const odm_mcodm &s, int64_t i, odm_quads *x) noexcept
{
    int64_t n = 0;
    int32_t last = -1;
    const int64_t end = s.starts[i + 1];
    for (int64_t p = s.starts[i]; p < end + (s.bias != 0); ++p) {
        const int32_t column = p < end ? s.columns[p] : static_cast<int32_t>(s.n_columns - 1);
        if (column / 4 != last) {
            last = column / 4;
            x->quads[n++] = last;
            std::memset(x->values + 4 * (n - 1), 0, 4 * sizeof(double));
        }
        x->values[4 * (n - 1) + column % 4] = p < end ? s.values[p] : s.bias;
    }
    x->n = n;
}

#define ODM_LOOPS "proximal_loops.h"
#include "each_variant.h"

// P += sum of factor x x' over rows, lower triangle (and some values above it); P has `stride` columns, a multiple of 4,
// and so many lines.
// False: no memory.
static inline bool odm_add_outer_products(const odm_mcodm &s, const int32_t *rows, const double *factors, int64_t n,
                                          double *P) noexcept
{
    const int64_t stride = 4 * odm_quad_lines(s.n_columns);
    const double *x[ODM_OUTER_ROWS];
    odm_quads some[ODM_OUTER_ROWS];
    double *values = nullptr;
    if (!s.dense) {
        const size_t bytes = ODM_OUTER_ROWS * stride * (sizeof(double) + sizeof(int32_t));
        values = static_cast<double *>(odm_aligned_alloc(64, bytes));
        if (!values) return false;
    }
    int32_t *quads = reinterpret_cast<int32_t *>(values + ODM_OUTER_ROWS * stride);
    for (int64_t at = 0; at < n; at += ODM_OUTER_ROWS) {
        const int64_t count = at + ODM_OUTER_ROWS < n ? ODM_OUTER_ROWS : n - at;
        for (int64_t r = 0; r < count; ++r)
            if (s.dense) {
                x[r] = s.dense + rows[at + r] * s.dense_stride;
            } else {
                some[r] = {quads + r * stride / 4, values + r * stride, 0};
                odm_quads_of(s, rows[at + r], &some[r]);
            }
        if (s.dense)
            ODM_CALL(add_dense_outer_products, x, factors + at, count, stride, P);
        else
            ODM_CALL(add_outer_products, some, factors + at, count, s.n_columns, P, stride);
    }
    odm_aligned_free(values);
    return true;
}

// The lower triangle of the Hessian, class-major, from the blocks.
static inline void odm_unfold_pairs(const odm_mcodm &s, const double *blocks, double *H) noexcept
{
    const int64_t d = s.n_columns, N = d * s.n_classes, stride = 4 * odm_quad_lines(d);
    for (int64_t l = 0; l < s.n_classes; ++l)
        for (int64_t m = 0; m <= l; ++m) {
            const double *P = blocks + (l * (l + 1) / 2 + m) * stride * stride;
            for (int64_t p = 0; p < d; ++p)
                for (int64_t q = 0; q <= p; ++q) {
                    const double value = P[p * stride + q];
                    H[(l * d + p) * N + l * d + q] += value;
                    if (l == m) continue;
                    H[(m * d + p) * N + m * d + q] += value;
                    H[(l * d + p) * N + m * d + q] = H[(l * d + q) * N + m * d + p] = -value;
                }
        }
}

// base = scores - t center, center being the multipliers of the state
static inline void odm_prox_base(const odm_mcodm &s, int64_t i, double t, double *scores) noexcept
{
    double total = -s.beta[i];
    const odm_entry *entries = s.zeta.arena + s.zeta.start[i];
    for (int32_t p = 0; p < s.zeta.count[i]; ++p) {
        scores[entries[p].label] += t * entries[p].value;
        total += entries[p].value;
    }
    scores[s.labels[i]] -= t * total;
    if (!s.frozen) scores[s.others[i]] -= t * s.beta[i];
}

#endif
