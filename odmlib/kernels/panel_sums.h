// Kernel expansions, summed on the fly; a part of panel_loops.h.

static const int64_t ODM_NAME(sums_chunk_rows) = 4 * WIDTH;  // test rows per unit of threaded work

// Continue the running sums of up to n_panels x WIDTH test rows over the support rows first .. last-1. They start
// from what is stored, so that a result does not depend on how the work was cut. A tile of support rows meets all
// panels while it is in the cache. `sums` has n_outputs lines for each panel.
LOOP void ODM_NAME(sum_panels)(const odm_sums_job &job, const char *panels, int64_t panel_bytes,
                               const int32_t *slots, const REAL *norms, int64_t first_test, int64_t n, REAL *sums)
{
    alignas(64) REAL tile[ODM_TILE_ROWS * WIDTH];
    const int64_t n_panels = (n + WIDTH - 1) / WIDTH, of_panel = job.n_outputs * WIDTH;
    for (int64_t p = 0; p < n_panels; ++p)
        for (int64_t c = 0; c < job.n_outputs; ++c)
            for (int64_t r = 0; r < WIDTH; ++r) {
                const int64_t row = p * WIDTH + r;
                sums[p * of_panel + c * WIDTH + r]
                    = row < n ? REAL(job.sums[(first_test + row) * job.n_outputs + c]) : REAL(0);
            }
    for (int64_t first = job.first; first < job.last; first += ODM_TILE_ROWS) {
        const int64_t n_tile = job.last - first < ODM_TILE_ROWS ? job.last - first : ODM_TILE_ROWS;
        for (int64_t p = 0; p < n_panels; ++p) {
            ODM_NAME(fill_tile)(job.formula, job.support, first, n_tile, job.n_columns, job.slab,
                                panels + p * panel_bytes, slots, norms + p * WIDTH, tile);
            for (int64_t t = 0; t < n_tile; ++t) {
                const VEC *from = reinterpret_cast<const VEC *>(tile + t * WIDTH);
                for (int64_t q = job.output_starts[first + t]; q < job.output_starts[first + t + 1]; ++q) {
                    const REAL coefficient = REAL(job.coefficients[q]);
                    VEC *to = reinterpret_cast<VEC *>(sums + p * of_panel + job.outputs[q] * WIDTH);
                    for (int64_t k = 0; k < WIDTH / LANES; ++k) to[k] += coefficient * from[k];
                }
            }
        }
    }
    for (int64_t row = 0; row < n; ++row)
        for (int64_t c = 0; c < job.n_outputs; ++c)
            job.sums[(first_test + row) * job.n_outputs + c] = sums[row / WIDTH * of_panel + c * WIDTH + row % WIDTH];
}

LOOP void ODM_NAME(sums_chunk)(void *context, int64_t chunk)
{
    const odm_sums_job &job = *static_cast<const odm_sums_job *>(context);
    int64_t first = job.first_test + chunk * ODM_NAME(sums_chunk_rows), last = first + ODM_NAME(sums_chunk_rows);
    if (last > job.last_test) last = job.last_test;
    const bool direct = job.n_columns <= ODM_DIRECT_COLUMNS;
    int64_t most_lines = 0, rows[ODM_NAME(sums_chunk_rows)];
    for (int64_t i = first; i < last; ++i) rows[i - first] = i;
    for (int64_t i = first; i < last; i += WIDTH) {
        const int64_t n = last - i < WIDTH ? last - i : WIDTH;
        const int64_t lines = ODM_NAME(lines)(job.test, rows + (i - first), n, job.n_columns);
        if (lines > most_lines) most_lines = lines;
    }
    const int64_t panel_bytes = most_lines * ODM_PANEL_BYTES;
    // as many panels at a time as stay in the second-level cache
    int64_t group = direct ? ODM_GROUP_BYTES / 2 / (panel_bytes + job.n_outputs * ODM_PANEL_BYTES) : 1;
    if (group < 1) group = 1;
    if (group * WIDTH > ODM_NAME(sums_chunk_rows)) group = ODM_NAME(sums_chunk_rows) / WIDTH;
    ODM_NAME(room) room;
    if (!room.take(group * (panel_bytes + job.n_outputs * ODM_PANEL_BYTES), direct ? 0 : job.n_columns)) {
        *job.failed = true;
        return;
    }
    REAL *sums = reinterpret_cast<REAL *>(room.panels + group * panel_bytes);
    for (; first < last; first += group * WIDTH) {
        alignas(64) REAL norms[ODM_NAME(sums_chunk_rows)];
        const int64_t n = last - first < group * WIDTH ? last - first : group * WIDTH;
        for (int64_t r = 0; r < n; ++r) rows[r] = first + r;
        for (int64_t r = 0; r < n; r += WIDTH) {
            const int64_t width = n - r < WIDTH ? n - r : WIDTH;
            REAL *panel = reinterpret_cast<REAL *>(room.panels + r / WIDTH * panel_bytes);
            ODM_NAME(build)(job.test, rows + r, width, job.n_columns, panel, room.slots);
            ODM_NAME(panel_norms)(job.formula, job.test, rows + r, width, norms + r);
        }
        ODM_NAME(sum_panels)(job, room.panels, panel_bytes, room.slots, norms, first, n, sums);
        if (room.slots) ODM_NAME(clear)(job.test, rows, n, job.n_columns, room.slots);
    }
}

LOOP void ODM_NAME(sums)(odm_sums_job *job) noexcept
{
    const int64_t n_chunks = (job->last_test - job->first_test + ODM_NAME(sums_chunk_rows) - 1)
                             / ODM_NAME(sums_chunk_rows);
    odm_parallel_for(n_chunks, job->n_threads, ODM_NAME(sums_chunk), job);
}

// One part of a symmetric product: see odm_symmetric_job.
LOOP void ODM_NAME(symmetric_part)(void *context, int64_t part)
{
    const odm_symmetric_job &job = *static_cast<const odm_symmetric_job *>(context);
    const bool direct = job.n_columns <= ODM_DIRECT_COLUMNS;
    double *out = job.sums + part * job.n_rows;
    const int64_t skip = (part - job.first_panel % job.n_parts + job.n_parts) % job.n_parts;
    for (int64_t p = job.first_panel + skip; p < job.last_panel; p += job.n_parts) {
        const int64_t begin = p * WIDTH, n = job.n_rows - begin < WIDTH ? job.n_rows - begin : WIDTH;
        int64_t rows[WIDTH];
        alignas(64) REAL norms[WIDTH], own[WIDTH], sums[WIDTH], tile[ODM_TILE_ROWS * WIDTH];
        for (int64_t r = 0; r < n; ++r) rows[r] = begin + r;
        for (int64_t r = 0; r < WIDTH; ++r) own[r] = r < n ? REAL(job.coefficients[begin + r]) : REAL(0);
        for (int64_t r = 0; r < WIDTH; ++r) sums[r] = 0;
        ODM_NAME(room) room;
        const int64_t lines = ODM_NAME(lines)(job.rows, rows, n, job.n_columns);
        if (!room.take(lines * ODM_PANEL_BYTES, direct ? 0 : job.n_columns)) {
            *job.failed = true;
            return;
        }
        ODM_NAME(build)(job.rows, rows, n, job.n_columns, reinterpret_cast<REAL *>(room.panels), room.slots);
        ODM_NAME(panel_norms)(job.formula, job.rows, rows, n, norms);
        for (int64_t first = begin; first < job.n_rows; first += ODM_TILE_ROWS) {
            const int64_t n_tile = job.n_rows - first < ODM_TILE_ROWS ? job.n_rows - first : ODM_TILE_ROWS;
            ODM_NAME(fill_tile)(job.formula, job.rows, first, n_tile, job.n_columns, job.slab, room.panels,
                                room.slots, norms, tile);
            // sums of a tile first: the error of a sum grows with the number of its terms
            VEC of_tile[WIDTH / LANES] = {}, with[WIDTH / LANES];
            for (int64_t k = 0; k < WIDTH / LANES; ++k) with[k] = reinterpret_cast<const VEC *>(own)[k];
            for (int64_t t = 0; t < n_tile; ++t) {
                const VEC *from = reinterpret_cast<const VEC *>(tile + t * WIDTH);
                VEC across = {};
                const REAL coefficient = REAL(job.coefficients[first + t]);
                for (int64_t k = 0; k < WIDTH / LANES; ++k) {
                    of_tile[k] += coefficient * from[k];
                    across += with[k] * from[k];
                }
                if (first + t < begin + WIDTH) continue;  // both orders of a pair inside of the panel pass by
                REAL total = 0;
                for (int64_t k = 0; k < LANES; ++k) total += across[k];
                out[first + t] += total;
            }
            for (int64_t k = 0; k < WIDTH / LANES; ++k) reinterpret_cast<VEC *>(sums)[k] += of_tile[k];
        }
        for (int64_t r = 0; r < n; ++r) out[begin + r] += sums[r];
    }
}

LOOP void ODM_NAME(symmetric)(odm_symmetric_job *job) noexcept
{
    odm_parallel_for(job->n_parts, job->n_threads, ODM_NAME(symmetric_part), job);
}
