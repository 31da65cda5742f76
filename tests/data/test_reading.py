"""Reading data in LIBSVM format: what is accepted, what is refused and in which words."""

import io
import lzma
import random
from pathlib import Path

import numpy as np
import pytest

from odmlib.data.reading import parse_rows, parse_stream, read_data, read_dataset
from odmlib.errors import DataFormatError, ModelFormatError, ParameterError
from tests.reference import Refused, parse_libsvm
from tests.turns import turns_during

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
LARGEST = 2**31 - 1


def outcome(data, **options):
    """What reading comes to: ("rows", ...) or ("refused", line, column)."""
    try:
        indptr, indices, values, labels, width = parse_stream(io.BytesIO(data), "data", **options)
    except DataFormatError as error:
        return "refused", error.line, error.column, str(error)
    return "rows", width, labels.tobytes(), indptr.tolist(), indices.tolist(), values.tobytes()


def reference_outcome(data, **options):
    try:
        rows = parse_libsvm(data, **options)
    except Refused as refusal:
        return "refused", refusal.line, refusal.column
    indptr = np.cumsum([0] + [len(row) for row in rows.items]).tolist()
    indices = [column for row in rows.items for column in row]
    values = np.array([value for row in rows.items for value in row.values()], dtype=np.float64)
    return "rows", rows.n_features, np.array(rows.labels).tobytes(), indptr, indices, values.tobytes()


def same(found, expected):
    return found[:3] == expected if found[0] == "refused" else found == expected


def dense(data, **options):
    X, y = read_data(data, **options)
    return X.toarray().tolist(), y.tolist()


# --------------------------------------------------------------------------- what is accepted

TABLE = "(a CSV table? odmlib.read_table reads one)"


@pytest.mark.parametrize(
    ("text", "rows", "labels"),
    [
        (b"1 1:2\n", [[2]], [1]),
        (b"1 1:2", [[2]], [1]),
        (b"1 1:2\r\n-1 1:3\r\n", [[2], [3]], [1, -1]),
        (b"1 1:2\r\n-1\r", [[2], [0]], [1, -1]),
        (b"1\r\n", [[]], [1]),
        (b"\n\n  \n1 1:2\n\t\n\n", [[2]], [1]),
        (b"# head\n1 1:2 # tail 7:x\n #\n", [[2]], [1]),
        (b"# head\r\n1 1:2# tail\r\n", [[2]], [1]),
        (b"1 qid:3 1:2\n1 qid:-12345678901234567890123\n", [[2], [0]], [1, 1]),
        (b"\t 1 \t 1:2\t\t2:3 \t\n", [[2, 3]], [1]),
        (b"\xef\xbb\xbf1 1:2\n", [[2]], [1]),
        (b"1 1: 2 2:\t3\n", [[2, 3]], [1]),
        (b"+1 1:+2.5\n", [[2.5]], [1]),
        (b"1e0 1:1E1 2:.5 3:5. 4:-2.5e-1\n", [[10, 0.5, 5, -0.25]], [1]),
        (b"1 1:1e-320 2:1e-400\n", [[1e-320, 0]], [1]),
        (b"1\n2\n", [[], []], [1, 2]),
        (b"1 1:0 3:0\n2 2:4\n", [[0, 0, 0], [0, 4, 0]], [1, 2]),
        (b"1 0001:2 0000000000002:3\n", [[2, 3]], [1]),
        (b"-0 1:-0\n", [[0]], [0]),
        (
            b"3000000000 1:1\n1.5 1:1\n1e300\n9007199254740992\n",
            [[1], [1], [0], [0]],
            [3e9, 1.5, 1e300, 2.0**53],
        ),
        (b"10000000000000000000000 1:1\n9007199254740994\n", [[1], [0]], [1e22, 9007199254740994.0]),
        (b"9007199254740993.0 1:1\n", [[1]], [9007199254740992.0]),
        (b"# caf\xe9 \xff\x00 :::\n1 1:1\n", [[1]], [1]),
    ],
)
def test_accepted(text, rows, labels):
    assert dense(text) == (rows, labels)
    assert same(outcome(text), reference_outcome(text))


def test_minus_zero_label_is_zero():
    _, y = read_data(b"-0 1:1\n-0.0 1:1\n")
    assert not np.signbit(y).any()


def test_explicit_zeros_are_not_stored_but_widen():
    X, _ = read_data(b"1 1:1 9:0\n")
    assert X.nnz == 1
    assert X.shape == (1, 9)


def test_largest_index():
    X, _ = read_data(f"1 {LARGEST}:1\n".encode())
    assert X.shape == (1, LARGEST)
    assert X.indices.tolist() == [LARGEST - 1]


def test_features_gives_the_width():
    X, _ = read_data(b"1 1:1\n", features=5)
    assert X.shape == (1, 5)
    X, _ = read_data(b"1\n", features=0)
    assert X.shape == (1, 0)


def test_zero_based():
    assert dense(b"1 0:5 2:1\n", zero_based=True) == ([[5, 0, 1]], [1])
    X, _ = read_data(b"1 2:1\n", zero_based=True, features=3)
    assert X.shape == (1, 3)


def test_types_and_writability():
    X, y = read_data(b"1 1:1\n2 2:1\n")
    assert (X.data.dtype, X.indices.dtype, X.indptr.dtype, y.dtype) == (
        np.float64,
        np.int32,
        np.int32,
        np.float64,
    )
    X.data *= 2
    y += 1
    assert X.has_canonical_format
    rows, _ = read_dataset(b"1 1:1\n")
    assert (rows.indptr.dtype, rows.indices.dtype) == (np.int64, np.int32)
    assert not rows.values.flags.writeable


def test_arrays_outlive_everything_else():
    arrays = [read_dataset(b"1 1:%d 2:3\n" % k)[0] for k in range(1, 200)]
    assert [rows.values[0] for rows in arrays] == list(range(1, 200))


# --------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (b"1 3;0.5\n", (1, 3), "expected index:value, found '3;0.5'"),
        (b"1 1:1\nabc 1:1\n", (2, 1), "expected a number as label, found 'abc'"),
        (b"1:2 3:4\n", (1, 1), "expected a label before the first index:value, found '1:2'"),
        (b"nan 1:1\n", (1, 1), "expected a finite number, found 'nan'"),
        (b"-Inf 1:1\n", (1, 1), "expected a finite number, found '-Inf'"),
        (b"1e999 1:1\n", (1, 1), "expected a finite number, found '1e999'"),
        (
            b"1,2 1:1\n",
            (1, 1),
            "expected one label, found '1,2' "
            + TABLE.replace(")", "; rows with several labels are not supported)"),
        ),
        (
            b"9007199254740993\n",
            (1, 1),
            "expected a label that a double can hold exactly, found '9007199254740993'",
        ),
        (b"0x10 1:1\n", (1, 1), "expected a number as label, found '0x10'"),
        (b"1_0 1:1\n", (1, 1), "expected a number as label, found '1_0'"),
        (
            b"1 2\n",
            (1, 3),
            "expected index:value, found '2' " + TABLE,
        ),
        (b"1 :1\n", (1, 3), "expected index:value, found ':1'"),
        (b"1 1:\n", (1, 5), "expected a number as value, found the end of the line"),
        (b"1 1:\r\n", (1, 5), "expected a number as value, found the end of the line"),
        (b"1 1: #x\n", (1, 6), "expected a number as value, found the end of the line"),
        (b"1 1::2\n", (1, 5), "expected a number as value, found ':2'"),
        (b"1 1:2:3\n", (1, 5), "expected a single value, found '2:3' (two items run together?)"),
        (
            b"1 1:6.6e-0114:8.7\n",
            (1, 5),
            "expected a single value, found '6.6e-0114:8.7' (two items run together?)",
        ),
        (b"1 1:2 1:3\n", (1, 7), "expected an index above 1 (indices ascend in a row), found '1:3'"),
        (b"1 7:2 3:3\n", (1, 7), "expected an index above 7 (indices ascend in a row), found '3:3'"),
        (b"1 7:0 7:3\n", (1, 7), "expected an index above 7 (indices ascend in a row), found '7:3'"),
        (
            b"1 0:1\n",
            (1, 3),
            "expected an index of 1 or more, found '0:1' (a file that counts from 0 needs zero_based=True)",
        ),
        (b"1 -1:1\n", (1, 3), "expected an index that is not negative, found '-1:1'"),
        (b"1 +1:1\n", (1, 3), "expected a whole number as index, found '+1:1'"),
        (b"1 1.5:1\n", (1, 3), "expected a whole number as index, found '1.5:1'"),
        (b"1 0x1:1\n", (1, 3), "expected index:value, found '0x1:1'"),
        (b"1 2147483648:1\n", (1, 3), "expected an index of at most 2147483647, found '2147483648:1'"),
        (b"1 4294967297:1\n", (1, 3), "expected an index of at most 2147483647, found '4294967297:1'"),
        (
            b"1 9223372036854775808:1\n",
            (1, 3),
            "expected an index of at most 2147483647, found '9223372036854775808:1'",
        ),
        (
            b"1 18446744073709551617:1\n",
            (1, 3),
            "expected an index of at most 2147483647, found '18446744073709551617:1'",
        ),
        (b"1 1:nan\n", (1, 5), "expected a finite number, found 'nan'"),
        (b"1 1:-INFINITY\n", (1, 5), "expected a finite number, found '-INFINITY'"),
        (b"1 1:1e400\n", (1, 5), "expected a finite number, found '1e400'"),
        (b"1 1:0x10\n", (1, 5), "expected a number as value, found '0x10'"),
        (b"1 1:1,5\n", (1, 5), "expected a number with a decimal point, found '1,5'"),
        (b"1 1:1_000\n", (1, 5), "expected a number as value, found '1_000'"),
        (b"1 1:a\n", (1, 5), "expected a number as value, found 'a'"),
        (
            b"1 1:2\x00\n",
            (1, 5),
            "expected a number as value, found '2\\x00' (NUL bytes: a binary file, or UTF-16 text?)",
        ),
        (b"1\x0b1:2\n", (1, 1), "expected a number as label, found '1\\x0b1:2'"),
        (b"1 1:2\x0b\n", (1, 5), "expected a number as value, found '2\\x0b'"),
        (
            b"1 1:2\r2 1:3\r",
            (1, 6),
            "found a carriage return inside the line, expected lines to end with LF or CR LF",
        ),
        (
            b"1 1:2 # old\r2 1:3\n",
            (1, 12),
            "found a carriage return inside the line, expected lines to end with LF or CR LF",
        ),
        (b"1 1:\xc3\xa9\n", (1, 5), "expected a number as value, found 'é'"),
        (b"1 1:\xff\n", (1, 5), "expected a number as value, found '\\xff'"),
        (b"\xc3\xa9 1:1\n", (1, 1), "expected a number as label, found 'é'"),
        (b"1 qid:x 1:1\n", (1, 3), "expected qid:N with a whole number N, found 'qid:x'"),
        (b"1 qid:1.5 1:1\n", (1, 3), "expected qid:N with a whole number N, found 'qid:1.5'"),
        (
            b"1 1:1 qid:3\n",
            (1, 7),
            "expected index:value, found 'qid:3' (qid may stand only in a data file, right after the label)",
        ),
        (b"1 quux\n", (1, 3), "expected index:value, found 'quux'"),
        (b"1 1:" + b"9" * 400 + b"\n", (1, 5), "expected a finite number, found '" + "9" * 40 + "...'"),
        (b"<html>\n", (1, 1), "expected a number as label, found '<html>'"),
        (b"\xef\xbb\xbf1 1:x\n", (1, 5), "expected a number as value, found 'x'"),
        (b"1 1:1\n\xef\xbb\xbf1 1:1\n", (2, 1), "expected a number as label, found '\\ufeff1'"),
    ],
)
def test_refused(text, place, words):
    with pytest.raises(DataFormatError) as caught:
        read_data(io.BytesIO(text))
    assert (caught.value.line, caught.value.column) == place
    assert str(caught.value) == f"<stream>:{place[0]}:{place[1]}: {words}"
    assert reference_outcome(text) == ("refused", *place)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (b"1 6:1\n", {"features": 5}, "expected an index of at most 5 for 5 features, found '6:1'"),
        (b"1 6:0\n", {"features": 5}, "expected an index of at most 5 for 5 features, found '6:0'"),
        (
            b"1 5:1\n",
            {"features": 5, "zero_based": True},
            "expected an index of at most 4 for 5 features, found '5:1'",
        ),
        (b"1 1:1\n", {"features": 0}, "expected no items for 0 features, found '1:1'"),
        (
            b"1 2147483647:1\n",
            {"zero_based": True},
            "expected an index of at most 2147483646, found '2147483647:1'",
        ),
    ],
)
def test_refused_by_option(text, options, words):
    with pytest.raises(DataFormatError, match=r"^<stream>:1:3: ") as caught:
        read_data(io.BytesIO(text), **options)
    assert caught.value.message == words


@pytest.mark.parametrize(
    "text", [b"", b"\n", b" \t\r\n\n", b"# only\n# talk", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"]
)
def test_no_rows(text):
    with pytest.raises(DataFormatError, match=r"^<bytes>: no rows found$"):
        read_data(text)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16(encoding):
    with pytest.raises(DataFormatError, match="UTF-16"):
        read_data("1 1:2\n".encode(encoding))


@pytest.mark.parametrize("features", [-1, 2**31, 1.5, "3"])
def test_bad_features(features):
    with pytest.raises(ParameterError, match="features"):
        read_data(b"1 1:1\n", features=features)


@pytest.mark.parametrize("threads", [0, -1, 10**6])
def test_bad_threads(threads):
    with pytest.raises(ParameterError, match="threads"):
        read_data(b"1 1:1\n", threads=threads)


# --------------------------------------------------------------------------- rows inside another file


def test_parse_rows_knows_its_place():
    with pytest.raises(ModelFormatError) as caught:
        parse_rows(b"1 1:1\n1 x\n", "a.model", first_line=20, error=ModelFormatError)
    assert str(caught.value) == "a.model:21:3: expected index:value, found 'x'"


def test_parse_rows_takes_views_and_no_rows():
    rows, labels = parse_rows(memoryview(b"xx1 1:2\nyy")[2:8], "m", features=3)
    assert rows.to_dense().tolist() == [[2, 0, 0]]
    rows, labels = parse_rows(b"", "m", features=3)
    assert rows.shape == (0, 3)
    assert labels.shape == (0,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"1 1:1\n\n", "expected a row, found an empty line"),
        (b"1 1:1\n \t\r\n", "expected a row, found an empty line"),
        (b"1 1:1\n# x\n", "expected the end of the line, found a comment"),
        (b"1 1:1\n1 1:1 # x\n", "expected the end of the line, found a comment"),
        (
            b"1 1:1\n1 qid:1 1:1\n",
            "expected index:value, found 'qid:1' (qid may stand only in a data file, right after the label)",
        ),
        (b"1 1:1\n\xef\xbb\xbf1 1:1\n", "expected a number as label, found '\\ufeff1'"),
    ],
)
def test_strict_lines(text, words):
    parse_rows(b"1 1:1\r\n", "m", strict_lines=True)
    with pytest.raises(DataFormatError) as caught:
        parse_rows(text, "m", strict_lines=True)
    assert caught.value.line == 2
    assert caught.value.message == words


# --------------------------------------------------------------------------- blocks, threads, fuzz


def random_text(generator, n_lines):
    """Lines as one meets them, some with features that only a careful reader knows."""
    lines = []
    for _ in range(n_lines):
        kind = generator.random()
        if kind < 0.05:
            lines.append(generator.choice(["", "  ", "# 1:2 3:4", "\t"]))
            continue
        label = generator.choice(["1", "-1", "+1", "0", "2.5", "1e3"])
        qid = generator.choice(["", "", "", " qid:7"])
        indices = sorted(generator.sample(range(1, 40), generator.randrange(0, 8)))
        numbers = [
            generator.choice(["1", "0", "0.5", "-.25", "3.", "1e-5", repr(generator.random())])
            for _ in indices
        ]
        items = "".join(
            f"{generator.choice([' ', '  '])}{i}:{v}" for i, v in zip(indices, numbers, strict=True)
        )
        lines.append(label + qid + items + generator.choice(["", "", "", " ", " # note 5:6"]))
    ends = generator.choice(["\n", "\r\n"])
    return (ends.join(lines) + generator.choice(["", ends])).encode()


def mutated(generator, data):
    data = bytearray(data)
    alphabet = b"0123456789+-.eE:: \t\n\r#qidnafx,;_\x00\xff\xef\xbb\xbf"
    for _ in range(generator.randrange(1, 4)):
        at = generator.randrange(len(data) + 1)
        action = generator.random()
        if action < 0.4:
            data[at:at] = bytes([generator.choice(alphabet)])
        elif action < 0.7:
            del data[at : at + generator.randrange(1, 4)]
        elif action < 0.9 and at < len(data):
            data[at] = generator.choice(alphabet)
        else:
            data[at:at] = data[at : at + generator.randrange(12)]
    return bytes(data)


def test_random_files_and_mutations_agree_with_the_reference():
    generator = random.Random(5)
    refused = 0
    for _ in range(6000):
        data = random_text(generator, generator.randrange(1, 8))
        if generator.random() < 0.85:
            data = mutated(generator, data)
        options = generator.choice([{}, {}, {"zero_based": True}, {"features": 30}, {"strict_lines": True}])
        expected = reference_outcome(data, **options)
        refused += expected[0] == "refused"
        assert same(outcome(data, threads=1, **options), expected), (data, options)
    assert 1500 < refused < 5000  # both outcomes are well exercised


def test_noise_agrees_with_the_reference():
    generator = random.Random(6)
    alphabet = "0011223: :.e+-#\n\n\r\t qid"
    for _ in range(15_000):
        data = "".join(generator.choices(alphabet, k=generator.randrange(1, 24))).encode()
        assert same(outcome(data, threads=1), reference_outcome(data)), data


def test_truncation_at_every_byte():
    data = random_text(random.Random(7), 12)
    for length in range(len(data)):
        assert same(outcome(data[:length], threads=1), reference_outcome(data[:length])), data[:length]


def test_results_do_not_depend_on_blocks_and_threads():
    generator = random.Random(8)
    for _ in range(60):
        data = random_text(generator, 40)
        if generator.random() < 0.5:
            data = mutated(generator, data)
        expected = outcome(data, threads=1)
        for block_bytes, chunk_bytes, threads in [
            (1, 1, 1),
            (7, 3, 2),
            (64, 16, 3),
            (10**6, 1, 2),
            (300, 100, 8),
        ]:
            found = outcome(data, block_bytes=block_bytes, chunk_bytes=chunk_bytes, threads=threads)
            assert found == expected


def test_short_reads_do_not_matter():
    class Dripping:
        def __init__(self, data):
            self.data = data

        def readinto(self, buffer):
            count = min(len(buffer), 3, len(self.data))
            buffer[:count], self.data = self.data[:count], self.data[count:]
            return count

    data = random_text(random.Random(9), 30)
    _, _, values, labels, _ = parse_stream(Dripping(data), "drip", block_bytes=50)
    expected = parse_libsvm(data)
    assert labels.tolist() == expected.labels
    assert values.tolist() == [value for row in expected.items for value in row.values()]


def test_first_of_many_faults_is_reported():
    data = b"1 1:1\n" * 1000 + b"1 x\n" + b"1 y\n" * 1000
    for threads in (1, 4):
        with pytest.raises(DataFormatError, match=r"^many:1001:3: .*'x'"):
            parse_stream(io.BytesIO(data), "many", threads=threads, chunk_bytes=64, block_bytes=5000)


def test_one_line_longer_than_any_block():
    n = 700_000
    data = b"1 " + b" ".join(b"%d:1.25" % k for k in range(1, n + 1)) + b"\n-1 1:1\n"
    rows, _ = read_dataset(data)
    assert rows.shape == (2, n)
    assert rows.values.sum() == 1.25 * n + 1
    with pytest.raises(DataFormatError) as caught:
        read_dataset(data[:-8] + b" 5:1\n")
    assert caught.value.column == len(data) - 7 + 1


def test_reading_releases_the_interpreter_lock():
    data = (b"1 " + b" ".join(b"%d:0.12345678901234567" % k for k in range(1, 100)) + b"\n") * 4000

    def parse():
        parse_stream(io.BytesIO(data), "data", threads=1, block_bytes=1 << 25)

    found = turns_during(parse, lambda turns, seconds: turns > 2)
    assert found[0] > 2, found


def test_a_file_object_that_fails_midway():
    class Failing(io.RawIOBase):
        def __init__(self):
            self.calls = 0

        def readable(self):
            return True

        def readinto(self, buffer):
            self.calls += 1
            if self.calls > 3:
                raise OSError(5, "Input/output error")
            buffer[:6] = b"1 1:1\n"
            return 6

    with pytest.raises(OSError, match="Input/output error") as caught:
        read_data(Failing())
    assert caught.value.filename == "<stream>"


def test_interrupt_comes_through():
    class Interrupted(io.BytesIO):
        def readinto(self, buffer):
            if self.tell():
                raise KeyboardInterrupt
            return super().readinto(memoryview(buffer)[:10])

    with pytest.raises(KeyboardInterrupt):
        read_data(Interrupted(b"1 1:1\n" * 100))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["heart_scale", "a9a", "letter", "rcv1_small", "SUSY.30k", "mnist.t"])
def test_real_sets_agree_with_the_reference(name):
    found = list(SHARED.glob(f"{name}.libsvm*"))
    if not found:
        pytest.skip(f"{SHARED}/{name}.libsvm is not here")
    packed = found[0].read_bytes()
    data = lzma.decompress(packed) if found[0].suffix == ".xz" else packed
    assert same(outcome(data), reference_outcome(data))
    X, y = read_data(found[0])
    assert X.shape[0] == len(y) > 0
