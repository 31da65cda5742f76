"""Scaling against a plain computation, on ordinary and on awkward data, and its file."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odmlib.data.dataset import Dataset
from odmlib.data.scaling import ColumnRanges, Scaling
from odmlib.errors import ParameterError, RangeFormatError


def image(value, low, high, lower, upper):
    """svm-scale's arithmetic on one number."""
    if low == high:
        return 0.0
    if value == low:
        return lower
    if value == high:
        return upper
    return lower + (upper - lower) * (value - low) / (high - low)


def scaled_plainly(dense, lower, upper, ranges=None):
    lows, highs = (dense.min(axis=0), dense.max(axis=0)) if ranges is None else ranges
    rows = [[image(v, lows[j], highs[j], lower, upper) for j, v in enumerate(row)] for row in dense.tolist()]
    return np.array(rows).reshape(dense.shape)


small_numbers = st.one_of(st.just(0.0), st.integers(-3, 3).map(float), st.floats(-1e6, 1e6))
matrices = st.integers(1, 6).flatmap(
    lambda width: st.lists(st.lists(small_numbers, min_size=width, max_size=width), min_size=1, max_size=8)
)
intervals = st.sampled_from([(-1.0, 1.0), (0.0, 1.0), (-1.0, 0.0), (0.5, 0.7), (-1e-3, 5.0)])


@given(matrices, intervals)
def test_fit_and_apply_equal_the_plain_computation(rows, interval):
    dense = np.array(rows)
    dataset = Dataset.from_any(dense)
    scaling = Scaling.fit(dataset, *interval)
    scaled = scaling.apply(dataset)
    np.testing.assert_array_equal(scaled.to_dense(), scaled_plainly(dense, *interval))
    check_form(scaled)


@given(matrices, matrices, intervals)
def test_other_data_are_scaled_by_the_same_map(rows, others, interval):
    width = max(len(rows[0]), len(others[0]))
    dense = np.zeros((len(rows), width))
    dense[:, : len(rows[0])] = rows
    other = np.zeros((len(others), width))
    other[:, : len(others[0])] = others
    scaling = Scaling.fit(Dataset.from_any(dense), *interval)
    known = (dense.min(axis=0), dense.max(axis=0))
    expected = scaled_plainly(other, *interval, known)
    if not np.isfinite(expected).all():  # a range so small that other values overflow
        with pytest.raises(ParameterError, match="too far outside the known range"):
            scaling.apply(Dataset.from_any(other))
        return
    scaled = scaling.apply(Dataset.from_any(other))
    np.testing.assert_array_equal(scaled.to_dense(), expected)
    check_form(scaled)


@given(matrices, intervals, st.integers(1, 20))
def test_blocks_are_the_whole(rows, interval, block_entries):
    dataset = Dataset.from_any(np.array(rows))
    scaling = Scaling.fit(dataset, *interval)
    blocks = list(scaling.blocks(dataset, block_entries))
    for block in blocks:
        check_form(block)
    joined = np.vstack([block.to_dense() for block in blocks])
    np.testing.assert_array_equal(joined, scaling.apply(dataset).to_dense())


def check_form(dataset):
    """The promises of Dataset, and no stored zeros."""
    assert dataset.indptr[0] == 0 and dataset.indptr[-1] == len(dataset.indices) == len(dataset.values)
    for start, end in zip(dataset.indptr[:-1], dataset.indptr[1:], strict=True):
        assert (np.diff(dataset.indices[start:end]) > 0).all()
    assert np.isfinite(dataset.values).all()
    assert (dataset.values != 0).all()


def test_stored_zeros_count_as_zeros():
    indptr, indices = np.array([0, 2, 4]), np.array([0, 1, 0, 1], dtype=np.int32)
    dataset = Dataset(indptr, indices, np.array([0.0, 2.0, -0.0, 4.0]), 2)
    scaling = Scaling.fit(dataset)
    assert scaling.columns.tolist() == [1]
    np.testing.assert_array_equal(scaling.apply(dataset).to_dense(), [[0, -1], [0, 1]])
    assert Scaling.fit(dataset, 0, 1).remark_unknown(ColumnRanges.of(dataset)) == []


def test_range_never_starts_at_minus_zero():
    dataset = Dataset(np.array([0, 1, 2]), np.zeros(2, dtype=np.int32), np.array([-0.0, 1.0]), 1)
    assert not np.signbit(Scaling.fit(dataset).minimum[0])


def test_values_beyond_the_known_range_go_on_along_the_line():
    scaling = Scaling.fit(Dataset.from_any([[0.0], [10.0]]), 0, 1)
    assert scaling.apply(Dataset.from_any([[20.0], [-5.0]])).values.tolist() == [2.0, -0.5]


def test_width_covers_data_and_range():
    scaling = Scaling.fit(Dataset.from_any([[0.0, 1.0, 2.0], [1.0, 2.0, 5.0]]))
    assert scaling.apply(Dataset.from_any([[1.0]])).n_features == 3
    assert scaling.apply(Dataset.from_any([[1.0, 1.0, 1.0, 1.0]])).n_features == 4


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 60)), intervals)
def test_known_columns_are_found_among_any_others(known, used, interval):
    columns = np.array(sorted(known), dtype=np.int32)
    scaling = Scaling(columns, np.zeros(len(columns)), np.full(len(columns), 2.0), *interval)
    row = np.zeros((1, 61))
    row[0, sorted(used)] = 1.5
    expected = np.zeros((1, 61))
    expected[0, columns] = [image(row[0, j], 0.0, 2.0, *interval) for j in columns]
    np.testing.assert_array_equal(scaling.apply(Dataset.from_any(row)).to_dense(), expected)


def test_labels():
    rows = Dataset.from_any([[1.0], [2.0], [3.0]])
    scaling = Scaling.fit(rows, labels=np.array([-1.0, 1.5, 3.0]), target=(0, 1))
    assert scaling.apply_labels(np.array([-1.0, 1.5, 3.0, 7.0])).tolist() == [0.0, 0.625, 1.0, 2.0]
    labels = np.array([1.0, 2.0, 2.0])
    assert Scaling.fit(rows).apply_labels(labels) is labels


def test_constant_labels():
    rows = Dataset.from_any([[1.0], [2.0]])
    scaling = Scaling.fit(rows, labels=np.array([1.5, 1.5]), target=(0, 1))
    assert scaling.apply_labels(np.array([1.5])).tolist() == [0.0]  # as svm-scale
    with pytest.raises(ParameterError, match=r"label 2 cannot be scaled by the range \[1.5, 1.5\]"):
        scaling.apply_labels(np.array([1.5, 2.0]))


@pytest.mark.parametrize("ends", [(1, 1), (1, 0), (0, np.inf), (np.nan, 1), (-1.7e308, 1.7e308)])
def test_bad_intervals(ends):
    rows = Dataset.from_any([[1.0], [2.0]])
    with pytest.raises(ParameterError):
        Scaling.fit(rows, *ends)
    with pytest.raises(ParameterError):
        Scaling.fit(rows, labels=np.array([1.0, 2.0]), target=ends)


def test_labels_are_needed_to_scale_them():
    with pytest.raises(ParameterError, match="at least one label"):
        Scaling.fit(Dataset.from_any([[1.0]]), target=(0, 1))


def test_numbers_that_leave_the_arithmetic_are_refused():
    with pytest.raises(ParameterError, match="feature 2 has a range too wide"):
        Scaling.fit(Dataset.from_any([[1.0, 1.5e308], [2.0, -1.5e308]]))
    scaling = Scaling.fit(Dataset.from_any([[0.0, 0.0], [1.0, 1e-300]]))
    with pytest.raises(ParameterError, match=r"row 2, feature 2: the value 1e\+200 is too far"):
        scaling.apply(Dataset.from_any([[1.0, 0.0], [1.0, 1e200]]))


def test_a_huge_index_costs_nothing():
    indices = np.array([5, 2**31 - 2, 5], dtype=np.int32)
    dataset = Dataset(np.array([0, 2, 3]), indices, np.array([1.0, 3.0, 2.0]), 2**31 - 1)
    scaling = Scaling.fit(dataset, 0, 1)
    scaled = scaling.apply(dataset)
    assert scaled.indices.tolist() == [2**31 - 2, 5]
    assert scaled.values.tolist() == [1.0, 1.0]
    dense = Scaling.fit(dataset).apply(dataset)
    assert dense.indices.tolist() == [5, 2**31 - 2] * 2
    assert dense.values.tolist() == [-1.0, 1.0, 1.0, -1.0]


def test_wide_and_narrow_ways_agree():
    dense = np.random.default_rng(0).integers(-2, 3, size=(20, 30)).astype(float)
    dataset = Dataset.from_any(dense)
    narrow = ColumnRanges.of(dataset)
    spread = Dataset(dataset.indptr, dataset.indices, dataset.values, 10**6)
    wide = ColumnRanges.of(spread, table_width=0, gather_entries=7)
    for name in ("columns", "counts", "minimum", "maximum"):
        np.testing.assert_array_equal(getattr(narrow, name), getattr(wide, name))
    np.testing.assert_array_equal(wide.minimum, dense.min(axis=0))
    np.testing.assert_array_equal(wide.maximum, dense.max(axis=0))


def test_an_absurd_result_is_refused():
    n = 50_000  # the unit matrix: 2.5e9 entries with the default interval, 5e4 with -l 0
    unit = Dataset(np.arange(n + 1), np.arange(n, dtype=np.int32), np.ones(n), n)
    for method in (Scaling.apply, lambda scaling, data: scaling.check_size(ColumnRanges.of(data))):
        with pytest.raises(ParameterError, match=r"2,499,950,000 zeros .* -l 0 keep zeros"):
            method(Scaling.fit(unit), unit)
    assert Scaling.fit(unit, 0, 1).apply(unit).n_nonzeros == n


def test_remarks():
    def ranges(rows):
        return ColumnRanges.of(Dataset.from_any(rows))

    sparse = Dataset.from_any(np.eye(5))
    (growth,) = Scaling.fit(sparse).remark_growth(ColumnRanges.of(sparse))
    assert growth.startswith("scaling turns 20 zeros into other numbers (the data hold 5 values); ")
    assert growth.endswith("-l 0 keep zeros")
    assert Scaling.fit(sparse, 0, 1).remark_growth(ColumnRanges.of(sparse)) == []
    dense = Dataset.from_any([[1.0, 0.0, 2.0], [2.0, 3.0, 4.0]])
    assert Scaling.fit(dense).remark_growth(ColumnRanges.of(dense)) == []

    scaling = Scaling.fit(Dataset.from_any([[1.0, 7.0], [2.0, 7.0]]))
    assert scaling.remark_unknown(ranges([[3.0]])) == []
    (one,) = scaling.remark_unknown(ranges([[3.0, 7.0]]))
    assert one.endswith(": feature 2")
    (many,) = scaling.remark_unknown(ranges([[3.0, 7.0, 0.0, 1.0]]), zero_based=True)
    assert many.endswith(": 2 features, the first is 1")
    assert scaling.remark_unknown(ranges([[3.0, 7.0], [1.0, 7.0]])) == []
    (varying,) = scaling.remark_unknown(ranges([[3.0, 7.0], [1.0, 8.0]]))
    assert varying.endswith(": feature 2")


# ------------------------------------------------------------------------------------- the range file


def written(scaling, **options):
    stream = io.BytesIO()
    scaling.write(stream, **options)
    return stream.getvalue()


def test_file_is_that_of_svm_scale():
    rows = Dataset.from_any([[1.0, 5.0, 0.1, 0.0], [2.0, 5.0, 0.0, 0.0], [0.3, 5.0, -7.0, 1e-5]])
    scaling = Scaling.fit(rows, labels=np.array([1.5, -1.0, 3.0]), target=(0, 1))
    assert written(scaling) == b"y\n0 1\n-1 3\nx\n-1 1\n1 0.3 2\n3 -7 0.1\n4 0 1e-05\n"
    assert written(Scaling.fit(rows, 0, 0.5)) == b"x\n0 0.5\n1 0.3 2\n3 -7 0.1\n4 0 1e-05\n"
    assert written(Scaling.fit(rows), zero_based=True).endswith(b"x\n-1 1\n0 0.3 2\n2 -7 0.1\n3 0 1e-05\n")


@given(st.lists(st.tuples(st.integers(0, 2**31 - 2), st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)),
                unique_by=lambda item: item[0]), st.booleans())  # fmt: skip
def test_file_reads_back_exactly(features, zero_based):
    features = sorted((j, min(a, b), max(a, b)) for j, a, b in features if a != b)
    columns = np.array([j for j, _, _ in features], dtype=np.int32)
    minimum = np.array([low for _, low, _ in features]) + 0.0
    maximum = np.array([high for _, _, high in features]) + 0.0
    scaling = Scaling(columns, minimum, maximum, -0.1, 0.7)
    again = Scaling.read(written(scaling, zero_based=zero_based), zero_based)
    np.testing.assert_array_equal(again.columns, columns)
    assert again.minimum.tobytes() == minimum.tobytes()
    assert again.maximum.tobytes() == maximum.tobytes()
    assert (again.lower, again.upper, again.target) == (-0.1, 0.7, None)


@pytest.mark.parametrize(
    "content",
    [
        b"x\n-1 1\n1 0 5\n3 0 1\n",
        b"x\n-1 1\n1 0 5\n3 0 1",
        b"x\r\n-1 1\r\n1 0 5\r\n3 0 1\r\n",
        b"x\n-1 +1.0\n1 -0 5.\n3  .0\t1e0 \n\n\n",
        b"y\n0 1\n2 2\nx\n-1 1\n1 0 5\n3 0 1\n",
    ],
)
def test_accepted_files(content):
    scaling = Scaling.read(content)
    assert (scaling.lower, scaling.upper) == (-1, 1)
    assert scaling.columns.tolist() == [0, 2]
    assert scaling.maximum.tolist() == [5, 1]
    assert (scaling.target is not None) == content.startswith(b"y")


def test_constant_features_of_a_file_are_known_and_dropped():
    scaling = Scaling.read(b"x\n-1 1\n1 0 5\n2 3 3\n")
    rows = Dataset.from_any([[5.0, 3.0], [0.0, 4.0]])
    np.testing.assert_array_equal(scaling.apply(rows).to_dense(), [[1, 0], [-1, 0]])
    assert scaling.remark_unknown(ColumnRanges.of(rows)) == []
    assert written(scaling) == b"x\n-1 1\n1 0 5\n"


def test_file_of_no_features():
    scaling = Scaling.read(b"x\n-1 1\n")
    assert scaling.apply(Dataset.from_any([[5.0, 3.0]])).n_nonzeros == 0
    assert written(scaling) == b"x\n-1 1\n"


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        # PLSSVM's nine
        (b"x\n1 -1\n1 0 1\n", "2:1", "not ascending"),
        (b"x\n-1 1\n1 a 1\n", "3:3", "expected a finite number, found 'a'"),
        (b"-1 1\n1 0 1\n", "1:1", "expected 'y' or 'x', found '-1 1'"),
        (b"x\n1 0 1\n", "2:5", "the lower and upper end of the interval for x and no more, found '1'"),
        (b"x\n", "2", "the interval for x, found the end of the file"),
        (b"x\n-1\n1 0 1\n", "2:3", "expected the lower and upper end of the interval for x, found '-1'"),
        (b"x\n-1 1\n1 0\n", "3:4", "expected index, minimum and maximum, found '1 0'"),
        (b"x\n-1 1\n1 0 1 2\n", "3:7", "expected index, minimum and maximum and no more, found '2'"),
        (b"x\n-1 1\n0 0 1\n", "3:1", "expected an index of 1 or more, found '0'"),
        # ours
        (b"", "1", "expected 'y' or 'x', found the end of the file"),
        (b"\n\n", "1", "expected 'y' or 'x', found the end of the file"),
        (b"\nx\n-1 1\n", "1", "expected 'y' or 'x', found an empty line"),
        (b"x\n-1 1\n1 2 1\n", "3:3", "the minimum of feature 1 is above its maximum"),
        (b"x\n-1 1\n1 0 1\n1 0 1\n", "4:1", "feature 1 comes twice"),
        (b"x\n-1 1\n2 0 1\n1 0 1\n", "4:1", "expected an index above 2 (indices ascend), found 1"),
        (b"x\n-1 1\n1 nan 1\n", "3:3", "expected a finite number, found 'nan'"),
        (b"x\n-1 1\n1 0 inf\n", "3:5", "expected a finite number, found 'inf'"),
        (b"x\n-1 1\n1 0 1e999\n", "3:5", "expected a finite number, found '1e999'"),
        (b"x\n-1 1\n1 0 0x10\n", "3:5", "expected a finite number, found '0x10'"),
        (b"x\n-1 1\n1 0 1_0\n", "3:5", "expected a finite number, found '1_0'"),
        (b"x\n-1 1\n1 0 1,5\n", "3:5", "expected a finite number, found '1,5'"),
        (b"x\n-1 1\n1 0 \xd9\xa1\n", "3:5", "expected a finite number, found"),
        (b"x\n-1 1\n-3 0 1\n", "3:1", "expected a feature's index, found '-3'"),
        (b"x\n-1 1\n1.5 0 1\n", "3:1", "expected a feature's index, found '1.5'"),
        (b"x\n-1 1\n2147483648 0 1\n", "3:1", "expected an index of at most 2147483647"),
        (b"x\n-1 1\n" + b"9" * 5000, "3", "the line is longer than 4096 bytes: this is no range file"),
        (b"x\n-1 1\n" + b"9" * 500 + b" 0 1\n", "3:1", "expected an index of at most 2147483647"),
        (b"x\n-1 1\n1 -1e308 1e308\n", "3:3", "the range of feature 1 is too wide"),
        (b"x\n-1e308 1e308\n", "2:1", "the ends of the interval are too far apart"),
        (b"x\n1 1\n", "2:1", "not ascending"),
        (b"x\n-1 1\n1 0 1\n\n2 0 1\n", "4", "expected index, minimum and maximum, found an empty line"),
        (b"x\n-1 1\n1 0 1\njunk\n", "4:5", "expected index, minimum and maximum, found 'junk'"),
        (b"x\n-1 1\n1 0 1\nx\n-1 1\n", "4:2", "expected index, minimum and maximum, found 'x'"),
        (b"y\n0 1\n2 3\n", "4", "expected 'x', found the end of the file"),
        (b"y\n0 1\n2 3\ny\n", "4:1", "expected 'x', found 'y'"),
        (b"y\n0 1\nx\n-1 1\n", "3:2", "expected the minimum and maximum of y, found 'x'"),
        (b"y\n1 0\n2 3\nx\n-1 1\n", "2:1", "not ascending"),
        (b"y\n0 1\n3 2\nx\n-1 1\n", "3:1", "the minimum of y is above its maximum"),
        (b"z\n0 1\n", "1:1", "expected 'y' or 'x', found 'z'"),
        (b"+1 1:3 2:4\n", "1:1", "expected 'y' or 'x', found '+1 1:3 2:4'"),
        (b"x\0\n-1 1\n", "1:1", r"expected 'y' or 'x', found 'x\x00'"),
    ],
)
def test_faults_of_a_file(content, place, message, tmp_path):
    path = tmp_path / "a.range"
    path.write_bytes(content)
    with pytest.raises(RangeFormatError) as caught:
        Scaling.read(path)
    assert str(caught.value).startswith(f"{path}:{place}: ")
    assert message in str(caught.value)


def test_index_zero_is_fine_where_asked_for():
    assert Scaling.read(b"x\n-1 1\n0 0 1\n", zero_based=True).columns.tolist() == [0]


def test_a_file_cut_anywhere_is_read_or_refused():
    content = b"y\n0 1\n-1.5 3\nx\n-1 1\n1 0.25 2\n3 -7 0.125\n"
    for length in range(len(content)):
        try:
            Scaling.read(content[:length])
        except RangeFormatError as error:
            assert "\n" not in str(error)


@given(st.binary(max_size=60))
def test_junk_is_refused_in_one_line(junk):
    try:
        Scaling.read(b"x\n-1 1\n1 " + junk)
    except (RangeFormatError, ParameterError) as error:
        assert str(error).isprintable()


@pytest.mark.parametrize("seed", range(5))
def test_ranges_of_parts_are_those_of_the_whole(seed):
    generator = np.random.default_rng(seed)
    dense = generator.normal(size=(30, 12)) * (generator.random((30, 12)) < 0.4)
    dense[:, 3] = generator.random(30) + 1  # present everywhere
    dense[10:, 4] = 0  # absent from whole parts
    whole = ColumnRanges.of(Dataset.from_any(dense))
    joined = ColumnRanges.of(Dataset.from_any(dense[:1]))
    for first, last in ((1, 10), (10, 11), (11, 30)):
        joined = joined.joined(ColumnRanges.of(Dataset.from_any(dense[first:last])))
    known = np.isin(whole.columns, joined.columns)
    assert (whole.counts[~known] == 0).all()
    for name in ("columns", "counts", "minimum", "maximum"):
        np.testing.assert_array_equal(getattr(whole, name)[known], getattr(joined, name))
    assert (joined.n_rows, joined.n_values) == (30, int(np.count_nonzero(dense)))
