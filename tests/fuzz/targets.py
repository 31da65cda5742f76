"""What is fuzzed: a function of bytes for each kind of file that odmlib reads.

Each raises on a finding: an error that is no OdmError, a result that depends on chunks or threads, or one
that differs from an oracle. It returns how often it compared with a program that we did not write or with
what was written, so that a test can tell that the comparisons took place. `make fuzz` drives these functions;
the ordinary suite replays the corpus.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import struct
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from odmlib.cli.training import read_weights
from odmlib.data._reader import parse_number
from odmlib.data._writer import format_number
from odmlib.data.checking import check_data
from odmlib.data.dataset import Dataset
from odmlib.data.files import is_packed
from odmlib.data.labels import are_distinct
from odmlib.data.reading import parse_stream, read_data, read_dataset
from odmlib.data.scaling import Scaling
from odmlib.data.writing import write_data
from odmlib.errors import DataFormatError, OdmError
from odmlib.model.foreign.files import FORMS, load_foreign_model, save_foreign_model
from odmlib.model.model import Model
from odmlib.model.text_format import load_model
from odmlib.selection.grid_file import point_line, read_points
from tests.reference import Refused, parse_libsvm

MOST_FEATURES = 1000  # of rows that are made to be predicted
UNPACKED = 1 << 20

# threads, bytes of a block, bytes of a chunk
CUTS = ((1, None, 1 << 18), (1, 1, 1), (2, 7, 3), (3, 64, 5), (8, 1 << 12, 16))


def reader(data: bytes) -> int:
    """Data files: every cut into blocks and threads, a slow reader, odm-check and scikit-learn agree."""
    with contextlib.suppress(OdmError):
        read_data(data, max_unpacked=UNPACKED)
    if is_packed(data):
        return 0
    compared = 0
    for zero_based in (False, True):
        found = _parsed(data, zero_based, *CUTS[0])
        for cut in CUTS[1:]:
            assert _parsed(data, zero_based, *cut) == found, cut
        expected = _by_reference(data, zero_based)
        assert (found[:3] if found[0] == "refused" else found) == expected
        assert _is_good(data, zero_based) == (found[0] == "rows")
        if found[0] == "rows":
            compared += _same_in_scikit_learn(data, zero_based)
            _written_and_read(data, zero_based)
    return compared


def _parsed(data: bytes, zero_based: bool, threads: int, block_bytes: int | None, chunk_bytes: int) -> Any:
    try:
        indptr, indices, values, labels, width = parse_stream(
            io.BytesIO(data),
            "data",
            zero_based=zero_based,
            threads=threads,
            block_bytes=block_bytes,
            chunk_bytes=chunk_bytes,
        )
    except DataFormatError as error:
        return "refused", error.line, error.column, str(error)
    return "rows", width, labels.tobytes(), indptr.tolist(), indices.tolist(), values.tobytes()


def _is_good(data: bytes, zero_based: bool) -> bool:
    """What odm-check says."""
    try:
        return check_data(data, zero_based=zero_based).good
    except DataFormatError:  # UTF-16
        return False


def _by_reference(data: bytes, zero_based: bool) -> Any:
    try:
        rows = parse_libsvm(data, zero_based=zero_based)
    except Refused as refusal:
        return "refused", refusal.line, refusal.column
    indptr = np.cumsum([0] + [len(row) for row in rows.items]).tolist()
    indices = [column for row in rows.items for column in row]
    values = np.array([value for row in rows.items for value in row.values()], dtype=np.float64)
    return "rows", rows.n_features, np.array(rows.labels).tobytes(), indptr, indices, values.tobytes()


def _same_in_scikit_learn(data: bytes, zero_based: bool) -> int:
    """1 where its loader accepts the file, too."""
    try:
        X, y = load_svmlight_file(io.BytesIO(data), zero_based=zero_based)
    except (ValueError, IndexError, OverflowError):
        return 0
    X.eliminate_zeros()
    ours, labels = read_data(data, zero_based=zero_based)
    assert labels.tobytes() == (y + 0.0).tobytes()  # -0 is 0
    assert ours.data.tobytes() == X.data.tobytes()
    assert ours.indices.tolist() == X.indices.tolist()
    assert ours.indptr.tolist() == X.indptr.tolist()
    return 1


def _written_and_read(data: bytes, zero_based: bool) -> None:
    X, y = read_data(data, zero_based=zero_based)
    target = io.BytesIO()
    write_data(target, X, y, zero_based=zero_based)
    again, labels = read_data(target.getvalue(), features=X.shape[1] or None, zero_based=zero_based)
    assert labels.tobytes() == y.tobytes()
    assert again.data.tobytes() == X.data.tobytes()
    assert again.indices.tolist() == X.indices.tolist()


def numbers(data: bytes) -> int:
    """The words of a text: numbers to Python's float() and to us, by our own way and by the C library's."""
    compared = 0
    for word in data.split()[:50]:
        found = parse_number(word)
        try:
            expected = float(word) if word.isascii() and b"_" not in word else math.nan
        except ValueError:
            expected = math.nan
        named = re.search(rb"[a-df-zA-DF-Z]", word)  # nan, inf, infinity
        assert (found is None) == (math.isnan(expected) or named is not None), word
        if found is None:
            continue
        compared += 1
        assert _bits(found) == _bits(expected), word
        assert _bits(parse_number(word, True)) == _bits(expected), word
        if math.isfinite(found):
            for by_c_library in (False, True):
                text = format_number(found, by_c_library)
                assert _bits(float(text)) == _bits(found), word
                assert _bits(parse_number(text.encode())) == _bits(found), word
    return compared


def _bits(number: float) -> bytes:
    return struct.pack("<d", number)


def model(data: bytes) -> int:
    """Our model files: what loads is written to the same bytes from then on, and predicts."""
    try:
        found = load_model(data, max_unpacked=UNPACKED)
    except OdmError:
        return 0
    return _sound(found)


def foreign_model(data: bytes) -> int:
    """Model files of LIBSVM and LIBLINEAR; what can be written in their form reads back to equal scores."""
    try:
        found = load_foreign_model(data, max_unpacked=UNPACKED)
    except OdmError:
        return 0
    compared = _sound(found)
    for form in FORMS:
        if form == "liblinear" and found.n_features > MOST_FEATURES:
            continue  # its files have a line for every feature
        target = io.BytesIO()
        try:
            save_foreign_model(found, target, form)
        except OdmError:
            continue
        again = load_foreign_model(target.getvalue(), features=found.n_features)
        assert sorted(again.labels.tolist()) == sorted(found.labels.tolist())
        compared += 1
    return compared


def _sound(found: Model) -> int:
    """1 where a loaded model keeps its promises."""
    assert are_distinct(found.labels)
    text = found.to_bytes()
    again = load_model(text)
    assert again.to_bytes() == text
    if found.n_features <= MOST_FEATURES and found.n_outputs <= MOST_FEATURES:
        rows = _some_rows(found.n_features)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            one, two = (_scores(each, rows, threads) for each, threads in ((found, 1), (again, 3)))
        assert one == two
    return 1


def _some_rows(n_features: int) -> Dataset:
    dense = np.zeros((3, n_features))
    dense[1] = 1.0
    dense[2] = np.linspace(-2.0, 3.0, n_features) if n_features else 0.0
    return Dataset.from_any(dense)


def _scores(found: Model, rows: Dataset, threads: int) -> Any:
    try:
        scores = found.decision_function(rows, threads=threads)
    except OdmError as error:
        return str(error)
    assert np.isfinite(scores).all()
    assert np.isin(found.predict(rows, threads=threads), found.labels).all()
    return scores.tobytes()


def ranges(data: bytes) -> int:
    """Range files of svm-scale and odm-scale: what is read is written to the same map, and scales."""
    compared = 0
    for zero_based in (False, True):
        try:
            found = Scaling.read(data, zero_based)
        except OdmError:
            continue
        target = io.BytesIO()
        found.write(target, zero_based)
        again = Scaling.read(target.getvalue(), zero_based)
        varying = found.minimum < found.maximum
        assert again.columns.tolist() == found.columns[varying].tolist()
        assert again.minimum.tobytes() == found.minimum[varying].tobytes()
        assert again.maximum.tobytes() == found.maximum[varying].tobytes()
        assert (again.lower, again.upper, again.target) == (found.lower, found.upper, found.target)
        compared += 1
        with contextlib.suppress(OdmError):
            assert np.isfinite(found.apply(_some_rows(5)).values).all()
            assert np.isfinite(found.apply_labels(np.array([-1.0, 0.0, 2.0]))).all()
    return compared


def weights(data: bytes) -> int:
    """Row weights: one number per line, as Python's float() reads it."""
    if is_packed(data):
        return 0
    with _as_file(data) as path:
        try:
            n_rows = read_dataset(path)[0].n_rows
        except OdmError:
            n_rows = data.count(b"\n")
        try:
            found = read_weights(path, n_rows)
        except OdmError as error:
            assert "\n" not in str(error)
            return 0
    assert len(found) == n_rows
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    lines = [line.split(b"#")[0].split() for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    expected = [float(words[0]) for words in lines if words]
    assert found.tolist() == expected
    return 1


def grid(data: bytes) -> int:
    """Result files of a search: points come back from what is written of them."""
    with _as_file(data) as path:
        try:
            _, points = read_points(path)
        except OdmError as error:
            assert "\n" not in str(error)
            return 0
    for point in points:
        assert all(math.isfinite(value) for value in point.parameters.values()), point
        assert 0 <= point.rate <= 100
    with _as_file("".join(map(point_line, points)).encode()) as path:
        again = read_points(path)[1]
    assert [set(point.parameters) for point in again] == [set(point.parameters) for point in points]
    return len(points)


@contextlib.contextmanager
def _as_file(data: bytes) -> Any:
    """For readers that open a name."""
    descriptor, path = tempfile.mkstemp()
    try:
        os.write(descriptor, data)
        os.close(descriptor)
        yield path
    finally:
        os.unlink(path)


TARGETS: dict[str, Callable[[bytes], int]] = {
    "reader": reader,
    "numbers": numbers,
    "model": model,
    "foreign_model": foreign_model,
    "ranges": ranges,
    "weights": weights,
    "grid": grid,
}
