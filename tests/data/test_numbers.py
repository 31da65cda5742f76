"""numbers.h: text to double and back, against Python's float() and repr()."""

import locale
import math
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odmlib.data._reader import parse_number
from odmlib.data._writer import format_number

BY_C_LIBRARY = [False, True]


def bits(number):
    return struct.pack("<d", number)


def random_doubles(count, seed=0):
    generator = random.Random(seed)
    for _ in range(count):
        number = struct.unpack("<d", generator.randbytes(8))[0]
        if math.isfinite(number):
            yield number


def texts_of(number):
    yield repr(number)
    yield f"{number:.17g}"
    yield f"{number:.16e}"
    yield f"{number:.6g}"
    yield f"{number:+.3e}"
    if 1e-30 < abs(number) < 1e30:
        yield f"{number:.20f}"
        yield f"{number:.60f}"


def halfway_texts(generator, count):
    """Decimal texts of exact midpoints of neighbouring doubles, and of a hair beside them."""
    for _ in range(count):
        mantissa = generator.randrange(2**52, 2**53)
        exponent = generator.randrange(-200, 200)
        numerator = 2 * mantissa + 1  # the midpoint is numerator * 2^(exponent - 1)
        if exponent >= 1:
            digits, power = str(numerator << (exponent - 1)), 0
        else:
            digits, power = str(numerator * 5 ** (1 - exponent)), exponent - 1
        yield f"{digits}e{power}"
        yield f"{digits}0000000001e{power - 10}"
        yield f"{int(digits) * 10 - 1}e{power - 1}"


@pytest.mark.parametrize("by_strtod", BY_C_LIBRARY)
def test_parse_equals_float_on_random_bits(by_strtod):
    for number in random_doubles(20_000):
        for text in texts_of(number):
            assert bits(parse_number(text.encode(), by_strtod)) == bits(float(text)), text


@pytest.mark.parametrize("by_strtod", BY_C_LIBRARY)
def test_parse_equals_float_on_ties(by_strtod):
    for text in halfway_texts(random.Random(1), 3000):
        assert bits(parse_number(text.encode(), by_strtod)) == bits(float(text)), text


def test_parse_equals_float_on_random_decimals():
    generator = random.Random(2)
    for _ in range(60_000):
        whole = "".join(generator.choices("0123456789", k=generator.choice([0, 1, 2, 5, 9, 17, 20, 25])))
        fraction = "".join(
            generator.choices("0123456789", k=generator.choice([0, 1, 3, 7, 8, 9, 15, 16, 17, 30]))
        )
        text = generator.choice(["", "-", "+"]) + whole + generator.choice(["", "."]) + fraction
        text += generator.choice(
            ["", "", f"e{generator.randrange(-330, 310)}", f"E+{generator.randrange(30)}"]
        )
        if not whole and not fraction:
            continue
        expected = float(text)
        if math.isfinite(expected):
            assert bits(parse_number(text.encode())) == bits(expected), text


@pytest.mark.parametrize("by_strtod", BY_C_LIBRARY)
@pytest.mark.parametrize(
    "text",
    [
        "0",
        "-0",
        "+0",
        ".5",
        "5.",
        "-.5e1",
        "1e-320",
        "4.9e-324",
        "2.4e-324",
        "2.5e-324",
        "1e-400",
        "0e999999999999",
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "2.2250738585072011e-308",
        "9007199254740993",
        "1e22",
        "1e23",
        "0" * 400 + "1.5",
        "1" + "0" * 300,
        "0." + "0" * 400 + "1e401",
        "1e-99999999999999999999",
        "12345678.12345678",
        "8.5",
        "1234567812345678.5",
        "0." + "123456789" * 100,
    ],
)
def test_parse_edges(text, by_strtod):
    assert bits(parse_number(text.encode(), by_strtod)) == bits(float(text))


def test_overflow_becomes_infinity_for_the_caller_to_refuse():
    for text in (b"1e309", b"1.7976931348623159e308", b"9" * 310, b"-1e99999999999999999999"):
        assert math.isinf(parse_number(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "+",
        "-",
        ".",
        "e5",
        "1e",
        "1e+",
        "1.5.2",
        "--1",
        "+-1",
        "nan",
        "inf",
        "-inf",
        "infinity",
        "0x10",
        "1_000",
        "1,5",
        "1 ",
        " 1",
        "1f",
        "1e5.0",
        "١",
        "1\0",
    ],
)
def test_what_is_not_a_number(text):
    assert parse_number(text.encode()) is None


@given(st.text(alphabet="0123456789.eE+-", max_size=12))
def test_parse_agrees_with_float_on_what_a_number_is(text):
    try:
        expected = float(text)
    except ValueError:
        expected = None
    found = parse_number(text.encode())
    assert (found is None) == (expected is None)
    assert found is None or bits(found) == bits(expected)


@pytest.mark.parametrize("by_snprintf", BY_C_LIBRARY)
def test_format_round_trips(by_snprintf):
    for number in random_doubles(30_000, seed=3):
        text = format_number(number, by_snprintf)
        assert bits(float(text)) == bits(number)
        assert bits(parse_number(text.encode())) == bits(number)


def test_format_is_shortest():
    def significant(text):
        return len(text.lower().split("e")[0].replace("-", "").replace(".", "").strip("0"))

    for number in random_doubles(20_000, seed=4):
        text = format_number(number)
        assert significant(text) <= significant(repr(number))
        assert len(text) <= 24


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"),
        (-1.0, "-1"),
        (0.0, "0"),
        (-0.0, "-0"),
        (0.1, "0.1"),
        (1e15, "1000000000000000"),
        (2.0**53, "9007199254740992"),
        (-(2.0**53), "-9007199254740992"),
        (5e-324, "5e-324"),
        (1e22, "1e+22"),
    ],
)
def test_format_of_known_numbers(number, text):
    assert format_number(number) == text


def test_whole_numbers_above_2_to_53_carry_an_exponent():
    """Their digits need not be exact, and the reader refuses whole labels that are not."""
    for power in range(54, 1024):
        assert "e" in format_number(2.0**power)


def test_numbers_do_not_depend_on_the_locale():
    before = locale.setlocale(locale.LC_ALL)
    for name in ("de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"):
        try:
            locale.setlocale(locale.LC_ALL, name)
            break
        except locale.Error:
            continue
    else:
        pytest.skip("no locale with a decimal comma is installed here")
    try:
        for c_library in BY_C_LIBRARY:
            assert parse_number(b"1.5", c_library) == 1.5
            assert parse_number(b"1.2345678901234567890", c_library) == 1.2345678901234567890
            assert format_number(0.1, c_library) == "0.1"
    finally:
        locale.setlocale(locale.LC_ALL, before)
