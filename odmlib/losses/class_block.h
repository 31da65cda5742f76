// One row's sub-problem of the multi-class machine (docs/internals/mathematics.md, "mcODM"), for every instruction set.
//
// Row with label y, multipliers zeta_l >= 0 (l != y, T their sum) of the margins from below and beta >= 0 of the
// margin from above; with s_l the scores without the row's own part, A its curvature and h = 1 / (2 cost):
//
//   min  A/2 |v|^2 + <s, v> + h T^2 / 2 - (1-theta) T + h beta^2 / (2 nu) + r beta
//   v_l = -zeta_l,   v_y = T - beta,   majorise: v_q += beta, r = 1 + theta;   frozen: r = M + 1 + theta
//
// Either beta = 0, or (majorise) zeta_q = 0. In both cases zeta_l = max(0, b_l - nu) / A with b_l = s_l - max s, and
// nu solves Q nu - P + sum_l min(0, nu - b_l) = 0: increasing, concave and piecewise linear, so that Newton's
// method from the left ends after some steps. The shift by max s keeps the digits when A is far below h.
#ifndef ODMLIB_CLASS_BLOCK_H
#define ODMLIB_CLASS_BLOCK_H

#include <cmath>
#include <cstdint>
#include <limits>

#include "instructions.h"

static const double ODM_NO_SCORE = -std::numeric_limits<double>::infinity();
static const int64_t ODM_CLASS_LANES = 4;  // stripes of classes are padded to a multiple of this

static inline int64_t odm_padded_classes(int64_t n) noexcept
{
    return (n + ODM_CLASS_LANES - 1) / ODM_CLASS_LANES * ODM_CLASS_LANES;
}

struct odm_class_row {
    double curvature;  // A > 0
    double h;          // 1 / (2 cost)
    double e;          // h / nu; infinite: beta stays 0
    double theta;
    double reference;  // M, frozen only
    int32_t label;     // y
    int32_t other;     // q; -1: frozen
};

// class_block(row, b, n_classes, padded, beta): b has `padded` values, the scores s_l of all classes going in, the zeta_l
// coming out (0 for y and the padding, whose contents going in do not matter). The sum of zeta is returned.
#define ODM_LOOPS "class_block_loops.h"
#include "each_variant.h"

#endif
