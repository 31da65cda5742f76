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
    double g, g_y, sum, pull, k;  // pull: t/E
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
    bend->sum = n_active ? n_active * bend->g + bend->g_y : 1;
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
    return (l == m && active_l ? b.g : 0) + b.g_y * u_l * u_m - a_l * a_m / b.sum +
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
    mean /= b.sum;
    for (int64_t l = 0; l < n_classes; ++l) d[l] = zeta[l] > 0 ? b.g * (d[l] - mean) : 0;
    for (int64_t l = n_classes; l < padded; ++l) d[l] = 0;
    const double along_u = b.g_y * (u_d - mean), along_p = b.k * p_d - b.pull * along_u;
    d[b.label] += along_u;
    if (b.above) {
        d[b.label] += along_p;
        if (b.other >= 0) d[b.other] -= along_p;
    }
}

// v from zeta and beta; the sum of zeta is returned
static inline double odm_dense_duals(const odm_joint &s, int64_t i, const double *zeta, double beta, double *v) noexcept
{
    double total = 0;
    for (int64_t l = 0; l < s.padded; ++l) {
        v[l] = -zeta[l];
        total += zeta[l];
    }
    v[s.labels[i]] += total - beta;
    if (!s.frozen) v[s.others[i]] += beta;
    return total;
}

// The proximal step of row i from scores f: zeta and beta, the row's minimum (for psi), and t/2 |v - centre|^2.
static inline double odm_prox_row(const odm_joint &s, int64_t i, double t, const double *f, const double *centre_zeta,
                                  double centre_beta, double *zeta, double *beta, double *scratch, double *moved) noexcept
{
    double *centre = scratch;
    odm_dense_duals(s, i, centre_zeta, centre_beta, centre);
    for (int64_t l = 0; l < s.padded; ++l) zeta[l] = f[l] - t * centre[l];
    const odm_class_row row = odm_class_row_of(s, i, t, true);
    const double total = odm_class_block(&row, zeta, s.n_classes, s.padded, beta);
    const double b = *beta, r = (s.frozen ? s.references[i] : 0.0) + 1 + s.theta;
    double linear = 0, distance = 0;
    for (int64_t l = 0; l < s.n_classes; ++l) {
        double v = -zeta[l];
        if (l == s.labels[i]) v += total - b;
        if (!s.frozen && l == s.others[i]) v += b;
        linear += f[l] * v;
        distance += (v - centre[l]) * (v - centre[l]);
    }
    *moved += 0.5 * t * distance;
    double value = linear + 0.5 * t * distance + 0.5 * s.h[i] * total * total - (1 - s.theta) * total + r * b;
    if (b > 0) value += 0.5 * s.h[i] * b * b / s.nu;
    return value;
}

// M += factor x_i x_i'; the rows of M are `stride` apart. `lower`: its lower triangle only.
static inline void odm_add_square(const odm_joint &s, int64_t i, double factor, bool lower, double *M,
                                  int64_t stride) noexcept
{
    const int64_t d = s.n_columns, begin = s.starts[i], n = s.starts[i + 1] - begin;
    const double *x = s.values + begin;
    const int32_t *columns = s.columns + begin;
    const int64_t n_features = d - (s.bias != 0);
    for (int64_t p = 0; p < n + (s.bias != 0); ++p) {
        const double step = factor * (p < n ? x[p] : s.bias);
        double *__restrict line = M + (p < n ? columns[p] : d - 1) * stride;
        const int64_t last = !lower || p == n ? n : p + 1;
        if (n == n_features)
            for (int64_t q = 0; q < last; ++q) line[q] += step * x[q];
        else
            for (int64_t q = 0; q < last; ++q) line[columns[q]] += step * x[q];
        if (s.bias != 0 && (!lower || p == n)) line[d - 1] += step * s.bias;
    }
}

// H += J_i[l][m] x_i x_i' in the blocks (l, m), m <= l, of one class l; H is class-major, only its lower triangle.
static inline void odm_add_bend(const odm_joint &s, int64_t i, const odm_bend &bend, const double *zeta, int64_t l,
                                double *H) noexcept
{
    const int64_t d = s.n_columns, N = d * s.n_classes;
    for (int64_t m = 0; m <= l; ++m) {
        if (!(zeta[m] > 0) && m != bend.label && !(bend.above && m == bend.other)) continue;
        const double factor = odm_bend_at(bend, l, zeta[l] > 0, m, zeta[m] > 0);
        if (factor != 0) odm_add_square(s, i, factor, m == l, H + l * d * N + m * d, N);
    }
}

#endif
