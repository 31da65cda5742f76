// Rows of kernel values; a part of panel_loops.h.

struct ODM_NAME(block_task) {
    const odm_block_job *job;
    int64_t n_panels, panel_bytes;
    const int64_t *rows;  // of this group
    int64_t n_rows;
    void **out;
    const char *panels;
    const int32_t *slots;
    const REAL *norms;
};

// Tile [streaming row][panel row] of floats -> rows of the result, four by four.
LOOP void ODM_NAME(store)(const float *tile, int64_t n_tile, int64_t n_panel, void **rows, int64_t first)
{
    float *out[WIDTH];
    for (int64_t r = 0; r < n_panel; ++r) out[r] = static_cast<float *>(rows[r]);
    int64_t r = 0;
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
    typedef float quad __attribute__((vector_size(16), may_alias));
    typedef float loose_quad __attribute__((vector_size(16), may_alias, aligned(4)));
    for (; r + 4 <= n_panel; r += 4) {
        int64_t t = 0;
        for (; t + 4 <= n_tile; t += 4) {
            const float *from = tile + t * WIDTH + r;
            const quad a = *reinterpret_cast<const quad *>(from);
            const quad b = *reinterpret_cast<const quad *>(from + WIDTH);
            const quad c = *reinterpret_cast<const quad *>(from + 2 * WIDTH);
            const quad d = *reinterpret_cast<const quad *>(from + 3 * WIDTH);
            const quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
            const quad cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
            const quad ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
            const quad cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
            const int64_t j = first + t;
            *reinterpret_cast<loose_quad *>(out[r] + j) = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
            *reinterpret_cast<loose_quad *>(out[r + 1] + j) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
            *reinterpret_cast<loose_quad *>(out[r + 2] + j) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
            *reinterpret_cast<loose_quad *>(out[r + 3] + j) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
        }
        for (; t < n_tile; ++t)
            for (int64_t k = r; k < r + 4; ++k) out[k][first + t] = tile[t * WIDTH + k];
    }
#endif
#endif
    for (; r < n_panel; ++r)
        for (int64_t t = 0; t < n_tile; ++t) out[r][first + t] = tile[t * WIDTH + r];
}

LOOP void ODM_NAME(store_wide)(const REAL *tile, int64_t n_tile, int64_t n_panel, void **rows, int64_t first)
{
    for (int64_t r = 0; r < n_panel; ++r) {
        double *out = static_cast<double *>(rows[r]) + first;
        for (int64_t t = 0; t < n_tile; ++t) out[t] = tile[t * WIDTH + r];
    }
}

// Numbers below the normal range of float become 0: they are slow to compute with, and as good as that.
INLINE void ODM_NAME(convert)(const REAL *from, int64_t n, float *to)
{
    typedef float narrow __attribute__((vector_size(ODM_VECTOR_BYTES / sizeof(REAL) * 4), may_alias));
    const REAL least = REAL(FLT_MIN);
    for (int64_t k = 0; k < n; k += LANES) {
        const VEC x = *reinterpret_cast<const VEC *>(from + k);
        const VEC normal = ((x > -least) & (x < least)) ? VEC{} : x;
        *reinterpret_cast<narrow *>(to + k) = __builtin_convertvector(normal, narrow);
    }
}

LOOP void ODM_NAME(block_chunk)(void *context, int64_t chunk)
{
    const auto *task = static_cast<const ODM_NAME(block_task) *>(context);
    const odm_block_job &job = *task->job;
    alignas(64) REAL tile[ODM_TILE_ROWS * WIDTH];
    alignas(64) float converted[sizeof(REAL) > sizeof(float) ? ODM_TILE_ROWS * WIDTH : 1];
    odm_kernel_formula formula = job.formula;
    // where the result is float32, only the exponent needs the digits of double, which is slow to raise
    if (sizeof(REAL) > sizeof(float) && !job.wide && formula.kind == ODM_RBF) formula.kind = ODM_RBF_EXPONENT;
    int64_t first = job.first + chunk * ODM_CHUNK_ROWS;
    const int64_t last = first + ODM_CHUNK_ROWS < job.last ? first + ODM_CHUNK_ROWS : job.last;
    for (; first < last; first += ODM_TILE_ROWS) {
        const int64_t n_tile = first + ODM_TILE_ROWS < last ? ODM_TILE_ROWS : last - first;
        for (int64_t p = 0; p < task->n_panels; ++p) {
            const char *panel = task->panels + p * task->panel_bytes;
            ODM_NAME(fill_tile)(formula, job.data, first, n_tile, job.n_columns, job.slab, panel, task->slots,
                                task->norms + p * WIDTH, tile);
            const int64_t n_panel = task->n_rows - p * WIDTH < WIDTH ? task->n_rows - p * WIDTH : WIDTH;
            if (job.wide) {
                ODM_NAME(store_wide)(tile, n_tile, n_panel, task->out + p * WIDTH, first);
                continue;
            }
            float *floats = reinterpret_cast<float *>(tile);
            if (sizeof(REAL) > sizeof(float)) {
                floats = converted;
                ODM_NAME(convert)(tile, n_tile * WIDTH, converted);
            }
            if (formula.kind == ODM_RBF_EXPONENT)
                ODM_RAISE(floats, n_tile * WIDTH, static_cast<float>(formula.bias_squared));
            ODM_NAME(store)(floats, n_tile, n_panel, task->out + p * WIDTH, first);
        }
    }
}

// Groups of panels, each built once and then streamed past by all rows.
LOOP int ODM_NAME(block)(const odm_block_job *job) noexcept
{
    const bool direct = job->n_columns <= ODM_DIRECT_COLUMNS;
    int64_t group = direct ? ODM_GROUP_BYTES / (ODM_PANEL_BYTES * (job->n_columns + 1)) : 1;
    if (group < 1) group = 1;
    if (group * WIDTH > job->n_rows) group = (job->n_rows + WIDTH - 1) / WIDTH;
    int64_t most_lines = 0;
    for (int64_t r = 0; r < job->n_rows; r += WIDTH) {
        const int64_t n = job->n_rows - r < WIDTH ? job->n_rows - r : WIDTH;
        const int64_t lines = ODM_NAME(lines)(job->source, job->rows + r, n, job->n_columns);
        if (lines > most_lines) most_lines = lines;
    }
    ODM_NAME(room) room;
    const int64_t panel_bytes = most_lines * ODM_PANEL_BYTES;
    if (!room.take(group * (panel_bytes + ODM_PANEL_BYTES), direct ? 0 : job->n_columns)) return -1;
    REAL *norms = reinterpret_cast<REAL *>(room.panels + group * panel_bytes);
    for (int64_t r = 0; r < job->n_rows; r += group * WIDTH) {
        ODM_NAME(block_task) task;
        task.job = job;
        task.rows = job->rows + r;
        task.n_rows = job->n_rows - r < group * WIDTH ? job->n_rows - r : group * WIDTH;
        task.n_panels = (task.n_rows + WIDTH - 1) / WIDTH;
        task.panel_bytes = panel_bytes;
        task.out = job->out + r;
        task.panels = room.panels;
        task.slots = room.slots;
        task.norms = norms;
        for (int64_t p = 0; p < task.n_panels; ++p) {
            const int64_t n = task.n_rows - p * WIDTH < WIDTH ? task.n_rows - p * WIDTH : WIDTH;
            REAL *panel = reinterpret_cast<REAL *>(room.panels + p * panel_bytes);
            ODM_NAME(build)(job->source, task.rows + p * WIDTH, n, job->n_columns, panel, room.slots);
            ODM_NAME(panel_norms)(job->formula, job->source, task.rows + p * WIDTH, n, norms + p * WIDTH);
        }
        const int64_t n_chunks = (job->last - job->first + ODM_CHUNK_ROWS - 1) / ODM_CHUNK_ROWS;
        odm_parallel_for(n_chunks, job->n_threads, ODM_NAME(block_chunk), &task);
        if (room.slots) ODM_NAME(clear)(job->source, task.rows, task.n_rows, job->n_columns, room.slots);
    }
    return 0;
}
