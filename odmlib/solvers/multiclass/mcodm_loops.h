// The loops of mcodm.h for one instruction set; included more than once.

// N vectors of classes stay in registers while the row is walked; wider stripes walk it again. A sum waits for its
// last addition, so CHAINS values of the row are taken at a time, each with sums of its own.
template <int N>
LOOP void ODM_NAME(scores_of)(const odm_mcodm &s, int64_t i, const double *w, double *out)
{
    constexpr int CHAINS = N <= 2 ? 4 : 2;
    VEC sums[CHAINS][N];
    for (int c = 0; c < CHAINS; ++c)  // not = {}, which would put them into memory
        for (int n = 0; n < N; ++n) sums[c][n] = VEC{};
    const int64_t padded = s.padded;
    const auto add = [&](int c, double x, int64_t column) __attribute__((always_inline)) {
        const double *stripe = w + column * padded;
        for (int n = 0; n < N; ++n) sums[c][n] += x * READ(stripe, n * LANES);
    };
    if (s.dense) {
        const double *x = s.dense + i * s.dense_stride;
        int64_t j = 0;
        for (; j + CHAINS <= s.n_columns; j += CHAINS)
            for (int c = 0; c < CHAINS; ++c) add(c, x[j + c], j + c);
        for (; j < s.n_columns; ++j) add(0, x[j], j);
    } else {
        const int64_t end = s.starts[i + 1];
        int64_t p = s.starts[i];
        for (; p + CHAINS <= end; p += CHAINS)
            for (int c = 0; c < CHAINS; ++c) add(c, s.values[p + c], s.columns[p + c]);
        for (; p < end; ++p) add(0, s.values[p], s.columns[p]);
        if (s.bias != 0) add(1, s.bias, s.n_columns - 1);
    }
    for (int c = 1; c < CHAINS; ++c)
        for (int n = 0; n < N; ++n) sums[0][n] += sums[c][n];
    for (int n = 0; n < N; ++n) AT(out, n * LANES) = sums[0][n];
}

template <int N>
LOOP void ODM_NAME(add_to)(const odm_mcodm &s, int64_t i, const double *v, double *w)
{
    VEC steps[N];
    const int64_t padded = s.padded;
    for (int n = 0; n < N; ++n) steps[n] = READ(v, n * LANES);
    const auto add = [&](double x, int64_t column) __attribute__((always_inline)) {
        double *stripe = w + column * padded;
        for (int n = 0; n < N; ++n) AT(stripe, n * LANES) += x * steps[n];
    };
    if (s.dense) {
        for (int64_t j = 0; j < s.n_columns; ++j) add(s.dense[i * s.dense_stride + j], j);
        return;
    }
    for (int64_t p = s.starts[i]; p < s.starts[i + 1]; ++p) add(s.values[p], s.columns[p]);
    if (s.bias != 0) add(s.bias, s.n_columns - 1);
}

#define ODM_BY_GROUPS(name, ...)                                              \
    int64_t l = 0;                                                            \
    for (; l + 6 * LANES <= s.padded; l += 6 * LANES) name<6>(__VA_ARGS__);   \
    switch ((s.padded - l) / LANES) {                                         \
    case 5: name<5>(__VA_ARGS__); break;                                      \
    case 4: name<4>(__VA_ARGS__); break;                                      \
    case 3: name<3>(__VA_ARGS__); break;                                      \
    case 2: name<2>(__VA_ARGS__); break;                                      \
    case 1: name<1>(__VA_ARGS__); break;                                      \
    }

// out = scores of row i under w
LOOP void ODM_NAME(mcodm_scores)(const odm_mcodm &s, int64_t i, const double *w, double *out)
{
    ODM_BY_GROUPS(ODM_NAME(scores_of), s, i, w + l, out + l)
}

// w += x_i v'
LOOP void ODM_NAME(mcodm_add)(const odm_mcodm &s, int64_t i, const double *v, double *w)
{
    ODM_BY_GROUPS(ODM_NAME(add_to), s, i, v + l, w + l)
}
#undef ODM_BY_GROUPS

// Scores of ROWS full rows under N vectors of classes: a stripe of weights is read once for all of them.
template <int N, int ROWS>
LOOP void ODM_NAME(dense_scores)(const odm_mcodm &s, const double *x, const double *w, double *out)
{
    VEC sums[ROWS][N];
    for (int r = 0; r < ROWS; ++r)
        for (int n = 0; n < N; ++n) sums[r][n] = VEC{};
    for (int64_t j = 0; j < s.n_columns; ++j) {
        const double *stripe = w + j * s.padded;
        for (int n = 0; n < N; ++n) {
            const VEC weights = READ(stripe, n * LANES);
            for (int r = 0; r < ROWS; ++r) sums[r][n] += x[r * s.dense_stride + j] * weights;
        }
    }
    for (int r = 0; r < ROWS; ++r)
        for (int n = 0; n < N; ++n) AT(out, r * s.padded + n * LANES) = sums[r][n];
}

template <int ROWS>
LOOP void ODM_NAME(dense_row_scores)(const odm_mcodm &s, const double *x, const double *w, double *out)
{
    int64_t l = 0;
    for (; l + 3 * LANES <= s.padded; l += 3 * LANES) ODM_NAME(dense_scores)<3, ROWS>(s, x, w + l, out + l);
    if (l + 2 * LANES <= s.padded) {
        ODM_NAME(dense_scores)<2, ROWS>(s, x, w + l, out + l);
        l += 2 * LANES;
    }
    if (l < s.padded) ODM_NAME(dense_scores)<1, ROWS>(s, x, w + l, out + l);
}

// Of rows begin .. end-1, one stripe after another
LOOP void ODM_NAME(all_scores)(const odm_mcodm &s, int64_t begin, int64_t end, const double *w, double *out)
{
    int64_t i = begin;
    if (s.dense)
        for (; i + 4 <= end; i += 4)
            ODM_NAME(dense_row_scores)<4>(s, s.dense + i * s.dense_stride, w, out + (i - begin) * s.padded);
    for (; i < end; ++i) ODM_NAME(mcodm_scores)(s, i, w, out + (i - begin) * s.padded);
}

// w += x_i v' where v is given for n classes
LOOP void ODM_NAME(add_some)(const odm_mcodm &s, int64_t i, const double *v, const int32_t *classes, int64_t n)
{
    for (int64_t p = s.starts[i]; p < s.starts[i + 1]; ++p) {
        double *stripe = s.w + s.columns[p] * s.padded;
        const double x = s.values[p];
        for (int64_t c = 0; c < n; ++c) stripe[classes[c]] += x * v[c];
    }
    if (s.bias != 0) {
        double *stripe = s.w + (s.n_columns - 1) * s.padded;
        for (int64_t c = 0; c < n; ++c) stripe[classes[c]] += s.bias * v[c];
    }
}

// Solve row i's sub-problem from its scores f (which are lost): the multipliers change, s.change becomes
// v_new - v_old and s.changed the n_changed indices where that may not be 0. Returns the violation before, -1 when there
// is no memory.
LOOP double ODM_NAME(mcodm_solve)(odm_mcodm &s, int64_t i, const odm_class_subset &at, double *f, double A, bool upper,
                                  int64_t *n_changed)
{
    const double h = s.h[i], beta_before = s.beta[i];
    double *change = s.change;
    const int32_t y = at.label, q_before = at.other, q = at.wanted;
    *n_changed = 0;

    const double f_y = f[y], top = ODM_NAME(best_of_others)(f, at.n, at.padded, y);
    const int32_t n_before = s.zeta.count[i];
    const odm_entry *entries = s.zeta.arena + s.zeta.start[i];
    const auto index_of = [&](int32_t p) { return at.active ? at.active[p] : entries[p].label; };
    double total_before = 0, low = std::numeric_limits<double>::infinity();
    for (int32_t p = 0; p < n_before; ++p) {
        total_before += entries[p].value;
        if (f[index_of(p)] < low) low = f[index_of(p)];
    }
    const double g_y = f_y + h * total_before, below = 1 - s.theta;
    const double highest = top + below > g_y ? top + below : g_y;
    double violation = highest - (low + below < g_y ? low + below : g_y);
    if (upper && s.nu > 0) {
        const double reference = s.frozen ? s.references[i] : f[q];
        const double g_b = h * beta_before / s.nu + reference + 1 + s.theta - f_y;
        const double also = beta_before > 0 ? std::fabs(g_b) : -g_b;
        if (also > violation) violation = also;
    }
    if (!(violation > 0) && q == q_before) return 0;

    // the row's own part leaves the scores
    const VEC zero = {};
    for (int64_t l = 0; l < at.padded; l += LANES) AT(change, l) = zero;
    for (int32_t p = 0; p < n_before; ++p) {
        ODM_NAME(add_at)(f, index_of(p), A * entries[p].value);
        ODM_NAME(set_at)(change, index_of(p), entries[p].value);
    }
    ODM_NAME(set_at)(f, y, f_y - A * (total_before - beta_before));
    if (!s.frozen && beta_before != 0) ODM_NAME(add_at)(f, q_before, -A * beta_before);
    s.others[i] = s.wanted[i];
    odm_class_row row = odm_class_row_of(s, i, A, upper);
    row.label = y;
    if (!s.frozen) row.other = q;
    double beta;
    const double total = ODM_NAME(class_block)(row, f, at.n, at.padded, &beta);

    int64_t n = 0;
    int32_t n_after = 0;
    for (int64_t l = 0; l < at.padded; l += LANES) {
        const VEC zeta = READ(f, l), before = READ(change, l);
        AT(change, l) = before - zeta;
        bool any = false;
        for (int64_t lane = 0; lane < LANES; ++lane) any |= (zeta[lane] > 0) | (before[lane] > 0);
        if (!any) continue;
        for (int64_t lane = 0; lane < LANES; ++lane) {
            if (zeta[lane] > 0) ++n_after;
            if ((zeta[lane] > 0) | (before[lane] > 0)) s.changed[n++] = static_cast<int32_t>(l + lane);
        }
    }
    if (!odm_make_room(s.zeta, i, n_after)) return -1;
    odm_entry *out = s.zeta.arena + s.zeta.start[i];
    bool q_is_listed = false, q_before_is_listed = q == q_before;
    for (int64_t c = 0; c < n; ++c) {
        q_is_listed |= s.changed[c] == q;
        q_before_is_listed |= s.changed[c] == q_before;
        if (f[s.changed[c]] > 0) *out++ = {f[s.changed[c]], at.class_of(s.changed[c])};
    }
    s.zeta.count[i] = n_after;
    s.beta[i] = beta;
    ODM_NAME(add_at)(change, y, (total - total_before) - (beta - beta_before));
    s.changed[n++] = y;
    if (!s.frozen && (beta != 0 || beta_before != 0)) {
        ODM_NAME(add_at)(change, q, beta);
        ODM_NAME(add_at)(change, q_before, -beta_before);
        if (!q_is_listed) s.changed[n++] = q;
        if (!q_before_is_listed) s.changed[n++] = q_before;
    }
    *n_changed = n;
    return violation;
}

// Label shrinking. Of many classes few come near a row, so most visits look only at those that were best when all
// scores were known last: in the visit before the listed ones, or in a measurement. The others keep their zeta_l = 0
// meanwhile, and whether that was right, the next look at all of them tells; a list that held is trusted for longer.
LOOP void ODM_NAME(list_classes)(const odm_mcodm &s, int64_t i, const double *f)
{
    int32_t *list = s.lists + i * ODM_LISTED, before[ODM_LISTED];
    double best[ODM_LISTED];
    for (int64_t c = 0; c < ODM_LISTED; ++c) {
        best[c] = ODM_NO_SCORE;
        before[c] = list[c];
    }
    for (int64_t l = 0; l < s.n_classes; ++l) {
        if (!(f[l] > best[ODM_LISTED - 1]) || l == s.labels[i]) continue;
        int64_t c = ODM_LISTED - 1;
        for (; c > 0 && f[l] > best[c - 1]; --c) {
            best[c] = best[c - 1];
            list[c] = list[c - 1];
        }
        best[c] = f[l];
        list[c] = static_cast<int32_t>(l);
    }
    bool held = false;  // the best class of all was among the listed ones
    for (int64_t c = 0; c < ODM_LISTED; ++c) held |= before[c] == list[0];
    s.list_trust[i] = !held ? ODM_LEAST_TRUST : s.list_trust[i] < ODM_MOST_TRUST ? 2 * s.list_trust[i] : ODM_MOST_TRUST;
    s.list_visits[i] = s.list_trust[i];
}

// Scores of y, q, the active and the listed classes, side by side; false: these are too many.
LOOP bool ODM_NAME(listed_scores)(const odm_mcodm &s, int64_t i, double *f, odm_class_subset *at, int32_t *classes,
                                  int32_t *active)
{
    const int32_t n_active = s.zeta.count[i];
    if (n_active + ODM_LISTED + 3 > ODM_MOST_IN_SUBSET) return false;
    int32_t n = 0;
    const auto index_of = [&](int32_t l) {
        for (int32_t c = 0; c < n; ++c)
            if (classes[c] == l) return c;
        classes[n] = l;
        return n++;
    };
    const int32_t label = index_of(s.labels[i]), other = index_of(s.others[i]), wanted = index_of(s.wanted[i]);
    const odm_entry *entries = s.zeta.arena + s.zeta.start[i];
    for (int32_t p = 0; p < n_active; ++p) active[p] = index_of(entries[p].label);
    for (int64_t c = 0; c < ODM_LISTED; ++c) index_of(s.lists[i * ODM_LISTED + c]);
    *at = {n, (n + ODM_GATHERED - 1) / ODM_GATHERED * ODM_GATHERED, label, other, wanted, active, classes};
    for (int64_t c = n; c < at->padded; ++c) classes[c] = classes[0];
    for (int64_t first = 0; first < n; first += ODM_GATHERED) {
        const int32_t *some = classes + first;
        double sums[ODM_GATHERED] = {};
        for (int64_t p = s.starts[i]; p < s.starts[i + 1]; ++p) {
            const double *stripe = s.w + s.columns[p] * s.padded;
            for (int64_t c = 0; c < ODM_GATHERED; ++c) sums[c] += s.values[p] * stripe[some[c]];
        }
        if (s.bias != 0) {
            const double *stripe = s.w + (s.n_columns - 1) * s.padded;
            for (int64_t c = 0; c < ODM_GATHERED; ++c) sums[c] += s.bias * stripe[some[c]];
        }
        for (int64_t part = 0; part < ODM_GATHERED; part += LANES) AT(f, first + part) = READ(sums, part);
    }
    return true;
}

// Solve row i's sub-problem and move w; its violation before that (in units of the margin), -1 when there is no memory.
// upper = false: beta stays 0.
LOOP double ODM_NAME(mcodm_visit)(odm_mcodm &s, int64_t i, bool upper)
{
    int32_t classes[ODM_MOST_IN_SUBSET], active[ODM_MOST_IN_SUBSET];
    double *f = s.scores, few[ODM_MOST_IN_SUBSET];
    odm_class_subset at = odm_all_classes(s, i);
    bool listed = s.lists && s.list_visits[i] > 0;
    if (listed) {
        --s.list_visits[i];
        listed = ODM_NAME(listed_scores)(s, i, f, &at, classes, active);
    }
    if (!listed) {
        ODM_NAME(mcodm_scores)(s, i, s.w, f);
        if (s.lists) ODM_NAME(list_classes)(s, i, f);
    }
    int64_t n;
    const double violation = ODM_NAME(mcodm_solve)(s, i, at, f, s.curvatures[i], upper, &n);
    if (n == 0) return violation;
    if (!listed && n > s.padded / 8) {
        ODM_NAME(mcodm_add)(s, i, s.change, s.w);
        return violation;
    }
    for (int64_t first = 0; first < n; first += ODM_MOST_IN_SUBSET) {
        const int64_t count = n - first < ODM_MOST_IN_SUBSET ? n - first : ODM_MOST_IN_SUBSET;
        for (int64_t c = 0; c < count; ++c) {
            few[c] = s.change[s.changed[first + c]];
            s.changed[first + c] = at.class_of(s.changed[first + c]);
        }
        ODM_NAME(add_some)(s, i, few, s.changed + first, count);
    }
    return violation;
}

// w += x_i v_i', class by class where few are active
LOOP void ODM_NAME(mcodm_add_row)(odm_mcodm &s, int64_t i)
{
    const odm_entry *entries = s.zeta.arena + s.zeta.start[i];
    const int32_t n_active = s.zeta.count[i];
    if (n_active == 0 && s.beta[i] == 0) return;
    if (n_active + 2 > s.padded / 8 || n_active + 2 > ODM_MOST_IN_SUBSET) {
        std::memset(s.change, 0, s.padded * sizeof(double));
        odm_row_duals(s, i, s.change);
        return ODM_NAME(mcodm_add)(s, i, s.change, s.w);
    }
    double v[ODM_MOST_IN_SUBSET];
    int32_t classes[ODM_MOST_IN_SUBSET];
    int64_t n = 2;
    classes[0] = s.labels[i];
    v[0] = -s.beta[i];
    classes[1] = s.others[i];
    v[1] = s.frozen ? 0 : s.beta[i];
    for (int32_t p = 0; p < n_active; ++p) {
        classes[n] = entries[p].label;
        v[n++] = -entries[p].value;
        v[0] += entries[p].value;
    }
    ODM_NAME(add_some)(s, i, v, classes, n);
}

// Losses, gap and conjugate of row i for its scores (some are overwritten) and multipliers, added to `sums`; the best
// wrong class, its score and the margin. Returns the row's gap.
LOOP double ODM_NAME(mcodm_measure)(const odm_mcodm &s, int64_t i, double *f, const odm_entry *entries, int32_t n_entries,
                                    double beta, odm_mcodm_sums *sums, odm_mcodm_best *best)
{
    const double f_y = f[s.labels[i]], theta = s.theta, h = s.h[i];
    const double f_q = s.frozen ? s.references[i] : f[s.others[i]];
    const double top = ODM_NAME(best_of_others)(f, s.n_classes, s.padded, s.labels[i]);
    const bool beaten = !s.frozen && top - f_q > ODM_TIE * (1 + std::fabs(top));
    int32_t label = s.others[i];  // ties: q stays
    if (s.frozen || beaten)
        for (label = 0; label + 1 < s.n_classes && f[label] != top;) ++label;
    *best = {label, top, f_y - top};
    if (!(h < std::numeric_limits<double>::infinity())) return 0;  // no weight

    const double cost = 0.5 / h, z = f_y - top, above = f_y - f_q - 1 - theta;
    const double xi = z < 1 - theta ? 1 - theta - z : 0, eps = above > 0 ? above : 0;
    const double true_eps = z > 1 + theta ? z - 1 - theta : 0;
    sums->objective += cost * (xi * xi + s.nu * true_eps * true_eps);
    sums->relaxed += cost * (xi * xi + s.nu * eps * eps);
    if (beaten && s.nu > 0 && (beta > 0 || eps > 0)) ++sums->misplaced;
    odm_mcodm_terms terms = {std::fabs(f_y), std::fmax(std::fabs(top), std::fabs(f_q)), 0, cost, xi,
                             std::fmax(eps, true_eps), 0, 0, 0, n_entries};
    if (!(s.curvatures[i] > 0)) {  // an empty row: its multipliers are the best ones by definition
        if (s.errors) odm_add_rounding(s, i, terms, beta, sums);
        return 0;
    }

    double total = 0, linear = 0;
    for (int32_t p = 0; p < n_entries; ++p) {
        const double f_l = f[entries[p].label], term = entries[p].value * (1 - theta - f_y + f_l);
        total += entries[p].value;
        linear += term;
        terms.linear += std::fabs(term);
        terms.active = std::fmax(terms.active, std::fabs(f_l));
    }
    double gap = cost * xi * xi + 0.5 * h * total * total - linear;
    sums->conjugate += 0.5 * h * total * total - (1 - theta) * total;
    if (s.nu > 0) {
        gap += s.nu * cost * eps * eps + 0.5 * h * beta * beta / s.nu - beta * above;
        sums->conjugate += 0.5 * h * beta * beta / s.nu + ((s.frozen ? s.references[i] : 0) + 1 + theta) * beta;
        terms.squares = 0.5 * h * beta * beta / s.nu;
        terms.linear += beta * std::fabs(above);
    }
    if (s.errors) {
        terms.total = total;
        terms.squares += 0.5 * h * total * total;
        odm_add_rounding(s, i, terms, beta, sums);
    }
    sums->gap += gap;
    return gap;
}
