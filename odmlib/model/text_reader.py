"""Reading a model file without trust; the format is at the head of text_format.py.

Every count is compared with what the file holds before memory is taken on its word.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from odmlib.data.dataset import MAX_FEATURES, Dataset
from odmlib.data.labels import python_label, read_labels, show_labels
from odmlib.data.reading import parse_rows
from odmlib.errors import ModelFormatError, ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.model.extras import EXTRAS, extra_count, read_extra
from odmlib.model.functions import (
    Function,
    KernelFunction,
    LinearFunction,
    PrecomputedFunction,
    RoutedFunction,
    as_terms,
)
from odmlib.model.model import Model
from odmlib.model.schemes import n_outputs
from odmlib.names import CONVERTED, KERNELS, MACHINES, QUANTILES, SCHEMES, STATUSES
from odmlib.parameters import MAX_DEGREE, PARAMETERS, parameter_names

MAX_HEADER_BYTES = 1 << 24
FREE_OUTPUTS = 1 << 20  # more outputs than this must be backed by as many bytes of the file


class ModelReader:
    """One model file on its way to a Model; `take` hands out header fields and remembers what is left."""

    sections: tuple[str, ...] = ("SV", "coefficients", "w")  # lines that end the header
    has_magic = True  # a first line that says what the file is

    def __init__(self, text: bytearray, name: str):
        self.name = name
        self.text = text
        self.fields: dict[str, tuple[str, int]] = {}
        self.body_start, self.body_line, self.section = self._read_header()
        self.converted = self.fields.get("status", ("", 0))[0] == CONVERTED

    def fault(self, message: str, line: int = 0) -> ModelFormatError:
        return ModelFormatError(message, self.name, line)

    def _read_header(self) -> tuple[int, int, str]:
        place, line_number = (self.text.find(b"\n") + 1, 1) if self.has_magic else (0, 0)
        while (place > 0 or not line_number) and place < len(self.text):
            line_number += 1
            end = self.text.find(b"\n", place)
            if end < 0 or end > MAX_HEADER_BYTES:
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
            detail = (
                str(error) if isinstance(error, _Explained) else f"expected {expected}, found '{value[:60]}'"
            )
            raise self.fault(f"{key}: {detail}", line) from None

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
        label_type = self.take("label_type", str, "a type of label")
        labels = self.take("labels", lambda text: _labels(label_type, text), "labels")
        if scheme == "binary" and (len(labels) != 2 or labels[0] == labels[1]):
            raise self.fault(f"labels: expected two different labels, found {show_labels(labels)}")
        if len(labels) < 2 or len(set(labels.tolist())) != len(labels):
            raise self.fault(f"labels: expected two or more different labels, found {show_labels(labels)}")
        outputs = n_outputs(scheme, len(labels))
        if outputs > max(FREE_OUTPUTS, len(self.text)):
            raise self.fault(
                f"labels: {len(labels)} classes make {outputs} outputs, more than the file can hold"
            )
        n_features = self.take("features", _whole(MAX_FEATURES), f"a whole number up to {MAX_FEATURES}")
        zero_based = self.take("zero_based", _one_of(("0", "1")), "0 or 1") == "1"
        report = self._report(machine, formula, parameters, scheme, labels, n_features, tool)
        function = self._function(formula, n_features, outputs)
        extras = {}
        for key in EXTRAS:
            count = extra_count(key, outputs, len(labels))
            numbers = self.take_if_there(key, partial(read_extra, count=count), f"{count} numbers", None)
            if numbers is not None:
                extras[key] = numbers
        if len({key in extras for key in ("probability_slopes", "probability_offsets")}) > 1:
            raise self.fault("probability_slopes and probability_offsets belong together; one is missing")
        if self.fields:
            key, (_, line) = next(iter(self.fields.items()))
            raise self.fault(f"unknown key '{key[:60]}'", line)
        report["support_vectors"] = None if isinstance(function, LinearFunction) else function.n_vectors
        return Model(
            machine, formula, labels, n_features, function, parameters, report, zero_based, scheme, extras
        )

    def _parameters(self, machine: str) -> tuple[KernelFormula, dict[str, Any]]:
        kernel = self.take("kernel", _one_of(KERNELS), "a kernel: " + ", ".join(KERNELS))
        parameters = {
            name: self.take_if_known(name, PARAMETERS[name].read, PARAMETERS[name].expected)
            for name in parameter_names(machine)
        }
        if parameters["bias"] is None:
            raise self.fault("'bias' is missing from the header")
        parameters = {name: value for name, value in parameters.items() if value is not None}
        kernel_ranges: dict[str, Callable[[str], Any]] = {
            "gamma": _real(0, math.inf),
            "degree": _whole(MAX_DEGREE),
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
        self,
        machine: str,
        formula: KernelFormula,
        parameters: dict,
        scheme: str,
        labels: Any,
        n_features: int,
        tool: str,
    ) -> dict[str, Any]:
        count, real = _whole(2**63 - 1), _real(-math.inf, math.inf)
        report = {
            "version": tool.removeprefix("odmlib "),
            "machine": machine,
            "kernel": formula.name,
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
        report["primal"] = self.take_if_known("primal", real, "a number")
        for key in ("dual", "gap"):  # not known where training was stopped very early
            report[key] = self.take_if_known(key, _real(-math.inf, math.inf, finite=False), "a number")
        report |= {"seconds": None, "threads": None, "seed": self.take_if_known("seed", count, "a count")}
        margin = {
            key: self.take_if_known(f"margin_{key}", real, "a number") for key in ("mean", "variance", "min")
        }
        report["margin"] = {key: value for key, value in margin.items() if value is not None}
        quantiles = self.take_if_there(
            "margin_quantiles", partial(read_extra, count=len(QUANTILES)), f"{len(QUANTILES)} numbers", None
        )
        if quantiles is not None:
            report["margin"]["quantiles"] = dict(zip(QUANTILES, quantiles, strict=True))
        return report

    def _function(self, formula: KernelFormula, n_features: int, outputs: int) -> Function:
        linear = formula.name == "linear"
        most = len(self.text)  # a line for each, at least
        regions = self.take_if_there("regions", _whole(most), f"a whole number up to {most}", 0)
        if regions:
            if linear or formula.name == "precomputed" or outputs > 1:
                raise self.fault("regions: only a kernel machine of two classes may have them")
            outputs = 2 * regions
        section, count_key = ("w", "weights") if linear else ("SV", "support_vectors")
        if not linear and outputs > 1:
            section = "coefficients"
        if self.section != section:
            kind = f"kernel {formula.name}" + (" and several outputs" if section == "coefficients" else "")
            raise self.fault(
                f"expected the line '{section}' for {kind}, found '{self.section}'", self.body_line - 1
            )
        claimed = self.take(count_key, _whole(2**63 - 1), "a count")
        expected = f"{outputs} number" + ("s" if outputs > 1 else "")
        offsets = self.take_if_there("offsets", partial(read_extra, count=outputs), expected, None)
        end = self._body_end()
        if linear:
            rows, leading = self._rows(self.body_start, end, outputs)
            self._check_count(rows.n_rows, claimed, count_key)
            return self._linear(rows, leading, formula.bias, n_features, offsets)
        terms = None
        if outputs > 1:
            terms, end_of_terms = self._coefficients(end, outputs)
            self._check_count(terms.n_rows, claimed, count_key)
            self.body_line += terms.n_rows + 1
            self.body_start = end_of_terms
        width = 1 if formula.name == "precomputed" else n_features
        rows, leading = self._rows(self.body_start, end, width, zero_based=formula.name == "precomputed")
        self._check_count(rows.n_rows, claimed, count_key)
        if terms is None:
            terms = as_terms(leading, len(leading))
        else:
            self._check_numbering(leading)
        if formula.name == "precomputed":
            serials = self._one_value_each(rows)
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

    def _rows(self, start: int, end: int, width: int, zero_based: bool = False) -> tuple[Dataset, Any]:
        return parse_rows(
            memoryview(self.text)[start:end],
            self.name,
            first_line=self.body_line,
            features=width,
            zero_based=zero_based,
            error=ModelFormatError,
            strict_lines=True,
        )

    def _coefficients(self, end: int, outputs: int) -> tuple[Dataset, int]:
        """The section of coefficients, and where the vectors begin behind it."""
        for mark in (b"\nSV\n", b"\nSV\r\n"):
            place = self.text.find(mark, self.body_start - 1, end)
            if place >= 0:
                terms, leading = self._rows(self.body_start, place + 1, outputs)
                self._check_numbering(leading)
                return terms, place + len(mark)
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
        if np.any(np.diff(leading) <= 0):
            raise self.fault(
                "columns must ascend", self.body_line + int(np.argmax(np.diff(leading) <= 0)) + 1
            )
        empty = np.diff(rows.indptr) == 0
        if empty.any():
            expected = "exactly one entry" if rows.n_features == 1 else "at least one entry"
            raise self.fault(f"expected {expected} in the line", self.body_line + int(np.argmax(empty)))
        columns = leading.astype(np.int64) - 1
        bias_weights = np.zeros(rows.n_features)
        if len(columns) and columns[0] == -1:
            if not bias:
                raise self.fault(
                    "a weight of the bias feature (column 0) in a model without bias", self.body_line
                )
            first = rows.take(np.array([0]))
            bias_weights[first.indices] = first.values
            columns, rows = columns[1:], rows.take(np.arange(1, rows.n_rows))
        return LinearFunction(columns.astype(np.int32), rows, bias, bias_weights, offsets)

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
