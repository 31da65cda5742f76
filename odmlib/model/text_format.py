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

Numbers are written so that they read back exactly. Counts in the header are only compared with what the
file holds; no memory is taken on their word. Nothing in the file depends on the clock or on threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from odmlib._version import __version__
from odmlib.data.dataset import MAX_FEATURES, Dataset
from odmlib.data.files import Source, Target, open_input, open_output
from odmlib.data.labels import python_label, read_labels, write_labels
from odmlib.data.reading import parse_rows
from odmlib.data.writing import format_blocks
from odmlib.errors import DataFormatError, ModelFormatError, ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.model.functions import Function, KernelFunction, LinearFunction, PrecomputedFunction
from odmlib.model.model import Model
from odmlib.names import KERNELS, READY_MACHINES

MAGIC = "odmlib model"
VERSION = 1
MACHINES = READY_MACHINES  # those whose models this version reads
STATUSES = ("converged", "max_iter", "time_limit", "stopped", "stalled")
MAX_HEADER_BYTES = 1 << 20
FOREIGN = {
    "svm_type": "a LIBSVM model",
    "solver_type": "a LIBLINEAR model",
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
    match model.function:
        case LinearFunction(columns, weights, _, bias_weight):
            columns, weights = columns[weights != 0], weights[weights != 0]
            if bias_weight:
                columns = np.concatenate([[-1], columns.astype(np.int64)])
                weights = np.concatenate([[bias_weight], weights])
            yield b"w\n"
            yield from format_blocks(_one_column(weights), (columns + 1).astype(np.float64))
        case KernelFunction(_, vectors, coefficients):
            yield b"SV\n"
            yield from format_blocks(vectors, coefficients)
        case PrecomputedFunction(serials, coefficients, _):
            yield b"SV\n"
            yield from format_blocks(_one_column(serials.astype(np.float64)), coefficients, zero_based=True)
    yield b"end\n"


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
        yield name, _number_text(value)
    yield "label_type", label_type
    yield "labels", labels
    yield "features", model.n_features
    yield "zero_based", int(model.zero_based)
    for name in ("rows", "nonzeros", "status", "solver", "iterations"):
        yield name, report[name]
    for name in ("primal", "dual", "gap"):
        yield name, _number_text(report[name])
    for name, value in report["margin"].items():
        yield f"margin_{name}", _number_text(value)
    yield "seed", report["seed"]
    match model.function:
        case LinearFunction(_, weights, _, bias_weight):
            yield "weights", int(np.count_nonzero(weights)) + (1 if bias_weight else 0)
        case KernelFunction(_, _, coefficients) | PrecomputedFunction(_, coefficients, _):
            yield "support_vectors", len(coefficients)


def _number_text(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


def _one_column(values: Any) -> Dataset:
    """Rows of one value each, in the first column."""
    n = len(values)
    return Dataset(np.arange(n + 1, dtype=np.int64), np.zeros(n, np.int32), np.array(values, np.float64), 1)


# ---------------------------------------------------------------------------------------- reading


def load_model(source: Source) -> Model:
    """Read a model file: a path, `-` for standard input, an open file, or bytes."""
    text = bytearray()
    try:
        with open_input(source) as stream:
            name = stream.name
            while len(text) < len(MAGIC) + 1 and (more := stream.read(1 << 16)):
                text += more
            _check_magic(bytes(text[:200]), name)
            while more := stream.read(1 << 20):
                text += more
    except DataFormatError as error:  # a packed file that does not unpack
        raise ModelFormatError(error.message, error.path, error.line, error.column) from None
    return _Reader(text, name).model()


def _check_magic(start: bytes, name: str) -> None:
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


class _Reader:
    """One model file on its way to a Model; `take` hands out header fields and remembers what is left."""

    def __init__(self, text: bytearray, name: str):
        self.name = name
        self.text = text
        self.fields: dict[str, tuple[str, int]] = {}
        self.body_start, self.body_line, self.section = self._read_header()

    def fault(self, message: str, line: int = 0) -> ModelFormatError:
        return ModelFormatError(message, self.name, line)

    def _read_header(self) -> tuple[int, int, str]:
        place, line_number = self.text.find(b"\n") + 1, 1
        while 0 < place < len(self.text):
            line_number += 1
            end = self.text.find(b"\n", place)
            if end < 0 or end > MAX_HEADER_BYTES:
                break
            try:
                line = self.text[place:end].decode("utf-8").rstrip("\r")
            except UnicodeDecodeError:
                raise self.fault("the header holds bytes that are not UTF-8 text", line_number) from None
            place = end + 1
            if line in ("SV", "w"):
                return place, line_number + 1, line
            key, _, value = line.partition(" ")
            if not key or not value.strip():
                raise self.fault(f"expected 'key value', found '{line[:60]}'", line_number)
            if key in self.fields:
                raise self.fault(f"'{key}' stands twice, first in line {self.fields[key][1]}", line_number)
            self.fields[key] = (value.strip(), line_number)
        raise self.fault("the file ends inside the header (cut off?): no line 'SV' or 'w'", line_number)

    def take(self, key: str, convert: Callable[[str], Any], expected: str) -> Any:
        """A header field, converted; it must be there."""
        if key not in self.fields:
            raise self.fault(f"'{key}' is missing from the header")
        value, line = self.fields.pop(key)
        try:
            return convert(value)
        except ValueError as error:
            detail = (
                str(error) if isinstance(error, _Explained) else f"expected {expected}, found '{value[:60]}'"
            )
            raise self.fault(f"{key}: {detail}", line) from None

    def model(self) -> Model:
        machine = self.take("machine", _one_of(MACHINES), "a machine: " + ", ".join(MACHINES))
        formula, parameters = self._parameters()
        tool = self.take("tool", str, "the program that made the file")
        label_type = self.take("label_type", str, "a type of label")
        labels = self.take("labels", lambda text: _labels(label_type, text), "labels")
        if len(labels) != 2 or labels[0] == labels[1]:
            raise self.fault(f"labels: expected two different labels, found {labels.tolist()}")
        n_features = self.take("features", _whole(MAX_FEATURES), f"a whole number up to {MAX_FEATURES}")
        zero_based = self.take("zero_based", _one_of(("0", "1")), "0 or 1") == "1"
        report = self._report(machine, formula, parameters, labels, n_features, tool)
        function = self._function(formula, n_features)
        if self.fields:
            key, (_, line) = next(iter(self.fields.items()))
            raise self.fault(f"unknown key '{key[:60]}'", line)
        report["support_vectors"] = (
            None if isinstance(function, LinearFunction) else len(function.coefficients)
        )
        return Model(machine, formula, labels, n_features, function, parameters, report, zero_based)

    def _parameters(self) -> tuple[KernelFormula, dict[str, Any]]:
        kernel = self.take("kernel", _one_of(KERNELS), "a kernel: " + ", ".join(KERNELS))
        ranges = {
            "C": _real(0, math.inf),
            "lambda": _real(0, math.inf),
            "nu": _real(0, 1),
            "theta": _real(0, math.nextafter(1, 0)),
            "bias": _real(0, math.inf),
            "tol": _real(0, 1),
        }
        parameters = {key: self.take(key, convert, "a number in range") for key, convert in ranges.items()}
        kernel_ranges: dict[str, Callable[[str], Any]] = {
            "gamma": _real(0, math.inf),
            "degree": _whole(1000),
            "coef0": _real(-math.inf, math.inf),
        }
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
        self, machine: str, formula: KernelFormula, parameters: dict, labels: Any, n_features: int, tool: str
    ) -> dict[str, Any]:
        count, real = _whole(2**63 - 1), _real(-math.inf, math.inf)
        report = {
            "version": tool.removeprefix("odmlib "),
            "machine": machine,
            "kernel": formula.name,
            "parameters": dict(parameters),
            "rows": self.take("rows", count, "a count"),
            "features": n_features,
            "nonzeros": self.take("nonzeros", count, "a count"),
            "labels": [python_label(label) for label in labels],
            "status": self.take("status", _one_of(STATUSES), "one of " + ", ".join(STATUSES)),
            "solver": self.take("solver", str, "a name"),
            "iterations": self.take("iterations", count, "a count"),
        }
        report["primal"] = self.take("primal", real, "a number")
        for key in ("dual", "gap"):  # not known where training was stopped very early
            report[key] = self.take(key, _real(-math.inf, math.inf, finite=False), "a number")
        report |= {"seconds": None, "threads": None, "seed": self.take("seed", count, "a count")}
        report["margin"] = {
            key: self.take(f"margin_{key}", real, "a number") for key in ("mean", "variance", "min")
        }
        return report

    def _function(self, formula: KernelFormula, n_features: int) -> Function:
        linear = formula.name == "linear"
        section, count_key = ("w", "weights") if linear else ("SV", "support_vectors")
        if self.section != section:
            raise self.fault(
                f"expected the line '{section}' for kernel {formula.name}, found '{self.section}'",
                self.body_line - 1,
            )
        claimed = self.take(count_key, _whole(2**63 - 1), "a count")
        rows, leading = self._body(1 if linear or formula.name == "precomputed" else n_features, formula.name)
        if rows.n_rows != claimed:
            raise self.fault(f"the header says {claimed} {count_key}, the file holds {rows.n_rows}")
        if linear:
            return self._linear(rows, leading, formula.bias, n_features)
        if formula.name == "precomputed":
            return self._precomputed(rows, leading, formula.bias, n_features)
        return KernelFunction(formula, rows, leading)

    def _body(self, width: int, kernel: str) -> tuple[Dataset, Any]:
        end = len(self.text) - 1 if self.text.endswith(b"\n") else len(self.text)
        last = max(self.body_start, self.text.rfind(b"\n", 0, end) + 1)
        if self.text[last:end].removesuffix(b"\r") != b"end":
            raise self.fault("the last line must be 'end': the file is cut off or has something behind it")
        return parse_rows(
            memoryview(self.text)[self.body_start : last],
            self.name,
            first_line=self.body_line,
            features=width,
            zero_based=kernel == "precomputed",
            error=ModelFormatError,
            strict_lines=True,
        )

    def _linear(self, rows: Dataset, leading: Any, bias: float, n_features: int) -> LinearFunction:
        """Rows are `column 1:weight`."""
        self._check_whole(leading, 0, n_features, "column")
        if np.any(np.diff(leading) <= 0):
            raise self.fault(
                "columns must ascend", self.body_line + int(np.argmax(np.diff(leading) <= 0)) + 1
            )
        weights = self._one_value_each(rows)
        columns = leading.astype(np.int64) - 1
        bias_weight = 0.0
        if len(columns) and columns[0] == -1:
            if not bias:
                raise self.fault(
                    "a weight of the bias feature (column 0) in a model without bias", self.body_line
                )
            bias_weight, columns, weights = float(weights[0]), columns[1:], weights[1:]
        return LinearFunction(columns.astype(np.int32), weights, bias, bias_weight)

    def _precomputed(self, rows: Dataset, leading: Any, bias: float, n_features: int) -> PrecomputedFunction:
        """Rows are `coefficient 0:serial`."""
        serials = self._one_value_each(rows)
        self._check_whole(serials, 1, n_features, "serial")
        return PrecomputedFunction(serials.astype(np.int64), leading, bias)

    def _one_value_each(self, rows: Dataset) -> Any:
        lengths = np.diff(rows.indptr)
        if np.any(lengths != 1):
            raise self.fault(
                "expected exactly one entry in the line", self.body_line + int(np.argmax(lengths != 1))
            )
        return rows.values

    def _check_whole(self, numbers: Any, low: int, high: int, what: str) -> None:
        wrong = (numbers != np.floor(numbers)) | (numbers < low) | (numbers > high)
        if wrong.any():
            place = int(np.argmax(wrong))
            raise self.fault(
                f"expected a {what} from {low} to {high}, found {numbers[place]:g}", self.body_line + place
            )


class _Explained(ValueError):
    """A ValueError whose own words tell the user more than `expected ..., found ...`."""


def _labels(kind: str, text: str) -> Any:
    try:
        return read_labels(kind, text)
    except ValueError as error:
        raise _Explained(str(error)) from None


def _one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if text not in names:
            raise ValueError
        return text

    return convert


def _whole(most: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) > most:
            raise ValueError
        return int(text)

    return convert


def _real(low: float, high: float, finite: bool = True) -> Callable[[str], float]:
    def convert(text: str) -> float:
        value = float(text)
        if "_" in text or (finite and math.isinf(value)) or not low <= value <= high:
            raise ValueError
        return value

    return convert
