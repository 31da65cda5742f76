// Kernel expansions, summed on the fly; a part of panel_loops.h.

static const int64_t ODM_NAME(sums_chunk_rows) = 4 * WIDTH;  // test rows per unit of threaded work

// Continue the running sums of up to WIDTH test rows over the support rows first .. last-1. They start from
// what is stored, so that a result does not depend on how the work was cut.
LOOP void ODM_NAME(sum_panel)(const odm_sums_job &job, const char *panel, const int32_t *slots,
                              const REAL *norms, int64_t first_test, int64_t n, REAL *sums)
{
    alignas(64) REAL tile[ODM_TILE_ROWS * WIDTH];
    for (int64_t c = 0; c < job.n_outputs; ++c)
        for (int64_t r = 0; r < WIDTH; ++r)
            sums[c * WIDTH + r] = r < n ? REAL(job.sums[(first_test + r) * job.n_outputs + c]) : REAL(0);
    for (int64_t j = job.first, t = ODM_TILE_ROWS; j < job.last; ++j, ++t) {
        if (t == ODM_TILE_ROWS) {
            const int64_t n_tile = job.last - j < ODM_TILE_ROWS ? job.last - j : ODM_TILE_ROWS;
            ODM_NAME(fill_tile)(job.formula, job.support, j, n_tile, job.n_columns, job.slab, panel, slots, norms,
                                tile);
            t = 0;
        }
        const VEC *from = reinterpret_cast<const VEC *>(tile + t * WIDTH);
        for (int64_t p = job.output_starts[j]; p < job.output_starts[j + 1]; ++p) {
            const REAL coefficient = REAL(job.coefficients[p]);
            VEC *to = reinterpret_cast<VEC *>(sums + job.outputs[p] * WIDTH);
            for (int64_t k = 0; k < WIDTH / LANES; ++k) to[k] += coefficient * from[k];
        }
    }
    for (int64_t c = 0; c < job.n_outputs; ++c)
        for (int64_t r = 0; r < n; ++r) job.sums[(first_test + r) * job.n_outputs + c] = sums[c * WIDTH + r];
}

LOOP void ODM_NAME(sums_chunk)(void *context, int64_t chunk)
{
    const odm_sums_job &job = *static_cast<const odm_sums_job *>(context);
    int64_t first = job.first_test + chunk * ODM_NAME(sums_chunk_rows), last = first + ODM_NAME(sums_chunk_rows);
    if (last > job.last_test) last = job.last_test;
    const bool direct = job.n_columns <= ODM_DIRECT_COLUMNS;
    int64_t most_lines = 0, rows[WIDTH];
    for (int64_t i = first; i < last; i += WIDTH) {
        const int64_t n = last - i < WIDTH ? last - i : WIDTH;
        for (int64_t r = 0; r < n; ++r) rows[r] = i + r;
        const int64_t lines = ODM_NAME(lines)(job.test, rows, n, job.n_columns);
        if (lines > most_lines) most_lines = lines;
    }
    ODM_NAME(room) room;
    if (!room.take((most_lines + job.n_outputs) * ODM_PANEL_BYTES, direct ? 0 : job.n_columns)) {
        *job.failed = true;
        return;
    }
    REAL *panel = reinterpret_cast<REAL *>(room.panels);
    for (; first < last; first += WIDTH) {
        alignas(64) REAL norms[WIDTH];
        const int64_t n = last - first < WIDTH ? last - first : WIDTH;
        for (int64_t r = 0; r < n; ++r) rows[r] = first + r;
        ODM_NAME(build)(job.test, rows, n, job.n_columns, panel, room.slots);
        ODM_NAME(panel_norms)(job.formula, job.test, rows, n, norms);
        ODM_NAME(sum_panel)(job, room.panels, room.slots, norms, first, n, panel + most_lines * WIDTH);
        if (room.slots) ODM_NAME(clear)(job.test, rows, n, job.n_columns, room.slots);
    }
}

LOOP void ODM_NAME(sums)(odm_sums_job *job) noexcept
{
    const int64_t n_chunks = (job->last_test - job->first_test + ODM_NAME(sums_chunk_rows) - 1)
                             / ODM_NAME(sums_chunk_rows);
    odm_parallel_for(n_chunks, job->n_threads, ODM_NAME(sums_chunk), job);
}
