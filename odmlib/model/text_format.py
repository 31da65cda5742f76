"""The model file: text or binary, versioned, self-describing, and read without trust.

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

A model of regression (scheme regression) has the key `outputs` instead of `label_type` and `labels`.

Optional keys: scheme (binary where it is missing), columns (names of the features, JSON strings), offsets
(one per output, 0 where missing), margin_quantiles, compressed_from (support vectors before odm-compress),
and EXTRAS and LISTS of text_writer.py.
`status converted` says that another program trained the model; what it does not tell (C, objective, gap,
margins ...) is then missing. Numbers are written so that they read back exactly. Counts in the header are
only compared with what the file holds; no memory is taken on their word. Nothing in the file depends on the
clock or on threads.

The binary form is numpy's npz (npz_file.py). The array `header` is the text up to the first section's line;
each section has arrays of its leading numbers and of its rows: SV_leading, SV_starts, SV_columns, SV_values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.data._reader import parse_number
from odmlib.data.dataset import MAX_FEATURES, Dataset
from odmlib.data.files import Input, Source, open_input, unpacked_limit
from odmlib.data.labels import are_distinct, python_label, read_labels, show_labels
from odmlib.data.reading import parse_rows
from odmlib.errors import DataFormatError, ModelFormatError, ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.machines.declarations import DECLARATIONS
from odmlib.model.functions import (
    Function,
    KernelFunction,
    LinearFunction,
    PrecomputedFunction,
    RoutedFunction,
)
from odmlib.model.model import Model
from odmlib.model.schemes import n_outputs
from odmlib.model.text_writer import EXTRA_LENGTHS, EXTRAS, LISTS, MAGIC, VERSION, array_names
from odmlib.names import CONVERTED, KERNELS, MACHINES, QUANTILES, SCHEMES, STATUSES
from odmlib.parameters import MAX_DEGREE, parameter_kind, parameter_names

DATA_LINE = re.compile(rb"[-+.\deE]+([ \t]+\d+:|[ \t]*\r?\n|,|$)")  # a row of LIBSVM's format, or of CSV
FOREIGN_KEYS = {b"svm_type": "libsvm", b"solver_type": "liblinear"}  # of their headers
FOREIGN_FORMS = tuple(FOREIGN_KEYS.values())
BINARY_MAGIC = b"PK\x03\x04"  # of a zip file
FREE_OUTPUTS = 1 << 20  # more outputs than this must be backed by as many bytes of the file


def load_model(source: Source, max_unpacked: int | None = None) -> Model:
    """Read a model file: a path, `-` for standard input, an open file, or bytes; packed or not.

    It may be text or binary. Models of LIBSVM and LIBLINEAR are read, too; `load_foreign_model` also takes
    their number of features. Everything in the file is checked before it is believed; a fault raises
    ModelFormatError with its place. A packed file may unpack to `max_unpacked` bytes, by default to 200 times
    its size and 64 MB.
    """
    text, name = read_text(source, max_unpacked)
    if (form := form_of(text)) in FOREIGN_FORMS:
        # by name: the readers of other programs' files are made of this module's
        return import_module("odmlib.model.foreign.files").foreign_model(text, name, form)
    return reader_of(text, name, max_unpacked).model()


def reader_of(data: bytearray | memoryview, name: str, max_unpacked: int | None) -> ModelReader:
    """The reader of a model of ours."""
    if isinstance(data, memoryview):
        return BinaryReader(data, name, unpacked_limit(len(data), max_unpacked))
    check_magic(bytes(data[:200]), name)
    return ModelReader(data, name)


def form_of(text: bytes | bytearray | memoryview) -> str | None:
    """`odmlib`, `binary` (ours, too), `libsvm`, `liblinear`, or None."""
    if isinstance(text, memoryview):
        return "binary"
    if text.startswith(MAGIC.encode()):
        return "odmlib"
    lines = bytes(text[: 1 << 16]).splitlines()[:50]  # both headers are short; keys may stand in any order
    keys = {line.split(b" ")[0] for line in lines}
    return next((form for key, form in FOREIGN_KEYS.items() if key in keys), None)


def read_text(source: Source, max_unpacked: int | None) -> tuple[bytearray | memoryview, str]:
    """A model file, a memoryview if it is binary, and its name; a file that is no model is refused before it
    is read."""
    text = bytearray()
    try:
        with open_input(source, max_unpacked, small=True) as stream:
            while len(text) < len(MAGIC) + 1 and (more := stream.read(1 << 16)):
                text += more
            if text.startswith(BINARY_MAGIC):
                return read_binary(stream, text), stream.name
            if form_of(text) not in FOREIGN_FORMS:
                check_magic(bytes(text[:200]), stream.name)
            while more := stream.read(1 << 20):
                text += more
    except DataFormatError as error:  # a packed file that does not unpack
        raise ModelFormatError(error.message, error.path, error.line, error.column) from None
    return text, stream.name


def read_binary(stream: Input, start: bytearray) -> memoryview:
    """The rest of a file behind its start; into memory of the right size where the system knows it."""
    buffer = np.empty(max(stream.known_size() + 1, 2 * len(start)), np.uint8)
    buffer[: len(start)] = start
    filled = len(start)
    while count := stream.readinto(buffer.data[filled:]):
        filled += count
        if filled == len(buffer):
            buffer = np.concatenate([buffer, np.empty(len(buffer), np.uint8)])
    return buffer.data[:filled]


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
    hint = ""
    if line.startswith("<"):
        hint = " (this looks like an HTML or XML page)"
    elif DATA_LINE.match(start):
        hint = " (this looks like a data file; are the files in the right order?)"
    found = f"'{line[:60]}'" if line else "nothing" if not start else "an empty line"
    raise ModelFormatError(f"not an odmlib model: expected '{MAGIC} {VERSION}', found {found}{hint}", name, 1)


class ModelReader:
    """One model file on its way to a Model; `take` hands out header fields and remembers what is left."""

    sections: tuple[str, ...] = ("SV", "coefficients", "w")  # lines that end the header
    has_magic = True  # a first line that says what the file is

    def __init__(self, text: bytearray, name: str):
        self.name = name
        self.text = text
        self.size = len(text)  # bytes of the file: nothing in it may ask for much more memory
        self.section_end: tuple[int, int] | None = None  # of the section before: place and line
        self.fields: dict[str, tuple[str, int]] = {}
        self.body_start, self.body_line, self.first_section = self._read_header()
        self.converted = self.fields.get("status", ("", 0))[0] == CONVERTED

    def fault(self, message: str, line: int = 0) -> ModelFormatError:
        return ModelFormatError(message, self.name, line)

    def _read_header(self) -> tuple[int, int, str]:
        place, line_number = (self.text.find(b"\n") + 1, 1) if self.has_magic else (0, 0)
        while (place > 0 or not line_number) and place < len(self.text):
            line_number += 1
            end = self.text.find(b"\n", place)
            if end < 0:
                break
            try:
                line = self.text[place:end].decode("utf-8").rstrip("\r")
            except UnicodeDecodeError:
                raise self.fault("the header holds bytes that are not UTF-8 text", line_number) from None
            place = end + 1
            if line in self.sections:
                return place, line_number + 1, line
            key, _, value = line.partition(" ")
            if not key or not value.strip():
                raise self.fault(f"expected 'key value', found '{line[:60]}'", line_number)
            if key in self.fields:
                raise self.fault(f"'{key}' stands twice, first in line {self.fields[key][1]}", line_number)
            self.fields[key] = (value.strip(), line_number)
        wanted = " or ".join(f"'{name}'" for name in self.sections)
        raise self.fault(f"the file ends inside the header (cut off?): no line {wanted}", line_number)

    def take(self, key: str, convert: Callable[[str], Any], expected: str) -> Any:
        """A header field, converted; it must be there."""
        if key not in self.fields:
            raise self.fault(f"'{key}' is missing from the header")
        value, line = self.fields.pop(key)
        try:
            return convert(value)
        except ValueError as error:
            explained = isinstance(error, _Explained)
            detail = str(error) if explained else f"expected {expected}, found '{value[:60]}'"
            raise self.fault(f"{key}: {detail}", line) from None

    def take_numbers(self, key: str, count: int) -> Floats:
        """A header field of so many finite numbers."""

        def convert(text: str) -> Floats:
            numbers = [parse_number(word.encode()) for word in text.split()]
            if len(numbers) != count or any(n is None or not math.isfinite(n) for n in numbers):
                raise ValueError
            return np.array(numbers, dtype=np.float64)

        return self.take(key, convert, f"{count} number" + ("s" if count != 1 else ""))

    def refuse_rest(self) -> None:
        if self.fields:
            key, (_, line) = next(iter(self.fields.items()))
            raise self.fault(f"unknown key '{key[:60]}'", line)

    def take_if_there(self, key: str, convert: Callable[[str], Any], expected: str, default: Any) -> Any:
        return self.take(key, convert, expected) if key in self.fields else default

    def take_if_known(self, key: str, convert: Callable[[str], Any], expected: str) -> Any:
        """A header field that only a model which another program trained may lack: None."""
        if self.converted:
            return self.take_if_there(key, convert, expected, None)
        return self.take(key, convert, expected)

    def model(self) -> Model:
        machine = self.take("machine", _one_of(MACHINES), "a machine: " + ", ".join(MACHINES))
        formula, parameters = self._parameters(machine)
        tool = self.take("tool", str, "the program that made the file")
        scheme = self.take_if_there("scheme", _one_of(SCHEMES), "one of " + ", ".join(SCHEMES), "binary")
        if (scheme == "regression") != (DECLARATIONS[machine].learns == "targets"):
            raise self.fault(f"scheme: machine {machine} has no models of scheme {scheme}")
        labels, outputs = self._labels_and_outputs(scheme)
        n_features = self.take("features", whole(MAX_FEATURES), f"a whole number up to {MAX_FEATURES}")
        zero_based = self.take("zero_based", _one_of(("0", "1")), "0 or 1") == "1"
        columns = self.take_if_there("columns", partial(_columns, n_features), "names of the features", None)
        report = self._report(machine, formula.name, parameters, scheme, labels, n_features, tool)
        function = self._function(formula, n_features, outputs)
        extras = {
            key: tuple(self.take_numbers(key, EXTRA_LENGTHS.get(key, outputs)).tolist())
            for key in EXTRAS
            if key in self.fields
        }
        if len({key in extras for key in ("probability_slopes", "probability_offsets")}) > 1:
            raise self.fault("probability_slopes and probability_offsets belong together; one is missing")
        lists = self._lists()
        self.refuse_rest()
        report["support_vectors"] = function.n_vectors
        return Model(
            machine,
            formula,
            labels,
            n_features,
            function,
            parameters,
            report,
            zero_based,
            scheme,
            extras,
            lists,
            columns=columns,
        )

    def _lists(self) -> dict[str, tuple[float, ...]]:
        found: dict[str, tuple[float, ...]] = {}
        for pair in LISTS:
            for key in pair:
                if key in self.fields:
                    count = self.fields[key][0].count(" ") + 1
                    found[key] = tuple(self.take_numbers(key, count).tolist())
            if len({len(found.get(key, ())) for key in pair}) > 1:
                raise self.fault(f"{' and '.join(pair)} must be equally long")
            for key in pair:
                if any(before > behind for before, behind in pairwise(found.get(key, ()))):
                    raise self.fault(f"{key}: expected numbers that ascend")
        return found

    def _labels_and_outputs(self, scheme: str) -> tuple[Any, int]:
        if scheme == "regression":
            most = max(FREE_OUTPUTS, self.size)
            return np.empty(0), self.take("outputs", whole(most, least=1), "a count of outputs")
        label_type = self.take("label_type", str, "a type of label")
        labels = self.take("labels", lambda text: _labels(label_type, text), "labels")
        if scheme == "binary" and (len(labels) != 2 or labels[0] == labels[1]):
            raise self.fault(f"labels: expected two different labels, found {show_labels(labels)}")
        if len(labels) < 2 or not are_distinct(labels):
            raise self.fault(f"labels: expected two or more different labels, found {show_labels(labels)}")
        outputs = n_outputs(scheme, len(labels))
        if outputs > max(FREE_OUTPUTS, self.size):
            raise self.fault(
                f"labels: {len(labels)} classes make {outputs} outputs, more than the file can hold"
            )
        return labels, outputs

    def _parameters(self, machine: str) -> tuple[KernelFormula, dict[str, Any]]:
        kernel = self.take("kernel", _one_of(KERNELS), "a kernel: " + ", ".join(KERNELS))
        kinds = {name: parameter_kind(machine, name) for name in parameter_names(machine)}
        parameters = {
            name: self.take_if_known(name, kind.checked, kind.expected) for name, kind in kinds.items()
        }
        if parameters["bias"] is None:
            raise self.fault("'bias' is missing from the header")
        parameters = {name: value for name, value in parameters.items() if value is not None}
        kernel_ranges: dict[str, Callable[[str], Any]]
        kernel_ranges = {"gamma": partial(_real, least=0), "degree": whole(MAX_DEGREE), "coef0": _real}
        numbers = {
            key: self.take(key, kernel_ranges[key], "a number in range")
            for key in KernelFormula(kernel).parameter_names
        }
        try:
            formula = KernelFormula(kernel, bias=parameters["bias"], **numbers)
        except ParameterError as error:
            raise self.fault(str(error)) from None
        return formula, parameters | numbers

    def _report(
        self,
        machine: str,
        kernel: str,
        parameters: dict,
        scheme: str,
        labels: Any,
        n_features: int,
        tool: str,
    ) -> dict[str, Any]:
        count = whole(2**63 - 1)
        report = {
            "version": tool.removeprefix("odmlib "),
            "machine": machine,
            "kernel": kernel,
            "parameters": dict(parameters),
            "rows": self.take_if_known("rows", count, "a count"),
            "features": n_features,
            "nonzeros": self.take_if_known("nonzeros", count, "a count"),
            "scheme": scheme,
            "labels": [python_label(label) for label in labels],
            "status": self.take("status", _one_of((*STATUSES, CONVERTED)), "one of " + ", ".join(STATUSES)),
            "solver": self.take("solver", str, "a name"),
            "iterations": self.take_if_known("iterations", count, "a count"),
        }
        report["primal"] = self.take_if_known("primal", _real, "a number")
        for key in ("dual", "gap"):  # not known where training was stopped very early
            report[key] = self.take_if_known(key, partial(_real, finite=False), "a number")
        report |= {"seconds": None, "threads": None, "seed": self.take_if_known("seed", count, "a count")}
        margin = {
            key: self.take_if_known(f"margin_{key}", _real, "a number") for key in ("mean", "variance", "min")
        }
        report["margin"] = {key: value for key, value in margin.items() if value is not None}
        if (before := self.take_if_there("compressed_from", count, "a count", None)) is not None:
            report["compressed_from"] = before
        if "margin_quantiles" in self.fields:
            quantiles = self.take_numbers("margin_quantiles", len(QUANTILES)).tolist()
            report["margin"]["quantiles"] = dict(zip(QUANTILES, quantiles, strict=True))
        return report

    def _function(self, formula: KernelFormula, n_features: int, outputs: int) -> Function:
        linear = formula.name == "linear"
        most = self.size  # a line for each, at least
        regions = self.take_if_there("regions", whole(most), f"a whole number up to {most}", 0)
        if regions:
            if linear or formula.name == "precomputed" or outputs > 1:
                raise self.fault("regions: only a kernel machine of two classes may have them")
            outputs = 2 * regions
        section, count_key = ("w", "weights") if linear else ("SV", "support_vectors")
        if not linear and outputs > 1:
            section = "coefficients"
        if self.first_section != section:
            kind = f"kernel {formula.name}" + (" and several outputs" if section == "coefficients" else "")
            raise self.fault(
                f"expected the line '{section}' for {kind}, found '{self.first_section}'", self.body_line - 1
            )
        claimed = self.take(count_key, whole(2**63 - 1), "a count")
        offsets = self.take_numbers("offsets", outputs) if "offsets" in self.fields else None
        if linear:
            rows, leading = self.section("w", outputs)
            self._check_count(rows.n_rows, claimed, count_key)
            return self._linear(rows, leading, formula.bias, n_features, offsets)
        terms: Any = None
        if outputs > 1:
            terms, numbers = self.section("coefficients", outputs)
            self._check_numbering(numbers)
            self._check_count(terms.n_rows, claimed, count_key)
        width = 1 if formula.name == "precomputed" else n_features
        rows, leading = self.section("SV", width, zero_based=formula.name == "precomputed")
        self._check_count(rows.n_rows, claimed, count_key)
        if terms is None:
            terms = leading
        else:
            self._check_numbering(leading)
        if formula.name == "precomputed":
            self._refuse_line(np.diff(rows.indptr) != 1, "expected exactly one entry in the line")
            serials = rows.values
            self._check_whole(serials, 1, n_features, "serial")
            return PrecomputedFunction(serials.astype(np.int64), terms, formula.bias, offsets)
        if regions > rows.n_rows:
            raise self.fault(
                f"regions: expected at most one for each of {rows.n_rows} vectors, found {regions}"
            )
        return (RoutedFunction if regions else KernelFunction)(formula, rows, terms, offsets)

    def _check_count(self, found: int, claimed: int, what: str) -> None:
        if found != claimed:
            raise self.fault(f"the header says {claimed} {what}, the file holds {found}")

    def _body_end(self) -> int:
        """Where the last line, which must be `end`, begins."""
        end = len(self.text) - 1 if self.text.endswith(b"\n") else len(self.text)
        last = max(self.body_start, self.text.rfind(b"\n", 0, end) + 1)
        if self.text[last:end].removesuffix(b"\r") != b"end":
            raise self.fault("the last line must be 'end': the file is cut off or has something behind it")
        return last

    def _rows(
        self, text: bytes | memoryview, width: int | None, zero_based: bool = False
    ) -> tuple[Dataset, Floats]:
        """Lines of the body, from line `body_line` on."""
        return parse_rows(
            text, self.name, self.body_line, width, zero_based, ModelFormatError, strict_lines=True
        )

    def section(self, name: str, width: int, zero_based: bool = False) -> tuple[Dataset, Floats]:
        """Rows and leading numbers of the next section."""
        if self.section_end is not None:
            self.body_start, self.body_line = self.section_end
        end = after = self._body_end()
        if name == "coefficients":
            end, after = self._coefficients_end(end)
        rows, leading = self._rows(memoryview(self.text)[self.body_start : end], width, zero_based)
        self.section_end = after, self.body_line + rows.n_rows + 1
        return rows, leading

    def _coefficients_end(self, end: int) -> tuple[int, int]:
        """Where the coefficients end, and where the vectors begin behind them."""
        for mark in (b"\nSV\n", b"\nSV\r\n"):
            place = self.text.find(mark, self.body_start - 1, end)
            if place >= 0:
                return place + 1, place + len(mark)
        raise self.fault("expected a line 'SV' behind the coefficients")

    def _check_numbering(self, leading: Any) -> None:
        wrong = leading != np.arange(1, len(leading) + 1)
        if wrong.any():
            place = int(np.argmax(wrong))
            raise self.fault(
                f"expected the vector's number {place + 1}, found {leading[place]:g}", self.body_line + place
            )

    def _linear(
        self, rows: Dataset, leading: Any, bias: float, n_features: int, offsets: Any
    ) -> LinearFunction:
        """Rows are `column output:weight ...`."""
        self._check_whole(leading, 0, n_features, "column")
        self._refuse_line(np.diff(leading, prepend=-1) <= 0, "columns must ascend")
        expected = "exactly one entry" if rows.n_features == 1 else "at least one entry"
        self._refuse_line(np.diff(rows.indptr) == 0, f"expected {expected} in the line")
        columns = leading.astype(np.int64) - 1
        bias_weights = np.zeros(rows.n_features)
        if len(columns) and columns[0] == -1:
            if not bias:
                raise self.fault(
                    "a weight of the bias feature (column 0) in a model without bias", self.body_line
                )
            first = rows.part(0, 1)
            bias_weights[first.indices] = first.values
            columns, rows = columns[1:], rows.part(1, rows.n_rows)
        return LinearFunction(columns.astype(np.int32), rows, bias, bias_weights, offsets)

    def _refuse_line(self, wrong: Any, message: str) -> None:
        if np.any(wrong):
            raise self.fault(message, self.body_line + int(np.argmax(wrong)))

    def _check_whole(self, numbers: Any, low: int, high: int, what: str) -> None:
        wrong = (numbers != np.floor(numbers)) | (numbers < low) | (numbers > high)
        if wrong.any():
            place = int(np.argmax(wrong))
            raise self.fault(
                f"expected a {what} from {low} to {high}, found {numbers[place]:g}", self.body_line + place
            )


class BinaryReader(ModelReader):
    """A binary model file: the header is text, the sections are arrays."""

    def __init__(self, data: memoryview, name: str, most: int):
        from odmlib.model.npz_file import read_npz  # zip files load half of the standard library

        self.arrays = read_npz(data, name, most)
        header = self.arrays.pop("header", np.zeros(0, np.uint8)).tobytes()
        check_magic(header[:200], name)
        super().__init__(bytearray(header), name)
        self.size = len(data)

    def section(self, name: str, width: int, zero_based: bool = False) -> tuple[Dataset, Floats]:
        names = array_names(name)
        missing = [name for name in names if name not in self.arrays]
        if missing:
            raise self.fault(f"the array '{missing[0]}' is missing")
        leading, starts, columns, values = (self.arrays.pop(name) for name in names)
        if not leading.dtype.kind == values.dtype.kind == "f" or not np.isfinite(leading).all():
            raise self.fault(f"{names[0]} and {names[3]} must hold finite numbers of type float64")
        try:
            rows = Dataset(starts, columns, values, width)
        except ParameterError as error:
            raise self.fault(f"{name}: {error}") from None
        if len(leading) != rows.n_rows:
            raise self.fault(f"{names[0]} holds {len(leading)} numbers for {rows.n_rows} rows")
        return rows, leading

    def model(self) -> Model:
        model = super().model()
        if self.arrays:
            raise self.fault(f"unknown array '{next(iter(self.arrays))[:60]}'")
        return model


class _Explained(ValueError):
    """A ValueError whose own words tell the user more than `expected ..., found ...`."""


def _labels(kind: str, text: str) -> Any:
    try:
        return read_labels(kind, text)
    except ValueError as error:
        raise _Explained(str(error)) from None


def _columns(n_features: int, text: str) -> tuple[str, ...]:
    """The features' names, JSON strings parted by blanks."""
    names = tuple(str(name) for name in _labels("str", text))
    if len(names) != n_features:
        raise _Explained(f"expected {n_features} names, found {len(names)}")
    if len(set(names)) < len(names):
        raise _Explained("two features have the same name")
    return names


def _one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if text not in names:
            raise ValueError
        return text

    return convert


def whole(most: int, least: int = 0) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not text.isascii() or not text.isdigit() or len(text) > 19 or not least <= int(text) <= most:
            raise ValueError
        return int(text)

    return convert


def _real(text: str, least: float = -math.inf, finite: bool = True) -> float:
    value = float(text)
    if "_" in text or (finite and math.isinf(value)) or not value >= least:
        raise ValueError
    return value
