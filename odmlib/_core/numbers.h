// Decimal text to double and back, the same in every locale and exact both ways.
//
//   number := [+-] ( digits [ . [digits] ] | . digits ) [ (e|E) [+-] digits ]
//
// Parsing rounds correctly (to nearest, ties to even), as Python's float() does: underflow gives a
// denormal or zero, overflow is reported. No "nan", "inf", hexadecimal or digit grouping.
// Formatting gives the shortest text that reads back as the same double; whole numbers up to 2^53 are
// written without point or exponent.
//
// Most numbers in data files have few digits. With a mantissa up to 2^53 and a power of ten up to 10^22
// both are doubles without error, so one multiplication or division rounds once, that is: correctly.
// The others go to the C++ library, or, where it cannot (__cpp_lib_to_chars), to strtod and snprintf in
// the C locale.
#ifndef ODMLIB_NUMBERS_H
#define ODMLIB_NUMBERS_H

#include <cfloat>
#include <charconv>
#include <clocale>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#ifndef _WIN32
#include <locale.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif
#endif

enum { ODM_NUMBER_OK = 0, ODM_NUMBER_MALFORMED = 1, ODM_NUMBER_INFINITE = 2 };

// Room that odm_format_number may need: sign, 17 digits, point, e, sign, 3 digits, and to spare.
enum { ODM_NUMBER_CHARS = 32 };

// Whole doubles up to here are exact, each of them.
static const double ODM_EXACT_WHOLE = 9007199254740992.0;

// ---------------------------------------------------------------- the C library, in the C locale

#ifdef _WIN32
struct odm_c_locale {};
#else
struct odm_c_locale {
    locale_t before;
    odm_c_locale() noexcept
    {
        static const locale_t plain = newlocale(LC_ALL_MASK, "C", static_cast<locale_t>(0));
        before = uselocale(plain);  // of this thread only
    }
    ~odm_c_locale() { uselocale(before); }
};
#endif

// `text` starts with a digit or a point, is well formed, and ends where the number's grammar ends.
static inline double odm_parse_by_strtod(const char *text) noexcept
{
    odm_c_locale guard;
    (void)guard;
    return std::strtod(text, nullptr);
}

static inline char *odm_format_by_snprintf(double number, char *out) noexcept
{
    odm_c_locale guard;
    (void)guard;
    int length = 0;
    for (int digits = DBL_DIG; digits <= DBL_DECIMAL_DIG; ++digits) {
        length = std::snprintf(out, ODM_NUMBER_CHARS, "%.*g", digits, number);
        if (std::strtod(out, nullptr) == number) break;
    }
    return out + length;
}

// ---------------------------------------------------------------- text to double

static inline double odm_parse_slowly(const char *text, const char *end) noexcept
{
#ifdef __cpp_lib_to_chars
    double number;
    if (std::from_chars(text, end, number).ec == std::errc()) return number;
    // out of range: strtod tells overflow from underflow, and rounds to a denormal where there is one
#endif
    (void)end;
    return odm_parse_by_strtod(text);
}

// Eight bytes that are all digits? Then their value, by three multiplications instead of eight.
static inline bool odm_eight_digits(const char *text, uint64_t *value) noexcept
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t word;
    std::memcpy(&word, text, 8);
    word -= 0x3030303030303030u;
    if (((word | (word + 0x7676767676767676u)) & 0x8080808080808080u) != 0) return false;
    word = word * 10 + (word >> 8);  // pairs in every second byte
    const uint64_t mask = 0x000000FF000000FFu;
    *value = (((word & mask) * 0x000F424000000064u) + (((word >> 16) & mask) * 0x0000271000000001u)) >> 32;
    return true;
#else
    (void)text;
    (void)value;
    return false;
#endif
}

// Parse the number at `text`; the end of it is returned and `status` says what came of it.
// Some byte that cannot continue a number must follow, and eight more bytes must be readable.
static inline const char *odm_parse_number(const char *text, double *number, int *status) noexcept
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *p = text;
    const bool negative = *p == '-';
    if (negative || *p == '+') ++p;

    const char *const start = p;
    uint64_t mantissa = 0, eight;
    unsigned digit;
    while ((digit = static_cast<unsigned char>(*p) - '0') <= 9) {
        mantissa = mantissa * 10 + digit;
        ++p;
    }
    int64_t n_digits = p - start;
    int64_t exponent = 0;
    if (*p == '.') {
        const char *const fraction = ++p;
        if (odm_eight_digits(p, &eight)) {
            mantissa = mantissa * 100000000 + eight;
            p += 8;
            if (odm_eight_digits(p, &eight)) {
                mantissa = mantissa * 100000000 + eight;
                p += 8;
            }
        }
        while ((digit = static_cast<unsigned char>(*p) - '0') <= 9) {
            mantissa = mantissa * 10 + digit;
            ++p;
        }
        exponent = fraction - p;
        n_digits -= exponent;
    }
    if (n_digits == 0) {
        *status = ODM_NUMBER_MALFORMED;
        return text;
    }
    if ((*p | 0x20) == 'e') {
        const char *mark = p++;
        const bool minus = *p == '-';
        if (minus || *p == '+') ++p;
        int64_t written = 0;
        const char *const first = p;
        while ((digit = static_cast<unsigned char>(*p) - '0') <= 9) {
            if (written < 100000) written = written * 10 + digit;
            ++p;
        }
        if (p == first) {
            *status = ODM_NUMBER_MALFORMED;
            return mark;
        }
        exponent += minus ? -written : written;
    }

    double result;
    // 19 digits always fit into 64 bits; FLT_EVAL_METHOD 0: no hidden extra precision, no double rounding
    if (n_digits <= 19 && mantissa <= (static_cast<uint64_t>(1) << 53) && exponent >= -22 && exponent <= 22 &&
        FLT_EVAL_METHOD == 0) {
        result = static_cast<double>(mantissa);
        result = exponent < 0 ? result / powers[-exponent] : result * powers[exponent];
    } else if (n_digits <= 19 && mantissa == 0) {
        result = 0.0;
    } else {
        result = odm_parse_slowly(start, p);
    }
    *number = negative ? -result : result;
    *status = result <= DBL_MAX ? ODM_NUMBER_OK : ODM_NUMBER_INFINITE;
    return p;
}

// Is `number` exactly the whole number written at [text, end)? True too where a fraction is written
// (there rounding is what one expects).
static inline bool odm_whole_is_exact(const char *text, const char *end, double number) noexcept
{
    if (std::fabs(number) < ODM_EXACT_WHOLE) return true;
    if (*text == '+' || *text == '-') ++text;
    while (text < end && *text == '0') ++text;
    for (const char *p = text; p < end; ++p)
        if (*p < '0' || *p > '9') return true;
    char digits[DBL_MAX_10_EXP + 3];
    const int length = std::snprintf(digits, sizeof digits, "%.0f", std::fabs(number));
    return length == end - text && std::memcmp(digits, text, static_cast<size_t>(length)) == 0;
}

// ---------------------------------------------------------------- double to text

// Write a finite number to `out` (ODM_NUMBER_CHARS of room, no terminating zero); returns its end.
static inline char *odm_format_number(double number, char *out) noexcept
{
    if (std::fabs(number) <= ODM_EXACT_WHOLE) {
        const int64_t whole = static_cast<int64_t>(number);
        if (static_cast<double>(whole) == number) {
            if (whole == 0 && std::signbit(number)) *out++ = '-';
            return std::to_chars(out, out + ODM_NUMBER_CHARS - 1, whole).ptr;
        }
    }
#ifdef __cpp_lib_to_chars
    // above 2^53 always with exponent: digits that are not exact must not look like a whole number
    if (std::fabs(number) > ODM_EXACT_WHOLE)
        return std::to_chars(out, out + ODM_NUMBER_CHARS, number, std::chars_format::scientific).ptr;
    return std::to_chars(out, out + ODM_NUMBER_CHARS, number).ptr;
#else
    return odm_format_by_snprintf(number, out);
#endif
}

#endif
