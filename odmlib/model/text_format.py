"""The model file: text, versioned, self-describing, and read without trust.

    odmlib model 1
    machine odm
    kernel rbf
    ...                      one `key value` per line, any order, each key of the machine exactly once
    support_vectors 3        or: weights 13
    SV                       or: w
    0.5 1:0.25 3:-1          coefficient, then the vector as in a data file (precomputed: 0:serial)
    ...                      w: `column 1:weight`, columns ascending from 1; column 0 is the bias feature's
    end

Models of several outputs (key `scheme`, model/schemes.py) have `column 1:weight 2:weight ...` with a weight
per output, or a section of coefficients before the vectors; an output without an entry has 0:

    coefficients
    1 1:0.5 3:-0.25          number of the vector, then output:coefficient
    ...
    SV
    1 1:0.25 3:-1            number of the vector, then the vector

A model that sends rows to one of K regions (key `regions`, RoutedFunction in model/functions.py) has 2 K
columns of coefficients, and as many offsets, though it has one output.

Optional keys: scheme (binary where it is missing), offsets (one per output, 0 where missing),
margin_quantiles, and those of model/extras.py. `status converted` says that another program trained the
model; what it does not tell (C, objective, gap, margins ...) is then missing. Numbers are written so that
they read back exactly. Counts in the header are only compared with what the file holds; no memory is taken
on their word. Nothing in the file depends on the clock or on threads.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from odmlib._version import __version__
from odmlib.data.dataset import Dataset, from_entries
from odmlib.data.files import Source, Target, open_input, open_output
from odmlib.data.labels import write_labels
from odmlib.data.writing import format_blocks
from odmlib.errors import DataFormatError, ModelFormatError, ParameterError
from odmlib.model.functions import KernelFunction, LinearFunction, PrecomputedFunction, RoutedFunction
from odmlib.model.model import Model
from odmlib.model.text_reader import ModelReader

MAGIC = "odmlib model"
VERSION = 1
FOREIGN = {
    "svm_type": "a LIBSVM model; odm-convert makes it ours",
    "solver_type": "a LIBLINEAR model; odm-convert makes it ours",
    "<": "an HTML or XML page",
}


# ---------------------------------------------------------------------------------------- writing


def save_model(model: Model, target: Target) -> None:
    with open_output(target) as stream:
        for piece in model_text(model):
            stream.write(piece)


def model_text(model: Model) -> Iterator[bytes]:
    """The model file in pieces."""
    header = "".join(f"{key} {value}\n" for key, value in _header(model))
    yield f"{MAGIC} {VERSION}\n{header}".encode()
    function = model.function
    match function:
        case LinearFunction():
            columns, terms = _written_weights(function)
            yield b"w\n"
            yield from format_blocks(terms, columns + 1.0)
        case KernelFunction(_, vectors, terms):
            leading = yield from _leading_numbers(terms)
            yield b"SV\n"
            yield from format_blocks(vectors, leading)
        case PrecomputedFunction(serials, terms):
            leading = yield from _leading_numbers(terms)
            yield b"SV\n"
            yield from format_blocks(_one_column(serials.astype(np.float64)), leading, zero_based=True)
    yield b"end\n"


def _leading_numbers(terms: Dataset) -> Generator[bytes, None, Any]:
    """The numbers that start the lines of the vectors; several outputs are written in a section before."""
    if terms.n_features == 1:
        return terms.to_dense()[:, 0]
    numbers = np.arange(1.0, terms.n_rows + 1)
    yield b"coefficients\n"
    yield from format_blocks(terms, numbers)
    return numbers


def _written_weights(function: LinearFunction) -> tuple[Any, Dataset]:
    """Columns with a weight that is not 0, the bias feature as column -1 before them, and their weights."""
    columns, terms = function.columns.astype(np.int64), function.terms
    bias = Dataset.from_any(function.bias_weights.reshape(1, -1))
    entries = [np.concatenate(pair) for pair in (
        (bias.row_of_each(), terms.row_of_each() + 1),
        (bias.indices, terms.indices),
        (bias.values, terms.values),
    )]  # fmt: skip
    rows, outputs, values = (part[entries[2] != 0] for part in entries)
    used, places = np.unique(rows, return_inverse=True)
    all_columns = np.concatenate([[-1], columns])
    return all_columns[used], from_entries(places, outputs, values, (len(used), function.n_outputs))


def _header(model: Model) -> Iterator[tuple[str, object]]:
    try:
        label_type, labels = write_labels(model.labels)
    except ValueError as error:
        raise ParameterError(str(error)) from None
    report = model.report
    yield "tool", f"odmlib {__version__}"
    yield "machine", model.machine
    yield "kernel", model.formula.name
    for name, value in model.parameters.items():
        yield name, value if isinstance(value, str) else _number_text(value)
    if model.scheme != "binary":
        yield "scheme", model.scheme
    yield "label_type", label_type
    yield "labels", labels
    yield "features", model.n_features
    yield "zero_based", int(model.zero_based)
    for name in ("rows", "nonzeros", "status", "solver", "iterations"):
        if report[name] is not None:  # of a model that another program trained
            yield name, report[name]
    for name in ("primal", "dual", "gap"):
        if report[name] is not None:
            yield name, _number_text(report[name])
    for name, value in report["margin"].items():
        yield (
            f"margin_{name}",
            _numbers_text(value.values()) if isinstance(value, dict) else _number_text(value),
        )
    if report["seed"] is not None:
        yield "seed", report["seed"]
    for key, numbers in model.extras.items():
        yield key, _numbers_text(numbers)
    if model.function.offsets.any():
        yield "offsets", _numbers_text(model.function.offsets)
    if isinstance(model.function, RoutedFunction):
        yield "regions", model.function.n_regions
    match model.function:
        case LinearFunction():
            yield "weights", len(_written_weights(model.function)[0])
        case KernelFunction() | PrecomputedFunction():
            yield "support_vectors", model.function.n_vectors


def _number_text(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


def _numbers_text(values: Any) -> str:
    return " ".join(_number_text(value) for value in values)


def _one_column(values: Any) -> Dataset:
    """Rows of one value each, in the first column."""
    n = len(values)
    return Dataset(np.arange(n + 1, dtype=np.int64), np.zeros(n, np.int32), np.array(values, np.float64), 1)


# ---------------------------------------------------------------------------------------- reading


def load_model(source: Source) -> Model:
    """Read a model file: a path, `-` for standard input, an open file, or bytes; packed or not.

    Everything in the file is checked before it is believed; a fault raises ModelFormatError with its place.
    """
    text = bytearray()
    try:
        with open_input(source) as stream:
            name = stream.name
            while len(text) < len(MAGIC) + 1 and (more := stream.read(1 << 16)):
                text += more
            check_magic(bytes(text[:200]), name)
            while more := stream.read(1 << 20):
                text += more
    except DataFormatError as error:  # a packed file that does not unpack
        raise ModelFormatError(error.message, error.path, error.line, error.column) from None
    return ModelReader(text, name).model()


def check_magic(start: bytes, name: str) -> None:
    line = start.split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    if line.startswith(MAGIC + " "):
        version = line[len(MAGIC) :].strip()
        if version == str(VERSION):
            return
        if version.isascii() and version.isdigit() and int(version) > VERSION:
            raise ModelFormatError(
                f"the file has format {version}, made by a newer odmlib; this one reads format {VERSION}",
                name,
                1,
            )
        raise ModelFormatError(f"expected '{MAGIC} {VERSION}', found '{line[:60]}'", name, 1)
    hint = next((f" (this looks like {what})" for mark, what in FOREIGN.items() if line.startswith(mark)), "")
    found = f"'{line[:60]}'" if line else "nothing" if not start else "an empty line"
    raise ModelFormatError(f"not an odmlib model: expected '{MAGIC} {VERSION}', found {found}{hint}", name, 1)
