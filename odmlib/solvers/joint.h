// Coordinate ascent over rows for the multi-class machine (spec/mcodm.md sections 2-7); joint.py and joint_kernel.py
// state the method.
//
// Weights are stored class-contiguous: w[column][class], classes padded to a multiple of 4 with zeros, so that one
// non-zero of a row meets one stripe. Of a row's multipliers only the positive zeta_l are kept, as (class, value)
// entries in one arena: memory follows the active multipliers, not rows x classes.
#ifndef ODMLIB_JOINT_H
#define ODMLIB_JOINT_H

#include <cstdlib>
#include <cstring>

#include "class_block.h"
#include "parallel.h"

struct odm_entry {
    double value;
    int32_t label;
};

struct odm_entries {  // of all rows
    int64_t *start;
    int32_t *count, *room;
    odm_entry *arena;
    int64_t used, size;
};

struct odm_joint {
    // data
    int64_t n_rows, n_columns, n_classes, padded;
    const int64_t *starts;
    const int32_t *columns;
    const double *values;
    double bias;                    // value of the constant last column; 0: none
    const double *dense;            // the rows again with all columns, `dense_stride` apart (a multiple of 4); or NULL
    int64_t dense_stride;
    const int32_t *labels;
    const double *h, *curvatures;   // 1 / (2 cost), infinite for rows without weight; |x_i|^2
    double nu, theta;
    int frozen;
    // state
    double *w;
    odm_entries zeta;
    double *beta, *references;      // references: M_i
    int32_t *others, *wanted;       // q_i, and the q_i that the row takes at its next visit
    int32_t *lists;                 // ODM_LISTED wrong classes of each row, its best ones; NULL: every visit looks at all
    uint8_t *narrow, *trust;        // visits of a row that may still look at the listed classes only; and after the next list
    // scratch of one thread
    double *scores, *change;
    int32_t *changed;               // two places more than classes
};

struct odm_joint_sums {
    double objective, relaxed, gap;  // losses and gap, without 1/2 |w|^2
    int64_t misplaced;
};

static const int64_t ODM_FIRST_ROOM = 2;
static const int64_t ODM_LISTED = 16;
static const int64_t ODM_GATHERED = 8;         // classes whose scores are summed up side by side
static const int64_t ODM_MOST_LOOKED_AT = 64;  // a multiple of that
static const uint8_t ODM_LEAST_TRUST = 2, ODM_MOST_TRUST = 32;
static const double ODM_TIE = 1e-10;  // scores that differ by rounding are equal

// Room for n entries of row i; false: no memory.
static inline bool odm_make_room(odm_entries &zeta, int64_t i, int32_t n) noexcept
{
    if (n <= zeta.room[i]) return true;
    int64_t room = zeta.room[i] ? 2 * static_cast<int64_t>(zeta.room[i]) : ODM_FIRST_ROOM;
    if (room < n) room = n;
    if (zeta.used + room > zeta.size) {
        const int64_t size = 2 * (zeta.used + room);
        void *arena = std::realloc(zeta.arena, size * sizeof(odm_entry));
        if (!arena) return false;
        zeta.arena = static_cast<odm_entry *>(arena);
        zeta.size = size;
    }
    zeta.start[i] = zeta.used;
    zeta.room[i] = static_cast<int32_t>(room);
    zeta.used += room;
    return true;
}

static inline bool odm_store_row(odm_entries &zeta, int64_t i, const double *stripe, int64_t n_classes) noexcept
{
    int32_t n = 0;
    for (int64_t l = 0; l < n_classes; ++l) n += stripe[l] > 0;
    if (!odm_make_room(zeta, i, n)) return false;
    odm_entry *out = zeta.arena + zeta.start[i];
    for (int64_t l = 0; l < n_classes && n; ++l)
        if (stripe[l] > 0) *out++ = {stripe[l], static_cast<int32_t>(l)};
    zeta.count[i] = n;
    return true;
}

// v_i on a stripe of zeros from zeta_i and beta_i; the sum of zeta is returned.
static inline double odm_row_duals(const odm_joint &s, int64_t i, double *v) noexcept
{
    double total = 0;
    const odm_entry *entries = s.zeta.arena + s.zeta.start[i];
    for (int32_t p = 0; p < s.zeta.count[i]; ++p) {
        v[entries[p].label] -= entries[p].value;
        total += entries[p].value;
    }
    v[s.labels[i]] += total - s.beta[i];
    if (!s.frozen && s.beta[i] != 0) v[s.others[i]] += s.beta[i];
    return total;
}

// Rows are visited in random order, and what a visit waits for is memory: call it in two steps, `far` ahead for
// what says where a row's data are, then `near` for the data.
static inline void odm_joint_expect(const odm_joint *s, int64_t far, int64_t near) noexcept
{
#ifdef __GNUC__
    __builtin_prefetch(s->starts + far);
    __builtin_prefetch(s->zeta.start + far);
    __builtin_prefetch(s->zeta.count + far);
    __builtin_prefetch(s->labels + far);
    __builtin_prefetch(s->others + far);
    __builtin_prefetch(s->h + far);
    __builtin_prefetch(s->curvatures + far);
    __builtin_prefetch(s->beta + far);
    if (s->dense) {
        for (int64_t j = 0; j < s->n_columns; j += 8) __builtin_prefetch(s->dense + near * s->dense_stride + j);
    } else {
        const int64_t begin = s->starts[near], end = s->starts[near + 1], some = begin + 64 < end ? begin + 64 : end;
        for (int64_t p = begin; p < some; p += 8) __builtin_prefetch(s->values + p);
        for (int64_t p = begin; p < some; p += 16) __builtin_prefetch(s->columns + p);
    }
    __builtin_prefetch(s->zeta.arena + s->zeta.start[near]);
#else
    (void)s, (void)far, (void)near;
#endif
}

static inline odm_class_row odm_class_row_of(const odm_joint &s, int64_t i, double curvature, bool upper) noexcept
{
    const double infinity = std::numeric_limits<double>::infinity();
    return {curvature, s.h[i], upper && s.nu > 0 ? s.h[i] / s.nu : infinity, s.theta,
            s.frozen ? s.references[i] : 0.0, s.labels[i], s.frozen ? -1 : s.others[i]};
}

// The classes that a visit looks at, by their places in its stripe of scores: all, or some that are listed.
struct odm_looked_at {
    int64_t n, padded;
    int32_t label, other, wanted;  // places of y, q_i and the next q_i
    const int32_t *active;         // places of the row's entries; NULL: all classes, each in its own place
    const int32_t *classes;

    int32_t class_of(int32_t place) const noexcept { return active ? classes[place] : place; }
};

static inline odm_looked_at odm_all_classes(const odm_joint &s, int64_t i) noexcept
{
    return {s.n_classes, s.padded, s.labels[i], s.others[i], s.wanted[i], nullptr, nullptr};
}

#define ODM_LOOPS "joint_loops.h"
#include "each_variant.h"

// Solve row i's sub-problem; its violation before that (in units of the margin), -1 when there is no memory.
// upper = 0: beta stays 0.
static inline double odm_joint_visit(odm_joint *s, int64_t i, int upper) noexcept
{
    return ODM_CALL(joint_visit, *s, i, upper != 0);
}

// The same for a row whose scores f are known and whose curvature is given, without moving any weights: see
// joint_loops.h.
static inline double odm_joint_solve(odm_joint *s, int64_t i, double *f, double curvature, int upper,
                                     int64_t *n_changed) noexcept
{
    return ODM_CALL(joint_solve, *s, i, odm_all_classes(*s, i), f, curvature, upper != 0, n_changed);
}

// out = scores of row i under `weights`
static inline void odm_joint_scores(const odm_joint *s, int64_t i, const double *weights, double *out) noexcept
{
    ODM_CALL(joint_scores, *s, i, weights, out);
}

// The same for rows begin .. end-1, one stripe after another.
static inline void odm_joint_all_scores(const odm_joint *s, int64_t begin, int64_t end, const double *weights,
                                        double *out) noexcept
{
    ODM_CALL(all_scores, *s, begin, end, weights, out);
}

// w += x_i v_i', v_i being the row's multipliers
static inline void odm_joint_add_row(odm_joint *s, int64_t i) noexcept
{
    ODM_CALL(joint_add_row, *s, i);
}

// List the classes that the next visits of row i look at; its scores are those of all classes.
static inline void odm_joint_list(const odm_joint *s, int64_t i, const double *scores) noexcept
{
    ODM_CALL(list_classes, *s, i, scores);
}

// weights += x_i v'
static inline void odm_joint_add(const odm_joint *s, int64_t i, const double *v, double *weights) noexcept
{
    ODM_CALL(joint_add, *s, i, v, weights);
}

// Losses and gap of row i from its scores (some are overwritten), added to `sums`; the best wrong class, its score
// and the margin. Returns the row's gap.
static inline double odm_joint_measure(const odm_joint *s, int64_t i, double *scores, odm_joint_sums *sums, int32_t *best,
                                     double *best_score, double *margin) noexcept
{
    return ODM_CALL(joint_measure, *s, i, scores, sums, best, best_score, margin);
}

#endif
