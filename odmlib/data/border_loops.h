// The loops of border.h for one instruction set; included more than once. Compilers make vectors of them.

LOOP void ODM_NAME(take_columns_32)(const int32_t *__restrict given, int32_t *__restrict out, int64_t n, uint64_t *beyond,
                                    int32_t *largest)
{
    uint32_t seen = 0;
    int32_t most = *largest;
    for (int64_t k = 0; k < n; ++k) {
        const int32_t column = given[k];
        out[k] = column;
        seen |= static_cast<uint32_t>(column);
        most = column > most ? column : most;
    }
    *beyond |= seen >> 31;
    *largest = most;
}

LOOP void ODM_NAME(take_columns_64)(const int64_t *__restrict given, int32_t *__restrict out, int64_t n, uint64_t *beyond,
                                    int32_t *largest)
{
    uint64_t seen = 0;
    int32_t most = *largest;
    for (int64_t k = 0; k < n; ++k) {
        const int64_t column = given[k];
        out[k] = static_cast<int32_t>(column);
        seen |= static_cast<uint64_t>(column);
        most = out[k] > most ? out[k] : most;
    }
    *beyond |= seen >> 31;
    *largest = most;
}

LOOP int64_t ODM_NAME(falls)(const int32_t *columns, int64_t n)
{
    int32_t found = 0;
    for (int64_t k = 1; k < n; ++k) found += columns[k] <= columns[k - 1];
    return found;
}

LOOP bool ODM_NAME(all_finite)(const double *values, int64_t n)
{
    int64_t bad = 0;
    for (int64_t k = 0; k < n; ++k) bad |= values[k] * 0.0 != 0.0;  // infinity and NaN times 0 are NaN
    return bad == 0;
}
