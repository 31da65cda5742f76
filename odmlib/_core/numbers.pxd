# Decimal text to double and back, exact and without locale; see numbers.h for the grammar.
cdef extern from "numbers.h" nogil:
    enum:
        NUMBER_OK "ODM_NUMBER_OK"
        NUMBER_MALFORMED "ODM_NUMBER_MALFORMED"
        NUMBER_INFINITE "ODM_NUMBER_INFINITE"
        NUMBER_CHARS "ODM_NUMBER_CHARS"

    # the end of the number at `text`; a byte that ends it and eight readable bytes must follow
    const char *parse_number "odm_parse_number"(const char *text, double *number, int *status) noexcept
    # the same for a well-formed unsigned number, by the C library
    double parse_by_strtod "odm_parse_by_strtod"(const char *text) noexcept
    # a whole number written at [text, end) is `number` without rounding
    bint whole_is_exact "odm_whole_is_exact"(const char *text, const char *end, double number) noexcept
    # the end of what was written to `out`, which has room for NUMBER_CHARS
    char *format_number "odm_format_number"(double number, char *out) noexcept
    char *format_by_snprintf "odm_format_by_snprintf"(double number, char *out) noexcept
