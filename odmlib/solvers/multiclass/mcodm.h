// Coordinate ascent over rows for the multi-class machine; linear.py and kernel.py state the method, and
// docs/internals/mathematics.md ("mcODM") derives the steps.
//
// Weights are stored class-contiguous: w[column][class], classes padded to a multiple of 4 with zeros, so that one
// non-zero of a row meets one stripe. Of a row's multipliers only the positive zeta_l are kept, as (class, value)
// entries in one arena: memory follows the active multipliers, not rows x classes.
#ifndef ODMLIB_MCODM_H
#define ODMLIB_MCODM_H

#include <cmath>
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

struct odm_mcodm {
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
    double *w;                      // linear machines: scores come from weights
    const double *class_scores;     // kernel machines: the scores themselves, class after class; NULL: see w
    const double *errors;           // by how much each row's scores may be off; NULL: no rounding is summed up
    odm_entries zeta;
    double *beta, *references;      // references: M_i
    int32_t *others, *wanted;       // q_i, and the q_i that the row takes at its next visit
    int32_t *lists;                 // ODM_LISTED wrong classes of each row, its best ones; NULL: every visit looks at all
    uint8_t *list_visits;           // visits of a row that may still look at the listed classes only
    uint8_t *list_trust;            // the same number after the next list
    // scratch of one thread
    double *scores, *change;
    int32_t *changed;               // has room for two more than all classes
};

struct odm_mcodm_sums {
    double objective, relaxed, gap, conjugate;  // losses, gap and conjugates, without 1/2 |w|^2
    int64_t misplaced;
    double raised, widened;  // by how much rounding may change the losses, and the gap
    double length;           // of sum_i |x_i| |v_i|
};

struct odm_mcodm_terms {  // of one row, as they were computed: what rounding is in proportion to
    double own, other, active;       // the largest |score| of its class, of q and the best wrong one, of active ones
    double cost, below, above;       // of the loss, and by how much either side is left
    double total, linear, squares;   // sum of zeta; sums of |terms| of the gap
    int32_t n_entries;
};

struct odm_mcodm_best {  // wrong class of a row
    int32_t label;
    double score, margin;
};

static const int64_t ODM_FIRST_ROOM = 2;
static const int64_t ODM_LISTED = 16;
static const int64_t ODM_GATHERED = 8;         // classes whose scores are summed up side by side
static const int64_t ODM_MOST_IN_SUBSET = 64;  // a multiple of that
static const uint8_t ODM_LEAST_TRUST = 2, ODM_MOST_TRUST = 32;
static const double ODM_UNIT = 0x1p-53;
static const double ODM_EMPTY = 1e-134;        // a row that counts as empty is shorter than this times ODM_UNIT
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
static inline double odm_row_duals(const odm_mcodm &s, int64_t i, double *v) noexcept
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
static inline void odm_mcodm_prefetch(const odm_mcodm &s, int64_t far, int64_t near) noexcept
{
#ifdef __GNUC__
    __builtin_prefetch(s.starts + far);
    __builtin_prefetch(s.zeta.start + far);
    __builtin_prefetch(s.zeta.count + far);
    __builtin_prefetch(s.labels + far);
    __builtin_prefetch(s.others + far);
    __builtin_prefetch(s.h + far);
    __builtin_prefetch(s.curvatures + far);
    __builtin_prefetch(s.beta + far);
    if (s.dense) {
        for (int64_t j = 0; j < s.n_columns; j += 8) __builtin_prefetch(s.dense + near * s.dense_stride + j);
    } else {
        const int64_t begin = s.starts[near], end = s.starts[near + 1], some = begin + 64 < end ? begin + 64 : end;
        for (int64_t p = begin; p < some; p += 8) __builtin_prefetch(s.values + p);
        for (int64_t p = begin; p < some; p += 16) __builtin_prefetch(s.columns + p);
    }
    __builtin_prefetch(s.zeta.arena + s.zeta.start[near]);
#else
    (void)s, (void)far, (void)near;
#endif
}

static inline odm_class_row odm_class_row_of(const odm_mcodm &s, int64_t i, double curvature, bool upper) noexcept
{
    const double infinity = std::numeric_limits<double>::infinity();
    return {curvature, s.h[i], upper && s.nu > 0 ? s.h[i] / s.nu : infinity, s.theta,
            s.frozen ? s.references[i] : 0.0, s.labels[i], s.frozen ? -1 : s.others[i]};
}

// The classes that a visit looks at, by their index in its stripe of scores: all, or some that are listed.
struct odm_class_subset {
    int64_t n, padded;
    int32_t label, other, wanted;  // index of y, q_i and the next q_i
    const int32_t *active;         // index of each of the row's entries; NULL: all classes, each at its own number
    const int32_t *classes;

    int32_t class_of(int32_t index) const noexcept { return active ? classes[index] : index; }
};

static inline odm_class_subset odm_all_classes(const odm_mcodm &s, int64_t i) noexcept
{
    return {s.n_classes, s.padded, s.labels[i], s.others[i], s.wanted[i], nullptr, nullptr};
}

// What rounding may do to one row's loss and gap (docs/internals/mathematics.md, "Rounding").
static inline void odm_add_rounding(const odm_mcodm &s, int64_t i, const odm_mcodm_terms &t, double beta,
                                    odm_mcodm_sums *sums) noexcept
{
    // of a sum of products, and of kernel machines alone: their gap is linear in the scores, see kernel.py
    const double scores = s.errors[i], in_gap = s.class_scores ? 0 : scores;
    const double sizes = 4 * ODM_UNIT * (t.own + t.other + 1 + s.theta), off = 2 * scores + sizes;
    const double slope = 2 * t.cost * ((t.below + off) + s.nu * (t.above + off));
    const double losses = t.cost * (t.below * t.below + s.nu * t.above * t.above);
    sums->raised += slope * off + 8 * ODM_UNIT * losses;
    if (!(s.curvatures[i] > 0)) {
        sums->length += ODM_EMPTY * 4 * t.cost * (t.below + off);
        return;
    }
    const double away = 2 * in_gap + sizes, active = 2 * in_gap + 4 * ODM_UNIT * (t.own + t.active + 1 + s.theta);
    const double bent = 2 * t.cost * ((t.below + away) + s.nu * (t.above + away));
    sums->widened += (bent + beta) * away + t.total * active
                     + (2 * t.n_entries + 10) * ODM_UNIT * (t.squares + t.linear + losses);
    sums->length += 2 * std::sqrt(s.curvatures[i]) * (t.total + beta);
}

#define ODM_LOOPS "mcodm_loops.h"
#include "each_variant.h"

// The scores of rows begin .. end-1, wherever they come from.
static inline void odm_mcodm_known_scores(const odm_mcodm &s, int64_t begin, int64_t end, double *out) noexcept
{
    if (!s.class_scores) return ODM_CALL(all_scores, s, begin, end, s.w, out);
    for (int64_t l = 0; l < s.n_classes; ++l)
        for (int64_t i = begin; i < end; ++i) out[(i - begin) * s.padded + l] = s.class_scores[l * s.n_rows + i];
}

#endif
