"""The binary model file: the same model as the text, read without trust, recognised by what it holds."""

from __future__ import annotations

import gzip
import io
import random
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

import odmlib
from odmlib.data.dataset import Dataset
from odmlib.errors import ModelFormatError, OdmError
from odmlib.model.functions import RoutedFunction
from odmlib.model.text_format import load_model
from odmlib.model.text_writer import model_binary

from .examples import KINDS, SEVERAL, make_model


def binary(model) -> bytes:
    return b"".join(model_binary(model))


def arrays_of(data: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def packed(arrays: dict[str, np.ndarray], compressed: bool = False) -> bytes:
    out = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(out, **arrays)
    return out.getvalue()


def changed(model, **changes) -> bytes:
    """A file as numpy writes it, with other arrays; None leaves one out."""
    arrays = arrays_of(binary(model)) | changes
    return packed({name: array for name, array in arrays.items() if array is not None})


def routed():
    one = make_model("rbf").function
    return make_model("rbf", function=RoutedFunction(one.formula, one.vectors, np.ones((3, 4)), np.ones(4)))


@pytest.mark.parametrize("kind", [*KINDS, *SEVERAL, "routed"])
def test_text_to_binary_to_text_gives_the_same_bytes(kind):
    model = routed() if kind == "routed" else make_model(kind)
    text = model.to_bytes()
    data = binary(load_model(text))
    assert load_model(data).to_bytes() == text
    assert binary(load_model(data)) == data


@pytest.mark.parametrize("labels", [np.array(["a b", 'c"d']), np.array([2**62, 3]), np.array([True, False])])
def test_labels_and_extras(labels):
    extras = {"probability_slopes": (1.5,), "probability_offsets": (-0.1,)}
    model = make_model("rbf", labels=labels, extras=extras, zero_based=True)
    again = load_model(binary(model))
    assert again.to_bytes() == model.to_bytes()
    assert again.labels.tolist() == labels.tolist() and again.extras == extras and again.zero_based


def test_a_path_that_ends_in_npz_is_binary(tmp_path):
    model = make_model("poly ovo")
    model.save(tmp_path / "m.npz")
    model.save(str(tmp_path / "m.model"))
    assert (tmp_path / "m.npz").read_bytes() == binary(model)
    assert (tmp_path / "m.model").read_bytes() == model.to_bytes()
    X = np.random.default_rng(0).normal(size=(20, 6))
    for name in ("m.npz", "m.model"):
        again = odmlib.load_model(tmp_path / name)
        assert np.array_equal(again.decision_function(X), model.decision_function(X))


def test_sources_of_all_kinds(tmp_path):
    """Bytes, open files, a pipe's worth of small pieces, packed by gzip; names do not matter."""
    data = binary(make_model("rbf joint"))
    (tmp_path / "m.txt").write_bytes(data)
    expected = load_model(data).to_bytes()

    class Slow:
        place = 0

        def read(self, size=-1):
            piece = data[self.place : self.place + 7]
            self.place += len(piece)
            return piece

    with open(tmp_path / "m.txt", "rb") as stream:
        assert load_model(stream).to_bytes() == expected
    for source in (tmp_path / "m.txt", Slow(), gzip.compress(data), io.BytesIO(data), memoryview(data)):
        assert load_model(source).to_bytes() == expected


def test_numpy_reads_the_file_and_we_read_numpys():
    data = binary(make_model("rbf"))
    arrays = arrays_of(data)
    assert arrays["SV_values"].dtype == np.float64 and bytes(arrays["header"]).startswith(b"odmlib model 1\n")
    expected = load_model(data).to_bytes()
    assert load_model(packed(arrays)).to_bytes() == expected
    assert load_model(packed(arrays, compressed=True)).to_bytes() == expected


def test_numbers_stand_where_they_can_be_used(tmp_path):
    data = binary(make_model("rbf joint"))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            lengths = struct.unpack("<HH", data[member.header_offset + 26 : member.header_offset + 30])
            assert (member.header_offset + 30 + sum(lengths)) % 64 == 0
            assert member.compress_type == zipfile.ZIP_STORED


ONE = make_model("rbf")
FAULTS = {
    "no header": ({"header": None}, "not an odmlib model"),
    "another header": ({"header": np.frombuffer(b"PK", np.uint8)}, "not an odmlib model"),
    "a newer format": ({"header": np.frombuffer(b"odmlib model 7\n", np.uint8)}, "made by a newer odmlib"),
    "a missing array": ({"SV_values": None}, "the array 'SV_values' is missing"),
    "an unknown array": ({"evil": np.zeros(3)}, "unknown array 'evil'"),
    "NaN": ({"SV_values": np.full(4, np.nan)}, "NaN or infinity"),
    "infinite coefficients": ({"SV_leading": np.full(3, np.inf)}, "finite numbers"),
    "whole numbers as values": ({"SV_values": np.zeros(4, np.int64)}, "type float64"),
    "columns outside": ({"SV_columns": np.array([0, 5, 1, 6], np.int32)}, "index arrays that do not fit"),
    "columns below 0": ({"SV_columns": np.array([-1, 5, 1, 3], np.int32)}, "index arrays that do not fit"),
    "columns that fall": ({"SV_columns": np.array([5, 0, 1, 3], np.int32)}, "ascend"),
    "starts that fall": ({"SV_starts": np.array([0, 4, 2, 4])}, "index arrays that do not fit"),
    "starts beyond": ({"SV_starts": np.array([0, 2, 2, 2**62])}, "index arrays that do not fit"),
    "no starts": ({"SV_starts": np.zeros(0, np.int64)}, "index arrays that do not fit"),
    "too few coefficients": ({"SV_leading": np.zeros(2)}, "SV_leading holds 2 numbers for 3 rows"),
    "fewer vectors": (
        {"SV_starts": np.array([0, 4]), "SV_leading": np.zeros(1)},
        "columns|ascend|the header says 3 support_vectors",
    ),
    "two dimensions": ({"SV_values": np.zeros((2, 2))}, "one dimension"),
    "another type": ({"SV_values": np.zeros(4, np.float32)}, "one dimension and type"),
    "big-endian": ({"SV_values": np.zeros(4, ">f8")}, "one dimension and type"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_told(fault):
    changes, message = FAULTS[fault]
    with pytest.raises(ModelFormatError, match=message) as caught:
        load_model(changed(ONE, **changes))
    assert "\n" not in str(caught.value)


def test_pickles_are_not_read():
    out = io.BytesIO()
    np.savez(out, header=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ModelFormatError, match="one dimension and type"):
        load_model(out.getvalue())


def test_a_zip_file_of_something_else():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("word/document.xml", "<xml>")
    with pytest.raises(ModelFormatError, match=r"not an odmlib model: a zip file with 'word/document.xml'"):
        load_model(out.getvalue())


def test_two_arrays_of_one_name():
    out = io.BytesIO(binary(ONE))
    with zipfile.ZipFile(out, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("header.npy", b"")
    with pytest.raises(ModelFormatError, match="two arrays of one name"):
        load_model(out.getvalue())


def test_counts_take_no_memory_on_their_word():
    """An array that claims 2^40 numbers; numpy.load would try to take the memory."""
    data = binary(ONE)
    arrays = arrays_of(data)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in arrays.items():
            text = io.BytesIO()
            np.lib.format.write_array(text, array)
            content = text.getvalue().replace(b"(4,), }         ", b"(1099511627776,), }")
            archive.writestr(f"{name}.npy", content[: len(text.getvalue())])
    tracemalloc.start()
    try:
        with pytest.raises(ModelFormatError):
            load_model(out.getvalue())
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_what_unpacks_to_much_is_refused():
    """A zip bomb: deflate packs zeros a thousand times."""
    bomb = packed(arrays_of(binary(ONE)) | {"SV_values": np.zeros(1 << 24)}, compressed=True)
    assert len(bomb) < 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(ModelFormatError, match=r"unpacks to more than .* --max-unpacked"):
            load_model(bomb)
        with pytest.raises(ModelFormatError, match="unpacks to more than 1000 bytes"):
            load_model(packed(arrays_of(binary(ONE)), compressed=True), max_unpacked=1000)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()
    assert load_model(binary(ONE), max_unpacked=0).n_features == 6  # nothing in it is packed


@pytest.mark.parametrize("kind", ["linear", "rbf", "poly ovo", "precomputed"])
def test_damaged_files_raise_our_error_and_nothing_else(kind):
    """Cut off, with bytes changed, with pieces doubled: an error of ours, or a model that can be written."""
    data = binary(make_model(kind))
    chance = random.Random(5)
    n_refused = 0
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(4, len(damaged))
            match chance.randrange(4):
                case 0:
                    damaged[place] = chance.randrange(256)
                case 1:
                    del damaged[place:]
                case 2:
                    damaged[place:place] = damaged[: chance.randrange(60)]
                case _:
                    damaged[place : place + 4] = struct.pack("<I", chance.choice([0, 1, 2**31, 2**32 - 1]))
            if len(damaged) < 6:
                break
        try:
            load_model(bytes(damaged)).to_bytes()
        except OdmError:
            n_refused += 1
    assert n_refused > 200


def test_a_damaged_number_is_seen():
    data = bytearray(binary(ONE))
    place = data.index(struct.pack("<d", 2.5e10))
    data[place] ^= 1
    with pytest.raises(ModelFormatError, match="checksum"):
        load_model(bytes(data))


def test_a_large_model_is_smaller_than_its_text(tmp_path):
    rng = np.random.default_rng(0)
    model = make_model("rbf", n_features=50)
    vectors = Dataset.from_any(rng.normal(size=(500, 50)))
    function = type(model.function)(model.formula, vectors, rng.normal(size=500))
    model = make_model("rbf", n_features=50, function=function)
    assert len(binary(model)) < 0.5 * len(model.to_bytes())
