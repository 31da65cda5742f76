// Rows of the proximal Newton method for the multi-class machine; joint_newton.py states the method.
//
// Row i's proximal step v_i(f) = argmin_v conj_i(v) + <f, v> + t_i/2 |v - centre_i|^2 is the sub-problem of
// class_block.h with curvature t_i. Its derivative is -J_i, with S = {l: zeta_l > 0}:
//
//   J = sum_{l in S} g_l e_l e_l' + g_y u u' - a a' / sum g + k p p',     a = sum_{l in S} g_l e_l + g_y u,   g_l = 1/t
//   beta = 0:            g_y = 1/(t+h),  u = e_y,                        k = 0
//   beta > 0, majorise:  g_y = E/(D E - t^2), u = e_y - t/E p,  k = 1/E, p = e_y - e_q,  E = 2t + h/nu,  D = t + h
//   beta > 0, frozen:    the same with p = e_y, E = t + h/nu
#ifndef ODMLIB_JOINT_PROX_H
#define ODMLIB_JOINT_PROX_H

#include "joint.h"

struct odm_bend {  // J of one row
    double g, g_y, inverse, pull, k;  // inverse: of sum g; pull: t/E
    int32_t label, other;         // other = -1: p = e_y
    bool above;                   // beta > 0
};

// J of a row; n_active is the number of its positive zeta. False: J = 0.
static inline bool odm_bend_of(const odm_joint &s, int64_t i, double t, int64_t n_active, double beta,
                               odm_bend *bend) noexcept
{
    if (n_active == 0 && !(beta > 0)) return false;
    const double h = s.h[i];
    bend->label = s.labels[i];
    bend->other = s.frozen ? -1 : s.others[i];
    bend->above = beta > 0;
    bend->g = 1 / t;
    if (beta > 0) {
        const double e = h / s.nu, E = (s.frozen ? t : 2 * t) + e;
        bend->g_y = s.frozen ? E / (h * (t + e) + t * e) : E / (t * (t + e + 2 * h) + h * e);
        bend->pull = t / E;
        bend->k = 1 / E;
    } else {
        bend->g_y = 1 / (t + h);
        bend->pull = bend->k = 0;
    }
    if (n_active == 0) bend->g = bend->g_y = 0;  // T stays 0
    bend->inverse = n_active ? 1 / (n_active * bend->g + bend->g_y) : 1;
    return true;
}

// u and p at class l
static inline double odm_bend_p(const odm_bend &b, int64_t l) noexcept
{
    if (!b.above) return 0;
    return l == b.label ? 1.0 : l == b.other ? -1.0 : 0.0;
}

static inline double odm_bend_u(const odm_bend &b, int64_t l) noexcept
{
    return (l == b.label ? 1.0 : 0.0) - b.pull * odm_bend_p(b, l);
}

// J[l][m]; `active` tells whether the class is in S
static inline double odm_bend_at(const odm_bend &b, int64_t l, bool active_l, int64_t m, bool active_m) noexcept
{
    const double u_l = odm_bend_u(b, l), u_m = odm_bend_u(b, m);
    const double a_l = (active_l ? b.g : 0) + b.g_y * u_l, a_m = (active_m ? b.g : 0) + b.g_y * u_m;
    return (l == m && active_l ? b.g : 0) + b.g_y * u_l * u_m - a_l * a_m * b.inverse +
           b.k * odm_bend_p(b, l) * odm_bend_p(b, m);
}

// d becomes J d
static inline void odm_bend_product(const odm_bend &b, const double *zeta, double *d, int64_t n_classes,
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

// Where J_i x_i x_i' goes in the Hessian's diagonal blocks: places (at most one per class), factors and their number. Places
// below k are classes; k + l(l-1)/2 + m is the pair l > m, whose sum both blocks get: most rows have two classes.
static inline int64_t odm_shares(const odm_joint &s, const odm_bend &b, const double *zeta, int32_t *places,
                                 double *factors) noexcept
{
    int64_t n = 0;
    for (int64_t l = 0; l < s.n_classes; ++l)
        if (zeta[l] > 0 || l == b.label || (b.above && l == b.other)) places[n++] = static_cast<int32_t>(l);
    if (n == 2 && !(s.frozen && b.above)) {
        const int64_t m = places[0], l = places[1];
        factors[0] = -odm_bend_at(b, l, zeta[l] > 0, m, zeta[m] > 0);
        places[0] = static_cast<int32_t>(s.n_classes + l * (l - 1) / 2 + m);
        return 1;
    }
    for (int64_t a = 0; a < n; ++a) {
        const bool active = zeta[places[a]] > 0;
        factors[a] = odm_bend_at(b, places[a], active, places[a], active);
    }
    return n;
}

// A row's values (bias included) by fours of neighbouring columns, those without a value left out: `fours` are their
// numbers. Squares x x' are then sums of short vectors, whether the row is full or not.
struct odm_fours {
    int32_t *fours;
    double *values;
    int64_t n;
};

static const int64_t ODM_SOME_ROWS = 4;    // rows that join the weights at a time
static const int64_t ODM_TRIANGLES = 64;   // rows whose squares are added at a time
static const int64_t ODM_TILE_LINES = 32;

static inline int64_t odm_four_lines(int64_t d) noexcept { return (d + 3) / 4; }

static inline void odm_fours_of(const odm_joint &s, int64_t i, odm_fours *x) noexcept
{
    if (s.dense) {
        x->n = s.dense_stride / 4;
        x->values = const_cast<double *>(s.dense + i * s.dense_stride);
        for (int32_t four = 0; four < x->n; ++four) x->fours[four] = four;
        return;
    }
    int64_t n = 0;
    int32_t last = -1;
    const int64_t end = s.starts[i + 1];
    for (int64_t p = s.starts[i]; p < end + (s.bias != 0); ++p) {
        const int32_t column = p < end ? s.columns[p] : static_cast<int32_t>(s.n_columns - 1);
        if (column / 4 != last) {
            last = column / 4;
            x->fours[n++] = last;
            std::memset(x->values + 4 * (n - 1), 0, 4 * sizeof(double));
        }
        x->values[4 * (n - 1) + column % 4] = p < end ? s.values[p] : s.bias;
    }
    x->n = n;
}

// The Hessian is kept by pairs of classes: J = sum_l (sum_m J_lm) e_l e_l' - sum_{l > m} J_lm (e_l - e_m)(e_l - e_m)',
// whose first sum is 0 where the classes' moves add up to 0. A row with one active class then adds one triangle
// instead of those of two classes and the square between them. Block (l, m), m <= l, is number l(l+1)/2 + m and holds a
// lower triangle with lines of `stride` values, a multiple of 4.
struct odm_pairs {
    double *blocks;
    int64_t stride;
};

static inline double *odm_pair_block(const odm_joint &s, const odm_pairs &pairs, int64_t l, int64_t m) noexcept
{
    return pairs.blocks + (l * (l + 1) / 2 + m) * s.n_columns * pairs.stride;
}

#define ODM_LOOPS "joint_prox_loops.h"
#include "each_variant.h"

// P (d x d) += sum of factor x x' over n <= ODM_TRIANGLES rows, lower triangle (and some places above it); the lines
// of P are `stride` apart.
static inline void odm_add_triangles(const odm_fours *rows, const double *factors, int64_t n, int64_t d, double *P,
                                     int64_t stride) noexcept
{
    ODM_CALL(add_triangles, rows, factors, n, d, P, stride);
}

// Row i's part of the blocks (l, m) with l = group modulo n_groups; `classes` and x are scratch.
static inline void odm_add_pairs(const odm_joint *s, int64_t i, const odm_bend *bend, const double *zeta, int64_t group,
                                 int64_t n_groups, int32_t *classes, odm_fours *x, const odm_pairs *pairs) noexcept
{
    ODM_CALL(add_pairs, *s, i, *bend, zeta, group, n_groups, classes, x, *pairs);
}

// The lower triangle of the Hessian, class-major, from the blocks.
static inline void odm_unfold_pairs(const odm_joint *s, const odm_pairs *pairs, double *H) noexcept
{
    const int64_t d = s->n_columns, N = d * s->n_classes;
    for (int64_t l = 0; l < s->n_classes; ++l)
        for (int64_t m = 0; m <= l; ++m) {
            const double *P = odm_pair_block(*s, *pairs, l, m);
            for (int64_t p = 0; p < d; ++p)
                for (int64_t q = 0; q <= p; ++q) {
                    const double value = P[p * pairs->stride + q];
                    H[(l * d + p) * N + l * d + q] += value;
                    if (l == m) continue;
                    H[(m * d + p) * N + m * d + q] += value;
                    H[(l * d + p) * N + m * d + q] = H[(l * d + q) * N + m * d + p] = -value;
                }
        }
}

// The proximal step of row i at base + length change, base being its scores minus t_i centre_i: zeta, beta, the number of
// positive zeta and the row's minimum without t_i/2 |centre_i|^2, which no step changes; <change, v> is added to *along.
static inline double odm_prox_row(const odm_joint *s, int64_t i, double t, const double *base, const double *change,
                                  double length, double *zeta, double *beta, int32_t *n_active, double *along) noexcept
{
    return ODM_CALL(prox_row, *s, i, t, base, change, length, zeta, beta, n_active, along);
}

// v from zeta and beta
static inline void odm_dense_duals(const odm_joint *s, int64_t i, const double *zeta, double beta, double *v) noexcept
{
    ODM_CALL(dense_duals, *s, i, zeta, beta, v);
}

// weights += sum of x_i v_i' over n <= ODM_SOME_ROWS rows, whose v are one stripe after another
static inline void odm_add_rows(const odm_joint *s, const int64_t *rows, int64_t n, const double *v,
                                double *weights) noexcept
{
    ODM_CALL(add_rows, *s, rows, n, v, weights);
}

// base = scores - t centre, centre being the multipliers of the state
static inline void odm_prox_base(const odm_joint *s, int64_t i, double t, double *scores) noexcept
{
    double total = -s->beta[i];
    const odm_entry *entries = s->zeta.arena + s->zeta.start[i];
    for (int32_t p = 0; p < s->zeta.count[i]; ++p) {
        scores[entries[p].label] += t * entries[p].value;
        total += entries[p].value;
    }
    scores[s->labels[i]] -= t * total;
    if (!s->frozen) scores[s->others[i]] -= t * s->beta[i];
}

#endif
